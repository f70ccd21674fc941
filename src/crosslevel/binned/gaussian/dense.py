"""Compute the exact posterior by one Cholesky factorization: n^3 work, n^2 memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from crosslevel.binned.gaussian.covariances import Kernel, Layout, lay_out, prior_covariance, variances
from crosslevel.binned.gaussian.model import LeftOut, Objective, Predicted, Problem
from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

JITTER = (0.0, 1e-14, 1e-12, 1e-10)
"""Shares of the mean variance added to the diagonal, in turn, until the factorization exists."""


CONTRADICTION = 1e-3
"""Share of the largest residual that the solution may miss before the equations count as having none."""


@dataclass(frozen=True, eq=False)
class _Factor:
    """A Cholesky factor of the covariance of y, and what was added to its diagonal."""

    L: FloatArray
    jitter: float

    def solve(self, b: FloatArray) -> FloatArray:
        return np.asarray(linalg.cho_solve((self.L, True), b, check_finite=False))

    def half(self, b: FloatArray) -> FloatArray:
        return np.asarray(linalg.solve_triangular(self.L, b, lower=True, check_finite=False))

    def inverse(self) -> FloatArray:
        """Give the inverse, (n, n), both triangles."""
        lower, _ = linalg.lapack.dpotri(self.L, lower=1)
        lower = np.tril(lower)
        return lower + np.tril(lower, -1).T


class DenseSolver:
    """Exact inference with a full covariance matrix.

    Parameters
    ----------
    problem : Problem
    kernel : Kernel
    error : float
        Of covariances, relative; see `measure_error`.
    """

    name = "dense"

    def __init__(self, problem: Problem, kernel: Kernel, error: float = 0.0) -> None:
        self.problem, self.kernel, self.error = problem, kernel, error
        self._layout: tuple[Pieces, Layout] | None = None

    def describe(self) -> str:
        """Say how the numbers are computed."""
        how = f"sums over points, relative error of a covariance {self.error:.1g}" if self.error else "exact integrals"
        return f"dense, {how}, n = {len(self.problem.y):,}"

    def objective(self, logs: FloatArray, noise: float) -> Objective:
        """Give the log marginal likelihood with its gradient."""
        p = self.problem
        K, slopes = prior_covariance(self.kernel, logs, self.layout(logs), gradient=True)
        if (p.scale != 1.0).any():
            both = np.outer(p.scale, p.scale)
            K, slopes = K * both, [s * both for s in slopes]
        factor = factorize(K, p.noise(noise))
        _, residual = profile(p, factor)
        alpha = factor.solve(residual)
        P = factor.inverse()
        by_kernel = np.array([0.5 * (alpha @ s @ alpha - np.vdot(P, s)) for s in slopes])
        by_noise = 0.5 * noise * float(((alpha**2 - np.diag(P)) * p.unit_noise).sum())
        return Objective(log_density(factor, residual, alpha), by_kernel, by_noise)

    def condition(self, logs: FloatArray, noise: float) -> DensePosterior:
        """Give the posterior."""
        p = self.problem
        layout = self.layout(logs)
        K = prior_covariance(self.kernel, logs, layout)[0] * np.outer(p.scale, p.scale)
        return DensePosterior(*condition_on(p, K, noise), self.kernel, logs, layout)

    def layout(self, logs: FloatArray) -> Layout:
        """Give the pieces of the regions; those over points follow the lengthscale in steps of a factor of 2."""
        found = pieces_of(self.problem.regions, self.kernel, logs)
        if self._layout is None or self._layout[0] is not found:
            self._layout = found, lay_out(found)
        return self._layout[1]


def pieces_of(regions: Regions, kernel: Kernel, logs: FloatArray, finer: float = 1.0) -> Pieces:
    """Give the pieces of regions for a kernel."""
    found = regions.pieces(np.exp(logs[1:]) / finer)
    if found is None:
        raise InputError("polygons have no exact covariances; use solver='features', or leave it at 'auto'.")
    return found


def measure_error(regions: Regions, kernel: Kernel, logs: FloatArray) -> float:
    """Give the largest relative error of covariances that are sums over points, measured against finer ones of a few regions."""
    if regions.pieces() is not None:
        return 0.0
    lower, upper = regions.bounds()
    size = np.argsort(np.prod(upper - lower, axis=1), kind="stable")
    some = regions[np.unique(size[[0, -2 % len(size), -1]])]
    coarse, fine = (
        prior_covariance(kernel, logs, lay_out(pieces_of(some, kernel, logs, finer)))[0] for finer in (1.0, 2.0)
    )
    sd = np.sqrt(np.diag(fine))
    return float(np.abs((coarse - fine) / np.outer(sd, sd)).max())


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Observations with a factor of their covariance; subclasses add where covariances with them come from.

    Attributes
    ----------
    problem : Problem
    factor : _Factor
    alpha : (n,)
        The inverse covariance times what y has beyond the level.
    level, log_evidence : float
    """

    problem: Problem
    factor: _Factor
    alpha: FloatArray
    level: float
    log_evidence: float

    def functionals(
        self, level: FloatArray, cross: FloatArray, prior: FloatArray, whole: FloatArray | None = None
    ) -> Predicted:
        """Predict functionals by their level (m,), covariances with y (m, n), variances (m,) and, if asked, covariances (m, m)."""
        mean = level * self.level + cross @ self.alpha
        half = self.factor.half(cross.T)
        left = np.zeros(len(mean))
        if self.problem.mean is None:  # what the estimated level leaves unknown
            weights = self.factor.solve(self.problem.level)
            left = (level - cross @ weights) / math.sqrt(float(self.problem.level @ weights))
        spread = prior - (half**2).sum(axis=0) + left**2
        if whole is not None:
            whole = whole - half.T @ half + np.outer(left, left)
            whole = 0.5 * (whole + whole.T)
        return Predicted(mean, np.maximum(spread, 0.0), prior, whole)

    def left_out(self) -> LeftOut:
        """Predict each observation from the others."""
        precision = np.diag(self.factor.inverse())
        return LeftOut(self.problem.y - self.alpha / precision, 1.0 / precision)


@dataclass(frozen=True, eq=False)
class DensePosterior(Conditioned):
    """Posterior with exact covariances, or sums over points."""

    kernel: Kernel
    logs: FloatArray
    layout: Layout

    def predict(self, regions: Regions, scale: FloatArray, covariance: bool) -> Predicted:
        """Predict integrals over regions."""
        target = lay_out(pieces_of(regions, self.kernel, self.logs))
        cross = prior_covariance(self.kernel, self.logs, target, self.layout)[0] * np.outer(scale, self.problem.scale)
        prior = variances(self.kernel, self.logs, target) * scale**2
        whole = prior_covariance(self.kernel, self.logs, target)[0] * np.outer(scale, scale) if covariance else None
        return self.functionals(scale * regions.volumes, cross, prior, whole)


def condition_on(problem: Problem, K: FloatArray, noise: float) -> tuple[Problem, _Factor, FloatArray, float, float]:
    """Give the fields of `Conditioned`, the covariance of y without noise being K (n, n); refuse contradictions."""
    N = problem.noise(noise)
    factor = factorize(K, N)
    level, residual = profile(problem, factor)
    alpha = factor.solve(residual)
    missed = np.abs(residual - K @ alpha - N * alpha).max()
    if missed > CONTRADICTION * np.abs(residual).max():
        raise InputError(
            "the observations contradict one another: some regions repeat or add up to others, their values do not, and there is "
            "no noise between them. Pass noise= (a small positive variance) or std_error=, or drop the regions that follow from others."
        )
    return problem, factor, alpha, level, log_density(factor, residual, alpha)


def factorize(K: FloatArray, noise: FloatArray) -> _Factor:
    """Factorize K + diag(noise), adding as little to the diagonal as makes it possible."""
    spread = float(np.mean(np.diag(K) + noise))
    for share in JITTER:
        S = K + np.diag(noise + share * spread)
        try:
            return _Factor(
                np.asarray(linalg.cholesky(S, lower=True, overwrite_a=True, check_finite=False)), share * spread
            )
        except linalg.LinAlgError:
            continue
    raise InputError(
        "the covariance of the observations is singular: some regions repeat or add up to others and there is no noise between "
        "them. Pass noise= (a small positive variance), or drop the regions that follow from others."
    )


def profile(problem: Problem, factor: _Factor) -> tuple[float, FloatArray]:
    """Give the level (estimated by generalized least squares when not given) and what y has beyond it."""
    level = problem.mean
    if level is None:
        weights = factor.solve(problem.level)
        level = float(weights @ problem.y) / float(weights @ problem.level)
    return level, problem.y - level * problem.level


def log_density(factor: _Factor, residual: FloatArray, alpha: FloatArray) -> float:
    """Give the log density of the residuals."""
    return float(
        -0.5 * residual @ alpha - np.log(np.diag(factor.L)).sum() - 0.5 * len(residual) * math.log(2.0 * math.pi)
    )
