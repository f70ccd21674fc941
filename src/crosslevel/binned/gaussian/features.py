"""Compute the posterior with Hilbert-space features: one pass over the regions, then work that does not depend on their number.

f is a sum of sines on a box with independent normal coefficients whose variances are the kernel's spectral density (Solin & Sarkka
2020). Integrals of sines over regions are exact, so the only error is that of the kernel, which is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from crosslevel.binned.gaussian.dense import Conditioned, condition_on, factorize, log_density, profile
from crosslevel.binned.gaussian.kernels import BoundKernel
from crosslevel.binned.gaussian.model import LeftOut, Objective, Predicted, Problem
from crosslevel.binned.gaussian.sines import densities, widen
from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["FeatureSolver"]


ROWS = 8192
"""Regions whose features are held at a time."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over observations with weights 1 / noise: G (m, m) of features, with y and the level (m,), and of those."""

    G: FloatArray
    by_y: FloatArray
    by_level: FloatArray
    yy: float
    yl: float
    ll: float
    log_noise: float


class FeatureSolver:
    """Inference with a finite number of features.

    Parameters
    ----------
    problem : Problem
    kernel : BoundKernel
    basis : SineBasis
    error : float
        Of covariances, relative; nan where it was not measured.
    """

    name = "features"

    def __init__(self, problem: Problem, kernel: BoundKernel, basis: SineBasis, error: float = math.nan) -> None:
        self.problem, self.kernel, self.basis, self.error = problem, kernel, basis, error
        self._simple = not problem.known_noise.any()
        self._unit: _Sums | None = None

    def describe(self) -> str:
        """Say how the numbers are computed."""
        said = "" if math.isnan(self.error) else f", largest relative error of a covariance {self.error:.1g}"
        return f"features, {len(self.basis):,} sines for n = {len(self.problem.y):,}{said}"

    def objective(self, logs: FloatArray, noise: float) -> Objective:
        """Give the log marginal likelihood with its gradient."""
        if len(self.problem.y) < len(self.basis):
            return self._objective_by_regions(logs, noise)
        state = self._state(logs, noise)
        density, slopes = densities(self.kernel, logs, self.basis.frequencies, gradient=True)
        inverse = np.diag(linalg.lapack.dpotri(state.L, lower=1)[0])
        by = 0.5 * (state.b**2 - (1.0 - inverse))  # by the log density of each coefficient
        ratio = np.divide(slopes, density, out=np.zeros_like(slopes), where=density > 0)
        if self._simple:
            fitted = state.rr - float(state.b @ state.c) - float(state.b @ state.b)
            by_noise = 0.5 * (fitted - (len(self.problem.y) - len(density) + float(inverse.sum())))
        else:
            alpha, precision = self._rows(state, noise)
            by_noise = 0.5 * noise * float(((alpha**2 - precision) * self.problem.unit_noise).sum())
        return Objective(state.log_evidence, ratio @ by, by_noise)

    def _objective_by_regions(self, logs: FloatArray, noise: float) -> Objective:
        """Give the same where regions are fewer than features: factorize their covariance instead."""
        p, F = self.problem, self.few
        density, slopes = densities(self.kernel, logs, self.basis.frequencies, gradient=True)
        factor = factorize((F * density) @ F.T, p.noise(noise))
        _, residual = profile(p, factor)
        alpha = factor.solve(residual)
        half = factor.half(F)
        by = 0.5 * ((alpha @ F) ** 2 - (half**2).sum(axis=0))
        precision = np.diag(factor.inverse())
        by_noise = 0.5 * noise * float(((alpha**2 - precision) * p.unit_noise).sum())
        return Objective(log_density(factor, residual, alpha), slopes @ by, by_noise)

    def condition(self, logs: FloatArray, noise: float) -> FeaturePosterior | FewPosterior:
        """Give the posterior, in the smaller of the two spaces."""
        if len(self.problem.y) >= len(self.basis):
            return FeaturePosterior(self, logs, noise, self._state(logs, noise))
        density = densities(self.kernel, logs, self.basis.frequencies)[0]
        given = condition_on(self.problem, (self.few * density) @ self.few.T, noise)
        return FewPosterior(*given, self, logs, noise, density)

    @cached_property
    def few(self) -> FloatArray:
        """Features of all observed regions, (n, m), where these are few."""
        return self.features(slice(None))

    def prior_variances(self, logs: FloatArray) -> FloatArray:
        """Give the prior variances of the observations, (n,)."""
        density = densities(self.kernel, logs, self.basis.frequencies)[0]
        cuts = [slice(i, i + ROWS) for i in range(0, len(self.problem.y), ROWS)]
        return np.concatenate([self.features(cut) ** 2 @ density for cut in cuts])

    def _state(self, logs: FloatArray, noise: float) -> _State:
        p = self.problem
        sums = self._sums(noise)
        root = np.sqrt(densities(self.kernel, logs, self.basis.frequencies)[0])
        B = np.eye(len(root)) + root[:, None] * sums.G * root
        try:
            L = linalg.cholesky(B, lower=True, check_finite=False)
        except linalg.LinAlgError:
            raise InputError(
                f"noise={noise:.3g} is too small beside the variance of the curve for features; pass a larger noise=, or solver='dense'."
            ) from None
        cy, cl = root * sums.by_y, root * sums.by_level
        by, bl = (linalg.cho_solve((L, True), c, check_finite=False) for c in (cy, cl))
        information = sums.ll - float(cl @ bl)
        level = p.mean if p.mean is not None else (sums.yl - float(cl @ by)) / information
        b, c = by - level * bl, cy - level * cl
        rr = sums.yy - 2.0 * level * sums.yl + level**2 * sums.ll
        n = len(p.y)
        value = -0.5 * (rr - float(b @ c)) - float(np.log(np.diag(L)).sum()) - 0.5 * sums.log_noise
        return _State(root, L, b, c, bl, rr, level, information, value - 0.5 * n * math.log(2.0 * math.pi))

    def _sums(self, noise: float) -> _Sums:
        p = self.problem
        if not self._simple:
            return self._gather(p.noise(noise))
        if self._unit is None:
            self._unit = self._gather(p.unit_noise)
        u, f = self._unit, 1.0 / noise
        log_noise = u.log_noise + len(p.y) * math.log(noise)
        return _Sums(u.G * f, u.by_y * f, u.by_level * f, u.yy * f, u.yl * f, u.ll * f, log_noise)

    def _gather(self, noise: FloatArray) -> _Sums:
        p, m = self.problem, len(self.basis)
        G, by_y, by_level = np.zeros((m, m)), np.zeros(m), np.zeros(m)
        root = 1.0 / np.sqrt(noise)
        for start in range(0, len(p.y), ROWS):
            cut = slice(start, start + ROWS)
            X = self.features(cut) * root[cut, None]
            G += X.T @ X
            by_y += X.T @ (root[cut] * p.y[cut])
            by_level += X.T @ (root[cut] * p.level[cut])
        w = 1.0 / noise
        return _Sums(
            G,
            by_y,
            by_level,
            float(w @ p.y**2),
            float(w @ (p.y * p.level)),
            float(w @ p.level**2),
            float(np.log(noise).sum()),
        )

    def features(self, cut: slice) -> FloatArray:
        """Integrate the basis over some of the observed regions, scaled as they were observed."""
        return self.problem.regions[cut].sine_integrals(self.basis) * self.problem.scale[cut, None]

    def _rows(self, state: _State, noise: float) -> tuple[FloatArray, FloatArray]:
        """Give, of the inverse covariance of y, its product with the residual and its diagonal, (n,) each."""
        p = self.problem
        N = p.noise(noise)
        alpha, precision = np.empty(len(N)), np.empty(len(N))
        for start in range(0, len(N), ROWS):
            cut = slice(start, start + ROWS)
            X = self.features(cut) * state.root
            alpha[cut] = (p.y[cut] - state.level * p.level[cut] - X @ state.b) / N[cut]
            half = linalg.solve_triangular(state.L, X.T, lower=True, check_finite=False)
            precision[cut] = (1.0 - (half**2).sum(axis=0) / N[cut]) / N[cut]
        return alpha, precision


@dataclass(frozen=True, eq=False)
class _State:
    """Standardized coefficients b (m,) of f less its level, the factor L of their precision, and what goes with them."""

    root: FloatArray
    L: FloatArray
    b: FloatArray
    c: FloatArray
    b_level: FloatArray
    rr: float
    level: float
    information: float
    log_evidence: float


@dataclass(frozen=True, eq=False)
class FeaturePosterior:
    """Posterior of the coefficients; see `crosslevel.binned.gaussian.model.Posterior`."""

    solver: FeatureSolver
    logs: FloatArray
    noise: float
    state: _State

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood."""
        return self.state.log_evidence

    @property
    def level(self) -> float:
        """Prior mean of f."""
        return self.state.level

    def predict(self, regions: Regions, scale: FloatArray, covariance: bool) -> Predicted:
        """Predict integrals over regions; beyond the box the model is made anew in a larger one."""
        wider = _wider(self, regions)
        if wider is not None:
            return wider.predict(regions, scale, covariance)
        s, p = self.state, self.solver.problem
        X = regions.sine_integrals(self.solver.basis) * scale[:, None] * s.root
        level = scale * regions.volumes
        mean = level * s.level + X @ s.b
        half = linalg.solve_triangular(s.L, X.T, lower=True, check_finite=False)
        prior, spread = (X**2).sum(axis=1), (half**2).sum(axis=0)
        left = np.zeros(len(mean))
        if p.mean is None:
            left = (level - X @ s.b_level) / math.sqrt(s.information)
        whole = half.T @ half + np.outer(left, left) if covariance else None
        return Predicted(mean, spread + left**2, prior, whole)

    def left_out(self) -> LeftOut:
        """Predict each observation from the others."""
        alpha, precision = self.solver._rows(self.state, self.noise)
        return LeftOut(self.solver.problem.y - alpha / precision, 1.0 / precision)


@dataclass(frozen=True, eq=False)
class FewPosterior(Conditioned):
    """The same where regions are fewer than features: a posterior in the space of regions."""

    solver: FeatureSolver
    logs: FloatArray
    noise: float
    density: FloatArray

    def predict(self, regions: Regions, scale: FloatArray, covariance: bool) -> Predicted:
        """Predict integrals over regions; beyond the box the model is made anew in a larger one."""
        wider = _wider(self, regions)
        if wider is not None:
            return wider.predict(regions, scale, covariance)
        X = regions.sine_integrals(self.solver.basis) * scale[:, None]
        weighted = X * self.density
        whole = weighted @ X.T if covariance else None
        cross = weighted @ self.solver.few.T
        return self.functionals(scale * regions.volumes, cross, (weighted * X).sum(axis=1), whole)


def _wider(posterior: FeaturePosterior | FewPosterior, regions: Regions) -> FeaturePosterior | FewPosterior | None:
    """Make the posterior in a larger box when regions reach beyond it; None when they do not."""
    solver = posterior.solver
    basis = widen(solver.kernel, posterior.logs, solver.basis, *regions.bounds())
    if basis is None:
        return None
    larger = FeatureSolver(solver.problem, solver.kernel, basis, solver.error)
    return larger.condition(posterior.logs, posterior.noise)
