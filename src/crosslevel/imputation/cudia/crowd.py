"""People to impute, as the clusters take them: those who were passed, those of the fit, and what others take over from these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from crosslevel.data.cells import Cells, warn_outside
from crosslevel.imputation.cudia.families import recode
from crosslevel.imputation.cudia.fitting import Layout, atoms_of
from crosslevel.imputation.cudia.impute import Crowd, expected_values, matched, with_constants
from crosslevel.imputation.cudia.model import Parameters
from crosslevel.imputation.inputs import People
from crosslevel.imputation.match_means import group_constants
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.imputation.cudia.estimator import CUDIA


def gather_crowd(layout: Layout, names: Sequence[str], people: People, cells: Cells) -> Crowd:
    """Give people who were passed, and counted by distinct row and group, as the clusters take them."""
    rows = recode(cells.X, layout.reading, names)
    if len(layout.problem.X):  # a saved model has nobody
        warn_outside(rows[cells.row], layout.problem.X, names, stacklevel=6)
    atom = atoms_of(cells.pair_group, layout.atoms)
    return Crowd(rows, cells.pair_cell, atom, cells.pair, people.group, people.weight)


def expected_people(
    layout: Layout, averaged: Sequence[Parameters], crowd: Crowd, constants: Sequence[FloatArray] | None
) -> FloatArray:
    """Give the expected hidden values of people, (n, d_u): with the published means, or with constants of the fit where they are others."""
    problem, targets = layout.problem, layout.targets
    values = expected_values(problem.families, averaged, crowd)[crowd.pair]
    if constants is None:
        return matched(values, problem.hidden, targets, crowd.group, crowd.weight)
    return with_constants(values, problem.hidden, targets, crowd.group, constants)


def constants_of(model: CUDIA) -> tuple[FloatArray, ...]:
    """Give the constants of a fit, found when they are first asked for."""
    if model._constants is None:
        model._constants = fit_constants(model._layout, model._averaged())
    return model._constants


def fit_constants(layout: Layout, averaged: Sequence[Parameters]) -> tuple[FloatArray, ...]:
    """Find what made the expected values of the people of the fit meet the published means, (P,) for each hidden feature.

    It is added to logits (binary) or to values (real), or a factor (counts, waiting times). A stream keeps no people to find it of: what
    is given then changes nothing.
    """
    problem = layout.problem
    group = np.asarray(layout.atoms[problem.atom], dtype=np.intp)
    pair = np.arange(len(problem.cell))
    crowd = Crowd(problem.X, problem.cell, problem.atom, pair, group, problem.weight)
    values = expected_values(problem.families, averaged, crowd) if len(pair) else np.zeros((0, len(problem.hidden)))
    return tuple(
        group_constants(values[:, j], group[:, partition], mean, problem.weight, kind)
        if len(pair)
        else np.full(len(mean), 0.0 if kind in ("bernoulli", "gaussian") else 1.0)
        for j, (kind, (partition, mean)) in enumerate(zip(problem.hidden, layout.targets, strict=True))
    )
