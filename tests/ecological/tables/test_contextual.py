"""Is the contextual model what its formulas say: gradient, limits, context, expected cells, raking?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from crosslevel.ecological.tables.contextual import kernels, model
from crosslevel.ecological.tables.contextual.doubts import hidden_context
from crosslevel.ecological.tables.contextual.intervals import VOTES, Constants, choose_constants, posterior
from crosslevel.ecological.tables.contextual_effect import predicted_by_composition
from crosslevel.ecological.tables.raking import fit_table, rake_units
from crosslevel.errors import InputError


def world(seed=0, n=30, R=4, C=3, people=80):
    """Units with multinomial outcomes at constant rates: x, y and the rates."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, people, (n, R)).astype(float)
    x[:, 0] += 1
    rates = rng.dirichlet(np.full(C, 2.0), R)
    y = np.array([sum(rng.multinomial(int(k), rates[r]) for r, k in enumerate(row)) for row in x]).astype(float)
    return x, y, rates


def brute_force(theta, b, task):
    """The negative log posterior, by numpy's own determinant and solve."""
    a, d, log_phi = model.unpack(theta, task.M.shape)
    total = 0.0
    for x, y, H in zip(task.x, task.y, task.H, strict=True):
        p = np.exp(a + d + b * H)
        p /= p.sum(axis=1, keepdims=True)
        S = np.diag(x @ p) - (p.T * x) @ p
        S = np.exp(log_phi) * (S[:-1, :-1] + 0.5 * np.eye(len(y) - 1))
        e = (y - x @ p)[:-1]
        total += 0.5 * (np.linalg.slogdet(S)[1] + e @ np.linalg.solve(S, e))
    prior = np.sum((d - task.M) ** 2) / task.tau**2 + np.sum((a - task.a0) ** 2) / 9 + (log_phi - 1) ** 2
    return total + 0.5 * prior


@pytest.mark.parametrize(("R", "C"), [(2, 2), (4, 3), (3, 6)])
def test_the_objective_is_the_formula_and_its_gradient_is_its_slope(R, C):
    x, y, _ = world(R=R, C=C)
    rng = np.random.default_rng(1)
    task = model.problem(x, y, rng.normal(0, 0.3, (R, C)), 0.7)
    theta = model.start(task) + rng.normal(0, 0.3, C + R * C + 1)
    value, gradient = model.objective(theta, 0.35, task)
    assert value == pytest.approx(brute_force(theta, 0.35, task), rel=1e-12)
    slope = scipy.optimize.approx_fprime(theta, lambda t: brute_force(t, 0.35, task), 1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-3 * np.abs(slope).max() ** 0.5)
    central = [
        (model.objective(theta + s, 0.35, task)[0] - model.objective(theta - s, 0.35, task)[0]) / 2e-5
        for s in 1e-5 * np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, central, rtol=1e-6, atol=1e-5)


def test_without_context_and_prior_it_is_the_gaussian_multinomial_fit():
    """With b = 0, tau large and phi = 1: the same rates as an independent maximization over a softmax of rates."""
    x, y, _ = world(seed=3, n=60, R=2, C=2, people=400)
    task = replace(model.problem(x, y, np.zeros((2, 2)), 1e3), H=np.zeros_like(y))

    def fixed_phi(t):
        value, gradient = model.objective(np.append(t, 0.0), 0.0, task)
        return value, gradient[:-1]

    found = scipy.optimize.minimize(fixed_phi, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-4}).x
    a, d, _ = model.unpack(np.append(found, 0.0), (2, 2))
    rates = np.exp(a + d) / np.exp(a + d).sum(axis=1, keepdims=True)

    def gaussian(rate):
        mean = x @ rate
        variance = x @ (rate * (1 - rate)) + 0.5
        return 0.5 * np.sum(np.log(variance) + (y[:, 0] - mean) ** 2 / variance)

    grid = scipy.optimize.minimize(
        gaussian, [0.5, 0.5], bounds=[(1e-3, 1 - 1e-3)] * 2, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8}
    ).x
    np.testing.assert_allclose(rates[:, 0], grid, atol=2e-4)


def test_context_is_what_composition_predicts():
    x, y, _ = world(n=200, R=3, C=3, people=300)
    H = predicted_by_composition(x, y)
    ybar = y.sum(axis=0) / y.sum()
    predicted = np.exp(H) * ybar
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-12)
    shares = x / x.sum(axis=1, keepdims=True)
    w = np.sqrt(x.sum(axis=1))[:, None]
    free = shares @ np.linalg.lstsq(w * shares, w * (y / y.sum(axis=1, keepdims=True)), rcond=None)[0]
    np.testing.assert_allclose(predicted, free, atol=0.01)  # the ridge is a thousandth
    same = np.tile([30.0, 70.0], (5, 1))
    assert not predicted_by_composition(same, np.tile([40.0, 60.0], (5, 1))).any()


def test_expected_cells_are_the_conditional_mean_and_its_variance():
    """In one unit, against the Gaussian conditional of the cells given their column sums."""
    x, y, _ = world(seed=5, n=1, R=3, C=3, people=60)
    task = model.problem(x, y, np.zeros((3, 3)), 0.8)
    rng = np.random.default_rng(2)
    theta = model.start(task) + rng.normal(0, 0.4, 13)
    a, d, log_phi = model.unpack(theta, (3, 3))
    phi, p = np.exp(log_phi), np.exp(a + d) / np.exp(a + d).sum(axis=1, keepdims=True)
    cov = np.zeros((9, 9))
    for r in range(3):
        cov[3 * r : 3 * r + 3, 3 * r : 3 * r + 3] = phi * x[0, r] * (np.diag(p[r]) - np.outer(p[r], p[r]))
    sums = np.kron(np.ones((1, 3)), np.eye(3)[:-1])
    S = sums @ cov @ sums.T + phi * 0.5 * np.eye(2)
    mean = (x[0][:, None] * p).ravel()
    gain = cov @ sums.T @ np.linalg.inv(S)
    cells = model.expected_cells(model.Mode(theta, 0.0, 0.0, 0.0, 0), task)[0]
    np.testing.assert_allclose(cells.ravel(), mean + gain @ (task.y[0, :2] - sums @ mean), rtol=1e-10)
    variance = kernels.cell_variance(a + d, 0.0, phi, task.x, task.y, task.H, task.F)[0]
    np.testing.assert_allclose(variance.ravel(), np.diag(cov - gain @ sums @ cov), rtol=1e-8)


def test_constant_rates_are_found_when_they_are_the_truth():
    x, y, rates = world(seed=7, n=150, R=3, C=3, people=400)
    task = model.problem(x, y, np.zeros((3, 3)), 3.0)
    found = posterior(task, model.find_mode(task, 0.0), 0.0, 0)
    np.testing.assert_allclose(found.table / x.sum(axis=0)[:, None], rates, atol=0.03)


def test_raking_holds_both_margins_the_table_and_the_bounds():
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 20, (25, 3, 4)).astype(float)
    truth[3, 1] = 0
    truth[:, :, 2] *= rng.random((25, 1)) < 0.5
    truth[6, 0, 0] += 1
    x, y, table = truth.sum(axis=2), truth.sum(axis=1), truth.sum(axis=0)
    cells = rake_units(rng.normal(3, 5, truth.shape), table, x, y)
    np.testing.assert_allclose(cells.sum(axis=2), x, atol=1e-9)
    np.testing.assert_allclose(cells.sum(axis=1), y, atol=1e-9)
    np.testing.assert_allclose(cells.sum(axis=0), table, rtol=0.05, atol=2)
    assert cells.min() >= 0
    assert (cells <= np.minimum(x[:, :, None], y[:, None, :]) + 1e-9).all()
    fitted = fit_table(rng.normal(100, 80, (3, 4)), table.sum(axis=1), table.sum(axis=0))
    np.testing.assert_allclose(fitted.sum(axis=1), table.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(fitted.sum(axis=0), table.sum(axis=0), rtol=1e-12)


def test_intervals_are_calibrated_by_the_constants_of_their_kind():
    p, v, h = np.array([0.5, 0.1]), np.array([0.01, 0.0]), np.array([0.0, 0.5])
    found = Constants(tau=1.0, k=2.0, s0=0.1, rho=0.2).variance(p, v, h)
    np.testing.assert_allclose(found, [0.04 + 0.01 * 0.2501, 0.2**2 * 0.25 + 0.01 * 0.0901])
    alone = {"pool": False, "labels": False}
    for option in alone:
        assert choose_constants(None, **{**alone, option: True})[0] == "votes"
        with pytest.raises(InputError):
            choose_constants("demographic", **{**alone, option: True})
    kind, people = choose_constants(None, **alone)
    assert (kind, people.tau, people.slope, people.rho > 0) == ("demographic", 0.5, 0.4, True)
    assert choose_constants("votes", **alone) == ("votes", VOTES["nothing", False])
    assert (VOTES["nothing", False].k, VOTES["nothing", False].s0, VOTES["pool", True].k) == (1.04, 0.053, 1.45)


def test_hidden_context_is_the_scatter_over_the_reach_of_composition():
    """By hand: two groups, shares +-d around one half, residuals +-e that cancel within each composition."""
    d, e, N = 0.2, 0.05, 1e7
    share = np.repeat([0.5 + d, 0.5 - d], 2)
    yes = 0.3 + 0.4 * share + np.tile([e, -e], 2)
    X, T = N * np.column_stack([share, 1 - share]), N * np.column_stack([yes, 1 - yes])
    found = hidden_context(X, T)
    np.testing.assert_allclose(found.h, e / (d / 0.5), rtol=1e-4)
    assert found.leverage == pytest.approx(e / (d / 0.5), rel=1e-4)
    assert found.residual_share == pytest.approx(e**2 / (0.5 * 0.5), rel=1e-3)
    more = hidden_context(np.tile(X, (50, 1)), np.tile(T, (50, 1)))
    assert more.leverage == pytest.approx(found.leverage, rel=1e-4)  # it does not shrink with the number of units
    assert hidden_context(X, N * np.column_stack([0.3 + 0.4 * share, 0.7 - 0.4 * share])).leverage < 1e-3
    same = np.full((4, 2), N / 2)
    assert hidden_context(same, T).leverage == pytest.approx(2.0)  # composition says nothing: as large as it gets


def test_tables_of_draws_are_the_summed_expected_cells():
    x, y, _ = world()
    task = model.problem(x, y, np.zeros((4, 3)), 0.8)
    rng = np.random.default_rng(3)
    thetas, b = model.start(task) + rng.normal(0, 0.3, (2, 16)), np.array([0.1, 0.5])
    etas = thetas[:, None, :3] + thetas[:, 3:-1].reshape(2, 4, 3)
    tables, total, square = kernels.expected_tables(etas, b, np.exp(thetas[:, -1]), task.x, task.y, task.H, task.F)
    each = []
    for theta, slope, table in zip(thetas, b, tables, strict=True):
        cells = model.expected_cells(model.Mode(theta, slope, 0.0, 0.0, 0), task)
        np.testing.assert_allclose(table, cells.sum(axis=0), rtol=1e-12)
        each.append(cells)
    np.testing.assert_allclose(total, np.sum(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(square, np.sum(np.square(each), axis=0), rtol=1e-12)


def test_what_covariates_move_is_taken_out_before_composition_predicts():
    rng = np.random.default_rng(5)
    x = rng.integers(50, 200, size=(30, 2)).astype(float)
    N = x.sum(axis=1, keepdims=True)
    alike = (x / N) @ np.array([[0.7, 0.3], [0.2, 0.8]])
    moved = 0.1 * rng.normal(size=(30, 1)) * np.array([[1.0, -1.0]])
    H, F = model._with_covariates(x, (alike + moved) * N, moved)
    ybar = ((alike + moved) * N).sum(axis=0) / N.sum()
    np.testing.assert_allclose(H, predicted_by_composition(x, alike * N), atol=1e-9)
    m = np.exp(H) * ybar
    np.testing.assert_allclose(np.exp(F) * m, (m + moved) / (m + moved).sum(axis=1, keepdims=True), rtol=1e-9)
