"""What should the reader know of the regions: gaps, overlaps, places the data do not speak of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.shapes import as_shapely, import_shapely
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.integrals import White
from crosslevel.typing import FloatArray

__all__ = ["layout_notes", "overlap", "shared_volumes", "slack", "uninformed"]


UNKNOWN = 0.05
"""Share of the prior variance that the data must remove for a region to count as informed."""
MOST_COMPARED = 3000
"""Regions beyond which boxes are not compared pair by pair."""


def layout_notes(regions: Regions) -> tuple[str, ...]:
    """Say where observed intervals leave gaps and where they overlap; both are allowed, and may be a slip."""
    if not isinstance(regions, Intervals):
        return ()
    said = []
    gaps, overlaps = regions.gaps(), regions.overlaps()
    if gaps:
        said.append(
            f"{len(gaps)} gap(s) between intervals, first from {gaps[0][0]:g} to {gaps[0][1]:g}: the curve is inferred there. If groups "
            "were written 0-9, 10-19, their upper limits are 10 and 20."
        )
    if overlaps:
        i, j = overlaps[0]
        said.append(
            f"{len(overlaps)} overlap(s), first rows {i} and {j} ([{regions.lower[i]:g}, {regions.upper[i]:g}) and "
            f"[{regions.lower[j]:g}, {regions.upper[j]:g})): both totals are taken to count the people they share."
        )
    return tuple(said)


def uninformed(variance: FloatArray, prior_variance: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which predictions the data hardly changed: less than 5 % of the prior variance is gone.

    Examples
    --------
    >>> uninformed(np.array([0.99, 0.2]), np.ones(2))
    array([ True, False])
    """
    return np.asarray(variance > (1.0 - UNKNOWN) * prior_variance)


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
        shared = White().covariance((s, t), (u, v), 1.0)[0]
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
