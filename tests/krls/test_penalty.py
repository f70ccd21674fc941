"""The leave-one-out loss is what leaving out gives, its slope its slope, and the search finds its minimum."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.krls.model import collapse, solution_at
from crosslevel.krls.penalty import _krls_limits, choose_penalty, losses
from crosslevel.krls.spectrum import GaussianKernel, Spectrum, decompose

S = 2.0
PENALTIES = np.array([0.01, 0.3, 5.0])


def prepared(X, y, weights=None, **options):
    cells = collapse(X, y, weights, **options)
    return cells, decompose(GaussianKernel(cells.X, S), cells.m)


def weighted_fit(X, y, w, penalty, at):
    """Minimize sum w (y - f)^2 + penalty |f|^2 by a dense solve and evaluate at rows."""
    keep = w > 0
    X, y, w = X[keep], y[keep], w[keep]
    c = np.linalg.solve(GaussianKernel(X, S).matrix() + penalty * np.diag(1 / w), y)
    return GaussianKernel(X, S).apply(c[:, None], at)[:, 0]


@pytest.mark.parametrize("weighted", ["no", "counts", "survey"])
def test_loss_equals_leaving_each_observation_out(mixed, rng, weighted):
    X, y = mixed(30)
    w = {"no": np.ones(30), "counts": rng.integers(1, 4, 30) * 1.0, "survey": rng.uniform(0.3, 2, 30)}[weighted]
    cells, spectrum = prepared(X, y, w, survey=weighted == "survey")
    found = losses(spectrum, cells, PENALTIES).loo
    for penalty, loss in zip(PENALTIES, found, strict=True):
        brute = 0.0
        for i in range(len(y)):
            less = w.copy()
            less[i] -= w[i] if weighted == "survey" else 1.0
            brute += w[i] * (y[i] - weighted_fit(X, y, less, penalty, X[i : i + 1])[0]) ** 2
        assert loss == pytest.approx(brute, rel=1e-9)


def test_loss_of_a_low_rank_model_equals_leaving_out_of_that_model(smooth):
    X, y = smooth(25)
    cells, spectrum = prepared(X, y)
    low = Spectrum(spectrum.Q[:, -6:], spectrum.w[-6:], complete=False)
    features = low.Q * np.sqrt(low.w)
    brute = 0.0
    for i in range(25):
        rest = np.arange(25) != i
        F = features[rest]
        beta = np.linalg.solve(F.T @ F + 0.3 * np.eye(6), F.T @ y[rest])
        brute += (y[i] - features[i] @ beta) ** 2
    assert losses(low, cells, np.array([0.3])).loo[0] == pytest.approx(brute, rel=1e-10)


def test_gcv_is_its_definition(mixed):
    X, y = mixed(30)
    cells, spectrum = prepared(X, y)
    for penalty, value in zip(PENALTIES, losses(spectrum, cells, PENALTIES).gcv, strict=True):
        K = GaussianKernel(X, S).matrix()
        H = K @ np.linalg.inv(K + penalty * np.eye(30))
        assert value == pytest.approx(np.sum((y - H @ y) ** 2) / (1 - np.trace(H) / 30) ** 2, rel=1e-10)


@pytest.mark.parametrize("survey", [False, True])
def test_slopes_are_derivatives_by_log_penalty(mixed, rng, survey):
    X, y = mixed(30)
    cells, spectrum = prepared(X, y, rng.integers(1, 4, 30) * 1.0, survey=survey)
    for model in (spectrum, Spectrum(spectrum.Q[:, -5:], spectrum.w[-5:], complete=False)):
        low, middle, high = (losses(model, cells, PENALTIES * np.exp(step)) for step in (-1e-5, 0.0, 1e-5))
        np.testing.assert_allclose(middle.loo_slope, (high.loo - low.loo) / 2e-5, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(middle.gcv_slope, (high.gcv - low.gcv) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rule", ["loo", "gcv"])
def test_search_finds_the_least_loss(smooth, rule):
    X, y = smooth(60)
    cells, spectrum = prepared(X, y - y.mean())
    found = choose_penalty(spectrum, cells, rule)
    fine = losses(spectrum, cells, np.geomspace(1e-6, 1e3, 2000))
    at = losses(spectrum, cells, np.array([found.penalty]))
    assert found.bound is None
    assert getattr(at, rule)[0] <= getattr(fine, rule).min() * (1 + 1e-12)
    assert abs(getattr(at, f"{rule}_slope")[0]) < 1e-9
    assert (np.diff(found.curve[:, 0]) > 0).all()
    assert found.curve[:, 1].min() == pytest.approx(getattr(at, rule)[0], rel=1e-12)


def deleted_squares(K, y, penalty):
    """Squared leave-one-out residuals, each from a fit without its row."""
    out = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        c = np.linalg.solve(K[np.ix_(rest, rest)] + penalty * np.eye(len(y) - 1), y[rest])
        out[i] = (y[i] - K[i, rest] @ c) ** 2
    return out


@pytest.mark.parametrize("repeated", [False, True])
def test_of_minima_that_cannot_be_told_apart_the_smoothest_is_taken(repeated):
    rng = np.random.default_rng(38)
    x = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=60)
    y -= y.mean()
    if repeated:  # the same row, to rounding, twice: gathered, it has its own place in every sum
        x[7], y[7] = x[11], y[11]
    cells = collapse(x, y)
    spectrum = decompose(GaussianKernel(cells.X, 1.35), cells.m)
    found = choose_penalty(spectrum, cells, "loo")
    least = found.curve[np.argmin(found.curve[:, 1]), 0]
    assert found.bound is None
    assert found.penalty > 1e4 * least
    assert abs(losses(spectrum, cells, np.array([found.penalty])).loo_slope[0]) < 1e-9
    K = GaussianKernel(x, 1.35).matrix()
    apart = deleted_squares(K, y, found.penalty) - deleted_squares(K, y, least)
    assert 0 < apart.sum() < np.sqrt(60) * apart.std()


def test_minima_that_can_be_told_apart_are(rng):
    x = np.linspace(-2, 2, 120)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.7 * np.sin(14 * x[:, 0]) + 0.1 * rng.normal(size=120)
    cells = collapse(x, y - y.mean())
    spectrum = decompose(GaussianKernel(cells.X, 0.7), cells.m)
    found = choose_penalty(spectrum, cells, "loo")
    loss = found.curve[:, 1]
    minima = 1 + np.flatnonzero((loss[1:-1] < loss[:-2]) & (loss[1:-1] < loss[2:]))
    assert found.curve[minima[-1], 0] > 10 * found.penalty  # there is a smoother minimum, which misses the ripples
    assert found.penalty == found.curve[np.argmin(loss), 0]


def test_search_tells_when_it_ends_at_a_limit(rng):
    X = rng.normal(size=(60, 2))
    smooth_outcome = np.sin(X[:, 0])  # no noise: the less smoothing the better
    cells, spectrum = prepared(X, smooth_outcome)
    assert choose_penalty(spectrum, cells, "loo").bound == "lower"
    alternating = np.where(np.arange(40) % 2, 1.0, -1.0)
    grid = np.repeat(np.linspace(0, 1, 20), 2)[:, None]  # neighbors disagree: constant is best
    cells, spectrum = prepared(grid, alternating)
    assert choose_penalty(spectrum, cells, "loo").bound == "upper"


@pytest.mark.parametrize("rule", ["loo", "gcv"])
def test_a_loss_that_does_not_depend_on_the_penalty(rng, rule):
    X = 1e3 * np.arange(12.0)[:, None]  # nobody is near anybody: leaving a row out leaves the prediction at zero
    cells, spectrum = prepared(X, rng.normal(size=12))
    found = choose_penalty(spectrum, cells, rule)
    assert found.penalty > 0
    if rule == "loo":
        np.testing.assert_allclose(found.curve[:, 1], np.sum(cells.mean**2), rtol=1e-6)


def test_limits_of_r_equal_its_loops(rng):
    for n in (20, 90):
        w = np.sort(np.linalg.eigvalsh(GaussianKernel(rng.normal(size=(n, 2)), 2.0).matrix()).clip(0))
        high = float(n)
        while np.sum(w / (w + high)) < 1:
            high -= 1
        q = int(np.argmin(np.abs(w[::-1] - w[-1] / 1000))) + 1
        low = 2.220446e-16
        while np.sum(w / (w + low)) > q:
            low += 0.05
        assert _krls_limits(w, float(n)) == (low, high)


def test_solution_solves_the_ridge_system(mixed):
    X, y = mixed(30)
    cells, spectrum = prepared(X, y)
    found = solution_at(spectrum, cells, 0.3)
    K = GaussianKernel(X, S).matrix()
    c = np.linalg.solve(K + 0.3 * np.eye(30), y)
    np.testing.assert_allclose(found.coef, np.bincount(cells.row, c), atol=1e-10)
    np.testing.assert_allclose(found.fitted[cells.row], K @ c, atol=1e-10)
    assert found.rss == pytest.approx(np.sum((y - K @ c) ** 2), rel=1e-10)
