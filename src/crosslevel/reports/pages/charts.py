"""Specifications of the charts that several pages share; fields have names of ours, a user's words are titles only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["BLUE", "MARKS", "axis", "caterpillar", "choropleth", "compared", "dots", "ranking", "tip"]

BLUE, ORANGE, GREEN, PURPLE, VERMILION, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#999999"
"""Okabe and Ito's colours, told apart by colour-blind readers; shapes differ too."""

HOVER = {"content": "data"}
"""Hovering hands the row to the page's script, which writes the lines of ``usermeta.tips``: Vega would make the words of every
row when it draws, which takes longer than drawing three thousand places."""

MARKS: Mapping[str, tuple[str, str, str]] = {
    "neighborhood": ("everybody like their place", ORANGE, "square"),
    "goodman": ("Goodman regression", GREEN, "triangle-up"),
    "rxc": ("R x C model", PURPLE, "diamond"),
    "truth": ("truth", VERMILION, "cross"),
}
"""Columns that are drawn beside the estimate: words, colour, shape."""


def axis(words: str, share: bool) -> dict[str, Any]:
    """Give title and format of an axis of estimates."""
    return {"title": words, "axis": {"format": ".0%" if share else "~g"}}


def tip(columns: Mapping[str, str], share: bool, prefix: str = "") -> list[dict[str, Any]]:
    """Give the lines of a tooltip: field to words, in turn; numbers of estimates in per cent for shares.

    Examples
    --------
    >>> tip({"label": "who", "estimate": "estimate"}, share=True)[1]
    {'field': 'estimate', 'title': 'estimate', 'type': 'quantitative', 'format': '.1%'}
    """
    lines: list[dict[str, Any]] = []
    for name, words in columns.items():
        if name in _TEXTS or name.startswith("k"):
            lines.append({"field": prefix + name, "title": words, "type": "nominal"})
        else:
            form = ",.4~g" if not share or name in _COUNTS or name.startswith("x") else ".1%"
            lines.append({"field": prefix + name, "title": words, "type": "quantitative", "format": form})
    return lines


_TEXTS = ("label", "cell", "place", "subgroup", "outcome", "method")
_COUNTS = ("population", "effective_size", "shift")


def _legend(shown: Sequence[str]) -> dict[str, Any]:
    words = ["estimate", *(MARKS[n][0] for n in shown)]
    return {
        "color": {"domain": words, "range": [BLUE, *(MARKS[n][1] for n in shown)]},
        "shape": {"domain": words, "range": ["circle", *(MARKS[n][2] for n in shown)]},
    }


def ranking(
    words: str,
    *,
    share: bool,
    interval: bool,
    bounds: bool = False,
    beside: Sequence[str] = (),
    tips: Mapping[str, str],
) -> dict[str, Any]:
    """Draw a line for each row of ``rows``: the estimate and its interval, the bounds behind, other methods and the truth beside.

    Parameters
    ----------
    words : str
        Title of the axis.
    share : bool
        Whether numbers are shares, written in per cent.
    interval, bounds : bool
        Whether the rows have ``conf_low, conf_high`` and ``bound_low, bound_high``.
    beside : sequence of str
        Further columns to draw, keys of ``MARKS``.
    tips : mapping of field to words
        What hovering says.

    Notes
    -----
    Rows need the fields ``label``, ``estimate`` and ``sort_by`` (a number; the largest stands first).
    """
    y = {
        "field": "label",
        "type": "nominal",
        "title": None,
        "sort": {"field": "sort_by", "op": "max", "order": "descending"},
    }
    scales = _legend(beside)

    def x(name: str) -> dict[str, Any]:
        return {"field": name, "type": "quantitative", "scale": {"zero": False}, **axis(words, share)}

    layers: list[dict[str, Any]] = []
    if bounds:
        behind = {"type": "bar", "height": 9, "color": GREY, "opacity": 0.35, "cornerRadius": 2}
        layers.append({"mark": behind, "encoding": {"x": x("bound_low"), "x2": {"field": "bound_high"}}})
    if interval:
        rule = {"type": "rule", "strokeWidth": 3, "opacity": 0.7, "strokeCap": "round"}
        layers.append({"mark": rule, "encoding": {"x": x("conf_low"), "x2": {"field": "conf_high"}}})
    for name, said in [("estimate", "estimate"), *((n, MARKS[n][0]) for n in beside)]:
        mark = {"type": "point", "filled": True, "size": 65 if name == "estimate" else 45, "opacity": 1}
        legend: dict[str, Any] = {} if beside else {"legend": None}
        encoding = {
            "x": x(name),
            "color": {"datum": said, "type": "nominal", "title": None, "scale": scales["color"], **legend},
            "shape": {"datum": said, "type": "nominal", "title": None, "scale": scales["shape"], **legend},
        }
        layers.append({"mark": mark, "encoding": encoding})
    # wide and unseen, so that hovering anywhere on a line answers
    layers.append({"mark": {"type": "bar", "opacity": 0, "tooltip": HOVER}})
    return {
        "width": "container",
        "height": {"step": 22},
        "data": {"name": "rows"},
        "encoding": {"y": y},
        "layer": layers,
        "usermeta": {"tips": tip(tips, share)},
    }


def caterpillar(words: str, *, share: bool, interval: bool, tips: Mapping[str, str], rows: int = 100) -> dict[str, Any]:
    """Draw very many rows from the lowest estimate to the highest, with their intervals; hovering names them."""
    x = {
        "field": "rank",
        "type": "quantitative",
        "title": "rank, from the lowest",
        "scale": {"zero": False, "nice": False},
    }
    y = {"field": "estimate", "type": "quantitative", "scale": {"zero": False}, **axis(words, share)}
    layers: list[dict[str, Any]] = []
    if interval:
        rule = {"type": "rule", "strokeWidth": 1, "opacity": 0.35 if rows < 500 else 0.15}
        low = {**y, "field": "conf_low"}
        layers.append({"mark": rule, "encoding": {"x": x, "y": low, "y2": {"field": "conf_high"}}})
    point = {"type": "point", "filled": True, "size": 18, "opacity": 0.9, "color": BLUE, "tooltip": HOVER}
    layers.append({"mark": point, "encoding": {"x": x, "y": y}})
    ranked = {"window": [{"op": "row_number", "as": "rank"}], "sort": [{"field": "estimate", "order": "ascending"}]}
    return {
        "width": "container",
        "height": 300,
        "data": {"name": "rows"},
        "transform": [{"filter": {"field": "estimate", "valid": True}}, ranked],
        "layer": layers,
        "usermeta": {"tips": tip(tips, share)},
    }


def choropleth(
    field: str,
    words: str,
    *,
    height: int,
    domain: Sequence[float],
    share: bool,
    tips: Sequence[Mapping[str, Any]],
    diverging: bool = False,
    dots: bool = False,
    places: int = 100,
) -> dict[str, Any]:
    """Colour the places of ``places`` (features of a map) by a field; those without a number stay grey.

    Parameters
    ----------
    field : str
        ``a.estimate``, ``difference``: a path below the features' properties.
    words : str
        Title of the legend.
    height : int
        In pixels; the width is that of the page's column.
    domain : sequence of two numbers
        Ends of the colours, the same for maps that are to be compared; empty for those of the numbers shown.
    share : bool
        Whether numbers are shares, written in per cent.
    tips : sequence of mapping
        Lines of the tooltip, with whole paths (``properties.a.estimate``).
    diverging : bool
        Blue to orange around zero, instead of viridis.
    dots : bool
        Whether places are points.
    places : int
        How many there are; the borders of very many are thin.
    """
    scale: dict[str, Any] = {"scheme": "blueorange" if diverging else "viridis"}
    if domain:
        scale |= {"domain": list(domain), "clamp": True}
    else:
        scale |= {"zero": False}
    if diverging:
        scale |= {"domainMid": 0}
    colour = {
        "field": f"properties.{field}",
        "type": "quantitative",
        "scale": scale,
        "title": words,
        "legend": _POINTS if share and diverging else {"format": ".0%" if share else "~g"},
    }
    drawn = {
        "condition": {"test": f"isValid(datum.properties.{field})", **colour},
        "value": GREY,
    }
    return {
        "width": "container",
        "height": height,
        "data": {"name": "places"},
        "projection": {"type": "identity", **({"pointRadius": 4} if dots else {})},
        "mark": {"type": "geoshape", "tooltip": HOVER, "strokeWidth": 0.4 if places < 500 else 0.12},
        "encoding": {"color": drawn},
        "usermeta": {"tips": list(tips)},
    }


_POINTS = {"labelExpr": "format(100 * datum.value, '+.0f')"}
"""Differences of shares are points, not per cent."""


def dots(x: str, y: str, x_words: str, y_words: str, *, share: bool, tips: Mapping[str, str]) -> dict[str, Any]:
    """Draw a point for each row of ``rows``, its interval upright, and the line on which both agree."""
    across = {"field": x, "type": "quantitative", "scale": {"zero": False}, **axis(x_words, share)}
    up = {"field": y, "type": "quantitative", "scale": {"zero": False}, **axis(y_words, share)}
    rule = {"type": "rule", "strokeWidth": 1, "opacity": 0.3}
    line = {"type": "line", "style": "soft", "strokeDash": [4, 3], "opacity": 0.8}
    point = {"type": "point", "filled": True, "size": 25, "opacity": 0.8, "color": BLUE, "tooltip": HOVER}
    return {
        "width": "container",
        "height": 320,
        "data": {"name": "rows"},
        "layer": [
            {"mark": rule, "encoding": {"x": across, "y": {**up, "field": "conf_low"}, "y2": {"field": "conf_high"}}},
            {"mark": point, "encoding": {"x": across, "y": up}},
            {"mark": line, "encoding": {"x": across, "y": {**up, "field": x}}},
        ],
        "usermeta": {"tips": tip(tips, share)},
    }


def compared(
    words: str,
    *,
    share: bool,
    interval: bool,
    bounds: bool = False,
    beside: Sequence[str] = (),
    tips: Mapping[str, str],
) -> dict[str, Any]:
    """Draw the methods of each cell under one another, a colour for each, the bounds behind; ``cell`` and ``method`` name them."""
    y = {"field": "cell", "type": "nominal", "title": None, "sort": None, "scale": {"paddingInner": 0.25}}
    shared = {
        "y": y,
        "yOffset": {"field": "method", "type": "nominal", "sort": None},
        "color": {"field": "method", "type": "nominal", "title": None, "sort": None},
    }

    def x(name: str) -> dict[str, Any]:
        return {"field": name, "type": "quantitative", "scale": {"zero": False}, **axis(words, share)}

    layers: list[dict[str, Any]] = []
    if bounds:
        behind = {"type": "bar", "color": GREY, "opacity": 0.25}
        places = {"y": y, "yOffset": shared["yOffset"]}
        layers.append({"mark": behind, "encoding": {**places, "x": x("bound_low"), "x2": {"field": "bound_high"}}})
    if interval:
        rule = {"type": "rule", "strokeWidth": 2, "opacity": 0.7}
        layers.append({"mark": rule, "encoding": {**shared, "x": x("conf_low"), "x2": {"field": "conf_high"}}})
    point = {"type": "point", "filled": True, "size": 55, "opacity": 1, "tooltip": HOVER}
    layers.append({"mark": point, "encoding": {**shared, "x": x("estimate")}})
    for name in beside:
        mark = {"type": "point", "filled": True, "size": 45, "color": MARKS[name][1], "shape": MARKS[name][2]}
        layers.append({"mark": mark, "encoding": {"y": y, "x": x(name)}})
    return {
        "width": "container",
        "height": {"step": 13, "for": "offset"},
        "data": {"name": "rows"},
        "layer": layers,
        "usermeta": {"tips": tip(tips, share)},
    }
