"""Pieces that the pages of the rooms share: words of an answer, classes of colour, charts of intervals, maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.reports.pages.words import number, plain, provenance_words
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = [
    "BLUE",
    "GREY",
    "MOST_LEVELS",
    "MOST_POINTS",
    "ORANGE",
    "about",
    "axis_name",
    "diagonal",
    "fifths",
    "interval_chart",
    "level_names",
    "maps",
    "on_map",
    "sample",
    "settled",
    "span",
    "tips",
    "with_level",
    "zero_line",
]

Spec = dict[str, Any]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
MOST_POINTS = 3000
"""Rows that a chart of points holds; more are sampled."""
MOST_LEVELS = 12
"""Levels that colours can tell apart; further ones share the last."""
SEED = 0
OTHER = "all others"


def about(estimates: Estimates) -> dict[str, Any]:
    """Give the fields of a section that any answer fills: method, level, warnings, diagnostics, provenance.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build({"g": ["a"], "estimate": [1.0]}, keys=["g"], method="example", level=None, interval="none",
    ...                       provenance=Provenance.of(call="example()", seed=3))
    >>> about(est)["provenance"][1:3]
    [('call', 'example()'), ('seed', '3')]
    """
    return {
        "method": estimates.method,
        "level": estimates.level,
        "interval": estimates.interval,
        "warnings": list(estimates.warnings),
        "diagnostics": [(name, plain(value)) for name, value in estimates.diagnostics.items()],
        "provenance": provenance_words(estimates),
    }


def span(low: float, high: float) -> str:
    """Write an interval.

    Examples
    --------
    >>> span(0.1, 0.25)
    '[0.1, 0.25]'
    """
    return f"[{number(low)}, {number(high)}]"


def sample(n: int, most: int = MOST_POINTS) -> npt.NDArray[np.intp]:
    """Choose the rows that a chart shows: all, or a seeded random part in their order.

    Examples
    --------
    >>> sample(3).tolist(), len(sample(10_000))
    ([0, 1, 2], 3000)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(SEED).choice(n, most, replace=False))


def fifths(values: npt.ArrayLike) -> list[str | None]:
    """Name the fifth of its kind that each number falls into, in an order that text keeps.

    Examples
    --------
    >>> fifths([1.0, 2.0, 3.0, 4.0, 50.0])
    ['1: 1 to 1', '2: 2 to 2', '3: 3 to 3', '4: 4 to 4', '5: 50 to 50']
    """
    x = np.asarray(values, dtype=np.float64)
    known = np.isfinite(x)
    if not known.any():
        return [None] * len(x)
    ends = np.unique(np.quantile(x[known], [0.2, 0.4, 0.6, 0.8]))
    code = np.searchsorted(ends, x, side="right")
    names: dict[int, str] = {}
    for place, c in enumerate(np.unique(code[known]).tolist()):
        own = x[known & (code == c)]
        names[c] = f"{place + 1}: {number(float(own.min()))} to {number(float(own.max()))}"
    return [names[c] if k else None for c, k in zip(code.tolist(), known.tolist(), strict=True)]


def level_names(values: Sequence[Any]) -> list[str | None]:
    """Name the level of each row, the rarest levels together when there are more than colours tell apart.

    Examples
    --------
    >>> level_names(["a", None, 2])
    ['a', None, '2']
    """
    words = [None if v is None else str(v) for v in values]
    counts: dict[str, int] = {}
    for word in words:
        if word is not None:
            counts[word] = counts.get(word, 0) + 1
    if len(counts) <= MOST_LEVELS:
        return words
    kept = set(sorted(counts, key=lambda w: (-counts[w], w))[: MOST_LEVELS - 1])
    return [w if w is None or w in kept else OTHER for w in words]


def tips(*fields: tuple[str, str] | tuple[str, str, str], prefix: str = "") -> list[Spec]:
    """Give a tooltip: (field, title) of numbers, (field, title, "nominal") of text."""
    out: list[Spec] = []
    for name, title, *kind in fields:
        entry: Spec = {"field": prefix + name, "title": title, "type": kind[0] if kind else "quantitative"}
        out.append(entry if kind else entry | {"format": ",.4~r"})
    return out


def axis_name(data: str, side: str, width: int, height: int) -> Spec:
    """Write the name of what was chosen along an axis: a text from data, since a specification's own titles are fixed."""
    place: Spec = (
        {"x": width / 2, "y": height + 34, "baseline": "top"}
        if side == "bottom"
        else {"x": -46, "y": height / 2, "angle": 270, "baseline": "bottom"}
    )
    mark = {"type": "text", "align": "center", "fontSize": 12, "limit": 320, "clip": False}
    return {
        "data": {"name": data},
        "mark": mark | place,
        "encoding": {"text": {"field": "words", "type": "nominal"}},
    }


def zero_line(axis: str = "y", at: float = 0.0) -> Spec:
    """Draw a line at a fixed value."""
    return {
        "data": {"values": [{"zero": at}]},
        "mark": {"type": "rule", "color": GREY, "strokeDash": [4, 3]},
        "encoding": {axis: {"field": "zero", "type": "quantitative"}},
    }


def diagonal(data: str, x: str = "x", y: str = "y") -> Spec:
    """Draw the line of equality through the two rows of a data set."""
    return {
        "data": {"name": data},
        "mark": {"type": "line", "fill": None, "color": GREY, "strokeDash": [4, 3]},
        "encoding": {x: {"field": "end", "type": "quantitative"}, y: {"field": "end", "type": "quantitative"}},
    }


def interval_chart(
    data: str,
    *,
    label: str,
    x_title: str,
    tooltip: list[Spec],
    order: str = "place",
    fields: tuple[str, str, str] = ("estimate", "conf_low", "conf_high"),
    at: float | None = None,
    other: tuple[str, str] | None = None,
    color: Spec | None = None,
    zero: bool = False,
) -> Spec:
    """Specify a row per estimate, a dot with its interval; ``at`` draws a line, ``other`` a second mark (field, colour)."""
    middle, low, high = fields
    y: Spec = {
        "field": label,
        "type": "nominal",
        "title": None,
        "sort": {"field": order, "op": "min", "order": "ascending"},
        "axis": {"labelLimit": 220},
    }
    x: Spec = {"type": "quantitative", "title": x_title, "scale": {"zero": zero}}
    paint: Spec = {"color": color} if color is not None else {}
    fixed: Spec = {} if color is not None else {"color": BLUE}
    layers: list[Spec] = [] if at is None else [zero_line("x", at)]
    layers += [
        {
            "mark": {"type": "rule", "strokeWidth": 2.4, **fixed},
            "encoding": {"y": y, "x": x | {"field": low}, "x2": {"field": high}, "tooltip": tooltip, **paint},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, **fixed},
            "encoding": {"y": y, "x": x | {"field": middle}, "tooltip": tooltip, **paint},
        },
    ]
    if other is not None:
        layers.append(
            {
                "mark": {"type": "point", "shape": "diamond", "filled": False, "size": 60, "color": other[1]},
                "encoding": {"y": y, "x": x | {"field": other[0]}, "tooltip": tooltip},
            }
        )
    return {"data": {"name": data}, "width": "container", "height": {"step": 22}, "layer": layers}


def maps(
    sides: Sequence[tuple[str, str, Spec]], fields: Sequence[tuple[str, str] | tuple[str, str, str]], dots: bool
) -> Spec:
    """Specify maps side by side of the features ``places``: (column of side a, title, scale) each; places without a number are grey.

    Parameters
    ----------
    sides : sequence of (column, title, scale)
    fields : sequence of (column, title) or (column, title, "nominal")
        What pointing at a place shows.
    dots : bool
        Whether places are points.
    """
    drawn: list[Spec] = [
        {
            "data": {"name": "places"},
            "title": title,
            "width": 470 if len(sides) > 1 else "container",
            "height": 360,
            "projection": {"type": "identity", **({"pointRadius": 5} if dots else {})},
            "mark": {"type": "geoshape"},
            "encoding": {
                "color": {
                    "condition": {
                        "test": f"isValid(datum.properties.a) && isValid(datum.properties.a.{column})",
                        "field": f"properties.a.{column}",
                        "type": "quantitative",
                        "title": None,
                        "scale": scale,
                        "legend": {"orient": "bottom", "gradientLength": 240},
                    },
                    "value": GREY,
                },
                "tooltip": tips(*fields, prefix="properties.a."),
            },
        }
        for column, title, scale in sides
    ]
    return drawn[0] if len(drawn) == 1 else {"hconcat": drawn, "resolve": {"scale": {"color": "independent"}}}


def on_map(shapes: Any, values: Sequence[Any], prefer: str = "") -> bool:
    """Tell whether a map shows the places of these values, and there are several; ``prefer`` names the property to look at.

    Examples
    --------
    >>> from crosslevel.reports.shapes import read_points
    >>> shapes = read_points({"a": (0, 0), "b": (1, 1)})
    >>> on_map(shapes, ["a", "b"]), on_map(shapes, ["x", "y"]), on_map(None, ["a", "b"])
    (True, False, False)
    """
    if shapes is None or len(set(values)) < 2:
        return False
    return shapes.names_for(list(values), prefer) is not None


def with_level(level: float | None, whose: str = "its") -> str:
    """Say which interval is drawn beside a number; nothing where there is none.

    Examples
    --------
    >>> with_level(0.9), with_level(None)
    (' with its 90 % interval', '')
    """
    return "" if level is None else f" with {whose} {level_words(level)}"


def settled(value: float, scale: float) -> float:
    """Give a number that is rounding error beside the scale as zero.

    Examples
    --------
    >>> settled(1e-14, 2.0), settled(0.1, 2.0)
    (0.0, 0.1)
    """
    return 0.0 if abs(value) <= 1e-8 * abs(scale) else value
