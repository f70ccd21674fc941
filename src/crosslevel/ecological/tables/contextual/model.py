"""The contextual model of R x C tables: group rates that lean with their surroundings, overdispersed.

Units i, groups r, outcomes c; x_ir people of each group, y_ic people with each outcome, N_i = sum_r x_ir.

    p_irc = softmax_c(a_c + d_rc + b H_ic),     H_ic = log(m_ic / ybar_c)
    y_i   ~ N(sum_r x_ir p_ir, S_i),            S_i = phi (sum_r x_ir [diag(p_ir) - p_ir p_ir'] + 0.5 I)

with the last outcome dropped from y_i and S_i, a quasi-likelihood matched by moments. m_i is what the composition of
unit i predicts for its outcomes, computed once; b says how far every group leans to what is strong around it. b = 0 is
the constancy of Goodman's regression, b = 1 is close to the neighborhood model. It is an assumption: m is made of y, so
the likelihood always asks for more of it, and must not choose it.

Priors: d_rc ~ N(M_rc, tau^2), a_c ~ N(log ybar_c, 3^2) up to a constant, log phi ~ N(1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from crosslevel.ecological.tables.contextual import kernels
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = [
    "CONTEXT_RANGE",
    "CONTEXT_SD_RANGE",
    "Mode",
    "Problem",
    "Surroundings",
    "curvature",
    "expected_cells",
    "fit_mode",
    "no_surroundings",
    "objective",
    "problem",
    "surroundings",
    "unpack",
]


CONTEXT_RANGE, CONTEXT_SD_RANGE = (-1.0, 2.0), (0.0, 1.0)
"""What may be stated of how far groups lean, and how unsure that is."""
CONTEXT_RIDGE = 1e-3  # of the mean squared composition: composition predicts, it need not be told apart
CONTEXT_FLOOR = 0.1  # of the overall share, so that log m stays tame where composition predicts nothing
A_SD = 3.0
LOG_PHI = (1.0, 1.0)  # mean and sd: phi is near 2 for polling places and near 1000 for counties, so the data decide
EIGENVALUE_FLOOR = 1e-2
MAX_DECREMENT = 0.05
"""Largest distance from the mode, in posterior standard deviations, at which a fit counts as converged."""


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
        Prior mean of a: log overall shares, centred.
    """

    x: FloatArray
    y: FloatArray
    H: FloatArray
    M: FloatArray
    tau: float
    a0: FloatArray


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


def problem(x: FloatArray, y: FloatArray, M: FloatArray, tau: float) -> Problem:
    """Prepare one district: the context of every unit and the priors."""
    N = x.sum(axis=1)
    y = y * (N / y.sum(axis=1))[:, None]
    log_share = np.log(y.sum(axis=0) / N.sum())
    return Problem(
        x=np.ascontiguousarray(x),
        y=np.ascontiguousarray(y),
        H=context(x, y),
        M=M,
        tau=tau,
        a0=log_share - log_share.mean(),
    )


def context(x: FloatArray, y: FloatArray) -> FloatArray:
    """Predict the outcomes of every unit from its composition: log(m_ic / ybar_c), (n, C).

    The two sides may count different totals; a unit weighs as much as its groups do.
    """
    N, t = x.sum(axis=1), y / y.sum(axis=1, keepdims=True)
    ybar, xbar = N @ t / N.sum(), x.sum(axis=0) / N.sum()
    A = np.sqrt(N)[:, None] * (x / N[:, None] - xbar)
    moved = np.sqrt(N)[:, None] * (t - ybar)
    gram = A.T @ A
    ridge = CONTEXT_RIDGE * np.trace(gram) / x.shape[1]
    if ridge <= 0:  # every unit has the same composition
        return np.zeros(y.shape)
    slope = scipy.linalg.solve(gram + ridge * np.eye(len(gram)), A.T @ moved, assume_a="pos")
    m = np.maximum(ybar + (x / N[:, None] - xbar) @ slope, CONTEXT_FLOOR * ybar)
    return np.log(m / m.sum(axis=1, keepdims=True) / ybar)


@dataclass(frozen=True)
class Surroundings:
    """How groups are assumed to lean with their surroundings.

    Attributes
    ----------
    H : (n, C)
        Log of what composition predicts, over the overall share.
    b, sd : float
        How far every group leans to it, and how unsure that is.
    """

    H: FloatArray
    b: float
    sd: float

    def lean(self, off: float = 0.0) -> FloatArray:
        """Give the factor (n, C) of every rate before rates are made to add up, ``off`` being added to b."""
        return np.asarray(np.exp((self.b + off) * self.H))


def surroundings(x: FloatArray, y: FloatArray, b: float, sd: float) -> Surroundings:
    """Prepare the context of every unit."""
    return Surroundings(context(x, y), b, sd)


def no_surroundings(shape: tuple[int, ...]) -> Surroundings:
    """Give what leaves rates alone, for (n, C) outcomes."""
    return Surroundings(np.zeros(shape), 0.0, 0.0)


def unpack(theta: FloatArray, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray, float]:
    """Split the parameters: a (C,), d (R, C), log phi."""
    R, C = shape
    return theta[:C], theta[C:-1].reshape(R, C), float(theta[-1])


def objective(theta: FloatArray, b: float, task: Problem) -> tuple[float, FloatArray]:
    """Give the negative log posterior density and its gradient."""
    a, d, log_phi = unpack(theta, task.M.shape)
    if abs(log_phi) > 50:
        return np.inf, np.zeros_like(theta)
    value, slope, by_phi = kernels.likelihood(a + d, b, np.exp(log_phi), task.x, task.y, task.H)
    off_d, off_a, off_phi = (d - task.M) / task.tau, (a - task.a0) / A_SD, (log_phi - LOG_PHI[0]) / LOG_PHI[1]
    total = -value + 0.5 * (np.sum(off_d**2) + np.sum(off_a**2) + off_phi**2)
    gradient = np.concatenate(
        [
            -slope.sum(axis=0) + off_a / A_SD,
            (-slope + off_d / task.tau).ravel(),
            [-by_phi + off_phi / LOG_PHI[1]],
        ]
    )
    return (total, gradient) if np.isfinite(total) else (np.inf, np.zeros_like(theta))


def start(task: Problem) -> FloatArray:
    """Begin at independence moved by the prior mean."""
    return np.concatenate([task.a0, task.M.ravel(), [LOG_PHI[0]]])


def fit_mode(task: Problem, b: float, theta: FloatArray | None = None) -> Mode:
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
    return Mode(
        theta=found.x, b=b, objective=float(found.fun), gradient=float(np.abs(found.jac).max()), iterations=found.nit
    )


def curvature(theta: FloatArray, b: float, task: Problem) -> FloatArray:
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
    kernels.expected_cells(a + d, mode.b, np.exp(log_phi), task.x, task.y, task.H, cells)
    return cells
