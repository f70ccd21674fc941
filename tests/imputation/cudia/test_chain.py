"""Moves and chains, against quadrature and lists of all that can be."""

from dataclasses import replace

import numpy as np
import pytest
from tests.imputation.cudia.worlds import as_problem, gaussian, make_problem, plain_block, two_gaussians

from crosslevel.imputation.cudia.chain import draw_eta, draw_mix, sweep
from crosslevel.imputation.cudia.fit import expectations, run_mcem
from crosslevel.imputation.cudia.means import make_prior
from crosslevel.imputation.cudia.model import TAU_SHAPE, Fit, Parameters, Prior

ETA, TAU2, S, COUNTS = np.array([[-0.5], [0.5]]), np.array([0.07]), -0.02, np.array([18.0, 12.0])


def one_group(copies=1):
    return make_problem([plain_block(np.full((copies, 1), S), np.full(copies, 30.0))], [False])


def by_quadrature(alpha):
    q = np.linspace(1e-6, 1 - 1e-6, 200_001)
    mu = q - 0.5
    v = (0.07 + q * (1 - q)) / 30
    log = -0.5 * (S - mu) ** 2 / v - 0.5 * np.log(v) + (alpha[1] + 11) * np.log(q) + (alpha[0] + 17) * np.log(1 - q)
    return moments(q, log)


def moments(grid, log):
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = w @ grid
    return mean, np.sqrt(w @ (grid - mean) ** 2)


def test_mixes_are_drawn_from_their_posterior():
    assert by_quadrature((3, 2)) == pytest.approx((0.4319, 0.0641), abs=5e-5)
    rng, problem = np.random.default_rng(1), one_group(400)
    counts, pi, kept = np.tile(COUNTS, (400, 1)), np.full((400, 2), 0.5), []
    for number in range(400):
        pi, _ = draw_mix(problem, Parameters((), pi, ETA, TAU2), counts, np.array([3.0, 2.0]), rng)
        if number >= 100:
            kept.append(pi[:, 1])
    assert np.mean(kept) == pytest.approx(0.4319, abs=0.0015)
    assert np.std(kept) == pytest.approx(0.0641, abs=0.0015)


def test_atoms_that_share_a_group_move_one_after_the_other_to_the_same_law():
    """Two atoms of one group, one of them with next to nobody, are that group by itself."""
    rng, alpha = np.random.default_rng(2), np.array([3.0, 2.0])
    block = plain_block([[S]], [30.0])
    both = replace(block, group=np.zeros(2, dtype=int), share=np.array([1.0, 0.0]))
    problem = make_problem([both], [False], np.zeros((2, 1)), [0, 1], [30, 1])
    counts, pi, kept = np.array([COUNTS, [0.5, 0.5]]), np.full((2, 2), 0.5), []
    for _ in range(8000):
        pi, _ = draw_mix(problem, Parameters((), pi, ETA, TAU2), counts, alpha, rng)
        kept.append(pi[0, 1])
    assert np.mean(kept) == pytest.approx(0.4319, abs=0.006)
    assert np.std(kept) == pytest.approx(0.0641, abs=0.006)


def test_proposals_move_in_large_groups():
    counts, pi = np.tile([24_000.0, 16_000.0], (200, 1)), np.tile([0.6, 0.4], (200, 1))
    at = Parameters((), pi, ETA, TAU2)
    assert draw_mix(one_group(200), at, counts, np.ones(2), np.random.default_rng(0))[1] > 0.3


def test_collapsed_gibbs_has_the_exact_law_of_the_clusters():
    # three people, two clusters: all eight assignments can be listed
    x = np.array([-0.3, 0.1, 0.6])
    family, block = gaussian(), plain_block([[0.2]], [3.0])
    problem = make_problem([block], [False], x[:, None], [0, 0, 0], families=(family,), likelihood="count")
    theta = np.array([[-0.5, np.log(0.5)], [0.5, np.log(0.5)]])
    log_f, alpha = problem.log_density((theta,)), np.array([1.5, 0.7])
    exact = {}
    for code in range(8):
        z = np.array([code >> i & 1 for i in range(3)])
        log = log_f[np.arange(3), z].sum()
        seen = np.zeros(2)
        for k in z:  # the urn of the integrated mix
            log += np.log((seen[k] + alpha[k]) / (seen.sum() + alpha.sum()))
            seen[k] += 1
        m, v = ETA[z, 0].mean(), 0.07 / 3
        exact[code] = np.exp(log - 0.5 * (0.2 - m) ** 2 / v - 0.5 * np.log(v))
    total, rng = sum(exact.values()), np.random.default_rng(0)
    Z, at = np.array([[1, 0], [0, 1], [1, 0]]), Parameters((theta,), np.full((1, 2), 0.5), ETA, TAU2)
    found, sweeps = dict.fromkeys(range(8), 0), 20_000
    for _ in range(sweeps):
        sweep(problem, at, alpha, Z, log_f, rng)
        found[int((Z[:, 1] * [1, 2, 4]).sum())] += 1
    for code, weight in exact.items():
        assert found[code] / sweeps == pytest.approx(weight / total, abs=0.015)


def eta_chain(problem, at, prior, n=4000):
    rng, directions = np.random.default_rng(0), np.eye(1 + int((~problem.binary).sum()))
    H, tau2 = [], []
    for _ in range(n):
        at = draw_eta(problem, prior, at, directions, rng)
        H.append(at.H[0, 0])
        tau2.append(at.tau2[0])
    return np.array(H[200:]), np.array(tau2[200:])


def prior_of_eta(precision, center, scale=1.0, *, on_logit=False):
    return Prior(np.ones(1), False, np.array([precision]), np.array([center]), np.array([on_logit]), np.array([scale]))


@pytest.mark.parametrize("on_logit", [False, True])
def test_a_share_is_drawn_from_its_posterior(on_logit):
    problem = make_problem([plain_block([[0.05], [0.15]], [12.0, 12.0])], [True])
    at = Parameters((), np.ones((2, 1)), np.array([[0.3]]), np.ones(1))
    H, _ = eta_chain(problem, at, prior_of_eta(2.0, 0.2, on_logit=on_logit))
    q = np.linspace(1e-4, 1 - 1e-4, 20_001)
    log = sum(-0.5 * (s - q) ** 2 / (q * (1 - q) / 12) - 0.5 * np.log(q * (1 - q)) for s in (0.05, 0.15))
    if on_logit:  # a normal density of the logit
        f = np.log(q / (1 - q)) - np.log(0.25)
        log = log - 0.5 * 2.0 * f**2 - np.log(q * (1 - q))
    else:
        log = log - 0.5 * 2.0 * (q - 0.2) ** 2
    mean, sd = moments(q, log)
    assert H.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert H.std() == pytest.approx(sd, rel=0.1)


def test_a_number_and_its_variance_are_drawn_from_their_posterior():
    s = np.array([1.0, 1.6, 0.7])
    problem = make_problem([plain_block(s[:, None], np.full(3, 5.0))], [False])
    at = Parameters((), np.ones((3, 1)), np.array([[1.0]]), np.array([0.5]))
    H, tau2 = eta_chain(problem, at, prior_of_eta(0.5, 1.0, 0.3))
    h, t = np.meshgrid(np.linspace(-1, 3, 401), np.exp(np.linspace(-5, 5, 801)), indexing="ij")
    log = -0.25 * (h - 1.0) ** 2 - (TAU_SHAPE + 1) * np.log(t) - 0.3 / t + np.log(t)  # the grid is even in log t
    for v in s:
        log = log - 0.5 * (v - h) ** 2 / (t / 5) - 0.5 * np.log(t)
    for draws, grid in ((H, h), (np.log(tau2), np.log(t))):
        mean, sd = moments(grid.ravel(), log.ravel())
        assert draws.mean() == pytest.approx(mean, abs=0.1 * sd)
        assert draws.std() == pytest.approx(sd, rel=0.1)


THETA = (np.array([[-0.5, np.log(0.07)], [0.5, np.log(0.07)]]),)


def known(likelihood="cudia"):
    x, _, group, s, z, _ = two_gaussians(0, groups=4, size=80)
    return as_problem(x, group, s, likelihood), Parameters(THETA, np.full((4, 2), 0.5), ETA, TAU2), z, group


def test_shares_and_their_covariance_are_those_of_drawn_clusters(monkeypatch):
    monkeypatch.setattr("crosslevel.imputation.cudia.fit.SWEEPS", 600)
    problem, at, z, group = known()
    found, _ = expectations(problem, at, np.ones(2), np.zeros((0, 2), dtype=np.int64), np.random.default_rng(0))
    assert found.shares[:, 1] == pytest.approx(np.bincount(group, z) / np.bincount(group), abs=0.12)
    assert found.shares.sum(axis=1) == pytest.approx(np.ones(4))
    # the variance of a share is that of the sum of people who could be in either cluster, and of the mix
    odds = np.exp(problem.X[:, 0] / 0.07) * (found.pi[group, 1] / found.pi[group, 0])
    r = odds / (1 + odds)
    least = np.bincount(group, r * (1 - r)) / 80**2
    assert (found.cov[:, 1, 1] > 0.8 * least).all()
    assert (found.cov[:, 1, 1] < 6 * least).all()
    assert found.cov[:, 0, 1] == pytest.approx(-found.cov[:, 1, 1], abs=1e-12)


@pytest.mark.parametrize("likelihood", ["cudia", "count"])
def test_steps_settle_near_the_truth(likelihood):
    problem, at, _, _ = known(likelihood)
    start = Parameters(at.theta, at.pi, np.array([[-0.1], [0.1]]), at.tau2)
    first = Fit(start, make_prior(problem, np.ones(2), ridge=1.0), at.pi, {"converged": True})
    run = run_mcem(problem, first, np.random.default_rng(0))
    assert run.parameters.H[:, 0] == pytest.approx([-0.5, 0.5], abs=0.15)
    assert run.convergence["drift"] < 4
    assert run.convergence["converged"]
    assert run.convergence["iterations"] == 40
