"""The eigenbasis against the paper's dense formula, and the integral kernel against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from tests.distribution.known_weights import dense_posterior, label_posterior

from crosslevel.distribution.shrinkage.eigenbasis import eigenbasis, integral_kernel, shrink_factors
from crosslevel.distribution.shrinkage.likelihood import Problem
from crosslevel.distribution.shrinkage.model import standardize

SIZES = np.array([1.0, 1.5, 2.0, 5.0, 20.0, 100.0, 1000.0, 1e6, 1e12, np.inf])


def positive(rng, d, ridge=0.2):
    A = rng.normal(size=(d, d))
    return A @ A.T / d + ridge * np.eye(d)


@pytest.mark.parametrize("kernel", ["k", "another"])
@pytest.mark.parametrize("eta", [1e-3, 0.07, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_eigenbasis_is_the_dense_formula(kernel, eta, seed):
    rng = np.random.default_rng(seed)
    d = 7
    K, Sigma = positive(rng, d), positive(rng, d, 0.0)
    R0 = K if kernel == "k" else positive(rng, d)
    mu, alpha = rng.normal(size=(len(SIZES), d)), rng.normal(size=d)
    m0 = mu.mean(axis=0)
    basis = eigenbasis(R0, Sigma, None if kernel == "k" else K)
    a = np.linalg.solve(basis.P, alpha)
    problem = Problem(basis.rotate(mu, m0), SIZES, basis.s, np.zeros(len(SIZES)), basis.Q)
    xi, nu = label_posterior(problem, a, float(alpha @ m0), 0.3, eta)
    dense_xi, dense_nu = dense_posterior(alpha, mu, SIZES, eta * R0, Sigma, m0, 0.3)
    np.testing.assert_allclose(xi, dense_xi, rtol=0, atol=1e-10)
    np.testing.assert_allclose(nu, dense_nu, rtol=0, atol=1e-10)
    assert a @ (np.eye(d) if basis.Q is None else basis.Q) @ a == pytest.approx(alpha @ K @ alpha, rel=1e-10)


def test_a_bag_known_exactly_is_not_shrunk_and_an_empty_one_is_the_prior():
    S, C = shrink_factors(np.array([0.5, 3.0]), np.array([np.inf, 1e-300]), 0.2)
    assert S[0].tolist() == [1.0, 1.0]
    assert C[0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(S[1], 0.0, atol=1e-290)
    np.testing.assert_allclose(C[1], 0.2)


def test_coordinates_below_rounding_are_dropped():
    u = np.linspace(0, 1, 12)[:, None]
    K = np.exp(-((u - u.T) ** 2) / 2)  # numerically of rank about 8
    basis = eigenbasis(K, 0.01 * K)
    assert basis.P.shape[1] < 12
    np.testing.assert_allclose(basis.P.T @ K @ basis.P, np.eye(basis.P.shape[1]), atol=1e-6)
    np.testing.assert_allclose(basis.s, 0.01, rtol=1e-6)


@pytest.mark.parametrize(("length", "sd"), [(0.7, 1.3), (2.0, 0.4)])
def test_integral_kernel_is_the_integral(length, sd):
    U = np.array([[-0.4], [0.0], [1.1]])

    def product(z, x, y):
        return np.exp(-((x - z) ** 2 + (z - y) ** 2) / (2 * length**2) - z**2 / (2 * sd**2))

    by_hand = np.array([[integrate.quad(product, -30, 30, (x, y), epsabs=1e-13)[0] for y in U[:, 0]] for x in U[:, 0]])
    constant = np.sqrt(2 * np.pi / (2 / length**2 + 1 / sd**2))
    np.testing.assert_allclose(constant * integral_kernel(U, length, sd), by_hand, rtol=1e-9)


def test_labels_are_standardized_and_constant_ones_only_centered():
    z, mean, sd = standardize(np.array([1.0, 3.0, 8.0]))
    assert (mean, sd) == (4.0, pytest.approx(np.sqrt((9 + 1 + 16) / 3)))
    np.testing.assert_allclose(z * sd + mean, [1.0, 3.0, 8.0])
    z, mean, sd = standardize(np.full(4, 7.0))
    assert (z.tolist(), mean, sd) == ([0.0] * 4, 7.0, 1.0)
