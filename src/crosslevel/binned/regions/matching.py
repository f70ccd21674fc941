"""What is told of regions in their order: matched by names, or by the limits that an index has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from crosslevel.binned.regions.base import Regions, name_text
from crosslevel.binned.regions.boxes import Intervals, read_age
from crosslevel.data.checks import align_groups, check_one_order, names_of, row_keys, take_rows
from crosslevel.errors import InputError, listed
from crosslevel.typing import IntArray

_BRACKETS = re.compile(r"[(\[]\s*([^,\s]+)\s*,\s*([^,\s]+)\s*[)\]]")
"""An interval as pandas writes it."""
NEAR = 0.2
"""Share of its width by which a named interval may miss its region: limits are rounded, and (4, 9] are the ages [5, 10)."""


def align_to_regions(
    regions: Regions, y: Any, *, argument: str = "y", points: list[Any] | None = None, **others: Any
) -> tuple[Any, ...]:
    """Put what is told of regions in their order: by the names of polygons or age groups, or, without names, by the index of y.

    ``points`` is the index of a frame or Series of points, by which all is matched.

    Examples
    --------
    >>> import pandas as pd
    >>> bins = Intervals([0, 10], [10, 30])
    >>> y, people = pd.Series([3, 4], index=["old", "young"]), pd.Series([90, 80], index=["young", "old"])
    >>> [values.tolist() for values in align_to_regions(bins, y, exposure=people)]
    [[3, 4], [80, 90]]
    >>> align_to_regions(Intervals.ages(["0-17", "18-99"]), pd.Series([7, 2], index=["18-99", "0-17"]))[0].tolist()
    [2, 7]
    >>> align_to_regions(bins, pd.Series([4, 3], index=[10, 0]))[0].tolist()
    [3, 4]
    """
    given = {argument: y, **others}
    if points is not None:
        return tuple(align_groups(values, points, name) for name, values in given.items())
    own = set(row_keys(y) or ())  # what has the index of y follows y
    rows = {
        name: None if name != argument and own and set(row_keys(v) or ()) == own else _by_limits(regions, v, name)
        for name, v in given.items()
    }
    found = {name: v if rows[name] is None else np.asarray(v)[rows[name]] for name, v in given.items()}
    order = rows[argument]
    keys = row_keys(y if order is None else take_rows(y, order))
    names = _names(regions)
    if not names or (regions.dimension == 1 and len(set(names)) < len(names)):  # age groups of several areas
        if keys is None:
            check_one_order(found)
        return tuple(align_groups(values, keys, name) for name, values in found.items())
    if regions.dimension > 1:
        return tuple(align_groups(_named_by_text(v, names, name), names, name) for name, v in found.items())
    rest = names if _carries(found[argument], names) else keys
    return tuple(
        align_groups(_with_text(v), names, name) if _carries(v, names) else align_groups(v, rest, name)
        for name, v in found.items()
    )


def _by_limits(regions: Regions, values: Any, argument: str) -> IntArray | None:
    """Find the rows, in the order of the regions, of values whose index are the intervals themselves or their limits; None if not."""
    keys, names = names_of(values), _names(regions)
    if keys is None or np.ndim(values) != 1 or len(keys) != len(regions) or not isinstance(regions, Intervals):
        return None
    if names and len(set(names)) == len(names) and _carries(values, names):
        return None
    told = [_limits(key) for key in keys]
    if any(limits is None for limits in told):
        return None
    bins = all(hasattr(key, "left") or str(key).strip()[0] in "([" for key in keys)
    said = np.array(told, dtype=np.float64)
    said[np.isinf(said)] = np.nan  # an open end says nothing
    near = NEAR * np.where(np.isinf(regions.volumes), 0.0, regions.volumes) if bins else np.zeros(len(keys))
    ends = np.hstack(regions.bounds())
    for known in (
        (said, said[:, ::-1]) if np.isnan(said[:, 1]).all() else (said,)
    ):  # one limit is the lower, or else the upper
        same = (np.isnan(known[:, None]) | (np.abs(known[:, None] - ends) <= near[:, None] + 1e-9)).all(axis=2)
        if np.diagonal(same).all():
            return np.arange(len(keys))
        if (same.sum(axis=0) == 1).all() and (same.sum(axis=1) == 1).all():
            if all(type(k) is int and 0 <= k <= 2 * len(keys) for k in keys) and values.index.name is None:
                raise InputError(
                    f"{argument} has the index {listed(keys, 3)}, without a name: limits, or numbers of rows? Name the index "
                    f"({argument}.rename_axis('lower')), or pass {argument}.to_numpy() in the order of the regions."
                )
            return np.argmax(same, axis=0)
        bins = bins or bool(same.any(axis=0).all())
    if bins:
        raise InputError(
            f"{argument} is named by the intervals {listed(keys, 3)}, which are not those of the regions, each once (limits "
            f"{listed(ends.tolist(), 3)}); make both from the same limits, or pass an array in the order of the regions."
        )
    return None


def _limits(key: Any) -> tuple[float, float] | None:
    """Read the limits in an index: an interval, its text, an age group, or one limit."""
    if isinstance(getattr(key, "left", None), Real):
        return float(key.left), float(key.right)
    if type(key) in (int, float):
        return float(key), np.nan
    try:
        cut = _BRACKETS.fullmatch(key.strip())
        return (float(cut[1]), float(cut[2])) if cut else read_age(key.replace(",", ""), "index")
    except (AttributeError, ValueError):
        return None


def _names(regions: Regions) -> list[str]:
    return [name_text(name) for name in getattr(regions, "names", None) or ()]


def _carries(values: Any, names: list[str]) -> bool:
    """Tell whether values are told of by age group: a key column, an index of text, or the ages themselves in any order."""
    if isinstance(values, Mapping) or getattr(values, "shape", ())[1:] == (2,):
        return True
    keys = names_of(values)
    return keys is not None and (any(isinstance(k, str) for k in keys) or {name_text(k) for k in keys} == set(names))


def _named_by_text(values: Any, names: list[str], argument: str) -> Any:
    """Write the index of a Series as text, as the names of polygons are; one that only counts stays where no name is its number."""
    keys = row_keys(values)
    if keys is None:
        return values
    counting = [str(i) for i in range(len(keys))]
    if [name_text(k) for k in keys] == counting and (names == counting or set(names) != set(counting)):
        return values
    if names_of(values) is None:
        raise InputError(
            f"{argument} has an index that only counts from 0, and the polygons are named by the same numbers in another order "
            f"({listed(names, 3)}). Pass {argument}.to_numpy() if its rows are in the order of the polygons; if its index are their "
            "names, name or sort it so."
        )
    return _with_text(values)


def _with_text(values: Any) -> Any:
    """Write the index of a Series as text."""
    keys = row_keys(values)
    return values if keys is None else values.set_axis([name_text(k) for k in keys], axis=0)
