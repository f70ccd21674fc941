"""Find the area that holds a place, and weight areas by the people in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import WeightedSum
from crosslevel.data.checks import check_finite, check_weights
from crosslevel.data.planes import check_planes
from crosslevel.data.shapes import as_shapely, import_shapely
from crosslevel.errors import InputError, listed
from crosslevel.typing import Int64Array

__all__ = ["holders", "populated"]


def holders(inner: Any, outer: Polygons) -> Int64Array:
    """Find the polygon of ``outer`` that holds each point, or each polygon of ``inner``: its row number, or -1.

    A polygon belongs where a point well inside it lies, so borders that were simplified differently do no harm. A point on a common
    border belongs to the first.

    Parameters
    ----------
    inner : (p, 2) points, or Polygons
    outer : Polygons

    Examples
    --------
    >>> outer = Polygons([[[0, 0], [1, 0], [1, 1], [0, 1]], [[1, 0], [2, 0], [2, 1], [1, 1]]])
    >>> holders([[0.5, 0.5], [1.5, 0.5], [9.0, 9.0]], outer)
    array([ 0,  1, -1])
    """
    shapely = import_shapely()
    if isinstance(inner, Polygons):
        check_planes(inner, outer)
        at = shapely.point_on_surface(as_shapely(inner.shapes))
    else:
        points = check_finite(inner, "inner", 2)
        if points.shape[1] != 2:
            raise InputError(f"inner has shape {points.shape}; pass a row of two coordinates per point.")
        at = shapely.points(points)
    number, row = shapely.STRtree(as_shapely(outer.shapes)).query(at, predicate="intersects")
    found = np.full(len(at), len(outer), dtype=np.int64)
    np.minimum.at(found, number, row)
    return np.where(found == len(outer), -1, found)


def populated(outer: Polygons, places: Any, population: npt.ArrayLike) -> WeightedSum:
    """Weight areas by their people: dasymetric weights from places with known populations.

    The integral of f over an area becomes the sum over its places of population times f there, so that its mean is a mean over people:
    the model of a rate. A place is a point (a household, the center of a block), or a polygon over which its people are spread
    evenly. Places outside every area are left out.

    Parameters
    ----------
    outer : Polygons
    places : (p, 2) points, or Polygons
    population : (p,)

    Returns
    -------
    WeightedSum
        One region for each of ``outer``, in the same order.

    Examples
    --------
    >>> towns = Polygons([[[0, 0], [1, 0], [1, 1], [0, 1]], [[1, 0], [2, 0], [2, 1], [1, 1]]])
    >>> populated(towns, [[0.2, 0.5], [0.4, 0.1], [1.5, 0.5]], [10, 30, 7]).volumes
    array([40.,  7.])
    """
    owner = holders(places, outer)
    people = check_weights(population, "population", len(owner))
    inside = np.flatnonzero(owner >= 0)
    empty = np.flatnonzero(np.bincount(owner[inside], people[inside], minlength=len(outer)) <= 0)
    if len(empty):
        (names,) = outer.labels().values()
        raise InputError(
            f"{len(empty):,} area(s) hold no population ({listed([names[i] for i in empty])}); leave them out, or pass places with "
            "people in them."
        )
    parts = places[inside] if isinstance(places, Polygons) else check_finite(places, "places", 2)[inside]
    return WeightedSum.of_population(parts, people[inside], owner[inside])
