"""Longitudes and latitudes to a plane in which areas are true."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["centre_of", "equal_area", "is_geographic", "laid_out"]

MAIN = 0.8
"""Share of the places that the largest group must hold for the others to be drawn apart."""
SPREAD = 1.5
"""Far places are drawn apart when the map would be this much wider or higher with them in their place."""
CELLS = 15
"""Places are of one group when less than about a fifteenth of the map's size lies between them."""
INSET = 0.22
"""Largest width or height of a group drawn apart, as a share of the map's width."""
FLAT = 0.05
"""A cone flatter than this is a cylinder to the eye, and its apex too far away for stable arithmetic."""


def is_geographic(points: npt.NDArray[np.float64]) -> bool:
    """Tell whether points of shape (n, 2) can be longitudes and latitudes: all within 360 and 90 degrees."""
    x, y = points.T
    return bool(np.abs(y).max() <= 90 and ((np.abs(x).max() <= 180.5) or (x.min() >= 0 and x.max() <= 360)))


def centre_of(longitude: npt.NDArray[np.float64]) -> float:
    """Give the meridian in the middle of the places, whichever side of the date line they lie on.

    It is opposite the widest gap between longitudes, so that no place near it is cut.

    Examples
    --------
    >>> centre_of(np.array([170.0, -170.0]))
    180.0
    """
    turned = np.unique(np.mod(longitude, 360))
    gaps = np.diff(np.append(turned, turned[0] + 360))
    widest = int(np.argmax(gaps))
    return float(np.mod(turned[widest] + gaps[widest] / 2 + 180, 360))


def equal_area(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Project longitudes and latitudes by Albers' equal-area cone, fitted to the points.

    The standard parallels lie a sixth of the latitudes from either end. Places on both sides of the equator, or so near it
    that the cone is a cylinder, are projected on Lambert's equal-area cylinder.

    Parameters
    ----------
    points : array of shape (n, 2)
        Longitude and latitude in degrees.

    Returns
    -------
    array of shape (n, 2)
        In radii of the sphere; y grows northwards.

    Notes
    -----
    J. P. Snyder, Map Projections: A Working Manual (1987), equations 14-1 to 14-6 and 10-1, 10-2.
    """
    x = points[:, 0] - centre_of(points[:, 0])
    turn = np.radians(np.mod(x + 180, 360) - 180)
    latitude = np.radians(points[:, 1])
    low, high = float(latitude.min()), float(latitude.max())
    first, second = low + (high - low) / 6, high - (high - low) / 6
    n = (np.sin(first) + np.sin(second)) / 2
    if low * high < 0 or abs(n) < FLAT:
        standard = np.cos((first + second) / 2 if low * high >= 0 else max(abs(first), abs(second)) / 2)
        return np.column_stack([turn * standard, np.sin(latitude) / standard])
    c = np.cos(first) ** 2 + 2 * n * np.sin(first)
    radius = np.sqrt(np.maximum(c - 2 * n * np.sin(latitude), 0)) / n
    origin = np.sqrt(c - 2 * n * np.sin((low + high) / 2)) / n
    return np.column_stack([radius * np.sin(n * turn), origin - radius * np.cos(n * turn)])


def laid_out(points: npt.NDArray[np.float64], place: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Project places so that a few far ones do not shrink the others: these are drawn in a row beneath, each group by itself.

    Alaska, Hawaii and the islands of the United States, or overseas departments of France, are drawn so.

    Parameters
    ----------
    points : array of shape (n, 2)
        Longitude and latitude in degrees.
    place : array of shape (n,)
        Number of the place each point belongs to.

    Returns
    -------
    array of shape (n, 2)
    """
    group = _groups(points, place)
    sizes = np.bincount(group[np.unique(place, return_index=True)[1]])
    main = int(np.argmax(sizes))
    if len(sizes) == 1 or sizes[main] < MAIN * sizes.sum():
        return equal_area(points)
    inner = group == main
    plane = np.zeros_like(points, dtype=np.float64)
    plane[inner] = equal_area(points[inner])
    whole = equal_area(points)
    if (np.ptp(whole, axis=0) < SPREAD * np.ptp(whole[inner], axis=0)).all():
        return whole
    low, high = plane[inner].min(axis=0), plane[inner].max(axis=0)
    limit = INSET * (high[0] - low[0])
    gap, across, top = 0.15 * limit, float(low[0]), float(low[1])
    for other in sorted(set(range(len(sizes))) - {main}, key=lambda g: -sizes[g]):
        mine = group == other
        drawn = equal_area(points[mine])
        drawn = (drawn - drawn.min(axis=0)) * min(1.0, limit / max(float(np.ptp(drawn, axis=0).max()), 1e-12))
        if across + np.ptp(drawn[:, 0]) > high[0]:
            across, top = float(low[0]), top - limit - gap
        plane[mine] = drawn + np.array([across, top - gap - float(drawn[:, 1].max())])
        across += float(np.ptp(drawn[:, 0])) + gap
    return plane


def _groups(points: npt.NDArray[np.float64], place: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Number the groups of places that lie near one another, a number for each point."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    turn = np.mod(points[:, 0] - centre_of(points[:, 0]) + 180, 360)
    # a point of each place: coasts have many more than plains
    one = np.unique(place, return_index=True)[1]
    low, middle, high = np.quantile(points[one, 1], [0.05, 0.5, 0.95])
    shrink = max(np.cos(np.radians(middle)), 0.1)
    size = max(float(np.diff(np.quantile(turn[one], [0.05, 0.95]))[0]) * shrink, float(high - low), 1e-9) / CELLS
    at = np.column_stack([turn * shrink, points[:, 1]]) // size
    cells, cell = np.unique(at, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    number = {(int(x), int(y)): i for i, (x, y) in enumerate(cells)}
    near = [
        (i, number[x + dx, y + dy])
        for (x, y), i in number.items()
        for dx in (-1, 0, 1)
        for dy in (-1, 0, 1)
        if (x + dx, y + dy) in number
    ]
    # a place joins the cells it touches, so that a large one is not torn
    rows = np.concatenate([np.array([i for i, _ in near]), cell])
    columns = np.concatenate([np.array([j for _, j in near]), len(cells) + place])
    n = len(cells) + int(place.max()) + 1
    _, found = connected_components(coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)), directed=False)
    return np.unique(found[cell], return_inverse=True)[1].reshape(-1)
