"""Places colored by a number: one map, a pair of mean and standard deviation, and the units of a table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.matplotlib import scheme
from crosslevel.charts.style import GRAY, new_axes, plain, style
from crosslevel.data.checks import as_numbers, read_list
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SURE = "magma_r"
"""Colors of the standard deviation: the darker, the less is known."""
CONTEXT = 0.5
"""Share of a map's places that must be named for the others to be drawn too."""
SHARES = ("estimate", "conf_low", "conf_high", "lower", "upper", "width", "turnout")


@checked
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
    plane: bool = False,
) -> Axes:
    """Color each place of a GeoJSON map by its value; places without one stay gray, or away where they are more than half.

    Parameters
    ----------
    polygons : mapping
        A GeoJSON FeatureCollection of Polygons and MultiPolygons.
    values : mapping of place to number
    ax : matplotlib.axes.Axes, optional
    key : str
        The property of a feature that names its place.
    label : str
        What the colors show.
    vmin, vmax : float, optional
        Ends of the color scale; the smallest and largest value when not given.
    cmap : str
        A matplotlib color map.
    plane : bool
        The coordinates are plane, not longitude and latitude.

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
    import matplotlib as mpl
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    properties = _properties(polygons)
    if any(key not in p for p in properties):
        raise InputError(
            f"polygons has features without the property {key!r}; name the property that holds the place by key=."
        )
    names = [p[key] for p in properties]
    known = {name for name in names if isinstance(name, Hashable)}
    strangers = [place for place in values if place not in known]
    if strangers:
        raise InputError(
            f"values names places that polygons lacks ({listed(strangers)}); pass the map of these places."
        )
    shown = [values.get(name, np.nan) if isinstance(name, Hashable) else np.nan for name in names]
    features = polygons["features"]
    named = [i for i, name in enumerate(names) if isinstance(name, Hashable) and name in values]
    if 0 < len(named) < CONTEXT * len(names):
        features, shown = [features[i] for i in named], [shown[i] for i in named]
    # one compound path per place: inner rings cut holes
    rings = [_rings(feature, number) for number, feature in enumerate(features)]
    paths = [Path.make_compound_path(*(Path(ring, closed=True) for ring in own)) for own in rings]
    with style():
        ax = new_axes(ax, 7.0, 5.0)
        colors = mpl.colormaps[scheme(cmap)].with_extremes(bad=GRAY)
        drawn = PathCollection(paths, edgecolors="white", linewidths=0.3, cmap=colors)
        drawn.set_array(np.ma.masked_invalid(np.asarray(shown, dtype=float)))
        drawn.set_clim(vmin, vmax)
        ax.add_collection(drawn)
        ax.autoscale_view()
        latitude = np.concatenate([np.asarray(p.vertices)[:, 1] for p in paths]).mean()
        ax.set_aspect("equal" if plane else 1 / np.cos(np.deg2rad(latitude)))
        ax.set_axis_off()
        ax.figure.colorbar(drawn, ax=ax, label=plain(label), shrink=0.7)
    return ax


def _rings(feature: Any, number: int) -> list[FloatArray]:
    """Read the rings of a GeoJSON feature, (n, 2) each, without heights."""
    try:
        geometry = feature["geometry"]
        parts = {"Polygon": [geometry["coordinates"]], "MultiPolygon": geometry["coordinates"]}[geometry["type"]]
        rings = [np.asarray(ring, dtype=np.float64)[:, :2] for part in parts for ring in part]
    except (IndexError, KeyError, TypeError, ValueError):
        rings = []
    if not rings or any(len(ring) < 3 or ring.shape[1:] != (2,) or not np.isfinite(ring).all() for ring in rings):
        raise InputError(
            f"polygons has no Polygon or MultiPolygon in feature {number:,}; mend its geometry or leave it out."
        )
    return rings


@checked
def estimate_map(
    estimates: Estimates,
    polygons: Mapping[str, Any],
    *,
    column: str = "estimate",
    by: str = "region",
    key: str | None = None,
    select: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    label: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str = "RdBu",
    plane: bool = False,
) -> Axes:
    """Color each place by what is estimated for one subgroup there; places without an estimate stay gray.

    Parameters
    ----------
    estimates : Estimates
        With the places among its keys.
    polygons : mapping
        A GeoJSON FeatureCollection whose features name their place in a property.
    column : str
        The column of numbers to show: "estimate", "conf_low", "std_error", "neighborhood", ...
    by : str
        The key of the estimates that names the place.
    key : str, optional
        The property of the features that names the place, where it is not called as ``by``.
    select : mapping of key to value, optional
        The subgroup, where there are several: ``{"sex": 2}``.
    ax : matplotlib.axes.Axes, optional
    label : str, optional
        What the colors show; the column when not given.
    vmin, vmax, cmap, plane
        As in `choropleth`; give the same ends to maps that are to be compared.

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
    for argument, name in (("by", by), *(("select", name) for name in select or ())):
        if name not in estimates.keys:
            raise unknown_name(argument, name, estimates.keys, "key")
    numbers = [n for n in estimates.table.column_names if n not in estimates.keys and estimates[n].dtype.kind in "fiu"]
    if column not in numbers:
        raise unknown_name("column", column, numbers)
    chosen = estimates.select(**select) if select else estimates
    values = dict(zip(chosen[by].tolist(), chosen[column].astype(float).tolist(), strict=True))
    others = {n: list(dict.fromkeys(chosen[n].tolist())) for n in chosen.keys if n != by}
    if len(values) < len(chosen):
        several = {n: v for n, v in others.items() if len(v) > 1}
        which = "; ".join(f"{n}: {listed(v)}" for n, v in several.items())
        example = ", ".join(f"{n}={v[0]!r}" for n, v in several.items())
        raise InputError(f"estimates has several rows for each place ({which}); choose one, est.select({example}).")
    words = " · ".join(f"{n} {v[0]}" for n, v in others.items() if len(v) == 1)
    shown: dict[str, Any] = {"key": key or by, "label": column.replace("_", " ") if label is None else label}
    named_values = by_names_of(polygons, values, key or by)
    drawn = choropleth(polygons, named_values, ax, **shown, vmin=vmin, vmax=vmax, cmap=cmap, plane=plane)
    drawn.set_title(plain(words), loc="left", fontweight="bold")
    return drawn


def by_names_of(polygons: Mapping[str, Any], values: Mapping[Any, float], key: str) -> dict[Any, float]:
    """Name the places as the map does, where they are the same but for being numbers here and text there.

    Examples
    --------
    >>> by_names_of({"features": [{"properties": {"county": "7"}}]}, {7: 0.4}, "county")
    {'7': 0.4}
    """
    names = [name for p in _properties(polygons) if isinstance(name := p.get(key), Hashable)]
    if all(place in names for place in values):
        return dict(values)
    known = {str(name): name for name in names}
    if len(known) < len(set(names)) or not all(str(place) in known for place in values):
        return dict(values)
    return {known[str(place)]: value for place, value in values.items()}


def _properties(polygons: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Read what is said of every feature, nothing where nothing is."""
    features = polygons.get("features")
    if not isinstance(features, list | tuple) or not features:
        raise InputError("polygons has no features; pass a GeoJSON FeatureCollection.")
    said = [f.get("properties") if isinstance(f, Mapping) else None for f in features]
    return [p if isinstance(p, Mapping) else {} for p in said]


@checked
def estimate_pair(
    estimates: Estimates,
    polygons: Mapping[str, Any],
    *,
    by: str = "region",
    select: Mapping[str, Any] | None = None,
    ax: Sequence[Axes] | None = None,
    label: str = "",
    cmap: str = "viridis",
    plane: bool = False,
) -> tuple[Axes, Axes]:
    """Color places by their estimate on one map and by its standard error on another. Also ``est.plot("map_pair", polygons=...)``.

    Parameters
    ----------
    estimates, polygons, by, select
        As in `estimate_map`.
    ax : two matplotlib.axes.Axes, optional
    label, plane
        As in `choropleth`; ``Polygons.geojson()`` gives a map of plane coordinates.
    cmap : str
        Colors of the estimate.

    Returns
    -------
    two matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"region": ["a"], "estimate": [12.0], "std_error": [3.0], "conf_low": [6.0], "conf_high": [18.0]},
    ...     keys=["region"], method="example", level=0.95, interval="credible", provenance=Provenance.of(call="example()"),
    ... )
    >>> ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    >>> place = {"type": "Feature", "properties": {"region": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> left, right = estimate_pair(est, {"type": "FeatureCollection", "features": [place]})
    >>> left.collections[0].get_array().tolist(), right.collections[0].get_array().tolist()
    ([12.0], [3.0])
    """
    axes = _two(ax)
    own: dict[str, Any] = {"by": by, "select": select, "label": label, "plane": plane}
    estimate_map(estimates, polygons, ax=axes[0], cmap=cmap, **own)
    estimate_map(estimates, polygons, column="std_error", ax=axes[1], vmin=0.0, cmap=SURE, **own)
    for drawn, what in zip(axes, ("mean", "standard deviation"), strict=True):
        words = drawn.get_title(loc="left")
        drawn.set_title(f"{words} · {what}" if words else what, loc="left", fontweight="bold")
    return axes


def _two(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) != 2 or None in given:
            raise InputError(f"ax holds {len(given)} axes; pass two, one for the mean and one for its deviation.")
        with style():
            return new_axes(given[0]), new_axes(given[1])
    import matplotlib.pyplot as plt

    with style():
        made = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")[1]
    return made[0], made[1]


@checked
def unit_map(
    result: Estimates,
    polygons: Mapping[Any, Any],
    *,
    group: str,
    outcome: str | None = None,
    ax: Axes | None = None,
    column: str = "estimate",
    key: str = "unit",
    cmap: str = "viridis",
) -> Axes:
    """Color each unit by the share of a group with an outcome.

    Parameters
    ----------
    result : Estimates
        With ``.units`` (or the units' table itself).
    polygons : mapping
        Unit to its rings, ``{"ward 1": [[[lon, lat], ...], ...]}`` with holes as further rings, or a GeoJSON
        FeatureCollection. Longitude and latitude in degrees.
    group : str
    outcome : str, optional
        Not needed where the units have no outcomes, as in ``turnout``.
    ax : matplotlib.axes.Axes, optional
    column : str
        What to show: "estimate", "lower", "upper", "count", or "width", the distance between the bounds (how much the margins
        leave open). Shares run from 0 to 1 in every map, so that maps can be compared.
    key : str
        The property of a GeoJSON feature that names its unit.
    cmap : str
        A matplotlib color map.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> units = Estimates.build(
    ...     {"unit": ["a"], "group": ["young"], "outcome": ["yes"], "estimate": [0.4]}, keys=["unit", "group", "outcome"],
    ...     method="example", level=None, interval="none", provenance=Provenance.of(call="example()"),
    ... )
    >>> ax = unit_map(units, {"a": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}, group="young", outcome="yes")
    >>> ax.get_title(loc="left")
    'young · yes'
    """
    units = result if "unit" in result.keys else result.units
    if units is None or "unit" not in units.keys:
        raise InputError("result has no units to map; methods of crosslevel.ecological give them as result.units.")
    asked = {name: value for name, value in (("group", group), ("outcome", outcome)) if name in units.keys}
    for name, value in asked.items():
        choices = list(dict.fromkeys(units[name].tolist()))
        if value not in choices:
            raise unknown_name(name, value, choices, name)
    if {"lower", "upper"} <= set(units.table.column_names):
        units = units.with_columns(width=units["upper"] - units["lower"])
    features = _features(polygons, key)
    label = {"estimate": "share of the group", "width": "width of the bounds"}.get(column, column)
    scale: dict[str, Any] = {"vmin": 0.0, "vmax": 1.0} if column in SHARES else {}
    own: dict[str, Any] = {"column": column, "by": "unit", "key": key, "select": asked, "label": label}
    ax = estimate_map(units, features, ax=ax, cmap=cmap, **own, **scale)
    ax.set_title(plain(" · ".join(map(str, asked.values()))), loc="left", fontweight="bold")
    return ax


def _features(polygons: Mapping[Any, Any], key: str) -> Mapping[str, Any]:
    """Read either form of map as GeoJSON."""
    if not isinstance(polygons, Mapping) or not polygons:
        raise InputError("polygons is empty or no mapping; pass {unit: rings} or a GeoJSON FeatureCollection.")
    if "features" in polygons:
        return polygons
    made = []
    for unit, rings in polygons.items():
        for ring in read_list(rings, f"polygons[{unit!r}]"):
            points = as_numbers(ring, f"polygons[{unit!r}]")
            if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3:
                raise InputError(
                    f"polygons[{unit!r}] has a ring of shape {points.shape}; pass a list of rings, each a list of [lon, lat]."
                )
            if np.abs(points[:, 1]).max() > 90:
                raise InputError(
                    f"polygons[{unit!r}] has the latitude {points[np.abs(points[:, 1]).argmax(), 1]:g}; pass longitude and "
                    "latitude in degrees, not map coordinates."
                )
        geometry = {"type": "Polygon", "coordinates": rings}
        made.append({"type": "Feature", "properties": {key: unit}, "geometry": geometry})
    return {"type": "FeatureCollection", "features": made}
