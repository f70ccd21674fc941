"""Fit a Gaussian process to integrals with normal noise: choose a solver, find hyperparameters, condition."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from crosslevel.binned import feature_basis as fb
from crosslevel.binned.dense import DensePosterior, DenseSolver
from crosslevel.binned.feature_search import optimise_features
from crosslevel.binned.features import FeatureSolver, FewPosterior
from crosslevel.binned.hyperparameters import Certificate, Found
from crosslevel.binned.kernels import BoundKernel
from crosslevel.binned.kronecker import KroneckerSolver, find_grid
from crosslevel.binned.problem import Problem
from crosslevel.binned.search import Search, Settings, Way
from crosslevel.binned.solver import Posterior
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.typing import FloatArray

__all__ = ["SOLVERS", "GaussianFit", "Settings", "fit_gaussian"]


SOLVERS = ("auto", "dense", "kronecker", "features")
DENSE = 2000
"""Regions up to which "auto" takes the dense solver: a search of 50 steps takes a minute there."""
DENSE_MOST = 20_000
"""Regions beyond which a covariance matrix is refused: 3 GiB each."""
GRID = 400
"""Regions from which "auto" looks for a grid."""
ROUGH = 1e-3
"""Relative error of covariances above which features are not taken by themselves where the dense solver can be."""
BESIDE_NOISE, FINE = 0.1, 1e-5
"""Error of a covariance, in variances of the noise, above which the reader is told; and below which, relative, it never matters."""
MEMORY = 5000
"""Regions up to which the dense solver stands in for rough features."""


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A fitted Gaussian process.

    Attributes
    ----------
    problem : Problem
    kernel : BoundKernel
    logs : (h,)
        Logarithms of the kernel's hyperparameters.
    noise : float
        Noise variance.
    posterior : Posterior
    path : str
        The way to the numbers, in words.
    solver : str
        Its name.
    error : float
        Relative error of covariances; 0 for exact ways, nan when not measured.
    certificate : Certificate or None
        None when nothing was to be found.
    notes : tuple of str
    """

    problem: Problem
    kernel: BoundKernel
    logs: FloatArray
    noise: float
    posterior: Posterior
    path: str
    solver: str
    error: float
    certificate: Certificate | None
    notes: tuple[str, ...]

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Names to values, the noise and the level included."""
        values = dict(zip(self.kernel.names, np.exp(self.logs).tolist(), strict=True))
        return {**values, "noise": self.noise, "mean": float(self.posterior.level)}


def fit_gaussian(problem: Problem, kernel: BoundKernel, noise: float | None, settings: Settings) -> GaussianFit:
    """Fit, and refuse to give numbers when the hyperparameters were not found.

    Parameters
    ----------
    problem : Problem
    kernel : BoundKernel
        Hyperparameters that it has are kept, the others found by marginal likelihood (or set to their starts when
        ``settings.optimize`` is False).
    noise : float or None
        Noise variance; None to be found. With known standard errors None means no other noise.
    settings : Settings
    """
    if noise is None and problem.known_noise.any():
        noise = 0.0
    free = np.array([g is None for g in (*kernel.given, noise)])
    if len(problem.y) == 1 and free.any():
        raise InputError(
            "one region cannot tell how large, how smooth and how noisy the curve is; pass variance=, lengthscale= and noise=, or "
            "more regions."
        )
    white = any(f.correlation.name == "white" for term in kernel.terms for f in term.factors)
    if white and problem.regions.pieces() is None:
        raise InputError(
            "the kernel has a white part, and these regions are summed over points, which hold none of it. Leave 'white' out: for regions "
            "that do not overlap it is the noise, in proportion to their volume with sizes=."
        )
    search = Search(problem, kernel, noise, free, settings)
    if not settings.optimize or not free.any():
        logs, sigma2 = search.unpack(search.starts[0][free])
        way = _choose(problem, kernel, logs, sigma2, settings)
        return _finish(problem, kernel, logs, sigma2, way, None, ())
    way, found = _optimise(search)
    if not found.certificate.converged:
        raise ConvergenceError(
            f"the hyperparameters were not found: the log likelihood still rises by {found.certificate.slope:.2g} per log unit after "
            f"{found.certificate.evaluations} evaluations. Pass some of variance=, lengthscale=, noise=, or more restarts."
        )
    logs, sigma2 = search.unpack(found.theta)
    notes = search.notes
    if search.too_short:
        shortest = ", ".join(f"{name} {value:.3g}" for name, value in search.too_short.items())
        notes += (
            f"features: the likelihood still rises towards shorter lengthscales than {search.most_features:,} features hold ({shortest}). "
            "Regions differ by more than a smooth curve and the noise explain; let the noise be estimated, or raise max_features.",
        )
    if way.name == "features":
        way = _final_features(problem, kernel, logs, sigma2, settings)
    return _finish(problem, kernel, logs, sigma2, way, found.certificate, notes, set(search.too_short))


def _optimise(search: Search) -> tuple[Way, Found]:
    name = _name(search.problem, search.kernel, search.settings)
    if name == "features":
        return optimise_features(search)
    way = _exact_way(name, search.problem, search.kernel)
    return way, search.run(way.solver)


def _name(problem: Problem, kernel: BoundKernel, settings: Settings) -> str:
    """Choose the solver by size and shape."""
    n = len(problem.y)
    if settings.solver != "auto":
        return settings.solver
    if n >= GRID and not isinstance(find_grid(problem, kernel), str):
        return "kronecker"
    if fb.check_features(kernel) is None and (n > DENSE or problem.regions.pieces() is None):
        return "features"
    return "dense"


def _exact_way(name: str, problem: Problem, kernel: BoundKernel) -> Way:
    if name == "kronecker":
        grid = find_grid(problem, kernel)
        if isinstance(grid, str):
            raise InputError(f"solver='kronecker' needs a full grid of boxes, but {grid}; use solver='auto'.")
        return Way(KroneckerSolver(problem, kernel, grid), name, 0.0)
    if len(problem.y) > DENSE_MOST:
        raise InputError(
            f"{len(problem.y):,} regions need {8 * len(problem.y) ** 2 / 2**30:.0f} GiB for a covariance matrix; use solver='features' "
            "with a kernel that has features ('eq', 'matern32', ...)."
        )
    return Way(DenseSolver(problem, kernel), "dense", 0.0 if problem.regions.pieces() is not None else math.nan)


def _choose(problem: Problem, kernel: BoundKernel, logs: FloatArray, noise: float, settings: Settings) -> Way:
    """Choose the way for given hyperparameters."""
    name = _name(problem, kernel, settings)
    if name != "features":
        return _exact_way(name, problem, kernel)
    return _final_features(problem, kernel, logs, noise, settings)


def _final_features(problem: Problem, kernel: BoundKernel, logs: FloatArray, noise: float, settings: Settings) -> Way:
    """Choose features for given hyperparameters; the dense solver where they would be rough and it can be."""
    why = fb.check_features(kernel)
    if why is not None:
        raise InputError(f"solver='features' cannot be used: {why}. Use solver='dense'.")
    if not (noise > 0 or problem.known_noise.all()):
        raise InputError(
            "features need noise in every observation; pass noise= a small positive variance, or solver='dense'."
        )
    span = fb.span_of(kernel, logs, *problem.regions.bounds())
    most = settings.most_features(len(problem.y))
    basis, error = fb.grow(kernel, logs, span, fb.sample_of(problem.regions), settings.tolerance, most)
    exact = problem.regions.pieces() is not None
    if settings.solver == "auto" and error > ROUGH and exact and len(problem.y) <= MEMORY:
        return _exact_way("dense", problem, kernel)
    return Way(FeatureSolver(problem, kernel, basis, error), "features", error)


def _finish(
    problem: Problem,
    kernel: BoundKernel,
    logs: FloatArray,
    noise: float,
    way: Way,
    certificate: Certificate | None,
    notes: tuple[str, ...],
    explained: Collection[str] = (),
) -> GaussianFit:
    said = list(notes)
    at = [] if certificate is None else [n for n in certificate.at_bounds if n not in explained]
    if at:
        said.append(f"at a limit of the search: {', '.join(at)}; the data hardly tell it.")
    if way.error > ROUGH:
        said.append(
            f"features leave a relative error of {way.error:.1g} in covariances; raise max_features, or use solver='dense'."
        )
    elif isinstance(way.solver, FeatureSolver) and way.error > FINE:
        beside = way.error * float((way.solver.prior_variances(logs) / problem.noise(noise)).max())
        if beside > BESIDE_NOISE:
            said.append(
                f"features leave an error of {beside:.1g} times the noise in the covariance of a region; lower tolerance, raise "
                "max_features, or use solver='dense'."
            )
    posterior = way.solver.condition(logs, noise)
    added = posterior.given.factor.jitter if isinstance(posterior, DensePosterior | FewPosterior) else 0.0
    if added > 0:
        said.append(
            f"some regions follow from others and there is no noise between them; {added:.1g} was added to variances."
        )
    return GaussianFit(
        problem, kernel, logs, noise, posterior, way.solver.words, way.name, way.error, certificate, tuple(said)
    )
