"""Logistic loss: stationarity, brute-force likelihood, leave-one-out, finite differences, collapse, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import crosslevel as cl
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.krls import KRLS, logistic
from crosslevel.krls.logistic import alo_loss, fit_logistic, newton

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def lean(X):
    return 1.2 * np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * X[:, 2] - 0.3


@pytest.fixture
def voters(rng):
    def make(n=60, rng=rng, rounded=False):
        X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
        X = np.round(X) if rounded else X
        return X, (rng.random(n) < expit(lean(X))).astype(float)

    return make


def kernel_of(X):
    Z = (X - X.mean(0)) / X.std(0, ddof=1)
    return np.exp(-np.square(Z[:, None] - Z).sum(2) / X.shape[1])


def test_newton_finds_the_minimum(voters):
    X, y = voters(30)
    K = kernel_of(X)

    def loss(theta):
        f = theta[0] + K @ theta[1:]
        gap = expit(f) - y
        value = np.logaddexp(0, f).sum() - y @ f + 0.2 * theta[1:] @ K @ theta[1:]
        return value, np.r_[gap.sum(), K @ (gap + 0.4 * theta[1:])]

    best = minimize(loss, np.zeros(31), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    found = newton(K, np.ones(30), y, 0.4)
    np.testing.assert_allclose(found.f, best.x[0] + K @ best.x[1:], atol=1e-5)
    np.testing.assert_allclose(0.4 * found.coef, y - expit(found.f), atol=1e-8)
    assert abs(found.coef.sum()) < 1e-6


def test_approximate_leave_one_out_is_near_the_exact_one(voters):
    X, y = voters(50)
    K = kernel_of(X)
    exact = 0.0
    for i in range(50):
        rest = np.arange(50) != i
        without = newton(K[np.ix_(rest, rest)], np.ones(49), y[rest], 1.0)
        f = without.offset + K[i, rest] @ without.coef
        exact += np.logaddexp(0, -f if y[i] else f)
    found = newton(K, np.ones(50), y, 1.0)
    assert alo_loss(found, np.ones(50), y) == pytest.approx(exact, rel=2e-3)
    plain = np.logaddexp(0, np.where(y == 1, -found.f, found.f)).sum()
    assert plain < 0.98 * exact  # the loss of the fit itself is no stand-in


def test_equal_rows_are_gathered_exactly(voters, rng):
    X, y = voters(80, rounded=True)
    cluster = rng.integers(0, 20, 80)
    one, two = (KRLS(loss="logistic", method=m).fit(X, y, cluster=cluster) for m in ("collapse", "exact"))
    assert len(one._model.cells.m) < 60
    assert one.penalty_ == pytest.approx(two.penalty_, rel=1e-3)
    assert one.loo_ == pytest.approx(two.loo_, rel=1e-6)
    for clustered in (None, cluster):
        one, two = (KRLS(1.0, loss="logistic", method=m).fit(X, y, cluster=clustered) for m in ("collapse", "exact"))
        np.testing.assert_allclose(one.fitted_, two.fitted_, rtol=1e-7)
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-5, atol=1e-7)
        for name in ("estimate", "std_error", "plug_in"):
            np.testing.assert_allclose(one.effects()[name], two.effects()[name], rtol=1e-6, atol=1e-8)


def test_counts_are_rows(voters, rng):
    X, y = voters(50)
    counts = rng.integers(1, 3, 50)
    one = KRLS(1.0, loss="logistic").fit(X, y, sample_weight=counts)
    two = KRLS(1.0, loss="logistic").fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(one.effects()["std_error"], two.effects()["std_error"], rtol=1e-7)


def test_effects_are_those_of_the_predicted_probability(voters):
    X, y = voters()
    model = KRLS(0.5, loss="logistic").fit(X, y)
    step = np.array([1e-5, 0, 0])
    slope = (model.predict(X + step) - model.predict(X - step)) / 2e-5
    np.testing.assert_allclose(model.pointwise_effects_[:, 0], slope, atol=1e-8)
    one, zero = X.copy(), X.copy()
    one[:, 2], zero[:, 2] = 1, 0
    np.testing.assert_allclose(model.pointwise_effects_[:, 2], model.predict(one) - model.predict(zero), atol=1e-12)
    np.testing.assert_allclose(model.effects_at(X), model.pointwise_effects_, rtol=1e-9)
    np.testing.assert_allclose(model.effects()["plug_in"], model.pointwise_effects_.mean(0), rtol=1e-9)
    assert ((model.fitted_ > 0) & (model.fitted_ < 1)).all()


def test_functionals_are_derivatives_by_the_function(voters, rng):
    X, y = voters(40)
    fit = fit_logistic(X, y, penalty=0.5)
    effects = KRLS(0.5, loss="logistic").fit(X, y)._effects
    rho = rng.random(40)
    found = logistic._functionals(fit, effects, rho)
    direction, t = rng.normal(size=40), 1e-6

    def average(shift):
        solution = logistic.replace(fit.solution, coef=fit.solution.coef + shift * direction)
        moved = logistic.replace(fit, solution=solution)
        return rho @ (logistic.probability_effects(moved, effects) * logistic._units(fit, effects))

    np.testing.assert_allclose(found.V.T @ direction, (average(t) - average(-t)) / (2 * t), rtol=1e-6, atol=1e-8)


def smooth_weighted(K, H, z, q, penalty):
    """Solve the weighted problem with unpenalised linear part; give the coefficients of kernel and linear functions."""
    G = K + penalty * np.diag(1 / q)
    A = np.block([[G, H], [H.T, np.zeros((H.shape[1], H.shape[1]))]])
    both = np.linalg.solve(A, np.r_[z, np.zeros(H.shape[1])])
    return both[: len(z)], both[len(z) :]


@pytest.mark.parametrize("clustered", [False, True])
def test_estimate_and_error_equal_refits_without_each_row_or_cluster(voters, rng, clustered):
    X, y = voters(40)
    group = rng.integers(0, 12, 40) if clustered else np.arange(40)
    model = KRLS(0.7, loss="logistic").fit(X, y, cluster=group if clustered else None)
    fit, effects = model._model, model._effects
    K, Z = kernel_of(X), fit.kernel.Z
    H = np.column_stack([np.ones(40), Z])
    p = model.fitted_
    q = p * (1 - p)
    f = np.log(p / (1 - p))
    z = f + (y - p) / q
    made = logistic._functionals(fit, effects, np.full(40, 1 / 40))
    scale = 1 / logistic._units(fit, effects)
    W = np.empty((40, 3))
    for i in range(40):  # the functional of the fit to each unit outcome is the weight of that row
        c, b = smooth_weighted(K, H, np.eye(40)[i], q, 0.07)
        W[i] = scale * (made.V.T @ c + made.ell.T @ b)
    psi = np.zeros((group.max() + 1, 3))
    for g in np.unique(group):
        out, rest = np.flatnonzero(group == g), np.flatnonzero(group != g)
        c, b = smooth_weighted(K[np.ix_(rest, rest)], H[rest], z[rest], q[rest], 0.7)
        psi[g] = (z[out] - K[np.ix_(out, rest)] @ c - H[out] @ b) @ W[out]
    n_groups = len(np.unique(group))
    factor = (n_groups - 1) / n_groups if clustered else 1.0
    found = model.effects()
    np.testing.assert_allclose(found["estimate"], model.pointwise_effects_.mean(0) + (z - f) @ W, rtol=1e-6)
    np.testing.assert_allclose(found["std_error"] ** 2, factor * np.square(psi).sum(axis=0), rtol=1e-6)


def test_groups_slopes_and_the_whole(voters, rng):
    X, y = voters()
    model = KRLS(loss="logistic").fit(X, y)
    whole, one = model.effects(), model.effects(by=np.zeros(60))
    np.testing.assert_allclose(one["std_error"], whole["std_error"], rtol=1e-9)
    gap, slope = model.effects(by="x2", differences=True), model.interactions(along="x2")
    np.testing.assert_allclose(gap["estimate"], slope["estimate"], rtol=1e-8)
    np.testing.assert_allclose(gap["std_error"], slope["std_error"], rtol=1e-8)
    assert "delta method" in whole.interval
    assert any("effects are of the probability" in w for w in whole.warnings)
    assert whole.method == "kernel logistic regression"
    assert whole.diagnostics["rule"] == "alo"


def test_saved_and_loaded(voters, tmp_path):
    X, y = voters()
    model = KRLS(loss="logistic").fit(pd.DataFrame(X, columns=list("abc")), y)
    cl.save(model, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    new = pd.DataFrame(X + 0.1, columns=list("abc"))
    np.testing.assert_allclose(again.predict(new), model.predict(new), rtol=1e-12)
    np.testing.assert_allclose(again.effects(by="c")["std_error"], model.effects(by="c")["std_error"], rtol=1e-4)


def test_no_convergence_no_numbers(voters, monkeypatch):
    X, y = voters()
    monkeypatch.setattr(logistic, "MOST_STEPS", 1)
    with pytest.raises(ConvergenceError, match="did not converge in 1 Newton steps"):
        KRLS(0.1, loss="logistic").fit(X, y)


def test_a_row_that_alone_determines_a_coefficient_is_told(voters):
    X, y = voters()
    X[:, 1] = np.arange(60) == 7
    for cluster, what in ((None, "1 row(s) alone"), (np.arange(60) // 3, "1 cluster(s) alone")):
        found = KRLS(1.0, loss="logistic").fit(X, y, cluster=cluster).effects()
        assert np.isfinite(found["std_error"]).all()
        assert any(what in note for note in found.warnings)


def test_bad_input(voters):
    X, y = voters()
    with pytest.raises(InputError, match="y is 2 in row 0 of those used; loss='logistic' takes outcomes of 0 and 1"):
        KRLS(loss="logistic").fit(X, y + 2 - y[0])
    with pytest.raises(InputError, match="loss='logit' is not a choice.*Did you mean 'logistic'"):
        KRLS(loss="logit").fit(X, y)
    for option in ({"rule": "gcv"}, {"inference": "krls"}, {"weights": "survey"}):
        with pytest.raises(InputError, match=f"{next(iter(option))}=.*is not there for loss='logistic'"):
            KRLS(loss="logistic", **option).fit(X, y)
    model = KRLS(1.0, loss="logistic").fit(X, y)
    for ask in (lambda: model.predict(X, return_std=True), model.pointwise_bands, lambda: model.plot_effect("x0")):
        with pytest.raises(InputError, match="is not there for loss='logistic'"):
            ask()


@pytest.mark.slow
def test_intervals_cover():
    """150 draws of 300 rows, three effects: within .05 of .95 (one standard error of the mean: .01)."""
    hits = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 2, 300)])
        p = expit(lean(X))
        one, zero = X.copy(), X.copy()
        one[:, 2], zero[:, 2] = 1, 0
        q = p * (1 - p)
        jump = (expit(lean(one)) - expit(lean(zero))).mean()
        truth = np.array([(q * 1.2 * np.cos(X[:, 0])).mean(), (q * 0.5 * X[:, 2]).mean(), jump])
        found = KRLS(loss="logistic").fit(X, (rng.random(300) < p).astype(float)).effects()
        hits.append((found["conf_low"] < truth) & (truth < found["conf_high"]))
    assert 0.90 < np.mean(hits) < 0.985
    assert np.mean(hits, axis=0).min() > 0.87
