"""Repairs of counts by unit, each on request, and a sentence for each that says what it changed.

The repairs run in this order: missing values, shares to counts (``shares.py``), repeated units (``repeated_units.py``),
margins that do not add up, small options. Every function takes :class:`Margins` and gives them back with its sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import FloatArray

Notes = tuple[str, ...]
Balance = Literal["scale", "none-of-the-above"]
Missing = Literal["error", "zero", "drop"]
Excess = Literal["error", "raise", "drop"]

MARGIN_TOLERANCE = 1e-6
"""Largest relative difference between a unit's two totals that is taken for rounding: far above float error in sums of
survey weights, far below one person in a unit of 100,000."""

LARGEST_FACTOR = 2.0
"""Beyond this a unit's two totals do not count the same people, and no scaling mends that."""

OTHER = "other"


@dataclass(frozen=True)
class Margins:
    """Two margins on their way to being checked.

    Attributes
    ----------
    X : (n_units, n_groups)
    T : (n_units, n_outcomes)
    groups, outcomes : tuple of str
    units : tuple
        Names of the rows; may repeat.
    total_groups, total_outcomes : (n_units,) or None
        What shares of each margin are multiplied by: people of each unit, and people or votes.
    one_total : bool
        Whether both came as the argument ``total``.
    """

    X: FloatArray
    T: FloatArray
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    units: tuple[object, ...]
    total_groups: FloatArray | None = None
    total_outcomes: FloatArray | None = None
    one_total: bool = True

    @property
    def totals(self) -> dict[str, FloatArray]:
        """The totals by the name of their argument."""
        if self.one_total:
            return {} if self.total_groups is None else {"total": self.total_groups}
        both = {"total_groups": self.total_groups, "total_outcomes": self.total_outcomes}
        return {name: values for name, values in both.items() if values is not None}

    def rows(self, keep: npt.NDArray[np.bool_]) -> Margins:
        """Keep some of the units."""
        return replace(
            self,
            X=self.X[keep],
            T=self.T[keep],
            units=tuple(u for u, k in zip(self.units, keep, strict=True) if k),
            total_groups=None if self.total_groups is None else self.total_groups[keep],
            total_outcomes=None if self.total_outcomes is None else self.total_outcomes[keep],
        )


def without_missing(m: Margins, missing: Missing) -> tuple[Margins, Notes]:
    """Treat missing numbers: refuse them, take them for zero, or leave their units out."""
    check_choice("missing", missing, ("error", "zero", "drop"))
    for argument, names, values in sides(m):
        _refuse_impossible(argument, names, values, m.units)
        gone = np.isnan(values)
        if missing == "error" and gone.any():
            i, j = (int(k) for k in np.argwhere(gone)[0])
            raise InputError(
                f"{argument}[{names[j]!r}] has {int(gone[:, j].sum()):,} missing value(s), the first in {m.units[i]!r}; fill "
                "them, or let unit_tables(..., missing='zero') take them for nobody or missing='drop' leave their units out."
            )
    no_total = np.zeros(len(m.units), dtype=np.bool_)
    for argument, total in m.totals.items():
        lacking = np.isnan(total)
        if lacking.any() and missing != "drop":
            raise InputError(
                f"{argument} has {int(lacking.sum()):,} missing value(s), the first in {m.units[int(np.argmax(lacking))]!r}; fill "
                "them, or pass missing='drop' to leave their units out."
            )
        no_total |= lacking
    holes = np.isnan(m.X).any(axis=1) | np.isnan(m.T).any(axis=1) | no_total
    if not holes.any():
        return m, ()
    if holes.all() and missing == "drop":
        raise InputError("missing='drop' would leave no unit: each has a missing value. Fill them, or drop a column.")
    which = listed([u for u, h in zip(m.units, holes, strict=True) if h])
    share = f"{int(holes.sum()):,} of {len(holes):,} units"
    if missing == "drop":
        return m.rows(~holes), (f"{share} were left out for missing values ({which}).",)
    cells = int(np.isnan(m.X).sum() + np.isnan(m.T).sum())
    filled = replace(m, X=np.nan_to_num(m.X), T=np.nan_to_num(m.T))
    return filled, (f"{cells:,} missing value(s) in {share} were taken for zero ({which}).",)


def _refuse_impossible(argument: str, names: tuple[str, ...], values: FloatArray, units: tuple[object, ...]) -> None:
    for bad, what in (
        (np.isinf(values), "an infinite value, {0:g} in {1!r}; counts are finite. Mend it or drop the unit."),
        (values < 0, "a negative count, {0:g} in {1!r}; counts must be >= 0."),
    ):
        if bad.any():
            i, j = (int(k) for k in np.argwhere(bad)[0])
            raise InputError(f"{argument}[{names[j]!r}] has {what.format(values[i, j], units[i])}")


def without_excess(m: Margins, excess: Excess) -> tuple[Margins, Notes]:
    """Treat units with more outcomes than people, as when votes exceed a census taken earlier: raise their groups, or leave them out."""
    check_choice("excess", excess, ("error", "raise", "drop"))
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    over = off_balance(m) & (n_t > n_x)
    if excess == "error" or not over.any():
        return m, ()
    share, more = f"{int(over.sum()):,} of {len(over):,} units", _people((n_t - n_x)[over].sum(), n_t.sum())
    empty = over & (n_x <= 0)
    gone = over if excess == "drop" else empty
    if gone.all():
        raise InputError(f"excess={excess!r} would leave no unit: each has more outcomes than people. Mend the groups.")
    notes: Notes = ()
    if excess == "raise" and (over & ~empty).any():
        factor = np.divide(n_t, n_x, out=np.ones(len(n_x)), where=over & ~empty)
        m, worst = replace(m, X=m.X * factor[:, None]), int(np.argmax(factor))
        notes = (
            f"Outcomes exceeded people in {share}; their groups were raised in proportion: {more}, largest factor {factor[worst]:.3g} in "
            f"{m.units[worst]!r} ({_which(m, over & ~empty)}).",
        )
    if gone.any():
        lost = _people(n_t[gone].sum(), n_t.sum()).replace("people", "outcomes")
        notes += (
            f"{int(gone.sum()):,} unit(s) with more outcomes than people were left out: {lost} ({_which(m, gone)}).",
        )
    return m.rows(~gone), notes


def balanced(m: Margins, balance: Balance | None, rest: str) -> tuple[Margins, Notes]:
    """Treat units whose margins do not add up: refuse them, scale their outcomes, or give the difference a column."""
    if balance is not None:
        check_choice("balance", balance, ("scale", "none-of-the-above"))
    off = off_balance(m)
    if not off.any():
        return m, ()
    if balance is None:
        raise InputError(
            f"groups and outcomes do not add up to the same total in {int(off.sum()):,} of {len(off):,} unit(s), worst in "
            f"{_worst(m, off)}; count the same people in both, adding those without an outcome (for example 'did not vote') "
            "as an outcome of their own. unit_tables(..., balance='none-of-the-above') adds it, balance='scale' scales outcomes."
        )
    return _scaled(m, off) if balance == "scale" else _with_rest(m, off, rest)


def _scaled(m: Margins, off: npt.NDArray[np.bool_]) -> tuple[Margins, Notes]:
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    one_sided = off & ((n_x == 0) | (n_t == 0))
    if one_sided.any():
        raise InputError(
            f"balance='scale' cannot scale {int(one_sided.sum()):,} unit(s) with people in one margin and none in the other "
            f"({_worst(m, one_sided)}, groups against outcomes); complete or drop them."
        )
    factor = np.divide(n_x, n_t, out=np.ones(len(n_x)), where=off)
    size = np.maximum(factor, 1 / factor)
    far = size > LARGEST_FACTOR
    if far.any():
        raise InputError(
            f"balance='scale' would change the outcomes of {int(far.sum()):,} unit(s) by more than a factor of "
            f"{LARGEST_FACTOR:g} (worst in {_worst(m, far)}, groups against outcomes): the two do not count the same people. "
            "If the rest has no outcome, pass balance='none-of-the-above'; else drop or mend these units."
        )
    T = m.T * factor[:, None]
    worst = int(np.argmax(size))
    note = (
        f"Outcomes of {int(off.sum()):,} of {len(off):,} units were scaled to the total of their groups: "
        f"{_people(np.abs(n_x - n_t)[off].sum(), n_x.sum())}, largest factor {factor[worst]:.3g} in {m.units[worst]!r} "
        f"({_which(m, off)})."
    )
    return replace(m, T=T), (note,)


def _with_rest(m: Margins, off: npt.NDArray[np.bool_], rest: str) -> tuple[Margins, Notes]:
    if not isinstance(rest, str) or not rest:
        raise InputError(f"rest={rest!r} is not a name; pass for example rest='did not vote'.")
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    short, over = off & (n_x > n_t), off & (n_t > n_x)
    if short.any() and over.any():
        raise InputError(
            f"balance='none-of-the-above' adds an outcome where outcomes fall short or a group where groups do, not both: "
            f"outcomes fall short in {int(short.sum()):,} unit(s), but exceed the groups in {int(over.sum()):,} (worst in "
            f"{_worst(m, over)}). unit_tables(..., excess='raise') raises the groups of these units, excess='drop' leaves them out."
        )
    side, word, names = ("outcomes", "outcome", m.outcomes) if short.any() else ("groups", "group", m.groups)
    if rest in names:
        raise InputError(f"rest={rest!r} is already one of the {side}; pass another name for those who are in none.")
    extra = np.where(off, np.abs(n_x - n_t), 0.0)
    note = (
        f"{side.capitalize()} fell short in {int(off.sum()):,} of {len(off):,} units; the {word} {rest!r} takes the difference: "
        f"{_people(extra.sum(), max(n_x.sum(), n_t.sum()))} ({_which(m, off)})."
    )
    if short.any():
        return replace(m, T=np.column_stack([m.T, extra]), outcomes=(*m.outcomes, rest)), (note,)
    return replace(m, X=np.column_stack([m.X, extra]), groups=(*m.groups, rest)), (note,)


def merged(m: Margins, below: float | None) -> tuple[Margins, Notes]:
    """Merge the options whose share of all people is below ``below`` into 'other', in each margin."""
    if below is None:
        return m, ()
    if isinstance(below, bool) or not isinstance(below, Real) or not 0 < float(below) < 1:
        hint = f" Did you mean {float(below) / 100:g}?" if isinstance(below, Real) and 1 <= below < 100 else ""
        raise InputError(f"merge_below={below!r} is not a share between 0 and 1; pass for example 0.03.{hint}")
    X, groups, said_x = _without_small(m.X, m.groups, float(below), "groups")
    T, outcomes, said_t = _without_small(m.T, m.outcomes, float(below), "outcomes")
    return replace(m, X=X, T=T, groups=groups, outcomes=outcomes), (*said_x, *said_t)


def _without_small(
    values: FloatArray, names: tuple[str, ...], below: float, side: str
) -> tuple[FloatArray, tuple[str, ...], Notes]:
    sums = values.sum(axis=0)
    small = sums < below * sums.sum()
    limit = f"{100 * below:g} %"
    few = [n for n, s in zip(names, small, strict=True) if s]
    # an option of that name is where the small ones belong, whatever its size
    home = names.index(OTHER) if OTHER in names else None
    gone = small.copy()
    if home is not None:
        gone[home] = True
    if not few:
        return values, names, (f"None of the {side} is below {limit}; nothing was merged.",)
    if gone.sum() < 2:
        return values, names, (f"Only {few[0]!r} of the {side} is below {limit}; it was left as it is.",)
    if gone.all():
        raise InputError(
            f"merge_below={below:g} would merge all {side} into one ({listed(names)}); pass a smaller share."
        )
    together = values[:, gone].sum(axis=1)
    kept = tuple(n for n, g in zip(names, gone, strict=True) if not g)
    note = (
        f"{int(gone.sum()):,} of {len(names):,} {side} were merged into {OTHER!r}, those below {limit} ({listed(few)}): "
        f"{_people(sums[small].sum(), sums.sum())}."
    )
    return np.column_stack([values[:, ~gone], together]), (*kept, OTHER), (note,)


def sides(m: Margins) -> tuple[tuple[str, tuple[str, ...], FloatArray], ...]:
    """Give the two margins as argument, names and values."""
    return ("groups", m.groups, m.X), ("outcomes", m.outcomes, m.T)


def off_balance(m: Margins) -> npt.NDArray[np.bool_]:
    """Tell which units have two totals that differ by more than rounding."""
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    return np.abs(n_x - n_t) > MARGIN_TOLERANCE * np.maximum(n_x, n_t)


def check_choice(argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    if value not in choices:
        raise unknown_name(argument, value, choices, "choice")


def _worst(m: Margins, off: npt.NDArray[np.bool_], limit: int = 3) -> str:
    """Name the units whose totals differ most, with both totals."""
    n_x, n_t = m.X.sum(axis=1), m.T.sum(axis=1)
    order = np.argsort(-np.where(off, np.abs(n_x - n_t), -1), kind="stable")[: min(limit, int(off.sum()))]
    return ", ".join(f"{m.units[int(i)]!r} ({n_x[i]:,.10g} against {n_t[i]:,.10g})" for i in order)


def _which(m: Margins, changed: npt.NDArray[np.bool_]) -> str:
    return listed([u for u, c in zip(m.units, changed, strict=True) if c])


def _people(changed: float, total: float) -> str:
    return f"{changed:,.10g} people, {100 * changed / total:.2g} % of all"
