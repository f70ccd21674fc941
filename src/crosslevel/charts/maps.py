"""Places colored by a number: one map, a pair of mean and standard deviation, units of a table, and the maps of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.cells import FIXED, Cells, cells_of
from crosslevel.charts.chart import Atlas, Chart, Choice, Map, Places, joined_words
from crosslevel.charts.intervals import ordered_chart
from crosslevel.charts.matplotlib import draw_places
from crosslevel.charts.style import plain, style
from crosslevel.charts.words import count, is_share, named
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "by_names_of",
    "choropleth",
    "choropleth_pair",
    "estimate_map",
    "estimate_pair",
    "map_charts",
    "place_key",
    "sure_charts",
    "unit_map",
]

SURE = "magma_r"
"""Colors of the standard deviation: the darker, the less is known."""
SHARES = ("estimate", "conf_low", "conf_high", "lower", "upper", "turnout")
APART = ("outcome", "method", "term", "feature")
"""Keys that have a drop-down list of their own and hold for both maps."""
UNSEEN = 0.05
"""Part of a color scale that an eye cannot distinguish."""


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
    """Color each place of a GeoJSON map by its value; places without one stay gray.

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
    features = polygons.get("features")
    if not features:
        raise InputError("polygons has no features; pass a GeoJSON FeatureCollection.")
    if any(key not in f["properties"] for f in features):
        raise InputError(
            f"polygons has features without the property {key!r}; name the property that holds the place by key=."
        )
    names = {f["properties"][key] for f in features}
    strangers = [place for place in values if place not in names]
    if strangers:
        raise InputError(
            f"values names places that polygons lacks ({listed(strangers)}); pass the map of these places."
        )
    shown = [values.get(f["properties"][key], np.nan) for f in features]
    return draw_places(features, shown, ax, words=label, limits=(vmin, vmax), cmap=cmap, plane=plane)


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
    plane: bool = False,
) -> Axes:
    """Color each place by what is estimated for one subgroup there; places without an estimate stay gray.

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
    others = {n: list(dict.fromkeys(chosen[n].tolist())) for n in chosen.keys if n != by}
    if len(values) < len(chosen):
        several = {n: v for n, v in others.items() if len(v) > 1}
        which = "; ".join(f"{n}: {listed(v)}" for n, v in several.items())
        example = ", ".join(f"{n!r}: {v[0]!r}" for n, v in several.items())
        raise InputError(f"estimates has several rows for each place ({which}); choose one, select={{{example}}}.")
    words = " · ".join(f"{n} {v[0]}" for n, v in others.items() if len(v) == 1)
    shown = label if label is not None else column.replace("_", " ")
    named_values = by_names_of(polygons, values, by)
    drawn = choropleth(polygons, named_values, ax, key=by, label=shown, vmin=vmin, vmax=vmax, cmap=cmap, plane=plane)
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


def choropleth_pair(
    polygons: Mapping[str, Any],
    mean: Mapping[Any, float],
    sd: Mapping[Any, float],
    axes: Sequence[Axes] | None = None,
    *,
    key: str = "region",
    label: str = "",
    cmap: str = "viridis",
    plane: bool = False,
) -> tuple[Axes, Axes]:
    """Color places by their mean on one map and by its standard deviation on another.

    Parameters
    ----------
    polygons : mapping
        A GeoJSON FeatureCollection; ``Polygons.geojson()`` gives one.
    mean, sd : mapping of place to number
        Of the same places.
    axes : two matplotlib.axes.Axes, optional
    key, label, plane
        As in `choropleth`.
    cmap : str
        Colors of the mean.

    Returns
    -------
    two matplotlib.axes.Axes

    Examples
    --------
    >>> ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    >>> place = {"type": "Feature", "properties": {"region": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> left, right = choropleth_pair({"type": "FeatureCollection", "features": [place]}, {"a": 12.0}, {"a": 3.0})
    >>> left.get_title(loc="left"), right.get_title(loc="left")
    ('mean', 'standard deviation')
    """
    apart = [k for k in mean if k not in sd] + [k for k in sd if k not in mean]
    if apart:
        raise InputError(f"mean and sd are of different places ({listed(apart)}); pass both for every place.")
    negative = [k for k, v in sd.items() if v < 0]
    if negative:
        raise InputError(f"sd is negative for {listed(negative)}; pass standard deviations, not differences.")
    left, right = _two(axes)
    choropleth(polygons, mean, left, key=key, label=label, cmap=cmap, plane=plane)
    choropleth(polygons, sd, right, key=key, label=label, vmin=0.0, cmap=SURE, plane=plane)
    return _titled(left, right, "")


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
    """Draw the pair for a table of estimates: the columns ``estimate`` and ``std_error``. Also ``est.plot("map_pair", polygons=...)``.

    Parameters
    ----------
    estimates, polygons, by, select
        As in `estimate_map`.
    ax : two matplotlib.axes.Axes, optional
    label, cmap, plane
        As in `choropleth_pair`.

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
    left, right = _two(ax)
    shown: dict[str, Any] = {"by": by, "select": select, "label": label, "plane": plane}
    estimate_map(estimates, polygons, ax=left, cmap=cmap, **shown)
    words = left.get_title(loc="left")
    estimate_map(estimates, polygons, column="std_error", ax=right, vmin=0.0, cmap=SURE, **shown)
    return _titled(left, right, words)


def _two(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) != 2:
            raise InputError(f"axes holds {len(given)} axes; pass two, one for the mean and one for its deviation.")
        return given[0], given[1]
    import matplotlib.pyplot as plt

    with style():
        made = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")[1]
    return made[0], made[1]


def _titled(left: Axes, right: Axes, words: str) -> tuple[Axes, Axes]:
    before = f"{words} · " if words else ""
    for ax, what in ((left, "mean"), (right, "standard deviation")):
        ax.set_title(f"{before}{what}", loc="left", fontweight="bold")
    return left, right


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
    chosen = units
    for name, value in (("group", group), ("outcome", outcome)):
        if name not in units.keys:
            continue
        choices = list(dict.fromkeys(units[name].tolist()))
        if value not in choices:
            raise unknown_name(name, value, choices, name)
        chosen = chosen.select(**{name: value})
    values = dict(zip(chosen["unit"].tolist(), _unit_column(chosen, column), strict=True))
    if len(values) < len(chosen):
        raise InputError("units of different districts have the same names; draw one, result.select(district=...).")
    features = _features(polygons, key)
    known = {f["properties"].get(key) for f in features["features"]}
    missing = [u for u in values if u not in known]
    if missing:
        raise InputError(
            f"polygons lacks {len(missing):,} unit(s) ({listed(missing)}); pass the polygons of all units, by the same names."
        )
    label = {"estimate": "share of the group", "width": "width of the bounds"}.get(column, column)
    scale: dict[str, Any] = {"vmin": 0.0, "vmax": 1.0} if column in SHARES or column == "width" else {}
    ax = choropleth(features, values, ax, key=key, label=label, cmap=cmap, **scale)
    words = group + (f" · {outcome}" if outcome is not None and "outcome" in units.keys else "")
    ax.set_title(plain(words), loc="left", fontweight="bold")
    return ax


def _unit_column(units: Estimates, column: str) -> list[float]:
    names = units.table.column_names
    if column == "width" and {"lower", "upper"} <= set(names):
        return list(units["upper"] - units["lower"])
    numbers = [n for n in names if n not in units.keys and units[n].dtype.kind in "fiu"]
    if column not in numbers:
        raise unknown_name("column", column, [*numbers, "width"])
    return list(units[column].astype(float))


def _features(polygons: Mapping[Any, Any], key: str) -> Mapping[str, Any]:
    """Read either form of map as GeoJSON."""
    if not isinstance(polygons, Mapping) or not polygons:
        raise InputError("polygons is empty or no mapping; pass {unit: rings} or a GeoJSON FeatureCollection.")
    if "features" in polygons:
        return polygons
    made = []
    for unit, rings in polygons.items():
        for ring in rings:
            points = np.asarray(ring, dtype=float)
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


def place_key(cells: Cells, shapes: Atlas | None) -> str | None:
    """Find the key that names places of the map: one that a property is called by, and else the one with most values.

    Codes of few values (1 and 2 for men and women) may be codes of places too, so the first that fits will not do.
    """
    if shapes is None:
        return None
    values = {key: cells.levels(key) for key in cells.keys}
    fitting = [key for key, v in values.items() if len(v) > 1 and shapes.names_for(v, key) is not None]
    return max(fitting, key=lambda key: (key in shapes.properties, len(values[key])), default=None)


def map_charts(result: Estimates, cells: Cells, shapes: Atlas, place: str) -> list[Chart]:
    """Describe the maps of a result whose places the shapes show.

    With one subgroup there is one map; with several two maps stand side by side, each with its drop-down list, and the
    difference of the two. Then the places in order, and a map of any other column.
    """
    apart = [key for key in cells.keys if key in APART and key != place and len(cells.levels(key)) > 1]
    cells = _with_subgroup(cells, [key for key in cells.keys if key not in (*apart, place)])
    subgroups = [str(v) for v in cells.table["subgroup"].unique().to_pylist()]
    several = len(subgroups) > 1
    lists = [cells.choice(key) for key in apart]
    shared = {c.name: c.name for c in lists}
    options = [(v, v) for v in subgroups]
    picks = {"a": Choice("a", "subgroup", options), "b": Choice("b", "subgroup", options, start=1)} if several else {}
    sides = {side: {**shared, **({"subgroup": side} if several else {})} for side in (picks or ("a",))}
    share, ends = is_share(result), _ends(result["estimate"])
    base: dict[str, Any] = {"tables": {"cells": cells.table}, "labels": cells.labels, "share": share}
    said = "Hover for what is known of a place; there is no interval."
    if result.level is not None:
        said = f"Hover for the {100 * result.level:g} % interval and what else is known of a place."
    said += _beyond(result["estimate"], ends) + _missing(cells.levels(place), shapes, place)

    def tips(side: str) -> dict[str, str]:
        return {"place": place, f"{side}.subgroup": "subgroup", **cells.tips(prefix=f"{side}.")}

    charts = [
        Chart(
            f"map-{side}",
            {"a": "First subgroup", "b": "Second subgroup"}[side] if several else "The estimate in each place",
            ("Colors are the same on both maps. " if several else "") + said,
            [Map(f"{side}.estimate", "estimate", ends, share=share)],
            data={"places": Places("cells", cells.keys[place], {side: where})},
            choices=[*lists, *([picks[side]] if several else [])],
            tips=tips(side),
            size="third" if several else "full",
            **base,
        )
        for side, where in sides.items()
    ]
    if several:
        charts.append(_difference(result, cells, place, sides, share, base))
    first = [*lists, *([picks["a"]] if several else [])]
    charts.append(ordered_chart(result, cells, lines=[place], choices=first, where=sides["a"], size="half"))
    others = [n for n in cells.table.column_names if (n in FIXED or n.startswith("x")) and n != "estimate"]
    if others:
        column = Choice("column", "show", [(n, named(cells.labels[n])) for n in others])
        caption = "Any other column of the table: how wide intervals are, what other methods say, how many people are behind a number."
        charts.append(
            Chart(
                "map-column",
                "What else is known of each place",
                caption,
                [Map("a.value", "value")],
                data={"places": Places("cells", cells.keys[place], {"a": sides["a"]}, {"value": column.name})},
                choices=[column, *first],
                tips=tips("a"),
                size="half",
                **base,
            )
        )
    return charts


def _difference(
    result: Estimates,
    cells: Cells,
    place: str,
    sides: Mapping[str, Mapping[str, str]],
    share: bool,
    base: dict[str, Any],
) -> Chart:
    """Describe the map of the first subgroup less the second."""
    end = _farthest(result, cells, place)
    tips = {"place": place}
    for side, words in (("a", "first"), ("b", "second")):
        tips |= {f"{side}.subgroup": f"{words} subgroup", f"{side}.estimate": f"{words}, estimate"}
    return Chart(
        "map-difference",
        "Difference: the first less the second",
        "Orange: the first subgroup is higher; blue: the second. The difference of two estimates is less certain than either.",
        [
            Map(
                "difference",
                "first less second" + (", points" if share else ""),
                [-end, end],
                diverging=True,
                share=share,
            )
        ],
        data={"places": Places("cells", cells.keys[place], sides)},
        tips=tips | {"difference": "difference"},
        size="third",
        **base,
    )


def sure_charts(result: Estimates, shapes: Atlas | None) -> list[Chart]:
    """Describe two maps side by side: what is estimated of each place, and how sure it is."""
    cells = cells_of(result)
    place = place_key(cells, shapes)
    if place is None or len(cells.keys) > 1 or not cells.has("std_error"):
        return []
    maps = [
        Map("a.estimate", "", title="mean"),
        Map("a.std_error", "", title="standard deviation", scheme="oranges"),
    ]
    caption = "Left the mean, right its standard deviation: the darker, the less is known. Hover for the numbers."
    return [
        Chart(
            "maps",
            "What is estimated of each place, and how sure it is",
            caption,
            maps,
            {"cells": cells.table},
            {"places": Places("cells", cells.keys[place], {"a": {}})},
            labels=cells.labels,
            tips={"place": place, **cells.tips(prefix="a.")},
        )
    ]


def _with_subgroup(cells: Cells, inner: Sequence[str]) -> Cells:
    """Add the column that names the subgroup: a bare number says which key it is of."""

    def said(key: str, value: Any) -> str:
        text = "–" if value is None else str(value)
        return f"{key} {text}" if text.replace(".", "", 1).isdigit() else text

    columns = [[said(key, v) for v in cells.table[cells.keys[key]].to_pylist()] for key in inner]
    n = cells.table.num_rows
    words = joined_words(columns, n) if inner else ["everybody"] * n
    table = cells.table.append_column("subgroup", pa.array(words, pa.string()))
    return replace(cells, table=table, labels={**cells.labels, "subgroup": "subgroup"})


def _missing(levels: Sequence[str], shapes: Atlas, place: str) -> str:
    lost = len(set(levels) - set(shapes.names_for(levels, place) or ()))
    return f" {count(lost, 'place')} of the results {'is' if lost == 1 else 'are'} not on the map." if lost else ""


def _ends(values: Any) -> list[float]:
    """Give ends of a color scale that a few odd places do not stretch."""
    good = np.asarray(values, dtype=float)
    good = good[np.isfinite(good)]
    if not good.size:
        return [0.0, 1.0]
    low, high = np.quantile(good, [0.01, 0.99])
    return [_round(low), _round(high)] if _round(high) > _round(low) else [_round(low) - 0.5, _round(low) + 0.5]


def _beyond(values: Any, ends: Sequence[float]) -> str:
    """Say how many estimates lie beyond the ends of the colors by more than an eye could tell, if any do."""
    off, visible = np.asarray(values, dtype=float), UNSEEN * (ends[1] - ends[0])
    n = int(np.sum((off < ends[0] - visible) | (off > ends[1] + visible)))
    said = f" {count(n, 'estimate')} beyond the ends of the scale {'has' if n == 1 else 'have'} the last color."
    return said if n else ""


def _farthest(result: Estimates, cells: Cells, place: str) -> float:
    """Give the end of the scale of differences: how far apart the subgroups of a place are, in all but the oddest places."""
    values = np.asarray(result["estimate"], dtype=float)
    codes = np.unique(cells.table[cells.keys[place]].fill_null("").to_numpy().astype(str), return_inverse=True)[1]
    good = np.isfinite(values)
    low, high = np.full(codes.max() + 1, np.inf), np.full(codes.max() + 1, -np.inf)
    np.minimum.at(low, codes[good], values[good])
    np.maximum.at(high, codes[good], values[good])
    apart = (high - low)[np.isfinite(low)]
    return _round(float(np.quantile(apart, 0.98))) or 1.0 if apart.size else 1.0


def _round(value: float) -> float:
    return float(f"{value:.2g}")
