"""Two margins of every unit, how many of each group and with each outcome, and what is repaired in them on request.

The repairs run in this order: missing values, shares to counts, repeated units, units of more outcomes than people, margins that do not
add up. Each takes :class:`UnitTables` and gives them back with a sentence among their notes that says what it changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crosslevel.data.columns import total_column, total_rows
from crosslevel.data.frames import FrameKind
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import BoolArray, FloatArray, IntArray

MARGIN_TOLERANCE = 1e-6
"""Largest relative difference between a unit's two totals that is taken for rounding: far above float error in sums of
survey weights, far below one person in a unit of 100,000."""

LARGEST_FACTOR = 2.0
"""Beyond this a unit's two totals do not count the same people, and no scaling mends that."""


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

    Duncan and Davis (1953): with margins X_r and T_c and N people, the count lies in [max(0, X_r + T_c - N), min(X_r, T_c)], and
    every value in between is attained by some table, whatever the numbers of groups and outcomes; sums over units are sharp too.

    Parameters
    ----------
    X : (n_units, n_groups)
    T : (n_units, n_outcomes)

    Examples
    --------
    >>> found = cell_bounds(np.array([[30.0, 70.0]]), np.array([[80.0, 20.0]]))
    >>> found.low[0].tolist(), found.high[0].tolist()
    ([[10.0, 0.0], [50.0, 0.0]], [[30.0, 20.0], [70.0, 20.0]])
    """
    x, t = X[:, :, None], T[:, None, :]
    N = X.sum(axis=1)[:, None, None]
    high = np.minimum(x, t)
    # the minimum keeps low <= high when the margins agree only up to rounding
    return CellBounds(low=np.minimum(np.maximum(0.0, x + t - N), high), high=high)


@dataclass(frozen=True)
class UnitTables:
    """The margins of every unit.

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
    rows : (n_units,)
        Row of the data, the first one where rows of a unit were summed.
    frame : kind of dataframe to answer with.
    data : mapping of argument to content hash, of the data before any repair.
    notes : tuple of str
        What was changed or left out, in sentences; every answer from these tables carries them among its warnings.
    left_out : tuple
        Names of units of the data that are not here: without people, or left out by repairs.
    membership : (2, n_units, n_groups, n_groups) or None
        Covariances of the errors of the groups' counts, where they are sums of membership probabilities.
    """

    X: FloatArray
    T: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: tuple[object, ...]
    rows: IntArray
    frame: FrameKind = "pyarrow"
    data: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[object, ...] = ()
    membership: FloatArray | None = None

    @property
    def N(self) -> FloatArray:
        """(n_units,) people in each unit."""
        return self.X.sum(axis=1)

    @cached_property
    def bounds(self) -> CellBounds:
        """The deterministic bounds of every cell."""
        return cell_bounds(self.X, self.T)

    def kept(self, keep: BoolArray, *notes: str) -> UnitTables:
        """Keep some of the units."""
        units = tuple(u for u, k in zip(self.units, keep, strict=True) if k)
        gone = dict.fromkeys(u for u, k in zip(self.units, keep, strict=True) if not k)
        left_out = (*self.left_out, *(u for u in gone if u not in set(units)))
        X, T, rows = self.X[keep], self.T[keep], self.rows[keep]
        return replace(self, X=X, T=T, units=units, rows=rows, left_out=left_out, notes=(*self.notes, *notes))

    def noted(self, note: str, **changed: Any) -> UnitTables:
        """Change fields, and say so."""
        return replace(self, notes=(*self.notes, note), **changed)

    @property
    def off_balance(self) -> BoolArray:
        """Which units have two totals that differ by more than rounding."""
        n_x, n_t = self.X.sum(axis=1), self.T.sum(axis=1)
        return np.abs(n_x - n_t) > MARGIN_TOLERANCE * np.maximum(n_x, n_t)

    def named(self, which: BoolArray) -> str:
        """Name some of the units."""
        return listed([u for u, k in zip(self.units, which, strict=True) if k])

    def worst(self, off: BoolArray, limit: int = 3) -> str:
        """Name the units whose totals differ most, with both totals."""
        n_x, n_t = self.X.sum(axis=1), self.T.sum(axis=1)
        order = np.argsort(-np.where(off, np.abs(n_x - n_t), -1), kind="stable")[: min(limit, int(off.sum()))]
        return ", ".join(f"{self.units[int(i)]!r} ({n_x[i]:,.10g} against {n_t[i]:,.10g})" for i in order)


@dataclass(frozen=True)
class Repairs:
    """What to do with data that are not whole; ``"error"`` refuses them.

    Attributes
    ----------
    balance : {"error", "scale"}
        Units whose groups and outcomes do not add up to the same total: scale their outcomes, by a factor of two at most.
    rest : str
        In place of that, the name of an outcome (where groups fall short, of a group) that takes the difference.
    excess : {"error", "raise", "drop"}
        Units of more outcomes than people: raise their groups in proportion, or leave them out.
    missing : {"error", "zero", "drop"}
        Missing numbers: nobody, or their units are left out.
    duplicates : {"error", "drop_identical", "sum"}
        Units named more than once: keep one of the rows that are equal in all columns, or sum their rows.
    """

    balance: str = "error"
    rest: str = ""
    excess: str = "error"
    missing: str = "error"
    duplicates: str = "error"


CHOICES = {
    "balance": ("error", "scale"),
    "excess": ("error", "raise", "drop"),
    "missing": ("error", "zero", "drop"),
    "duplicates": ("error", "drop_identical", "sum"),
}


def read_repairs(given: Mapping[str, str] | str) -> Repairs:
    """Read what to repair: nothing, or what to do by fault.

    Examples
    --------
    >>> read_repairs({"rest": "did not vote", "excess": "raise"}).excess
    'raise'
    """
    if given == "error":
        return Repairs()
    names = list(asdict(Repairs()))
    if not isinstance(given, Mapping):
        raise InputError(f"repair={given!r} is neither 'error' nor a mapping; pass for example {{'balance': 'scale'}}.")
    for name, value in given.items():
        if name not in names:
            raise unknown_name("repair", name, names, "repair")
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown_name(f"repair[{name!r}]", value, CHOICES[name], "choice")
        if name == "rest" and not (isinstance(value, str) and value):
            raise InputError(f"repair['rest']={value!r} is not a name; pass for example 'did not vote'.")
    if "rest" in given and given.get("balance", "error") != "error":
        raise InputError("repair holds both 'balance' and 'rest', two ways to mend the same; pass one of them.")
    return Repairs(**given)


def without_missing(m: UnitTables, totals: Mapping[str, FloatArray], missing: str, holes: IntArray) -> UnitTables:
    """Treat missing numbers, ``holes`` by row: refuse them, take them for zero, or leave their units out; totals are never zero."""
    lacking = np.zeros(len(m.units), dtype=np.bool_)
    for argument, total in totals.items():
        none = np.isnan(total)
        if none.any() and missing != "drop":
            raise InputError(
                f"{argument} has {int(none.sum()):,} missing value(s), the first in {m.units[int(np.argmax(none))]!r}; fill them, or "
                "leave their units out with repair={'missing': 'drop'}."
            )
        lacking |= none
    gone = lacking | (holes > 0)
    if not gone.any():
        return m
    share = f"{int(gone.sum()):,} of {len(gone):,} units"
    if missing == "zero":
        return m.noted(f"{int(holes.sum()):,} missing value(s) in {share} were taken for zero ({m.named(gone)}).")
    if missing == "error":
        raise InputError(
            f"groups or outcomes are missing in {share} ({m.named(gone)}); fill them, or take them for nobody with "
            "repair={'missing': 'zero'}, or leave their units out with 'drop'."
        )
    if gone.all():
        raise InputError(
            "repair={'missing': 'drop'} would leave no unit: each has a missing value. Fill them, or drop a column."
        )
    return m.kept(~gone, f"{share} were left out for missing values ({m.named(gone)}).")


def unrepeated(m: UnitTables, duplicates: str, named: bool) -> UnitTables:
    """Treat units named more than once: refuse them, keep one of identical rows, or sum their rows.

    Without names of units, rows that are equal in all columns count as identical.
    """
    if not named:
        return _without_copies(m, copies(m, named=False)) if duplicates == "drop_identical" else m
    again = copies(m)
    repeated = [u for u, k in Counter(m.units).items() if k > 1]
    if duplicates == "sum":
        return _summed(m, again, repeated) if repeated else m
    if duplicates == "drop_identical":
        m = _without_copies(m, again)
        repeated = [u for u, k in Counter(m.units).items() if k > 1]
    if repeated:
        some = f"{int(again.sum()):,} of their rows are equal to another in all columns"
        raise InputError(
            f"unit names {len(repeated):,} unit(s) more than once ({listed(repeated)}); {some if again.any() else 'their rows differ'}. "
            "Rename them, name units by several columns (county and precinct), or pass repair={'duplicates': 'drop_identical'} to keep "
            "one of equal rows, 'sum' to sum the rows of a unit."
        )
    return m


def copies(m: UnitTables, named: bool = True) -> BoolArray:
    """Tell which rows are equal, in name and in all columns, to a row above them."""
    seen: set[tuple[object, bytes]] = set()
    out = np.zeros(len(m.units), dtype=np.bool_)
    for i, row in enumerate(np.column_stack([m.X, m.T]) + 0.0):  # -0.0 is 0.0
        key = (m.units[i] if named else None, row.tobytes())
        out[i] = key in seen
        seen.add(key)
    return out


def _without_copies(m: UnitTables, again: BoolArray) -> UnitTables:
    if not again.any():
        return m
    note = (
        f"{int(again.sum()):,} row(s) equal to another in all columns were left out, first {m.units[int(np.argmax(again))]!r}: "
        f"{m.X[again].sum():,.6g} people who would count again."
    )
    return m.kept(~again, note)


def _summed(m: UnitTables, again: BoolArray, repeated: Sequence[object]) -> UnitTables:
    times = Counter(m.units)
    place = {u: k for k, u in enumerate(times)}
    code = np.array([place[u] for u in m.units])
    X, T = np.zeros((len(times), m.X.shape[1])), np.zeros((len(times), m.T.shape[1]))
    np.add.at(X, code, m.X)
    np.add.at(T, code, m.T)
    note = (
        f"{sum(times[u] for u in repeated):,} rows of {len(repeated):,} unit(s) named more than once were summed "
        f"({listed(repeated)}); {int(again.sum()):,} of them are equal to another in all columns."
    )
    return m.noted(note, X=X, T=T, units=tuple(times), rows=m.rows[np.unique(code, return_index=True)[1]])


def refuse_totals(m: UnitTables) -> None:
    """Refuse a column that is the sum of the others of its margin, and a unit that is the sum of all others."""
    for argument, names, values in (("groups", m.groups, m.X), ("outcomes", m.outcomes, m.T)):
        found = total_column(values)
        if found is not None:
            raise InputError(
                f"{argument}: {names[found]!r} is the sum of the other columns in every unit, so that everybody counts twice; leave "
                f"it out, or pass its column as total_{argument}."
            )
    rows = total_rows(np.column_stack([m.X, m.T]))
    if rows:
        raise InputError(
            f"unit: {m.units[rows[0]]!r} counts in every group and outcome what the other units count together, so that everybody "
            "counts twice; leave its row out."
        )


def without_excess(m: UnitTables, excess: str) -> UnitTables:
    """Treat units with more outcomes than people, as when votes exceed a census taken earlier: raise their groups, or leave them out."""
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    over = m.off_balance & (n_t > n_x)
    if excess == "error" or not over.any():
        return m
    share, more = f"{int(over.sum()):,} of {len(over):,} units", _people((n_t - n_x)[over].sum(), n_t.sum())
    empty = over & (n_x <= 0)
    gone = over if excess == "drop" else empty
    if gone.all():
        raise InputError(
            f"repair={{'excess': {excess!r}}} would leave no unit: each has more outcomes than people. Mend the groups."
        )
    if excess == "raise" and (over & ~empty).any():
        factor = np.divide(n_t, n_x, out=np.ones(len(n_x)), where=over & ~empty)
        worst = int(np.argmax(factor))
        note = (
            f"Outcomes exceeded people in {share}; their groups were raised in proportion: {more}, largest factor {factor[worst]:.3g} in "
            f"{m.units[worst]!r} ({m.named(over & ~empty)})."
        )
        m = m.noted(note, X=m.X * factor[:, None])
    if not gone.any():
        return m
    lost = _people(n_t[gone].sum(), n_t.sum()).replace("people", "outcomes")
    return m.kept(
        ~gone, f"{int(gone.sum()):,} unit(s) with more outcomes than people were left out: {lost} ({m.named(gone)})."
    )


def balanced(m: UnitTables, repairs: Repairs) -> UnitTables:
    """Treat units whose margins do not add up: refuse them, scale their outcomes, or give the difference a column."""
    off = m.off_balance
    if not off.any():
        return m
    if repairs.rest:
        return _with_rest(m, off, repairs.rest)
    if repairs.balance == "scale":
        return _scaled(m, off)
    raise InputError(
        f"groups and outcomes do not add up to the same total in {int(off.sum()):,} of {len(off):,} unit(s), worst in "
        f"{m.worst(off)}; count the same people in both. repair={{'rest': 'did not vote'}} makes those without an outcome an outcome of "
        "their own, repair={'balance': 'scale'} scales outcomes."
    )


def _scaled(m: UnitTables, off: BoolArray) -> UnitTables:
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    one_sided = off & ((n_x == 0) | (n_t == 0))
    factor = np.divide(n_x, n_t, out=np.ones(len(n_x)), where=off & ~one_sided)
    size = np.maximum(factor, 1 / factor)
    far = one_sided | (size > LARGEST_FACTOR)
    if far.any():
        raise InputError(
            f"repair={{'balance': 'scale'}} would change the outcomes of {int(far.sum()):,} unit(s) by more than a factor of "
            f"{LARGEST_FACTOR:g} (worst in {m.worst(far)}, groups against outcomes): the two do not count the same people. If the rest "
            "has no outcome, pass repair={'rest': 'did not vote'}; else drop or mend these units."
        )
    worst = int(np.argmax(size))
    note = (
        f"Outcomes of {int(off.sum()):,} of {len(off):,} units were scaled to the total of their groups: "
        f"{_people(np.abs(n_x - n_t)[off].sum(), n_x.sum())}, largest factor {factor[worst]:.3g} in {m.units[worst]!r} "
        f"({m.named(off)})."
    )
    return m.noted(note, T=m.T * factor[:, None])


def _with_rest(m: UnitTables, off: BoolArray, rest: str) -> UnitTables:
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    short, over = off & (n_x > n_t), off & (n_t > n_x)
    if short.any() and over.any():
        raise InputError(
            f"repair={{'rest': {rest!r}}} adds an outcome where outcomes fall short or a group where groups do, not both: outcomes fall "
            f"short in {int(short.sum()):,} unit(s), but exceed the groups in {int(over.sum()):,} (worst in {m.worst(over)}). "
            "repair={'excess': 'raise'} beside it raises the groups of these units, 'drop' leaves them out. Where groups are shares, or "
            "do not hold everybody, pass total_groups."
        )
    side, names = ("outcomes", m.outcomes) if short.any() else ("groups", m.groups)
    if rest in names:
        raise InputError(
            f"repair['rest']={rest!r} is already one of the {side}; pass another name for those who are in none."
        )
    extra = np.where(off, np.abs(n_x - n_t), 0.0)
    note = (
        f"{side.capitalize()} fell short in {int(off.sum()):,} of {len(off):,} units; the {side[:-1]} {rest!r} takes the difference: "
        f"{_people(extra.sum(), max(n_x.sum(), n_t.sum()))} ({m.named(off)})."
    )
    if short.any():
        return m.noted(note, T=np.column_stack([m.T, extra]), outcomes=(*names, rest))
    return m.noted(note, X=np.column_stack([m.X, extra]), groups=(*names, rest))


def _people(changed: float, total: float) -> str:
    return f"{changed:,.10g} people, {100 * changed / total:.2g} % of all"
