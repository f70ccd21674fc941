"""Adjustments of a district: covariates of its units, and groups that are sums of membership probabilities.

Covariates: outcomes of units on their composition and covariates, by a ridge regression whose penalty is chosen by leaving units
out. With shares x_i of the groups, t_i of the outcomes and standardized covariates z_i: t_i = x_i B + z_i G + e_i, weights N_i, and the
penalty lambda |G|^2 (Hoerl and Kennard 1970). In McCartan and Kuriwaki (2025) and their R package seine B may depend on z as well; here
covariates move all groups alike. What is left out is predicted from the others in closed form.

Membership probabilities: the answer is extrapolated to sums without error, and what their error adds goes into intervals.
Errors of the sums that have nothing to do with the counts (probabilities off for everybody of a unit) pull the groups' rates toward
each other. Simulation and extrapolation (Cook and Stefanski 1994): as much error again, and twice as much, is added to the sums, the model
is fitted to them, and a parabola through the three answers is followed back to no error. How far the fits scatter is how far the
errors that are in the sums already have moved the answer beside that, by chance (Stefanski and Cook 1995); it is a part of the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslevel.ecological.tables.contextual.intervals import TablePosterior
from crosslevel.ecological.tables.contextual.pooling import District
from crosslevel.ecological.tables.group_counts import drawn
from crosslevel.ecological.tables.raking import fit_table
from crosslevel.typing import FloatArray

PENALTIES = np.geomspace(1e-3, 1e4, 57)
"""Tried, as multiples of the mean squared length of a covariate beyond composition."""
SHRUNK = 0.5
"""Part of the effect of covariates that is taken: whole, it puts more people in a wrong cell on average than none does, since covariates of
places and composition are confounded. Chosen on tables of people of three states; see the guide on known truth."""


@dataclass(frozen=True)
class RidgeFit:
    """What covariates say of outcomes beyond composition.

    Attributes
    ----------
    G : (k, C)
        Change of the outcome shares per standard deviation of a covariate, penalized and halved.
    moved : (n, C)
        Their sum in each unit.
    penalty : float
        Infinite where leaving units out prefers none of the covariates.
    gain : float
        Share of the squared error of units left out, given composition, that covariates take away.
    """

    G: FloatArray
    moved: FloatArray
    penalty: float
    gain: float


def with_covariates(part: District, blocks: Mapping[str, FloatArray]) -> tuple[list[District], dict[str, Any]]:
    """Let covariates move the outcomes of a district; give it, and what they say in plain values."""
    N = part.x.sum(axis=1)
    fit = ridge_fit(part.x, part.y * (N / part.y.sum(axis=1))[:, None], np.column_stack(list(blocks.values())))
    ends = np.cumsum([block.shape[1] for block in blocks.values()])
    effect = {name: part_of.tolist() for name, part_of in zip(blocks, np.split(fit.G, ends[:-1]), strict=True)}
    told = {"penalty": fit.penalty if np.isfinite(fit.penalty) else None, "gain": fit.gain, "effects": effect}
    return [replace(part, moved=fit.moved if np.isfinite(fit.penalty) else None)], told


def ridge_fit(x: FloatArray, y: FloatArray, Z: FloatArray) -> RidgeFit:
    """Fit the regression, with the penalty that predicts units left out best.

    Parameters
    ----------
    x : (n, R), y : (n, C)
        Counts with equal sums.
    Z : (n, k)
        Standardized covariates.
    """
    N = x.sum(axis=1)
    root = np.sqrt(N / N.mean())[:, None]
    A, t, z = root * x / N[:, None], root * y / N[:, None], root * Z
    basis = np.linalg.svd(A, full_matrices=False)
    kept = basis[1] > 1e-9 * basis[1][0]
    Q = basis[0][:, kept]
    t, z = (v - Q @ (Q.T @ v) for v in (t, z))
    U, d, Vt = np.linalg.svd(z, full_matrices=False)
    good = d > 1e-9 * max(float(d.max(initial=0.0)), 1e-300)
    U, d, Vt = U[:, good], d[good], Vt[good]
    taken, Ut = (Q**2).sum(axis=1), U.T @ t

    def left_out(shrunk: FloatArray) -> float:
        hat = np.minimum(taken + (U**2) @ shrunk, 1 - 1e-9)
        return float((((t - U @ (shrunk[:, None] * Ut)) / (1 - hat)[:, None]) ** 2).sum())

    scale = float((d**2).mean()) if len(d) else 1.0
    errors = [left_out(d**2 / (d**2 + v * scale)) for v in PENALTIES]
    alone, best = left_out(np.zeros(len(d))), int(np.argmin(errors))
    if not len(d) or errors[best] >= alone:
        return RidgeFit(np.zeros((Z.shape[1], y.shape[1])), np.zeros(y.shape), float("inf"), 0.0)
    penalty = PENALTIES[best] * scale
    G = SHRUNK * Vt.T @ ((d / (d**2 + penalty))[:, None] * Ut)
    centered = Z - N @ Z / N.sum()
    return RidgeFit(G, centered @ G, float(penalty), 1 - errors[best] / alone)


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
