import numpy as np
import pytest

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Problem, plain_block
from crosslevel.imputation.cudia.posterior import MixPrior
from crosslevel.imputation.cudia.sampling import draw_mix, make_sites, site_sweep

ETA, TAU2, S, COUNTS = np.array([[-0.5], [0.5]]), np.array([0.07]), -0.02, np.array([18.0, 12.0])


def one_group(copies=1):
    none = np.zeros(0, dtype=np.int64)
    block = plain_block(np.full((copies, 1), S), np.full(copies, 30.0))
    return Problem(
        np.zeros((0, 1)), (Gaussian("x", 0, 0.0, 1.0),), none, none, np.zeros(0), none, copies, (block,), ("gaussian",)
    )


def by_quadrature(alpha):
    q = np.linspace(1e-6, 1 - 1e-6, 200_001)
    mu = q - 0.5
    v = (0.07 + q * (1 - q)) / 30
    log = -0.5 * (S - mu) ** 2 / v - 0.5 * np.log(v) + (alpha[1] + 11) * np.log(q) + (alpha[0] + 17) * np.log(1 - q)
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = (w * q).sum()
    return mean, np.sqrt((w * (q - mean) ** 2).sum())


def moved(alpha, chains=400, sweeps=400):
    """Run many chains at once."""
    rng = np.random.default_rng(1)
    problem, prior = one_group(chains), MixPrior.dirichlet(np.array(alpha, dtype=float))
    counts = np.tile(COUNTS, (chains, 1))
    pi = np.full((chains, 2), 0.5)
    kept = []
    for sweep in range(sweeps):
        pi, _ = draw_mix(problem, pi, counts, prior, ETA, TAU2, rng)
        if sweep >= sweeps // 4:
            kept.append(pi[:, 1])
    return np.concatenate(kept)


def test_quadrature_agrees_with_the_known_numbers():
    assert by_quadrature((3, 2)) == pytest.approx((0.4319, 0.0641), abs=5e-5)
    assert by_quadrature((1, 1)) == pytest.approx((0.4372, 0.0659), abs=5e-5)


def test_mixes_are_drawn_from_their_posterior():
    draws = moved((3, 2))
    assert draws.mean() == pytest.approx(0.4319, abs=0.0015)
    assert draws.std() == pytest.approx(0.0641, abs=0.0015)


def test_proposals_move_in_large_groups():
    problem, prior = one_group(200), MixPrior.dirichlet(np.ones(2))
    counts, pi = np.tile([24_000.0, 16_000.0], (200, 1)), np.tile([0.6, 0.4], (200, 1))
    assert draw_mix(problem, pi, counts, prior, ETA, TAU2, np.random.default_rng(0))[1] > 0.3


def test_collapsed_gibbs_has_the_exact_law_of_the_clusters():
    # three people, two clusters: all eight assignments can be listed
    x = np.array([-0.3, 0.1, 0.6])
    family = Gaussian("x", 0, 0.0, 1.0)
    problem = Problem(
        x[:, None], (family,), np.arange(3), np.zeros(3, dtype=np.int64), np.ones(3), np.ones(3, dtype=np.int64), 1,
        (plain_block([[0.2]], [3.0]),), ("gaussian",),
    )  # fmt: skip
    theta = np.array([[-0.5, np.log(0.5)], [0.5, np.log(0.5)]])
    log_f, alpha = family.log_density(theta, problem.X), np.array([1.5, 0.7])
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
    total = sum(exact.values())
    rng, sites = np.random.default_rng(0), make_sites(problem)
    Z = np.array([[1, 0], [0, 1], [1, 0]])
    found = dict.fromkeys(range(8), 0)
    sweeps = 20_000
    for _ in range(sweeps):
        site_sweep(problem, sites, Z, log_f, alpha, ETA, TAU2, rng)
        found[int((Z[:, 1] * [1, 2, 4]).sum())] += 1
    for code, weight in exact.items():
        assert found[code] / sweeps == pytest.approx(weight / total, abs=0.015)
