"""Groups that are sums of membership probabilities: the answer extrapolated to sums without error, and what their error adds to intervals.

Errors of the sums that have nothing to do with the counts (probabilities off for everybody of a unit) pull the groups' rates toward
each other. Simulation and extrapolation (Cook and Stefanski 1994): as much error again is added to the sums, the model is fitted to
them, and the answer is moved back by what that moved it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crosslevel.ecological.tables.contextual.intervals import TablePosterior
from crosslevel.ecological.tables.contextual.pooling import District
from crosslevel.ecological.tables.membership import drawn
from crosslevel.ecological.tables.raking import fit_table
from crosslevel.typing import FloatArray

__all__ = ["extrapolated"]

REFITS = 6


def extrapolated(
    part: District, fit: TablePosterior, V: FloatArray, refit: Callable[[District], TablePosterior], seed: int
) -> tuple[TablePosterior, FloatArray]:
    """Move the table back by what further error of the sums moves it; give it, and the move of its shares (R, C).

    Parameters
    ----------
    part : District
    fit : TablePosterior
        Of the sums as they are.
    V : (n, R, R)
        Covariance of the errors of the sums that are unrelated to the counts.
    refit : callable
        Fits a district.
    seed : int
    """
    people = part.x.sum(axis=0)[:, None]
    if not np.abs(V).max(initial=0.0) > 0:
        return fit, np.zeros(fit.table.shape)
    share, rng = fit.table / people, np.random.default_rng(seed)
    z = rng.standard_normal((REFITS // 2, *part.x.shape))
    moves = []
    for noise in np.concatenate([z, -z]):
        x = drawn(part.x, V, noise)
        moves.append(refit(replace(part, x=x)).table / x.sum(axis=0)[:, None] - share)
    move = np.mean(moves, axis=0)
    back = np.clip(share - move, 0.0, 1.0) * people
    return replace(fit, table=fit_table(back, people[:, 0], fit.table.sum(axis=0))), move
