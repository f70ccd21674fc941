"""Places coloured by a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.errors import InputError, listed
from crosslevel.plots.style import GREY, new_axes, plain, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["choropleth"]


def choropleth(
    polygons: Mapping[str, Any],
    values: Mapping[Any, float],
    ax: Axes | None = None,
    *,
    key: str = "region",
    label: str = "",
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str = "RdBu",
) -> Axes:
    """Colour each place of a GeoJSON map by its value; places without one stay grey.

    Parameters
    ----------
    polygons : mapping
        A GeoJSON FeatureCollection of Polygons and MultiPolygons.
    values : mapping of place to number
    ax : matplotlib.axes.Axes, optional
    key : str
        The property of a feature that names its place.
    label : str
        What the colours show.
    vmin, vmax : float, optional
        Ends of the colour scale; the smallest and largest value when not given.
    cmap : str
        A matplotlib colour map.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    >>> place = {"type": "Feature", "properties": {"region": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> ax = choropleth({"type": "FeatureCollection", "features": [place]}, {"a": 0.4}, label="share")
    >>> len(ax.collections)
    1
    """
    features = polygons.get("features")
    if not features:
        raise InputError("polygons has no features; pass a GeoJSON FeatureCollection.")
    missing = sorted({str(f["properties"].get(key)) for f in features if key not in f["properties"]})
    if missing:
        raise InputError(
            f"polygons has features without the property {key!r}; name the property that holds the place by key=."
        )
    names = {f["properties"][key] for f in features}
    strangers = [place for place in values if place not in names]
    if strangers:
        raise InputError(
            f"values names places that polygons lacks ({listed(strangers)}); pass the map of these places."
        )
    return _draw(features, values, ax, key, label, (vmin, vmax), cmap)


def _draw(
    features: list[Any],
    values: Mapping[Any, float],
    ax: Axes | None,
    key: str,
    label: str,
    scale: tuple[float | None, float | None],
    cmap: str,
) -> Axes:
    import matplotlib as mpl
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    paths, shown = [], []
    for feature in features:
        geometry = feature["geometry"]
        parts = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
        # one compound path per place: inner rings cut holes
        paths.append(Path.make_compound_path(*(Path(np.asarray(r), closed=True) for part in parts for r in part)))
        shown.append(values.get(feature["properties"][key], np.nan))
    with style():
        ax = new_axes(ax, 7.0, 5.0)
        colours = mpl.colormaps[cmap].with_extremes(bad=GREY)
        drawn = PathCollection(paths, edgecolors="white", linewidths=0.3, cmap=colours)
        drawn.set_array(np.ma.masked_invalid(np.asarray(shown, dtype=float)))
        drawn.set_clim(*scale)
        ax.add_collection(drawn)
        ax.autoscale_view()
        latitude = np.concatenate([np.asarray(p.vertices)[:, 1] for p in paths]).mean()
        ax.set_aspect(1 / np.cos(np.deg2rad(latitude)))
        ax.set_axis_off()
        ax.figure.colorbar(drawn, ax=ax, label=plain(label), shrink=0.7)
    return ax
