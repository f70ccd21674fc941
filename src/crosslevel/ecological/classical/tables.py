"""Counts by unit: who lives there (groups) and what they did (outcomes).

A *unit* is the smallest place with totals (precinct, county, region). Its two margins are known, its inner table is
the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data import checks, frames, grouping
from crosslevel.data.fingerprint import fingerprint
from crosslevel.errors import InputError, listed

__all__ = ["UnitTables", "group_counts", "unit_tables"]

FloatArray = npt.NDArray[np.float64]

MARGIN_TOLERANCE = 1e-6
"""Largest relative difference between a unit's two totals that is taken for rounding: far above float error in sums of
survey weights, far below one person in a unit of 100,000."""


@dataclass(frozen=True)
class UnitTables:
    """The margins of every unit, checked.

    Attributes
    ----------
    X : (n_units, n_groups)
        People of each group in each unit.
    T : (n_units, n_outcomes)
        People with each outcome in each unit.
    groups, outcomes : tuple of str
        Names of the columns of X and T.
    units : tuple
        Names of the rows.
    dropped : tuple
        Names of units without people, left out.
    frame : kind of dataframe to answer with.
    fingerprints : mapping of argument to content hash.
    """

    X: FloatArray
    T: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: tuple[object, ...]
    dropped: tuple[object, ...]
    frame: frames.FrameKind
    fingerprints: dict[str, str]

    @property
    def N(self) -> FloatArray:
        """(n_units,) people in each unit."""
        return self.X.sum(axis=1)


def unit_tables(groups: object, outcomes: object, units: Sequence[object] | None = None) -> UnitTables:
    """Check counts by unit and bring the two margins together.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Units x groups and units x outcomes, in counts and in the same order of units. Every column of a dataframe is a
        group (an outcome) of that name.
    units : sequence, optional
        Names of the units; ``0 .. n - 1`` when not given.

    Examples
    --------
    >>> tables = unit_tables({"young": [30, 10], "old": [70, 40]}, {"yes": [50, 20], "no": [50, 30]})
    >>> tables.groups, tables.N.tolist()
    (('young', 'old'), [100.0, 50.0])
    """
    if frames.is_frame(groups) and frames.is_frame(outcomes) and not frames.same_rows(groups, outcomes):
        raise InputError(
            "groups and outcomes have different row labels (index), so their rows cannot be paired; bring them into one order "
            "and call .reset_index(drop=True) on both."
        )
    X_table, T_table = _as_table(groups, "groups", "group"), _as_table(outcomes, "outcomes", "outcome")
    n = X_table.num_rows
    if T_table.num_rows != n:
        raise InputError(f"groups has {n:,} units and outcomes {T_table.num_rows:,}; pass both for the same units.")
    if n == 0:
        raise InputError("groups has no rows; pass at least one unit.")
    names = unit_names(units, n)
    X, T = (_counts(t, a, names) for t, a in ((X_table, "groups"), (T_table, "outcomes")))
    _check_margins(X, T, names)
    keep = X.sum(axis=1) > 0
    if not keep.any():
        raise InputError("groups is zero in every unit; at least one unit needs people.")
    return UnitTables(
        X=X[keep],
        T=T[keep],
        groups=tuple(X_table.column_names),
        outcomes=tuple(T_table.column_names),
        units=tuple(u for u, k in zip(names, keep, strict=True) if k),
        dropped=tuple(u for u, k in zip(names, keep, strict=True) if not k),
        frame=frames.frame_kind(groups) if frames.is_frame(groups) else "pyarrow",
        fingerprints={"groups": fingerprint(X_table), "outcomes": fingerprint(T_table)},
    )


def group_counts(
    people: object,
    *,
    by: str,
    group: str,
    places: object,
    total: str,
    weight: str | None = None,
) -> tuple[Any, tuple[object, ...]]:
    """Estimate how many of each place's total belong to each group, from weighted people.

    The weighted share of each group among the place's people is multiplied by the place's total, so the rows add up to
    it. The shares carry the sampling error of the people.

    Parameters
    ----------
    people : dataframe
        One row per person, with columns ``by``, ``group`` and ``weight``.
    by : str
        The place column of both tables.
    group : str
        The column of ``people`` whose values are the groups.
    places : dataframe
        One row per place.
    total : str
        The column of ``places`` that the groups must add up to.
    weight : str, optional
        Survey weights of the people.

    Returns
    -------
    counts : dataframe
        Places x groups, in the order of ``places``; of the same kind as ``people``.
    keys : tuple
        The places' names, in that order.

    Examples
    --------
    >>> people = {"place": ["a", "a", "b"], "sex": ["f", "m", "m"], "w": [1.0, 3.0, 1.0]}
    >>> places = {"place": ["b", "a"], "votes": [10, 100]}
    >>> counts, keys = group_counts(people, by="place", group="sex", places=places, total="votes", weight="w")
    >>> keys, counts.to_pydict()
    (('b', 'a'), {'f': [0.0, 25.0], 'm': [10.0, 75.0]})
    """
    persons, where = frames.to_arrow(people, "people"), frames.to_arrow(places, "places")
    grouping.check_unique(where, by, "places: by")
    totals = checks.check_counts(frames.column(where, total, "total"), f"total column {total!r}", 1)
    frames.check_columns(persons, grouping.as_names(by, "by"), "by")
    frames.check_columns(persons, grouping.as_names(group, "group"), "group")
    cells = grouping.group_rows(persons, (by, group), "by, group")
    n = persons.num_rows
    w = np.ones(n) if weight is None else checks.check_weights(frames.column(persons, weight, "weight"), "weight")
    mass = np.bincount(cells.codes, weights=w, minlength=len(cells))
    keys, levels = where[by].to_pylist(), sorted(set(cells.keys[group].to_pylist()))
    row, col = {k: i for i, k in enumerate(keys)}, {v: j for j, v in enumerate(levels)}
    strangers = sorted({k for k in cells.keys[by].to_pylist() if k not in row}, key=str)
    if strangers:
        raise InputError(
            f"people live in {len(strangers):,} place(s) that places lacks ({listed(strangers)}); add these rows to places "
            f"or drop their people. Keys must have the same type in both ({cells.keys[by].type} and {where[by].type})."
        )
    share = np.zeros((len(keys), len(levels)))
    for k, g, m in zip(cells.keys[by].to_pylist(), cells.keys[group].to_pylist(), mass, strict=True):
        share[row[k], col[g]] += m
    size = share.sum(axis=1, keepdims=True)
    if (size <= 0).any():
        empty = [k for k, s in zip(keys, size[:, 0], strict=True) if s <= 0]
        raise InputError(
            f"{len(empty):,} place(s) have no people ({listed(empty)}); drop them from places or add people."
        )
    counts = share / size * totals[:, None]
    table = pa.table({str(v): counts[:, j] for v, j in col.items()})
    return frames.from_arrow(table, frames.frame_kind(people)), tuple(keys)


def _as_table(counts: object, argument: str, word: str) -> pa.Table:
    if frames.is_frame(counts):
        return frames.to_arrow(counts, argument)
    array = checks.as_numbers(counts, argument, 2)
    return pa.table({f"{word}_{j}": array[:, j] for j in range(array.shape[1])})


def _counts(table: pa.Table, argument: str, units: Sequence[object]) -> FloatArray:
    if table.num_columns < 2:
        raise InputError(
            f"{argument} has {table.num_columns} column(s); it needs at least two that together hold everybody. Add the rest "
            "(for example 'other') as a column of its own."
        )
    columns = [frames.column(table, name, argument) for name in table.column_names]
    for name, values in zip(table.column_names, columns, strict=True):
        checks.check_counts(values, f"{argument}[{name!r}]", 1, rows=units)
    return np.column_stack(columns)


def _check_margins(X: FloatArray, T: FloatArray, units: Sequence[object]) -> None:
    n_x, n_t = X.sum(axis=1), T.sum(axis=1)
    fractions = bool((X % 1).any() or (T % 1).any())
    if fractions and np.allclose(n_x, 1) and np.allclose(n_t, 1):
        raise InputError(
            "groups and outcomes are shares (every row adds up to 1); pass counts: multiply each row by its unit's people."
        )
    off = np.abs(n_x - n_t) > MARGIN_TOLERANCE * np.maximum(n_x, n_t)
    if off.any():
        i = int(np.argmax(off))
        raise InputError(
            f"groups and outcomes do not add up to the same total in {int(off.sum()):,} unit(s), first in {units[i]!r} "
            f"({n_x[i]:g} against {n_t[i]:g}); count the same people in both, adding those without an outcome (for example "
            "'did not vote') as an outcome of their own."
        )


def unit_names(units: Sequence[object] | None, n: int) -> tuple[object, ...]:
    """Name every row, by ``units`` or by number; names are unique."""
    if units is None:
        return tuple(range(n))
    if isinstance(units, str) or not isinstance(units, Iterable):
        raise InputError(f"units={units!r} is not a sequence of names; pass one name per row of groups.")
    names = tuple(getattr(u, "item", lambda u=u: u)() for u in units)
    if len(names) != n:
        raise InputError(f"units has {len(names):,} names for {n:,} rows of groups; name each unit once.")
    if any(isinstance(u, tuple | list | dict | set) for u in names):
        raise InputError(
            "units holds names of several parts; join them to one text each, for example 'county/precinct'."
        )
    repeated = [u for u, times in Counter(names).items() if times > 1]
    if repeated:
        raise InputError(f"units names {repeated[0]!r} more than once; sum its rows or rename it.")
    return names
