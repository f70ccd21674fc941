"""Do the moves of the Multinomial-Dirichlet sampler leave its posterior as it is, and do drawn tables follow their law?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

from crosslevel.ecological.tables.dirichlet.moves import advance, draw_tables, sweep_units
from crosslevel.numerics.chains import effective_sample_size


def start(x, C):
    """Masses at which all groups behave alike."""
    return np.repeat(x[:, :, None], C, axis=2) / C


def alike(n, C):
    """Surroundings that do not matter: one row of ones, and the row of every unit."""
    return np.ones((1, C)), np.zeros(n, dtype=np.int64)


def within(draws, expected, times=4.5):
    """Tell whether the mean of (n, ...) dependent draws is within so many of its own standard errors of what is expected."""
    error = draws.std(axis=0) / np.sqrt(effective_sample_size(draws.reshape(4, -1, *draws.shape[1:])))
    gap = np.abs(draws.mean(axis=0) - expected) / error
    return gap.max() < times, gap


CONTEXT = np.array([[1.6, 0.5, 1.0], [0.4, 1.5, 0.9], [1.0, 1.2, 0.3]])


@pytest.mark.parametrize(
    ("N", "edge", "factor"),
    [
        (8, 1.0, None),
        (8, 0.1, None),
        (60, 0.3, None),
        (8, 1.0, CONTEXT),
        (60, 0.3, CONTEXT),
        (8, 0.1, CONTEXT[[0, 1, 0]]),
    ],
)
def test_simulating_data_and_parameters_in_turn_gives_back_the_prior(N, edge, factor):
    """Geweke (2004): when T is drawn given beta between moves, alpha and beta have their prior for ever."""
    rng = np.random.default_rng(0)
    shape, rate, C = 4.0, 2.0, 3
    x = np.array([[0.5, 0.5], [0.8, 0.2], [0.0, 1.0]])
    n, R = x.shape
    m, alpha, step = start(x, C), rng.gamma(shape, 1 / rate, (R, C)), np.full((R, C), 0.5)
    kinds, of = alike(n, C) if factor is None else np.unique(factor, axis=0, return_inverse=True)
    of, edges = of.ravel(), np.full((R, C, n), edge)
    people = np.array([(x[of == k] > 0).sum(axis=0) for k in range(len(kinds))], dtype=float).T.copy()
    turns = 24_000
    alphas, betas = np.empty((turns, R, C)), np.empty((turns, R, C))
    for k in range(turns):
        theta = m.sum(axis=1)
        T = rng.multinomial(N, theta / theta.sum(axis=1, keepdims=True)).astype(float)
        _, lost = advance((m, x, T), alpha, (kinds, of, people), (edges, step), (shape, rate), 1, False, rng)
        assert lost == 0
        alphas[k], betas[k] = np.log(alpha), m[1] / x[1][:, None]
    good, gap = within(alphas, special.digamma(shape) - np.log(rate))
    assert good, gap
    mean, variance = special.digamma(shape) - np.log(rate), special.polygamma(1, shape)
    good, gap = within((alphas - mean) ** 2, variance)
    assert good, gap
    fresh = rng.gamma(shape, 1 / rate, (400_000, R, C))
    direct = rng.standard_gamma(fresh * kinds[of[1]])
    direct /= direct.sum(axis=2, keepdims=True)
    for power in (1, 2):
        good, gap = within(betas**power, (direct**power).mean(axis=0))
        assert good, gap


@pytest.mark.parametrize("alpha", [[[2.0, 3.0], [1.0, 4.0]], [[0.3, 6.0], [5.0, 0.4]], [[3.0, 0.08], [0.1, 2.0]]])
@pytest.mark.parametrize("N", [20, 3000])
def test_one_unit_given_alpha_matches_quadrature(alpha, N):
    """Also where the likelihood is a sliver of the square of betas and where the prior has poles at its edges."""
    alpha, x, T = np.array(alpha), np.array([[0.35, 0.65]]), np.array([[0.6 * N, 0.4 * N]])
    # uniform in the logit: the poles of the prior become tails
    z = np.concatenate([np.arange(-400, -20, 1.0), np.arange(-20, 20, 0.02), np.arange(20, 401, 1.0)])
    b = special.expit(z)
    width = np.gradient(z)
    prior = [a * special.log_expit(z) + c * special.log_expit(-z) for a, c in alpha]
    first, second = np.meshgrid(b, b, indexing="ij")
    theta, rest = (0.35 * v[:, None] + 0.65 * v[None, :] for v in (b, special.expit(-z)))
    h = prior[0][:, None] + prior[1][None, :] + T[0, 0] * np.log(theta) + T[0, 1] * np.log(rest)
    w = np.exp(h - h.max()) * width[:, None] * width[None, :]
    w /= w.sum()
    expected = np.array([(w * first).sum(), (w * second).sum(), (w * first**2).sum(), (w * first * second).sum()])
    rng, m, S = np.random.default_rng(1), start(x, 2), np.empty((2, 2))
    draws = np.empty((20_000, 4))
    for k in range(len(draws)):
        assert sweep_units(m, x, T, alpha, *alike(1, 2), rng, S) == 0
        p, q = m[0, 0, 0] / 0.35, m[0, 1, 0] / 0.65
        draws[k] = p, q, p * p, p * q
    good, gap = within(draws, expected)
    assert good, (gap, draws.mean(axis=0), expected)


def test_two_units_match_brute_force():
    """The posterior of alpha and beta by weighting two million draws of the prior."""
    rng = np.random.default_rng(2)
    x, T = np.array([[0.3, 0.7], [0.9, 0.1]]), np.array([[9.0, 3.0], [2.0, 10.0]])
    alpha = rng.gamma(4.0, 0.5, (2_000_000, 1, 2, 2))
    beta = rng.standard_gamma(np.broadcast_to(alpha, (len(alpha), 2, 2, 2)))
    beta /= beta.sum(axis=3, keepdims=True)
    w = np.exp((T * np.log(np.einsum("ir,nirc->nic", x, beta))).sum(axis=(1, 2)))
    w /= w.sum()
    by_alpha = np.einsum("n,nrc->rc", w, np.log(alpha[:, 0]))
    by_beta = np.einsum("n,nirc->irc", w, beta)
    turns = 40_000
    draws_alpha, draws_beta = np.empty((turns, 2, 2)), np.empty((turns, 2, 2, 2))
    m, current, step, people = start(x, 2), np.ones((2, 2)), np.full((2, 2), 0.5), np.array([[2.0], [2.0]])
    edges = np.full((2, 2, 2), 0.4)
    for k in range(turns):
        advance((m, x, T), current, (*alike(2, 2), people), (edges, step), (4.0, 2.0), 1, k < turns // 20, rng)
        draws_alpha[k], draws_beta[k] = np.log(current), m / x[:, :, None]
    for draws, expected in ((draws_alpha, by_alpha), (draws_beta, by_beta)):
        good, gap = within(draws[turns // 20 :], expected)
        assert good, gap


def test_drawn_tables_follow_the_law_of_tables_with_both_margins():
    """Mean and spread of all tables with these margins, weighted by prod m^k / k!, by counting them."""
    X, y = np.array([[14.0, 22.0]]), np.array([[16.0, 12.0, 8.0]])
    m = np.array([[[0.2, 0.12, 0.07], [0.2, 0.25, 0.16]]])
    tables, weights = [], []
    for a, b in itertools.product(range(15), range(13)):
        row = np.array([a, b, 14 - a - b])
        both = np.array([row, y[0] - row])
        if (both >= 0).all():
            tables.append(both)
            weights.append((both * np.log(m[0]) - special.gammaln(both + 1)).sum())
    tables, w = np.array(tables), np.exp(np.array(weights) - max(weights))
    w /= w.sum()
    mean = np.einsum("n,nrc->rc", w, tables)
    sd = np.sqrt(np.einsum("n,nrc->rc", w, (tables - mean) ** 2))
    rng, draws = np.random.default_rng(3), np.empty((20_000, 1, 2, 3))
    for draw in draws:
        draw_tables(m, X, y, rng, draw)
    np.testing.assert_allclose(draws.sum(axis=3)[:, 0], np.broadcast_to(X[0], (20_000, 2)), atol=1e-9)
    np.testing.assert_allclose(draws.sum(axis=2)[:, 0], np.broadcast_to(y[0], (20_000, 3)), atol=1e-9)
    np.testing.assert_allclose(draws.mean(axis=0)[0], mean, atol=0.15)
    np.testing.assert_allclose(draws.std(axis=0)[0], sd, rtol=0.08)
