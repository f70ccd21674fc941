import numpy as np
import pytest

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.hard import _sweep, fit_hard, objective
from crosslevel.imputation.cudia.levels import Categorical
from crosslevel.imputation.cudia.model import Parameters, Problem, log_density, plain_block
from crosslevel.imputation.cudia.posterior import responsibilities
from crosslevel.imputation.cudia.regression import eta_prior
from crosslevel.imputation.cudia.sampling import make_sites


def random_state(seed, K=4, groups=3, pairs=30):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=pairs), rng.integers(0, 3, pairs)])
    count = rng.integers(1, 6, pairs)
    atom = np.concatenate([np.arange(groups), rng.integers(0, groups, pairs - groups)])
    sizes = np.bincount(atom, count)
    families = (Gaussian("a", 0, 0.0, 1.0), Categorical("b", 1, ("0", "1", "2")))
    problem = Problem(
        X, families, np.arange(pairs), atom, count.astype(float), count, groups,
        (plain_block(rng.normal(size=(groups, 2)), sizes),), ("gaussian", "gaussian"),
    )  # fmt: skip
    theta = (np.column_stack([rng.normal(size=K), np.zeros(K)]), rng.normal(size=(K, 3)))
    at = Parameters(theta, np.full((groups, K), 1 / K), rng.normal(size=(K, 2)), np.array([0.5, 2.0]))
    Z = np.stack([rng.multinomial(c, np.full(K, 1 / K)) for c in count]).astype(np.int64)
    return problem, at, Z


@pytest.mark.parametrize("seed", range(4))
def test_no_single_move_is_left_that_lowers_the_objective(seed):
    problem, at, Z = random_state(seed)
    prior = eta_prior(problem, 1.0, "mean")
    sites = make_sites(problem)
    path = [objective(problem, at, Z, prior, 1.0)]
    for _ in range(60):
        _sweep(problem, sites, at, Z, 1.0)
        path.append(objective(problem, at, Z, prior, 1.0))
    assert (np.diff(path) <= 1e-9).all()
    for i in range(len(Z)):
        for a in np.flatnonzero(Z[i]):
            for b in range(Z.shape[1]):
                tried = Z.copy()
                tried[i, a] -= 1
                tried[i, b] += 1
                assert objective(problem, at, tried, prior, 1.0) >= path[-1] - 1e-9


def test_the_objective_falls_on_fifty_of_fifty_seeds_and_soft_values_are_good(two_gaussians, as_problem):
    soft, hard, naive = [], [], []
    for seed in range(50):
        x, u, group, s, _, _ = two_gaussians(seed)
        problem = as_problem(x, group, s)
        fit = fit_hard(problem, 2, eta_prior(problem, 1.0, "mean"), np.random.default_rng(seed), n_restarts=2)
        assert fit.converged
        assert (np.diff(fit.path) <= 1e-9 * abs(fit.path[0])).all()
        at = fit.parameters
        r = responsibilities(log_density(problem, at.theta), at.pi, problem.cell, problem.atom)
        soft.append(np.mean((u - (r @ at.H)[:, 0]) ** 2))
        hard.append(np.mean((u - at.H[fit.Z.argmax(axis=1), 0]) ** 2))
        naive.append(np.mean((u - s[group]) ** 2))
    assert np.mean(soft) == pytest.approx(0.088, abs=0.002)
    assert np.mean(hard) == pytest.approx(0.103, abs=0.004)
    assert np.mean(naive) == pytest.approx(0.232, abs=0.01)
