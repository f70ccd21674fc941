"""The posterior of a district's table: Laplace around the mode, and the spread of the assumed slope.

The contextual slope b is "cut": it varies with its stated standard deviation and is not updated by the data. What the
Laplace interval cannot see (rates that vary with composition in other ways) enters through the constants of ``constants.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.ecological.tables.contextual import kernels
from crosslevel.ecological.tables.contextual.model import (
    Mode,
    Problem,
    expected_cells,
    find_mode,
    refine_mode,
    unpack,
)
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

__all__ = ["TablePosterior", "joint_draws", "posterior"]


N_DRAWS = 400
TURNS = 30
"""Of scaling cells and restoring the sums of groups; a few suffice where the spreads of a group's cells can go together."""


@dataclass(frozen=True)
class TablePosterior:
    """The posterior of one district's table, in counts.

    Attributes
    ----------
    table : (R, C)
        Posterior mean; rows add up to the groups.
    variance : (R, C)
        Of the table, not calibrated: parameters, contextual slope and what the margins leave open given parameters.
    draws : (n_draws, R, C)
        Of the table given parameters.
    cells, cell_variance : (n, R, C)
        Expected cells of every unit at the mode, not raked, and the variance of the cells, not calibrated.
    gradient, decrement : float
        Largest entry of the gradient at the mode, and distance from the exact mode in posterior standard deviations.
    iterations : int
    overdispersion : float
        phi.
    failure : str
        Why the mode was not reached; empty where it was. Variance and draws are then not known.
    """

    table: FloatArray
    variance: FloatArray
    draws: FloatArray
    cells: FloatArray
    cell_variance: FloatArray
    gradient: float
    decrement: float
    iterations: int
    overdispersion: float
    failure: str = ""


def posterior(task: Problem, mode: Mode, b_sd: float, seed: int, allow_unconverged: bool = False) -> TablePosterior:
    """Describe the table around the mode.

    Raises
    ------
    ConvergenceError
        When the mode is not reached, unless ``allow_unconverged``.
    """
    try:
        mode, hessian, decrement = refine_mode(task, mode)
    except ConvergenceError as error:
        if not allow_unconverged:
            raise
        return _where_it_stopped(task, mode, str(error))
    z, z_b = _antithetic(len(mode.theta), seed)
    values, vectors = scipy.linalg.eigh(hessian)
    theta = mode.theta + z @ (vectors / np.sqrt(values)).T
    if b_sd > 0:
        ahead, behind = (find_mode(task, mode.b + s * b_sd, mode.theta).theta for s in (1, -1))
        theta = theta + z_b[:, None] * (ahead - behind) / 2
    R, C = task.M.shape
    eta = theta[:, None, :C] + theta[:, C:-1].reshape(-1, R, C)
    # the cut keeps draws far in the tail from overflowing; e^20 is beyond any spread of counts
    phis = np.exp(np.clip(theta[:, -1], -20, 20))
    tables, total, square = kernels.expected_tables(eta, mode.b + b_sd * z_b, phis, task.x, task.y, task.H, task.F)
    tables = np.maximum(tables, 0)
    tables *= task.x.sum(axis=0)[:, None] / tables.sum(axis=2, keepdims=True)
    a, d, log_phi = unpack(mode.theta, (R, C))
    given = kernels.cell_variance(a + d, mode.b, np.exp(log_phi), task.x, task.y, task.H, task.F)
    moved = np.maximum(square / N_DRAWS - (total / N_DRAWS) ** 2, 0)
    return TablePosterior(
        table=tables.mean(axis=0),
        variance=tables.var(axis=0) + np.maximum(given.sum(axis=0), 0),
        draws=tables,
        cells=expected_cells(mode, task),
        cell_variance=moved + np.maximum(given, 0),
        gradient=mode.gradient,
        decrement=decrement,
        iterations=mode.iterations,
        overdispersion=float(np.exp(log_phi)),
    )


def _where_it_stopped(task: Problem, mode: Mode, failure: str) -> TablePosterior:
    """Give the table at the last step of a search that did not reach its mode; its variance is not known."""
    cells, unknown = np.maximum(expected_cells(mode, task), 0), np.full(task.M.shape, np.nan)
    return TablePosterior(
        table=cells.sum(axis=0),
        variance=unknown,
        draws=unknown[None],
        cells=cells,
        cell_variance=np.full(cells.shape, np.nan),
        gradient=mode.gradient,
        decrement=np.nan,
        iterations=mode.iterations,
        overdispersion=float(np.exp(mode.theta[-1])),
        failure=failure,
    )


def _antithetic(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Draw normals in pairs of opposite sign, so that odd terms cancel in the mean."""
    z = np.random.default_rng(seed).standard_normal((N_DRAWS // 2, n + 1))
    both = np.concatenate([z, -z])
    return both[:, :-1], both[:, -1]


def joint_draws(raw: FloatArray, sd: FloatArray, whole: FloatArray) -> FloatArray:
    """Give draws of shares around the estimate with the spread ``sd``, inside the bounds, whose outcomes add up in every group.

    Parameters
    ----------
    raw : (n_draws, R, C)
        Shares that add up, whose correlations are kept as far as the sums allow.
    sd : (R, C)
    whole : (3, R, C)
        Estimated shares, and their lower and upper bounds.

    Examples
    --------
    >>> raw = np.array([[[0.2, 0.3, 0.5]], [[0.4, 0.3, 0.3]], [[0.3, 0.3, 0.4]]])
    >>> whole = np.array([[[0.3, 0.3, 0.4]], [[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.5]]])
    >>> joint_draws(raw, np.full((1, 3), 0.2), whole).sum(axis=2).round(12).tolist()
    [[1.0], [1.0], [1.0]]
    """
    share, low, high = whole
    weight = np.maximum(sd**2, 1e-18)
    away = raw - raw.mean(axis=0)
    for _ in range(TURNS):
        away = away * (sd / np.maximum(away.std(axis=0), 1e-12))
        over = away.sum(axis=2, keepdims=True)
        away = away - over * (weight / weight.sum(axis=1, keepdims=True))
    found = np.clip(share + away, low, high)
    # what the bounds cut off goes to the outcomes that have room for it
    for _ in range(share.shape[1]):
        rest = share.sum(axis=1, keepdims=True) - found.sum(axis=2, keepdims=True)
        room = np.where(rest > 0, found < high, found > low) * weight
        found = np.clip(found + rest * room / np.maximum(room.sum(axis=2, keepdims=True), 1e-300), low, high)
    return found
