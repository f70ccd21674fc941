"""Read polygons from whatever holds them: shapely, GeoJSON (dictionary or file), GeoDataFrames, lists of rings.

Everything becomes one form: a polygon is a list of parts, a part a list of rings (the outer one first, then holes), a ring an array of
corners (c, 2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslevel.errors import FileError, InputError, MissingExtraError, listed, unknown_name
from crosslevel.typing import FloatArray

Shape = list[list[FloatArray]]

DEGREES = ("crs84", "4326", "4269", "4258", "4283", "wgs 84", "wgs84", "nad83", "etrs89", "degrees")
"""What the names of coordinate systems in longitude and latitude hold."""


@dataclass(frozen=True, eq=False)
class Source:
    """Polygons as read: their shapes, names, and the coordinate system if one is noted.

    Attributes
    ----------
    shapes : list of Shape
    names : list of str, or None
    degrees : bool or None
        Whether the coordinates are longitude and latitude; None where nothing says so.
    crs : str or None
        Name of the coordinate system.
    """

    shapes: list[Shape]
    names: list[str] | None
    degrees: bool | None
    crs: str | None


def import_shapely() -> Any:
    """Import shapely, or say how to install it."""
    try:
        import shapely
    except ImportError as error:
        raise MissingExtraError(
            "polygons are checked, repaired and cut by shapely, which is not installed; pip install 'crosslevel[geo]'."
        ) from error
    return shapely


def read_shapes(given: Any, key: str | None = None) -> Source:
    """Read polygons in any of the forms `Polygons` takes.

    Parameters
    ----------
    given : path, mapping, GeoDataFrame, geometry or sequence of geometries
    key : str, optional
        The property or column that names the polygons.

    Examples
    --------
    >>> square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    >>> source = read_shapes([square, square])
    >>> len(source.shapes), source.degrees
    (2, None)
    """
    shapely, names = import_shapely(), None
    if isinstance(given, str | Path):
        given = _load(Path(given))
    elif hasattr(given, "__geo_interface__") and not hasattr(given, "__len__"):
        given = given.__geo_interface__
    degrees, crs = crs_kind(None if isinstance(given, Mapping) else getattr(given, "crs", None))
    if isinstance(given, Mapping):
        try:
            every, names, degrees, crs = _features(given, key)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"shapes is no whole GeoJSON ({error!r}); export it again.") from error
    elif hasattr(given, "geometry") and hasattr(given, "columns"):
        every = list(given.geometry)
        if key is not None and key not in given.columns:
            raise unknown_name("key", key, list(map(str, given.columns)))
        names = None if key is None else [str(v) for v in given[key]]
    elif isinstance(given, Iterable):
        every = list(given)
    else:
        raise InputError(
            f"shapes is a {type(given).__name__}; pass shapely polygons, GeoJSON (a dictionary or the path of a file) or a GeoDataFrame."
        )
    if not every:
        raise InputError("shapes holds no polygon; pass at least one.")
    return Source([_shape(shapely, one, number) for number, one in enumerate(every)], names, degrees, crs)


def _features(given: Mapping[str, Any], key: str | None) -> tuple[list[Any], list[str] | None, bool | None, str | None]:
    """Give the geometries of GeoJSON, their names, and the coordinate system."""
    if given["type"] in ("Polygon", "MultiPolygon"):
        return [given], None, None, None
    features = [given] if given["type"] == "Feature" else list(given["features"])
    # without a "crs" member GeoJSON is longitude and latitude by its standard (RFC 7946)
    system = given.get("crs")
    degrees, crs = crs_kind(system["properties"]["name"]) if system else (True, "GeoJSON")
    properties = [one.get("properties") or {} for one in features]
    for number, own in enumerate(properties):
        if key is not None and key not in own:
            raise InputError(f"feature {number}: {unknown_name('key', key, list(own), 'property')}")
    names = None if key is None else [str(own[key]) for own in properties]
    return [one["geometry"] for one in features], names, degrees, crs


def _load(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}; pass the path of a GeoJSON file.") from error
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror or error}); pass the path of a GeoJSON file."
        ) from error
    except (ValueError, RecursionError) as error:  # no text, no JSON, a number of thousands of digits, too deep
        raise FileError(
            f"{path} is no GeoJSON ({error}); read shapefiles with geopandas.read_file and pass that."
        ) from error
    if not isinstance(found, Mapping):
        raise FileError(f"{path} holds a {type(found).__name__}, not a GeoJSON object.")
    return found


def crs_kind(crs: Any) -> tuple[bool | None, str | None]:
    """Say whether a coordinate system, by object or name, is in longitude and latitude, and give its name.

    Examples
    --------
    >>> crs_kind("urn:ogc:def:crs:OGC:1.3:CRS84"), crs_kind("EPSG:27700")
    ((True, 'urn:ogc:def:crs:OGC:1.3:CRS84'), (False, 'EPSG:27700'))
    """
    if crs is None:
        return None, None
    if hasattr(crs, "is_geographic"):
        return bool(crs.is_geographic), str(getattr(crs, "name", crs))
    text = str(crs)
    return any(word in text.casefold() for word in DEGREES), text


def _shape(shapely: Any, one: Any, number: int) -> Shape:
    """Read one polygon or multipolygon."""
    if one is None:
        raise InputError(f"polygon {number} has no geometry; drop it.")
    try:
        if isinstance(one, Mapping) or hasattr(one, "__geo_interface__"):
            one = shapely.geometry.shape(one["geometry"] if isinstance(one, Mapping) and "geometry" in one else one)
        else:
            rings = [np.array(ring, dtype=np.float64) for ring in (one if np.ndim(one[0]) == 2 else [one])]
            with np.errstate(invalid="ignore"):  # refused below
                one = shapely.Polygon(rings[0], rings[1:])
        parts = list(getattr(one, "geoms", [one]))
        shape = [
            [np.asarray(ring.coords, dtype=np.float64)[:-1, :2] for ring in (p.exterior, *p.interiors)] for p in parts
        ]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, shapely.errors.ShapelyError) as error:
        raise InputError(f"polygon {number} is no polygon that encloses an area ({error}); drop or mend it.") from error
    if not shape or not all(len(ring) and np.isfinite(ring).all() for part in shape for ring in part):
        raise InputError(f"polygon {number} is empty, or has a missing or infinite corner; repair or drop it.")
    return shape


def as_shapely(shapes: Sequence[Shape]) -> Any:
    """Make shapely geometries, (n,) array of objects."""
    shapely = import_shapely()
    made = []
    for shape in shapes:
        parts = [shapely.Polygon(rings[0], rings[1:]) for rings in shape]
        made.append(parts[0] if len(parts) == 1 else shapely.MultiPolygon(parts))
    return np.array(made, dtype=object)


def sound(shapes: list[Shape], names: Sequence[object], repair: bool) -> tuple[list[Shape], int]:
    """Refuse polygons that cross themselves, or repair them; give the shapes and how many were repaired.

    Examples
    --------
    >>> bow = [[np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])]]
    >>> fixed, count = sound([bow], ["bow"], repair=True)
    >>> len(fixed[0]), count
    (2, 1)
    """
    shapely = import_shapely()
    made = as_shapely(shapes)
    bad = np.flatnonzero(~shapely.is_valid(made)).tolist()
    if not bad:
        return shapes, 0
    if not repair:
        reason = shapely.is_valid_reason(made[bad[0]])
        raise InputError(
            f"{len(bad):,} polygon(s) are not valid ({listed([names[i] for i in bad])}; the first: {reason}): a border crosses or touches "
            "itself, so inside and outside are not defined. Pass repair=True to split them where they cross, or repair them yourself."
        )
    out = list(shapes)
    for i in bad:
        fixed = shapely.make_valid(made[i])
        parts = [p for p in _polygons(shapely, fixed) if p.area > 0]
        if not parts:
            raise InputError(f"polygon {names[i]!r} encloses no area, also after repair; drop it.")
        out[i] = [[np.asarray(r.coords, dtype=np.float64)[:-1, :2] for r in (p.exterior, *p.interiors)] for p in parts]
    return out, len(bad)


def _polygons(shapely: Any, geometry: Any) -> list[Any]:
    """List the polygons within a geometry; lines and points that a repair leaves behind have no area."""
    if geometry.geom_type == "Polygon":
        return [geometry]
    return [p for g in getattr(geometry, "geoms", ()) for p in _polygons(shapely, g)]
