"""Fit a Gaussian process to integrals with normal noise: choose a solver, find hyperparameters, compute the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from crosslevel.binned.gaussian import sines
from crosslevel.binned.gaussian.covariances import Kernel
from crosslevel.binned.gaussian.dense import Conditioned, DensePosterior, DenseSolver, measure_error
from crosslevel.binned.gaussian.features import FeaturePosterior, FeatureSolver, FewPosterior, search_windows
from crosslevel.binned.gaussian.model import Predicted, Problem
from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.numerics.evidence import Convergence, LogNormal, Maximum, maximize
from crosslevel.typing import BoolArray, FloatArray, Step

Solver = DenseSolver | FeatureSolver
Posterior = DensePosterior | FeaturePosterior | FewPosterior
SOLVERS = ("auto", "dense", "features")
DENSE = 2000
"""Regions up to which "auto" takes the dense solver: a search of 50 steps takes a minute there."""
DENSE_MOST = 20_000
"""Regions beyond which a covariance matrix is refused: 3 GiB each."""
ROUGH = 1e-3
"""Relative error of covariances above which "auto" takes the dense solver instead of features where it can."""
BESIDE_NOISE, FINE = 0.1, 1e-5
"""Error of a covariance, in variances of the noise, above which there is a warning; and below which, relative, it never matters."""
MEMORY = 5000
"""Regions up to which the dense solver replaces features with a large error."""
FEATURES, FEATURES_OF_FEW = 1200, 6000
"""Features at most; and where regions are at most `FEW_REGIONS`, whose covariance is factorized instead."""
FEW_REGIONS = 500
FEW = 15
"""Below this many regions the likelihood alone says little about lengthscales, and a prior is added."""
PRIOR_SHARE, PRIOR_LOG_SD = 0.2, 0.7
"""The prior of a lengthscale: median a fifth of the range."""
LENGTHS, NOISES = (0.1, 0.3, 0.03, 1.0), (0.1, 0.01, 0.5, 0.1)
"""Starts: lengthscale as a share of the range, noise as a share of the variance of y."""
TINY = 1e-200
"""A variance below this, or above its inverse, leaves no room for the bounds of the search."""
WIDTHS = 2.0
"""One more start: lengthscale in widths of regions. A curve that turns from bin to bin looks like noise from the others."""


@dataclass(frozen=True)
class Settings:
    """How to fit: the parameters of `BinnedGP` of the same names, checked."""

    solver: str = "auto"
    prior: str = "auto"
    tolerance: float = 1e-6


def most_features(n: int) -> int:
    """Give the largest number of features for n regions: with few, the work is that of the regions, and features are cheap."""
    return FEATURES_OF_FEW if n <= FEW_REGIONS else FEATURES


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Each observed region predicted from the others, at the hyperparameters of all.

    Attributes
    ----------
    mean, std : (n,)
        Of the observation, its noise included.
    z : (n,)
        Standardized errors; of unit spread when the model is right.
    log_score : float
        Mean log density of what was observed; higher is better.
    rmse : float
    coverage : float
        Share of observations within 95 % intervals.
    """

    mean: FloatArray
    std: FloatArray
    z: FloatArray
    log_score: float
    rmse: float
    coverage: float


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A fitted Gaussian process: observations and hyperparameters, from which the posterior is computed.

    Attributes
    ----------
    problem : Problem
    kernel : Kernel
    logs : (h,)
        Logarithms of the kernel's hyperparameters.
    noise : float
        Noise variance.
    solver : {"dense", "features"}
    basis : SineBasis or None
        Of the features.
    error : float
        Relative error of covariances; 0 for exact solvers, nan where it was not measured.
    convergence : Convergence or None
        None when nothing was to be found.
    said : tuple of str
        Warnings of the search.
    """

    problem: Problem
    kernel: Kernel
    logs: FloatArray
    noise: float
    solver: str
    basis: SineBasis | None
    error: float
    convergence: Convergence | None
    said: tuple[str, ...]

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior at the hyperparameters."""
        return self._solver().condition(self.logs, self.noise)

    @cached_property
    def left_out(self) -> LeaveOneOut:
        """Each observation scored by the others, in closed form."""
        left = self.posterior.left_out()
        std = np.sqrt(left.variance)
        error = self.problem.y - left.mean
        z = error / std
        log_score = float(stats.norm.logpdf(error, scale=std).mean())
        coverage = float(np.mean(np.abs(z) < stats.norm.ppf(0.975)))
        return LeaveOneOut(left.mean, std, z, log_score, float(np.sqrt(np.mean(error**2))), coverage)

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Names to values, the noise and the level included."""
        values = dict(zip(self.kernel.names, np.exp(self.logs).tolist(), strict=True))
        return {**values, "noise": self.noise, "mean": float(self.posterior.level)}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers should know."""
        added = self.posterior.factor.jitter if isinstance(self.posterior, Conditioned) else 0.0
        if added == 0:
            return self.said
        return (
            *self.said,
            f"some regions follow from others and there is no noise between them; {added:.1g} was added to variances.",
        )

    def describe(self) -> str:
        """Say how the numbers are computed."""
        return self._solver().describe()

    def _solver(self) -> Solver:
        if self.basis is not None:
            return FeatureSolver(self.problem, self.kernel, self.basis, self.error)
        return _dense_solver(self.problem, self.kernel, self.error)

    def predict(self, regions: Regions, scale: FloatArray, covariance: bool) -> Predicted:
        """Predict integrals over regions; those over polygons with features, whatever the solver."""
        if self.basis is None and regions.pieces(np.exp(self.logs[1:])) is None:
            return self._by_features.predict(regions, scale, covariance)
        return self.posterior.predict(regions, scale, covariance)

    @cached_property
    def _by_features(self) -> Posterior:
        solver = _final_features(self.problem, self.kernel, self.logs, self.noise, Settings(solver="features"))
        return solver.condition(self.logs, self.noise)


def fit_gaussian(
    problem: Problem,
    kernel: Kernel,
    noise: float | None,
    settings: Settings,
    name: str,
    step: Step | None = None,
) -> GaussianFit:
    """Fit, and refuse to give numbers when the hyperparameters were not found.

    Parameters
    ----------
    problem : Problem
    kernel : Kernel
        Hyperparameters that it has are kept, the others found by marginal likelihood.
    noise : float or None
        Noise variance; None to be found.
    settings : Settings
    name : {"dense", "features"}
        The solver; see `choose_solver`.
    step : callable, optional
        Called after each evaluation of the marginal likelihood.
    """
    search = Search(problem, kernel, noise, settings, step)
    if len(problem.y) == 1 and search.free.any():
        raise InputError(
            "one region cannot tell how large, how smooth and how noisy the curve is; pass variance=, lengthscale= and noise=, or "
            "more regions."
        )
    found: Maximum | None = None
    too_short: dict[str, float] = {}
    solver: Solver | None = None if name == "features" else _dense_solver(problem, kernel)
    if not search.free.any():
        logs, sigma2 = search.unpack(search.starts[0][search.free])
    else:
        if solver is None:
            found, too_short = search_windows(search)
        else:
            found = search.run(solver)
        if not found.convergence.converged:
            raise ConvergenceError(
                f"the hyperparameters were not found: the log likelihood still rises by {found.convergence.slope:.2g} per log unit after "
                f"{found.convergence.evaluations} evaluations. Pass some of variance=, lengthscale=, noise=."
            )
        logs, sigma2 = search.unpack(found.theta)
    if solver is None:
        solver = _final_features(problem, kernel, logs, sigma2, settings)
    else:
        solver.error = measure_error(problem.regions, kernel, logs)
    said = (
        [] if found is None else search.warnings + _search_warnings(found.convergence, too_short, search.most_features)
    )
    said += _feature_warnings(solver, problem, logs, sigma2)
    basis = solver.basis if isinstance(solver, FeatureSolver) else None
    convergence = None if found is None else found.convergence
    return GaussianFit(problem, kernel, logs, sigma2, solver.name, basis, solver.error, convergence, tuple(said))


class Search:
    """The free hyperparameters of a fit: their starts, bounds and priors, and how they complete those that are given.

    Attributes
    ----------
    free : (h + 1,)
        Which logarithms, of the kernel and last of the noise, are to be found.
    fixed : (h + 1,)
        Those that are given, nan elsewhere.
    starts : list of (h + 1,)
    lower, upper : (h + 1,)
    warnings : list of str
    """

    def __init__(
        self, problem: Problem, kernel: Kernel, noise: float | None, settings: Settings, step: Step | None = None
    ) -> None:
        self.problem, self.kernel, self.settings, self.step = problem, kernel, settings, step
        given = (*kernel.given, noise)
        self.free: BoolArray = np.array([g is None for g in given])
        with np.errstate(divide="ignore"):
            self.fixed = np.array([np.nan if g is None else np.log(g) for g in given])
        starts, self.lower, self.upper, self.span = lay_starts(problem)
        self.starts = [np.where(self.free, s, self.fixed) for s in starts]
        self.names = [n for n, f in zip((*kernel.names, "noise"), self.free, strict=True) if f]
        few = settings.prior == "lengthscale" or (settings.prior == "auto" and len(problem.y) < FEW)
        priors = [None, *(LogNormal(PRIOR_SHARE * x, PRIOR_LOG_SD) for x in self.span), None]
        self.priors = [p for p, f in zip(priors, self.free, strict=True) if f] if few else None
        self.most_features = most_features(len(problem.y))
        self.warnings: list[str] = []
        if few and any(p is not None for p in self.priors or ()):
            self.warnings = [
                f"with {len(problem.y)} regions the lengthscale has a prior (median a fifth of the range); prior='none' takes it away."
            ]

    def unpack(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Give the kernel's logarithms and the noise."""
        whole = self.fixed.copy()
        whole[self.free] = theta
        return whole[:-1], float(np.exp(whole[-1]))

    def run(
        self, solver: Solver, lower: FloatArray | None = None, upper: FloatArray | None = None, most: int | None = None
    ) -> Maximum:
        """Search within the bounds, or narrower ones, from the first ``most`` starts."""

        def objective(theta: FloatArray) -> tuple[float, FloatArray]:
            found = solver.objective(*self.unpack(theta))
            if self.step is not None:
                self.step()
            return found.value, np.append(found.by_kernel, found.by_noise)[self.free]

        low = self.lower if lower is None else lower
        high = self.upper if upper is None else upper
        starts = [s[self.free] for s in self.starts[:most]]
        return maximize(objective, starts, low[self.free], high[self.free], self.names, self.priors)


def lay_starts(problem: Problem) -> tuple[list[FloatArray], FloatArray, FloatArray, FloatArray]:
    """Give starts, lower and upper bounds of the logarithms of kernel hyperparameters and, last, the noise; and the range, (d,)."""
    lower, upper = problem.regions.bounds()
    span = upper.max(axis=0) - lower.min(axis=0)
    span = np.where(span > 0, span, 1.0)
    width = np.median(upper - lower, axis=0)
    exact = problem.regions.dimension <= 2 or problem.regions.pieces() is not None
    distinct = np.array([max(len(np.unique(lower[:, d])), 1) for d in range(lower.shape[1])])
    width = np.where(width > 0, width, span / distinct)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        density_variance, noise_variance = _variances_of_y(problem)
    if not TINY < min(density_variance, noise_variance) <= max(density_variance, noise_variance) < 1.0 / TINY:
        i = int(np.argmax(np.abs(problem.y)))
        raise InputError(
            f"y reaches {problem.y[i]:g} (row {i}), and its variance over the regions is {density_variance:.3g} as a density and "
            f"{noise_variance:.3g} beside its noise: the squares of such numbers have no digits. Change the unit of y, sizes or regions."
        )

    def row(lengths: FloatArray, variance_factor: float, noise: float) -> FloatArray:
        return np.log([variance_factor * density_variance, *lengths, noise * noise_variance])

    shares = [(length * span, noise) for length, noise in zip(LENGTHS, NOISES, strict=True)]
    starts = [row(x, 1.0, noise) for x, noise in [*shares[:1], (WIDTHS * width, NOISES[0]), *shares[1:]]]
    # shorter lengthscales than half a body would take eight times as many points, and again
    least = 0.05 * np.minimum(width, span) if exact else 0.5 * (upper - lower).max(axis=0)
    return starts, row(least, 1e-8, 1e-7), row(20.0 * span, 1e6, 1e2), span


def _variances_of_y(problem: Problem) -> tuple[float, float]:
    """Give the variance of y as a density, and in units of the noise parameter."""
    density = problem.y / problem.level
    center = problem.mean if problem.mean is not None else float(density.mean())
    spread = float(np.mean((density - center) ** 2))
    if not spread > 0:
        spread = float(center**2) or 1.0
    noise = float(np.mean((problem.y - center * problem.level) ** 2 / problem.unit_noise))
    if not noise > 0:
        noise = float(np.mean((problem.y) ** 2 / problem.unit_noise)) or 1.0
    return spread, noise


def choose_solver(problem: Problem, settings: Settings) -> str:
    """Choose the solver by size and shape."""
    n = len(problem.y)
    if settings.solver != "auto":
        return settings.solver
    waves = problem.regions.dimension == 2 and problem.regions.pieces() is None
    many = n > DENSE and problem.regions.pieces() is not None
    return "features" if waves or many else "dense"


def _dense_solver(problem: Problem, kernel: Kernel, error: float = 0.0) -> Solver:
    if len(problem.y) > DENSE_MOST:
        raise InputError(
            f"{len(problem.y):,} regions need {8 * len(problem.y) ** 2 / 2**30:.0f} GiB for a covariance matrix; use solver='features'."
        )
    return DenseSolver(problem, kernel, error)


def _final_features(problem: Problem, kernel: Kernel, logs: FloatArray, noise: float, settings: Settings) -> Solver:
    """Choose features for given hyperparameters; the dense solver where their error would be large and it can be used."""
    if not (noise > 0 or problem.known_noise.all()):
        raise InputError(
            "features need noise in every observation; pass noise= a small positive variance, or solver='dense'."
        )
    span = sines.span_of(logs, *problem.regions.bounds())
    most = most_features(len(problem.y))
    basis, error = sines.grow(kernel, logs, span, sines.sample_of(problem.regions), settings.tolerance, most)
    exact = problem.regions.pieces() is not None
    if settings.solver == "auto" and error > ROUGH and exact and len(problem.y) <= MEMORY:
        return _dense_solver(problem, kernel)
    return FeatureSolver(problem, kernel, basis, error)


def _search_warnings(convergence: Convergence, too_short: dict[str, float], most_features: int) -> list[str]:
    """Tell where the features, or the limits of the search, ended it instead of the data."""
    said = []
    if too_short:
        shortest = ", ".join(f"{name} {value:.3g}" for name, value in too_short.items())
        said.append(
            f"features: the likelihood still rises toward shorter lengthscales than {most_features:,} features hold ({shortest}). "
            "Regions differ by more than a smooth curve and the noise explain; let the noise be estimated."
        )
    at = [n for n in convergence.at_bounds if n not in too_short]
    if at:
        said.append(f"at a limit of the search: {', '.join(at)}; the data hardly determine it.")
    return said


def _feature_warnings(solver: Solver, problem: Problem, logs: FloatArray, noise: float) -> list[str]:
    if solver.error > ROUGH:
        return [
            f"features leave a relative error of {solver.error:.1g} in covariances; give a longer lengthscale, or use solver='dense'."
        ]
    if isinstance(solver, FeatureSolver) and solver.error > FINE:
        beside = solver.error * float((solver.prior_variances(logs) / problem.noise(noise)).max())
        if beside > BESIDE_NOISE:
            return [
                f"features leave an error of {beside:.1g} times the noise in the covariance of a region; lower tolerance, or "
                "use solver='dense'."
            ]
    return []
