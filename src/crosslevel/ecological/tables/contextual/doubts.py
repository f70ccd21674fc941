"""What the reader of an answer of the contextual model is warned of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslevel.ecological.tables.assumptions.hidden_context import TOO_LITTLE, HiddenContext, at_a_bound
from crosslevel.ecological.tables.contextual.pooling import District
from crosslevel.ecological.tables.unit_tables import UnitTables
from crosslevel.errors import listed
from crosslevel.typing import FloatArray

__all__ = ["describe_doubts", "describe_few_units", "describe_looks_like_votes"]

LIKE_VOTES = 0.004
"""Share of variance left by composition below which a table of at least 3 x 3 options looks like two votes of the same people."""


def describe_few_units(parts: list[District], districts_of: list[object] | None) -> tuple[str, ...]:
    """Warn of districts with no more units than groups."""
    few = [part for part in parts if len(part.units) <= len(part.rows)]
    if not few:
        return ()
    if districts_of is None:
        return (
            f"{len(few[0].units)} unit(s) for {len(few[0].rows)} groups: the answer rests on the prior more than on the data, "
            "and its interval is not calibrated for that.",
        )
    names = [districts_of[int(part.units[0])] for part in few]
    return (f"{len(few)} district(s) have no more units than groups ({listed(names)}) and rest on the others.",)


def describe_doubts(
    tables: UnitTables,
    parts: list[District],
    context: Sequence[HiddenContext | None],
    cells: FloatArray,
    districts_of: list[object] | None,
) -> tuple[str, ...]:
    """Warn of tables that the model does not answer well: little variation in composition, and cells at their bounds."""
    names = [None if districts_of is None else districts_of[int(part.units[0])] for part in parts]
    high = [k for k, c in enumerate(context) if c is not None and c.leverage > TOO_LITTLE]
    edge = [k for k, part in enumerate(parts) if context[k] is not None and _at_a_bound(tables, part, cells)]
    where = [
        "" if districts_of is None else f" in {len(which)} district(s) ({listed([names[k] for k in which])})"
        for which in (high, edge)
    ]
    said = []
    if high:
        most = max(context[k].leverage for k in high)  # type: ignore[union-attr]
        said.append(
            f"Composition varies too little against what else moves the outcomes{where[0]}: the leverage of hidden context is {most:.2f}, "
            f"above {TOO_LITTLE:g}. On tables like that 9 % of people stood in a wrong cell on average, on others 3 %."
        )
    if edge:
        said.append(
            f"More than a quarter of the cells lie at the edge of their deterministic bounds{where[1]}: outcomes that composition does not "
            "explain pushed the model there, and its intervals do not hold. Report the bounds."
        )
    return tuple(said)


def _at_a_bound(tables: UnitTables, part: District, cells: FloatArray) -> bool:
    here = np.ix_(part.units, part.rows, part.columns)
    people = part.x.sum(axis=0)[:, None]
    return at_a_bound(*(v[here].sum(axis=0) / people for v in (cells, tables.bounds.low, tables.bounds.high)))


def describe_looks_like_votes(context: HiddenContext | None) -> tuple[str, ...]:
    """Say that a table looks like two votes of the same people, for which there are other constants."""
    if context is None or min(context.h.shape) < 3 or context.residual_share >= LIKE_VOTES:
        return ()
    return (
        "Composition explains the outcomes as closely as in two votes of the same people. If that is what both sides are, pass "
        "kind='votes': the constants used are those of demographic groups.",
    )
