"""Areas with any border: polygons with holes and several parts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.data.checks import check_length, refuse_idle_arguments
from crosslevel.data.planes import Plane, place
from crosslevel.data.shapes import read_shapes, sound
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.polygon_integrals import Edges, polygon_areas, polygon_sines, ring_edges
from crosslevel.typing import FloatArray, Int64Array


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Polygons(Regions):
    """Polygons in the plane: holes and multipolygons allowed.

    Integrals of waves over them are exact (sums over edges), of any border.

    Parameters
    ----------
    shapes : path, mapping, GeoDataFrame, or sequence
        A GeoJSON file or dictionary (FeatureCollection, Feature, Polygon, MultiPolygon), a GeoDataFrame or GeoSeries, shapely
        polygons, or lists of rings, outer ring first.
    key : str, optional
        The property of the features, or column of the frame, that names the polygons.
    names : sequence, optional
        Names, where the source has none.
    crs : str, optional
        Overrides the coordinate system the source notes: "plane", "degrees", or a name such as "EPSG:27700".
    project : "local", (longitude, latitude) or Polygons, optional
        Project longitude and latitude to kilometers in an equal-area plane about the middle of these polygons, about a given
        point, or as other polygons were (which must be so for polygons used together). Without it, degrees are used as if they
        were plane coordinates, with a warning.
    repair : bool
        Split polygons that cross themselves into valid ones; without it they are refused.
    plane : Plane, optional
        Of shapes that were read, placed and checked before, which are taken as they are.

    See Also
    --------
    crosslevel.binned.regions.simplices.Simplices : bodies in any dimension.

    Examples
    --------
    >>> square = [[0, 0], [2, 0], [2, 2], [0, 2]]
    >>> hole = [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1]]
    >>> p = Polygons([[square, hole], [square]])
    >>> p.volumes
    array([3.75, 4.  ])
    >>> p
    <Polygons: 2 regions in 2 dimensions>
    """

    shapes: Any
    _: KW_ONLY
    key: str | None = None
    names: Sequence[object] | None = None
    crs: InitVar[str | None] = None
    project: InitVar[Any] = None
    repair: InitVar[bool] = False
    plane: Plane | None = None

    def __post_init__(self, crs: str | None, project: Any, repair: bool) -> None:
        if self.plane is None:
            self._read(crs, project, repair)
        else:
            given = {"crs": crs, "project": project, "repair": repair}
            refuse_idle_arguments(
                type(self), given, "with plane, which says that the shapes lie in it already; leave plane out"
            )
        if (self.volumes <= 0).any():
            raise InputError(f"polygon {int(np.argmax(self.volumes <= 0))} has no area; drop it.")

    def _read(self, crs: str | None, project: Any, repair: bool) -> None:
        source = read_shapes(self.shapes, self.key)
        names = source.names if self.names is None else [str(n) for n in self.names]
        if names is not None:
            check_length(names, "names", len(source.shapes), "polygons")
        in_plane, plane = place(source, crs, project)
        shapes, repaired = sound(in_plane, list(names if names is not None else range(len(in_plane))), repair)
        if repaired:
            warnings.warn(
                f"{repaired:,} polygon(s) crossed themselves and were split into valid ones; compare .volumes with known areas.",
                CrosslevelWarning,
                stacklevel=4,
            )
        self._set(shapes=shapes, names=names, plane=plane)

    @cached_property
    def edges(self) -> Edges:
        """Edges of all rings."""
        return ring_edges(self.shapes)

    @cached_property
    def volumes(self) -> FloatArray:
        """Areas, (n,)."""
        return polygon_areas(self.edges)

    @property
    def dimension(self) -> int:
        """2."""
        return 2

    def __len__(self) -> int:
        return len(self.shapes)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the corners of the box around each polygon, (n, 2) each."""
        at = self.edges.offsets[:-1]
        return np.minimum.reduceat(self.edges.start, at), np.maximum.reduceat(self.edges.start, at)

    def labels(self) -> dict[str, Any]:
        """Give the names of the polygons, or their numbers."""
        return {self.key or "polygon": list(self.names) if self.names is not None else list(range(len(self)))}

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Integrate the functions of ``basis`` over each polygon, exactly, (n, m)."""
        return polygon_sines(self.edges, basis.center - basis.half_width, 2.0 * basis.half_width, basis.index)

    def _take(self, rows: Int64Array) -> Self:
        names = None if self.names is None else [self.names[i] for i in rows]
        return replace(self, shapes=[self.shapes[i] for i in rows], names=names)

    def geojson(self) -> dict[str, Any]:
        """Give the polygons as a GeoJSON FeatureCollection in their own plane, for maps.

        Examples
        --------
        >>> Polygons([[[0, 0], [1, 0], [0, 1]]]).geojson()["features"][0]["properties"]
        {'polygon': 0}
        """
        (key, names), *_ = self.labels().items()
        features = [
            {
                "type": "Feature",
                "properties": {key: name},
                "geometry": {
                    "type": "MultiPolygon",
                    "coordinates": [[np.vstack([r, r[:1]]).tolist() for r in part] for part in shape],
                },
            }
            for name, shape in zip(names, self.shapes, strict=True)
        ]
        return {"type": "FeatureCollection", "features": features}
