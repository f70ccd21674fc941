"""Compute the exact posterior for full grids of boxes: eigendecompositions along the axes, n (n_1 + ... + n_d) work."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from crosslevel.binned.gaussian.covariances import lay_out, prior_covariance, variances
from crosslevel.binned.gaussian.kernels import BoundKernel
from crosslevel.binned.gaussian.model import LeftOut, Objective, Predicted, Problem
from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.numerics.integrals.correlations import Limits
from crosslevel.typing import FloatArray, Int64Array

AT_ONCE = 8_000_000
"""Numbers of a block of predictions held at a time."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A full grid: distinct limits along each axis, and the cell of each region, (n,), cells counted with the last axis fastest."""

    limits: tuple[Limits, ...]
    cell: Int64Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(len(s) for s, _ in self.limits)


def find_grid(problem: Problem, kernel: BoundKernel) -> Grid | str:
    """Find the grid that the regions fill, each cell once, with equal noise; or say why there is none."""
    pieces = problem.regions.pieces()
    if pieces is None or not pieces.simple:
        return "the regions are not single boxes"
    if kernel.dimension < 2:
        return "there is one axis only"
    if len(kernel.terms) > 1 or len(kernel.terms[0].factors) < kernel.dimension:
        return "the kernel is not one product over all axes"
    if not all(f.correlation.has_length for f in kernel.terms[0].factors):
        return "the kernel has no lengthscale along an axis"
    for noise, what in ((problem.unit_noise, "noise"), (problem.known_noise, "known noise")):
        if np.ptp(noise) > 1e-12 * np.abs(noise).max():
            return f"the {what} differs between regions"
    limits: list[Limits] = []
    cell = np.zeros(pieces.n, dtype=np.int64)
    for d in range(kernel.dimension):
        both = np.stack([pieces.lower[:, d], pieces.upper[:, d]])
        distinct, where = np.unique(both, axis=1, return_inverse=True)
        limits.append((np.ascontiguousarray(distinct[0]), np.ascontiguousarray(distinct[1])))
        cell = cell * distinct.shape[1] + where.ravel()
    cells = math.prod(len(s) for s, _ in limits)
    if cells != pieces.n or len(np.unique(cell)) != cells:
        return f"the boxes fill {len(np.unique(cell)):,} of {cells:,} cells"
    return Grid(tuple(limits), cell)


class KroneckerSolver:
    """Exact inference on a full grid.

    Parameters
    ----------
    problem : Problem
    kernel : BoundKernel
        One term with a factor along every axis.
    grid : Grid
    """

    name, error = "kronecker", 0.0

    def __init__(self, problem: Problem, kernel: BoundKernel, grid: Grid) -> None:
        self.problem, self.kernel, self.grid = problem, kernel, grid
        means = bool((problem.scale != 1.0).any())
        self.rescale = [1.0 / np.where(t > s, t - s, 1.0) if means else np.ones(len(s)) for s, t in grid.limits]

    def describe(self) -> str:
        """Say how the numbers are computed."""
        return f"Kronecker, exact integrals on a grid of {' x '.join(str(n) for n in self.grid.shape)} boxes"

    def objective(self, logs: FloatArray, noise: float) -> Objective:
        """Give the log marginal likelihood with its gradient."""
        state = self._state(logs, noise, gradient=True)
        variance = math.exp(logs[0])
        alpha = state.spectral_alpha
        kept = state.product * variance
        by_variance = 0.5 * float((alpha**2 * kept).sum() - (kept / state.total).sum())
        by_lengths = []
        for d, (_, _, slope) in enumerate(state.axes):
            assert slope is not None
            others = variance * _outer([x if i != d else np.ones_like(x) for i, (_, x, _) in enumerate(state.axes)])
            turned = np.moveaxis(np.tensordot(slope, alpha * np.sqrt(others), axes=(1, d)), 0, d)
            quadratic = float((alpha * np.sqrt(others) * turned).sum())
            trace = float((others * _along(np.diag(slope), d, others.ndim) / state.total).sum())
            by_lengths.append(0.5 * (quadratic - trace))
        unit = noise * float(self.problem.unit_noise[0])
        by_noise = 0.5 * unit * float((alpha**2).sum() - (1.0 / state.total).sum())
        return Objective(state.log_evidence, np.array([by_variance, *by_lengths]), by_noise)

    def condition(self, logs: FloatArray, noise: float) -> KroneckerPosterior:
        """Give the posterior."""
        return KroneckerPosterior(self, logs, self._state(logs, noise, gradient=False))

    def _state(self, logs: FloatArray, noise: float, gradient: bool) -> _State:
        p = self.problem
        ((variance, factors),) = self.kernel.split(logs)
        axes = []
        for (f, length, _), limits, r in zip(factors, self.grid.limits, self.rescale, strict=True):
            K, G = f.correlation.covariance(limits, None, length, gradient)
            w, Q = linalg.eigh(K * np.outer(r, r), check_finite=False)
            w = np.maximum(w, 0.0)
            axes.append((Q, w, None if G is None else Q.T @ (G * np.outer(r, r)) @ Q))
        product = _outer([w for _, w, _ in axes])
        total = variance * product + float(p.noise(noise)[0])
        spectral = [_turn(self.to_grid(x), [Q.T for Q, _, _ in axes]) for x in (p.y, p.level)]
        information = float((spectral[1] ** 2 / total).sum())
        level = p.mean if p.mean is not None else float((spectral[0] * spectral[1] / total).sum()) / information
        residual = spectral[0] - level * spectral[1]
        value = -0.5 * float((residual**2 / total).sum() + np.log(total).sum() + len(p.y) * math.log(2.0 * math.pi))
        return _State(axes, product, total, residual / total, spectral[1] / total, level, information, value)

    def to_grid(self, x: FloatArray) -> FloatArray:
        """Lay values of regions out on the grid."""
        out = np.empty(len(x))
        out[self.grid.cell] = x
        return out.reshape(self.grid.shape)


@dataclass(frozen=True, eq=False)
class _State:
    """What the eigenvectors make simple.

    Eigenvectors, eigenvalues and turned slopes along the axes; on the grid of eigenvalues their products, the variances of y in
    the turned frame, and the turned, solved residual and level.
    """

    axes: list[tuple[FloatArray, FloatArray, FloatArray | None]]
    product: FloatArray
    total: FloatArray
    spectral_alpha: FloatArray
    spectral_level: FloatArray
    level: float
    information: float
    log_evidence: float


@dataclass(frozen=True, eq=False)
class KroneckerPosterior:
    """Posterior on a grid; see `crosslevel.binned.gaussian.model.Posterior`."""

    solver: KroneckerSolver
    logs: FloatArray
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
        """Predict integrals over regions."""
        kernel, s = self.solver.kernel, self.state
        pieces = regions.exact_pieces(kernel.scale(self.logs))
        target = lay_out(pieces)
        level = scale * regions.volumes
        n, cells = len(level), s.product.size
        mean, spread, left = np.empty(n), np.empty(n), np.zeros(n)
        rows = n if covariance else max(1, AT_ONCE // cells)
        starts = np.searchsorted(pieces.owner, np.arange(n + 1))
        whole = None
        for i in range(0, n, rows):
            j = min(i + rows, n)
            C = self._cross(pieces.cut(starts[i], starts[j], i, j - i)) * scale[i:j, None]
            mean[i:j] = C @ s.spectral_alpha.ravel()
            spread[i:j] = (C**2 / s.total.ravel()).sum(axis=1)
            if self.solver.problem.mean is None:
                left[i:j] = (level[i:j] - C @ s.spectral_level.ravel()) / math.sqrt(s.information)
            if covariance:
                whole = (
                    prior_covariance(kernel, self.logs, target)[0] * np.outer(scale, scale)
                    - (C / s.total.ravel()) @ C.T
                )
                whole = 0.5 * (whole + whole.T) + np.outer(left, left)
        prior = variances(kernel, self.logs, target) * scale**2
        return Predicted(mean + level * s.level, np.maximum(prior - spread, 0.0) + left**2, prior, whole)

    def left_out(self) -> LeftOut:
        """Predict each observation from the others."""
        s, solver = self.state, self.solver
        vectors = [Q for Q, _, _ in s.axes]
        alpha = _turn(s.spectral_alpha, vectors).ravel()[solver.grid.cell]
        precision = _turn(1.0 / s.total, [Q**2 for Q in vectors]).ravel()[solver.grid.cell]
        return LeftOut(solver.problem.y - alpha / precision, 1.0 / precision)

    def _cross(self, pieces: Pieces) -> FloatArray:
        """Give covariances of regions with the grid, turned into the frame of the eigenvectors, (regions, cells)."""
        ((variance, factors),) = self.solver.kernel.split(self.logs)
        out = np.full((len(pieces), 1), variance)
        for d, ((f, length, _), limits, r) in enumerate(
            zip(factors, self.solver.grid.limits, self.solver.rescale, strict=True)
        ):
            here = np.ascontiguousarray(pieces.lower[:, d]), np.ascontiguousarray(pieces.upper[:, d])
            one = (f.correlation.covariance(here, limits, length)[0] * r) @ self.state.axes[d][0]
            out = (out[:, :, None] * one[:, None, :]).reshape(len(pieces), -1)
        return pieces.gather(out)


def _outer(vectors: list[FloatArray]) -> FloatArray:
    out = vectors[0]
    for v in vectors[1:]:
        out = out[..., None] * v
    return out


def _along(v: FloatArray, axis: int, ndim: int) -> FloatArray:
    return v.reshape([-1 if d == axis else 1 for d in range(ndim)])


def _turn(x: FloatArray, matrices: list[FloatArray]) -> FloatArray:
    """Multiply a tensor by one matrix along each axis."""
    for d, Q in enumerate(matrices):
        x = np.moveaxis(np.tensordot(Q, x, axes=(1, d)), 0, d)
    return x
