"""What a table of places says about them beside totals: who lives there, counted by group, and covariates.

``count_groups(places, by, {"race": ["white", "black"]})`` makes people of counts: a row for every place and group, weighing as many as
there are. ``learn_covariates(table, names)`` and ``covariates.read(table)`` give numbers and levels of places as columns of a regression.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.columns import is_categorical
from crosslevel.data.people import People
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.typing import FloatArray

N_PEOPLE = "n_people"
"""Column of made people: how many a row stands for."""
WHOLE = 0.005
"""How far counts may be off the number of people, and shares off one, for rounding."""
ROUNDING = 1e-12
"""Range of a covariate, relative to its largest number, that is rounding."""


def read_groups(groups: Any) -> dict[str, dict[str, str]]:
    """Read which columns of places count the levels of which column of people: column, then level, then column of places.

    Examples
    --------
    >>> read_groups({"race": ["white", "black"], "sex": {"women": "F", "men": "M"}})
    {'race': {'white': 'white', 'black': 'black'}, 'sex': {'women': 'F', 'men': 'M'}}
    """
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            f"groups={groups!r} is no mapping of a column of people to columns of places; pass "
            "groups={'race': ['white', 'black', 'other']}."
        )
    out: dict[str, dict[str, str]] = {}
    for name, levels in groups.items():
        found = dict(levels) if isinstance(levels, Mapping) else {n: n for n in checks.read_list(levels, "groups")}
        frames.as_names(tuple(found.values()), f"groups[{name!r}]")
        frames.as_names((name, *found), f"groups[{name!r}]")
        if len(found) < 2:
            raise InputError(f"groups[{name!r}] has the one level {listed(found)}; name all groups, two or more.")
        if name == N_PEOPLE:
            raise InputError(f"groups names a column {N_PEOPLE!r}, which holds the number of people; rename it.")
        out[name] = {str(level): str(column) for level, column in found.items()}
    return out


@dataclass(frozen=True)
class GroupCounts:
    """Counts of groups in columns of places, in place of records of people; they are taken as exact.

    Parameters
    ----------
    groups : mapping of column to columns of places
        ``{"race": ["white", "black", "other"]}``, or with names of the levels, ``{"race": {"white": "vap_white", ...}}``. Several
        columns count as independent within a place.
    weight : str, optional
        Column of places with the number of people, of which ``groups`` then may hold shares.

    Examples
    --------
    >>> GroupCounts({"race": ["white", "black"]}).groups
    {'race': {'white': 'white', 'black': 'black'}}
    """

    groups: Mapping[str, Any]
    weight: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", read_groups(self.groups))
        if self.weight is not None and not isinstance(self.weight, str):
            raise InputError(f"weight={self.weight!r} is not a column name; names are text here.")

    def people(self, places: pa.Table, by: str) -> People:
        """Make people of the counts: a row for every place and group, weighing as many as there are."""
        return People(count_groups(places, by, self.groups, self.weight), by=by, weight=N_PEOPLE)


def count_groups(
    table: pa.Table,
    by: str,
    groups: Mapping[str, Mapping[str, str]],
    weight: str | None,
) -> pa.Table:
    """Make people of counts: a row for every place and group that somebody is in, with how many there are.

    With several columns their shares are multiplied: within a place the columns are taken as independent.

    Parameters
    ----------
    table : pyarrow.Table
        Places.
    by : str
        Column that names the place.
    groups : mapping of column to mapping of level to column of places
        Counts; where ``weight`` is given, counts that add up to it or shares that add up to one.
    weight : str or None
        Column of places: how many people; the sum of the first column's counts when not given.

    Examples
    --------
    >>> places = pa.table({"town": ["a", "b"], "white": [30, 40], "black": [70, 0]})
    >>> count_groups(places, "town", {"race": {"w": "white", "b": "black"}}, None).to_pydict()
    {'town': ['a', 'b', 'a'], 'race': ['w', 'w', 'b'], 'n_people': [30.0, 40.0, 70.0]}
    """
    frames.check_columns(table, [by], "by")
    keys = table[by].to_pylist()
    shares: list[dict[str, FloatArray]] = []
    total = None if weight is None else _read(table, weight, "weight", keys)
    for name, levels in groups.items():
        counts = {level: _read(table, column, "groups", keys) for level, column in levels.items()}
        whole = np.sum(list(counts.values()), axis=0)
        total = whole if total is None else total
        empty = (whole <= 0) & (total > 0)
        if empty.any():
            raise InputError(
                f"groups: {int(empty.sum()):,} place(s) have people and nobody in any level of {name!r}, first "
                f"{keys[int(np.argmax(empty))]!r}; give counts of all levels there, or leave these places out."
            )
        if weight is not None:
            # rounding apart: shares of everybody, or counts of everybody
            off = (np.abs(whole - 1) > WHOLE) & (np.abs(whole - total) > WHOLE * total) & (total > 0)
            if off.any():
                i = int(np.argmax(off))
                raise InputError(
                    f"groups[{name!r}] adds up to {whole[i]:,.10g} in {keys[i]!r}, neither to 1 nor to the {total[i]:,.10g} of "
                    f"weight={weight!r} ({int(off.sum()):,} place(s)); add a column for the others, give shares of 1, or leave weight out."
                )
        shares.append({level: v / np.where(whole > 0, whole, 1.0) for level, v in counts.items()})
    assert total is not None
    parts = []
    for levels_ in itertools.product(*shares):
        n = total * np.prod([s[level] for s, level in zip(shares, levels_, strict=True)], axis=0)
        rows = np.flatnonzero(n > 0)
        own: dict[str, Any] = {by: table[by].take(pa.array(rows))}
        own |= {name: pa.repeat(pa.scalar(level), len(rows)) for name, level in zip(groups, levels_, strict=True)}
        parts.append(pa.table({**own, N_PEOPLE: n[rows]}))
    return pa.concat_tables(parts)


def _read(table: pa.Table, name: str, argument: str, keys: Sequence[object]) -> FloatArray:
    return checks.check_counts(frames.column(table, name, argument), f"{argument} column {name!r}", 1, keys)


@dataclass(frozen=True, eq=False)
class Covariates:
    """How columns of places become columns of a regression.

    Attributes
    ----------
    names : tuple of str
    scale : tuple of (mean, standard deviation), one for each column of numbers, None for others
    levels : tuple of tuple, one for each column that holds no numbers, None for others
    """

    names: tuple[str, ...]
    scale: tuple[tuple[float, float] | None, ...]
    levels: tuple[tuple[Any, ...] | None, ...]

    def read(self, table: pa.Table) -> FloatArray:
        """Give the columns of places, (q, k): numbers standardized, a column for every level of others, zero where it is unknown."""
        out = []
        for name, scale, levels in zip(self.names, self.scale, self.levels, strict=True):
            if scale is not None:
                values = checks.check_finite(frames.column(table, name, "covariates"), f"covariates column {name!r}", 1)
                out.append(((values - scale[0]) / scale[1])[:, None])
            else:
                frames.check_columns(table, [name], "covariates")
                _refuse_nulls(table[name], name)
                values = np.array([str(v) for v in table[name].to_pylist()])
                unknown = sorted(set(values.tolist()) - set(levels or ()))
                if unknown:
                    warnings.warn(
                        f"covariates column {name!r} has {listed(unknown)}, which the fit has not seen; places there have no effect of it.",
                        CrosslevelWarning,
                        stacklevel=2,
                    )
                out.append((values[:, None] == np.array(levels)).astype(np.float64))
        return np.hstack(out)


def _refuse_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        raise InputError(
            f"covariates column {name!r} has {column.null_count:,} missing values; fill them, or drop them."
        )


def learn_covariates(table: pa.Table, names: Sequence[str]) -> Covariates:
    """Learn means and scales of numbers, and levels of other columns.

    Examples
    --------
    >>> table = pa.table({"density": [1.0, 3.0], "kind": ["city", "land"]})
    >>> learn_covariates(table, ["density", "kind"]).read(table).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    chosen = frames.as_names(names, "covariates")
    scales: list[tuple[float, float] | None] = []
    levels: list[tuple[Any, ...] | None] = []
    frames.check_columns(table, list(chosen), "covariates")
    for name in chosen:
        column = table[name]
        _refuse_nulls(column, name)
        if is_categorical(column.type, name):
            found = tuple(sorted({str(v) for v in column.to_pylist()}))
            if len(found) < 2:
                raise InputError(f"covariates column {name!r} has one value in all places; leave it out.")
            scales.append(None)
            levels.append(found)
            continue
        values = checks.check_finite(frames.column(table, name, "covariates"), f"covariates column {name!r}", 1)
        power = int(np.frexp(np.abs(values).max())[1])
        near_one = np.ldexp(values, -power)  # the digits are the same, and squares can be held
        if not np.ptp(near_one) > ROUNDING:
            raise InputError(f"covariates column {name!r} is {values[0]:g} in all places; leave it out.")
        scales.append((float(np.ldexp(near_one.mean(), power)), float(np.ldexp(near_one.std(), power))))
        levels.append(None)
    return Covariates(chosen, tuple(scales), tuple(levels))
