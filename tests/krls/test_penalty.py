"""The leave-one-out loss is what leaving out gives, its slope its slope, and the search finds its minimum."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.krls.model import collapse
from crosslevel.krls.penalty import _krls_limits, choose_penalty, losses
from crosslevel.krls.spectrum import GaussianKernel, Spectrum, decompose

S = 2.0
PENALTIES = np.array([0.01, 0.3, 5.0])


def prepared(X, y, weights=None):
    cells = collapse(X, y, weights)
    return cells, decompose(GaussianKernel(cells.X, S), cells.m)


def weighted_fit(X, y, w, penalty, at):
    """Minimize sum w (y - f)^2 + penalty |f|^2 by a dense solve and evaluate at rows."""
    keep = w > 0
    X, y, w = X[keep], y[keep], w[keep]
    c = np.linalg.solve(GaussianKernel(X, S).matrix() + penalty * np.diag(1 / w), y)
    return GaussianKernel(X, S).apply(c[:, None], at)[:, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_loss_equals_leaving_each_observation_out(mixed, rng, weighted):
    X, y = mixed(30)
    w = rng.uniform(0.3, 2, 30) if weighted else np.ones(30)
    w /= w.mean()
    cells, spectrum = prepared(X, y, 5 * w)
    found, slopes = losses(spectrum, cells, PENALTIES)
    for penalty, loss in zip(PENALTIES, found, strict=True):
        brute = 0.0
        for i in range(len(y)):
            less = np.where(np.arange(30) == i, 0.0, w)
            brute += w[i] * (y[i] - weighted_fit(X, y, less, penalty, X[i : i + 1])[0]) ** 2
        assert loss == pytest.approx(brute, rel=1e-9)
    low, high = (losses(spectrum, cells, PENALTIES * np.exp(step))[0] for step in (-1e-5, 1e-5))
    np.testing.assert_allclose(slopes, (high - low) / 2e-5, rtol=1e-6, atol=1e-7)


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
    loss, slope = losses(low, cells, np.array([0.3]))
    assert loss[0] == pytest.approx(brute, rel=1e-10)
    near = [losses(low, cells, np.array([0.3 * np.exp(step)]))[0][0] for step in (-1e-5, 1e-5)]
    assert slope[0] == pytest.approx((near[1] - near[0]) / 2e-5, rel=1e-6)


def test_search_finds_the_least_loss(smooth):
    X, y = smooth(60)
    cells, spectrum = prepared(X, y - y.mean())
    found = choose_penalty(spectrum, cells, "loo")
    fine = losses(spectrum, cells, np.geomspace(1e-6, 1e3, 2000))[0]
    loss, slope = losses(spectrum, cells, np.array([found.penalty]))
    assert found.bound is None
    assert loss[0] <= fine.min() * (1 + 1e-12)
    assert abs(slope[0]) < 1e-9
    assert (np.diff(found.curve[:, 0]) > 0).all()
    assert found.curve[:, 1].min() == pytest.approx(loss[0], rel=1e-12)


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
    if repeated:  # two people at one place
        x[7] = x[11]
    cells = collapse(x, y)
    spectrum = decompose(GaussianKernel(cells.X, 1.35), cells.m)
    found = choose_penalty(spectrum, cells, "loo")
    least = found.curve[np.argmin(found.curve[:, 1]), 0]
    assert found.bound is None
    assert found.penalty > 1e4 * least
    assert abs(losses(spectrum, cells, np.array([found.penalty]))[1][0]) < 1e-9
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


def test_a_loss_that_does_not_depend_on_the_penalty(rng):
    X = 1e3 * np.arange(12.0)[:, None]  # nobody is near anybody: leaving a row out leaves the prediction at zero
    cells, spectrum = prepared(X, rng.normal(size=12))
    found = choose_penalty(spectrum, cells, "loo")
    assert found.penalty > 0
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
