"""Maps of regions for ``us2024.py``: counties put together along the arcs of their TopoJSON file, and small multiples."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.charts import choropleth
from crosslevel.data.atomic import whole_file

FloatArray = npt.NDArray[np.float64]
WHOLE_STATES = {"02": "AK", "09": "CT", "11": "DC"}
"""States that are one region; the map's boroughs of Alaska are not all those of the crosswalk."""
DOTS_PER_INCH = 60
COLORS = 48


def read_map(path: Path, region_of: Mapping[str, str]) -> dict[str, Any]:
    """Read a projected TopoJSON file of counties as GeoJSON of regions, north up and centered at zero.

    Parameters
    ----------
    path : path
    region_of : mapping of county code to region
    """
    topology = json.loads(path.read_text(encoding="utf-8"))
    arcs = decode(topology)
    y = np.concatenate(arcs)[:, 1]
    middle = 0.5 * (y.min() + y.max())
    arcs = [np.column_stack([a[:, 0], middle - a[:, 1]]) for a in arcs]
    whole = {code[:2]: region for code, region in region_of.items() if code[:2] in WHOLE_STATES}
    members: dict[str, list[int]] = {}
    for county in topology["objects"]["counties"]["geometries"]:
        region = whole.get(county["id"][:2]) or region_of[county["id"]]
        polygons = county["arcs"] if county["type"] == "MultiPolygon" else [county["arcs"]]
        members.setdefault(region, []).extend(a for polygon in polygons for ring in polygon for a in ring)
    features = [
        {
            "type": "Feature",
            "properties": {"region": region},
            # what two borders drawn at different times leave of an arc bounds nothing
            "geometry": {"type": "Polygon", "coordinates": [ring for ring in outline(used, arcs) if len(ring) > 3]},
        }
        for region, used in members.items()
    ]
    return {"type": "FeatureCollection", "features": features}


def decode(topology: Mapping[str, Any]) -> list[FloatArray]:
    """Give the arcs of a quantized topology in coordinates, each (n, 2)."""
    scale, shift = (np.asarray(topology["transform"][k]) for k in ("scale", "translate"))
    return [np.cumsum(np.asarray(arc), axis=0) * scale + shift for arc in topology["arcs"]]


def outline(used: list[int], arcs: list[FloatArray]) -> list[list[list[float]]]:
    """Put polygons together: arcs gone through in both directions lie inside and cancel, the others are chained to rings.

    Parameters
    ----------
    used : list of int
        Arcs of all rings; ``~i`` is arc ``i`` backwards.
    arcs : list of (n, 2)
    """
    times = Counter(used)
    outer = [a for a, n in times.items() if n > times[~a]]
    path = {a: arcs[a] if a >= 0 else arcs[~a][::-1] for a in outer}
    begins: dict[tuple[float, float], list[int]] = {}
    for a in outer:
        begins.setdefault(_point(path[a][0]), []).append(a)
    rings = []
    while begins:
        first = next(iter(begins))
        at, ring = first, []
        while at in begins:
            a = begins[at].pop()
            if not begins[at]:
                del begins[at]
            ring.append(path[a])
            at = _point(path[a][-1])
            if at == first:
                break
        rings.append(np.concatenate(ring).tolist())
    return rings


def _point(xy: FloatArray) -> tuple[float, float]:
    return round(float(xy[0]), 6), round(float(xy[1]), 6)


def draw_maps(path: Path, polygons: Mapping[str, Any], panels: Mapping[str, Mapping[Any, float]], label: str) -> None:
    """Draw a map for each panel, all on one scale from 0 to 1, into one PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from PIL import Image

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.4 * columns, 2.9 * rows), squeeze=False, layout="constrained")
    for ax in axes.ravel()[len(panels) :]:
        ax.set_axis_off()
    for ax, (name, values) in zip(axes.ravel(), panels.items(), strict=False):
        choropleth(polygons, values, ax, label=label, vmin=0.0, vmax=1.0)
        ax.collections[0].set_linewidth(0.05)
        ax.set_title(name.replace("$", r"\$"), loc="left")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH, format="png")
    plt.close(figure)
    # a palette: a quarter of the size, and nothing to see of it
    small = io.BytesIO()
    Image.open(drawn).convert("RGB").quantize(COLORS).save(small, "png", optimize=True)
    with whole_file(path) as beside:
        beside.write_bytes(small.getvalue())
