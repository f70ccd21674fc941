"""Logistic loss: stationarity, brute-force likelihood, leave-one-out, finite differences, collapse, coverage."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import crosslevel as cl
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.krls import KernelLogistic
from crosslevel.krls.logistic import model as logistic
from crosslevel.krls.logistic.model import alo_loss, find_mode, fit_logistic
from crosslevel.krls.model import collapse

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def log_odds(X):
    return 1.2 * np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * X[:, 2] - 0.3


@pytest.fixture
def voters(rng):
    def make(n=60, rng=rng, rounded=False):
        X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
        X = np.round(X) if rounded else X
        return X, (rng.random(n) < expit(log_odds(X))).astype(float)

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
    found = find_mode(K, np.ones(30), y, 0.4)
    np.testing.assert_allclose(found.f, best.x[0] + K @ best.x[1:], atol=1e-5)
    np.testing.assert_allclose(0.4 * found.coef, y - expit(found.f), atol=1e-8)
    assert abs(found.coef.sum()) < 1e-6


def test_approximate_leave_one_out_is_near_the_exact_one(voters):
    X, y = voters(50)
    K = kernel_of(X)
    exact = 0.0
    for i in range(50):
        rest = np.arange(50) != i
        without = find_mode(K[np.ix_(rest, rest)], np.ones(49), y[rest], 1.0)
        f = without.offset + K[i, rest] @ without.coef
        exact += np.logaddexp(0, -f if y[i] else f)
    found = find_mode(K, np.ones(50), y, 1.0)
    assert alo_loss(found, np.ones(50), y) == pytest.approx(exact, rel=2e-3)
    plain = np.logaddexp(0, np.where(y == 1, -found.f, found.f)).sum()
    assert plain < 0.98 * exact  # the loss of the fit itself is no stand-in


def test_equal_rows_are_gathered_exactly(voters, rng, monkeypatch):
    X, y = voters(80, rounded=True)
    cluster = rng.integers(0, 20, 80)

    def both(penalty=None, cluster=None):
        gathered = KernelLogistic(penalty).fit(X, y, cluster=cluster)
        with monkeypatch.context() as patch:
            patch.setattr(logistic, "collapse", functools.partial(collapse, merge=False))
            return gathered, KernelLogistic(penalty).fit(X, y, cluster=cluster)

    one, two = both(None, cluster)
    assert len(one._model.cells.m) < 60
    assert one.penalty_ == pytest.approx(two.penalty_, rel=1e-3)
    assert one.loo_ == pytest.approx(two.loo_, rel=1e-6)
    for clustered in (None, cluster):
        one, two = both(1.0, clustered)
        np.testing.assert_allclose(one.fitted_, two.fitted_, rtol=1e-7)
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-5, atol=1e-7)
        for name in ("estimate", "std_error", "plug_in"):
            np.testing.assert_allclose(one.effects()[name], two.effects()[name], rtol=1e-6, atol=1e-8)


def test_counts_are_rows(voters, rng):
    X, y = voters(50)
    counts = rng.integers(1, 3, 50)
    one = KernelLogistic(1.0).fit(X, y, sample_weight=counts)
    two = KernelLogistic(1.0).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(one.effects()["std_error"], two.effects()["std_error"], rtol=1e-7)


def test_effects_are_those_of_the_predicted_probability(voters):
    X, y = voters()
    model = KernelLogistic(0.5).fit(X, y)
    step = np.array([1e-5, 0, 0])
    slope = (model.predict_proba(X + step) - model.predict_proba(X - step))[:, 1] / 2e-5
    np.testing.assert_allclose(model.pointwise_effects_[:, 0], slope, atol=1e-8)
    one, zero = X.copy(), X.copy()
    one[:, 2], zero[:, 2] = 1, 0
    jump = (model.predict_proba(one) - model.predict_proba(zero))[:, 1]
    np.testing.assert_allclose(model.pointwise_effects_[:, 2], jump, atol=1e-12)
    np.testing.assert_allclose(model.effects_at(X), model.pointwise_effects_, rtol=1e-9)
    np.testing.assert_allclose(model.effects()["plug_in"], model.pointwise_effects_.mean(0), rtol=1e-9)
    assert ((model.fitted_ > 0) & (model.fitted_ < 1)).all()


def test_functionals_are_derivatives_by_the_function(voters, rng):
    X, y = voters(40)
    fit = fit_logistic(X, y, penalty=0.5)
    effects = KernelLogistic(0.5).fit(X, y)._effects
    rho = rng.random(40)
    found = logistic._functionals(fit, effects, rho)
    direction, t = rng.normal(size=40), 1e-6

    def average(shift):
        solution = logistic.replace(fit.solution, coef=fit.solution.coef + shift * direction)
        moved = logistic.replace(fit, solution=solution)
        return rho @ (moved.effects(effects) * logistic._units(fit, effects))

    np.testing.assert_allclose(found.V.T @ direction, (average(t) - average(-t)) / (2 * t), rtol=1e-6, atol=1e-8)


def smooth_weighted(K, H, z, q, penalty):
    """Solve the weighted problem with unpenalized linear part; give the coefficients of kernel and linear functions."""
    G = K + penalty * np.diag(1 / q)
    A = np.block([[G, H], [H.T, np.zeros((H.shape[1], H.shape[1]))]])
    both = np.linalg.solve(A, np.r_[z, np.zeros(H.shape[1])])
    return both[: len(z)], both[len(z) :]


@pytest.mark.parametrize("clustered", [False, True])
def test_estimate_and_error_equal_refits_without_each_row_or_cluster(voters, rng, clustered):
    X, y = voters(40)
    group = rng.integers(0, 12, 40) if clustered else np.arange(40)
    model = KernelLogistic(0.7).fit(X, y, cluster=group if clustered else None)
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
    model = KernelLogistic().fit(X, y)
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
    model = KernelLogistic().fit(pd.DataFrame(X, columns=list("abc")), y)
    cl.save(model, tmp_path / "m.crosslevel", allow_rows=True)
    again = cl.load(tmp_path / "m.crosslevel")
    new = pd.DataFrame(X + 0.1, columns=list("abc"))
    np.testing.assert_allclose(again.predict_proba(new), model.predict_proba(new), rtol=1e-12)
    np.testing.assert_allclose(again.effects(by="c")["std_error"], model.effects(by="c")["std_error"], rtol=1e-4)


def test_no_convergence_no_numbers(voters, monkeypatch):
    X, y = voters()
    monkeypatch.setattr(logistic, "MOST_STEPS", 1)
    with pytest.raises(ConvergenceError):
        KernelLogistic(0.1).fit(X, y)


def test_a_row_that_alone_determines_a_coefficient_is_told(voters):
    X, y = voters()
    X[:, 1] = np.arange(60) == 7
    for cluster, what in ((None, "1 row(s) alone"), (np.arange(60) // 3, "1 cluster(s) alone")):
        found = KernelLogistic(1.0).fit(X, y, cluster=cluster).effects()
        assert np.isfinite(found["std_error"]).all()
        assert any(what in note for note in found.warnings)


def test_any_two_classes_serve(voters):
    X, y = voters()
    one, two = KernelLogistic(1.0).fit(X, y), KernelLogistic(1.0).fit(X, np.where(y == 1, "yes", "no"))
    assert two.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(two.predict(X) == "yes", one.predict_proba(X)[:, 1] > 0.5)
    assert one.convergence_["converged"]


def test_bad_input(voters):
    X, y = voters()
    with pytest.raises(InputError):
        KernelLogistic().fit(X, np.arange(60) % 3)
    with pytest.raises(InputError):
        KernelLogistic().fit(X, np.ones(60))
    with pytest.raises(InputError, match="contrast="):
        KernelLogistic(contrast="dumb").fit(X, y)


@pytest.mark.slow
def test_intervals_cover():
    """150 draws of 300 rows, three effects: within .05 of .95 (one standard error of the mean: .01)."""
    hits = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 2, 300)])
        p = expit(log_odds(X))
        one, zero = X.copy(), X.copy()
        one[:, 2], zero[:, 2] = 1, 0
        q = p * (1 - p)
        jump = (expit(log_odds(one)) - expit(log_odds(zero))).mean()
        truth = np.array([(q * 1.2 * np.cos(X[:, 0])).mean(), (q * 0.5 * X[:, 2]).mean(), jump])
        found = KernelLogistic().fit(X, (rng.random(300) < p).astype(float)).effects()
        hits.append((found["conf_low"] < truth) & (truth < found["conf_high"]))
    assert 0.90 < np.mean(hits) < 0.985
    assert np.mean(hits, axis=0).min() > 0.87


def test_a_fit_says_of_itself_what_its_probabilities_say(voters, rng):
    """Sums of squares, degrees of freedom, leave-one-out and coefficients of rows, from the definition, rows repeated."""
    X, y = voters(25)
    X, y = np.vstack([X, X[:10]]), np.r_[y, 1 - y[:5], y[5:10]]
    fit = fit_logistic(X, y, penalty=0.6)
    p = fit.predict(X)
    assert fit.y_sd == pytest.approx(np.std(y, ddof=1), rel=1e-12)
    assert fit.y_mean == pytest.approx(y.mean(), rel=1e-12)
    assert fit.solution.rss == pytest.approx(np.square((y - p) / y.std(ddof=1)).sum(), rel=1e-8)
    np.testing.assert_allclose(fit.p[fit.cells.row], p, rtol=1e-8)
    assert fit.steps > 1
    # the fit to the working outcome is linear in it; its trace is the degrees of freedom
    m, K, q = fit.cells.m, fit.kernel.matrix(), fit.p * (1 - fit.p)
    U = len(m)
    A = np.block([[K + 0.6 * np.diag(1 / (m * q)), np.ones((U, 1))], [np.ones((1, U)), np.zeros((1, 1))]])
    smoother = np.hstack([K, np.ones((U, 1))]) @ np.linalg.inv(A)[:, :U]
    assert fit.solution.edf == pytest.approx(np.trace(smoother), rel=1e-8)
    own = np.bincount(fit.cells.row, fit.row_coefficients(y))  # rows share the coefficient of what they have in common
    np.testing.assert_allclose(own, fit.solution.coef, atol=1e-6)
    # one observation of a row left out: to first order its log odds fall by h / (1 - h) (y - p) / q
    h = (np.diag(smoother) / m)[fit.cells.row]
    without = np.log(p / (1 - p)) - h / (1 - h) * (y - p) / (p * (1 - p))
    loss = np.logaddexp(0.0, np.where(y == 1, -without, without)).sum()
    assert fit.solution.loo * fit.y_sd**2 == pytest.approx(loss, rel=1e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_penalty_chosen_has_the_least_loss_of_all(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    y = (rng.random(60) < expit(2.0 * np.sin(2.0 * X[:, 0]))).astype(float)
    fit = fit_logistic(X, y)
    K = kernel_of(X)
    grid = np.geomspace(1e-6, 1e2, 81) * 15.0
    losses = np.array([alo_loss(find_mode(K, np.ones(60), y, g), np.ones(60), y) for g in grid[grid > 1e-3]])
    best = grid[grid > 1e-3][losses.argmin()]
    assert fit.choice.bound is None
    assert fit.choice.penalty == pytest.approx(best, rel=0.3)
    assert fit.solution.loo * fit.y_sd**2 <= losses.min() * (1 + 1e-6)
    penalties, values = fit.choice.curve.T
    assert (np.diff(penalties) > 0).all()
    for g, value in zip(penalties[[0, -1]], values[[0, -1]], strict=True):
        expected = alo_loss(find_mode(K, np.ones(60), y, g), np.ones(60), y)
        assert value * fit.y_sd**2 == pytest.approx(expected, rel=1e-7)
    assert penalties[-1] == pytest.approx(1e2 * 60 / 4, rel=1e-9)


def test_a_penalty_at_the_end_of_the_search_is_said_to_be_there():
    """Outcomes that alternate however the columns lie have no smooth part: the penalty is the largest that is tried."""
    X = np.linspace(-1, 1, 40)[:, None]
    fit = fit_logistic(X, (np.arange(40) % 2).astype(float))
    assert fit.choice.bound == "upper"
    assert fit.choice.penalty == pytest.approx(1e2 * 40 / 4, rel=1e-9)
    # an outcome that follows from the column, without an error anywhere: the less smooth the better
    sharp = fit_logistic(np.repeat([[0.0], [1.0], [2.0], [3.0]], 50, axis=0), np.repeat([0.0, 1.0, 0.0, 1.0], 50))
    assert sharp.choice.bound == "lower"
    assert sharp.choice.penalty == pytest.approx(1e-6 * 200 / 4, rel=1e-9)
