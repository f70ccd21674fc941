"""Groups that are sums of membership probabilities: the answer extrapolated to sums without error, and what their error adds to intervals.

Errors of the sums that have nothing to do with the counts (probabilities off for everybody of a unit) pull the groups' rates toward
each other. Simulation and extrapolation (Cook and Stefanski 1994): as much error again, and twice as much, is added to the sums, the model
is fitted to them, and a parabola through the three answers is followed back to no error. How far the fits scatter is how far the
errors that are in the sums already have moved the answer beside that, by chance (Stefanski and Cook 1995); it is a part of the variance.
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

REFITS = 8
"""Fits with added error, at each of its two sizes; half of them with the signs turned."""


def extrapolated(
    part: District, fit: TablePosterior, V: FloatArray, refit: Callable[[District], TablePosterior], seed: int
) -> tuple[TablePosterior, FloatArray, FloatArray]:
    """Move the table back by what further error of the sums moves it; give it, the move of its shares and their variance by chance (R, C).

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
        return fit, np.zeros(fit.table.shape), np.zeros(fit.table.shape)
    share, rng = fit.table / people, np.random.default_rng(seed)
    z = rng.standard_normal((REFITS // 2, *part.x.shape))
    moved = []
    for size in (1.0, 2.0):
        counts = [drawn(part.x, size * V, noise) for noise in np.concatenate([z, -z])]
        moved.append(np.array([refit(replace(part, x=x)).table / x.sum(axis=0)[:, None] - share for x in counts]))
    once, twice = (m.mean(axis=0) for m in moved)
    move = 3.0 * once - twice
    back = np.clip(share - move, 0.0, 1.0) * people
    return replace(fit, table=fit_table(back, people[:, 0], fit.table.sum(axis=0))), move, moved[0].var(axis=0)
