"""Rows gathered by their covariates, against loops over rows; and what a fit says of itself, against dense algebra."""

import numpy as np
import pytest

from crosslevel.krls import KRLS
from crosslevel.krls.model import collapse, fit, r2_of_averages

X = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [2.0, 1.0], [0.5, 3.0], [1.0, 0.0]])
Y = np.array([0.0, 5.0, 4.0, 7.0, 1.0, 2.0])
W = np.array([1.0, 2.0, 2.0, 1.0, 3.0, 1.0])
G = np.array([0, 1, 1, 1, 0, 0])


def test_cells_and_strata_are_sums_over_their_rows():
    cells = collapse(X, Y, 7 * W)
    w = W * 6 / W.sum()  # six different observations
    assert len(cells.m) == 3  # -0.0 is 0.0
    np.testing.assert_array_equal(cells.X[cells.row], X)
    assert pytest.approx(6.0) == cells.N
    for u in range(3):
        own = cells.row == u
        assert cells.m[u] == pytest.approx(w[own].sum())
        assert cells.mean[u] == pytest.approx(w[own] @ Y[own] / w[own].sum())
    assert len(cells.stratum) == len({(u, weight) for u, weight in zip(cells.row, W, strict=True)})
    for s, (u, step) in enumerate(zip(cells.stratum, cells.step, strict=True)):
        own = (cells.row == u) & np.isclose(step, w)
        mean = w[own] @ Y[own] / w[own].sum()
        assert cells.weight[s] == pytest.approx(w[own].sum())
        assert cells.stratum_mean[s] == pytest.approx(mean)
        assert cells.ss[s] == pytest.approx(w[own] @ (Y[own] - mean) ** 2)


def test_pairs_of_row_and_cluster():
    cells = collapse(X, Y, W, G)
    clusters, w = cells.clusters, W * 6 / W.sum()
    assert len(clusters) == 2
    for g in range(2):
        pairs = range(clusters.start[g], clusters.start[g + 1])
        assert sorted(clusters.cell[p] for p in pairs) == sorted(set(cells.row[g == G].tolist()))
        for p in pairs:
            own = (g == G) & (cells.row == clusters.cell[p])
            assert clusters.n[p] == pytest.approx(w[own].sum())
            assert clusters.mean[p] == pytest.approx(w[own] @ Y[own] / w[own].sum())
    moved = cells.rescaled(3.0, 2.0)
    np.testing.assert_allclose(moved.mean, (cells.mean - 3.0) / 2.0)
    np.testing.assert_allclose(moved.stratum_mean, (cells.stratum_mean - 3.0) / 2.0)
    np.testing.assert_allclose(moved.ss, cells.ss / 4.0)
    np.testing.assert_allclose(moved.clusters.mean, (clusters.mean - 3.0) / 2.0)


def test_a_fit_is_ridge_regression_in_the_kernel():
    """Coefficients (K + penalty)^-1 y of standardized rows and outcomes, rows repeated, with all that is made of it."""
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(30, 2)), 1)
    rows[20:] = rows[:10]
    y = np.sin(rows[:, 0]) + 0.3 * rng.normal(size=30)
    found = fit(rows, y, penalty=0.7)
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    K = np.exp(-np.square(z[:, None] - z).sum(axis=2) / 2.0)
    t = (y - y.mean()) / y.std(ddof=1)
    c = np.linalg.solve(K + 0.7 * np.eye(30), t)
    np.testing.assert_allclose(found.row_coefficients(y), c, atol=1e-9)
    np.testing.assert_allclose(found.predict(rows), y.mean() + y.std(ddof=1) * (K @ c), atol=1e-9)
    residual = t - K @ c
    hat = K @ np.linalg.inv(K + 0.7 * np.eye(30))
    assert found.solution.rss == pytest.approx(residual @ residual, rel=1e-9)
    assert found.solution.edf == pytest.approx(np.trace(hat), rel=1e-9)
    assert found.solution.loo == pytest.approx(np.square(residual / (1 - np.diag(hat))).sum(), rel=1e-8)
    assert found.r2 == pytest.approx(1 - residual.var(ddof=1) / t.var(ddof=1), rel=1e-9)


def test_average_effects_explain_their_squared_correlation():
    """Continuous columns by their slopes, columns of two values by the step between them, rows repeated."""
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.round(rng.normal(size=(60, 2)), 1), 3.0 * rng.integers(0, 2, 60)])
    rows[40:] = rows[:20]
    y = rows[:, 0] + 0.5 * rows[:, 1] ** 2 + 0.4 * rows[:, 2] + 0.3 * rng.normal(size=60)
    model = KRLS(0.5).fit(rows, y)
    averages = np.asarray(model.effects()["plug_in"])
    found = r2_of_averages(model._model, model._effects, averages)
    per_unit = averages / [1.0, 1.0, 3.0]
    assert found == pytest.approx(np.corrcoef(y, rows @ per_unit)[0, 1] ** 2, rel=1e-9)
    assert r2_of_averages(model._model, model._effects, 0.0 * averages) == 0.0
