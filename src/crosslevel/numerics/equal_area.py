"""Longitude and latitude to a plane in kilometers in which areas are true: Lambert's azimuthal projection of the ellipsoid.

Every area is exact; distances within 100 km of the origin are true to 1 part in 30,000, within 1,000 km to 1 in 300.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.typing import FloatArray

__all__ = ["to_plane"]


AXIS_KM = 6378.137
ECCENTRICITY = 0.0818191908426215  # WGS 84


def to_plane(degrees: npt.ArrayLike, origin: tuple[float, float]) -> FloatArray:
    """Project longitude and latitude (..., 2) to kilometers east and north of ``origin``, areas kept.

    Snyder, *Map projections: a working manual* (1987), eqs. 24-17 to 24-26.

    Parameters
    ----------
    degrees : (..., 2)
    origin : (longitude, latitude)
        The middle of the region, not a pole.

    Examples
    --------
    >>> to_plane([[-2.3, 53.4], [-2.3, 53.5]], (-2.3, 53.4)).round(2) + 0.0
    array([[ 0.  ,  0.  ],
           [ 0.  , 11.13]])
    """
    at = np.radians(np.asarray(degrees, dtype=np.float64))
    away = at[..., 0] - np.radians(origin[0])
    middle = np.radians(origin[1])
    pole = _q(np.asarray(np.pi / 2))
    radius = AXIS_KM * np.sqrt(pole / 2.0)
    b, b1 = np.arcsin(np.clip(_q(at[..., 1]) / pole, -1.0, 1.0)), np.arcsin(_q(np.asarray(middle)) / pole)
    m1 = np.cos(middle) / np.sqrt(1.0 - (ECCENTRICITY * np.sin(middle)) ** 2)
    stretch = AXIS_KM * m1 / (radius * np.cos(b1))
    size = radius * np.sqrt(2.0 / (1.0 + np.sin(b1) * np.sin(b) + np.cos(b1) * np.cos(b) * np.cos(away)))
    east = size * stretch * np.cos(b) * np.sin(away)
    north = size / stretch * (np.cos(b1) * np.sin(b) - np.sin(b1) * np.cos(b) * np.cos(away))
    return np.stack([east, north], axis=-1)


def _q(latitude: FloatArray) -> FloatArray:
    """Give the area between equator and latitude, in units of half the squared axis times longitude."""
    e, s = ECCENTRICITY, np.sin(latitude)
    return np.asarray((1.0 - e**2) * (s / (1.0 - (e * s) ** 2) + np.arctanh(e * s) / e))
