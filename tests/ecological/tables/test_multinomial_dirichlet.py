"""Does the Multinomial-Dirichlet model answer within margins and bounds, cover the truth, and refuse what has not converged?"""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pyarrow.csv as pv
import pytest
from scipy import stats
from tests.ecological.margins import counted

from crosslevel.ecological.tables.dirichlet import sampler as dirichlet_sampler
from crosslevel.ecological.tables.dirichlet.estimator import multinomial_dirichlet
from crosslevel.ecological.tables.dirichlet.sampler import _score
from crosslevel.errors import ConvergenceError

SHORT = {"n_draws": 100, "allow_unconverged": True}
PUBLISHED = {"contextual_slope": (0.0, 0.0)}


def world(seed=0, n=30, people=300, alpha=((6.0, 2.0, 1.0), (1.0, 5.0, 2.0)), slope=0.0):
    """Units whose inner tables follow the model; their margins and these tables."""
    rng = np.random.default_rng(seed)
    alpha = np.asarray(alpha)
    shares = rng.dirichlet(np.ones(len(alpha)), n)
    X = rng.multinomial(people, shares)
    factor = np.ones((n, alpha.shape[1]))
    for _ in range(50 if slope else 0):  # to where outcomes are what the factor makes them
        expected = factor[:, None, :] * alpha
        expected = np.einsum("nr,nrc->nc", X, expected / expected.sum(axis=2, keepdims=True))
        factor = (expected / expected.mean(axis=0)) ** slope
    cells = np.array(
        [
            [rng.multinomial(k, rng.dirichlet(a * w)) for k, a in zip(row, alpha, strict=True)]
            for row, w in zip(X, factor, strict=True)
        ]
    )
    return X, cells.sum(axis=1), cells


@pytest.fixture(scope="module")
def answered():
    X, T, cells = world()
    return X, T, cells, multinomial_dirichlet(counted(X, T), **PUBLISHED)


@pytest.fixture(scope="module")
def contextual():
    X, T, cells = world(n=40, slope=0.35)
    return (
        X,
        T,
        cells,
        multinomial_dirichlet(counted(X, T)),
        multinomial_dirichlet(counted(X, T), contextual_slope=(0.35, 0.0)),
    )


def test_every_draw_of_every_unit_adds_up_and_lies_inside_the_bounds(answered):
    X, T, _, found = answered
    shares = found.units.draws.reshape(-1, *X.shape, 3)
    tables = np.nan_to_num(shares) * X[:, :, None]
    assert len(tables) >= 100
    np.testing.assert_allclose(tables.sum(axis=3), np.broadcast_to(X, tables.shape[:3]), atol=1e-9)
    np.testing.assert_allclose(tables.sum(axis=2), np.broadcast_to(T, (len(tables), *T.shape)), atol=1e-9)
    low = np.maximum(0, X[:, :, None] + T[:, None, :] - 300)
    assert (tables >= low - 1e-9).all()
    assert (tables <= np.minimum(X[:, :, None], T[:, None, :]) + 1e-9).all()
    assert (found.draws >= found["lower"] - 1e-12).all()
    assert (found.draws <= found["upper"] + 1e-12).all()


def test_the_estimate_is_the_mean_of_the_draws_and_adds_up(answered):
    X, T, _, found = answered
    table = found["count"].reshape(2, 3)
    np.testing.assert_allclose(table.sum(axis=1), X.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(table.sum(axis=0), T.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.units["count"].reshape(-1, 2, 3).sum(axis=0), table, rtol=1e-9)
    np.testing.assert_allclose(found["estimate"], found.draws.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found["conf_low"], np.quantile(found.draws, 0.025, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found["std_error"], found.draws.std(axis=0), rtol=1e-9)
    for answer in (found, found.units):
        there = np.isfinite(answer["estimate"])
        assert (answer["conf_low"] <= answer["estimate"])[there].all()
        assert (answer["estimate"] <= answer["conf_high"])[there].all()
        assert (answer["conf_low"] >= answer["lower"] - 1e-12)[there].all()
        assert (answer["conf_high"] <= answer["upper"] + 1e-12)[there].all()


def test_convergence_stands_in_the_answer(answered):
    found = answered[3]
    said = found.diagnostics
    assert said["converged"] is True
    assert said["max_rhat"] < 1.01
    assert min(said["min_ess_bulk"], said["min_ess_tail"]) >= 400
    assert said["divergences"] == 0
    assert 0.2 < said["acceptance"] < 0.7
    assert said["n_draws"] * said["chains"] == len(found.draws)
    assert not found.warnings


def test_the_truth_is_near_and_covered(answered):
    _, _, cells, found = answered
    truth = cells.sum(axis=0) / cells.sum(axis=(0, 2))[:, None]
    assert np.abs(found["estimate"] - truth.ravel()).max() < 0.05
    there = np.isfinite(found.units["estimate"])
    by_unit = cells.ravel() / np.repeat(cells.sum(axis=2).ravel(), 3).clip(1)
    hit = (by_unit >= found.units["conf_low"] - 1e-9) & (by_unit <= found.units["conf_high"] + 1e-9)
    assert 0.88 < hit[there].mean() <= 1.0


def test_intervals_cover_on_worlds_of_the_model():
    """Alphas from the prior: then 90 % intervals cover in 90 % of worlds, whatever the number of units."""
    rng = np.random.default_rng(5)
    hits = []
    for seed in range(60):
        X, T, cells = world(seed, n=12, people=80, alpha=rng.gamma(4.0, 0.5, (2, 2)))
        plan = {"random_state": seed, "n_draws": 50, "allow_unconverged": True}
        found = multinomial_dirichlet(counted(X, T), level=0.9, **PUBLISHED, **plan)
        truth = cells.sum(axis=0) / X.sum(axis=0)[:, None]
        hits.append((truth.ravel() >= found["conf_low"]) & (truth.ravel() <= found["conf_high"]))
    assert 0.80 < np.mean(hits) < 0.98  # 60 worlds, two free cells each that depend on one another


def test_a_contextual_effect_is_found_where_the_model_without_it_misses(contextual):
    X, T, cells, found, _ = contextual
    truth = (cells.sum(axis=0) / cells.sum(axis=(0, 2))[:, None]).ravel()
    assert (found["conf_low"] <= truth).all()
    assert (truth <= found["conf_high"]).all()
    off = []
    for seed in range(2):
        X, T, cells = world(seed, n=60, alpha=((24.0, 8.0, 4.0), (4.0, 20.0, 8.0)), slope=0.35)
        truth = (cells.sum(axis=0) / cells.sum(axis=(0, 2))[:, None]).ravel()
        quick = {"prior": (4.0, 0.25), **SHORT}
        both = [multinomial_dirichlet(counted(X, T), **quick, **options) for options in ({}, PUBLISHED)]
        off.append([np.abs(answer["estimate"] - truth).max() for answer in both])
    with_effect, plain = np.mean(off, axis=0)
    assert with_effect < 0.02
    assert plain > 2 * with_effect


def test_what_was_assumed_stands_in_the_answer(answered, contextual):
    plain, found = answered[3], contextual[3]
    assert "contextual slope 0.35 +- 0.1" in found.method
    assert "no contextual effect" in plain.method
    assert "contextual_slope=(0.35, 0.1)" in found.provenance.call
    assert (found.diagnostics["contextual_slope"], found.diagnostics["contextual_slope_sd"]) == (0.35, 0.1)
    assert (plain.diagnostics["contextual_slope"], plain.diagnostics["contextual_slope_sd"]) == (0.0, 0.0)
    assert np.abs(found.diagnostics["slope_sensitivity"]).max() > 0.001
    assert (
        np.abs(plain.diagnostics["slope_sensitivity"]).max() > 0.001
    )  # what an effect would do, though none is assumed
    assert not plain.warnings
    alike = multinomial_dirichlet(counted([[60, 40]] * 4, [[30, 70], [20, 80], [25, 75], [40, 60]]), **SHORT)
    assert "same composition: contextual_slope changes nothing" in " ".join(alike.warnings)
    assert alike.diagnostics["slope_sensitivity"] == [0.0] * 4


def test_intervals_cover_on_worlds_with_a_contextual_effect():
    """Contexts drawn around the default: 90 % intervals that allow for it cover, those that take it for known do not."""
    rng = np.random.default_rng(6)
    hits = []
    quick = {"prior": (16.0, 0.8), "level": 0.9, **SHORT}
    for seed in range(20):
        X, T, cells = world(seed, n=30, people=1000, alpha=rng.gamma(16.0, 1.25, (2, 2)), slope=rng.normal(0.35, 0.3))
        truth = (cells.sum(axis=0) / X.sum(axis=0)[:, None]).ravel()
        answers = [
            multinomial_dirichlet(counted(X, T), contextual_slope=(0.35, sd), random_state=seed, **quick)
            for sd in (0.3, 0.0)
        ]
        hits.append([(truth >= found["conf_low"]) & (truth <= found["conf_high"]) for found in answers])
    allowed, known = np.mean(hits, axis=(0, 2))
    assert 0.80 < allowed < 0.98
    assert known < 0.7


def test_the_slope_in_context_is_how_the_answer_moves():
    """A covariance over draws against two fits."""
    X, T, _ = world(n=16)
    run = {"n_draws": 1500, "allow_unconverged": True}
    below, here, above = (
        multinomial_dirichlet(counted(X, T), contextual_slope=(b, 0.0), **run) for b in (0.15, 0.35, 0.55)
    )
    moved = (above["estimate"] - below["estimate"]) / 4
    assert np.abs(moved).max() > 0.01
    np.testing.assert_allclose(here.diagnostics["slope_sensitivity"], moved, atol=0.0015)


def test_the_uncertainty_of_the_slope_widens_the_interval(contextual):
    X, T, _, found, given = contextual
    slope = np.array(found.diagnostics["slope_sensitivity"])  # of a move by 0.1, which is also the spread
    np.testing.assert_allclose(found["std_error"] ** 2, given["std_error"] ** 2 + slope**2, rtol=0.08)
    np.testing.assert_array_equal(found["estimate"], given["estimate"])
    assert (np.abs(found.draws.mean(axis=0) - found["estimate"]) < 0.05 * found["std_error"]).all()
    tables = found.draws.reshape(-1, 2, 3) * X.sum(axis=0)[:, None]
    np.testing.assert_allclose(tables.sum(axis=2), np.broadcast_to(X.sum(axis=0), tables.shape[:2]), rtol=1e-9)
    np.testing.assert_allclose(tables.sum(axis=1), np.broadcast_to(T.sum(axis=0), (len(tables), 3)), rtol=1e-9)
    assert (found.draws >= found["lower"] - 1e-12).all()
    assert (found.draws <= found["upper"] + 1e-12).all()


def test_relabelling_moves_the_answer_along():
    X, T, _ = world(n=40)
    plain = multinomial_dirichlet(counted(X, T))
    turned = multinomial_dirichlet(counted(X[::-1, ::-1], T[::-1, ::-1]))
    np.testing.assert_allclose(turned["estimate"][::-1], plain["estimate"], atol=0.012)


def test_the_answer_does_not_depend_on_the_cores(monkeypatch):
    X, T, _ = world(n=10)
    first = multinomial_dirichlet(counted(X, T), random_state=3, **SHORT)
    monkeypatch.setattr(dirichlet_sampler, "count_jobs", lambda n_jobs: 1)
    again = multinomial_dirichlet(counted(X, T), random_state=3, **SHORT)
    np.testing.assert_array_equal(first.draws, again.draws)
    np.testing.assert_array_equal(first.units["estimate"], again.units["estimate"])
    other = multinomial_dirichlet(counted(X, T), random_state=4, **SHORT)
    assert not np.array_equal(first.draws, other.draws)


def test_the_prior_matters_where_data_say_little():
    X, T = np.array([[50, 50]]), np.array([[50, 50]])
    loose = multinomial_dirichlet(counted(X, T))
    tight = multinomial_dirichlet(counted(X, T), prior=(400.0, 10.0))
    assert (loose.diagnostics["lambda1"], loose.diagnostics["lambda2"]) == (4.0, 2.0)
    assert (tight["std_error"] < 0.6 * loose["std_error"]).all()
    assert "1 unit(s) for 2 groups" in loose.warnings[0]


def test_options_without_people_and_units_of_one_group():
    X, T, _ = world(n=12)
    X, T = np.column_stack([X, np.zeros(12)]), np.column_stack([T, np.zeros(12)])
    X[0, :2] = 300, 0
    found = multinomial_dirichlet(
        counted(pl.DataFrame(X, schema=["a", "b", "none"]), pl.DataFrame(T, schema=list("wxyz"))), **SHORT
    )
    assert np.isnan(found["estimate"][8:]).all()
    np.testing.assert_array_equal(found["estimate"][[3, 7]], 0.0)
    np.testing.assert_array_equal(found["conf_high"][[3, 7]], 0.0)
    alone = found.units["count"][:12].reshape(3, 4)
    np.testing.assert_allclose(alone[0], T[0], atol=1e-9)
    assert isinstance(found.to_frame(), pl.DataFrame)


def test_where_a_margin_has_one_option_the_answer_is_exact():
    T = np.array([[10, 20], [5, 45]])
    one_group = multinomial_dirichlet(counted(np.array([[30, 0], [50, 0]]), T))
    np.testing.assert_allclose(one_group["estimate"][:2], [15 / 80, 65 / 80])
    np.testing.assert_allclose(one_group["conf_low"][:2], one_group["conf_high"][:2])
    one_outcome = multinomial_dirichlet(counted(T, np.array([[30, 0], [50, 0]])))
    np.testing.assert_allclose(one_outcome["estimate"], [1, 0, 1, 0])
    assert one_outcome.diagnostics["exact"] is True
    assert "max_rhat" not in one_outcome.diagnostics


def test_chains_that_have_not_converged_give_no_numbers(monkeypatch):
    monkeypatch.setattr("crosslevel.ecological.tables.dirichlet.estimator.EXTENSION", 1)
    X, T, _ = world(n=10)
    with pytest.raises(ConvergenceError):
        multinomial_dirichlet(counted(X, T), n_draws=50)
    found = multinomial_dirichlet(counted(X, T), n_draws=50, allow_unconverged=True)
    assert found.diagnostics["converged"] is False
    assert "do not report" in found.warnings[0]


def test_an_interrupt_stops_all_chains():
    X, T, _ = world(n=200)

    def interrupt(done, planned):
        if done:
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        multinomial_dirichlet(counted(X, T), n_draws=100_000, progress=interrupt)
    assert not set(threading.enumerate()) - before


def test_the_score_is_the_derivative_of_the_density_in_the_slope():
    rng = np.random.default_rng(7)
    x = np.array([[0.3, 0.7], [1.0, 0.0], [0.6, 0.4]])
    alpha, H = rng.gamma(4.0, 0.5, (2, 3)), rng.normal(size=(3, 3))
    beta = rng.dirichlet(np.ones(3), (3, 2))
    m = x[:, :, None] * beta

    def density(b):
        own = alpha * np.exp(b * H)[:, None, :]
        return sum(stats.dirichlet.logpdf(beta[i, r], own[i, r]) for i in range(3) for r in range(2) if x[i, r] > 0)

    found = _score(m, x, alpha * np.exp(0.35 * H)[:, None, :], H)
    assert found == pytest.approx((density(0.35 + 1e-5) - density(0.35 - 1e-5)) / 2e-5, rel=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({}, 1.52, [0.478, 0.367, 0.155, 0.858, 0.065, 0.076, 0.899, 0.054, 0.047]),
        (PUBLISHED, 2.30, [0.452, 0.382, 0.166, 0.932, 0.022, 0.046, 0.935, 0.030, 0.035]),
    ],
)
def test_precincts_of_north_carolina(real_data, options, error, expected):
    """Race by party, counted: the posterior, converged; and without context.

    Without context, with eiPack's prior, a random walk over the same posterior (400,000 sweeps) gives 0.932, 0.026, 0.042 for
    black voters; after 40,000 sweeps, from starts of its own, it still stands at 1.9 to 2.0 %, nearer the truth by not having arrived.
    """
    data = pv.read_csv(real_data / "truth" / "senc_se_north_carolina.csv")
    X, T = (np.column_stack([data[c].to_numpy() for c in s.split()]) for s in ("white black natam", "dem rep non"))
    truth = np.array([[data[r + p].to_numpy().sum() for p in ("dem", "rep", "non")] for r in ("wh", "bl", "natam")])
    found = multinomial_dirichlet(counted(X, T), **options)
    wrong = 50 * np.abs(found["count"] - truth.ravel()).sum() / truth.sum()
    assert wrong == pytest.approx(error, abs=0.12)
    np.testing.assert_allclose(found["estimate"], expected, atol=0.004)
    assert found.diagnostics["max_rhat"] < 1.01
    assert min(found.diagnostics["min_ess_bulk"], found.diagnostics["min_ess_tail"]) > 400
