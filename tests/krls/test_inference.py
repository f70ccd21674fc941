"""Closed forms equal dense matrices over all rows; jackknives equal refits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.data.columns import Number
from crosslevel.krls.covariance import _cluster_scores, effect_weights, residuals, robust
from crosslevel.krls.effects import average_functionals, build_effects
from crosslevel.krls.model import collapse
from crosslevel.krls.reading import Encoding
from crosslevel.krls.spectrum import GaussianKernel, Spectrum, decompose, standardize
from crosslevel.krls.subgroups import everybody, spread

PENALTY, MU, S = 0.4, 0.04, 3.0


class Dense:
    """Everything by explicit matrices over all rows, with given standardized covariates."""

    def __init__(self, Z, y, V, ell, w=None):
        self.y, self.V, self.ell = y, V, ell
        self.w = np.ones(len(y)) if w is None else w
        self.K = GaussianKernel(Z, S).matrix()
        self.H = np.column_stack([np.ones(len(y)), Z])

    def inverse(self, penalty):
        return np.linalg.inv(self.K + penalty * np.diag(1 / self.w))

    def P(self, penalty, linear=True):
        Gi = self.inverse(penalty)
        if not linear:
            return Gi
        return Gi - Gi @ self.H @ np.linalg.inv(self.H.T @ Gi @ self.H) @ self.H.T @ Gi

    def weights(self, penalty):
        """Weights on outcomes that minimize the error over the kernel's functions, exact on linear ones."""
        Gi = self.inverse(penalty)
        r = self.ell - self.H.T @ Gi @ self.V
        return Gi @ self.V + Gi @ self.H @ np.linalg.inv(self.H.T @ Gi @ self.H) @ r

    def debiased(self, penalty):
        return self.weights(penalty).T @ self.y


def prepare(X, y, weights=None, cluster=None):
    cells = collapse(X, y, weights, cluster)
    scaling = standardize(cells.X, cells.m)
    encoding = Encoding(tuple(Number(f"x{j}") for j in range(X.shape[1])))
    effects = build_effects(encoding, cells.X, scaling)
    kernel = GaussianKernel(scaling.apply(cells.X), S)
    functionals = average_functionals(kernel, effects, cells.m / cells.N)
    spectrum = decompose(kernel, cells.m)
    dense = Dense(kernel.Z[cells.row], y, functionals.V[cells.row], functionals.ell, cells.row_weight)
    return cells, kernel, functionals, spectrum, dense, effects


@pytest.mark.parametrize("weighted", [False, True])
def test_debiased_weights_equal_dense_evaluation(mixed, rng, weighted):
    X, y = mixed(50)
    w = rng.uniform(0.4, 2.0, 50) if weighted else None
    cells, kernel, functionals, spectrum, dense, _ = prepare(X, y, w)
    found = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    np.testing.assert_allclose(found.estimate, dense.debiased(MU), rtol=1e-10)
    total = found.W[cells.row] * dense.w[:, None]
    np.testing.assert_allclose(total, dense.weights(MU), atol=1e-10)
    np.testing.assert_allclose(dense.H.T @ total, functionals.ell, atol=1e-10)  # exact on linear functions


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_hc3_equals_dense_leave_one_out(mixed, rng, linear, weighted):
    X, y = mixed(40)
    w = rng.uniform(0.4, 2.0, 40) if weighted else None
    cells, kernel, functionals, spectrum, dense, _ = prepare(X, y, w)
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    found = robust(spectrum, cells, residuals(spectrum, cells, PENALTY, kernel.Z if linear else None), weights)
    P = dense.P(PENALTY, linear)
    R = dense.weights(MU) * (P @ y / np.diag(P))[:, None]
    np.testing.assert_allclose(found.matrix, R.T @ R, rtol=1e-10)
    assert found.warnings == ()


def test_hc3_at_the_weights_penalty_is_the_jackknife(mixed):
    X, y = mixed(35)
    cells, kernel, functionals, spectrum, dense, _ = prepare(X, y)
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    found = robust(spectrum, cells, residuals(spectrum, cells, MU, kernel.Z), weights).matrix
    changes = []
    for i in range(35):
        keep = np.arange(35) != i
        less = Dense(kernel.Z[cells.row][keep], y[keep], dense.V[keep], dense.ell)  # the same functional, one row fewer
        changes.append(less.debiased(MU) - weights.estimate)
    changes = np.array(changes)
    np.testing.assert_allclose(found, changes.T @ changes, rtol=1e-9)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("case", ["rows", "duplicates", "survey"])
def test_cr3_equals_leaving_clusters_out(mixed, smooth, rng, linear, case):
    X, y = smooth(36) if case == "rows" else mixed(36)
    cluster = rng.integers(0, 9, 36)
    cluster[:9] = np.arange(9)
    w = rng.uniform(0.4, 2.0, 36) if case == "survey" else None
    cells, kernel, functionals, spectrum, dense, _ = prepare(X, y, w, cluster)
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    found = residuals(spectrum, cells, PENALTY, kernel.Z if linear else None)
    covariance = robust(spectrum, cells, found, weights)
    Z, W = kernel.Z[cells.row], dense.weights(MU)
    psi = np.zeros((9, W.shape[1]))
    for g in range(9):
        out = cluster == g
        rest = Dense(Z[~out], y[~out], dense.V[~out], dense.ell, dense.w[~out])
        c = rest.P(PENALTY, linear) @ y[~out]
        beta = np.zeros(rest.H.shape[1])
        if linear:
            Gi = rest.inverse(PENALTY)
            beta = np.linalg.solve(rest.H.T @ Gi @ rest.H, rest.H.T @ Gi @ y[~out])
        unseen = GaussianKernel(Z[~out], S).apply(c[:, None], Z[out])[:, 0] + dense.H[out] @ beta
        psi[g] = W[out].T @ (y[out] - unseen)
    np.testing.assert_allclose(covariance.matrix, 8 / 9 * psi.T @ psi, rtol=1e-9)
    assert covariance.warnings == ()


def test_the_whole_inverse_and_its_blocks_give_the_same(mixed, rng, monkeypatch):
    X, y = mixed(60)
    cells, kernel, functionals, spectrum, _, _ = prepare(X, y, None, rng.integers(0, 8, 60))
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    found = residuals(spectrum, cells, PENALTY, kernel.Z)
    whole = _cluster_scores(spectrum, cells, found, weights)[0]
    monkeypatch.setattr("crosslevel.krls.covariance.GATHER", -1e9)
    np.testing.assert_allclose(_cluster_scores(spectrum, cells, found, weights)[0], whole, rtol=1e-9)


def test_clusters_of_one_are_hc3_but_for_the_factor(smooth):
    X, y = smooth(30)
    cells, kernel, functionals, spectrum, _, _ = prepare(X, y, None, np.arange(30))
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    found = residuals(spectrum, cells, PENALTY, kernel.Z)
    alone, rows = (robust(spectrum, one, found, weights).matrix for one in (cells, replace(cells, clusters=None)))
    np.testing.assert_allclose(alone, 29 / 30 * rows, rtol=1e-9)


def test_an_incomplete_spectrum_that_lost_nothing_changes_nothing(rng):
    X, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    cells, kernel, functionals, spectrum, _, _ = prepare(X, y, None, np.arange(60) % 7)
    kept = spectrum.w > 1e-13
    assert not kept.all()
    partial = Spectrum(spectrum.Q[:, kept], spectrum.w[kept], complete=False)
    answers = []
    for one in (spectrum, partial):
        weights = effect_weights(one, cells, functionals, MU, kernel.Z)
        found = residuals(one, cells, PENALTY, kernel.Z)
        covariances = [robust(one, c, found, weights).matrix for c in (cells, replace(cells, clusters=None))]
        answers.append((weights.estimate, *covariances))
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_spread_of_effects(mixed, rng):
    X, y = mixed(40)
    cells = collapse(X, y, None, np.arange(40) // 4)
    by_row = rng.normal(size=(len(cells.m), 2))
    delta = by_row[cells.row]
    sums = (delta - delta.mean(axis=0)).reshape(10, 4, 2).sum(axis=1)
    clustered = spread(everybody(40), cells, np.arange(40) // 4, by_row)
    np.testing.assert_allclose(clustered, sums.T @ sums / 40**2 * 10 / 9, rtol=1e-10)
    np.testing.assert_allclose(spread(everybody(40), cells, None, by_row), np.cov(delta.T) / 40, rtol=1e-10)


def test_a_row_that_alone_determines_a_coefficient(smooth):
    X, y = smooth(40)
    X[:, 2] = 0.0
    X[5, 2] = 1.0
    cells, kernel, functionals, spectrum, _, _ = prepare(X, y)
    found = residuals(spectrum, cells, PENALTY, kernel.Z)
    assert np.flatnonzero(found.alone).tolist() == [5]
    covariance = robust(spectrum, cells, found, effect_weights(spectrum, cells, functionals, MU, kernel.Z))
    assert covariance.warnings[0].startswith("1 row(s)")
    assert np.isfinite(covariance.matrix).all()


def test_a_cluster_that_alone_determines_a_coefficient(smooth):
    X, y = smooth(60)
    cluster = np.arange(60) // 4
    X[:, 2] = cluster == 3
    cells, kernel, functionals, spectrum, _, _ = prepare(X, y, None, cluster)
    weights = effect_weights(spectrum, cells, functionals, MU, kernel.Z)
    covariance = robust(spectrum, cells, residuals(spectrum, cells, PENALTY, kernel.Z), weights)
    assert covariance.warnings[0].startswith("1 cluster(s)")
    assert np.sqrt(np.diag(covariance.matrix)).max() < 10  # dividing by nothing would give 1e8 and more
