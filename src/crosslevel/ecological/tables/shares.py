"""Shares and percentages of a margin brought to counts by its total, and what is missing to the total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.ecological.tables.margins import MARGIN_TOLERANCE
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

SHARE_ROUNDING = 0.02
"""The most that rounding can be taken for, of a whole of one: four options to the nearest percent."""
FINEST = 6
"""Decimals beyond which numbers are taken for not rounded."""
OVER = 0.005
"""How far counts may exceed their total: published totals are rounded."""
OTHER = {"groups": "other", "outcomes": "others"}
"""Names of what is missing to a total."""


@dataclass(frozen=True)
class Side:
    """One margin: its argument, names of options, values (n, k), units' names, and a note."""

    argument: str
    names: tuple[str, ...]
    values: FloatArray
    units: tuple[object, ...]
    note: str = ""

    def at(self, i: int) -> str:
        """Name a unit with what its columns add up to."""
        return f"{self.units[i]!r} ({self.values[i].sum():,.10g})"


def measure(values: FloatArray) -> str:
    """Tell what a margin is measured in, by its looks: ``counts``, ``shares`` or ``percentages``.

    Examples
    --------
    >>> measure(np.array([[0.3, 0.7], [0.5, 0.5]])), measure(np.array([[12.5, 87.5], [40, 60]]))
    ('shares', 'percentages')
    >>> measure(np.array([[1.0, 0.0], [0.0, 1.0]]))
    'counts'
    """
    if not (values % 1).any():
        return "counts"  # ones and zeros are units of one person
    if values.max() <= 1:
        return "shares"
    rows = values.sum(axis=1)
    filled = rows[rows > 0]
    return "percentages" if len(filled) > 1 and np.abs(filled - 100).max() <= 1 else "counts"


def refuse_shares(sides: Sequence[Side], agree: bool) -> None:
    """Refuse margins without a total that are in shares or percentages; ``agree`` tells whether the two margins add up to the same."""
    wrong = {side.argument: kind for side in sides if (kind := measure(side.values)) != "counts"}
    # one margin of percentages whose other margin counts 100 whole people is a table of counts: expected ones, say
    if not wrong or (agree and list(wrong.values()) == ["percentages"]):
        return
    argument, kind = next(iter(wrong.items()))
    raise InputError(
        f"{' and '.join(wrong)} are {kind}; name the column of the people that they are shares of as total_{argument}. (Counts in "
        "thousands: multiply by 1000.)"
    )


def rounding_of(values: FloatArray, whole: float) -> float:
    """Tell how far rows may be from their whole by rounding: half of the last decimal for each column, 2 % at most.

    Examples
    --------
    >>> round(rounding_of(np.array([[33.3, 33.3, 33.3]]), 100.0), 6), round(rounding_of(np.array([[0.33, 0.67]]), 1.0), 6)
    (0.15, 0.01)
    """
    for decimals in range(FINEST + 1):
        scaled = values * 10.0**decimals
        if np.abs(scaled - np.round(scaled)).max(initial=0) <= 1e-6:
            break
    return float(min(values.shape[1] * 0.5 * 10.0**-decimals, SHARE_ROUNDING * whole)) + 1e-9 * whole


def by_total(side: Side, total: FloatArray, leave_rest: bool = False) -> Side:
    """Multiply shares and percentages by their total; what is missing to it becomes an option, unless it is left for later.

    Examples
    --------
    >>> half = Side("groups", ("a", "b"), np.array([[0.25, 0.5], [0.5, 0.25]]), ("u", "v"))
    >>> found = by_total(half, np.array([100.0, 40.0]))
    >>> found.names, found.values.tolist()
    (('a', 'b', 'other'), [[25.0, 50.0, 25.0], [20.0, 10.0, 10.0]])
    """
    name, values, rows = f"total_{side.argument}", side.values, side.values.sum(axis=1)
    if not total.any():
        raise InputError(f"{name} is zero in every unit; pass the people of each.")
    if not (np.abs(rows - total) > MARGIN_TOLERANCE * np.maximum(rows, total)).any():
        return side
    filled = rows[rows > 0]
    kind, whole, notes = "counts", total, []
    if values.max() <= 1 and (rows.max() <= 1 + SHARE_ROUNDING or total.max() > values.shape[1]):
        kind, whole = "shares", np.ones(len(total))
    elif len(filled) and abs(float(np.median(filled)) - 100) <= 100 * SHARE_ROUNDING and values.max() <= 100:
        kind, whole = "percentages", np.full(len(total), 100.0)
    slack = OVER * np.maximum(total, 1) + 1e-6 if kind == "counts" else rounding_of(values, whole[0])
    if (over := (rows > whole + slack) & (total > 0 if kind != "counts" else True)).any():
        i = int(np.argmax(over))
        raise InputError(
            f"{side.argument} are {kind} that add up to more than {name} in {int(over.sum()):,} of {len(over):,} unit(s), first in "
            f"{side.at(i)} of {whole[i]:,.10g}; correct the columns, or name the total that these are of."
        )
    if kind != "counts":
        near = np.abs(rows - whole) <= slack
        worst = 100 * float((np.abs(rows - whole) / whole)[near].max(initial=0))
        tail = f"; rows off by rounding (up to {worst:.2g} %) were brought to it" if worst > 1e-6 else ""
        values = values / whole[:, None]
        values[near] /= values[near].sum(axis=1, keepdims=True)
        values = values * total[:, None]
        notes.append(f"{side.argument} were {kind}: multiplied by {name}{tail}.")
    gap = np.maximum(total - values.sum(axis=1), 0.0)
    gap[gap <= MARGIN_TOLERANCE * total] = 0.0
    names = side.names
    if gap.sum() > MARGIN_TOLERANCE * total.sum() and not leave_rest:
        rest = OTHER[side.argument]
        if rest in names:
            raise InputError(f"{side.argument} names {rest!r}, which stands for what is missing to {name}; rename it.")
        values, names = np.column_stack([values, gap]), (*names, rest)
        part = 100 * gap.sum() / total.sum()
        notes.append(
            f"{side.argument} fall short of {name}; {rest!r} takes {gap.sum():,.10g} people, {part:.2g} % of all."
        )
    return replace(side, values=values, names=names, note=" ".join(notes))
