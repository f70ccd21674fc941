"""The contextual model over one district or many: shared prior means by label, and both directions.

Pooling: the prior mean M of d belongs to a pair of labels (a group's and an outcome's), and is learned in rounds: fit every
district given M, then move M toward the mean of their d, shrunk by one pseudo-district at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.ecological.tables.contextual.intervals import TablePosterior, posterior
from crosslevel.ecological.tables.contextual.model import Mode, Problem, find_mode, problem, unpack
from crosslevel.ecological.tables.raking import fit_table
from crosslevel.typing import FloatArray, IntArray

FIRST_TAU = 1.0  # before anything is known of the label's mean
UPDATES = 4


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
    prior : (R, C)
        Prior mean of d, where it is not learned.
    row_labels, column_labels : (R,), (C,)
        Number of the label of each group and outcome; equal labels have equal numbers in all districts and on both sides.
    moved : (n, C) or None
        By how much covariates move the outcome shares of units.
    """

    units: IntArray
    rows: IntArray
    columns: IntArray
    x: FloatArray
    y: FloatArray
    prior: FloatArray
    row_labels: IntArray
    column_labels: IntArray
    moved: FloatArray | None = None

    @property
    def transposed(self) -> District:
        """The same, groups given outcomes."""
        prior, labels = np.ascontiguousarray(self.prior.T), (self.column_labels, self.row_labels)
        return District(self.units, self.columns, self.rows, self.y, self.x, prior, *labels)


@dataclass(frozen=True)
class Settings:
    """How the districts are fitted.

    Attributes
    ----------
    b, b_sd, tau : float
        Contextual slope, its standard deviation, and the prior sd of d.
    pooled, symmetric : bool
    seed : int
    """

    b: float
    b_sd: float
    tau: float
    pooled: bool
    symmetric: bool
    seed: int


def fit_districts(districts: Sequence[District], settings: Settings) -> list[TablePosterior]:
    """Fit every district, pooled by label or alone, in one direction or both; tables add up to both margins."""
    ahead = _one_way(districts, settings)
    if not settings.symmetric:
        return ahead
    back = _one_way([d.transposed for d in districts], settings)
    return [_both_ways(f, r) for f, r in zip(ahead, back, strict=True)]


def _one_way(districts: Sequence[District], settings: Settings) -> list[TablePosterior]:
    tasks = [problem(d.x, d.y, d.prior, settings.tau, d.moved) for d in districts]
    modes: list[Mode | None] = [None] * len(tasks)
    if settings.pooled:
        places = [np.ix_(d.row_labels, d.column_labels) for d in districts]
        tasks, modes = _learn_means(tasks, places, settings)
    found = []
    for task, mode, d in zip(tasks, modes, districts, strict=True):
        mode = find_mode(task, settings.b, None if mode is None else mode.theta)
        p = posterior(task, mode, settings.b_sd, settings.seed)
        found.append(replace(p, table=fit_table(p.table, d.x.sum(axis=0), d.y.sum(axis=0))))
    return found


def _learn_means(
    tasks: list[Problem], places: list[tuple[IntArray, ...]], settings: Settings
) -> tuple[list[Problem], list[Mode | None]]:
    """Learn the prior mean of every pair of labels; give the tasks with it, and the last modes."""
    n_labels = 1 + max(int(numbers.max()) for place in places for numbers in place)
    M = np.zeros((n_labels, n_labels))
    modes: list[Mode | None] = [None] * len(tasks)
    for update in range(UPDATES):
        total, count = np.zeros(M.shape), np.zeros(M.shape)
        for k, (task, place) in enumerate(zip(tasks, places, strict=True)):
            now = replace(task, M=M[place], tau=FIRST_TAU if update == 0 else settings.tau)
            before = modes[k]
            modes[k] = mode = find_mode(now, settings.b, None if before is None else before.theta)
            # np.add.at, since two options of one district may share a label
            np.add.at(total, place, unpack(mode.theta, now.M.shape)[1] - now.M)
            np.add.at(count, place, 1.0)
        M = M + total / (count + 1)
    return [replace(task, M=M[place]) for task, place in zip(tasks, places, strict=True)], modes


def _both_ways(f: TablePosterior, r: TablePosterior) -> TablePosterior:
    """Average the two directions; their difference is part of the variance."""
    difference, back = (f.table - r.table.T) / 2, r.cells.transpose(0, 2, 1)
    return TablePosterior(
        table=(f.table + r.table.T) / 2,
        variance=(f.variance + r.variance.T) / 2 + difference**2,
        draws=np.concatenate([f.draws, r.draws.transpose(0, 2, 1)]),
        cells=(f.cells + back) / 2,
        cell_variance=(f.cell_variance + r.cell_variance.transpose(0, 2, 1)) / 2 + ((f.cells - back) / 2) ** 2,
        gradient=max(f.gradient, r.gradient),
        decrement=max(f.decrement, r.decrement),
        iterations=f.iterations + r.iterations,
        overdispersion=f.overdispersion,
    )
