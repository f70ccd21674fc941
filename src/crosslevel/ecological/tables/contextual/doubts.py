"""What the reader of an answer of the contextual model is warned of.

Hidden context: how far a group's rate is off if what moves outcomes beside composition goes along with composition.

Outcomes of units scatter around what composition predicts, by e_c beyond sampling noise. If the causes of the scatter are correlated
by rho with composition, a group's rate is off by about rho e_c / q_r, however many units there are; q_r says how far the units'
compositions reach toward a unit of group r alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.ecological.tables.contextual.pooling import District
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.errors import listed
from crosslevel.typing import FloatArray

LARGEST = 2.0  # of h: twice the range of a share
TOO_LITTLE = 0.6
"""Leverage beyond which composition varies too little against the rest for an answer to be relied upon."""
NEAR, MANY = 0.02, 0.25  # of the width of a cell's bounds; of the cells


@dataclass(frozen=True)
class HiddenContext:
    """What both margins say of it.

    Attributes
    ----------
    h : (n_groups, n_outcomes)
        Bias of a share per unit of correlation between composition and what else moves the outcome.
    leverage : float
        Half the sum of h over outcomes, on average over people: one number per table.
    residual_share : float
        Variance of outcomes that composition and sampling noise do not explain, of the variance of a person's outcome.
    """

    h: FloatArray
    leverage: float
    residual_share: float


def hidden_context(X: FloatArray, T: FloatArray) -> HiddenContext:
    """Measure the leverage of hidden context from the two margins.

    Parameters
    ----------
    X : (n_units, n_groups)
        People; at least two groups have some.
    T : (n_units, n_outcomes)

    Examples
    --------
    >>> X = np.array([[90.0, 10], [50, 50], [10, 90]])
    >>> linear, scattered = np.array([[58.0, 42], [50, 50], [42, 58]]), np.array([[80.0, 20], [10, 90], [60, 40]])
    >>> [round(hidden_context(X, T).leverage, 2) for T in (linear, scattered)]
    [0.0, 0.43]
    """
    N = X.sum(axis=1)
    w = N / N.sum()
    x, t = X / N[:, None], T / T.sum(axis=1, keepdims=True)
    xbar, ybar = w @ x, w @ t
    root = np.sqrt(w)[:, None]
    residual = w @ np.square(t - x @ np.linalg.lstsq(root * x, root * t, rcond=None)[0])
    one_person = ybar * (1 - ybar)
    noise = len(N) / N.sum()
    e = np.sqrt(np.maximum(residual - noise * one_person, 0.0))
    reach = np.sqrt(w @ np.square(x - xbar)) / np.maximum(1 - xbar, 1e-12)
    ratio = np.divide(e, reach[:, None], out=np.full((len(xbar), len(ybar)), LARGEST), where=reach[:, None] > 1e-12)
    h = np.minimum(ratio, LARGEST)
    return HiddenContext(
        h=h,
        leverage=float(0.5 * xbar @ h.sum(axis=1)),
        residual_share=float(residual.sum() / max(one_person.sum(), 1e-300) - noise),
    )


def at_a_bound(share: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Tell whether more than a quarter of the cells that are not certain lie next to one of their bounds."""
    width = high - low
    open_cells = width > 1e-9
    near = np.minimum(share - low, high - share) <= NEAR * width
    return bool(open_cells.any() and near[open_cells].mean() > MANY)


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
