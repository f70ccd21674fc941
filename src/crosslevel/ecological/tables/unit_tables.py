"""Counts by unit: who lives there (groups) and what they did (outcomes).

A *unit* is the smallest place with totals (precinct, county, region). Its two margins are known, its inner table is
the question.

The method of bounds: what the two margins of a unit imply with certainty.

Duncan and Davis (1953). For one cell of an R x C table with margins X_r and T_c and N people, the count lies in
[max(0, X_r + T_c - N), min(X_r, T_c)], and every value in between is attained by some table; so the closed form is
sharp for single cells of any R x C, and their sums over units are sharp too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.checks import align_rows, row_keys
from crosslevel.data.frames import fingerprint
from crosslevel.ecological.tables import cleaning
from crosslevel.ecological.tables.group_counts import MembershipCounts
from crosslevel.ecological.tables.repeated_units import (
    Duplicates,
    refuse_other_order,
    refuse_totals,
    row_names,
    unit_names,
    unrepeated,
)
from crosslevel.ecological.tables.shares import in_counts
from crosslevel.errors import InputError, listed
from crosslevel.typing import BoolArray, FloatArray


@dataclass(frozen=True)
class CellBounds:
    """Bounds on every cell, in counts.

    Attributes
    ----------
    low, high : (n_units, n_groups, n_outcomes)
    """

    low: FloatArray
    high: FloatArray


def cell_bounds(X: FloatArray, T: FloatArray) -> CellBounds:
    """Bound the count of people of each group with each outcome, in every unit.

    Parameters
    ----------
    X : (n_units, n_groups)
    T : (n_units, n_outcomes)

    Examples
    --------
    >>> import numpy as np
    >>> found = cell_bounds(np.array([[30.0, 70.0]]), np.array([[80.0, 20.0]]))
    >>> found.low[0].tolist(), found.high[0].tolist()
    ([[10.0, 0.0], [50.0, 0.0]], [[30.0, 20.0], [70.0, 20.0]])
    """
    x, t = X[:, :, None], T[:, None, :]
    N = X.sum(axis=1)[:, None, None]
    high = np.minimum(x, t)
    # the minimum keeps low <= high when the margins agree only up to rounding
    return CellBounds(low=np.minimum(np.maximum(0.0, x + t - N), high), high=high)


REST = "none of the above"
NAME_MARKS = ("/", "|", ";")
"""What may stand between the parts of a unit's name."""


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
    kept : (n_rows,)
        Which rows, after repairs, are the units with people.
    frame : kind of dataframe to answer with.
    fingerprints : mapping of argument to content hash, of the data before any repair.
    notes : tuple of str
        What was changed or left out, in sentences; every answer from these tables carries them among its warnings.
    membership : (2, n_units, n_groups, n_groups) or None
        Covariances of the errors of the groups' counts, where they are sums of membership probabilities.
    left_out : tuple
        Names of further units of the data that repairs left out: for missing numbers, or more outcomes than people.
    """

    X: FloatArray
    T: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: tuple[object, ...]
    dropped: tuple[object, ...]
    kept: BoolArray
    frame: frames.FrameKind
    fingerprints: dict[str, str]
    notes: tuple[str, ...] = ()
    membership: FloatArray | None = None
    left_out: tuple[object, ...] = ()

    @property
    def N(self) -> FloatArray:
        """(n_units,) people in each unit."""
        return self.X.sum(axis=1)

    @cached_property
    def bounds(self) -> CellBounds:
        """The deterministic bounds of every cell."""
        return cell_bounds(self.X, self.T)


def unit_tables(
    groups: object,
    outcomes: object = None,
    units: Sequence[object] | None = None,
    *,
    balance: cleaning.Balance | None = None,
    rest: str = REST,
    excess: cleaning.Excess = "error",
    missing: cleaning.Missing = "error",
    duplicates: Duplicates = "error",
    merge_below: float | None = None,
    total: npt.ArrayLike | None = None,
    total_groups: npt.ArrayLike | None = None,
    total_outcomes: npt.ArrayLike | None = None,
) -> UnitTables:
    """Check counts by unit, repair them on request, and bring the two margins together.

    Nothing is repaired unasked. What was changed is said in ``notes``, which every answer made from the tables carries
    among its warnings.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Units x groups and units x outcomes, in counts and in the same order of units, or both with an index, by which they are
        then matched. Every column of a dataframe is a group (an outcome) of that name. ``groups`` may also be
        :class:`UnitTables`, which come back as they are, or sums of membership probabilities (:func:`group_counts`).
    units : sequence, optional
        Names of the units; when not given, those in the index of ``groups`` (text, each once), or ``0 .. n - 1``. Refused where they
        are those of the index in another order. Where ``groups`` has no index, ``outcomes`` and totals are matched by them.
    balance : {"scale", "none-of-the-above"}, optional
        What to do with units whose groups and outcomes do not add up to the same total (default: refuse). ``"scale"``
        scales their outcomes to the total of their groups, by a factor of two at most. ``"none-of-the-above"`` gives
        the difference a column of its own: an outcome where outcomes fall short of groups, a group where groups fall
        short of outcomes, and refuses when units of both kinds occur.
    rest : str, default "none of the above"
        Name of that column, for example "did not vote".
    excess : {"error", "raise", "drop"}, default "error"
        With ``balance="none-of-the-above"``, what to do with units of more outcomes than people (votes beyond a census taken
        earlier): refuse them where others fall short, raise their groups in proportion, or leave them out.
    missing : {"error", "zero", "drop"}, default "error"
        What to do with missing numbers: refuse them, take them for nobody, or leave their units out.
    duplicates : {"error", "drop_identical", "sum"}, default "error"
        What to do with units named more than once. ``"drop_identical"`` keeps one of the rows that are equal in name and in
        all columns, as rows pasted in again are, and refuses units whose rows differ; without ``units`` it keeps one of the
        rows that are equal in all columns. ``"sum"`` sums the rows of a unit.
    merge_below : float, optional
        Merge the groups, and the outcomes, that hold less than this share of all people into ``"other"``.
    total : array, optional
        People of each unit. Shares (rows up to 1) and percentages (rows of 100) are multiplied by it; the counts are
        not rounded to whole people. A margin that is in counts already must add up to it. Rows of shares must add up to one (to
        100) but for rounding: half of the last decimal given for each column, 2 % at most. Only with ``balance`` may shares of
        ``total`` fall short of one.
    total_groups, total_outcomes : array, optional
        In place of ``total``, where groups and outcomes are shares of two totals: groups of the people of voting age, say, and outcomes
        of the votes cast. With one of them, the other margin is in counts. The two totals differ, so that ``balance`` is needed:
        ``"none-of-the-above"`` makes those who did not vote an outcome.

    Returns
    -------
    UnitTables
        Of units with people.

    Examples
    --------
    >>> tables = unit_tables({"young": [30, 10], "old": [70, 40]}, {"yes": [50, 20], "no": [50, 30]})
    >>> tables.groups, tables.N.tolist()
    (('young', 'old'), [100.0, 50.0])
    >>> votes = {"left": [50, 20], "right": [30, 30]}
    >>> tables = unit_tables({"young": [30, 10], "old": [70, 40]}, votes, balance="none-of-the-above", rest="did not vote")
    >>> tables.T.tolist()
    [[50.0, 30.0, 20.0], [20.0, 30.0, 0.0]]
    >>> print(tables.notes[0])
    Outcomes fell short in 1 of 2 units; the outcome 'did not vote' takes the difference: 20 people, 13 % of all (0).
    >>> pasted = {"young": [30, 10, 30], "old": [70, 40, 70]}, {"yes": [50, 20, 50], "no": [50, 30, 50]}
    >>> tables = unit_tables(*pasted, units=["A", "B", "A"], duplicates="drop_identical")
    >>> tables.units, tables.notes
    (('A', 'B'), ("1 row(s) equal to another in all columns were left out, first 'A': 100 people who would count again.",))
    """
    if isinstance(groups, UnitTables):
        given = {
            "outcomes": outcomes,
            "units": units,
            "balance": balance,
            "rest": rest,
            "missing": missing,
            "excess": excess,
        }
        given |= {"duplicates": duplicates, "merge_below": merge_below, "total": total}
        given |= {"total_groups": total_groups, "total_outcomes": total_outcomes}
        checks.refuse_idle_arguments(unit_tables, given, "on tables that unit_tables has checked; make new tables")
        return groups
    if balance != "none-of-the-above":
        because = "without balance='none-of-the-above'; pass that too"
        checks.refuse_idle_arguments(unit_tables, {"rest": rest, "excess": excess}, because)
    sums = groups if isinstance(groups, MembershipCounts) else None
    if sums is not None:
        if merge_below is not None:
            raise InputError(
                f"merge_below={merge_below!r} has no place with membership probabilities; merge their columns first."
            )
        groups = sums.to_frame()
    if isinstance(outcomes, UnitTables) or outcomes is None:
        raise InputError(
            "outcomes is missing; pass units x outcomes counts, or the result of unit_tables as groups alone."
        )
    X_table = _as_table(groups, "groups", "group")
    n, named = X_table.num_rows, checks.names_of(groups) or []
    units = align_rows(units, row_keys(groups), "units")
    if units is None and named and all(isinstance(name, str) for name in named) and len(set(named)) == len(named):
        units = named
    names = unit_names(units, n)
    if units is not None:
        refuse_other_order(names, named)
    outcomes, total, total_groups, total_outcomes = (
        align_rows(values, row_names(values, groups, names if units is not None else ()), argument)
        for values, argument in (
            (outcomes, "outcomes"),
            (total, "total"),
            (total_groups, "total_groups"),
            (total_outcomes, "total_outcomes"),
        )
    )
    T_table = _as_table(outcomes, "outcomes", "outcome")
    if T_table.num_rows != n:
        raise InputError(f"groups has {n:,} units and outcomes {T_table.num_rows:,}; pass both for the same units.")
    if n == 0:
        raise InputError("groups has no rows; pass at least one unit.")
    margins = cleaning.Margins(
        X=_numbers(X_table, "groups"),
        T=_numbers(T_table, "outcomes"),
        groups=tuple(X_table.column_names),
        outcomes=tuple(T_table.column_names),
        units=names,
        **_totals(total, total_groups, total_outcomes, n),
    )
    if balance != "none-of-the-above":  # which may add the second column
        _check_options(margins)
    margins, filled = cleaning.without_missing(margins, missing)
    margins, multiplied = in_counts(margins, leave_rest=balance is not None)
    margins, unified = unrepeated(margins, duplicates, named=units is not None)
    refuse_totals(margins)
    margins, raised = cleaning.without_excess(margins, excess)
    margins, balanced = cleaning.balanced(margins, balance, rest)
    keep = margins.X.sum(axis=1) > 0
    if not keep.any():
        raise InputError("groups is zero in every unit; at least one unit needs people.")
    kept, merged = cleaning.merged(margins.rows(keep), merge_below)
    _check_options(kept)
    dropped = tuple(u for u, k in zip(margins.units, keep, strict=True) if not k)
    empty = (f"{len(dropped):,} unit(s) without people were left out ({listed(dropped)}).",) if dropped else ()
    counted = set(margins.units)
    return UnitTables(
        X=kept.X,
        T=kept.T,
        groups=kept.groups,
        outcomes=kept.outcomes,
        units=kept.units,
        dropped=dropped,
        kept=keep,
        frame=frames.frame_kind(groups) if frames.is_frame(groups) else "pyarrow",
        fingerprints={"groups": fingerprint(X_table), "outcomes": fingerprint(T_table)},
        notes=(
            *filled,
            *multiplied,
            *unified,
            *raised,
            *balanced,
            *merged,
            *empty,
            *(() if sums is None else (sums.note,)),
        ),
        membership=None if sums is None else _covariance(sums, names, kept),
        left_out=tuple(dict.fromkeys(u for u in names if u not in counted)),
    )


def _covariance(sums: MembershipCounts, names: tuple[object, ...], kept: cleaning.Margins) -> FloatArray:
    """Give the covariance of the groups' counts in the units kept; scaled as their counts were, and zero for a group added."""
    if len(set(names)) < len(names):
        raise InputError("units names a unit more than once; with membership probabilities name each once.")
    where = {name: i for i, name in enumerate(names)}
    rows = np.array([where[u] for u in kept.units], dtype=np.intp)
    R = sums.covariance.shape[2]
    before = np.array([sums.counts[name].to_numpy() for name in sums.counts.column_names]).sum(axis=0)[rows]
    factor = np.divide(kept.X[:, :R].sum(axis=1), before, out=np.ones(len(rows)), where=before > 0)
    full = np.zeros((2, len(rows), kept.X.shape[1], kept.X.shape[1]))
    full[:, :, :R, :R] = sums.covariance[:, rows] * factor[:, None, None] ** 2
    return full


def table_from_frame(
    frame: object,
    groups: Sequence[str],
    outcomes: Sequence[str],
    unit: str | Sequence[str] | None = None,
    *,
    total: str | None = None,
    total_groups: str | None = None,
    total_outcomes: str | None = None,
    **cleaning_options: Any,
) -> UnitTables:
    """Take groups, outcomes and the units' names from the columns of one table.

    Parameters
    ----------
    frame : dataframe
        One row per unit.
    groups, outcomes : sequence of str
        Names of the columns, exactly; no column can be both.
    unit : str or sequence of str, optional
        The column of the units' names, or several that name a unit together, such as county and precinct. Names of several parts
        are joined by "/" (by "|" or ";" where a part holds that).
    total : str, optional
        The column of the people of each unit, by which shares are multiplied.
    total_groups, total_outcomes : str, optional
        In place of ``total``, the columns of what groups and outcomes are shares of: people of voting age and votes, say.
    **cleaning_options
        ``balance``, ``rest``, ``excess``, ``missing``, ``duplicates``, ``merge_below``, as in :func:`unit_tables`.

    Examples
    --------
    >>> precincts = {"name": ["A", "B"], "young": [30, 10], "old": [70, 40], "yes": [50, 20], "no": [50, 30]}
    >>> tables = table_from_frame(precincts, groups=["young", "old"], outcomes=["yes", "no"], unit="name")
    >>> tables.units, tables.outcomes
    (('A', 'B'), ('yes', 'no'))
    >>> precincts |= {"county": ["north", "south"], "precinct": [1, 1]}
    >>> table_from_frame(precincts, ["young", "old"], ["yes", "no"], unit=["county", "precinct"]).units
    ('north/1', 'south/1')
    >>> shares = {"adults": [200, 100], "votes": [120, 50], "young": [30, 20], "old": [70, 80], "yes": [55, 40], "no": [45, 60]}
    >>> totals = {"total_groups": "adults", "total_outcomes": "votes"}
    >>> table_from_frame(shares, ["young", "old"], ["yes", "no"], **totals, balance="none-of-the-above").T.round(6).tolist()
    [[66.0, 54.0, 80.0], [20.0, 30.0, 50.0]]
    """
    table = frames.to_arrow(frame, "frame")
    sides = {"groups": groups, "outcomes": outcomes}
    for argument, names in sides.items():
        _check_names(table, names, argument)
    both = [name for name in groups if name in set(outcomes)]
    if both:
        raise InputError(
            f"outcomes names {listed(both)}, which groups names too; a column is either a group or an outcome."
        )
    parts = () if unit is None else frames.as_names(unit, "unit")
    totals = {"total": total, "total_groups": total_groups, "total_outcomes": total_outcomes}
    for argument, name in (*(("unit", part) for part in parts), *totals.items()):
        if name is None:
            continue
        if not isinstance(name, str):
            raise InputError(f"{argument}={name!r} is not a column name; pass one of {listed(table.column_names, 12)}.")
        frames.check_columns(table, [name], argument)
        if name in (*groups, *outcomes):
            raise InputError(f"{argument}={name!r} is among the groups or outcomes too; leave it out there.")
    read: dict[str, Any] = {a: frames.column(table, name, a) for a, name in totals.items() if name is not None}
    found = unit_tables(
        table.select(list(groups)),
        table.select(list(outcomes)),
        None if unit is None else joined_names(table, parts),
        **read,
        **cleaning_options,
    )
    return replace(found, frame=frames.frame_kind(frame))


def _as_table(counts: object, argument: str, word: str) -> pa.Table:
    if frames.is_frame(counts):
        return frames.to_arrow(counts, argument)
    array = checks.as_numbers(counts, argument, 2)
    return pa.table({f"{word}_{j}": array[:, j] for j in range(array.shape[1])})


def _numbers(table: pa.Table, argument: str) -> FloatArray:
    if table.num_columns == 0:
        raise InputError(f"{argument} has no columns; it needs at least two that together hold everybody.")
    return np.column_stack([frames.column(table, name, argument) for name in table.column_names])


def _check_options(margins: cleaning.Margins) -> None:
    """Refuse a margin of one option, which leaves nothing to ask."""
    for argument, names in (("groups", margins.groups), ("outcomes", margins.outcomes)):
        if len(names) < 2:
            raise InputError(
                f"{argument} has {len(names)} column(s); it needs at least two that together hold everybody. Add the rest "
                "(for example 'other') as a column of its own."
            )


def _totals(total: object, total_groups: object, total_outcomes: object, n: int) -> dict[str, Any]:
    """Read what shares are multiplied by, as fields of the margins: one total for both, or one for each."""
    if total_groups is None and total_outcomes is None:
        both = _one_total(total, n, "total")
        return {"total_groups": both, "total_outcomes": both, "one_total": True}
    if total is not None:
        other = "total_outcomes" if total_outcomes is None else "total_groups"
        raise InputError(
            f"total is given beside total_groups or total_outcomes; pass total alone, for both, or {other} in its place."
        )
    return {
        "total_groups": _one_total(total_groups, n, "total_groups"),
        "total_outcomes": _one_total(total_outcomes, n, "total_outcomes"),
        "one_total": False,
    }


def _one_total(total: Any, n: int, argument: str) -> FloatArray | None:
    if total is None:
        return None
    if isinstance(total, str):
        raise InputError(
            f"{argument}={total!r} is a name; pass the people of each unit as numbers, or use table_from_frame."
        )
    array = checks.as_numbers(total, argument, 1)
    if len(array) != n:
        raise InputError(f"{argument} has {len(array):,} values for {n:,} units; pass the people of each.")
    return np.where(
        np.isnan(array), np.nan, checks.check_counts(np.nan_to_num(array, nan=0.0, posinf=np.inf), argument, 1)
    )


def _check_names(table: pa.Table, names: Sequence[str], argument: str) -> None:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{argument}={names!r} is not a list of column names; pass for example {argument}=['a', 'b'].")
    frames.check_columns(table, names, argument)
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise InputError(f"{argument} names {twice[0]!r} more than once; name each column once.")


def rows_kept(tables: UnitTables, groups: object, argument: str, n: int) -> BoolArray:
    """Tell which rows of the caller's ``groups`` are units with people; refuse ``n`` values for other numbers of rows."""
    kept = np.ones(len(tables.units), dtype=np.bool_) if isinstance(groups, UnitTables) else tables.kept
    if n != len(kept):
        raise InputError(
            f"{argument} has {n:,} rows for {len(kept):,} units; pass one per row of groups, in that order."
        )
    return kept


def joined_names(table: pa.Table, parts: tuple[str, ...]) -> list[object]:
    """Name every row by one column, or by several joined with a mark that none of their values holds; None where one is missing."""
    if len(parts) == 1:
        return list(table[parts[0]].to_pylist())
    rows = list(zip(*(table[part].to_pylist() for part in parts), strict=True))
    texts = [None if any(v is None or v != v for v in row) else tuple(map(str, row)) for row in rows]
    for mark in NAME_MARKS:
        if not any(mark in text for row in texts if row for text in row):
            return [None if row is None else mark.join(row) for row in texts]
    raise InputError(
        f"unit={list(parts)!r}: their names hold each of {listed(NAME_MARKS)}, so they cannot be joined to one; rename them."
    )
