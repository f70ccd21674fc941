"""Carry totals, means or rates of one set of polygons over to another: areal interpolation with margins of error.

The two sets are cut into their common parts. The log density of part k of source b and target t is

    f_k = mean + slope x_t + s g_k + e_k,

g a Gaussian process over the plane (Matern-3/2, at the center of the part), e white, and x_t the log area of the target: areas drawn
to hold similar numbers of people (``similar_targets``) are small where people are dense, and whether and how far that is so here is
learned from the sources; of other targets there is no slope. Where the people of the targets are known the density is a rate, and
people take the place of area. A source is a sum over its parts, y_b ~ Poisson(sum of w_k exp f_k) with a variance raised by its
squared standard error. Scales, lengthscale, the size of the white part and whether there is a slope are averaged over a grid by
evidence times prior. Only shares inside a source come from the model: its total is what was published, and in each draw a value
from its own distribution.

A mean or rate times the size of its source (area, or people) is a total, over parts that weigh what they have of this size; a target
has the totals of its parts over their size.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.areas import KEPT, REACH, _allot
from crosslevel.binned.counts.candidates import prior_nodes
from crosslevel.binned.counts.likelihoods import PoissonBins, check_size
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.regions.base import align_to_regions
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.data.checks import check_counts, check_kind, check_length, check_level, check_whole, read_seed
from crosslevel.data.frames import fingerprint
from crosslevel.data.planes import check_planes
from crosslevel.data.progress import count_steps
from crosslevel.data.shapes import as_shapely, import_shapely
from crosslevel.data.signatures import checked
from crosslevel.errors import ConvergenceError, CrosslevelWarning, InputError, listed, unknown_name
from crosslevel.numerics.kernels import distances, matern
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, Int64Array, Progress, RandomState

DENSITY, RATE = (np.log(0.6), 0.7), (np.log(0.3), 0.7)
"""Priors of the log of s and of the white part's scale, for densities of people and for rates among people."""
LENGTH = (np.log(0.2), 0.5)
"""Prior of the log of the lengthscale, in units of the extent of the sources."""
LEVEL = 4.0
"""Prior variance of the common log density."""
SLOPES = (0.0, 1.0)
"""Prior standard deviations of the slope, equally probable: sizes of targets may say nothing."""
NODES = 4
SLIVER = 5e-3
"""A part smaller than this share of both its source and its target is a border drawn twice."""
COVERED = 0.99
OVERLAP = 0.05
"""Share of the smaller of two polygons of one set up to which a common part is a border drawn inaccurately."""
SLACK = 0.02
"""Relative error up to which the fit must meet a total. Shares are scaled to the totals afterwards, and millions of people known exactly
would leave a ridge too narrow to climb."""
KINDS = ("total", "mean", "rate")
EXACT = 1e-7
"""Standard error of a total, relative to it, up to which it is exact."""
WIDE = 2.0
"""Standard error of a total, relative to it, from which it is drawn from a folded normal distribution: a gamma distribution of that
spread puts nearly all of its draws next to zero."""
MOST_PARTS = 3_000


@dataclass(frozen=True, eq=False)
class Parts:
    """Common parts of sources and targets; what of a source no target covers is a part of target -1.

    Attributes
    ----------
    center : (k, 2)
    source, target : (k,)
    area : (k,)
    """

    center: FloatArray
    source: Int64Array
    target: Int64Array
    area: FloatArray


def _cut(source: Polygons, target: Polygons) -> Parts:
    """Cut two sets of polygons into their common parts."""
    shapely = import_shapely()
    ours, theirs = as_shapely(source.shapes), as_shapely(target.shapes)
    b, t = shapely.STRtree(theirs).query(ours, predicate="intersects")
    shapes = shapely.intersection(np.asarray(ours)[b], np.asarray(theirs)[t])
    area = shapely.area(shapes)
    real = area > SLIVER * np.minimum(source.volumes[b], target.volumes[t])
    b, t, shapes, area = b[real], t[real], shapes[real], area[real]
    missing = source.volumes - np.bincount(b, area, minlength=len(source))
    rest = np.flatnonzero(missing > (1.0 - COVERED) * source.volumes)
    if len(rest):
        whole = shapely.union_all(np.asarray(theirs))
        left = [shapely.difference(ours[i], whole) for i in rest]
        shapes, area = np.append(shapes, left), np.append(area, shapely.area(left))
        b, t = np.append(b, rest), np.append(t, np.full(len(rest), -1))
    center = shapely.get_coordinates(shapely.centroid(shapes))
    return Parts(center, b.astype(np.int64), t.astype(np.int64), np.asarray(area, dtype=np.float64))


@checked
def interpolate(
    source: Polygons,
    target: Polygons,
    values: npt.ArrayLike,
    std_error: npt.ArrayLike | None = None,
    *,
    kind: str = "total",
    population: npt.ArrayLike | None = None,
    similar_targets: bool = False,
    level: float = 0.95,
    n_draws: int = 2000,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate totals, means or rates of target polygons from those of source polygons, with intervals.

    Parameters
    ----------
    source, target : Polygons
        In one plane (``Polygons(..., project=source)``). The two sets may cross each other; polygons of one set may not overlap.
    values : (n_sources,)
        What is known of the sources; it cannot be negative. What carries names is matched to those of the polygons.
    std_error : (n_sources,), optional
        Standard errors of ``values``; a published 90 % margin of error is 1.645 of them. Without it values are exact.
    kind : {"total", "mean", "rate"}, default "total"
        What ``values`` are: counts and other totals, which are added up; means, averaged by area or by the people of ``population``;
        or shares of ``population``, averaged by the people of the common ground.
    population : (n_targets,), or (n_sources,) for means and rates, optional
        Of totals: people of the targets among whom ``values`` counts some, dasymetric weights; without it the areas of the targets are
        used. Of means and rates: people of the sources, whose mean or rate it is, spread evenly over each; rates need it.
    similar_targets : bool
        Whether the targets were drawn to hold similar numbers of people, as census areas are: the small ones then lie where people
        are dense, as far as the sources show it. Not with ``population``, which says where people are, and of totals only.
    level : float
        Of the intervals.
    n_draws : int
    random_state : int, None, Generator or RandomState
    progress : bool or callable, optional
        True for a bar on stderr, or a function of what is done and all there is to do.

    Returns
    -------
    Estimates
        One row per target: the estimate (of totals, estimates of the parts of a source add up to its value), its standard error and
        interval, and beside it what plain weighting by area (``area_weighted``) or people (``people_weighted``) says.

    Warns
    -----
    CrosslevelWarning
        Where targets leave out ground of the sources, whose people are then in no target, or the reverse; where an estimate is
        above the population of its target; and where totals look like rates.

    See Also
    --------
    crosslevel.binned.areas.share_out : small areas inside large ones, counts as binomial.
    crosslevel.binned.BinnedGP : means and densities of any sign.

    Examples
    --------
    >>> def strips(edges):
    ...     return Polygons([[[a, 0], [b, 0], [b, 1], [a, 1]] for a, b in zip(edges[:-1], edges[1:])])
    >>> found = interpolate(strips([0, 2, 4, 6]), strips([0, 1, 3, 6]), [900, 500, 100], [30, 20, 10], n_draws=400)
    >>> found["area_weighted"].tolist(), round(float(found["estimate"].sum()), 6)
    ([450.0, 700.0, 350.0], 1500.0)
    >>> bool((found["conf_low"] < found["estimate"]).all())
    True
    >>> homes = {"kind": "rate", "population": [100, 300, 200], "n_draws": 400}
    >>> interpolate(strips([0, 2, 4, 6]), strips([0, 4, 6]), [0.1, 0.2, 0.3], **homes)["estimate"].round(6)
    array([0.175, 0.3  ])
    """
    check_level(level)
    n_draws = check_whole(n_draws, "n_draws", 2)
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind")
    for name, polygons in (("source", source), ("target", target)):
        check_kind(polygons, Polygons, name, "pass Polygons")
    check_planes(source, target)
    for name, polygons in (("source", source), ("target", target)):
        _refuse_overlap(polygons, name)
    if similar_targets and (population is not None or kind != "total"):
        raise InputError(
            "similar_targets=True is for totals, and cannot act with population, which says where people are; leave one out."
        )
    known, error, people = _read(source, target, values, std_error, kind, population)
    parts, seed = _cut(source, target), read_seed(random_state)
    said = _describe_cover(source, target, parts, known, kind)
    if kind == "total":
        y = known
        weight, x = _weights(parts, target, people)
        x = x if similar_targets else np.zeros_like(x)
        whole = bool((y == np.rint(y)).all())
    else:
        size = source.volumes if people is None else people
        weight, x = (size / source.volumes)[parts.source] * parts.area, np.zeros(len(parts.area))
        # a mean has no unit of its own: as many events as the fit tells apart; a rate counts some of its people
        unit = size if kind == "rate" else size / (float(known @ size) or 1.0) * len(known) / SLACK**2
        y, error = known * unit, error * unit
        weight *= (unit / size)[parts.source]
        whole = kind == "rate"
    prior = DENSITY if people is None and kind == "total" else RATE
    shares, used = _shares(parts, y, error, weight, x, prior, n_draws, np.random.default_rng(seed), progress)
    met = parts.target >= 0
    into = np.zeros((len(weight), len(target)))
    into[np.flatnonzero(met), parts.target[met]] = 1.0
    if kind != "total":
        into /= weight @ into
    own = y[parts.source]
    estimate = (shares.mean(axis=0) * own) @ into
    if kind == "total" and people is not None and (over := _describe_excess(target, estimate, people)):
        said.append(over)
    if kind == "total" and (doubt := _describe_rates(known, estimate)):
        said.append(doubt)
    for text in said:
        warnings.warn(text, CrosslevelWarning, stacklevel=3)
    counts = _counts(parts, y, error, shares, whole, np.random.default_rng([seed, 1]))
    spread = quantile_interval(counts @ into, level)
    (key, names), *_ = target.labels().items()
    plain = "area_weighted" if people is None else "people_weighted"
    return Estimates.build(
        {
            key: names,
            "estimate": estimate,
            "std_error": spread.std_error,
            "conf_low": np.minimum(spread.low, estimate),
            "conf_high": np.maximum(spread.high, estimate),
            plain: (weight / np.bincount(parts.source, weight)[parts.source] * own) @ into,
        },
        keys=[key],
        kind="binned",
        method=f"{kind}s of areas carried over to others by " + ("density" if people is None else "rates among people"),
        level=level,
        interval=f"predictive quantile of the {kind}",
        provenance=Provenance.of(
            call=f"interpolate({len(y)} areas, {len(target)} areas, kind={kind!r})",
            seed=seed,
            data={"values": fingerprint({"y": y, "std_error": error})},
        ),
        diagnostics={"converged": True, "parts": len(weight), **used},
        warnings=said,
        title=f"{kind.capitalize()}s of other areas",
    )


def _read(
    source: Polygons, target: Polygons, values: Any, std_error: Any, kind: str, population: Any
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Put values, standard errors and people in the order of the polygons, and check them."""
    (values,) = align_to_regions(source, values, argument="values")
    y = check_counts(values, "values", 1)
    check_length(y, "values", len(source), "source polygons")
    check_size(y, "values")
    error = np.zeros(len(y))
    if std_error is not None:
        _, std_error = align_to_regions(source, values, std_error=std_error)
        error = check_counts(std_error, "std_error", 1)
        check_length(error, "std_error", len(source), "source polygons")
        check_size(error, "std_error")
    if kind == "rate" and population is None:
        raise InputError(
            "kind='rate' takes shares of the people of each source; pass these as population=, or kind='mean'."
        )
    if kind == "rate" and y.max() > 1.0:
        raise InputError(
            f"kind='rate' takes shares of population, and values reach {y.max():g}; divide percent by 100. Means of anything are "
            "kind='mean'."
        )
    if population is None:
        return y, error, None
    counted, whose = (target, "target polygons") if kind == "total" else (source, "source polygons")
    (population,) = align_to_regions(counted, population, argument="population")
    people = check_counts(population, "population", 1)
    check_length(people, "population", len(counted), whose)
    check_size(people, "population")
    if kind != "total" and not people.all():
        raise InputError(
            f"population has nobody in {int((people == 0).sum()):,} source polygon(s), rows {listed(np.flatnonzero(people == 0))} of "
            "values; drop them."
        )
    return y, error, people


def _refuse_overlap(polygons: Polygons, argument: str) -> None:
    """Refuse polygons of one set that overlap: whoever lives there would be split among them, or counted twice."""
    shapely = import_shapely()
    shapes = np.asarray(as_shapely(polygons.shapes))
    i, j = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    i, j = i[i < j], j[i < j]
    shared = shapely.area(shapely.intersection(shapes[i], shapes[j])) / np.minimum(
        polygons.volumes[i], polygons.volumes[j]
    )
    if (shared > OVERLAP).any():
        (names,), worst = polygons.labels().values(), int(np.argmax(shared))
        raise InputError(
            f"{argument}: polygons {names[i[worst]]!r} and {names[j[worst]]!r} share {100 * shared[worst]:.0f} % of the smaller, as do "
            f"{int((shared > OVERLAP).sum()) - 1:,} other pair(s); totals are of polygons that do not overlap. Call interpolate once for "
            "each set that does not."
        )


def _describe_cover(source: Polygons, target: Polygons, parts: Parts, y: FloatArray, kind: str) -> list[str]:
    """Refuse sets that do not meet, and say which ground only one of them covers."""
    (theirs,), (ours,) = target.labels().values(), source.labels().values()
    met = parts.target >= 0
    covered = np.bincount(parts.target[met], parts.area[met], minlength=len(target)) / target.volumes
    bare = np.flatnonzero(covered == 0)
    if len(bare):
        raise InputError(
            f"target has {len(bare):,} polygon(s) that lie in no source polygon ({listed([theirs[i] for i in bare])}); leave them out, or "
            "check that both sets are in one plane."
        )
    if len(parts.area) > MOST_PARTS:
        raise InputError(
            f"source and target have {len(parts.area):,} common parts, and at most {MOST_PARTS:,} are fitted at once; interpolate state "
            "by state, or district by district."
        )
    said = []
    some = np.flatnonzero(covered < COVERED)
    if len(some):
        said.append(
            f"{len(some):,} target polygon(s) reach beyond the sources ({listed([theirs[i] for i in some])}); their estimates are of the "
            "part that sources cover."
        )
    out = np.unique(parts.source[~met])
    if kind == "total" and len(out) and y[out].any():
        said.append(
            f"{len(out):,} source polygon(s) reach beyond the targets ({listed([ours[i] for i in out])}); what lies there is in no row, so "
            "the rows add up to less than values."
        )
    return said


def _describe_excess(target: Polygons, estimate: FloatArray, people: FloatArray) -> str:
    """Say which targets have more in them than people."""
    (names,), over = target.labels().values(), np.flatnonzero(estimate > (1 + 1e-9) * people)
    if not len(over):
        return ""
    i = over[0]
    return (
        f"{len(over):,} target polygon(s) have an estimate above their population ({listed([names[k] for k in over])}), first "
        f"{names[i]!r} with {estimate[i]:,.10g} of {people[i]:,.10g}; values count some of population. Check that both are of one year "
        "and one unit; where population only says where to look, such as homes, it is a weight and this is no fault."
    )


def _describe_rates(y: FloatArray, estimate: FloatArray) -> str:
    """Say which totals are likely rates or means: fractions none of which is above 1, or hardly a whole number up to 100."""
    broken = y != np.rint(y)
    if not broken.any() or (y.max() > 1.0 and (y.max() > 100.0 or broken.mean() < 0.5)):
        return ""
    return (
        f"values lie between {y.min():.3g} and {y.max():.3g} with fractions, as rates and means do; as totals they are added up, to "
        f"{estimate.max():.3g} in one target. If they are rates pass kind='rate' with the people of the sources, if means kind='mean'."
    )


def _weights(parts: Parts, target: Polygons, people: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Give the weight of each part, its area or people, and its covariate, centered, (k,) each."""
    met, x = parts.target >= 0, np.zeros(len(parts.area))
    if people is None:
        size, weight = np.log(target.volumes), parts.area
        x[met] = size[parts.target[met]] - np.average(size[parts.target[met]], weights=parts.area[met])
    else:
        covered = np.bincount(parts.target[met], parts.area[met], minlength=len(target))
        # of a target that reaches beyond the sources, only the people of the covered ground
        ground = np.where(covered < COVERED * target.volumes, target.volumes, covered)
        weight = np.where(met, (people / ground)[parts.target], people.sum() / target.volumes.sum()) * parts.area
    empty = np.flatnonzero(np.bincount(parts.source, weight) <= 0)
    if len(empty):
        raise InputError(
            f"population has nobody in {len(empty):,} source polygon(s), rows {listed(empty)} of values; drop them."
        )
    return weight, x


def _shares(
    parts: Parts,
    y: FloatArray,
    error: FloatArray,
    weight: FloatArray,
    x: FloatArray,
    prior: tuple[float, float],
    n_draws: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> tuple[FloatArray, dict[str, float]]:
    """Draw the share of each part in its source, (n_draws, k), and say which scales the evidence prefers."""
    n = len(weight)
    apart = distances(parts.center, parts.center, "plane")
    extent = float(np.ptp(parts.center, axis=0).max()) or 1.0
    lengths, length_prior = prior_nodes(LENGTH, NODES, REACH)
    scales, scale_prior = prior_nodes(prior, NODES, REACH)
    # a total with variance v says as much as y^2 / v events
    some = np.maximum(y, 1.0)
    events = some / (some + error**2 + (SLACK * some) ** 2)
    C = np.zeros((len(y), n))
    C[parts.source, np.arange(n)] = weight * events[parts.source]
    mean = np.full(n, np.log((y.sum() + 0.5) / weight.sum()))
    slopes = np.array(SLOPES if x.any() else SLOPES[:1])
    sizes = np.outer(x, x)
    white = np.eye(n)
    R = [matern(apart, float(length) * extent, "matern32")[0] for length in lengths]
    grid = list(product(range(NODES), range(NODES), range(NODES), range(len(slopes))))

    def covariance(row: int) -> FloatArray:
        r, i, j, k = grid[row]
        return scales[i] ** 2 * R[r] + scales[j] ** 2 * white + LEVEL + slopes[k] ** 2 * sizes

    fits: list[tuple[float, Any]] = []
    failed: list[ConvergenceError] = []
    start = None
    with count_steps(progress, "Weighing scales", len(grid), "fits") as step:
        for row, (r, i, j, _) in enumerate(grid):
            try:
                modes = find_modes(covariance(row), C, PoissonBins((y * events)[None, :]), mean, start)
                start = modes.f
                fits.append((float(modes.log_evidence[0]) + length_prior[r] + scale_prior[i] + scale_prior[j], modes))
            except ConvergenceError as missed:  # the other candidates are averaged
                fits.append((-np.inf, None))
                failed.append(missed)
            if step is not None:
                step()
    if len(failed) > len(grid) // 2:
        raise failed[0]
    best = np.array([e for e, _ in fits])
    found = np.exp(best - best.max())
    found = np.where(found >= KEPT, found, 0.0)
    draws = []
    for row, count in enumerate(_allot(found, n_draws, rng)):
        if count:
            V = posterior_covariance(fits[row][1], covariance(row))
            root = np.linalg.cholesky(V + 1e-10 * white)
            half = rng.standard_normal(((count + 1) // 2, n))
            draws.append(fits[row][1].f[0] + np.concatenate([half, -half])[:count] @ root.T)
    f = np.concatenate(draws)
    raw = weight * np.exp(f - f.max(axis=1, keepdims=True))
    member, of = np.eye(len(y))[parts.source], np.array(grid)
    used = {
        name: float(np.exp(found @ np.log(values[of[:, axis]]) / found.sum()))
        for axis, (name, values) in enumerate(
            (("lengthscale", lengths * extent), ("smooth", scales), ("white", scales))
        )
    }
    used["slope"] = float(found @ (slopes[of[:, 3]] > 0) / found.sum())
    return raw / (raw @ member)[:, parts.source], used


def _counts(
    parts: Parts, y: FloatArray, error: FloatArray, shares: FloatArray, whole: bool, rng: np.random.Generator
) -> FloatArray:
    """Draw the count of every part, (n_draws, k): a total of its distribution, and who of a finite number is where."""
    total = np.tile(y, (len(shares), 1))
    known = (error > EXACT * y) & (error <= WIDE * y)
    shape, scale = (y[known] / error[known]) ** 2, error[known] ** 2 / y[known]
    total[:, known] = rng.gamma(shape, scale, (len(shares), int(known.sum())))
    wide = (error > 0) & (error > WIDE * y)
    total[:, wide] = np.abs(y[wide] + rng.standard_normal((len(shares), int(wide.sum()))) * error[wide])
    total = total[:, parts.source]
    if not whole:
        return shares * total
    # the beta of given mean and size has the variance of a binomial share
    drawn = rng.standard_gamma(np.maximum(shares * total, 1e-8)) + 1e-300
    member = np.eye(len(y))[parts.source]
    return np.asarray(drawn / (drawn @ member)[:, parts.source] * total)
