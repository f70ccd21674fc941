"""The posterior of a district's table: Laplace around the mode, and the spread of the assumed slope.

The contextual slope b is "cut": it varies with its stated standard deviation and is not updated by the data. What the
Laplace interval cannot see (rates that vary with composition in other ways) enters through constants.

The constants of the contextual model by kind of table, and what they were learned on.

Two choices of the same people (a party and a candidate) and groups of people (race, age) differ in how far rates of groups are
apart and in what the model's variance leaves out, so each kind has constants of its own:

    sd^2 = k^2 v + rho^2 h^2 + s0^2 (p (1 - p) + 1e-4)

with v the model's variance of a share p, and h how far a share is off when what moves the outcomes beside composition is
correlated with composition (``doubts.py``). That term does not shrink with the number of units, as v does.
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
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

DEMOGRAPHIC_KIND, SYMMETRIC = "demographic", "symmetric votes"
KINDS = (DEMOGRAPHIC_KIND, "votes", SYMMETRIC)
ELECTIONS = "two votes of the same people (split tickets counted in New Zealand, 2002 to 2014)"
PEOPLE = "tables of people (ACS 2024 by PUMA, states other than 12, 13, 17, 36, 37, 39, and voter registration in North Carolina)"


@dataclass(frozen=True)
class Constants:
    """What the model assumes, and how its variance becomes that of the error.

    Attributes
    ----------
    tau : float
        How far the groups may differ, as the prior sd of log rates.
    k, s0, rho : float
        Of the model's variance, of the variance of a share, and of the hidden context.
    slope, slope_sd : float
        The contextual slope and its standard deviation.
    learned_on : str
    """

    tau: float
    k: float
    s0: float
    rho: float = 0.0
    slope: float = 0.35
    slope_sd: float = 0.1
    learned_on: str = ELECTIONS

    def variance(self, share: FloatArray, variance: FloatArray, h: FloatArray) -> FloatArray:
        """Turn the model's variance of shares into that of their error."""
        return self.k**2 * variance + self.rho**2 * h**2 + self.s0**2 * (share * (1 - share) + 1e-4)


DEMOGRAPHIC = Constants(tau=0.5, k=0.6, s0=0.03, rho=0.11, slope=0.4, slope_sd=0.2, learned_on=PEOPLE)
VOTES = {  # what the districts share, both directions; learned on five elections, leaving one out at a time
    ("nothing", False): Constants(tau=0.8, k=1.04, s0=0.053),
    ("nothing", True): Constants(tau=0.8, k=1.08, s0=0.0),
    ("labels", False): Constants(tau=0.5, k=1.4, s0=0.02),
    ("labels", True): Constants(tau=0.5, k=1.2, s0=0.07),
    ("pool", False): Constants(tau=0.3, k=1.46, s0=0.039),
    ("pool", True): Constants(tau=0.3, k=1.45, s0=0.032),
}


def choose_constants(kind: str | None, *, pool: bool, labels: bool) -> tuple[str, Constants]:
    """Give the kind of table and its constants; options that say "choices of the same people" decide where none is stated.

    Examples
    --------
    >>> kind, constants = choose_constants(None, pool=True, labels=False)
    >>> kind, constants.k
    ('votes', 1.46)
    """
    said = [name for name, given in (("pool", pool), ("labels", labels)) if given]
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind")
    if kind == DEMOGRAPHIC_KIND and said:
        raise InputError(
            f"kind={kind!r} has no constants with {' and '.join(said)}=, which is for two choices of the same people; leave "
            f"{'it' if len(said) == 1 else 'them'} out, or pass kind='votes'."
        )
    chosen = kind or ("votes" if said else DEMOGRAPHIC_KIND)
    if chosen == DEMOGRAPHIC_KIND:
        return chosen, DEMOGRAPHIC
    return chosen, VOTES["pool" if pool else "labels" if labels else "nothing", chosen == SYMMETRIC]


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


def posterior(task: Problem, mode: Mode, b_sd: float, seed: int) -> TablePosterior:
    """Describe the table around the mode.

    Raises
    ------
    ConvergenceError
        When the mode is not reached.
    """
    mode, hessian, decrement = refine_mode(task, mode)
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
