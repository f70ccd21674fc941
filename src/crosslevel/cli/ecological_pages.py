"""Maps for the pages of ``crosslevel ecological``: the file of polygons, and the shares that were observed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.errors import FileError, InputError, listed, nearest

__all__ = ["observed_map", "read_polygons"]


def read_polygons(path: Path, by: str, places: Sequence[object]) -> dict[str, Any]:
    """Read a GeoJSON file whose features name their place in the property ``by``, and show all of these places."""
    if not path.is_file():
        raise FileError(f"--polygons {path} does not exist; name a GeoJSON file.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(f"--polygons {path} is not JSON ({error}); name a GeoJSON file.") from error
    features = found.get("features") if isinstance(found, dict) else None
    if not isinstance(features, list) or not features:
        raise FileError(f"--polygons {path} is no GeoJSON FeatureCollection with features.")
    for i, feature in enumerate(features):
        properties = feature.get("properties") or {}
        if by not in properties:
            raise FileError(
                f"--polygons {path}: feature {i} lacks the property {by!r}, which names its place; it has "
                f"{listed(properties, 12) or 'none'}.{nearest(by, properties)}"
            )
        shape = (feature.get("geometry") or {}).get("type")
        if shape not in ("Polygon", "MultiPolygon"):
            raise FileError(f"--polygons {path}: feature {i} is a {shape}; pass Polygons and MultiPolygons only.")
    known = {str(feature["properties"][by]) for feature in features}
    missing = [place for place in places if str(place) not in known]
    if missing:
        raise InputError(
            f"--polygons {path} lacks {len(missing):,} place(s) ({listed(missing)}); pass the map of these places."
        )
    return found


def observed_map(model: PlaceEstimator, polygons: Mapping[str, Any]) -> dict[str, Any]:
    """Map the share of the first outcome in each place: caption to axes."""
    from matplotlib.figure import Figure

    from crosslevel.charts import choropleth, style
    from crosslevel.charts.maps import by_names_of

    totals, by = model.places_.totals, model.places_.by
    stage = 1 if totals.turnout else 0
    share = totals.successes[stage] / totals.trials[stage]
    values = by_names_of(polygons, dict(zip(model.places_.keys, share.tolist(), strict=True)), by)
    with style():
        ax = Figure(figsize=(10, 6)).add_subplot()
    name = totals.outcomes[0]
    drawn = choropleth(polygons, values, ax, key=by, label=f"share with {name}")
    return {f"What is observed: the share with {name} in each place": drawn}
