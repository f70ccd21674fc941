"""Compute the posterior with Hilbert-space features: one pass over the regions, then work that does not depend on their number.

f is a sum of sines on a box with independent normal coefficients whose variances are the kernel's spectral density (Solin & Sarkka
2020). Integrals of sines over regions are exact, so the only error is that of the kernel, which is measured.

Search lengthscales with features: in windows that a modest basis can hold, moved until the optimum lies inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from crosslevel.binned.gaussian import sines
from crosslevel.binned.gaussian.covariances import Kernel
from crosslevel.binned.gaussian.dense import Conditioned, condition_on, factorize, log_density, profile
from crosslevel.binned.gaussian.model import LeftOut, Objective, Predicted, Problem
from crosslevel.binned.gaussian.sines import densities, widen
from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.errors import InputError
from crosslevel.numerics.evidence import Maximum
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.binned.gaussian.fit import Search

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
    kernel : Kernel
    basis : SineBasis
    error : float
        Of covariances, relative; nan where it was not measured.
    """

    name = "features"

    def __init__(self, problem: Problem, kernel: Kernel, basis: SineBasis, error: float = math.nan) -> None:
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
    """Posterior of the coefficients."""

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


WINDOWS = {1: (1 / 15, 0.5)}
"""First window of lengthscales by dimension, as shares of the range."""
WINDOW = (1 / 6, 0.5)
"""The first window in more than one dimension."""
STEP = 3.0
"""How far a window moves."""
MOVES = 8
LONGEST = 20.0
"""Share of the range beyond which a lengthscale is as good as infinite."""
SHORTER = 2
"""Windows of shorter lengthscales that are tried in any case."""


def search_windows(search: Search) -> tuple[Maximum, dict[str, float]]:
    """Search from long to short and keep the best; also name the lengthscales that were too short for the features.

    A window is moved along every axis whose lengthscale stopped at its end. A curve shorter than a window looks like noise
    there, so shorter windows are tried even where no end calls for them.
    """
    kernel, most = search.kernel, search.most_features
    low, high = (np.full(kernel.dimension, share) for share in WINDOWS.get(kernel.dimension, WINDOW))
    best, at = _search_window(search, low, high)
    best, at = _follow(search, low, high, best, at)
    for k in range(1, SHORTER + 1):
        lower, upper = low / STEP**k, high / STEP**k
        if _size(lower, upper) > most:
            break
        found, ended = _search_window(search, lower, upper)
        if found.value > best.value:
            best, at = _follow(search, lower, upper, found, ended)
    return best, _too_short(search, best, at)


def _too_short(search: Search, found: Maximum, at: FloatArray) -> dict[str, float]:
    """Name the lengthscales at which the likelihood still rises toward shorter ones, which would take too many features."""
    logs, _ = search.unpack(found.theta)
    lengths = zip(search.kernel.names[1:], at, logs[1:], search.lower[1:], strict=False)
    return {
        name: float(np.exp(log))
        for name, ended, log, lowest in lengths
        if ended < 0 and name in found.convergence.at_bounds and log > lowest + 1e-3
    }


def _follow(
    search: Search, low: FloatArray, high: FloatArray, best: Maximum, at: FloatArray
) -> tuple[Maximum, FloatArray]:
    """Move the window where the optimum lies at its end, as long as that pays."""
    for _ in range(MOVES):
        move = np.where((at > 0) & (high >= LONGEST), 0.0, at)
        low, high = low * STEP**move, high * STEP**move
        if not move.any() or _size(low, high) > search.most_features:
            break
        found, ended = _search_window(search, low, high)
        if found.value <= best.value:
            break
        best, at = found, ended
    return best, at


def _search_window(search: Search, low: FloatArray, high: FloatArray) -> tuple[Maximum, FloatArray]:
    """Search with lengthscales between shares of the range, (d,) each.

    Gives what was found, and per axis -1, 0 or 1: stopped at the lower end, inside, or at the upper end.
    """
    at_length = slice(1, 1 + search.kernel.dimension)
    lower, upper = search.lower.copy(), search.upper.copy()
    lower[at_length], upper[at_length] = np.log(low * search.span), np.log(high * search.span)
    found = search.run(_window_solver(search, lower, upper), lower, upper, most=2)
    whole = search.fixed.copy()
    whole[search.free] = found.theta
    below, above = (whole < lower + 1e-3)[at_length], (whole > upper - 1e-3)[at_length]
    return found, np.where(search.free[at_length], np.where(below, -1.0, above), 0.0)


def _window_solver(search: Search, lower: FloatArray, upper: FloatArray) -> FeatureSolver:
    problem, kernel = search.problem, search.kernel
    low = np.where(search.free, lower, search.fixed)[:-1]
    high = np.where(search.free, upper, search.fixed)[:-1]
    bounds = problem.regions.bounds()
    span = replace(sines.span_of(low, *bounds), longest=np.exp(high[1:]))
    middle = np.append(0.0, low[1:])
    tolerance = max(search.settings.tolerance, 1e-5)
    basis, _ = sines.grow(kernel, middle, span, sines.sample_of(problem.regions), tolerance, search.most_features)
    return FeatureSolver(problem, kernel, basis)


def _size(low: FloatArray, high: FloatArray) -> float:
    """Estimate how many features a window of lengthscales takes; in more than one dimension the corners are left out."""
    axes = 2.0 * (0.5 + 2.9 * high) * 4.5 / low / math.pi
    return float(np.prod(axes) * {1: 1.0, 2: 0.785}.get(len(axes), 0.52))
