"""The page of ecological inference: maps of subgroups, rankings, methods side by side, places predicted from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.reports.pages import charts
from crosslevel.reports.pages.places import map_views, place_key
from crosslevel.reports.pages.table import MOST_LINES, Cells, asked_words, base, cells_of, interval_views
from crosslevel.reports.pages.words import is_share, level_words, named
from crosslevel.reports.shapes import Shapes
from crosslevel.reports.views import Choice, Rows, Section, View
from crosslevel.results import Estimates

__all__ = ["accepts", "section"]

COLUMNS = frozenset({"bound_low", "lower", "neighborhood", "goodman", "rxc", "log_density"})
"""A result with one of these is of this room."""
CITATIONS = {
    "distribution regression": "Flaxman, Wang and Smola (2015), Who supported Obama in 2012? Ecological inference through "
    "distribution regression, KDD.",
    "Goodman": "Goodman (1953), Ecological regressions and behavior of individuals, American Sociological Review 18.",
    "bounds": "Duncan and Davis (1953), An alternative to ecological correlation, American Sociological Review 18.",
    "King": "King (1997), A Solution to the Ecological Inference Problem, Princeton University Press.",
    "multinomial": "Rosen, Jiang, King and Tanner (2001), Bayesian and frequentist inference for ecological inference: the R x C "
    "case, Statistica Neerlandica 55.",
    "neighborhood": "Freedman, Klein, Sacks, Smyth and Everett (1991), Ecological regression and voting rights, Evaluation Review 15.",
}
"""Words of a method, and the paper behind it."""


def accepts(result: Any) -> bool:
    """Tell whether this is an answer of ecological inference, or a model that can give one."""
    if isinstance(result, PlaceEstimator):
        return hasattr(result, "model_")
    if not isinstance(result, Estimates):
        return False
    return (
        bool(COLUMNS & set(result.table.column_names))
        or "method" in result.keys
        or {"group", "outcome"} <= set(result.keys)
    )


def section(heading: str, result: Any, *, shapes: Shapes | None = None) -> Section:
    """Make the section: maps where the places are on one, and the subgroups with their intervals.

    Parameters
    ----------
    heading : str
    result : Estimates, EcologicalInference or DistributionRegression
        Of a fitted model the rates of the places are shown.
    shapes : Shapes, optional
        The places of the map.

    Examples
    --------
    >>> from crosslevel import ecological
    >>> found = ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> [view.name for view in section("Young and old", found).views]
    ['intervals']
    """
    if isinstance(result, PlaceEstimator):
        result = result.predict_places()
    cells = cells_of(result)
    place = place_key(cells, shapes)
    choices: list[Choice] = []
    views: list[View] = []
    if shapes is not None and place is not None:
        mapped = map_views(result, cells, shapes, place)
        cells, choices, views = mapped.cells, mapped.choices, mapped.views
    if "method" in result.keys:
        more = _methods(result, cells)
    elif {"truth", "log_density"} <= set(result.table.column_names):
        more = [], [_validation(result, cells)]
    elif place is None:
        more = interval_views(result, cells, "Every subgroup")
    elif len(result.keys) > 1:
        more = interval_views(result, cells, "Subgroups of one place", fixed=[place])
    else:
        more = [], []
    known = {c.name for c in choices}
    choices += [c for c in more[0] if c.name not in known]
    views = [*views, *more[1]]
    asked = asked_words(result)
    return base(
        heading, result, cells, kind="ecological", asked=asked, choices=choices, views=views, citation=_citation(result)
    )


def _citation(result: Estimates) -> str:
    said = " ".join([result.method, *(result["method"].tolist() if "method" in result.keys else [])]).casefold()
    return " ".join(paper for words, paper in CITATIONS.items() if words.casefold() in said)


def _methods(result: Estimates, cells: Cells) -> tuple[list[Choice], list[View]]:
    """Draw the methods of a comparison under one another; a long one shows the groups of one outcome at a time."""
    others = [key for key in cells.keys if key != "method"]
    chosen: list[str] = []
    n_methods = max(1, len(cells.levels("method")))
    while len(others) - len(chosen) > 1 and _rows_left(cells, chosen) > MOST_LINES * max(1, n_methods // 2):
        chosen.append(max((k for k in others if k not in chosen), key=lambda k: len(cells.levels(k))))
    table_names = cells.table.column_names
    choices = [Choice(cells.keys[key], key, cells.options(key)) for key in chosen]
    interval = result.level is not None and "conf_low" in table_names
    tips = {
        "cell": " · ".join(others),
        "method": "method",
        **{n: named(cells.labels[n]) for n in table_names if n in _NUMBERS},
    }
    beside = ["truth"] if "truth" in table_names else []
    bounds = {"bound_low", "bound_high"} <= set(table_names)
    spec = charts.compared(
        "estimate", share=is_share(result), interval=interval, bounds=bounds, beside=beside, tips=tips
    )
    joined = {"cell": [cells.keys[key] for key in others], "method": [cells.keys["method"]]}
    source = Rows("cells", {cells.keys[key]: cells.keys[key] for key in chosen}, joined=joined)
    caption = "A dot for each method; none has an interval."
    if interval:
        caption = f"A line for each method; {level_words(result.level, result.interval)} where a method has them."
    if bounds:
        caption += " Grey bars are what is possible at all (bounds), whatever people did; the dot of the bounds is their middle."
    view = View("methods", "What each method says", caption, spec, {"rows": source}, [c.name for c in choices])
    return choices, [view]


_NUMBERS = ("estimate", "conf_low", "conf_high", "bound_low", "bound_high", "truth")


def _rows_left(cells: Cells, chosen: Sequence[str]) -> float:
    left = float(cells.table.num_rows)
    for key in chosen:
        left /= max(1, len(cells.levels(key)))
    return left


def _validation(result: Estimates, cells: Cells) -> View:
    """Draw what was predicted for places left out against what was seen there."""
    tips = {
        "label": " · ".join(cells.keys),
        **{n: named(cells.labels[n]) for n in cells.table.column_names if n in _NUMBERS},
    }
    spec = charts.dots(
        "truth", "estimate", "observed", "predicted from other places", share=is_share(result), tips=tips
    )
    covered = result.diagnostics.get("coverage")
    told = f" {100 * covered:.0f} % of the intervals contain what was observed." if isinstance(covered, float) else ""
    sure = "" if result.level is None else f", with its {100 * result.level:g} % interval"
    caption = f"A dot for each place{sure}; on the dashed line both agree.{told}"
    return View(
        "validation",
        "Places predicted from the others",
        caption,
        spec,
        {"rows": Rows("cells", joined={"label": [*cells.keys.values()]})},
    )
