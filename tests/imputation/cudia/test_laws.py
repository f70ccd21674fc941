import numpy as np
import pytest

from crosslevel.imputation.cudia import model as laws
from crosslevel.imputation.cudia.model import Block, hidden_variance, plain_block

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
