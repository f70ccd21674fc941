"""Errors of predictions and bands of effects equal dense posteriors."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.krls import KRLS
from crosslevel.krls.prediction import bias_allowance, effect_band
from crosslevel.krls.spectrum import GaussianKernel

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def dense(model, new):
    """Kernel matrices between all rows, and between new rows and all."""
    m = model._model
    Z = m.kernel.Z[m.cells.row]
    K = GaussianKernel(Z, m.kernel.s).matrix()
    k = np.concatenate([b for _, b in GaussianKernel(Z, m.kernel.s).blocks(m.scaling.apply(new))])
    return Z, K, k, np.linalg.inv(K + model.penalty_ * np.eye(len(Z)))


@pytest.fixture
def fitted(mixed):
    def make(inference="debiased", cluster=None):
        X, y = mixed(50)
        return X, y, KRLS(penalty=0.5, inference=inference).fit(X, y, cluster=cluster)

    return make


NEW = np.array([[0.2, 1.0, 0.0], [3.0, 0.0, 1.0], [9.0, 0.0, -4.0]])


def test_posterior_of_predictions(fitted):
    _, y, model = fitted()
    _, K, k, Gi = dense(model, NEW)
    H = K @ Gi
    u = (y - y.mean()) / y.std(ddof=1)
    sigma2 = np.sum((u - H @ u) ** 2) / (50 - np.trace(H) - 1)
    variance = sigma2 / 0.5 * (1 - np.einsum("ij,jk,ik->i", k, Gi, k))
    mean, error = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + y.std(ddof=1) * k @ Gi @ u, rtol=1e-10)
    np.testing.assert_allclose(error, y.std(ddof=1) * np.sqrt(variance), rtol=1e-9)
    assert error[2] > error[0]


def test_hc3_errors_of_predictions(fitted, rng):
    _, y, model = fitted("hc3")
    _, _, k, Gi = dense(model, NEW)
    W = Gi @ k.T
    e = (Gi @ (y - y.mean())) / np.diag(Gi)
    np.testing.assert_allclose(
        model.predict(NEW, return_std=True)[1], np.sqrt(np.sum((W * e[:, None]) ** 2, axis=0)), rtol=1e-9
    )
    cluster = np.arange(50) % 10
    X = model._model.cells.X[model._model.cells.row]
    clustered = KRLS(penalty=0.5, inference="hc3").fit(X, y, cluster=cluster)
    psi = []
    for g in range(10):
        out = cluster == g
        x = np.linalg.solve(Gi[np.ix_(out, out)], (Gi @ (y - y.mean()))[out])
        psi.append(W[out].T @ x)
    expected = np.sqrt(0.9 * np.sum(np.square(psi), axis=0))
    np.testing.assert_allclose(clustered.predict(NEW, return_std=True)[1], expected, rtol=1e-9)


VAGUE = 1e6


def vague_posterior(model, y, term, at, penalty=0.5):
    """Mean of an effect at standardized rows, and its variance over tau^2, with a very wide prior on the linear part."""
    fit, effect = model._model, model._effects[term]
    Z, s = fit.kernel.Z[fit.cells.row], fit.kernel.s
    H = np.column_stack([np.ones(len(Z)), Z])
    big = GaussianKernel(Z, s).matrix() + VAGUE * H @ H.T + penalty * np.eye(len(Z))
    if term == 0:
        step = np.array([1e-4, 0, 0])
        k = [np.concatenate([b for _, b in GaussianKernel(Z, s).blocks(at + d)]) for d in (step, -step)]
        v, ell, kappa = (k[0] - k[1]) / 2e-4, np.array([0, 1.0, 0, 0]), 2 / s
    else:
        sides = []
        for point in effect.switch.points[:, 0]:
            z = at.copy()
            z[:, 1] = point
            sides.append(np.concatenate([b for _, b in GaussianKernel(Z, s).blocks(z)]))
        gap = np.ptp(effect.switch.points)
        v, ell, kappa = sides[1] - sides[0], np.array([0, 0, gap, 0]), 2 * (1 - np.exp(-(gap**2) / s))
    full = v + VAGUE * (H @ ell)
    u = (y - y.mean()) / y.std(ddof=1)
    left = kappa + VAGUE * ell @ ell - np.einsum("ij,ij->i", full, np.linalg.solve(big, full.T).T)
    return full @ np.linalg.solve(big, u), left


@pytest.mark.parametrize("term", [0, 1])
def test_bands_equal_a_process_with_a_vague_linear_part(fitted, term):
    """The posterior with unpenalized linear part is the limit of a very wide prior on it."""
    _, y, model = fitted()
    fit, effect = model._model, model._effects[term]
    _, K, _, _ = dense(model, NEW)
    z = fit.scaling.apply(NEW)
    mean, left = vague_posterior(model, y, term, z)
    Hat = K @ np.linalg.inv(K + 0.5 * np.eye(50))
    u = (y - y.mean()) / y.std(ddof=1)
    tau2 = np.sum((u - Hat @ u) ** 2) / (50 - np.trace(Hat) - 1) / 0.5
    found, sd = effect_band(fit, effect, z, 0.1)
    np.testing.assert_allclose(found, mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(sd**2 - 0.1), np.sqrt(tau2 * left), rtol=1e-3)


@pytest.mark.parametrize("term", [0, 1])
def test_allowance_is_what_the_effects_move_by_at_a_tenth_of_the_penalty(fitted, term):
    _, y, model = fitted()
    fit = model._model
    rows = fit.kernel.Z[fit.cells.row]  # all fifty, repeats included
    moved = vague_posterior(model, y, term, rows, 0.05)[0] - vague_posterior(model, y, term, rows, 0.5)[0]
    found = bias_allowance(fit, model._effects)
    assert found[term] == pytest.approx(np.mean(moved**2), rel=2e-3)
    table = model.pointwise_bands(model.effect_names_[term], NEW)
    scale = y.std(ddof=1) / (fit.scaling.sd[0] if term == 0 else 1.0)
    assert table.diagnostics["bias"][model.effect_names_[term]] == pytest.approx(scale * found[term] ** 0.5)
    assert (table["std_error"] > scale * found[term] ** 0.5).all()


def test_allowance_is_none_where_the_truth_is_linear(rng):
    X = rng.normal(size=(60, 2))
    model = KRLS(penalty=0.5).fit(X, X @ [1.0, -0.5])
    assert (bias_allowance(model._model, model._effects) < 1e-20).all()


@pytest.mark.parametrize("options", [{"method": "partial"}, {"method": "nystrom", "rank": 60}])
def test_bands_of_other_ways_equal_the_exact_ones(smooth, options):
    X, y = smooth(60)
    exact, other = (KRLS(penalty=0.5, **o).fit(X, y).pointwise_bands() for o in ({}, options))
    np.testing.assert_allclose(other["conf_low"], exact["conf_low"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other["std_error"], exact["std_error"], rtol=1e-4)


def test_bands_are_independent_of_the_block_size(fitted, monkeypatch):
    _, _, model = fitted()
    whole = model.pointwise_bands()
    monkeypatch.setattr("crosslevel.krls.prediction.POINTS_AT_ONCE", 3)
    np.testing.assert_allclose(model.pointwise_bands()["conf_low"], whole["conf_low"], rtol=1e-10)
    assert set(whole["term"]) == {"x0", "x1", "x2"}
