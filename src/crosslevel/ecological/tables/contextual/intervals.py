"""Intervals of the contextual model: Laplace around the mode, the assumption's own spread, and calibration.

The context b is "cut": it varies with its stated spread and is not updated by the data. What the Laplace interval cannot
see (rates that vary with composition in other ways) enters through two constants, learnt on elections whose inner tables
were counted: sd^2 = k^2 v + s0^2 (p (1 - p) + 1e-4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.ecological.tables.contextual import kernels
from crosslevel.ecological.tables.contextual.model import (
    EIGENVALUE_FLOOR,
    MAX_DECREMENT,
    Mode,
    Problem,
    curvature,
    expected_cells,
    fit_mode,
    objective,
    unpack,
)
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = ["CALIBRATION", "Calibration", "Posterior", "calibrated_variance", "posterior"]


N_DRAWS = 400
NEWTON_STEPS = 20


@dataclass(frozen=True)
class Calibration:
    """How the model's variance becomes that of the error: sd^2 = k^2 v + s0^2 (p (1 - p) + 1e-4)."""

    k: float
    s0: float


CALIBRATION = {
    # (pooled, both directions): learnt on five New Zealand elections (2002 to 2014), leaving one out at a time
    (False, False): Calibration(1.04, 0.053),
    (False, True): Calibration(1.08, 0.0),
    (True, False): Calibration(1.46, 0.039),
    (True, True): Calibration(1.45, 0.032),
}


@dataclass(frozen=True)
class Posterior:
    """What one district's table is believed to be, in counts.

    Attributes
    ----------
    mode : Mode
    table : (R, C)
        Posterior mean; rows add up to the groups.
    variance : (R, C)
        Of the table: parameters, context and what the margins leave open given parameters.
    draws : (n_draws, R, C)
        Of the table given parameters.
    cells : (n, R, C)
        Expected cells of every unit at the mode.
    decrement : float
        Distance from the exact mode in posterior standard deviations.
    """

    mode: Mode
    table: FloatArray
    variance: FloatArray
    draws: FloatArray
    cells: FloatArray
    decrement: float


def posterior(task: Problem, mode: Mode, b_sd: float, random_state: int | None) -> Posterior:
    """Describe the table around the mode.

    Raises
    ------
    ConvergenceError
        When the mode is not found to within ``MAX_DECREMENT`` posterior standard deviations.
    """
    mode, hessian, decrement = certify(task, mode)
    z, z_b = _antithetic(len(mode.theta), random_state)
    root = _root(hessian)
    theta = mode.theta + z @ root.T
    if b_sd > 0:
        ahead, behind = (fit_mode(task, mode.b + s * b_sd, mode.theta).theta for s in (1, -1))
        theta = theta + z_b[:, None] * (ahead - behind) / 2
    R, C = task.M.shape
    eta = theta[:, None, :C] + theta[:, C:-1].reshape(-1, R, C)
    # the cut keeps draws far in the tail from overflowing; e^20 is beyond any spread of counts
    tables = kernels.expected_tables(
        eta, mode.b + b_sd * z_b, np.exp(np.clip(theta[:, -1], -20, 20)), task.x, task.y, task.H
    )
    rows = task.x.sum(axis=0)[:, None]
    tables = np.maximum(tables, 0)
    tables *= rows / tables.sum(axis=2, keepdims=True)
    a, d, log_phi = unpack(mode.theta, (R, C))
    given = kernels.cell_variance(a + d, mode.b, np.exp(log_phi), task.x, task.y, task.H)
    return Posterior(
        mode=mode,
        table=tables.mean(axis=0),
        variance=tables.var(axis=0) + np.maximum(given, 0),
        draws=tables,
        cells=expected_cells(mode, task),
        decrement=decrement,
    )


def certify(task: Problem, mode: Mode) -> tuple[Mode, FloatArray, float]:
    """Polish the mode by Newton steps until it is exact enough, and give the curvature there.

    Returns
    -------
    mode : Mode
    hessian : (n_par, n_par)
        With eigenvalues floored.
    decrement : float
    """
    theta, value = mode.theta, mode.objective
    for step in range(NEWTON_STEPS):
        gradient = objective(theta, mode.b, task)[1]
        values, vectors = scipy.linalg.eigh(curvature(theta, mode.b, task))
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


def calibrated_variance(share: FloatArray, variance: FloatArray, constants: Calibration) -> FloatArray:
    """Turn the model's variance of shares into that of their error."""
    return constants.k**2 * variance + constants.s0**2 * (share * (1 - share) + 1e-4)


def _root(hessian: FloatArray) -> FloatArray:
    """Give a square root of the inverse: root root' = hessian^-1."""
    values, vectors = scipy.linalg.eigh(hessian)
    return vectors / np.sqrt(values)


def _antithetic(n: int, random_state: int | None) -> tuple[FloatArray, FloatArray]:
    """Draw normals in pairs of opposite sign, so that odd terms cancel in the mean."""
    z = np.random.default_rng(random_state).standard_normal((N_DRAWS // 2, n + 1))
    both = np.concatenate([z, -z])
    return both[:, :-1], both[:, -1]
