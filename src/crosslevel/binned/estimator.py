"""``BinnedGP``: what curve or surface lies behind bins, boxes and areas?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned import count_answers, count_saved, parameters, saved
from crosslevel.binned.answers import LeaveOneOut, default_scale, draw, leave_one_out, predictions_table
from crosslevel.binned.checks import layout_notes
from crosslevel.binned.count_model import CountModel, as_kernels, fit_count_model
from crosslevel.binned.counts.checking import LeaveOneOut as CountsLeftOut
from crosslevel.binned.counts.skill import Skill
from crosslevel.binned.gaussian import GaussianFit, fit_gaussian
from crosslevel.binned.kernels import BoundKernel, Kernel, as_kernel
from crosslevel.binned.pictures import draw_model
from crosslevel.binned.privacy import privacy_notes
from crosslevel.binned.problem import ASKED, KINDS, make_problem
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.planes import check_planes
from crosslevel.binned.regions.points import as_regions
from crosslevel.binned.solver import Predicted
from crosslevel.data.checks import check_level, check_seed
from crosslevel.data.fingerprint import fingerprint
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BinnedGP"]


class BinnedGP(BaseEstimator):
    """A Gaussian process learnt from integrals over regions, which predicts points, new regions, and both jointly.

    Parameters
    ----------
    kernel : str or Kernel, default "auto"
        "eq" (which "auto" is, for the Gaussian likelihood), "matern12", "matern32", "matern52", sums of these as in "eq + white",
        or an object made with `crosslevel.binned.kernels`. For counts the names to average over, such as "eq + matern52"; "auto" is
        Matern-5/2, squared exponential and an integrated Wiener process.
    likelihood : {"gaussian", "poisson", "negative_binomial", "binomial"}, default "gaussian"
        "gaussian" for any y; the others for counts, with the integral inside the link: predictions are positive, and every total
        is kept. The parameters from ``variance`` to ``max_features`` are of the Gaussian: counts are averaged over kernels and
        scales by their evidence, with priors.
    variance, lengthscale, noise, mean : float, optional
        Of the function; what is given is kept, what is None is estimated. ``lengthscale`` may be one per axis. ``noise`` is the
        variance of one observation (see ``sizes`` in :meth:`fit`). ``mean`` is the level of the function, a density.
    optimize : bool, default True
        False sets what is None to a rule of thumb instead.
    convention : {"usual", "paper"}, default "usual"
        Whether lengthscales mean exp(-r^2 / (2 l^2)) or, as in the paper, exp(-r^2 / l^2); the latter for "eq" only.
    solver : {"auto", "dense", "kronecker", "features"}, default "auto"
        "auto" takes a dense matrix up to 2,000 regions, Kronecker products for full grids of boxes from 400 on, and Hilbert-space
        features for more, or for polygons; ``path_`` says which.
    restarts : int, default 1
        Random starts of the search beside four fixed ones.
    prior : {"auto", "none", "lengthscale"}, default "auto"
        Whether lengthscales have a prior (log-normal, median a fifth of the range); "auto": with fewer than 15 regions.
    tolerance : float, default 1e-6
        Relative error of covariances that features are asked for.
    max_features : int, optional
        1,200 when not given, and 6,000 for up to 500 regions, where features are cheap.
    random_state : int, default 0

    Attributes
    ----------
    hyperparameters_ : dict
        Names to values; "noise" and "mean" among them. For counts weights of kernels, means of the scales, "rough".
    log_marginal_ : float
    converged_ : bool
    path_ : str
        The way to the numbers, with its size and error.
    loo_ : LeaveOneOut
        Each region as the others foretell it.
    areas_ : tuple
        The areas of pooled counts, in the order of predictions; empty for one histogram.
    notes_ : tuple of str
        What the reader should know: gaps, overlaps, units revealed.

    See Also
    --------
    BinnedGP.estimates : predictions as a table.

    References
    ----------
    Smith, M. T., Alvarez, M. A. and Lawrence, N. D. (2018). Gaussian process regression for binned data. arXiv:1809.02010.

    Examples
    --------
    >>> from crosslevel.binned.regions import Intervals
    >>> ages = Intervals.from_edges([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    >>> people = [21, 34, 60, 52, 33, 25, 17, 9, 4]
    >>> gp = BinnedGP(kernel="eq").fit(ages, people, kind="total")
    >>> gp.predict(Intervals([25], [35]), kind="total").round()
    array([60.])
    >>> gp.path_
    'dense, exact integrals, n = 9'

    Market research: an audience is known by age group and gender; how many men are 30 to 41? Men and women share a curve.

    >>> lower, upper = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
    >>> people = [310, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120]
    >>> gender = ["women"] * 6 + ["men"] * 6
    >>> gp = BinnedGP(likelihood="poisson").fit(Intervals(lower, upper), people, kind="total", pool={"gender": gender})
    >>> gp.predict(Intervals([30], [42]), pool="men").round(-1)
    array([[850.]])
    >>> gp.estimates(Intervals([30], [42])).keys
    ('gender', 'lower', 'upper')
    """

    _loo: LeaveOneOut | None
    _counts: CountModel | None
    _trust: dict[str, Any] | None

    def __init__(
        self,
        kernel: Any = "auto",
        likelihood: str = "gaussian",
        variance: float | None = None,
        lengthscale: Any = None,
        noise: float | None = None,
        mean: float | None = None,
        optimize: bool = True,
        convention: str = "usual",
        solver: str = "auto",
        *,
        restarts: int = 1,
        prior: str = "auto",
        tolerance: float = 1e-6,
        max_features: int | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.variance = variance
        self.lengthscale = lengthscale
        self.noise = noise
        self.mean = mean
        self.optimize = optimize
        self.convention = convention
        self.solver = solver
        self.restarts = restarts
        self.prior = prior
        self.tolerance = tolerance
        self.max_features = max_features
        self.random_state = random_state

    def fit(
        self,
        regions: Any,
        y: Any,
        kind: str | None = None,
        sizes: Any = None,
        std_error: Any = None,
        *,
        trials: Any = None,
        exposure: Any = None,
        pool: Any = None,
        cell: Any = None,
        tail: float | None = None,
        preserve: bool | None = None,
    ) -> Self:
        """Learn the function from what was observed of regions.

        Parameters
        ----------
        regions : Regions, or an array of points
            They may overlap, nest, leave gaps, and mix with points (`crosslevel.binned.regions.stack`).
        y : (n,)
        kind : {"total", "mean", "rate"}
            What y is; it is never guessed. Points have their value in any case.
        sizes : (n,), optional
            Observations behind each y: a mean of n has noise variance ``noise`` / n, a total n times ``noise``. For rates the
            exposure, which is the volume when not given.
        std_error : (n,), optional
            Known standard errors of y (a 90 % margin of error divided by 1.645), instead of or beside ``noise``.
        trials : (n,), for likelihood="binomial"
            Of how many y are the successes; predictions are shares.
        exposure : (n,), or (regions, people), for likelihood="poisson"
            People at risk in each region, or in regions of their own; y are events, and ``predict(kind="rate")`` answers. Both curves
            are learnt together.
        pool : (n,), or {name: (n,)}, for likelihood="poisson"
            Area of each row: areas share a curve and depart from it. Tables then have the key ``area``, or ``name``.
        cell : float, optional
            Width of the cells that counts are un-binned into (one per axis for boxes); some 90 to 300 cells by default.
        tail : float, optional
            Mean excess over the finite limit of an open-ended interval, beforehand.
        preserve : bool, optional
            Whether every draw of counts keeps every total. By default where regions lie apart or nest; True also where they overlap
            (and is refused if no counts add up), False leaves totals their Poisson noise. A Gaussian fit keeps totals with noise=0.
        """
        parameters.check(self)
        if kind is None:
            raise InputError(
                f"kind is not given; say what y is, one of {', '.join(KINDS)}: fit(regions, y, kind='total')."
            )
        found = as_regions(regions, "regions")
        extras = {
            "trials": trials,
            "exposure": exposure,
            "pool": pool,
            "cell": cell,
            "tail": tail,
            "preserve": preserve,
        }
        if self.likelihood != "gaussian":
            parameters.refuse(self.likelihood, sizes=sizes, std_error=std_error)
            return self._fit_counts(found, y, kind, extras)
        parameters.refuse(self.likelihood, **extras)
        mean = None if self.mean is None else parameters.number(self.mean, "mean")
        problem = make_problem(found, y, kind, sizes, std_error, mean)
        fit = fit_gaussian(
            problem, self._bind(found.dimension), parameters.noise(self.noise), parameters.settings(self)
        )
        self._keep(fit, kind)
        for note in self.notes_:
            if note.startswith(("privacy", "features")):
                warnings.warn(note, CrosslevelWarning, stacklevel=2)
        return self

    def predict(
        self,
        regions: Any,
        kind: str | None = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        pool: Any = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the function at points, or its integrals over regions, without noise.

        Parameters
        ----------
        regions : Regions, or an array of points
        kind : {"total", "mean", "rate", "density", "count"}, optional
            Density at points and the kind of fit at regions when not given; for a binomial the share. "rate" of counts needs an
            exposure; "count" is the whole count, whose standard deviation is larger than that of its expectation.
        return_std, return_cov : bool
            Also give standard deviations (m,), or the joint covariance (m, m).
        pool : area or list of areas, optional
            Of pooled counts; all by default. With areas everything has a first axis, one entry per area.

        Examples
        --------
        >>> from crosslevel.binned.regions import Intervals
        >>> gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit(Intervals([0, 1], [1, 2]), [1, 2], kind="total")
        >>> whole, parts = gp.predict(Intervals([0], [2])), gp.predict(Intervals([0, 0.5], [0.5, 2]))
        >>> bool(abs(whole[0] - parts.sum()) < 1e-12)
        True
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True; ask for one (the covariance has the variances).")
        found = self._regions(regions)
        if self._counts is not None:
            mean, spread = count_answers.moments(
                self._counts, found, kind, pool, return_cov, check_seed(self.random_state)
            )
            return (mean, spread) if return_std or return_cov else mean
        parameters.refuse(self.likelihood, pool=pool)
        predicted = self._predict(found, kind, return_cov)
        if return_cov:
            assert predicted.covariance is not None
            return predicted.mean, predicted.covariance
        return (predicted.mean, np.sqrt(predicted.variance)) if return_std else predicted.mean

    def sample(
        self,
        regions: Any,
        n: int = 1,
        kind: str | None = None,
        random_state: int | None = None,
        *,
        pool: Any = None,
    ) -> FloatArray:
        """Draw the function's values or integrals from their joint posterior, (n, m); of pooled counts (areas, n, m).

        Whole counts are drawn with ``kind="count"``.

        Examples
        --------
        >>> gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit([0.0, 1.0], [1.0, 2.0], kind="mean")
        >>> gp.sample([0.5, 0.7], n=3, random_state=0).shape
        (3, 2)
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"n={n!r} is not a number of draws; pass a whole number of at least 1.")
        seed = check_seed(self.random_state if random_state is None else random_state)
        found = self._regions(regions)
        if self._counts is not None:
            return count_answers.sample(self._counts, found, kind, pool, int(n), seed)
        parameters.refuse(self.likelihood, pool=pool)
        return draw(self._predict(found, kind, covariance=True), int(n), seed)

    def estimates(
        self, regions: Any = None, kind: str | None = None, level: float = 0.95, *, pool: Any = None
    ) -> Estimates:
        """Give predictions as a table, with intervals, the naive answer beside them, and what to know.

        Parameters
        ----------
        regions : Regions or points, optional
            Those of fit when not given.
        kind : {"total", "mean", "rate", "density", "count"}, optional
        level : float
        pool : area or list of areas, optional
            Of pooled counts; all by default.

        Examples
        --------
        >>> from crosslevel.binned.regions import Intervals
        >>> gp = BinnedGP(lengthscale=20.0).fit(Intervals.from_edges([0, 10, 20, 30]), [3, 5, 4], kind="total")
        >>> gp.estimates(Intervals([0], [15])).table.column_names
        ['lower', 'upper', 'estimate', 'std_error', 'conf_low', 'conf_high', 'informed', 'area_weighted']
        """
        check_is_fitted(self, "path_")
        check_level(level)
        found = self._observed() if regions is None else self._regions(regions)
        if self._counts is not None:
            return count_answers.counts_table(
                self._counts,
                found,
                kind=kind,
                pool=pool,
                level=level,
                seed=check_seed(self.random_state),
                provenance=self._provenance(),
                diagnostics=self._diagnostics(),
                notes=self.notes_,
            )
        parameters.refuse(self.likelihood, pool=pool)
        scale = default_scale(found, kind, self.kind_)
        return predictions_table(
            self._fit,
            found,
            self._predict(found, kind, covariance=False),
            scale,
            kind=kind or self.kind_,
            level=level,
            frame="pyarrow",
            provenance=self._provenance(),
            diagnostics=self._diagnostics(),
            notes=self.notes_,
        )

    @property
    def loo_(self) -> LeaveOneOut | CountsLeftOut:
        """Each observed region as the others foretell it."""
        check_is_fitted(self, "path_")
        if self._counts is not None:
            return count_answers.count_loo(self._counts)
        if self._loo is None:
            self._loo = leave_one_out(self._fit)
        return self._loo

    def skill(self) -> Skill:
        """Measure how well counts are un-binned: neighbouring bins merged, and split again by the model, PCLM and evenly.

        Examples
        --------
        >>> from crosslevel.binned.regions import Intervals
        >>> ages = Intervals.from_edges(range(0, 81, 10))
        >>> gp = BinnedGP(likelihood="poisson").fit(ages, [90, 80, 65, 50, 40, 20, 9, 2], kind="total")
        >>> gp.skill().skill["uniform"] > 0
        True
        """
        check_is_fitted(self, "path_")
        if self._counts is None:
            raise InputError("skill is measured on counts; a Gaussian fit is scored by loo_.")
        return count_answers.count_skill(self._counts)

    def summary(self) -> str:
        """Write the fit as text: the way, the hyperparameters, the scores, the notes."""
        check_is_fitted(self, "path_")
        values = ", ".join(f"{k} {v:.4g}" for k, v in self.hyperparameters_.items())
        if self._counts is not None:
            return count_answers.counts_summary(self._counts, values, self.notes_)
        lines = [
            f"Gaussian process behind {len(self._fit.problem.y):,} regions, {self.kind_}s",
            f"kernel: {self._kernel()} · {values}",
            f"solver: {self.path_}",
            f"log marginal likelihood {self.log_marginal_:.4f} · leave-one-out log score {self._left_out().log_score:.4f}, "
            f"95 % intervals hold {self._left_out().coverage:.0%}",
        ]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes_)])

    def plot(self, ax: Axes | None = None, *, pool: Any = None, level: float = 0.95, **options: Any) -> Axes:
        """Draw the histogram that was observed with the density behind it; ``options`` go to `crosslevel.charts.histogram`."""
        check_is_fitted(self, "path_")
        return draw_model(self, ax, pool, level, options)

    def to_payload(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Give the saved form; see `crosslevel.save`."""
        check_is_fitted(self, "path_")
        return saved.to_payload(self) if self._counts is None else count_saved.to_payload(self, self._counts)

    @classmethod
    def from_payload(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the model from its saved form."""
        return (count_saved if "counts" in meta else saved).from_payload(cls, meta, arrays)

    def _fit_counts(self, regions: Regions, y: Any, kind: str, extras: Mapping[str, Any]) -> Self:
        """Learn from counts with the integral inside the link."""
        kernels = as_kernels(self.kernel, self.likelihood)
        model = fit_count_model(regions, y, kind=kind, likelihood=self.likelihood, kernels=kernels, **extras)
        self._keep_counts(model)
        for note in self.notes_:
            if note.startswith("privacy"):
                warnings.warn(note, CrosslevelWarning, stacklevel=3)
        return self

    def _keep_counts(self, model: CountModel) -> None:
        """Set the fitted attributes of counts; a fit that did not converge has raised an error."""
        self._counts, self._trust = model, None
        self.kind_, self.areas_ = "total", model.areas
        self.hyperparameters_ = model.hyperparameters()
        self.log_marginal_, self.converged_ = model.log_evidence, True
        self.path_, self.notes_ = model.path, model.notes

    def _keep(self, fit: GaussianFit, kind: str) -> None:
        """Set the fitted attributes."""
        self._fit, self._counts = fit, None
        self._loo, self.areas_ = None, ()
        self.kind_ = kind
        self.hyperparameters_ = fit.hyperparameters
        self.log_marginal_ = float(fit.posterior.log_marginal)
        self.converged_ = fit.certificate is None or fit.certificate.converged
        self.path_ = fit.path
        given = fit.problem
        secrets = privacy_notes(given.regions, given.y, given.noise(fit.noise)) if kind == "total" else ()
        self.notes_ = (*fit.notes, *layout_notes(given.regions), *secrets)

    def _predict(self, regions: Regions, kind: str | None, covariance: bool) -> Predicted:
        if kind is not None and kind not in ASKED:
            raise unknown_name("kind", kind, ASKED, "kind")
        return self._fit.posterior.predict(regions, default_scale(regions, kind, self.kind_), covariance)

    def _regions(self, regions: Any) -> Regions:
        check_is_fitted(self, "path_")
        found = as_regions(regions, "regions", self._observed().dimension)
        check_planes(self._observed(), found)
        return found

    def _observed(self) -> Regions:
        return self._fit.problem.regions if self._counts is None else count_answers.distinct(self._counts)

    def _left_out(self) -> LeaveOneOut:
        found = self.loo_
        assert isinstance(found, LeaveOneOut)
        return found

    def _kernel(self) -> Kernel:
        return as_kernel("eq" if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel)

    def _bind(self, dimension: int) -> BoundKernel:
        return parameters.bind(self, self._kernel(), dimension)

    def _diagnostics(self) -> dict[str, Any]:
        if self._counts is not None:
            self._trust = count_answers.trust(self._counts) if self._trust is None else self._trust
            found = {"converged": True, "solver": self.path_, "log_marginal": self.log_marginal_}
            return {**found, "hyperparameters": self.hyperparameters_, **self._trust}
        fit = self._fit
        return {
            "converged": self.converged_,
            "solver": fit.path,
            "relative_error": None if math.isnan(fit.error) else fit.error,
            "log_marginal": self.log_marginal_,
            "hyperparameters": self.hyperparameters_,
            "certificate": None if fit.certificate is None else asdict(fit.certificate),
            "leave_one_out": {n: getattr(self._left_out(), n) for n in ("log_score", "rmse", "coverage")},
        }

    def _provenance(self) -> Provenance:
        regions, y = (
            (self._fit.problem.regions, self._fit.problem.y)
            if self._counts is None
            else (self._counts.regions, self._counts.y)
        )
        lower, upper = regions.bounds()
        columns = {f"lower_{d}": lower[:, d] for d in range(lower.shape[1])}
        columns |= {f"upper_{d}": upper[:, d] for d in range(upper.shape[1])}
        data = {"regions": fingerprint({**columns, "y": y})}
        seed = check_seed(self.random_state)
        return Provenance.of(call=f"{self!r}.fit(regions, y, kind={self.kind_!r})", seed=seed, data=data)
