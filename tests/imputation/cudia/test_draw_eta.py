"""Moves of the clusters' hidden means, against quadrature."""

import numpy as np
import pytest

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Parameters, Problem, plain_block
from crosslevel.imputation.cudia.regression import TAU_SHAPE, EtaPrior
from crosslevel.imputation.cudia.sampling import draw_eta


def one_cluster(kind, s, size):
    """Groups of one cluster, so that a single eta (and tau^2) is to be drawn."""
    none = np.zeros(0, dtype=np.int64)
    block = plain_block(np.array(s)[:, None], np.full(len(s), size))
    problem = Problem(
        np.zeros((0, 1)), (Gaussian("x", 0, 0.0, 1.0),), none, none, np.zeros(0), none, len(s), (block,), (kind,)
    )
    return problem, np.ones((len(s), 1))


def chain(problem, mix, at, prior, law, n=4000):
    rng = np.random.default_rng(0)
    directions = np.eye(1 + (problem.hidden[0] == "gaussian"))
    H, tau2 = [], []
    for _ in range(n):
        h, t = draw_eta(problem, mix, at, prior, law, directions, rng)
        at = Parameters(at.theta, at.pi, h, t)
        H.append(h[0, 0])
        tau2.append(t[0])
    return np.array(H[200:]), np.array(tau2[200:])


def moments(grid, log):
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = w @ grid
    return mean, np.sqrt(w @ (grid - mean) ** 2)


@pytest.mark.parametrize("kind", ["ridge", "logit"])
def test_a_share_is_drawn_from_its_posterior(kind):
    problem, mix = one_cluster("bernoulli", [0.05, 0.15], 12.0)
    prior = EtaPrior(kind, np.array([2.0]), np.array([0.2]), np.ones(1))
    at = Parameters((np.zeros((1, 2)),), mix, np.array([[0.3]]), np.ones(1))
    H, _ = chain(problem, mix, at, prior, "cudia")
    q = np.linspace(1e-4, 1 - 1e-4, 20_001)
    log = sum(-0.5 * (s - q) ** 2 / (q * (1 - q) / 12) - 0.5 * np.log(q * (1 - q)) for s in (0.05, 0.15))
    if kind == "ridge":
        log = log - 0.5 * 2.0 * (q - 0.2) ** 2
    else:  # a normal density of the logit
        f = np.log(q / (1 - q)) - np.log(0.25)
        log = log - 0.5 * 2.0 * f**2 - np.log(q * (1 - q))
    mean, sd = moments(q, log)
    assert H.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert H.std() == pytest.approx(sd, rel=0.1)


def test_a_number_and_its_variance_are_drawn_from_their_posterior():
    s = np.array([1.0, 1.6, 0.7])
    problem, mix = one_cluster("gaussian", s, 5.0)
    prior = EtaPrior("ridge", np.array([0.5]), np.array([1.0]), np.array([0.3]))
    at = Parameters((np.zeros((1, 2)),), mix, np.array([[1.0]]), np.array([0.5]))
    H, tau2 = chain(problem, mix, at, prior, "cudia")
    h, t = np.meshgrid(np.linspace(-1, 3, 401), np.exp(np.linspace(-5, 5, 801)), indexing="ij")
    log = -0.25 * (h - 1.0) ** 2 - (TAU_SHAPE + 1) * np.log(t) - 0.3 / t + np.log(t)  # the grid is even in log t
    for v in s:
        log = log - 0.5 * (v - h) ** 2 / (t / 5) - 0.5 * np.log(t)
    mean, sd = moments(h.ravel(), log.ravel())
    assert H.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert H.std() == pytest.approx(sd, rel=0.1)
    center, spread = moments(np.log(t).ravel(), log.ravel())
    assert np.log(tau2).mean() == pytest.approx(center, abs=0.1 * spread)
    assert np.log(tau2).std() == pytest.approx(spread, rel=0.1)
