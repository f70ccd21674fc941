"""Two maps side by side: what is estimated of each place, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.charts.maps import choropleth, estimate_map
from crosslevel.charts.style import plain, style
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["choropleth_pair", "estimate_pair"]

SURE = "magma_r"
"""Colours of the standard deviation: the darker, the less is known."""


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
    """Colour places by their mean on one map and by its standard deviation on another.

    Parameters
    ----------
    polygons : mapping
        A GeoJSON FeatureCollection; ``Polygons.geojson()`` gives one.
    mean, sd : mapping of place to number
        Of the same places.
    axes : two matplotlib.axes.Axes, optional
    key : str
        The property of a feature that names its place.
    label : str
        What the numbers are.
    cmap : str
        Colours of the mean.
    plane : bool
        The coordinates are plane, not longitude and latitude.

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
    choropleth(polygons, mean, left, key=key, label=label, cmap=cmap)
    choropleth(polygons, sd, right, key=key, label=label, vmin=0.0, cmap=SURE)
    return _titled(left, right, "", plane)


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
    estimates : Estimates
        With the places among its keys.
    polygons : mapping
        A GeoJSON FeatureCollection whose features name their place in the property ``by``.
    by : str
        The key of the estimates, and the property of the features, that names the place.
    select : mapping of key to value, optional
        The subgroup, where there are several.
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
    shown: dict[str, Any] = {"by": by, "select": select, "label": label}
    estimate_map(estimates, polygons, ax=left, cmap=cmap, **shown)
    words = left.get_title(loc="left")
    estimate_map(estimates, polygons, column="std_error", ax=right, vmin=0.0, cmap=SURE, **shown)
    return _titled(left, right, words, plane)


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


def _titled(left: Axes, right: Axes, words: str, plane: bool) -> tuple[Axes, Axes]:
    before = f"{words} · " if words else ""
    for ax, what in ((left, "mean"), (right, "standard deviation")):
        ax.set_title(f"{before}{plain(what)}", loc="left", fontweight="bold")
        if plane:
            ax.set_aspect("equal")
    return left, right
