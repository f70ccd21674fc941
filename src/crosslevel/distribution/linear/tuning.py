"""Move landmarks and bandwidth so that the bags' labels are easier to predict.

For a fixed penalty lam the objective is ``J(U, b) = min_w |y - c - Z w|^2 + lam |w|^2`` (divided by n). At the best w its derivative by the
means is ``-2 r w'`` with r the residuals (the envelope theorem), and

    d mu_il / d u_l = sum_j v_ij k(x_ij, u_l) (x_ij - u_l) / b^2,    d mu_il / d log b = sum_j v_ij k(x_ij, u_l) |x_ij - u_l|^2 / b^2,

so value and gradient cost one pass over the people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from crosslevel.data.bags import Bags
from crosslevel.data.progress import count_steps
from crosslevel.distribution.features import (
    BLOCK,
    FEWEST_ROWS,
    MOST_ROWS,
    LandmarkMap,
    blocks,
    kernel_values,
    pool,
    squared_distances,
)
from crosslevel.distribution.linear.model import LinearFit, decompose, solve
from crosslevel.distribution.linear.penalty import fit_ridge
from crosslevel.typing import FloatArray, Progress


@dataclass(frozen=True)
class Tuned:
    """The better of the map as it was and the one that was tuned, with its fit and what happened."""

    map: LandmarkMap
    fit: LinearFit
    report: dict[str, Any]


def objective(bags: Bags, y: FloatArray, fmap: LandmarkMap, penalty: float) -> tuple[float, FloatArray, float]:
    """Compute J / n and its derivatives by the landmarks, (d, n_columns), and by the log bandwidth.

    Parameters
    ----------
    bags : Bags
    y : (n,)
    fmap : LandmarkMap
    penalty : float
        On the squared length of the weights.
    """
    features = pool(bags, [fmap])[0]
    design = decompose(features, y, "iid", True)
    fit = solve(design, penalty, 1.0, 0.0, bound="", slope=0.0)
    r = design.y - (features.mu - design.center) @ fit.coef
    n = len(y)
    value = float(r @ r + penalty * fit.coef @ fit.coef) / n
    # r has mean zero, so centering the means takes nothing from the derivative
    per_bag = -2.0 / n * r
    U, b2 = fmap.U, fmap.bandwidth**2
    by_u, by_b = np.zeros_like(U), 0.0
    totals = np.add.reduceat(bags.weights, bags.offsets[:-1])
    rows = int(np.clip(BLOCK // max(U.shape), FEWEST_ROWS, MOST_ROWS))
    for values, people, begins, which in blocks(bags, rows):
        count = np.diff(np.append(begins, len(values)))
        x = values / fmap.scale
        square = squared_distances(x, U)
        weight = kernel_values(square, fmap.bandwidth)
        weight *= np.repeat(per_bag[which] / totals[which], count)[:, None] * bags.weights[people][:, None]
        weight *= fit.coef
        by_u += (weight.T @ x - weight.sum(axis=0)[:, None] * U) / b2
        by_b += float((weight * square).sum()) / b2
    return value, by_u, by_b


def tune(
    bags: Bags,
    y: FloatArray,
    fmap: LandmarkMap,
    fit: LinearFit,
    prior: str,
    rule: str,
    max_iter: int,
    progress: Progress | None = None,
) -> Tuned:
    """Move the landmarks from where they are, refit, and keep what leaves the smaller left-out error.

    Parameters
    ----------
    bags, y
        Of the fit.
    fmap, fit
        Where it starts; the penalty of the search is the fit's, so the weights cannot grow while landmarks move.
    prior, rule
        Of the ridge regression.
    max_iter : int
        Steps.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the steps done and of all.
    """
    shape, scale = fmap.U.shape, max(float(np.var(y)), 1e-300)
    penalty = fit.penalty if prior == "iid" else _equal_penalty(bags, y, fmap, rule)

    def unpack(x: FloatArray) -> LandmarkMap:
        # landmarks in units of the bandwidth: then all coordinates move alike
        return replace(fmap, U=x[:-1].reshape(shape) * fmap.bandwidth, bandwidth=fmap.bandwidth * float(np.exp(x[-1])))

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        value, by_u, by_b = objective(bags, y, unpack(x), penalty)
        return value / scale, np.append(by_u.ravel() * fmap.bandwidth, by_b) / scale

    start = np.append(fmap.U.ravel() / fmap.bandwidth, 0.0)
    options = {"maxiter": int(max_iter), "gtol": 1e-7}
    with count_steps(progress, "Moving landmarks", int(max_iter), "moves") as step:
        told = None if step is None else lambda _: step()
        found = minimize(loss, start, jac=True, method="L-BFGS-B", callback=told, options=options)
    moved = unpack(found.x)
    after = fit_ridge(pool(bags, [moved]), y, prior, rule)
    report = {
        "steps": int(found.nit),
        "converged": bool(found.success),
        "gradient": float(np.abs(found.jac).max()),
        "left_out_before": fit.criterion,
        "left_out_after": after.criterion,
        "kept": bool(after.criterion < fit.criterion),
    }
    if not report["kept"]:
        return Tuned(fmap, fit, report)
    return Tuned(moved, replace(after, chosen=fit.chosen), report)


def _equal_penalty(bags: Bags, y: FloatArray, fmap: LandmarkMap, rule: str) -> float:
    """Find the penalty on the weights' length that left-out error asks for."""
    return fit_ridge(pool(bags, [fmap]), y, "iid", rule).penalty
