"""A map of what a method says of each unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.maps import choropleth
from crosslevel.charts.style import plain
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["unit_map"]

SHARES = ("estimate", "conf_low", "conf_high", "lower", "upper", "turnout")


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
    """Colour each unit by the share of a group with an outcome.

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
        A matplotlib colour map.

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
    values = dict(zip(chosen["unit"].tolist(), _column(chosen, column), strict=True))
    if len(values) < len(chosen):
        raise InputError("units of different districts have the same names; draw one, result.select(district=...).")
    shares = column in SHARES or column == "width"
    features, known = _features(polygons, key)
    missing = [u for u in values if u not in known]
    if missing:
        raise InputError(
            f"polygons lacks {len(missing):,} unit(s) ({listed(missing)}); pass the polygons of all units, by the same names."
        )
    words = f"{group}" + (f" · {outcome}" if outcome is not None and "outcome" in units.keys else "")
    label = {"estimate": "share of the group", "width": "width of the bounds"}.get(column, column)
    scale = {"vmin": 0.0, "vmax": 1.0} if shares else {}
    ax = choropleth(features, values, ax, key=key, label=label, cmap=cmap, **scale)
    ax.set_title(plain(words), loc="left", fontweight="bold")
    return ax


def _column(units: Estimates, column: str) -> list[float]:
    names = units.table.column_names
    if column == "width" and {"lower", "upper"} <= set(names):
        return list(units["upper"] - units["lower"])
    numbers = [n for n in names if n not in units.keys and units[n].dtype.kind in "fiu"]
    if column not in numbers:
        raise unknown_name("column", column, [*numbers, "width"])
    return list(units[column].astype(float))


def _features(polygons: Mapping[Any, Any], key: str) -> tuple[Mapping[str, Any], set[Any]]:
    """Read either form of map as GeoJSON, and name its places."""
    if not isinstance(polygons, Mapping) or not polygons:
        raise InputError("polygons is empty or no mapping; pass {unit: rings} or a GeoJSON FeatureCollection.")
    if "features" in polygons:
        features = polygons["features"]
        return polygons, {f["properties"].get(key) for f in features}
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
    return {"type": "FeatureCollection", "features": made}, set(polygons)
