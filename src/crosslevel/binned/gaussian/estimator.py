"""``BinnedGP``: a Gaussian process learned from totals or means of bins, boxes and areas."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned.gaussian.covariances import Kernel, read_kernel, read_number
from crosslevel.binned.gaussian.fit import SOLVERS, LeaveOneOut, Settings, choose_solver, fit_gaussian
from crosslevel.binned.gaussian.model import Predicted, check_finite_numbers, describe_predictions, draw, make_problem
from crosslevel.binned.privacy import privacy_warnings
from crosslevel.binned.region_estimator import POINTS, RegionEstimator
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import QUANTITIES, as_regions, describe_layout
from crosslevel.binned.regions.matching import align_to_regions
from crosslevel.binned.regions.sums import default_scale
from crosslevel.data.checks import check_level, check_whole, read_seed, refuse_idle, row_keys
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.numerics.evidence import Convergence
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, Progress, RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRIORS = ("auto", "none", "lengthscale")


class BinnedGP(RegionEstimator):
    """Gaussian process learned from integrals over regions, which predicts points, new regions, and both jointly.

    Parameters
    ----------
    kernel : str, default "eq"
        "eq", "matern12", "matern32" or "matern52".
    variance, lengthscale, noise, mean : float, optional
        Of the function; what is given is kept, what is None is estimated. ``lengthscale`` l is that of
        exp(-r^2 / (2 l^2)), the paper's over sqrt(2), and may be one per axis. ``noise`` is the
        variance of one observation (see ``sizes`` in :meth:`fit`). ``mean`` is the level of the function, a density.
    solver : {"auto", "dense", "features"}, default "auto"
        "auto" takes a dense matrix up to 2,000 regions, and Hilbert-space features for more, or for polygons; ``solver_`` says which.
    prior : {"auto", "none", "lengthscale"}, default "auto"
        Whether lengthscales have a prior (log-normal, median a fifth of the range); "auto": with fewer than 15 regions.
    tolerance : float, default 1e-6
        Largest relative error of covariances with features, of which there are at most 1,200 (6,000 for up to 500 regions).

    Attributes
    ----------
    hyperparameters_ : dict
        Names to values; "noise" and "mean" among them.
    log_evidence_ : float
        Log marginal likelihood.
    convergence_ : Convergence
        How the search for hyperparameters ended.
    solver_ : str
        How the numbers are computed, with size and error.
    quantity_ : str
        What y was.
    warnings_ : tuple of str
        What a reader of the numbers should know: gaps, overlaps, small groups that differences of totals reveal.

    See Also
    --------
    crosslevel.BinnedCountGP : the model of counts, whose predictions are positive.

    References
    ----------
    Smith, M. T., Alvarez, M. A. and Lawrence, N. D. (2018). Gaussian process regression for binned data. arXiv:1809.02010.

    Examples
    --------
    >>> from crosslevel.binned import Intervals
    >>> ages = Intervals.from_edges([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    >>> people = [21, 34, 60, 52, 33, 25, 17, 9, 4]
    >>> gp = BinnedGP(kernel="eq").fit(ages, people, quantity="total")
    >>> gp.predict(Intervals([25], [35]), quantity="total").round()
    array([60.])
    >>> gp.solver_
    'dense, exact integrals, n = 9'
    """

    def __init__(
        self,
        kernel: str = "eq",
        variance: float | None = None,
        lengthscale: Any = None,
        noise: float | None = None,
        mean: float | None = None,
        solver: str = "auto",
        *,
        prior: str = "auto",
        tolerance: float = 1e-6,
    ) -> None:
        self.kernel = kernel
        self.variance = variance
        self.lengthscale = lengthscale
        self.noise = noise
        self.mean = mean
        self.solver = solver
        self.prior = prior
        self.tolerance = tolerance

    def fit(
        self,
        regions: Any,
        y: Any,
        quantity: str | None = None,
        sizes: Any = None,
        std_error: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the function from what was observed of regions.

        Parameters
        ----------
        regions : Regions, or an array of points
            They may overlap, nest, leave gaps, and mix with points (`crosslevel.binned.regions.stack`).
        y : (n,)
        quantity : {"total", "mean", "rate"}
            What y is; it is never guessed. Points have their value in any case.
        sizes : (n,), optional
            Observations behind each y: a mean of n has noise variance ``noise`` / n, a total n times ``noise``. For rates the
            exposure, which is the volume when not given.
        std_error : (n,), optional
            Known standard errors of y (a 90 % margin of error divided by 1.645), instead of or beside ``noise``.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the evaluations done and of all, which is None until the end.
        """
        settings = self._settings()
        if quantity is None:
            raise InputError(
                f"quantity is not given; say what y is, one of {', '.join(QUANTITIES)}: fit(regions, y, quantity='total')."
            )
        noise = read_number(self.noise, "noise")
        if noise is not None and noise < 0:
            raise InputError(f"noise={self.noise!r} is negative; pass a variance, or None to have it estimated.")
        if sizes is not None and (noise == 0 or (noise is None and std_error is not None)):
            raise InputError(
                "sizes has no effect: they scale noise, which is zero where standard errors are known (std_error=) or noise=0. Pass "
                "noise= a positive variance, or leave sizes out."
            )
        found = as_regions(regions, "regions")
        y, sizes, std_error = align_to_regions(found, y, sizes=sizes, std_error=std_error, points=row_keys(regions))
        problem = make_problem(found, y, quantity, sizes, std_error, read_number(self.mean, "mean"))
        if noise is None and problem.known_noise.any():
            noise = 0.0
        kernel = read_kernel(self.kernel, found.dimension, variance=self.variance, lengthscale=self.lengthscale)
        solver = choose_solver(problem, settings)
        self._refuse_idle(solver, kernel)
        told = (
            nullcontext()
            if progress is None
            else count_steps(progress, "Searching hyperparameters", None, "evaluations")
        )
        with told as step:
            fit = fit_gaussian(problem, kernel, noise, settings, solver, step)
        self._fit = fit
        self.quantity_ = quantity
        self.hyperparameters_ = fit.hyperparameters
        self.log_evidence_ = float(fit.posterior.log_evidence)
        check_finite_numbers(self.log_evidence_, *self.hyperparameters_.values())
        self.convergence_ = fit.convergence or Convergence(converged=True, slope=0.0, n_searches=0, agreeing=0)
        self.solver_ = fit.describe()
        revealed = privacy_warnings(found, problem.y, problem.noise(fit.noise)) if quantity == "total" else ()
        self.warnings_ = (*fit.warnings, *describe_layout(found), *revealed)
        for text in self.warnings_:
            if text.startswith(("privacy", "features")):
                warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return self

    @checked
    def predict(
        self, regions: Any, quantity: str | None = None, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the function at points, or its integrals over regions, without noise.

        Parameters
        ----------
        regions : Regions, or an array of points
        quantity : {"total", "mean", "rate", "density"}, optional
            Density at points and the quantity of fit at regions when not given.
        return_std, return_cov : bool
            Also give standard deviations (m,), or the joint covariance (m, m).

        Examples
        --------
        >>> from crosslevel.binned import Intervals
        >>> gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit(Intervals([0, 1], [1, 2]), [1, 2], "total")
        >>> whole, parts = gp.predict(Intervals([0], [2])), gp.predict(Intervals([0, 0.5], [0.5, 2]))
        >>> bool(abs(whole[0] - parts.sum()) < 1e-12)
        True
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True; ask for one (the covariance has the variances).")
        predicted = self._predict(self._targets(regions), quantity, return_cov)
        if return_cov:
            assert predicted.covariance is not None
            return predicted.mean, predicted.covariance
        return (predicted.mean, np.sqrt(predicted.variance)) if return_std else predicted.mean

    def sample(
        self, regions: Any, n_draws: int = 1, quantity: str | None = None, random_state: RandomState = 0
    ) -> FloatArray:
        """Draw the function's values or integrals from their joint posterior, (n_draws, m).

        Examples
        --------
        >>> gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit([0.0, 1.0], [1.0, 2.0], quantity="mean")
        >>> gp.sample([0.5, 0.7], n_draws=3, random_state=0).shape
        (3, 2)
        """
        number = check_whole(n_draws, "n_draws", 1)
        return draw(self._predict(self._targets(regions), quantity, covariance=True), number, read_seed(random_state))

    def estimate(self, regions: Any = None, quantity: str | None = None, level: float = 0.95) -> Estimates:
        """Estimate regions: a table with intervals, the naive answer beside them, and warnings.

        Parameters
        ----------
        regions : Regions or points, optional
            Those of fit when not given.
        quantity : {"total", "mean", "rate", "density"}, optional
        level : float

        Examples
        --------
        >>> from crosslevel.binned import Intervals
        >>> gp = BinnedGP(lengthscale=20.0).fit(Intervals.from_edges([0, 10, 20, 30]), [3, 5, 4], quantity="total")
        >>> gp.estimate(Intervals([0], [15])).table.column_names
        ['lower', 'upper', 'estimate', 'std_error', 'conf_low', 'conf_high', 'informed', 'area_weighted']
        """
        check_level(level)
        found = self._targets(regions)
        left = self.leave_one_out()
        fit, scale = self._fit, default_scale(found, quantity, self.quantity_)
        answer = describe_predictions(fit.problem, found, self._predict(found, quantity, False), scale, level)
        return self._table(
            answer,
            method=f"Gaussian process behind regions, {quantity or self.quantity_}",
            interval="posterior, normal",
            level=level,
            call=f"{self!r}.fit(regions, y, quantity={self.quantity_!r})",
            diagnostics={
                "converged": self.convergence_.converged,
                "relative_error": None if math.isnan(fit.error) else fit.error,
                "convergence": asdict(self.convergence_),
                "leave_one_out": {n: getattr(left, n) for n in ("log_score", "rmse", "coverage")},
            },
        )

    def leave_one_out(self) -> LeaveOneOut:
        """Predict each observed region from the others, in closed form, at the hyperparameters of all."""
        check_is_fitted(self, "solver_")
        return self._fit.left_out

    def summary(self) -> str:
        """Write the fit as text: solver, hyperparameters, scores, warnings."""
        left = self.leave_one_out()
        values = ", ".join(f"{k} {v:.4g}" for k, v in self.hyperparameters_.items())
        lines = [
            f"Gaussian process behind {len(self._fit.problem.y):,} regions, {self.quantity_}s",
            f"kernel: {self.kernel} · {values}",
            f"solver: {self.solver_}",
            f"log marginal likelihood {self.log_evidence_:.4f} · leave-one-out log score {left.log_score:.4f}, 95 % intervals cover "
            f"{left.coverage:.0%}",
        ]
        return "\n".join([*lines, *(f"warning: {w}" for w in self.warnings_)])

    def plot(self, ax: Axes | None = None, *, level: float = 0.95, **options: Any) -> Axes:
        """Draw the observed histogram with the density behind it; ``options`` are those of `crosslevel.charts.histogram`."""
        self._check_drawable()
        curve = self.estimate(np.linspace(*self._ends(), POINTS), level=level)
        return self._draw_histogram(curve, self._fit.problem.y, ax, options)

    @property
    def _observed(self) -> Regions:
        return self._fit.problem.regions

    def _ends(self) -> tuple[float, float]:
        """Give the ends of the observed range of one axis."""
        lower, upper = self._observed.bounds()
        return float(lower.min()), float(upper.max())

    def _data(self) -> tuple[Regions, FloatArray]:
        return self._fit.problem.regions, self._fit.problem.y

    def _predict(self, regions: Regions, quantity: str | None, covariance: bool) -> Predicted:
        found = self._fit.predict(regions, default_scale(regions, quantity, self.quantity_), covariance)
        check_finite_numbers(found.mean, found.variance)
        return found

    def _settings(self) -> Settings:
        """Refuse unknown choices and numbers that are none."""
        choices = {"solver": SOLVERS, "prior": PRIORS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed, name)
        tolerance = read_number(self.tolerance, "tolerance")
        if tolerance is None or not tolerance > 0:
            raise InputError(f"tolerance={self.tolerance!r} is not positive; pass a relative error such as 1e-6.")
        return Settings(self.solver, self.prior, tolerance)

    def _refuse_idle(self, solver: str, kernel: Kernel) -> None:
        """Refuse parameters that cannot act with this solver and the hyperparameters that are given."""
        if solver != "features":
            refuse_idle(self, ["tolerance"], f"with the {solver} solver; use solver='features'")
        if None not in kernel.lengthscales:
            refuse_idle(self, ["prior"], "where no lengthscale is estimated; use lengthscale=None")
