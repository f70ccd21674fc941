"""Means published by place, matched by name with the places that people live in.

``read_means(places, partitions)`` gives one :class:`Published` for every hidden feature, and the sentences about what was left
out; ``check_range`` refuses means that no feature of a range can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data.columns import missing_codes
from crosslevel.data.places import POPULATION, Means, Places, read_by_key
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

LARGEST_SHARE_ERROR = 0.5
"""No estimate of a share has a larger standard error: sqrt(s (1 - s) / n)."""
FEWEST_OTHERS = 5
"""Means beside which one that is further away than their range, and a code of missing values, is taken for one."""


@dataclass(frozen=True)
class Partition:
    """One way in which people are divided.

    Attributes
    ----------
    name : str
        The column of people that names the group.
    labels : tuple
        The groups, in sorted order.
    """

    name: str
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Published:
    """The published means of one hidden feature for one partition.

    Attributes
    ----------
    name : str
        The hidden feature.
    partition : int
        Number of the partition.
    mean : (P,)
        NaN where none was published.
    se : (P,)
        Published standard errors; NaN where there are none.
    elsewhere : bool
        Whether the means are those of a population, of whom the people are a part or not, and move with their errors.
    """

    name: str
    partition: int
    mean: FloatArray
    se: FloatArray
    elsewhere: bool = False


def read_means(
    places: Sequence[Places], partitions: Sequence[Partition]
) -> tuple[tuple[Published, ...], tuple[str, ...]]:
    """Read the published means and their errors: one entry per hidden feature, and what was left out.

    Examples
    --------
    >>> places = Places({"town": ["b", "a"], "ill": [0.5, 0.1]}, by="town", means=["ill"])
    >>> found, _ = read_means([places], [Partition("town", ("a", "b"))])
    >>> found[0].name, found[0].mean.tolist()
    ('ill', [0.1, 0.5])
    """
    out: list[Published] = []
    warnings: list[str] = []
    for j, (place, p) in enumerate(zip(places, partitions, strict=True)):
        means = place.published
        assert isinstance(means, Means)
        table = place.table.select(list(dict.fromkeys([place.by, *means.names, *means.errors.values()])))
        repair = " (with an empty mean where none was published) or leave these people out"
        columns, spare = read_by_key(table, p.labels, "places", key=place.by, repair=repair)
        if spare:
            warnings.append(
                f"places has {len(spare):,} group(s) without people, {listed(spare)}; nothing can be learned from them and they were "
                "left out."
            )
        for name in means.names:
            mean = columns[name]
            se = columns[means.errors[name]] if name in means.errors else np.full(len(p), np.nan)
            _check_means(name, p, mean, se)
            if np.nanmin(mean) >= 0 and np.nanmax(mean) <= 1 and (se > LARGEST_SHARE_ERROR).any():
                first = int(np.argmax(se > LARGEST_SHARE_ERROR))
                warnings.append(
                    f"the standard error of {name!r} is {se[first]:g} in {p.labels[first]!r}, beside means between 0 and 1; a share has "
                    f"none above {LARGEST_SHARE_ERROR:g}. If these are percentage points, divide them by 100."
                )
            out.append(Published(name, j, mean, se, means.of == POPULATION))
    names = [one.name for one in out]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"places has the means of {twice[0]!r} for several partitions; pass those of the finest.")
    return tuple(out), tuple(warnings)


def _check_means(name: str, partition: Partition, mean: FloatArray, se: FloatArray) -> None:
    if np.isinf(mean).any():
        first = int(np.argmax(np.isinf(mean)))
        raise InputError(
            f"places: the mean of {name!r} is infinite in {partition.labels[first]!r}; correct it or leave it out."
        )
    if (se < 0).any() or np.isinf(se).any():
        first = int(np.argmax((se < 0) | np.isinf(se)))
        raise InputError(
            f"places: the standard error of {name!r} is {se[first]:g} in {partition.labels[first]!r}; it must be finite and >= 0."
        )
    given = int((~np.isnan(mean)).sum())
    if given < 2:
        raise InputError(f"places: {name!r} has a mean in {given} of {len(partition)} groups; at least two are needed.")
    codes = missing_codes(mean, 1)
    others = mean[~np.isnan(mean) & ~np.isin(mean, codes)]
    odd = [v for v in codes if len(others) >= FEWEST_OTHERS and (abs(v) > 9 or v < 0 <= others.min())]
    if odd:
        raise InputError(
            f"places: the mean of {name!r} is {odd[0]:g} in {partition.labels[int(np.argmax(mean == odd[0]))]!r}, and all others are "
            f"between {others.min():g} and {others.max():g}; {odd[0]:g} is a code of missing values. Leave this mean empty (NaN)."
        )


def check_range(published: Published, partition: Partition, low: float, high: float) -> None:
    """Refuse means that no feature of this range can have.

    Examples
    --------
    >>> p = Published("ill", 0, np.array([0.1, 1.5]), np.full(2, np.nan))
    >>> check_range(p, Partition("state", ("AK", "AL")), 0, 1)
    Traceback (most recent call last):
    crosslevel.errors.InputError: places: the mean of 'ill' is 1.5 in 'AL' ...
    """
    bad = (published.mean < low) | (published.mean > high)
    if bad.any():
        first = int(np.argmax(bad))
        value = published.mean[first]
        known = published.mean[~np.isnan(published.mean)]
        percent = high == 1.0 and value > 1.0 and known.max() <= 100.0 and known.min() >= 0.0
        hint = " These look like percent: divide by 100." if percent else ""
        limits = f"between {low:g} and {high:g}" if np.isfinite(high) else f"at least {low:g}"
        raise InputError(
            f"places: the mean of {published.name!r} is {value:g} in {partition.labels[first]!r} and "
            f"{int(bad.sum()):,} of {len(bad):,} means lie outside the possible range; a mean must be {limits}.{hint}"
        )
