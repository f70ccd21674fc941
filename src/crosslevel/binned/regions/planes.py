"""Place polygons in a plane, and refuse to use regions of different planes together.

Longitude and latitude to a plane in kilometers in which areas are true: Lambert's azimuthal projection of the ellipsoid.

Every area is exact; distances within 100 km of the origin are true to 1 part in 30,000, within 1,000 km to 1 in 300.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.shapes import Shape, Source, crs_kind
from crosslevel.errors import CrosslevelWarning, InputError, MissingExtraError
from crosslevel.typing import FloatArray

FAR = 1e4
"""Coordinates beyond this, beside others that fit in degrees, show that two systems are mixed."""


@dataclass(frozen=True)
class Plane:
    """The plane of some regions.

    Attributes
    ----------
    kind : {"plane", "degrees", "km"}
        Plane coordinates as given; longitude and latitude used as if they were plane; kilometers about ``origin``, equal-area.
    origin : (longitude, latitude), or None
    crs : str or None
        Name of the coordinate system as noted in the source.
    """

    kind: str = "plane"
    origin: tuple[float, float] | None = None
    crs: str | None = None

    def describe(self) -> str:
        """Say which plane it is."""
        if self.kind == "km" and self.origin is not None:
            return f"kilometers about longitude {self.origin[0]:.6g}, latitude {self.origin[1]:.6g}"
        if self.kind == "degrees":
            return "degrees of longitude and latitude (unprojected)"
        return f"the projected plane {self.crs!r}" if self.crs else "plane coordinates"


def check_planes(*regions: Any) -> None:
    """Refuse to use regions together whose coordinates lie in different planes; regions that do not say are accepted.

    Examples
    --------
    >>> class R:
    ...     def __init__(self, plane): self.plane = plane
    >>> check_planes(R(Plane("km", (0.0, 50.0))), R(Plane("km", (0.0, 50.0))))
    >>> check_planes(R(Plane("degrees")), R(Plane("plane", crs="EPSG:27700")))
    Traceback (most recent call last):
        ...
    crosslevel.errors.InputError: regions in degrees of longitude and latitude (unprojected) and in the projected plane 'EPSG:27700' ...
    """
    known = list(_planes(regions))
    for other in known[1:]:
        first = known[0]
        differ = first.kind != other.kind or first.origin != other.origin
        if not differ and first.kind == "plane" and first.crs and other.crs:
            differ = first.crs != other.crs
        if differ:
            raise InputError(
                f"regions in {first.describe()} and in {other.describe()} are mixed; bring both to one plane: the same crs, or "
                "Polygons(..., project=the_other_polygons)."
            )


def _planes(regions: Iterable[Any]) -> Iterator[Plane]:
    """Find the planes of regions, of the parts of sums, and of the members of stacks."""
    for r in regions:
        plane = getattr(r, "plane", None)
        if isinstance(plane, Plane):
            yield plane
        if hasattr(r, "parts"):
            yield from _planes([r.parts])
        yield from _planes(getattr(r, "members", ()))


def place(source: Source, crs: str | None, project: Any, argument: str = "shapes") -> tuple[list[Shape], Plane]:
    """Decide the plane of polygons as read, and project them where asked.

    Parameters
    ----------
    source : Source
    crs : str, optional
        Overrides what the source says: "degrees", "plane", or the name of a coordinate system.
    project : None, "local", (longitude, latitude), or regions that have been projected
    """
    corners = [np.concatenate([ring for part in shape for ring in part]) for shape in source.shapes]
    _refuse_mixture(corners)
    every = np.concatenate(corners)
    fits = bool((np.abs(every[:, 0]) <= 360).all() and (np.abs(every[:, 1]) <= 90).all())
    degrees, name = source.degrees, source.crs
    if crs is not None:
        degrees, name = crs_kind(crs)
        name = None if crs in ("plane", "degrees") else name
    elif degrees and name == "GeoJSON":  # no system noted: the standard says degrees, unless the numbers cannot be
        degrees, name = fits, None
    if degrees and not fits:
        worst = every[np.abs(every[:, 1]).argmax()]
        raise InputError(
            f"{argument} says its coordinates are longitude and latitude ({name}), but has the corner ({worst[0]:g}, {worst[1]:g}): a "
            "projected and an unprojected coordinate system are mixed. Pass the right crs=, or reproject with GeoDataFrame.to_crs."
        )
    if project is None:
        if degrees:
            warnings.warn(
                f"{argument} is in longitude and latitude; degrees are used as if they were a plane, so areas are in square degrees and "
                "east-west distances are too long. Pass project='local' for an equal-area plane in kilometers.",
                CrosslevelWarning,
                stacklevel=5,
            )
        return source.shapes, Plane("degrees" if degrees else "plane", None, name)
    if degrees is False:
        raise InputError(
            f"project={project!r} needs longitude and latitude, but {argument} is already projected ({name or 'plane'}); leave project out."
        )
    if not fits:
        raise InputError(
            f"project={project!r} needs longitude and latitude, but {argument} has coordinates beyond 90 degrees."
        )
    origin = _origin(project, every)
    shapes = [[[to_plane(ring, origin) for ring in part] for part in shape] for shape in source.shapes]
    return shapes, replace(Plane("km"), origin=origin, crs=name)


def _origin(project: Any, corners: FloatArray) -> tuple[float, float]:
    if isinstance(project, str):
        if project != "local":
            raise InputError(
                f"project={project!r} is not known; pass 'local', (longitude, latitude) or projected Polygons."
            )
        low, high = corners.min(axis=0), corners.max(axis=0)
        return float(0.5 * (low[0] + high[0])), float(0.5 * (low[1] + high[1]))
    plane = getattr(project, "plane", None)
    if isinstance(plane, Plane):
        if plane.origin is None:
            raise InputError(
                f"project= names polygons in {plane.describe()}, which have no origin; make those with project='local' first."
            )
        return plane.origin
    if isinstance(project, Sequence) and len(project) == 2:
        return float(project[0]), float(project[1])
    raise InputError(f"project={project!r} is not known; pass 'local', (longitude, latitude) or projected Polygons.")


def _refuse_mixture(corners: Sequence[FloatArray]) -> None:
    degrees = [i for i, c in enumerate(corners) if np.abs(c[:, 0]).max() <= 180 and np.abs(c[:, 1]).max() <= 90]
    far = [i for i, c in enumerate(corners) if np.abs(c).max(axis=1).min() > FAR]
    if degrees and far and len(degrees) + len(far) == len(corners):
        raise InputError(
            f"polygon {degrees[0]} has coordinates like longitude and latitude and polygon {far[0]} projected ones (over {FAR:,.0f}): two "
            "coordinate systems are mixed. Bring all polygons to one, for example with GeoDataFrame.to_crs."
        )


def to_plane(degrees: npt.ArrayLike, origin: tuple[float, float]) -> FloatArray:
    """Project longitude and latitude (..., 2) to kilometers east and north of ``origin``, areas kept (Lambert's azimuthal projection).

    Parameters
    ----------
    degrees : (..., 2)
    origin : (longitude, latitude)

    Examples
    --------
    >>> to_plane([[-2.3, 53.4], [-2.3, 53.5]], (-2.3, 53.4)).round(2) + 0.0
    array([[ 0.  ,  0.  ],
           [ 0.  , 11.13]])
    """
    at = np.asarray(degrees, dtype=np.float64)
    return np.stack(_projection(*origin).transform(at[..., 0], at[..., 1]), axis=-1)


@cache
def _projection(longitude: float, latitude: float) -> Any:
    try:
        from pyproj import Transformer
    except ImportError as error:
        raise MissingExtraError("project= needs pyproj; pip install 'crosslevel[geo]'.") from error
    plane = f"+proj=laea +lon_0={longitude} +lat_0={latitude} +units=km +ellps=WGS84"
    return Transformer.from_crs("EPSG:4326", plane, always_xy=True)
