"""``BinnedCountGP``: the curve behind counts of bins, boxes and areas, with the integral inside the link."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned.counts.curve import KERNELS
from crosslevel.binned.counts.model import fit_count_model
from crosslevel.binned.counts.tables import DRAWS, choose_areas, describe_counts, region_draws
from crosslevel.binned.counts.targets import cut_regions
from crosslevel.binned.region_estimator import POINTS, RegionEstimator
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import as_regions
from crosslevel.binned.regions.matching import align_to_regions
from crosslevel.data.checks import check_level, check_whole, read_seed
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray, Progress, RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIKELIHOODS = ("poisson", "binomial")
KNOWN = (*KERNELS, "matern32", "matern12")


class BinnedCountGP(RegionEstimator):
    """Curve or surface behind counts of regions: predictions are positive, and every total is kept.

    The logarithm of the density (for "binomial" the logit of the share) is a Gaussian process, averaged over kernels and scales
    by their evidence.

    Parameters
    ----------
    likelihood : {"poisson", "binomial"}, default "poisson"
    kernel : str, default "auto"
        Names to average over, such as "eq + matern52", of "matern52", "eq", "wiener", "matern32" and "matern12"; "auto" is
        Matern-5/2, squared exponential and, along one axis, an integrated Wiener process.
    random_state : int, None, Generator or RandomState, default 0
        Of the draws behind predictions.

    Attributes
    ----------
    hyperparameters_ : dict
        Weights of kernels, means of the scales, "rough".
    log_evidence_ : float
    convergence_ : dict
        ``converged``, the number of candidates averaged over, and the largest weight of one. A mode that is not found raises an error.
    solver_ : str
        How the numbers are computed, with sizes.
    areas_ : tuple
        The areas of pooled counts, in the order of predictions; empty for one histogram.
    warnings_ : tuple of str
        What a reader of the numbers should know: gaps, overlaps, small groups that differences of totals reveal.

    See Also
    --------
    crosslevel.BinnedGP : the Gaussian model, for totals and means of any sign.

    Examples
    --------
    Market research: an audience is known by age group and gender; how many men are 30 to 41? Men and women share a curve.

    >>> from crosslevel.binned import Intervals
    >>> lower, upper = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
    >>> people = [310, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120]
    >>> gender = ["women"] * 6 + ["men"] * 6
    >>> gp = BinnedCountGP().fit(Intervals(lower, upper), people, pool={"gender": gender})
    >>> gp.predict(Intervals([30], [42]), pool="men").round(-1)
    array([[850.]])
    >>> gp.estimate(Intervals([30], [42])).keys
    ('gender', 'lower', 'upper')
    """

    quantity_ = "total"

    def __init__(self, likelihood: str = "poisson", kernel: str = "auto", *, random_state: RandomState = 0) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.random_state = random_state

    @checked
    def fit(
        self,
        regions: Any,
        y: Any,
        *,
        trials: Any = None,
        pool: Any = None,
        cell: Any = None,
        tail: float | None = None,
        preserve: bool | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the curve from the counts of regions.

        Parameters
        ----------
        regions : Intervals, Boxes or sums of these
            They may overlap, nest and leave gaps. A sliced axis of boxes (``point_axes``) is an axis of categories.
        y : (n,)
            Counts, or successes for likelihood="binomial".
        trials : (n,), for likelihood="binomial"
            Of how many y are the successes; predictions are shares: of a region, the mean over its trials, those of a bin being spread
            evenly over it. So the share of everybody is that of the totals.
        pool : (n,), or {name: (n,)}, for likelihood="poisson"
            Area of each row: areas share a curve and depart from it. Tables then have the key ``area``, or ``name``.
        cell : float, optional
            Width of the cells that counts are un-binned into (one per axis for boxes); some 90 to 300 cells by default.
        tail : float, optional
            Mean excess over the finite limit of an open-ended interval, beforehand.
        preserve : bool, optional
            Whether every draw of counts keeps every total. By default where regions lie apart or nest; True also where they overlap
            (and is refused if no counts add up), False leaves totals their Poisson noise.
        progress : bool or callable, optional
            True for a bar on stderr, or a function of how many portions of covariances are solved and, at the end, of all of them.
        """
        if self.likelihood not in LIKELIHOODS:
            raise unknown_name("likelihood", self.likelihood, LIKELIHOODS, "likelihood")
        seed = read_seed(self.random_state)
        found = as_regions(regions, "regions")
        kernels = _read_kernels(self.kernel, found.dimension)
        pooled = {f"pool[{k!r}]": v for k, v in pool.items()} if isinstance(pool, Mapping) else {"pool": pool}
        y, trials, *areas = align_to_regions(found, y, trials=trials, **pooled)
        pool = dict(zip(pool, areas, strict=True)) if isinstance(pool, Mapping) else areas[0]
        if (self.likelihood == "binomial") != (trials is not None):
            raise InputError(
                f"trials go with likelihood='binomial', of which y are the successes; this is {self.likelihood!r}."
            )
        cut = partial(cut_regions, cell=cell, tail=tail)
        with count_steps(progress, "Weighing covariances", None, "portions") as step:
            model = fit_count_model(
                found, y, kernels=kernels, cut=cut, trials=trials, pool=pool, preserve=preserve, step=step
            )
        self._model, self._seed = model, seed
        self.areas_ = model.areas
        self.hyperparameters_ = model.hyperparameters()
        self.log_evidence_ = model.log_evidence
        weight = model.curve.weight
        self.convergence_ = {
            "converged": True,
            "n_candidates": len(weight),
            "largest_weight": float(weight.max(initial=0.0)),
        }
        self.solver_, self.warnings_ = model.describe(), model.warnings
        for text in self.warnings_:
            if text.startswith("privacy"):
                warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return self

    @checked
    def predict(
        self,
        regions: Any,
        quantity: str | None = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        pool: Any = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the density at points, or totals of regions: means of 1,000 draws.

        Parameters
        ----------
        regions : Regions, or an array of points
        quantity : {"total", "mean", "density", "count", "expected"}, optional
            Density at points and totals of regions when not given; for a binomial the share. "count" is
            the whole count, whose standard deviation is larger than that of its expectation. Totals take the observed bins as
            facts; "expected" is what would be counted on average, of which the observed bins are chance too.
        return_std, return_cov : bool
            Also give standard deviations (m,), or the joint covariance (m, m).
        pool : area or list of areas, optional
            Of pooled counts; all by default. With areas everything has a first axis, one entry per area.

        Examples
        --------
        >>> from crosslevel.binned import Intervals
        >>> gp = BinnedCountGP("poisson").fit(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30])
        >>> gp.predict(Intervals([0, 10], [10, 30])).round(6)
        array([90., 90.])
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True; ask for one (the covariance has the variances).")
        draws = self._draws(regions, quantity, pool, DRAWS, None)
        means = [d.mean(axis=0) for d in draws]
        spreads = [np.atleast_2d(np.cov(d.T)) if return_cov else d.std(axis=0, ddof=1) for d in draws]
        mean, spread = (np.array(means), np.array(spreads)) if self.areas_ else (means[0], spreads[0])
        return (mean, spread) if return_std or return_cov else mean

    def sample(
        self,
        regions: Any,
        n_draws: int = 1,
        quantity: str | None = None,
        random_state: RandomState = None,
        *,
        pool: Any = None,
    ) -> FloatArray:
        """Draw regions from their joint posterior, (n_draws, m); of pooled counts (areas, n_draws, m).

        Whole counts are drawn with ``quantity="count"``.

        Examples
        --------
        >>> from crosslevel.binned import Intervals
        >>> gp = BinnedCountGP().fit(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30])
        >>> gp.sample(Intervals([5], [15]), n_draws=3, quantity="count").shape
        (3, 1)
        """
        draws = self._draws(regions, quantity, pool, check_whole(n_draws, "n_draws", 1), random_state)
        return np.array(draws) if self.areas_ else draws[0]

    def estimate(
        self, regions: Any = None, quantity: str | None = None, level: float = 0.95, *, pool: Any = None
    ) -> Estimates:
        """Estimate regions: a table with intervals of expected and of whole counts, even spreading beside them, and warnings.

        Parameters
        ----------
        regions : Regions or points, or "single_years", optional
            Those of fit when not given; "single_years" are all years of age that the bins cover.
        quantity : {"total", "mean", "density", "count", "expected"}, optional
        level : float
        pool : area or list of areas, optional
            Of pooled counts; all by default.
        """
        check_level(level)
        model = self._model_of_fit()
        answer = describe_counts(model, self._targets(regions), quantity, pool, level, self._seed)
        what = quantity or ("share" if self.likelihood == "binomial" else "total")
        return self._table(
            answer,
            method=f"{self.likelihood} counts behind regions, {what}",
            interval="posterior quantile",
            level=level,
            call=f"{self!r}.fit(regions, y)",
            diagnostics={"converged": True, "convergence": self.convergence_},
        )

    def summary(self) -> str:
        """Write the fit as text: sizes, hyperparameters, solver, warnings."""
        model = self._model_of_fit()
        many = f" in {len(model.areas):,} areas" if model.areas else ""
        name = model.likelihood.capitalize()
        lines = [
            f"{name} counts behind {len(model.y):,} regions{many}, {model.y.sum():,.0f} in all",
            ", ".join(f"{k} {v:.4g}" for k, v in self.hyperparameters_.items()),
            f"solver: {self.solver_}",
        ]
        return "\n".join([*lines, *(f"warning: {w}" for w in self.warnings_)])

    def plot(self, ax: Axes | None = None, *, pool: Any = None, level: float = 0.95, **options: Any) -> Axes:
        """Draw the observed histogram with the density behind it; ``options`` are those of `crosslevel.charts.histogram`."""
        self._check_drawable()
        if self.likelihood == "binomial":
            raise InputError(
                "plot draws counts, and this fit is of shares; draw estimate(points) with their intervals."
            )
        if self.areas_ and (pool is None or isinstance(pool, list | tuple | np.ndarray)):
            raise InputError(f"plot draws one area; name it, as in plot(pool={self.areas_[0]!r}).")
        curve = self.estimate(np.linspace(*self._ends(), POINTS), level=level, pool=pool)
        return self._draw_histogram(curve, self._totals(pool), ax, options)

    def _draws(
        self, regions: Any, quantity: str | None, pool: Any, n_draws: int, random_state: RandomState
    ) -> list[FloatArray]:
        model = self._model_of_fit()
        found = self._targets(regions)
        seed = self._seed if random_state is None else read_seed(random_state)
        return [region_draws(model, found, quantity, a, seed, n_draws) for a in choose_areas(model, pool)]

    def _model_of_fit(self) -> Any:
        check_is_fitted(self, "solver_")
        return self._model

    @property
    def _observed(self) -> Regions:
        return self._model.distinct

    def _data(self) -> tuple[Regions, FloatArray]:
        return self._model.regions, self._model.y

    def _ends(self) -> tuple[float, float]:
        """Give the ends of the cells of one axis."""
        return float(self._model.bins.lower.min()), float(self._model.bins.upper.max())

    def _totals(self, pool: Any) -> FloatArray:
        """Give the totals of the observed bins of one area, or of the only histogram."""
        rows = self._model.totals(self.areas_.index(pool) if self.areas_ else None)
        return rows if len(rows) == len(self._observed) else self._model.y


def _read_kernels(kernel: Any, dimension: int) -> tuple[str, ...]:
    """Read the kernels to average over: "auto" for all of the recipe, else names joined by "+".

    Examples
    --------
    >>> _read_kernels("auto", 1), _read_kernels("eq + matern52", 2)
    (('matern52', 'eq', 'wiener'), ('eq', 'matern52'))
    """
    if kernel == "auto":
        return KERNELS if dimension == 1 else tuple(k for k in KERNELS if k != "wiener")
    if not isinstance(kernel, str):
        raise InputError(
            f"kernel={kernel!r} is an object, and counts are averaged over kernels by name; pass one or several of "
            f"{', '.join(KNOWN)} joined by '+', or 'auto'."
        )
    names = tuple(part.strip() for part in kernel.split("+"))
    for name in names:
        if name not in KNOWN:
            raise unknown_name("kernel", name, ("auto", *KNOWN), "kernel of counts")
    if "wiener" in names and dimension > 1:
        raise InputError(f"kernel={kernel!r} names the Wiener process, which is of one axis; leave 'wiener' out.")
    return names
