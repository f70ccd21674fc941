"""Places of a map as whole numbers on a grid: small in the file, borders still shared.

Longitudes and latitudes are laid out in a plane in which areas are true.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts.maps import CONTEXT
from crosslevel.errors import InputError

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


GRID = 2400
"""Steps along the longer side of a map: finer than the pixels of a page, coarse enough for 3,100 counties in a megabyte."""

FARTHEST = 1e12
"""Largest coordinate of a map: farther than any plane of the earth in millimeters needs, near enough for squares to be held."""
_MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_Points = npt.NDArray[np.float64]
_Feature = tuple[dict[str, Any], list[_Points], str]
"""What is said of a place, its rings, and the kind of its geometry."""


@dataclass(frozen=True)
class Shapes:
    """Places on a grid.

    Attributes
    ----------
    places : tuple of tuple of arrays
        For each place its rings (holes wound against the outer rings), each an array (n, 2) of whole numbers, y downwards; for a
        dot one ring of one point.
    properties : mapping of name to values
        What the map says of its places, a value or None for each; "id" is the features' own.
    width, height : int
        Of the grid.
    """

    places: tuple[tuple[npt.NDArray[np.int64], ...], ...]
    properties: Mapping[str, Sequence[Any]]
    width: int
    height: int

    @property
    def aspect(self) -> float:
        """Height over width."""
        return max(self.height, 1) / max(self.width, 1)

    @property
    def dots(self) -> bool:
        """Whether the places are points."""
        return all(len(ring) == 1 for rings in self.places for ring in rings)

    def names_for(self, values: Sequence[object], prefer: str = "") -> list[str | None] | None:
        """Name the places as these values do, or say None where the map does not show them.

        A property fits whose values include these: as they are, or as numbers (7 and "007"). The property called ``prefer`` and
        the features' id need only include half of them.

        Examples
        --------
        >>> shapes = read_points({"07": (0, 0), "08": (1, 1)})
        >>> shapes.names_for([7, 8]), shapes.names_for(["a", "b"])
        (['7', '8'], None)
        """
        return _names_for(self.properties, values, prefer)

    def labels(self) -> list[str] | None:
        """Give the places' names for people, where the map has them in a property called name."""
        found = next((n for n in self.properties if n.casefold() == "name"), None)
        return None if found is None else ["" if v is None else str(v) for v in self.properties[found]]

    def encoded(self) -> dict[str, Any]:
        """Give the grid as plain JSON: each ring a first point and the steps from point to point, in one list."""
        return {
            "width": self.width,
            "height": self.height,
            "places": [[_steps(ring) for ring in rings] for rings in self.places],
            "labels": self.labels(),
        }


def read_shapes(source: Any, wanted: Sequence[Mapping[str, Sequence[object]]] = ()) -> Shapes:
    """Read a map: GeoJSON, TopoJSON, or an object that gives GeoJSON (``__geo_interface__``, as of geopandas).

    Longitudes and latitudes are projected to a plane of true areas, fitted to the places drawn, a few far places in a row beneath the
    others; coordinates beyond 360 or 90 are taken as they are.

    Parameters
    ----------
    source : mapping or object
    wanted : sequence of mapping of key to values
        Keys of each result: of several layers of a TopoJSON file the first is read that shows the values of a key (the key of most
        values that any shows), and else the one with the most places. Where results name less than half of its places (a state's
        counties on a map of the nation), only these are drawn; else the others stand beside them in gray.

    Returns
    -------
    Shapes

    Examples
    --------
    >>> ring = [[500, 0], [1500, 0], [1500, 1000], [500, 0]]
    >>> place = {"type": "Feature", "properties": {"region": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> shapes = read_shapes({"type": "FeatureCollection", "features": [place]})
    >>> shapes.encoded()["places"]
    [[[2400, 2400, 0, -2400, -2400, 2400]]]
    """
    source = getattr(source, "__geo_interface__", source)
    if not isinstance(source, Mapping):
        raise InputError(f"polygons is a {type(source).__name__}; pass GeoJSON or TopoJSON as a mapping.")
    layers = _layers(source)
    drawable = [layer for layer in layers if any(rings for _, rings, _ in layer)]
    if not drawable:
        raise InputError(
            "polygons has no features with Polygons or Points; pass a GeoJSON FeatureCollection or TopoJSON."
        )
    keys = [(key, values) for table in wanted for key, values in table.items()]
    chosen = max(drawable, key=len)
    for key, values in sorted(keys, key=lambda item: -len(item[1])):
        fitting = [layer for layer in drawable if _names_for(_said_of(layer), values, key) is not None]
        if fitting:
            chosen = fitting[0]
            break
    named = _named_places(_said_of(chosen), wanted)
    if 0 < len(named) < CONTEXT * len(chosen):
        chosen = [chosen[i] for i in sorted(named)]
    return _grid(chosen)


def _said_of(layer: Sequence[_Feature]) -> dict[str, list[Any]]:
    """Give what a map says of its places: name to a value, or None, for each."""
    names = dict.fromkeys(name for properties, _, _ in layer for name in properties)
    return {n: [properties.get(n) for properties, _, _ in layer] for n in names}


def _named_places(said: Mapping[str, Sequence[Any]], wanted: Sequence[Mapping[str, Sequence[object]]]) -> set[int]:
    """Number the places that results name: by the keys that the map has too, else by the key of most values.

    Codes of few values (1 and 2 for men and women) may be codes of places too.
    """
    found = [(key, values, _names_for(said, values, key)) for table in wanted for key, values in table.items()]
    fitting = [(key, values, names) for key, values, names in found if names is not None and len(values) > 1]
    most = max(fitting, key=lambda item: len(item[1]), default=("",))[0]
    places = {key for key, _, _ in fitting if key in said} or {most}
    return {i for key, _, names in fitting if key in places for i, name in enumerate(names) if name is not None}


def read_points(coords: Mapping[Any, tuple[float, float]]) -> Shapes:
    """Make a map of dots of the places' coordinates (longitude and latitude, or any x and y).

    Examples
    --------
    >>> read_points({"a": (0, 0), "b": (1000, 500)}).encoded()["places"]
    [[[0, 1200]], [[2400, 0]]]
    """
    if not coords:
        raise InputError("coords is empty; pass a mapping of place to (x, y).")
    try:
        points = {place: (float(x), float(y)) for place, (x, y) in coords.items()}
    except (TypeError, ValueError) as error:
        raise InputError("coords is no mapping of place to (x, y); pass two numbers for each place.") from error
    return _grid([({"id": place}, [np.array([point])], "Point") for place, point in points.items()])


def _layers(source: Mapping[str, Any]) -> list[list[_Feature]]:
    """Read the layers of a map: one of GeoJSON, those of TopoJSON."""
    if source.get("type") != "Topology":
        return [list(_features(source.get("features")))]
    try:
        return [list(_topology(source, layer)) for layer in source.get("objects", {}).values()]
    except _MALFORMED as error:
        raise InputError(
            f"polygons is TopoJSON whose arcs or objects are not as the format says ({error}); export the map again."
        ) from error


def _features(features: Any) -> Iterator[_Feature]:
    if features is not None and (isinstance(features, str | Mapping) or not isinstance(features, Iterable)):
        raise InputError(f"polygons: its features are a {type(features).__name__}, not a list; export the map again.")
    for i, feature in enumerate(features or ()):
        if not isinstance(feature, Mapping) or not isinstance(feature.get("geometry") or {}, Mapping):
            raise InputError(f"polygons: feature {i} is no GeoJSON feature with a geometry; export the map again.")
        geometry = feature.get("geometry") or {}
        kind, coordinates = str(geometry.get("type")), geometry.get("coordinates")
        try:
            yield _properties(feature), _rings(kind, coordinates), kind
        except _MALFORMED as error:
            raise InputError(
                f"polygons: feature {i} has coordinates that are no pairs of numbers ({error}); repair the file of the map."
            ) from error


def _properties(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the map says of a place, its own id included."""
    said = feature.get("properties")
    properties = {str(name): value for name, value in said.items()} if isinstance(said, Mapping) else {}
    if feature.get("id") is not None:
        properties.setdefault("id", feature["id"])
    return properties


def _rings(kind: str, coordinates: Any) -> list[_Points]:
    if kind == "Point":
        return [_points([coordinates])]
    parts = coordinates if kind == "MultiPolygon" else [coordinates] if kind == "Polygon" else []
    return [_wound(_points(ring), outer=i == 0) for part in parts for i, ring in enumerate(part)]


def _points(pairs: Any) -> _Points:
    """Read pairs of numbers, (n, 2); heights are left out."""
    found = np.asarray([pair[:2] for pair in pairs])
    if not len(found):
        raise ValueError("a ring without points")
    if found.ndim != 2 or found.shape[1] != 2:
        raise ValueError(f"points of shape {found.shape[1:]}")
    if found.dtype.kind not in "iuf":
        raise ValueError(f"{reprlib.repr(found[0].tolist())} for a point")
    points = found.astype(np.float64)
    if (np.abs(points) > FARTHEST).any():
        raise ValueError(f"a coordinate beyond {FARTHEST:g}")
    return points


def _topology(source: Mapping[str, Any], layer: Mapping[str, Any]) -> Iterator[_Feature]:
    """Read the places of one layer of a TopoJSON file; shared borders are the same arcs."""
    change = source.get("transform")
    arcs = [_points(arc) for arc in source.get("arcs", ())]
    if change:
        arcs = [np.cumsum(arc, axis=0) * change["scale"] + change["translate"] for arc in arcs]

    def ring(numbers: Sequence[int], outer: bool) -> _Points:
        parts = [arcs[i] if i >= 0 else arcs[~i][::-1] for i in numbers]
        return _wound(np.concatenate([parts[0], *(part[1:] for part in parts[1:])]), outer)

    for geometry in layer.get("geometries", [layer]):
        kind = geometry.get("type")
        parts = geometry["arcs"] if kind == "MultiPolygon" else [geometry["arcs"]] if kind == "Polygon" else []
        yield (
            _properties(geometry),
            [ring(numbers, i == 0) for part in parts for i, numbers in enumerate(part)],
            str(kind),
        )


def _wound(ring: _Points, outer: bool) -> _Points:
    """Wind outer rings one way and holes the other: what the page fills are rings that do not cancel."""
    x, y = ring.T
    area = float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    return ring if (area > 0) == outer else ring[::-1]


def _grid(features: Sequence[_Feature]) -> Shapes:
    """Snap every point to one grid, so that borders that were shared stay so."""
    rings = [ring for _, parts, _ in features for ring in parts]
    points = np.concatenate(rings)
    if not np.isfinite(points).all():
        raise InputError("polygons has coordinates that are no finite numbers; repair the file of the map.")
    place = np.repeat(np.arange(len(features)), [sum(map(len, parts)) for _, parts, _ in features])
    plane = laid_out(points, place) if is_geographic(points) else points
    low, high = plane.min(axis=0), plane.max(axis=0)
    step = max(float((high - low).max()), 1e-12) / GRID
    snapped = np.rint((plane - low) / step).astype(np.int64)
    height = int(snapped[:, 1].max())
    snapped[:, 1] = height - snapped[:, 1]
    cuts = np.cumsum([len(ring) for ring in rings])[:-1]
    parts = iter(np.split(snapped, cuts))
    places = tuple(_cleaned([next(parts) for _ in found]) for _, found, _ in features)
    return Shapes(
        places=places,
        properties=_said_of(features),
        width=int(snapped[:, 0].max()),
        height=height,
    )


def _cleaned(rings: Sequence[npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.int64], ...]:
    """Drop points that add nothing and rings that shrank to nothing; a place that did is left as one square of the grid."""
    if all(len(ring) == 1 for ring in rings):
        return tuple(rings)
    kept = tuple(ring for ring in map(_thinned, rings) if len(ring) >= 3)
    if kept:
        return kept
    at = rings[0][0]
    return (at + np.array([[0, 0], [1, 0], [1, 1], [0, 1]]),)


def _thinned(ring: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Leave out repeated points, the closing one, and points on the straight line between their neighbors."""
    ring = ring[np.any(ring != np.roll(ring, 1, axis=0), axis=1)]
    if len(ring) < 3:
        return ring
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    return ring[turns]


def _steps(ring: npt.NDArray[np.int64]) -> list[int]:
    steps = np.diff(ring, axis=0, prepend=np.zeros((1, 2), dtype=np.int64))
    return [int(v) for v in steps.ravel()]


def _names_for(
    properties: Mapping[str, Sequence[Any]], values: Sequence[object], prefer: str
) -> list[str | None] | None:
    """Name the places of a map, of which ``properties`` are said, as these values do; None where it does not show them."""
    wanted = list(dict.fromkeys(str(v) for v in values if v is not None))
    names = sorted(properties, key=lambda n: (n != prefer, n != "id"))
    for name in names if wanted else ():
        have = [None if v is None else str(v) for v in properties[name]]
        found = max((_matched(have, wanted, same) for same in (str, _code)), key=lambda names: len(set(names) - {None}))
        share = len(set(found) - {None}) / len(wanted)
        if share == 1 or (share >= 0.5 and name in (prefer, "id")):
            return found
    return None


def _matched(have: Sequence[str | None], wanted: Sequence[str], same: Callable[[str], str]) -> list[str | None]:
    """Give for each name of the map the wanted one that is the same; none where that would not tell the wanted apart."""
    known = {same(v): v for v in wanted}
    return [None if v is None or len(known) < len(wanted) else known.get(same(v)) for v in have]


def _code(value: Any) -> str:
    """Read a code as a number where it is one: "007" is 7."""
    text = str(value)
    return text.lstrip("0") or "0" if text.isdigit() else text
