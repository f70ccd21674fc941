"""Turn a chart into a Vega-Lite specification for the page; fields have names of ours, a user's words are titles only."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.chart import Axis, Chart, Map, Mark, Panel, Places, Rows, Shade
from crosslevel.charts.style import GRAY, INK, PALE
from crosslevel.errors import MissingExtraError
from crosslevel.reports.shapes import Shapes

Spec = dict[str, Any]

HOVER = {"content": "data"}
"""Hovering hands the row to the page's script, which writes the lines of ``usermeta.tips``: Vega would make the words of every
row when it draws, which takes longer than drawing three thousand places."""
DASH = [4, 3]
STEP, OFFSET_STEP, RIDGE = 22, 13, 44
"""Pixels of a row of names, of a row set apart, and of a density."""
CELLS = {True: (92, 40), False: (54, 28)}
"""Pixels of a cell, where there are few columns and many."""
FEW_COLUMNS = 8
WIDE = {"full": 760, "half": 420, "third": 360}
LOWEST, TALLEST = 140, 520
"""Bounds of a map's height in pixels."""
PANEL = 400
"""Width of a panel beside another."""
SHARES = frozenset(
    {
        "estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "model_low", "model_high", "observed",
        "neighborhood", "goodman", "rxc", "truth", "naive", "published",
    }
)  # fmt: skip
"""Numbers on the scale of the estimate."""
MUTED = "#C8C8C8"
"""Rows outside the rectangle the reader draws."""


def spec_of(chart: Chart, shapes: Shapes | None = None) -> Spec:
    """Make the specification of a chart, without ``$schema``, ``config`` and colors of text or background, which the page sets.

    Examples
    --------
    >>> from crosslevel.charts.chart import Axis
    >>> table = pa.table({"x": [0.0, 1.0], "y": [2.0, 3.0]})
    >>> chart = Chart("c", "A line", "", [Panel([Mark("line", "x", "y")], Axis("age"), Axis("people"))], {"rows": table})
    >>> spec_of(chart)["layer"][0]["encoding"]["x"]["title"]
    'age'
    """
    if isinstance(chart.panels[0], Map):
        drawn = [_map(chart, panel, shapes) for panel in chart.panels if isinstance(panel, Map)]
        spec = drawn[0] if len(drawn) == 1 else {"hconcat": drawn, "resolve": {"scale": {"color": "independent"}}}
    else:
        spec = _panels(chart, [p for p in chart.panels if isinstance(p, Panel)])
    return spec | {"usermeta": {"tips": _tips(chart, shapes)}}


def _panels(chart: Chart, panels: Sequence[Panel]) -> Spec:
    first = next(iter(chart.data))
    ranked = [s.rank for s in chart.data.values() if isinstance(s, Rows) and s.rank]
    top: Spec = {"data": {"name": first}}
    if ranked:
        window = {"window": [{"op": "row_number", "as": "rank"}], "sort": [{"field": ranked[0], "order": "ascending"}]}
        top["transform"] = [{"filter": {"field": ranked[0], "valid": True}}, window]
    drawn = [_panel(chart, panel, first, k) for k, panel in enumerate(panels)]
    if len(drawn) > 1:
        beside = [d | {"width": PANEL} if d.get("width") == "container" else d for d in drawn]
        return top | {"hconcat": beside, "spacing": 60}
    (panel,), (spec,) = panels, drawn
    if any(mark.form == "ridge" for mark in panel.marks):
        rows = _sorted(panel.y) | {"header": {"labelAngle": 0, "labelAlign": "left", "labelLimit": 220}}
        return top | {"facet": {"row": rows}, "spacing": 2, "spec": spec | {"width": 620, "height": RIDGE}}
    if chart.facet is not None:
        by, title = chart.facet
        n = len(set(chart.tables[chart.data[first].table][by].to_pylist()))
        sort = {"field": "place", "op": "min", "order": "ascending"}
        facet = {"field": by, "type": "nominal", "title": title, "sort": sort}
        small = spec | {"width": 310 if n > 2 else 440, "height": 230}
        return top | {"facet": facet, "columns": min(3, max(n, 1)), "spec": small}
    return top | spec


def _panel(chart: Chart, panel: Panel, first: str, k: int) -> Spec:
    ridged = any(mark.form == "ridge" for mark in panel.marks)
    notes = panel.y.notes
    if ridged:  # each name has a row of its own, and its other marks stand on the ground
        level = [m if m.form in ("ridge", "rule") else replace(m, y=0.0) for m in panel.marks]
        panel = replace(panel, marks=level, y=Axis(limits=(0.0, 1.0)))
    shaded = any(isinstance(mark.color, Shade) for mark in panel.marks)
    labels = {m.label: m for m in panel.marks if m.explained and isinstance(m.color, str)}
    legend = _legend(labels) if len(labels) > 1 and not shaded else {}
    layers = [_layer(mark, panel, legend, first, k) for mark in panel.marks]
    for layer in layers if ridged else ():
        if "y" in layer["encoding"]:
            layer["encoding"]["y"]["axis"] = None
    if panel.y.names and not panel.x.names:
        # wide and unseen, so that hovering anywhere on a line answers
        offset = {"yOffset": _offset(panel.y)} if panel.y.offset else {}
        bar = {"type": "bar", "opacity": 0, "tooltip": HOVER, "description": "row"}
        layers.append({"mark": bar, "encoding": {"y": _sorted(panel.y), **offset}})
    if notes:
        text = {"type": "text", "align": "left", "dx": 6, "fontSize": 10, "clip": False, "description": "note"}
        layers.append({"mark": text, "encoding": {"x": {"value": 620}, "text": {"field": notes, "type": "nominal"}}})
    width: Any = "container"
    height: Any = chart.height
    if panel.x.names:
        columns = chart.tables[chart.data[first].table][panel.x.names]
        width, height = ({"step": step} for step in CELLS[len(set(columns.to_pylist())) <= FEW_COLUMNS])
    elif panel.y.names:
        height = {"step": OFFSET_STEP, "for": "offset"} if panel.y.offset else {"step": STEP}
    title = {"title": panel.title} if panel.title else {}
    return {"width": width, "height": height, "layer": layers, **title}


def _legend(labels: Mapping[str, Mark]) -> Spec:
    words = list(labels)
    return {
        "color": {"domain": words, "range": [GRAY if m.color == PALE else m.color for m in labels.values()]},
        "shape": {"domain": words, "range": [m.shape for m in labels.values()]},
    }


def _layer(mark: Mark, panel: Panel, legend: Spec, first: str, k: int) -> Spec:
    look, encoding = _drawn(mark, panel)
    # else Vega-Lite writes one from titles, and a user's words would stand in an expression
    look["description"] = mark.form
    layer: Spec = {"mark": look, "encoding": encoding}
    if mark.form == "rule":
        layer["data"] = {"values": [{}]}
    elif mark.data not in ("", first) and not panel.y.offset:  # rows set apart each draw what belongs to their name
        layer["data"] = {"name": mark.data}
    if mark.form == "trend":
        layer["transform"] = [{"loess": mark.y, "on": mark.x}]
    if mark.form == "text":
        if mark.by:
            white = {"test": f"datum.{mark.by} === 'white'", "value": "white"}
            encoding["color"] = {"condition": white, "value": INK}
        return layer
    if mark.by:
        encoding["detail"] = {"field": mark.by, "type": "nominal"}
    if isinstance(mark.size, str) and mark.form == "dot":
        encoding["size"] = {"field": mark.size, "type": "quantitative", "legend": None, "scale": {"range": [20, 280]}}
    if isinstance(mark.color, Shade):
        encoding["color"] = _shade(mark.color)
        if mark.brush:
            encoding["color"] = {"condition": {"param": "brush", **encoding["color"]}, "value": MUTED}
            if k == 0:
                layer["params"] = [{"name": "brush", "select": {"type": "interval"}}]
    elif mark.label in legend.get("color", {}).get("domain", ()):
        said = {"datum": mark.label, "type": "nominal", "title": None, "legend": {"symbolOpacity": 1}}
        encoding["color"] = said | {"scale": legend["color"]}
        if mark.form == "dot":
            encoding["shape"] = said | {"scale": legend["shape"]}
    else:
        look["color"] = GRAY if mark.color == PALE else mark.color
        if mark.form == "dot":
            look["shape"] = mark.shape
    if mark.color == PALE:  # it must be seen on dark paper too
        look["opacity"] = 0.3
    return layer


def _shade(shade: Shade) -> Spec:
    if shade.names:
        scale: Spec = {"domain": list(shade.domain), "range": list(shade.range)} if shade.domain and shade.range else {}
        ordered = shade.scheme == "ordered"
        if ordered:
            scale = {"scheme": {"name": "viridis", "extent": [0.2, 0.95]}}
        found: Spec = {"field": shade.field, "type": "nominal", "title": shade.title or None, "scale": scale}
        found["sort"] = "ascending" if ordered else None
        return found | {"legend": {"orient": "bottom", "columns": 3, "symbolOpacity": 1}}
    ends: Spec = {"domain": list(shade.domain), "clamp": True} if shade.domain else {}
    reverse = {"reverse": True} if shade.scheme == "blueorange" else {}
    found = {"field": shade.field, "type": "quantitative", "title": shade.title or None}
    return found | {
        "scale": {"scheme": shade.scheme, **ends, **reverse},
        "legend": {"orient": "bottom", "gradientLength": 240, "titleLimit": 300},
    }


def _at(value: str | float | None, axis: Axis) -> Spec:
    """Encode a place along an axis of numbers."""
    scale: Spec = {"zero": axis.zero}
    scale |= {"domain": list(axis.limits), "nice": False} if axis.limits else {}
    scale |= {"type": "sqrt"} if axis.root else {}
    shown: Spec = {"format": ".0%"} if axis.share else {}
    shown |= {"values": list(axis.ticks)} if axis.ticks is not None else {}
    if isinstance(axis.ticks, Mapping):
        *rest, last = [(at, f"'{words:.6g}'") for at, words in sorted(axis.ticks.items())]
        ends = [at for at, _ in [*rest, last]]
        steps = zip(rest, pairwise(ends), strict=True)
        shown["labelExpr"] = "".join(f"datum.value < {(a + b) / 2} ? {w} : " for (_, w), (a, b) in steps) + last[1]
    found: Spec = {"type": "quantitative", "title": axis.title or None, "scale": scale}
    found |= {"axis": shown} if shown else {}
    return found | ({"field": value} if isinstance(value, str) else {"datum": value})


def _sorted(axis: Axis) -> Spec:
    """Encode the names of an axis, in their order."""
    order = "descending" if axis.down else "ascending"
    sort = {"field": axis.order, "op": "max" if axis.down else "min", "order": order} if axis.order else None
    found: Spec = {"field": axis.names, "type": "nominal", "title": axis.title or None}
    return found | {"sort": sort, "axis": {"labelLimit": 220}}


def _offset(axis: Axis) -> Spec:
    return {"field": axis.offset, "type": "nominal", "sort": None}


def _place(mark: Mark, panel: Panel) -> Spec:
    """Encode where a mark stands on both axes."""
    found: Spec = {}
    for name, value, axis in (("x", mark.x, panel.x), ("y", mark.y, panel.y)):
        if value is None and axis.names:
            found[name] = _sorted(axis)
            if name == "x":
                found[name]["axis"] = {"labelAngle": -35, "labelLimit": 160}
            if axis.offset:
                found["yOffset"] = _offset(axis)
        elif value is not None:
            found[name] = _at(value, axis)
    for name, value in (("x2", mark.x2), ("y2", mark.y2)):
        if value is not None:
            found[name] = {"field": value} if isinstance(value, str) else {"datum": value}
    return found


_MARKS: dict[str, Spec] = {
    "dot": {"type": "point", "tooltip": HOVER},
    "interval": {"type": "rule", "strokeCap": "round"},
    "bar": {"type": "bar", "tooltip": HOVER},
    "band": {"type": "area"},
    "ridge": {"type": "area"},
    "line": {"type": "line", "fill": None, "tooltip": HOVER},
    "diagonal": {"type": "line", "fill": None, "strokeDash": DASH},
    "trend": {"type": "line", "fill": None},
    "tick": {"type": "tick", "orient": "vertical", "thickness": 2, "bandSize": 20},
    "text": {"type": "text", "fontSize": 10, "lineBreak": "\n"},
    "cell": {"type": "rect", "tooltip": HOVER},
    "rule": {"type": "rule", "strokeDash": DASH},
}
"""What every mark of a form looks like."""


def _drawn(mark: Mark, panel: Panel) -> tuple[Spec, Spec]:
    """Give the look of a mark and the encoding of its place."""
    form, look, encoding = mark.form, dict(_MARKS[mark.form]), _place(mark, panel)
    if form not in ("tick", "text", "rule"):
        look["opacity"] = mark.alpha
    if form in ("interval", "line", "diagonal", "trend"):
        look["strokeWidth"] = mark.width
    if form == "dot":
        look |= {"filled": mark.filled} | ({} if isinstance(mark.size, str) else {"size": round(2.2 * mark.size)})
    elif form == "bar" and panel.y.names:
        look |= {} if panel.y.offset else {"height": 9, "cornerRadius": 2}
    elif form == "bar":
        look |= {"stroke": "white", "strokeWidth": 0.6}
        encoding["y2"] = {"datum": 0}
    elif form == "ridge":
        encoding["y"] = {"field": mark.y, "type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}
    elif form == "diagonal":
        encoding["y"] = _at(mark.x, panel.y)
    elif form == "line":
        look |= {"strokeDash": DASH} if mark.dash else {}
        encoding |= {"order": {"field": mark.order, "type": "quantitative"}} if mark.order else {}
    elif form == "text":
        look |= {} if panel.x.names else {"align": "left", "dx": 8, "dy": -6, "limit": 140}
        encoding["text"] = {"field": mark.text, "type": "nominal"}
    elif form == "rule":
        axis, value = ("y", mark.y) if mark.x is None else ("x", mark.x)
        encoding = {axis: {"datum": value, "type": "quantitative"}}
    return look, encoding


def _map(chart: Chart, panel: Map, shapes: Shapes | None) -> Spec:
    assert shapes is not None
    scale: Spec = {"scheme": "blueorange" if panel.diverging else panel.scheme}
    scale |= {"domain": list(panel.domain), "clamp": True} if panel.domain else {"zero": False}
    scale |= {"domainMid": 0} if panel.diverging else {}
    form: Spec = {"format": ".0%" if panel.share else "~g"}
    if panel.share and panel.diverging:  # differences of shares are points, not percent
        form = {"labelExpr": "format(100 * datum.value, '+.0f')"}
    color = {
        "test": f"isValid(datum.properties.{panel.field})",
        "field": f"properties.{panel.field}",
        "type": "quantitative",
        "scale": scale,
        "title": panel.words or None,
        "legend": form | {"orient": "bottom", "gradientLength": 240, "titleLimit": 300},
    }
    if "." in panel.field:
        color["test"] = f"isValid(datum.properties.{panel.field.partition('.')[0]}) && {color['test']}"
    several = len(chart.panels) > 1
    return {
        "data": {"name": next(iter(chart.data))},
        "width": 470 if several else "container",
        "height": int(np.clip((470 if several else WIDE[chart.size]) * shapes.aspect, LOWEST, TALLEST)),
        "projection": {"type": "identity", **({"pointRadius": 4} if shapes.dots else {})},
        "mark": {"type": "geoshape", "tooltip": HOVER, "strokeWidth": 0.4 if len(shapes.places) < 500 else 0.12},
        "encoding": {"color": {"condition": color, "value": GRAY}},
        **({"title": panel.title} if panel.title else {}),
    }


def _tips(chart: Chart, shapes: Shapes | None) -> list[Spec]:
    """Give the lines of a tooltip, numbers of shares in percent."""
    source = next(iter(chart.data.values()))
    mapped = isinstance(source, Places)
    lines: list[Spec] = []
    if mapped and shapes is not None and shapes.labels():
        lines.append({"field": "properties.label", "title": "place", "type": "nominal"})
    for name, words in chart.tips.items():
        field, last = f"properties.{name}" if mapped else name, name.rpartition(".")[2]
        line: Spec = {"field": field, "title": words}
        if not _is_number(chart, last):
            lines.append(line | {"type": "nominal"})
        elif last == "difference":
            lines.append(line | {"type": "quantitative", "format": "points" if chart.share else ",.4~g"})
        else:
            form = ".1%" if chart.share and last in SHARES else ",.4~g"
            lines.append(line | {"type": "quantitative", "format": form})
    return lines


def _is_number(chart: Chart, name: str) -> bool:
    if name in ("difference", "rank", "value", "x", "y", "effect", "shade_number"):
        return True
    types = [t.schema.field(name).type for t in chart.tables.values() if name in t.column_names]
    return bool(types) and not (pa.types.is_string(types[0]) or pa.types.is_large_string(types[0]))


MISSING = (
    "The charts of this page are pictures: install crosslevel[report] (pip install 'crosslevel[report]') and make the page again "
    "for maps and charts that answer to the reader."
)
"""What a page without the extra says."""
SNIPPET = "window.crosslevelVega = vegaEmbed;"
"""One name of our own: a host page may have a Vega of its own."""


def available() -> bool:
    """Tell whether the extra ``report`` is installed."""
    return importlib.util.find_spec("vl_convert") is not None


@functools.cache
def vega_script() -> str:
    """Give Vega, Vega-Lite and vega-embed (which holds Vega's interpreter of expressions) as one script.

    It stands in a function of its own, so that two reports in one page do not meet, and runs once where it is there twice.

    Examples
    --------
    >>> "crosslevelVega" in vega_script() and "</script" not in vega_script()
    True
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError(
            "interactive charts need vl-convert-python; install it with pip install 'crosslevel[report]'."
        ) from error
    code = vl_convert.javascript_bundle(SNIPPET)
    # neither may stand inside a script element, whatever the JavaScript around it means
    for bad, good in (("</script", "<\\/script"), ("<!--", "<\\!--")):
        code = code.replace(bad, good)
    return f"if (!window.crosslevelVega) {{(() => {{\n{code}\n}})();}}"
