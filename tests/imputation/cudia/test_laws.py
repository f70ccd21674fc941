"""How published means are distributed, against simulation, scipy and difference quotients."""

import numpy as np
import pytest
from scipy import stats
from tests.imputation.cudia.worlds import make_problem, plain_block

from crosslevel.imputation.cudia.model import Block, Parameters, fit_of_means, moments, score, slopes_of_means

K, N = 3, 50
PI = np.array([0.5, 0.3, 0.2])
H = np.array([[0.3, -1.0], [-0.4, 0.5], [1.2, 0.1]])
TAU2 = np.array([0.5, 0.3])


def law_of(block, pi=PI[None], eta=H, binary=(False, False), likelihood="cudia", tau2=TAU2):
    problem = make_problem([block], binary, likelihood=likelihood)
    return moments(problem, block, Parameters((), pi, eta, tau2))[:2]


def simulated_means(n_draws=20_000):
    rng = np.random.default_rng(0)
    z = rng.choice(K, size=(n_draws, N), p=PI)
    u = H[z] + rng.normal(size=(n_draws, N, 2)) * np.sqrt(TAU2)
    return u.mean(axis=1)


def test_the_covariance_of_a_mean_is_that_of_simulated_means_and_as_printed_it_is_not():
    mean, cov = law_of(plain_block(np.zeros((1, 2)), [N]))
    s = simulated_means()
    assert mean[0] == pytest.approx(s.mean(axis=0), abs=0.005)
    assert cov[0] == pytest.approx(np.cov(s.T), abs=6e-4)
    mu = PI @ H  # eq 3 subtracts mu mu' once for every cluster
    printed = (np.einsum("k,kj,kl->jl", PI, H, H) + np.diag(TAU2) - K * np.outer(mu, mu)) / N
    assert np.abs(printed - np.cov(s.T)).max() > 2e-3


def test_a_binary_feature_has_the_binomial_variance():
    eta = np.array([[0.1], [0.6], [0.9]])
    _, cov = law_of(plain_block([[0.4]], [N]), eta=eta, binary=[True], tau2=np.ones(1))
    mu = float((PI @ eta)[0])
    assert cov[0, 0, 0] == pytest.approx(mu * (1 - mu) / N, rel=1e-12)


def test_the_count_law_keeps_only_the_variance_inside_clusters():
    block = plain_block(np.zeros((1, 2)), [N])
    _, cov = law_of(block, likelihood="count")
    assert cov[0] == pytest.approx(np.diag(TAU2) / N)
    assert (np.diag(cov[0]) < np.diag(law_of(block)[1][0])).all()


def test_variances_of_a_group_of_two_atoms_add_up():
    pi = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    shares, gap = np.array([0.25, 0.75]), np.full((1, 2), np.nan)
    whole = Block(
        0,
        np.arange(2),
        np.zeros(2, dtype=int),
        shares,
        np.zeros((1, 2)),
        np.array([80.0]),
        gap,
        np.zeros(2, dtype=bool),
    )
    parts = law_of(plain_block(np.zeros((2, 2)), [20, 60]), pi)
    mean, cov = law_of(whole, pi)
    assert mean[0] == pytest.approx(0.25 * parts[0][0] + 0.75 * parts[0][1])
    assert cov[0] == pytest.approx(0.25**2 * parts[1][0] + 0.75**2 * parts[1][1])


def test_a_missing_mean_is_left_out_of_the_density():
    S = np.array([[0.3, np.nan]])
    both, one = plain_block(S, [N]), plain_block(S[:, :1], [N])
    first = law_of(one, eta=H[:, :1], binary=[False], tau2=TAU2[:1])
    assert score(S, *law_of(both))[0] == pytest.approx(score(S[:, :1], *first)[0], abs=1e-10)


def test_a_published_error_replaces_the_marginal_variance_and_adds_to_that_of_counts():
    block = plain_block([[0.3]], [N], se=[[0.2]])
    own = {"eta": H[:, :1], "binary": [False], "tau2": TAU2[:1]}
    assert law_of(block, **own)[1][0, 0, 0] == pytest.approx(0.04)
    assert law_of(block, likelihood="count", **own)[1][0, 0, 0] == pytest.approx(0.04 + TAU2[0] / N)


def two_partitions():
    """Three atoms; four hidden features, two published by atom and two by groups of atoms."""
    rng = np.random.default_rng(3)
    errors = [[np.nan, 0.1], [0.05, np.nan], [np.nan, np.nan]]
    by_atom = plain_block(rng.uniform(0.2, 0.8, (3, 2)), [40, 60, 50], errors, features=[0, 1])
    means, group, share = np.array([[0.9, 0.3], [0.7, np.nan]]), np.array([0, 1, 1]), np.array([1.0, 0.4, 0.6])
    by_group = Block(
        1,
        np.array([2, 3]),
        group,
        share,
        means,
        np.array([40.0, 110.0]),
        np.full((2, 2), np.nan),
        np.zeros(2, dtype=bool),
    )
    people = np.zeros((4, 1)), [0, 1, 2, 2], [40, 60, 20, 30]
    return make_problem([by_atom, by_group], [True, False, False, True], *people)


def some_parameters(seed):
    rng = np.random.default_rng(seed)
    return Parameters((), rng.dirichlet(np.ones(3), 3), rng.uniform(0.2, 0.9, (3, 4)), np.array([1.0, 0.6, 0.3, 1.0]))


def test_slopes_are_difference_quotients():
    problem, at, step = two_partitions(), some_parameters(4), 1e-6
    names = ("pi", "H", "tau2")
    for name, slope in zip(names, slopes_of_means(problem, at)[1:], strict=True):
        for place in np.ndindex(slope.shape):
            up, down = ({n: getattr(at, n).copy() for n in names} for _ in range(2))
            up[name][place] += step
            down[name][place] -= step
            expected = slope[place]
            if name == "pi":  # shares add up to one: the last gives what another gets
                up[name][place[0], -1] -= step
                down[name][place[0], -1] += step
                expected -= slope[place[0], -1]
            values = [slopes_of_means(problem, Parameters((), **v))[0] for v in (up, down)]
            assert expected == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_the_value_is_the_log_density_of_what_was_published():
    problem, at = two_partitions(), some_parameters(5)
    total = 0.0
    for block in problem.blocks:
        mean, cov, _ = moments(problem, block, at)
        for q in range(len(block.S)):
            seen = np.isfinite(block.S[q])
            law = stats.multivariate_normal(mean[q, seen], cov[q][np.ix_(seen, seen)])
            total += law.logpdf(block.S[q, seen])
    assert slopes_of_means(problem, at)[0] == pytest.approx(total, rel=1e-9)
    assert fit_of_means(problem, at) == pytest.approx([total], rel=1e-9)


def test_centers_and_spreads_of_what_was_published():
    problem = two_partitions()
    one, two = (block.S for block in problem.blocks)
    expected = [one[:, 0] @ [40, 60, 50] / 150, one[:, 1] @ [40, 60, 50] / 150, two[:, 0] @ [40, 110] / 150, 0.3]
    np.testing.assert_allclose(problem.centers, expected)
    between = np.average((one[:, 1] - expected[1]) ** 2, weights=[40, 60, 50])
    other = np.average((two[:, 0] - expected[2]) ** 2, weights=[40, 110])
    np.testing.assert_allclose(problem.spreads, [expected[0] * (1 - expected[0]), between, other, 0.21])
    np.testing.assert_array_equal(problem.size, [40.0, 60.0, 50.0])


def test_spreading_is_the_transpose_of_gathering():
    rng, problem = np.random.default_rng(6), two_partitions()
    for block in problem.blocks:
        atoms, groups = rng.normal(size=(3, 2)), rng.normal(size=(len(block.S), 2))
        assert (block.gather(atoms) * groups).sum() == pytest.approx((atoms * block.spread(groups)).sum())
    assert [block.plain for block in problem.blocks] == [True, False]
