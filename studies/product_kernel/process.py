"""A small dense Gaussian process of counts by Laplace's method, for two studies of what the library left out.

Rows are places, or people of several: M their embeddings, A the share of their people in each place. Its covariance adds a field over the
map to what composition says, or lets the weights of composition vary over the map.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize, sparse, special

from crosslevel.numerics.kernels import distances, matern

BIAS = 10.0
STARTS = ((0.3, 0.3, 0.05, 0.05), (0.3, 0.3, 0.2, 0.05), (3.0, 0.3, 0.8, 0.05))
"""First guesses of the variances of weights and field in units of that observed, of the length by the usual distance, of the nugget."""


class Process:
    """Rows observed, and the scales of the prior: variance of weights and of the field, length, nugget."""

    def __init__(self, M, A, coords, k, n, product=False):
        self.M, self.A, self.k, self.n, self.product = M, sparse.csr_array(A), k, n, product
        self.apart, self.gram = distances(coords, coords, "sphere"), M @ M.T
        self.start, self.f = np.log((k + 0.5) / (n - k + 0.5)), None

    def pieces(self, theta, A, B, gram):
        """Give the covariance of rows over the places A and B, and its derivatives by the logarithms of the scales."""
        weights, variance, length, nugget = np.exp(theta)
        field, slope = (A @ (B @ one).T for one in matern(self.apart, length, "matern32"))
        own = nugget * (A @ B.T).toarray()
        if self.product:
            both = weights * gram * field
            return BIAS + both + own, [both, 0.0 * both, weights * gram * slope, own]
        return BIAS + weights * gram + variance * field + own, [weights * gram, variance * field, variance * slope, own]

    def mode(self, K):
        """Find the mode of the logits: f, the gradient and the curvature of the likelihood, and the factor of I + W^1/2 K W^1/2."""
        f = self.start if self.f is None else self.f
        for _ in range(50):
            p = special.expit(f)
            W, first = self.n * p * (1 - p), self.k - self.n * p
            root = np.sqrt(W)
            L = linalg.cholesky(np.eye(len(f)) + root[:, None] * K * root, lower=True)
            b = W * f + first
            alpha = b - root * linalg.cho_solve((L, True), root * (K @ b))
            new = K @ alpha
            if np.abs(new - f).max() < 1e-9:
                break
            f = new
        self.f = f
        return f, alpha, W, L

    def cost(self, theta):
        """Give minus Laplace's log evidence, up to a constant, and its slopes; the mode moves with the scales."""
        K, parts = self.pieces(theta, self.A, self.A, self.gram)
        f, alpha, W, L = self.mode(K)
        p = special.expit(f)
        value = self.k @ special.log_expit(f) + (self.n - self.k) @ special.log_expit(-f) - 0.5 * alpha @ f
        value -= np.log(np.diag(L)).sum()
        C = linalg.solve_triangular(L, np.diag(np.sqrt(W)), lower=True)
        R = C.T @ C
        s = 0.5 * (np.diag(K) - np.einsum("ij,ji->i", K @ R, K)) * W * (2 * p - 1)
        u = s - R @ (K @ s)
        slopes = [0.5 * alpha @ d @ alpha + u @ d @ alpha - 0.5 * np.vdot(R, d) for d in parts]
        return -value, -np.array(slopes)

    def fit(self):
        """Learn the scales from the most promising start."""
        spread, own, usual = np.var(self.start), np.mean(np.diag(self.gram)), np.median(self.apart[self.apart > 0])
        first = np.array([spread / own, spread, usual, spread])
        bounds = [(np.log(v) - 12, np.log(v) + 7) for v in first]
        bounds[2] = (np.log(0.002 * usual), np.log(5 * usual))
        start = min((np.log(first * s) for s in STARTS), key=lambda theta: self.cost(theta)[0])
        best = optimize.minimize(self.cost, start, jac=True, bounds=bounds)
        self.theta, self.evidence = best.x, -best.fun
        K = self.pieces(self.theta, self.A, self.A, self.gram)[0]
        self.f, self.alpha, self.W, self.L = self.mode(K)
        return self

    def predict(self, M, A):
        """Give mean and covariance of the logits of other rows."""
        A = sparse.csr_array(A)
        cross = self.pieces(self.theta, A, self.A, M @ self.M.T)[0]
        prior = self.pieces(self.theta, A, A, M @ M.T)[0]
        V = linalg.solve_triangular(self.L, np.sqrt(self.W)[:, None] * cross.T, lower=True)
        return cross @ self.alpha, prior - V.T @ V
