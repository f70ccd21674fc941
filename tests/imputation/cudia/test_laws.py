import numpy as np
import pytest
from scipy import stats

from crosslevel.imputation.cudia import model as laws
from crosslevel.imputation.cudia.model import Block, Problem, hidden_variance, plain_block

K, N = 3, 50
PI = np.array([0.5, 0.3, 0.2])
H = np.array([[0.3, -1.0], [-0.4, 0.5], [1.2, 0.1]])
T = np.array([[0.5, 0.3], [0.2, 0.4], [0.9, 0.6]])


def simulated_means(rng, n_draws=20_000):
    z = rng.choice(K, size=(n_draws, N), p=PI)
    u = H[z] + rng.normal(size=(n_draws, N, 2)) * np.sqrt(T[z])
    return u.mean(axis=1)


def test_the_covariance_of_a_mean_is_that_of_simulated_means():
    block = plain_block(np.zeros((1, 2)), [N])
    found = laws.marginal_moments(block, PI[None], H, T)
    s = simulated_means(np.random.default_rng(0))
    assert found.mean[0] == pytest.approx(s.mean(axis=0), abs=0.005)
    assert found.cov[0] == pytest.approx(np.cov(s.T), abs=6e-4)


def test_the_covariance_as_printed_is_not():
    # eq 3 subtracts mu mu' once for every cluster
    mu = PI @ H
    printed = (np.einsum("k,kj,kl->jl", PI, H, H) + np.diag(PI @ T) - K * np.outer(mu, mu)) / N
    s = simulated_means(np.random.default_rng(0), 4000)
    assert np.abs(printed - np.cov(s.T)).max() > 2e-3


def test_a_binary_feature_has_the_binomial_variance():
    eta = np.array([[0.1], [0.6], [0.9]])
    block = plain_block([[0.4]], [N])
    found = laws.marginal_moments(block, PI[None], eta, hidden_variance(eta, ["bernoulli"], np.ones(1)))
    mu = float((PI @ eta)[0])
    assert found.cov[0, 0, 0] == pytest.approx(mu * (1 - mu) / N, rel=1e-12)


def test_the_count_law_keeps_only_the_variance_inside_clusters():
    block = plain_block(np.zeros((1, 2)), [N])
    found = laws.count_moments(block, PI[None], H, T)
    assert found.cov[0] == pytest.approx(np.diag(PI @ T) / N)
    assert (np.diag(found.cov[0]) < np.diag(laws.marginal_moments(block, PI[None], H, T).cov[0])).all()


def test_variances_of_a_group_of_two_atoms_add_up():
    pi = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    whole = Block(
        np.arange(2),
        np.zeros(2, dtype=int),
        np.array([0.25, 0.75]),
        np.zeros((1, 2)),
        np.array([80.0]),
        np.full((1, 2), np.nan),
    )
    parts = laws.marginal_moments(plain_block(np.zeros((2, 2)), [20, 60]), pi, H, T)
    found = laws.marginal_moments(whole, pi, H, T)
    assert found.mean[0] == pytest.approx(0.25 * parts.mean[0] + 0.75 * parts.mean[1])
    assert found.cov[0] == pytest.approx(0.25**2 * parts.cov[0] + 0.75**2 * parts.cov[1])


def test_a_missing_mean_is_left_out_of_the_density():
    S = np.array([[0.3, np.nan]])
    both = laws.marginal_moments(plain_block(S, [N]), PI[None], H, T)
    one = laws.marginal_moments(plain_block(S[:, :1], [N], features=[0]), PI[None], H, T)
    assert laws.log_normal(S, both) == pytest.approx(laws.log_normal(S[:, :1], one), abs=1e-10)


def test_a_published_error_replaces_the_marginal_variance_and_adds_to_that_of_counts():
    block = plain_block([[0.3]], [N], se=[[0.2]])
    assert laws.marginal_moments(block, PI[None], H, T).cov[0, 0, 0] == pytest.approx(0.04)
    inside = float(PI @ T[:, 0]) / N
    assert laws.count_moments(block, PI[None], H, T).cov[0, 0, 0] == pytest.approx(0.04 + inside)


def two_blocks():
    """Three atoms; four hidden features of all families, published by atom and, two of them, by groups of atoms."""
    rng = np.random.default_rng(3)
    errors = [[np.nan, 0.1], [0.05, np.nan], [np.nan, np.nan]]
    by_atom = plain_block(rng.uniform(0.2, 0.8, (3, 2)), [40, 60, 50], errors, features=[0, 1])
    means = np.array([[0.9, 1.4, 0.3], [0.7, np.nan, 0.6]])
    by_group = Block(
        np.array([2, 3, 0]),
        np.array([0, 1, 1]),
        np.array([1.0, 0.4, 0.6]),
        means,
        np.array([40.0, 110.0]),
        np.full((2, 3), np.nan),
    )
    return Problem(
        X=np.zeros((1, 0)),
        families=(),
        cell=np.array([0, 0, 0, 0]),
        atom=np.array([0, 1, 2, 2]),
        weight=np.array([40.0, 60.0, 20.0, 30.0]),
        count=np.array([40, 60, 20, 30]),
        n_atoms=3,
        blocks=(by_atom, by_group),
        hidden=("bernoulli", "gaussian", "poisson", "exponential"),
    )


def test_slopes_are_difference_quotients():
    problem, rng, step = two_blocks(), np.random.default_rng(4), 1e-6
    pi, eta, tau2 = rng.dirichlet(np.ones(3), 3), rng.uniform(0.2, 0.9, (3, 4)), np.array([1.0, 0.6, 1.0, 1.0])
    cross = np.einsum("ak,kj,kl->ajl", pi, eta, eta) * 0.6
    given = [pi, eta, tau2]

    def value(arguments):
        return laws.marginal_slopes(problem, *arguments).value

    def conditional(arguments):
        return laws.given_x_slopes(problem, arguments[0], arguments[3], *arguments[1:3])[0].value

    slopes = laws.marginal_slopes(problem, *given)
    more, by_cross = laws.given_x_slopes(problem, pi, cross, eta, tau2)
    for function, arguments, found in (
        (value, given, (slopes.pi, slopes.H, slopes.tau2)),
        (conditional, [*given, cross], (more.pi, more.H, more.tau2, by_cross)),
    ):
        for k, slope in enumerate(found):
            for at in np.ndindex(slope.shape):
                up, down = ([a.copy() for a in arguments] for _ in range(2))
                up[k][at] += step
                down[k][at] -= step
                expected = slope[at]
                if k == 0:  # shares add up to one: the last gives what another gets
                    up[k][at[0], -1] -= step
                    down[k][at[0], -1] += step
                    expected -= slope[at[0], -1]
                assert expected == pytest.approx((function(up) - function(down)) / (2 * step), rel=1e-5, abs=1e-6)


def test_the_value_is_the_log_density_of_what_was_published():
    problem, rng = two_blocks(), np.random.default_rng(5)
    pi, eta, tau2 = rng.dirichlet(np.ones(3), 3), rng.uniform(0.2, 0.9, (3, 4)), np.array([1.0, 0.6, 1.0, 1.0])
    variance = hidden_variance(eta, problem.hidden, tau2)
    np.testing.assert_allclose(variance[:, 0], eta[:, 0] * (1 - eta[:, 0]))
    np.testing.assert_allclose(variance[:, 1], 0.6)
    np.testing.assert_allclose(variance[:, 2], eta[:, 2])
    np.testing.assert_allclose(variance[:, 3], eta[:, 3] ** 2)
    total = 0.0
    for block in problem.blocks:
        made = laws.marginal_moments(block, pi, eta, variance)
        for q in range(block.n_groups):
            seen = np.isfinite(block.S[q])
            law = stats.multivariate_normal(made.mean[q, seen], made.cov[q][np.ix_(seen, seen)])
            total += law.logpdf(block.S[q, seen])
    assert laws.marginal_slopes(problem, pi, eta, tau2).value == pytest.approx(total, rel=1e-9)


def test_centers_and_spreads_of_what_was_published():
    problem = two_blocks()
    one, two = (block.S for block in problem.blocks)
    first = (one[:, 0] @ [40, 60, 50] + two[:, 2] @ [40, 110]) / 300  # in both blocks
    expected = [first, one[:, 1] @ [40, 60, 50] / 150, two[:, 0] @ [40, 110] / 150, 1.4]
    np.testing.assert_allclose(problem.centers(), expected)
    between = np.average((one[:, 1] - expected[1]) ** 2, weights=[40, 60, 50])
    np.testing.assert_allclose(problem.spreads(), [first * (1 - first), between, expected[2], 1.4**2])
    assert problem.n_hidden == 4
    np.testing.assert_array_equal(problem.atom_weight, [40.0, 60.0, 50.0])


def test_spreading_is_the_transpose_of_gathering():
    rng = np.random.default_rng(6)
    for block in two_blocks().blocks:
        atoms, groups = rng.normal(size=(3, 2)), rng.normal(size=(block.n_groups, 2))
        assert (block.gather(atoms) * groups).sum() == pytest.approx((atoms * block.spread(groups)).sum())
    one, two = two_blocks().blocks
    assert (one.plain, one.simple, two.plain, two.simple) == (True, True, False, False)
    turned = Block(np.arange(1), np.array([1, 0]), np.ones(2), np.zeros((2, 1)), np.ones(2), np.full((2, 1), np.nan))
    assert (turned.plain, turned.simple) == (False, True)
    np.testing.assert_array_equal(turned.gather(np.array([[1.0], [2.0]])), [[2.0], [1.0]])
