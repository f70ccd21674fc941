"""Maps of estimates by place: two subgroups side by side, their difference, and any other column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.reports.pages import charts
from crosslevel.reports.pages.table import FIXED, Cells
from crosslevel.reports.pages.words import count, is_share, level_words, mapped_level, named
from crosslevel.reports.shapes import Shapes
from crosslevel.reports.views import Choice, Features, Rows, View
from crosslevel.results import Estimates

__all__ = ["Mapped", "map_views", "place_key"]

APART = ("outcome", "method")
"""Keys that have a drop-down list of their own and hold for both maps."""
HEIGHT, TALLEST = 140, 520
"""Bounds of a map's height in pixels."""
UNSEEN = 0.05
"""Part of a colour scale that an eye does not tell apart."""


@dataclass(frozen=True)
class Mapped:
    """The maps of a result.

    Attributes
    ----------
    cells : Cells
        With the further column ``subgroup``.
    choices, views
    place : str
        The key that names the places.
    subgroups : tuple of str
    """

    cells: Cells
    choices: list[Choice]
    views: list[View]
    place: str
    subgroups: tuple[str, ...]


def place_key(cells: Cells, shapes: Shapes | None) -> str | None:
    """Find the key that names places of the map: one that a property is called by, and else the one with most values.

    Codes of few values (1 and 2 for men and women) may be codes of places too, so the first that fits will not do.
    """
    if shapes is None:
        return None
    values = {key: cells.levels(key) for key in cells.keys}
    fitting = [key for key, v in values.items() if len(v) > 1 and shapes.names_for(v, key) is not None]
    return max(fitting, key=lambda key: (key in shapes.properties, len(values[key])), default=None)


def map_views(result: Estimates, cells: Cells, shapes: Shapes, place: str) -> Mapped:
    """Make the maps of a result whose places the shapes show.

    With one subgroup there is one map; with several two maps stand side by side, each with its drop-down list, and the
    difference of the two.
    """
    apart = [key for key in cells.keys if key in APART and key != place and len(cells.levels(key)) > 1]
    inner = [key for key in cells.keys if key not in (*apart, place)]
    cells = _with_subgroup(cells, inner)
    subgroups = [str(v) for v in cells.table["subgroup"].unique().to_pylist()]
    shared = {cells.keys[key]: cells.keys[key] for key in apart}
    choices = [Choice(cells.keys[key], key, cells.options(key)) for key in apart]
    options = [(v, v) for v in subgroups]
    several = len(subgroups) > 1
    sides = {"a": {**shared, **({"subgroup": "a"} if several else {})}}
    if several:
        choices += [Choice("a", "subgroup", options), Choice("b", "subgroup", options, start=1)]
        sides["b"] = {**shared, "subgroup": "b"}
    source = Features("cells", cells.keys[place], sides)
    maps = _Maps(result, cells, shapes, place, source, [cells.keys[key] for key in apart])
    views = [maps.side("a", several)]
    if several:
        views += [maps.side("b", several), maps.difference(subgroups)]
    views.append(_places(result, cells, place, sides["a"], [c.name for c in choices if c.name != "b"]))
    further = maps.further([c.name for c in choices if c.name != "b"])
    if further is not None:
        choice, view = further
        choices.append(choice)
        views.append(view)
    return Mapped(cells, choices, views, place, tuple(subgroups))


def _with_subgroup(cells: Cells, inner: Sequence[str]) -> Cells:
    """Add the column that names the subgroup: a bare number says which key it is of."""

    def said(key: str, value: Any) -> str:
        text = "–" if value is None else str(value)
        return f"{key} {text}" if text.replace(".", "", 1).isdigit() else text

    columns = [[said(key, v) for v in cells.table[cells.keys[key]].to_pylist()] for key in inner]
    # two subgroups whose words are the same when joined stay two
    known: dict[str, list[tuple[str, ...]]] = {}
    words: list[str] = [] if inner else ["everybody"] * cells.table.num_rows
    for row in zip(*columns, strict=True):
        joined = " · ".join(row)
        alike = known.setdefault(joined, [])
        if row not in alike:
            alike.append(row)
        words.append(f"{joined} ({alike.index(row) + 1})" if alike.index(row) else joined)
    table = cells.table.append_column("subgroup", pa.array(words, pa.string()))
    return replace(cells, table=table, labels={**cells.labels, "subgroup": "subgroup"})


@dataclass(frozen=True)
class _Maps:
    result: Estimates
    cells: Cells
    shapes: Shapes
    place: str
    source: Features
    apart: Sequence[str]

    def _tips(self, sides: Sequence[str]) -> list[dict[str, Any]]:
        share = is_share(self.result)
        where = [("label", "place")] if self.shapes.labels() else []
        lines: list[dict[str, Any]] = [
            {"field": f"properties.{name}", "title": words, "type": "nominal"}
            for name, words in [*where, ("place", self.place)]
        ]
        if len(sides) == 1:
            have = {n: named(self.cells.labels[n]) for n in self._numbers()}
            return lines + charts.tip({"subgroup": "subgroup", **have}, share, f"properties.{sides[0]}.")
        for side, words in zip(sides, ("first", "second"), strict=True):
            lines += charts.tip(
                {"subgroup": f"{words} subgroup", "estimate": f"{words}, estimate"}, share, f"properties.{side}."
            )
        form = "points" if share else ",.4~g"
        return [
            *lines,
            {"field": "properties.difference", "title": "difference", "type": "quantitative", "format": form},
        ]

    def _numbers(self) -> list[str]:
        return [n for n in self.cells.table.column_names if n in FIXED or n.startswith("x")]

    def _drawn(self, field: str, words: str, **options: Any) -> dict[str, Any]:
        height, places = self._height(options.pop("wide")), len(self.shapes.places)
        return charts.choropleth(field, words, height=height, dots=self.shapes.dots, places=places, **options)

    def _height(self, wide: int) -> int:
        return int(np.clip(wide * self.shapes.aspect, HEIGHT, TALLEST))

    def side(self, side: str, several: bool) -> View:
        """Make the map of one subgroup."""
        share, ends = is_share(self.result), _ends(self.result["estimate"])
        spec = self._drawn(
            f"{side}.estimate",
            "estimate",
            wide=360 if several else 760,
            domain=ends,
            share=share,
            tips=self._tips([side]),
        )
        titles = {"a": "First subgroup", "b": "Second subgroup"}
        title = titles[side] if several else "The estimate in each place"
        caption = ("Colours are the same on both maps. " if several else "") + mapped_level(self.result.level)
        chosen = [*self.apart, side] if several else [*self.apart]
        return View(
            f"map-{side}",
            title,
            caption + _beyond(self.result["estimate"], ends) + self._missing(),
            spec,
            {"places": replace(self.source, sides={side: self.source.sides[side]})},
            chosen,
            size="third" if several else "full",
        )

    def difference(self, subgroups: Sequence[str]) -> View:
        """Make the map of the first subgroup less the second."""
        share = is_share(self.result)
        end = _farthest(self.result, self.cells, self.place)
        spec = self._drawn(
            "difference",
            "first less second" + (", points" if share else ""),
            wide=360,
            domain=[-end, end],
            share=share,
            tips=self._tips(["a", "b"]),
            diverging=True,
        )
        title = "Difference: the first less the second"
        caption = "Orange: the first subgroup is higher; blue: the second. The difference of two estimates is less sure than either."
        return View("map-difference", title, caption, spec, {"places": self.source}, (), size="third")

    def further(self, shown: Sequence[str]) -> tuple[Choice, View] | None:
        """Make the map of any other column, of the first subgroup."""
        names = [n for n in self._numbers() if n != "estimate"]
        if not names:
            return None
        choice = Choice("column", "show", [(n, named(self.cells.labels[n])) for n in names])
        spec = self._drawn("a.value", "value", wide=420, domain=[], share=False, tips=self._tips(["a"]))
        source = replace(self.source, sides={"a": self.source.sides["a"]}, columns={"value": choice.name})
        caption = "Any other column of the table: how wide intervals are, what other methods say, how many people stand behind a number."
        return choice, View(
            "map-column",
            "What else is known of each place",
            caption,
            spec,
            {"places": source},
            [choice.name, *shown],
            size="half",
        )

    def _missing(self) -> str:
        levels = self.cells.levels(self.place)
        names = set(self.shapes.names_for(levels, self.place) or ()) - {None}
        lost = len(set(levels) - names)
        return f" {count(lost, 'place')} of the results {'is' if lost == 1 else 'are'} not on the map." if lost else ""


def _places(result: Estimates, cells: Cells, place: str, where: dict[str, str], shown: Sequence[str]) -> View:
    have = cells.table.column_names
    interval = result.level is not None and "conf_low" in have
    tips = {"label": place, **{n: named(cells.labels[n]) for n in have if n in FIXED}}
    spec = charts.caterpillar(
        "estimate", share=is_share(result), interval=interval, tips=tips, rows=len(cells.levels(place))
    )
    source = Rows("cells", where, joined={"label": [cells.keys[place]]})
    said = f"lines are {level_words(result.level, result.interval)}" if interval else "there is no interval"
    caption = f"Each place from the lowest estimate to the highest; {said}."
    return View("places", "Places in order", caption, spec, {"rows": source}, list(shown), size="half")


def _ends(values: Any) -> list[float]:
    """Give ends of a colour scale that a few odd places do not stretch."""
    good = np.asarray(values, dtype=float)
    good = good[np.isfinite(good)]
    if not good.size:
        return [0.0, 1.0]
    low, high = np.quantile(good, [0.01, 0.99])
    return [_round(low), _round(high)] if _round(high) > _round(low) else [_round(low) - 0.5, _round(low) + 0.5]


def _beyond(values: Any, ends: Sequence[float]) -> str:
    """Say how many estimates lie beyond the ends of the colours by more than an eye could tell, if any do."""
    off, visible = np.asarray(values, dtype=float), UNSEEN * (ends[1] - ends[0])
    n = int(np.sum((off < ends[0] - visible) | (off > ends[1] + visible)))
    return (
        f" {count(n, 'estimate')} beyond the ends of the scale {'has' if n == 1 else 'have'} the last colour."
        if n
        else ""
    )


def _farthest(result: Estimates, cells: Cells, place: str) -> float:
    """Give the end of the scale of differences: what the subgroups of a place are apart, in all but the oddest places."""
    values = np.asarray(result["estimate"], dtype=float)
    codes = cells.table[cells.keys[place]].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    good = np.isfinite(values) & (codes >= 0 if codes.dtype.kind == "i" else np.isfinite(codes))
    values, codes = values[good], codes[good].astype(int)
    if not values.size:
        return 1.0
    low, high = np.full(codes.max() + 1, np.inf), np.full(codes.max() + 1, -np.inf)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    apart = (high - low)[np.isfinite(low)]
    return _round(float(np.quantile(apart, 0.98))) or 1.0


def _round(value: float) -> float:
    return float(f"{value:.2g}")
