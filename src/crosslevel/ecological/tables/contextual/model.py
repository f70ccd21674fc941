"""The contextual model of R x C tables: group rates that change with the composition of their unit, overdispersed.

Units i, groups r, outcomes c; x_ir people of each group, y_ic people with each outcome, N_i = sum_r x_ir.

    p_irc = softmax_c(a_c + d_rc + b H_ic),     H_ic = log(m_ic / ybar_c)
    y_i   ~ N(sum_r x_ir p_ir, S_i),            S_i = phi (sum_r x_ir [diag(p_ir) - p_ir p_ir'] + 0.5 I)

with the last outcome dropped from y_i and S_i, a quasi-likelihood matched by moments. m_i is what the composition of
unit i predicts for its outcomes, computed once; b is the contextual slope. b = 0 is the constancy of Goodman's
regression, b = 1 is close to the neighborhood model. It is an assumption: m is made of y, so the likelihood always
favors a larger b, and must not choose it.

Priors: d_rc ~ N(M_rc, tau^2), a_c ~ N(log ybar_c, 3^2) up to a constant, log phi ~ N(1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from crosslevel.ecological.tables.contextual import kernels
from crosslevel.ecological.tables.contextual_effect import predicted_by_composition
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

A_SD = 3.0
LOG_PHI = (1.0, 1.0)  # mean and sd: phi is near 2 for polling places and near 1000 for counties, so the data decide
EIGENVALUE_FLOOR = 1e-2
MAX_DECREMENT = 0.05
"""Largest distance from the mode, in posterior standard deviations, at which a fit counts as converged."""
NEWTON_STEPS = 20
LEAST = 0.1
"""Of what composition predicts, that covariates leave of an outcome at least."""


@dataclass(frozen=True)
class Problem:
    """Counts and priors of one district, every group and outcome with people.

    Attributes
    ----------
    x : (n, R)
    y : (n, C)
    H : (n, C)
        Log of what composition predicts, over the overall share.
    M : (R, C)
        Prior mean of d.
    tau : float
        Prior sd of d.
    a0 : (C,)
        Prior mean of a: log overall shares, centered.
    F : (n, C)
        What covariates of the unit add to the log rates of every group; zero without any.
    """

    x: FloatArray
    y: FloatArray
    H: FloatArray
    M: FloatArray
    tau: float
    a0: FloatArray
    F: FloatArray


@dataclass(frozen=True)
class Mode:
    """Where the posterior density is highest, for one b.

    Attributes
    ----------
    theta : (C + R C + 1,)
        a, d and log phi.
    b : float
    objective : float
        Negative log posterior density, up to a constant.
    gradient : float
        Largest absolute entry of its gradient.
    iterations : int
    """

    theta: FloatArray
    b: float
    objective: float
    gradient: float
    iterations: int


def problem(x: FloatArray, y: FloatArray, M: FloatArray, tau: float, moved: FloatArray | None = None) -> Problem:
    """Prepare one district: what composition predicts in every unit, and the priors.

    ``moved`` (n, C) is by how much covariates move the outcome shares of units beyond composition.
    """
    N = x.sum(axis=1)
    y = y * (N / y.sum(axis=1))[:, None]
    log_share = np.log(y.sum(axis=0) / N.sum())
    H, F = (predicted_by_composition(x, y), np.zeros(y.shape)) if moved is None else _with_covariates(x, y, moved)
    return Problem(
        x=np.ascontiguousarray(x),
        y=np.ascontiguousarray(y),
        H=H,
        M=M,
        tau=tau,
        a0=log_share - log_share.mean(),
        F=F,
    )


def _with_covariates(x: FloatArray, y: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give what composition predicts where covariates are alike, and the log of what covariates add to it, both (n, C)."""
    N = x.sum(axis=1, keepdims=True)
    ybar = y.sum(axis=0) / N.sum()
    H = predicted_by_composition(x, np.maximum(y / N - moved, 0.0))
    m = np.exp(H) * ybar
    whole = np.maximum(m + moved, LEAST * m)
    return H, np.log(whole / whole.sum(axis=1, keepdims=True) / m)


def unpack(theta: FloatArray, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray, float]:
    """Split the parameters: a (C,), d (R, C), log phi."""
    R, C = shape
    return theta[:C], theta[C:-1].reshape(R, C), float(theta[-1])


def objective(theta: FloatArray, b: float, task: Problem) -> tuple[float, FloatArray]:
    """Give the negative log posterior density and its gradient."""
    a, d, log_phi = unpack(theta, task.M.shape)
    if abs(log_phi) > 50:
        return np.inf, np.zeros_like(theta)
    value, slope, by_phi = kernels.likelihood(a + d, b, np.exp(log_phi), task.x, task.y, task.H, task.F)
    off_d, off_a, off_phi = (d - task.M) / task.tau, (a - task.a0) / A_SD, (log_phi - LOG_PHI[0]) / LOG_PHI[1]
    total = -value + 0.5 * (np.sum(off_d**2) + np.sum(off_a**2) + off_phi**2)
    by_a, by_d = -slope.sum(axis=0) + off_a / A_SD, -slope + off_d / task.tau
    gradient = np.concatenate([by_a, by_d.ravel(), [-by_phi + off_phi / LOG_PHI[1]]])
    return (total, gradient) if np.isfinite(total) else (np.inf, np.zeros_like(theta))


def start(task: Problem) -> FloatArray:
    """Begin at independence moved by the prior mean."""
    return np.concatenate([task.a0, task.M.ravel(), [LOG_PHI[0]]])


def find_mode(task: Problem, b: float, theta: FloatArray | None = None) -> Mode:
    """Find the mode by L-BFGS from ``theta`` (default: independence)."""
    found = scipy.optimize.minimize(
        objective,
        start(task) if theta is None else theta,
        args=(b, task),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "ftol": 1e-9, "gtol": 1e-4, "maxiter": 2000, "maxfun": 4000},
    )
    if not np.isfinite(found.fun):
        raise ConvergenceError("the contextual model has no finite likelihood on these counts; merge tiny options.")
    return Mode(found.x, b, float(found.fun), float(np.abs(found.jac).max()), found.nit)


def refine_mode(task: Problem, mode: Mode) -> tuple[Mode, FloatArray, float]:
    """Take Newton steps until the mode is exact enough, and give the curvature there.

    Returns
    -------
    mode : Mode
    hessian : (n_par, n_par)
        With eigenvalues floored.
    decrement : float
        Distance from the exact mode in posterior standard deviations.

    Raises
    ------
    ConvergenceError
        When that distance stays above ``MAX_DECREMENT``.
    """
    theta, value = mode.theta, mode.objective
    for step in range(NEWTON_STEPS):
        gradient = objective(theta, mode.b, task)[1]
        values, vectors = scipy.linalg.eigh(_curvature(theta, mode.b, task))
        values = np.maximum(values, EIGENVALUE_FLOOR)
        move = -vectors @ ((vectors.T @ gradient) / values)
        decrement = float(np.sqrt(max(-gradient @ move, 0.0)))
        if decrement <= MAX_DECREMENT:
            found = Mode(theta, mode.b, value, float(np.abs(gradient).max()), mode.iterations + step)
            return found, (vectors * values) @ vectors.T, decrement
        size = 1.0
        while size > 1e-4 and not objective(theta + size * move, mode.b, task)[0] < value:
            size /= 2
        theta = theta + size * move
        value = objective(theta, mode.b, task)[0]
    raise ConvergenceError(
        f"the contextual model did not converge: {decrement:.2g} posterior standard deviations from the mode after "
        f"{mode.iterations} iterations and {NEWTON_STEPS} Newton steps (limit {MAX_DECREMENT}); merge tiny options."
    )


def _curvature(theta: FloatArray, b: float, task: Problem) -> FloatArray:
    """Give the Hessian of the objective by central differences of the gradient, (n_par, n_par)."""
    n = len(theta)
    hessian = np.empty((n, n))
    for j in range(n):
        step = 1e-4 * max(1.0, abs(theta[j]))
        ahead, behind = theta.copy(), theta.copy()
        ahead[j] += step
        behind[j] -= step
        hessian[j] = (objective(ahead, b, task)[1] - objective(behind, b, task)[1]) / (2 * step)
    return (hessian + hessian.T) / 2


def expected_cells(mode: Mode, task: Problem) -> FloatArray:
    """Give the expected inner table of every unit given both margins, (n, R, C); cells can be slightly negative."""
    a, d, log_phi = unpack(mode.theta, task.M.shape)
    cells = np.empty((len(task.x), *task.M.shape))
    kernels.expected_cells(a + d, mode.b, np.exp(log_phi), task.x, task.y, task.H, task.F, cells)
    return cells
