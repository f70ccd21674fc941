"""Passes over pairs, against sums written out."""

import numpy as np
import pytest

from crosslevel.imputation.cudia.kernels import draw_counts
from crosslevel.imputation.cudia.posterior import responsibilities, weigh


def test_sums_are_those_of_responsibilities():
    rng = np.random.default_rng(0)
    log_f, pi = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(3), 2)
    cell, atom, weight = np.array([0, 1, 2, 3, 4, 0]), np.array([0, 0, 0, 1, 1, 1]), rng.uniform(1, 4, 6)
    value, by_cell, by_atom = weigh(log_f, pi, cell, atom, weight)
    joint = pi[atom] * np.exp(log_f[cell])
    assert value == pytest.approx(weight @ np.log(joint.sum(axis=1)))
    r = joint / joint.sum(axis=1, keepdims=True)
    assert responsibilities(log_f, pi, cell, atom) == pytest.approx(r)
    assert by_atom == pytest.approx(np.array([(weight[:, None] * r)[atom == a].sum(axis=0) for a in range(2)]))
    assert by_cell == pytest.approx(np.array([(weight[:, None] * r)[cell == c].sum(axis=0) for c in range(5)]))


def test_a_row_whose_only_cluster_has_vanished_is_no_division_by_nothing():
    log_f, pi = np.array([[0.0, -900.0]]), np.array([[0.0, 1.0]])
    one = np.zeros(1, dtype=np.int64)
    value, by_cell, by_atom = weigh(log_f, pi, one, one, np.ones(1))
    assert value < -600
    assert by_atom[0].sum() == pytest.approx(1.0)
    assert by_cell[0].sum() == pytest.approx(1.0)
    assert np.isfinite(responsibilities(log_f, pi, one, one)).all()


def test_drawn_counts_have_the_probabilities():
    rng = np.random.default_rng(1)
    f, pi = np.array([[1.0, 0.4, 0.2], [0.1, 1.0, 0.3]]), np.array([[0.5, 0.3, 0.2]])
    cell, atom = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    count, weight = np.array([20_000, 1]), np.array([40_000.0, 1.0])
    counts, by_cell, by_atom = draw_counts(f, pi, cell, atom, count, weight, rng)
    assert counts.sum(axis=1).tolist() == [20_000, 1]
    p = pi[0] * f[0] / (pi[0] @ f[0])
    assert counts[0] / 20_000 == pytest.approx(p, abs=4 * 0.5 / np.sqrt(20_000))
    assert by_cell[0] == pytest.approx(2.0 * counts[0])
    assert by_atom[0] == pytest.approx(2.0 * counts[0] + counts[1])
