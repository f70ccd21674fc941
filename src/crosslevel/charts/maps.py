"""Places coloured by a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.style import GREY, new_axes, plain, style
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["by_names_of", "choropleth", "estimate_map"]


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


def estimate_map(
    estimates: Estimates,
    polygons: Mapping[str, Any],
    *,
    column: str = "estimate",
    by: str = "region",
    select: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    label: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str = "RdBu",
) -> Axes:
    """Colour each place by what is estimated for one subgroup there; places without an estimate stay grey.

    Parameters
    ----------
    estimates : Estimates
        With the places among its keys.
    polygons : mapping
        A GeoJSON FeatureCollection whose features name their place in the property ``by``.
    column : str
        The column of numbers to show: "estimate", "conf_low", "std_error", "neighborhood", ...
    by : str
        The key of the estimates, and the property of the features, that names the place.
    select : mapping of key to value, optional
        The subgroup, where there are several: ``{"sex": 2}``.
    ax : matplotlib.axes.Axes, optional
    label : str, optional
        What the colours show; the column and the subgroup when not given.
    vmin, vmax : float, optional
        Ends of the colour scale; give the same to maps that are to be compared.
    cmap : str
        A matplotlib colour map.

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    choropleth : the same for any numbers by place.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"region": ["a", "a"], "sex": [1, 2], "estimate": [0.4, 0.6]}, keys=["region", "sex"],
    ...     method="example", level=None, interval="none", provenance=Provenance.of(call="example()"),
    ... )
    >>> ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    >>> place = {"type": "Feature", "properties": {"region": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> ax = estimate_map(est, {"type": "FeatureCollection", "features": [place]}, select={"sex": 2})
    >>> ax.get_title(loc="left"), ax.collections[0].get_array().tolist()
    ('sex 2', [0.6])
    """
    if by not in estimates.keys:
        raise unknown_name("by", by, estimates.keys, "key")
    numbers = [n for n in estimates.table.column_names if n not in estimates.keys and estimates[n].dtype.kind in "fiu"]
    if column not in numbers:
        raise unknown_name("column", column, numbers)
    for name in select or {}:
        if name not in estimates.keys:
            raise unknown_name("select", name, estimates.keys, "key")
    chosen = estimates.select(**select) if select else estimates
    values = dict(zip(chosen[by].tolist(), chosen[column].tolist(), strict=True))
    if len(values) < len(chosen):
        _refuse_several(chosen, by)
    fixed = {n: dict.fromkeys(chosen[n].tolist()) for n in chosen.keys if n != by}
    words = " · ".join(f"{n} {next(iter(v))}" for n, v in fixed.items() if len(v) == 1)
    shown = label if label is not None else column.replace("_", " ")
    drawn = choropleth(
        polygons, by_names_of(polygons, values, by), ax, key=by, label=shown, vmin=vmin, vmax=vmax, cmap=cmap
    )
    drawn.set_title(plain(words), loc="left", fontweight="bold")
    return drawn


def by_names_of(polygons: Mapping[str, Any], values: Mapping[Any, float], key: str) -> dict[Any, float]:
    """Name the places as the map does, where they are the same but for being numbers here and text there.

    Examples
    --------
    >>> by_names_of({"features": [{"properties": {"county": "7"}}]}, {7: 0.4}, "county")
    {'7': 0.4}
    """
    names = [f["properties"].get(key) for f in polygons.get("features", ())]
    if all(place in names for place in values):
        return dict(values)
    known = {str(name): name for name in names}
    if len(known) < len(set(names)) or not all(str(place) in known for place in values):
        return dict(values)
    return {known[str(place)]: value for place, value in values.items()}


def _refuse_several(chosen: Estimates, by: str) -> None:
    several = {n: list(dict.fromkeys(chosen[n].tolist())) for n in chosen.keys if n != by}
    open_ = {n: v for n, v in several.items() if len(v) > 1}
    which = "; ".join(f"{n}: {listed(v)}" for n, v in open_.items())
    example = ", ".join(f"{n!r}: {v[0]!r}" for n, v in open_.items())
    raise InputError(f"estimates has several rows for each place ({which}); choose one, select={{{example}}}.")


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
