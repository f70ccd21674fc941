"""The contextual model over one district or many: shared prior means by label, and both directions.

Pooling: the prior mean M of d belongs to a pair of labels (a group's and an outcome's), and is learnt by turns: fit every
district given M, then move M towards the mean of their d, shrunk by one pseudo-district at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.ecological.tables.contextual import kernels
from crosslevel.ecological.tables.contextual.intervals import Posterior, posterior
from crosslevel.ecological.tables.contextual.model import Mode, Problem, fit_mode, problem, unpack
from crosslevel.typing import FloatArray, IntArray

__all__ = ["Belief", "District", "believe", "rake_units"]


FIRST_TAU = 1.0  # before anything is known of the label's mean
UPDATES = 4
RAKE_ROUNDS = 50
IPF_ROUNDS = 200


@dataclass(frozen=True)
class District:
    """Units of one district, with the groups and outcomes that have people there.

    Attributes
    ----------
    units : (n,)
        Rows of the whole table.
    rows, columns : (R,), (C,)
        Groups and outcomes present, as columns of the whole tables.
    x : (n, R)
    y : (n, C)
    prior : (R, C) or None
        Fixed prior mean of d, when it is not learnt.
    """

    units: IntArray
    rows: IntArray
    columns: IntArray
    x: FloatArray
    y: FloatArray
    prior: FloatArray | None = None

    @property
    def transposed(self) -> District:
        """The same, groups given outcomes."""
        prior = None if self.prior is None else np.ascontiguousarray(self.prior.T)
        return District(self.units, self.columns, self.rows, self.y, self.x, prior)


@dataclass(frozen=True)
class Belief:
    """What one district's table is believed to be, in counts.

    Attributes
    ----------
    table : (R, C)
        Adds up to both margins.
    variance : (R, C)
        Not calibrated.
    draws : (n_draws, R, C)
    cells : (n, R, C)
        Expected cells of the units; not raked.
    gradient, decrement : float
        Largest of the directions: entry of the gradient, distance from the mode in posterior standard deviations.
    iterations : int
    overdispersion : float
        phi, forward.
    """

    table: FloatArray
    variance: FloatArray
    draws: FloatArray
    cells: FloatArray
    gradient: float
    decrement: float
    iterations: int
    overdispersion: float


def believe(
    districts: Sequence[District],
    *,
    b: float,
    b_sd: float,
    tau: float,
    row_labels: IntArray,
    column_labels: IntArray,
    pooled: bool,
    symmetric: bool,
    random_state: int | None,
) -> list[Belief]:
    """Fit every district, pooled by label or alone, in one direction or both.

    Parameters
    ----------
    districts : sequence of District
    b, b_sd, tau : float
        Context, its spread, and the prior sd of d.
    row_labels, column_labels : (n_groups,), (n_outcomes,)
        Number of the label of each group and outcome.
    pooled, symmetric : bool
    random_state : int or None
    """
    ahead = _direction(districts, b, b_sd, tau, row_labels, column_labels, pooled, random_state)
    if not symmetric:
        return [_one_way(p, d) for p, d in zip(ahead, districts, strict=True)]
    turned = [d.transposed for d in districts]
    back = _direction(turned, b, b_sd, tau, column_labels, row_labels, pooled, random_state)
    return [_both_ways(f, r, d) for f, r, d in zip(ahead, back, districts, strict=True)]


def rake_units(cells: FloatArray, table: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Bring unit tables (n, R, C) to both margins of every unit, and as near to the district's table as these allow.

    Every cell then lies inside its deterministic bounds, and so do the sums.
    """
    independent = x[:, :, None] * y[:, None, :] / x.sum(axis=1)[:, None, None]
    # a floor, since scaling cannot revive a cell that is zero
    seed = np.maximum(cells, 1e-3 * independent)
    kernels.rake(seed, np.ascontiguousarray(x), np.ascontiguousarray(y), table, RAKE_ROUNDS)
    return seed


def fit_table(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Scale a table to both margins by iterative proportional fitting, and exactly."""
    fitted = np.maximum(table, 1e-6 * np.outer(rows, columns) / rows.sum())[None]
    kernels.rake(fitted, rows[None], columns[None], fitted[0].copy(), IPF_ROUNDS // 20)
    return fitted[0]


def _direction(
    districts: Sequence[District],
    b: float,
    b_sd: float,
    tau: float,
    row_labels: IntArray,
    column_labels: IntArray,
    pooled: bool,
    random_state: int | None,
) -> list[Posterior]:
    tasks = [
        problem(d.x, d.y, np.zeros((len(d.rows), len(d.columns))) if d.prior is None else d.prior, tau)
        for d in districts
    ]
    modes: list[Mode | None] = [None] * len(tasks)
    if pooled:
        places = [np.ix_(row_labels[d.rows], column_labels[d.columns]) for d in districts]
        tasks, modes = _learn_means(tasks, places, b, tau, (row_labels.max() + 1, column_labels.max() + 1))
    found = []
    for task, mode in zip(tasks, modes, strict=True):
        mode = fit_mode(task, b, None if mode is None else mode.theta)
        found.append(posterior(task, mode, b_sd, random_state))
    return found


def _learn_means(
    tasks: list[Problem], places: list[tuple[IntArray, ...]], b: float, tau: float, shape: tuple[int, int]
) -> tuple[list[Problem], list[Mode | None]]:
    """Learn the prior mean of every pair of labels; give the tasks with it, and the last modes."""
    M = np.zeros(shape)
    modes: list[Mode | None] = [None] * len(tasks)
    for update in range(UPDATES):
        total, count = np.zeros(shape), np.zeros(shape)
        for k, (task, place) in enumerate(zip(tasks, places, strict=True)):
            now = replace(task, M=M[place], tau=FIRST_TAU if update == 0 else tau)
            before = modes[k]
            modes[k] = mode = fit_mode(now, b, None if before is None else before.theta)
            # np.add.at, since two options of one district may share a label
            np.add.at(total, place, unpack(mode.theta, now.M.shape)[1] - now.M)
            np.add.at(count, place, 1.0)
        M = M + total / (count + 1)
    return [replace(task, M=M[place]) for task, place in zip(tasks, places, strict=True)], modes


def _one_way(p: Posterior, d: District) -> Belief:
    return Belief(
        table=fit_table(p.table, d.x.sum(axis=0), d.y.sum(axis=0)),
        variance=p.variance,
        draws=p.draws,
        cells=p.cells,
        gradient=p.mode.gradient,
        decrement=p.decrement,
        iterations=p.mode.iterations,
        overdispersion=float(np.exp(p.mode.theta[-1])),
    )


def _both_ways(ahead: Posterior, back: Posterior, d: District) -> Belief:
    f, r = _one_way(ahead, d), _one_way(back, d.transposed)
    difference = (f.table - r.table.T) / 2
    return Belief(
        table=(f.table + r.table.T) / 2,
        variance=(f.variance + r.variance.T) / 2 + difference**2,
        draws=np.concatenate([f.draws, r.draws.transpose(0, 2, 1)]),
        cells=(f.cells + r.cells.transpose(0, 2, 1)) / 2,
        gradient=max(f.gradient, r.gradient),
        decrement=max(f.decrement, r.decrement),
        iterations=f.iterations + r.iterations,
        overdispersion=f.overdispersion,
    )
