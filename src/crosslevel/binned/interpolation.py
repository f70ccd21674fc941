"""Carry totals, means or rates of one set of polygons over to another: areal interpolation with margins of error.

The two sets are cut into their common parts. The log density of part k of source b and target t is

    f_k = mean + slope x_t + s g_k + e_k,

g a Gaussian process over the plane (Matern-3/2, at the center of the part), e white, and x_t the log area of the target: areas drawn
to hold similar numbers of people (``population="similar"``) are small where people are dense, and whether and how far that is so here is
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
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.counts.likelihoods import check_size
from crosslevel.binned.densities import DENSITY, RATE, SLACK, Parts, draw_counts, draw_shares
from crosslevel.binned.regions.matching import align_to_regions
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.data.checks import check_counts, check_kind, check_length, check_level
from crosslevel.data.frames import fingerprint
from crosslevel.data.planes import check_planes
from crosslevel.data.shapes import as_shapely, import_shapely
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, listed, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, Progress

SLIVER = 5e-3
"""A part smaller than this share of both its source and its target is a border drawn twice."""
COVERED = 0.99
OVERLAP = 0.05
"""Share of the smaller of two polygons of one set up to which a common part is a border drawn inaccurately."""
KINDS = ("total", "mean", "rate")
MOST_PARTS = 3_000


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
    order = np.argsort(b, kind="stable")
    center = shapely.get_coordinates(shapely.centroid(shapes[order]))
    return Parts(center, b[order].astype(np.int64), t[order].astype(np.int64), area[order])


@checked
def interpolate(
    source: Polygons,
    target: Polygons,
    values: npt.ArrayLike,
    std_error: npt.ArrayLike | None = None,
    *,
    kind: str = "total",
    population: npt.ArrayLike | str | None = None,
    level: float = 0.95,
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
    population : (n_targets,) or "similar", or (n_sources,) for means and rates, optional
        Of totals: people of the targets among whom ``values`` counts some, dasymetric weights; or "similar" where the targets were drawn
        to hold similar numbers of people, as census areas are: the small ones then lie where people are dense, as far as the sources
        show it. Without it the areas of the targets are used. Of means and rates: people of the sources, whose mean or rate it is, spread
        evenly over each; rates need it.
    level : float
        Of the intervals, quantiles of 2,000 draws; the same call gives the same draws.
    progress : bool or callable, optional
        True for a bar on stderr, or a function of what is done and all there is to do.

    Returns
    -------
    Estimates
        A row per target. ``area_weighted`` (or ``people_weighted``) is the plain answer, for comparison; what the sources cover of a
        target is all that is counted.

    Examples
    --------
    >>> def strips(edges):
    ...     return Polygons([[[a, 0], [b, 0], [b, 1], [a, 1]] for a, b in zip(edges[:-1], edges[1:])])
    >>> found = interpolate(strips([0, 2, 4, 6]), strips([0, 1, 3, 6]), [900, 500, 100], [30, 20, 10])
    >>> found["area_weighted"].tolist(), round(float(found["estimate"].sum()), 6)
    ([450.0, 700.0, 350.0], 1500.0)
    >>> bool((found["conf_low"] < found["estimate"]).all())
    True
    >>> homes = {"kind": "rate", "population": [100, 300, 200]}
    >>> interpolate(strips([0, 2, 4, 6]), strips([0, 4, 6]), [0.1, 0.2, 0.3], **homes)["estimate"].round(6)
    array([0.175, 0.3  ])
    """
    check_level(level)
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind")
    similar = isinstance(population, str)
    if similar and (population != "similar" or kind != "total"):
        raise InputError(
            f"population={population!r}, kind={kind!r}; pass numbers of people, or for totals 'similar' where targets were drawn to hold "
            "similar numbers."
        )
    for name, polygons in (("source", source), ("target", target)):
        check_kind(polygons, Polygons, name, "pass Polygons")
    check_planes(source, target)
    for name, polygons in (("source", source), ("target", target)):
        _refuse_overlap(polygons, name)
    y, error, people = _read(source, target, values, std_error, kind, None if similar else population)
    parts = _cut(source, target)
    said = _describe_cover(source, target, parts, y, kind)
    total, whole, prior, x = kind == "total", kind == "rate", RATE, np.zeros(len(parts.area))
    if total:
        weight, whole = _weights(parts, target, people), bool((y == np.rint(y)).all())
        prior = DENSITY if people is None else RATE
        met = parts.target >= 0
        if similar:
            size = np.log(target.volumes)[parts.target[met]]
            x[met] = size - np.average(size, weights=parts.area[met])
        told = y
    else:
        size = source.volumes if people is None else people
        # a mean has no unit of its own: as many events as the fit tells apart; a rate counts some of its people
        unit = size if kind == "rate" else size / (float(y @ size) or 1.0) * len(y) / SLACK**2
        told, error = y * unit, error * unit
        weight = (unit / source.volumes)[parts.source] * parts.area
    shares, used = draw_shares(parts, told, error, weight, x, prior, progress)
    into = np.eye(len(target) + 1)[parts.target, :-1]  # -1, the last column, is none
    if not total:
        into /= weight @ into
    own = told[parts.source]
    estimate = (shares.mean(axis=0) * own) @ into
    if total:
        said += _describe_totals(target, y, estimate, people)
    for text in said:
        warnings.warn(text, CrosslevelWarning, stacklevel=3)
    spread = quantile_interval(draw_counts(parts, told, error, shares, whole) @ into, level)
    (key, names), *_ = target.labels().items()
    plain = "area_weighted" if people is None else "people_weighted"
    return Estimates.build(
        {
            key: names,
            "estimate": estimate,
            "std_error": spread.std_error,
            "conf_low": np.minimum(spread.low, estimate),
            "conf_high": np.maximum(spread.high, estimate),
            plain: (weight / parts.sums(weight)[parts.source] * own) @ into,
        },
        keys=[key],
        kind="binned",
        method=f"{kind}s of areas carried over to others by " + ("density" if people is None else "rates among people"),
        level=level,
        interval=f"predictive quantile of the {kind}",
        provenance=Provenance.of(
            call=f"interpolate({len(y)} areas, {len(target)} areas, kind={kind!r})",
            seed=0,
            data={"values": fingerprint({"y": told, "std_error": error})},
        ),
        diagnostics={"converged": True, "parts": len(weight), **used},
        warnings=said,
        title=f"{kind.capitalize()}s of other areas",
    )


def _read(
    source: Polygons, target: Polygons, values: Any, std_error: Any, kind: str, population: Any
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Put values, standard errors and people in the order of the polygons, and check them."""
    y = _told(source, "values", values)
    _, std_error = align_to_regions(source, values, std_error=std_error)
    error = np.zeros(len(y)) if std_error is None else _told(source, "std_error", std_error)
    if kind == "rate" and (population is None or y.max() > 1.0):
        raise InputError(
            f"kind='rate' takes shares, up to 1 (values reach {y.max():g}), of the people of each source, population=. Means of anything "
            "are kind='mean'; divide percent by 100."
        )
    if population is None:
        return y, error, None
    people = _told(target if kind == "total" else source, "population", population)
    if kind != "total":
        _refuse_empty(people)
    return y, error, people


def _told(polygons: Polygons, argument: str, values: Any) -> FloatArray:
    """Read a number of each polygon, none of them negative."""
    (values,) = align_to_regions(polygons, values, argument=argument)
    found = check_counts(values, argument, 1)
    check_length(found, argument, len(polygons), "polygons")
    check_size(found, argument)
    return found


def _refuse_empty(people: FloatArray) -> None:
    """Refuse sources without people."""
    empty = np.flatnonzero(people <= 0)
    if len(empty):
        raise InputError(
            f"population has nobody in {len(empty):,} source polygon(s), rows {listed(empty)} of values; drop them."
        )


def _refuse_overlap(polygons: Polygons, argument: str) -> None:
    """Refuse polygons of one set that overlap: whoever lives there would be split among them, or counted twice."""
    shapely = import_shapely()
    shapes = np.asarray(as_shapely(polygons.shapes))
    i, j = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    i, j = i[i < j], j[i < j]
    shared = shapely.area(shapely.intersection(shapes[i], shapes[j]))
    share = shared / np.minimum(polygons.volumes[i], polygons.volumes[j])
    if (share > OVERLAP).any():
        (names,), worst = polygons.labels().values(), int(np.argmax(share))
        raise InputError(
            f"{argument}: polygons {names[i[worst]]!r} and {names[j[worst]]!r} share {100 * share[worst]:.0f} % of the smaller, as do "
            f"{int((share > OVERLAP).sum()) - 1:,} other pair(s). Call interpolate once for each set that does not overlap."
        )


def _describe_cover(source: Polygons, target: Polygons, parts: Parts, y: FloatArray, kind: str) -> list[str]:
    """Refuse sets that do not meet, and say which ground only one of them covers."""
    (theirs,), (ours,) = target.labels().values(), source.labels().values()
    met = parts.target >= 0
    covered = np.bincount(parts.target[met], parts.area[met], minlength=len(target)) / target.volumes
    bare, some = np.flatnonzero(covered == 0), np.flatnonzero(covered < COVERED)
    if len(bare):
        raise InputError(
            f"target has {len(bare):,} polygon(s) that lie in no source polygon ({listed([theirs[i] for i in bare])}); leave them out, or "
            "check that both sets are in one plane."
        )
    if len(parts.area) > MOST_PARTS:
        raise InputError(
            f"source and target have {len(parts.area):,} common parts, and at most {MOST_PARTS:,} are fitted at once; interpolate state "
            "by state."
        )
    said = []
    if len(some):
        said.append(
            f"{len(some):,} target polygon(s) reach beyond the sources ({listed([theirs[i] for i in some])}); their estimates are of the "
            "part that sources cover."
        )
    out = np.unique(parts.source[~met])
    if kind == "total" and y[out].any():
        said.append(
            f"{len(out):,} source polygon(s) reach beyond the targets ({listed([ours[i] for i in out])}); what lies there is in no row."
        )
    return said


def _describe_totals(target: Polygons, y: FloatArray, estimate: FloatArray, people: FloatArray | None) -> list[str]:
    """Say which targets have more in them than people, and which totals are likely rates or means."""
    said, (names,) = [], target.labels().values()
    over = np.flatnonzero(estimate > (np.inf if people is None else (1 + 1e-9) * people))
    if len(over):
        said.append(
            f"{len(over):,} target polygon(s) have an estimate above their population ({listed([names[k] for k in over])}). Check that "
            "both are of one year and one unit; where population only says where to look, such as homes, this is no fault."
        )
    broken = y != np.rint(y)  # fractions none of which is above 1, or hardly a whole number up to 100
    if broken.any() and (y.max() <= 1.0 or (y.max() <= 100.0 and broken.mean() >= 0.5)):
        said.append(
            f"values lie between {y.min():.3g} and {y.max():.3g} with fractions, as rates and means do, and are added up, to "
            f"{estimate.max():.3g} in one target. Rates are kind='rate' with the people of the sources, means kind='mean'."
        )
    return said


def _weights(parts: Parts, target: Polygons, people: FloatArray | None) -> FloatArray:
    """Give the weight of each part: its area, or people."""
    if people is None:
        return parts.area
    met = parts.target >= 0
    covered = np.bincount(parts.target[met], parts.area[met], minlength=len(target))
    # of a target that reaches beyond the sources, only the people of the covered ground
    ground = np.where(covered < COVERED * target.volumes, target.volumes, covered)
    weight = np.where(met, (people / ground)[parts.target], people.sum() / target.volumes.sum()) * parts.area
    _refuse_empty(parts.sums(weight))
    return weight
