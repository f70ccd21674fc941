"""Baselines of any model of bins: uniform spreading and area weighting."""

from __future__ import annotations

import numpy as np

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import Intervals
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.shapes import as_shapely, import_shapely
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.integrals.correlations import shared_lengths
from crosslevel.typing import FloatArray

MOST_COMPARED = 3000
"""Regions beyond which boxes are not compared pair by pair."""


def uniform_spread(C: FloatArray, totals: FloatArray) -> FloatArray:
    """Spread every total evenly over its bin, by the weights of its cells.

    Parameters
    ----------
    C : (B, A)
        Weight of each cell in each bin.
    totals : (B,)

    Returns
    -------
    (A,)
        Expected counts; a cell of several bins gets the mean of their densities.

    Examples
    --------
    >>> uniform_spread(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([6.0, 1.0]))
    array([3., 3., 1.])
    """
    shares = C / C.sum(axis=1, keepdims=True)
    return np.asarray((totals @ shares) / np.maximum((C > 0).sum(axis=0), 1))


def area_weighting(overlap: FloatArray, area: FloatArray, totals: FloatArray) -> FloatArray:
    """Give every target the part of each source's total that its overlap is of the source's area.

    Parameters
    ----------
    overlap : (targets, sources)
        Area in common.
    area : (sources,)
    totals : (sources,)

    Examples
    --------
    >>> area_weighting(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([2.0, 2.0]), np.array([10.0, 4.0]))
    array([5., 9.])
    """
    return np.asarray((overlap / area) @ totals)


def shared_volumes(a: Regions, b: Regions) -> FloatArray | None:
    """Measure the volume that each region of a shares with each of b, (n, m); None unless all are single boxes, or all polygons.

    A point of ``a`` counts 1 where it lies in a box of ``b``, borders included on the lower side.
    """
    if isinstance(a, Polygons) and isinstance(b, Polygons):
        return _shared_areas(a, b)
    p, q = a.pieces(), b.pieces()
    if p is None or q is None or not (p.simple and q.simple):
        return None
    out = np.ones((p.n, q.n))
    for d in range(a.dimension):
        s, t, u, v = p.lower[:, d], p.upper[:, d], q.lower[:, d], q.upper[:, d]
        shared = shared_lengths((s, t), (u, v))
        at = (s == t)[:, None]
        inside = (s[:, None] >= u) & ((s[:, None] < v) | ((u == v) & (s[:, None] == u)))
        out *= np.where(at, inside, shared)
    return out


def overlap(regions: Regions) -> bool | None:
    """Tell whether any two regions share volume; None when that is not known, or too many to compare."""
    if isinstance(regions, Intervals):
        return bool(regions.overlaps())
    if len(regions) > MOST_COMPARED:
        return None
    shared = shared_volumes(regions, regions)
    return None if shared is None else bool((np.triu(shared, 1) > slack(regions) * np.diag(shared)).any())


def slack(regions: Regions) -> float:
    """Give the share of a region that is nothing: limits of boxes are exact, borders of polygons were drawn twice."""
    return 1e-4 if isinstance(regions, Polygons) else 1e-9


def _shared_areas(a: Polygons, b: Polygons) -> FloatArray | None:
    try:
        shapely = import_shapely()
    except MissingExtraError:  # a saved model may be read where polygons cannot be cut
        return None
    given, others = as_shapely(a.shapes), as_shapely(b.shapes)
    i, j = shapely.STRtree(others).query(given, predicate="intersects")
    out = np.zeros((len(given), len(others)))
    out[i, j] = shapely.area(shapely.intersection(given[i], others[j]))
    return out
