"""Does King's model find the truth of its own worlds, stay on the tomography lines, and refuse what it cannot answer?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from tests.ecological.margins import counted

from crosslevel.ecological.tables.king.estimator import king
from crosslevel.ecological.tables.king.likelihood import (
    Prior,
    Problem,
    _log_square,
    _log_squares,
    log_posterior,
    log_posterior_slope,
    tomography_lines,
    untruncated,
)
from crosslevel.ecological.tables.king.mode import find_mode
from crosslevel.ecological.tables.king.simulation import draw_parameters, draw_units, expected_units
from crosslevel.errors import ConvergenceError, InputError

NO_PRIOR = Prior(0.0, 0.0, 0.0)
PHI = np.array([0.4, -0.9, np.log(0.22), np.log(0.35), 0.6])


def world(n=60, seed=0, mean=(0.6, 0.3), sd=(0.15, 0.1), rho=0.3, people=1000):
    """Units drawn from the model, whose shares need no rounding; also the true district shares of both groups."""
    rng = np.random.default_rng(seed)
    shape = np.array([[sd[0] ** 2, rho * sd[0] * sd[1]], [rho * sd[0] * sd[1], sd[1] ** 2]])
    drawn = rng.multivariate_normal(mean, shape, 60 * n)
    shares = drawn[((drawn > 0) & (drawn < 1)).all(axis=1)][:n]
    first = np.round(people * rng.beta(1.2, 1.5, n))
    X = np.column_stack([first, people - first])
    yes = (X * shares).sum(axis=1)
    return X, np.column_stack([yes, people - yes]), (X * shares).sum(axis=0) / X.sum(axis=0)


def problem(X, T, prior=NO_PRIOR, Zb=None, Zw=None):
    X, T = np.atleast_1d(np.asarray(X, float)), np.atleast_1d(np.asarray(T, float))
    none = np.empty((len(X), 0))
    return Problem(tomography_lines(X, T), none if Zb is None else Zb, none if Zw is None else Zw, prior)


# the likelihood ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [0.0, 0.15, 0.5, 0.77, 1.0])
def test_the_density_of_t_adds_up_to_one(X):
    def density(t):
        return np.exp(log_posterior(PHI[None, :], problem(X, t))[0])

    area = integrate.quad(density, 0, 1, points=sorted({min(X, 1 - X), max(X, 1 - X)} - {0.0, 1.0}) or None)[0]
    assert area == pytest.approx(1, abs=1e-8)


def test_the_density_is_the_cut_normal_along_the_line():
    """Brute force: integrate the bivariate density over the line's part in the square, over the square's probability."""
    normal = untruncated(PHI[None, :], problem(0.3, 0.4))
    mb, mw, sb, sw, rho = (float(v[0, 0]) for v in normal)
    law = stats.multivariate_normal([mb, mw], [[sb**2, rho * sb * sw], [rho * sb * sw, sw**2]])
    square = integrate.dblquad(lambda w, b: law.pdf([b, w]), 0, 1, 0, 1)[0]
    for X, T in ((0.3, 0.4), (0.8, 0.15), (0.45, 0.93)):
        low, high = max(0, (T - 1 + X) / X), min(1, T / X)
        along = integrate.quad(lambda b, X=X, T=T: law.pdf([b, (T - X * b) / (1 - X)]) / (1 - X), low, high)[0]
        assert np.exp(log_posterior(PHI[None, :], problem(X, T))[0]) == pytest.approx(along / square, rel=1e-7)


def test_a_unanimous_unit_has_the_density_of_its_corner():
    """Near T = 0 the density is that of the corner, times T / (X (1 - X)): the length of the line's part."""
    X, T = 0.3, 1e-7
    near = log_posterior(PHI[None, :], problem(X, T))[0] - np.log(T / (X * (1 - X)))
    assert log_posterior(PHI[None, :], problem(X, 0.0))[0] == pytest.approx(near, abs=1e-5)
    near = log_posterior(PHI[None, :], problem(X, 1 - T))[0] - np.log(T / (X * (1 - X)))
    assert log_posterior(PHI[None, :], problem(X, 1.0))[0] == pytest.approx(near, abs=1e-5)


@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_posterior(covariates, seed):
    rng = np.random.default_rng(seed)
    X, T = rng.uniform(size=30), rng.uniform(0.05, 0.95, 30)
    X[:3], T[3:5] = [0, 1, 0.5], [0, 1]
    Z = (rng.normal(size=(30, 2)), rng.normal(size=(30, 1))) if covariates else (None, None)
    asked = problem(X, T, Prior(0.5, 0.4, 0.3), *Z)
    # means outside the square, so that every prior takes part
    phi = np.concatenate(
        [rng.normal(0, 3, 2), rng.uniform(-3, 0, 2), rng.normal(size=1), rng.normal(0, 0.1, asked.n_parameters - 5)]
    )
    value, slope = log_posterior_slope(phi, asked)
    assert value == pytest.approx(log_posterior(phi[None, :], asked)[0], rel=1e-9)
    steps = 1e-6 * np.eye(phi.size)
    numeric = [(log_posterior_slope(phi + h, asked)[0] - log_posterior_slope(phi - h, asked)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


def test_the_priors_are_kings():
    asked = problem(0.3, 0.4, Prior(0.5, 0.4, 0.3))
    phi = PHI.copy()
    phi[0] = 4.0  # mean_b = 4 (0.22^2 + 0.25) + 0.5 = 1.6936
    found = log_posterior(phi[None, :], asked)[0] - log_posterior(phi[None, :], problem(0.3, 0.4))[0]
    over = 4 * (0.22**2 + 0.25) + 0.5 - 1
    expected = -0.5 * (0.6 / 0.5) ** 2 - 0.5 * (0.22**2 + 0.35**2) / 0.4**2 - 0.5 * (over / 0.3) ** 2
    assert found == pytest.approx(expected, rel=1e-9)


def test_interpolating_the_square_changes_nothing():
    rng = np.random.default_rng(0)
    n = 2000
    Z = rng.normal(size=(n, 1))
    phi = np.tile(np.concatenate([PHI, [0.3, -0.1]]), (3, 1)) + rng.normal(0, 0.1, (3, 7))
    for Zb, Zw in ((Z, None), (None, Z), (Z, rng.normal(size=(n, 1)))):
        asked = problem(np.full(n, 0.4), np.full(n, 0.4), NO_PRIOR, Zb, Zw)
        normal = untruncated(phi[:, : asked.n_parameters], asked)
        np.testing.assert_allclose(_log_squares(normal), _log_square(normal), atol=1e-7)


# the answer ----------------------------------------------------------------------------------------------------------


def test_every_draw_lies_inside_its_bounds_and_accounts_for_its_totals():
    X, T, _ = world(40, people=200)
    X[:4] = [[0, 200], [200, 0], [1, 199], [199, 1]]
    T[4:6] = [[0, 200], [200, 0]]
    T[:4] = [[50, 150], [70, 130], [3, 197], [120, 80]]
    found = king(counted(X, T), n_draws=300, point="mean")
    draws = found.units.draws.reshape(300, 40, 2, 2)
    there = np.isfinite(draws)
    low, high = (found.units[c].reshape(40, 2, 2) for c in ("lower", "upper"))
    assert ((draws >= low - 1e-9) & (draws <= high + 1e-9))[there].all()
    np.testing.assert_array_equal(there.all(axis=(0, 3)), X > 0)
    counts = np.nan_to_num(draws) * X[:, :, None]
    np.testing.assert_allclose(counts.sum(axis=2) / 200, np.broadcast_to(T / 200, (300, 40, 2)), atol=1e-9)
    np.testing.assert_allclose(counts.sum(axis=1) / X.sum(axis=0)[:, None], found.draws.reshape(300, 2, 2), atol=1e-9)
    np.testing.assert_allclose(found.draws.mean(axis=0), found["estimate"], atol=1e-12)
    np.testing.assert_allclose(np.quantile(found.draws, 0.025, axis=0), found["conf_low"], atol=1e-9)
    assert found.units["std_error"][16] == 0  # unanimous: known


def test_the_parameters_have_the_distribution_that_metropolis_finds():
    X, T, _ = world(30, seed=3, mean=(0.7, 0.3), sd=(0.25, 0.15))
    asked = problem(X[:, 0] / 1000, T[:, 0] / 1000, Prior(0.5, 0.5, 0.5))
    mode, rng = find_mode(asked), np.random.default_rng(0)
    found = draw_parameters(asked, mode, 4000, rng)
    chains = np.repeat(mode.phi[None, :], 60, axis=0)
    height, root, kept = log_posterior(chains, asked), np.linalg.cholesky(mode.covariance), []
    for step in range(1500):
        tried = chains + rng.choice([0.5, 1.2]) * rng.standard_normal(chains.shape) @ root.T
        new = log_posterior(tried, asked)
        yes = np.log(rng.random(60)) < new - height
        chains, height = np.where(yes[:, None], tried, chains), np.where(yes, new, height)
        if step >= 300 and step % 10 == 0:
            kept.append(chains)
    other = np.concatenate(kept)
    scale = other.std(axis=0)
    np.testing.assert_allclose(found.phi.mean(axis=0) / scale, other.mean(axis=0) / scale, atol=0.15)
    np.testing.assert_allclose(found.phi.std(axis=0), scale, rtol=0.15)


def test_units_are_drawn_from_the_cut_normal_on_their_line():
    asked = problem([0.3, 0.8], [0.4, 0.3])
    first, second = draw_units(asked, np.repeat(PHI[None, :], 40_000, axis=0), np.random.default_rng(0))
    mb, mw, sb, sw, rho = (float(v[0, 0]) for v in untruncated(PHI[None, :], asked))
    law = stats.multivariate_normal([mb, mw], [[sb**2, rho * sb * sw], [rho * sb * sw, sw**2]])
    for i, (X, T) in enumerate(((0.3, 0.4), (0.8, 0.3))):
        b = np.linspace(max(0, (T - 1 + X) / X), min(1, T / X), 2001)
        weight = law.pdf(np.column_stack([b, (T - X * b) / (1 - X)]))
        mean = (b * weight).sum() / weight.sum()
        sd = np.sqrt((b**2 * weight).sum() / weight.sum() - mean**2)
        assert first[:, i].mean() == pytest.approx(mean, abs=4 * sd / 200)
        assert first[:, i].std() == pytest.approx(sd, rel=0.03)
        np.testing.assert_allclose(X * first[:, i] + (1 - X) * second[:, i], T, atol=1e-12)


def coverage(worlds, **settings):
    errors, inside = [], []
    for seed in range(worlds):
        X, T, truth = world(seed=seed, **settings)
        found = king(counted(X, T), n_draws=300, random_state=seed)
        errors.append(found["estimate"][[0, 2]] - truth)
        inside.append((found["conf_low"][[0, 2]] <= truth) & (truth <= found["conf_high"][[0, 2]]))
    return np.array(errors), np.array(inside)


def test_its_own_worlds_are_recovered_and_covered():
    errors, inside = coverage(40, n=50)
    bias, noise = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(40)
    assert (np.abs(bias) < 3.5 * noise + 0.002).all()
    # 40 worlds: 95 % coverage falls below 33 of them once in 1000 studies
    assert (inside.sum(axis=0) >= 33).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"mean": (0.8, 0.4), "sd": (0.25, 0.2)}, {"mean": (0.5, 0.9), "sd": (0.2, 0.2), "rho": -0.3}]
)
def test_coverage_near_the_edges_of_the_square(settings):
    errors, inside = coverage(200, **settings)
    assert (np.abs(errors.mean(axis=0)) < 0.01).all()
    assert (np.abs(inside.mean(axis=0) - 0.95) < 0.05).all()


def test_a_covariate_mends_what_composition_spoils():
    """Shares that fall with z, which goes with X: without z the answer is biased, with it the slope is found."""
    rng = np.random.default_rng(5)
    n = 150
    x = rng.uniform(0.1, 0.9, n)
    z = x + rng.normal(0, 0.15, n)
    b, w = 0.7 - 0.4 * (z - z.mean()) + rng.normal(0, 0.05, n), 0.4 + rng.normal(0, 0.05, n)
    X = np.column_stack([x, 1 - x]) * 1000
    yes = X[:, 0] * b + X[:, 1] * w
    T, truth = np.column_stack([yes, 1000 - yes]), (X[:, 0] * b).sum() / X[:, 0].sum()
    plain, mended = (
        king(counted(X, T), n_draws=300),
        king(counted(X, T, density=10 * z), means={"group_0": ["density"]}, n_draws=300),
    )
    assert mended.diagnostics["coefficients"]["group_0"]["density"] == pytest.approx(-0.04, abs=0.015)
    assert abs(mended["estimate"][0] - truth) < abs(plain["estimate"][0] - truth)
    assert mended["conf_low"][0] <= truth <= mended["conf_high"][0]
    assert "with covariates" in mended.method


def test_the_groups_and_outcomes_can_be_exchanged():
    X, T, _ = world(40)
    here, there = king(counted(X, T)), king(counted(X[:, ::-1], T[:, ::-1]))
    for diagnostic in ("mean", "sd"):
        forth, back = np.array(here.diagnostics[diagnostic]), np.array(there.diagnostics[diagnostic][::-1])
        np.testing.assert_allclose(forth, 1 - back if diagnostic == "mean" else back, atol=1e-5)
    np.testing.assert_allclose(here["estimate"], there["estimate"][::-1], atol=0.005)


def test_a_unit_without_people_takes_its_covariates_with_it():
    X, T, _ = world(30)
    z = np.random.default_rng(0).normal(size=30)
    whole = king(counted(X, T, z=z), means={"group_0": ["z"]}, n_draws=100)
    X1, T1 = np.insert(X, 3, 0, axis=0), np.insert(T, 3, 0, axis=0)
    gap = king(counted(X1, T1, z=np.insert(z, 3, 99.0)), means={"group_0": ["z"]}, n_draws=100)
    np.testing.assert_allclose(gap["estimate"], whole["estimate"], atol=1e-12)
    assert gap.diagnostics["coefficients"]["group_0"] == pytest.approx(whole.diagnostics["coefficients"]["group_0"])


# real data -----------------------------------------------------------------------------------------------------------


def registration(real_data, name, columns):
    table = pd.read_csv(real_data / "truth" / f"{name}.csv")
    x, t, n = (table[c].to_numpy() for c in columns)
    n = np.round(n)
    black, yes = np.round(n * x), np.round(n * t)
    return np.column_stack([black, n - black]), np.column_stack([yes, n - yes])


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "columns", "truth"), [("ei_matproii", ("x", "t", "n"), 0.55), ("eco_reg", ("X", "Y", "N"), 0.5515)]
)
def test_the_posterior_is_wider_than_r_says_and_holds_the_truth(real_data, name, columns, truth):
    found = king(counted(*registration(real_data, name, columns)), n_draws=2000, point="mean")
    expected, spread = {"ei_matproii": (0.600, 0.043), "eco_reg": (0.626, 0.046)}[name]  # 80 Metropolis chains of 6,000
    assert found["estimate"][0] == pytest.approx(expected, abs=0.006)
    assert found["std_error"][0] == pytest.approx(spread, rel=0.12)
    assert found["conf_low"][0] < truth < found["conf_high"][0]
    assert found.diagnostics["converged"] is True
    assert found.diagnostics["restarts_at_mode"] >= 3
    draws = found.units.draws
    assert ((draws >= found.units["lower"] - 1e-9) & (draws <= found.units["upper"] + 1e-9)).all()


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "columns", "estimates"),
    [("ei_matproii", ("x", "t", "n"), (0.5682, 0.8186)), ("eco_reg", ("X", "Y", "N"), (0.6229, 0.8056))],
)
def test_the_answer_at_the_mode_is_near_rs(real_data, name, columns, estimates):
    found = king(counted(*registration(real_data, name, columns)))
    np.testing.assert_allclose(found["estimate"][[0, 2]], estimates, atol=0.005)
    assert found["conf_low"][0] < found["estimate"][0] < found["conf_high"][0]


def test_the_expected_share_at_the_mode_is_the_mean_of_draws_there():
    rng = np.random.default_rng(4)
    X, T = rng.uniform(0.05, 0.95, 40), rng.uniform(0.2, 0.8, 40)
    problem = Problem(tomography_lines(X, T), np.empty((40, 0)), np.empty((40, 0)), Prior(0.5, 0.5, 0.5))
    phi = np.array([0.3, -0.4, -1.2, -1.5, 0.4])
    drawn = draw_units(problem, np.repeat(phi[None, :], 20_000, axis=0), rng)
    for expected, draws in zip(expected_units(problem, phi), drawn, strict=True):
        assert np.all(np.abs(expected - draws.mean(axis=0)) < 5 * draws.std(axis=0) / np.sqrt(20_000) + 1e-12)


# bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "T"),
    [
        (np.ones((9, 3)), np.tile([1.0, 2.0], (9, 1))),
        (np.tile([1.0, 2.0], (9, 1)), np.ones((9, 3))),
        ([[400, 600]], [[500, 500]]),
        (np.tile([0, 9], (9, 1)), np.tile([4, 5], (9, 1))),
        (world(30)[0], np.tile([0, 1000], (30, 1))),
    ],
)
def test_what_is_no_question_of_two_by_two_is_refused(X, T):
    with pytest.raises(InputError):
        king(counted(X, T))


def test_a_fit_that_failed_gives_no_numbers_unless_asked(monkeypatch):
    X, T, _ = world(30)
    monkeypatch.setattr("crosslevel.ecological.tables.king.estimator.FAR_FROM_MODE", -1.0)
    with pytest.raises(ConvergenceError, match="allow_unconverged="):
        king(counted(X, T), n_draws=100)
    found = king(counted(X, T), n_draws=100, allow_unconverged=True)
    assert found.diagnostics["converged"] is False
    assert any("search for the mode" in w for w in found.warnings)


def test_the_order_of_units_does_not_decide_whether_sampling_succeeds():
    people = np.array([[379.0, 353], [363, 164], [456, 396], [67, 154], [311, 497], [195, 123], [124, 771], [235, 191]])
    votes = np.array([[482.0, 250], [430, 97], [582, 270], [126, 95], [447, 361], [260, 58], [468, 427], [340, 86]])
    told = set()
    for order in (np.arange(8), np.arange(8)[::-1], np.array([3, 0, 7, 1, 5, 2, 6, 4])):
        found = king(counted(people[order], votes[order]), n_draws=100, allow_unconverged=True)
        told.add((found.diagnostics["effective_draws"], tuple(found.diagnostics["mean"])))
    assert len(told) == 1
