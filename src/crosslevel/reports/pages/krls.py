"""The page of effects: of any variable along any other, their distributions, contrasts, averages with stars, maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.checks import check_level
from crosslevel.krls.estimator import KernelEstimator
from crosslevel.reports.pages import krls_charts as charts
from crosslevel.reports.pages.krls_people import curve_table, read_groups, see, spread_table
from crosslevel.reports.pages.parts import MOST_POINTS, about, on_map, sample, span
from crosslevel.reports.pages.words import count, number, plain
from crosslevel.reports.views import Choice, Section, View
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = ["accepts", "section", "stars"]

CITATION = (
    "Hainmueller, J. and Hazlett, C. (2014). Kernel regularized least squares. Political Analysis 22. Mohanty, P. and Shaffer, R. "
    "(2019). Messy data, robust inference? Navigating obstacles to inference with bigKRLS. Political Analysis 27."
)
FEWEST = 300
"""Rows that a band of each term holds however many terms there are."""
MOST_GROUPS = 200
"""Levels of a column of groups that get average effects of their own."""


def accepts(result: Any) -> bool:
    """Tell whether this is a model of effects, or a table of them."""
    if isinstance(result, KernelEstimator):
        return hasattr(result, "penalty_")
    if not isinstance(result, Estimates) or "term" not in result.keys:
        return False
    names = set(result.table.column_names)
    return {"p_value", "plug_in"} <= names or {"row", "value"} <= names


def stars(p: float | None) -> str:
    """Mark how small a p-value is: * below .05, ** below .01, *** below .001.

    Examples
    --------
    >>> [stars(p) for p in (0.2, 0.04, 0.009, 0.0001, None)]
    ['', '*', '**', '***', '']
    """
    if p is None or not p < 0.05:
        return ""
    return "***" if p < 0.001 else "**" if p < 0.01 else "*"


def section(heading: str, result: Any, *, shapes: Any = None, groups: Any = None, level: float = 0.95) -> Section:
    """Make the page of a fitted model, or of a table of effects.

    Parameters
    ----------
    heading : str
    result : KRLS, KernelLogistic or Estimates
        A fitted (or loaded) model; or the table of ``effects()``, ``effects(by=...)``, ``interactions()`` or ``pointwise_bands()``.
    shapes : optional
        The map; effects by a key, or by a column of ``groups``, that names its places are mapped.
    groups : array or dataframe, optional
        Labels of the rows that fit was given: colours, average effects by group, and maps. For a model only.
    level : float
        Of the intervals of a model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = {"age": rng.normal(size=60), "treated": rng.integers(0, 2, 60)}
    >>> model = KRLS(penalty=0.5).fit(X, X["age"] + X["treated"] + rng.normal(size=60))
    >>> page = section("Effects", model)
    >>> [view.name for view in page.views]
    ['effects', 'distribution', 'averages']
    """
    if isinstance(result, KernelEstimator):
        return _of_model(heading, result, shapes, groups, check_level(level))
    if "p_value" in result.table.column_names:
        return _of_effects(heading, result, shapes)
    return _of_bands(heading, result)


def _of_model(heading: str, model: KernelEstimator, shapes: Any, groups: Any, level: float) -> Section:
    found = model.effects(level)
    labels = read_groups(groups, len(model._used))
    seen = see(model, level, labels)
    covariates = list(model.encoding_.names)
    terms = list(model.effect_names_)
    columns: dict[str, Any] = {f"x{p}": seen.X[:, p] for p in range(len(covariates))}
    columns |= {f"e{e}": seen.effect[:, e] for e in range(len(terms))}
    columns |= {f"c{c}": pa.array(list(v), pa.string()) for c, v in enumerate(seen.colors.values())}
    columns["fitted"] = seen.fitted
    tables = {
        "people": pa.table(columns),
        "curves": curve_table(seen),
        "spread": spread_table(model),
        "names": pa.table(
            {
                "column": [*(f"x{p}" for p in range(len(covariates))), *(f"e{e}" for e in range(len(terms)))],
                "words": [*covariates, *(f"effect of {t}" for t in terms)],
            }
        ),
        "averages": _averages(found),
    }
    own = [e.column for e in model._effects]
    choices = [
        Choice("term", "Effect of", [(f"e{e}", t) for e, t in enumerate(terms)]),
        Choice("along", "along", [(f"x{p}", n) for p, n in enumerate(covariates)], own[0]),
        Choice(
            "term2", "beside it, the effect of", [(f"e{e}", t) for e, t in enumerate(terms)], min(1, len(terms) - 1)
        ),
        Choice("along2", "along", [(f"x{p}", n) for p, n in enumerate(covariates)], own[min(1, len(terms) - 1)]),
        Choice("color", "Colour by", [(f"c{c}", n) for c, n in enumerate(seen.colors)]),
    ]
    views = [
        charts.effects_view(level, seen.posterior, len(seen.rows), seen.n, len(seen.behind)),
        charts.distribution_view(seen.n),
        *_average_views(tables["averages"], found.level),
    ]
    warnings = list(found.warnings)
    if labels is not None:
        for c, name in enumerate(labels.column_names):
            said = _by_group(model, labels, c, name, level, shapes, tables, choices, views)
            warnings += [said] if said else []
    facts = about(found) | {"warnings": warnings}
    return Section(
        heading=heading,
        kind="krls",
        sentences=_sentences(found, f"{number(float(model._model.cells.N))} rows"),
        answer=_starred(found),
        keys=list(found.keys),
        citation=CITATION,
        tables=tables,
        labels=_labels(covariates, terms, seen.colors, labels),
        choices=choices,
        views=views,
        **facts,
    )


def _labels(
    covariates: Sequence[str], terms: Sequence[str], colors: Iterable[str], groups: pa.Table | None
) -> dict[str, str]:
    """Name the columns of the charts' files as the reader does."""
    names = {f"x{p}": n for p, n in enumerate(covariates)} | {f"e{e}": f"effect of {t}" for e, t in enumerate(terms)}
    names |= {f"c{c}": n for c, n in enumerate(colors)}
    return names | ({"group": groups.column_names[0]} if groups is not None and groups.num_columns == 1 else {})


def _by_group(
    model: KernelEstimator,
    labels: pa.Table,
    c: int,
    name: str,
    level: float,
    shapes: Any,
    tables: dict[str, pa.Table],
    choices: list[Choice],
    views: list[View],
) -> str:
    """Add average effects by one column of groups, and their map; gives a sentence when there are too many."""
    levels = {v for v in labels[name].to_pylist() if v is not None}
    if not 2 <= len(levels) <= MOST_GROUPS:
        return f"{name!r} has {len(levels):,} levels; average effects by group are made for 2 to {MOST_GROUPS}."
    values = labels[name].to_pylist()
    known = values if None not in values else ["missing" if v is None else str(v) for v in values]
    found = model.effects(level, by=pa.table({"subgroup": known}))
    tables[f"groups{c}"] = _averages(found)
    views.append(charts.groups_view(f"groups{c}", f"by {name}", found.level))
    if on_map(shapes, sorted(map(str, levels)), name):
        views.append(charts.map_view(f"groups{c}", f"by {name}", found.level, shapes.dots))
    return ""


def _of_effects(heading: str, found: Estimates, shapes: Any) -> Section:
    table = _averages(found)
    terms = list(dict.fromkeys(found["term"].tolist()))
    others = [k for k in found.keys if k != "term"]
    choices: list[Choice] = []
    if others:
        choices.append(Choice("term", "Effect of", [(f"e{e}", str(t)) for e, t in enumerate(terms)]))
        views = [charts.groups_view("averages", f"by {', '.join(others)}", found.level)]
        if len(others) == 1 and on_map(shapes, found[others[0]].tolist(), others[0]):
            views.insert(0, charts.map_view("averages", f"by {others[0]}", found.level, shapes.dots))
    else:
        views = _average_views(table, found.level)
    rows = found.diagnostics.get("rows")
    return Section(
        heading=heading,
        kind="krls",
        sentences=_sentences(found, "the rows" if rows is None else f"{number(float(rows))} rows"),
        answer=_starred(found),
        keys=list(found.keys),
        citation=CITATION,
        tables={"averages": table},
        labels={"group": ", ".join(others)} if others else {},
        choices=choices,
        views=views,
        **about(found),
    )


def _of_bands(heading: str, found: Estimates) -> Section:
    """Make the page of effects at rows."""
    terms = list(dict.fromkeys(found["term"].tolist()))
    code = {t: f"e{e}" for e, t in enumerate(terms)}
    most = max(FEWEST, MOST_POINTS // max(len(terms), 1))
    own = [np.flatnonzero(found["term"] == t) for t in terms]
    rows = np.concatenate([at[sample(len(at), most)] for at in own]) if own else np.arange(0)
    each = max(map(len, own), default=0)
    shown = {n: found[n][rows] for n in ("value", "estimate", "conf_low", "conf_high")}
    table = pa.table({"term": [code[t] for t in found["term"][rows].tolist()], **shown})
    names = pa.table({"column": list(code.values()), "words": [str(t) for t in terms]})
    excluded = (found["conf_low"] > 0) | (found["conf_high"] < 0)
    sentences = [
        f"How large are the effects of {count(len(terms), 'term')} at {count(each, 'row')}?",
        f"They range from {number(float(found['estimate'].min()))} to {number(float(found['estimate'].max()))}; "
        f"{int(excluded.sum()):,} of {len(found):,} intervals exclude zero.",
        f"The band is a {level_words(found.level)}: {found.interval}.",
    ]
    return Section(
        heading=heading,
        kind="krls",
        sentences=sentences,
        answer=found.table,
        keys=list(found.keys),
        citation=CITATION,
        tables={"rows": table, "names": names},
        choices=[Choice("term", "Effect of", [(c, str(t)) for t, c in code.items()])],
        views=[charts.bands_view(found.level, min(each, most), each)],
        **about(found),
    )


def _average_views(table: pa.Table, level: float | None) -> list[View]:
    views = [charts.averages_view(level)]
    if "contrast" in table["kind"].to_pylist():
        views.append(charts.contrasts_view(level))
    return views


def _averages(found: Estimates) -> pa.Table:
    """Lay average effects out for charts: codes of terms, words, numbers, and the order by size in standard errors."""
    terms = list(dict.fromkeys(found["term"].tolist()))
    code = {t: f"e{e}" for e, t in enumerate(terms)}
    others = [found.table[k].to_pylist() for k in found.keys if k != "term"]
    group = [" · ".join(_word(v) for v in row) for row in zip(*others, strict=True)] if others else [""] * len(found)
    error = np.where(found["std_error"] > 0, found["std_error"], np.nan)
    z: npt.NDArray[np.float64] = found["estimate"] / error
    place = np.empty(len(found))
    place[np.argsort(-np.nan_to_num(np.abs(z)), kind="stable")] = np.arange(len(found))
    p = found.table["p_value"].to_pylist()
    numbers = {n: found[n].astype(np.float64) for n in ("estimate", "conf_low", "conf_high", "std_error", "plug_in")}
    return pa.table(
        {
            "term": [code[t] for t in found["term"].tolist()],
            "words": [str(t) for t in found["term"].tolist()],
            "group": group,
            **{n: pa.array(v, from_pandas=True) for n, v in numbers.items()},
            "p_value": pa.array(found["p_value"].astype(np.float64), from_pandas=True),
            "stars": [stars(v) for v in p],
            "z": pa.array(z, from_pandas=True),
            "z_low": pa.array(found["conf_low"] / error, from_pandas=True),
            "z_high": pa.array(found["conf_high"] / error, from_pandas=True),
            "z_plug_in": pa.array(found["plug_in"] / error, from_pandas=True),
            "relative": pa.array(_relative(found), from_pandas=True),
            "place": place,
            "label": [f"{t} ({c})" for t, c in zip(found["term"].tolist(), found["contrast"].tolist(), strict=True)],
            "kind": found.table["kind"].to_pylist(),
            "contrast": found.table["contrast"].to_pylist(),
        }
    )


def _relative(found: Estimates) -> npt.NDArray[np.float64]:
    """Divide each effect by the largest of its term, so that one scale of colours serves all terms."""
    e, out = found["estimate"].astype(np.float64), np.full(len(found), np.nan)
    for term in dict.fromkeys(found["term"].tolist()):
        own = found["term"] == term
        largest = np.nanmax(np.abs(e[own]))
        out[own] = e[own] / largest if largest > 0 else 0.0
    return out


def _word(value: Any) -> str:
    return "–" if value is None else str(value)


def _starred(found: Estimates) -> pa.Table:
    """Put the stars behind the estimate, and first what a social scientist looks for."""
    first = [*found.keys, "estimate", "std_error", "conf_low", "conf_high", "p_value"]
    rest = [n for n in found.table.column_names if n not in first]
    marks = pa.array([stars(p) for p in found.table["p_value"].to_pylist()])
    table = found.table.select([*first, *rest])
    return table if "stars" in table.column_names else table.add_column(len(first), "stars", marks)


def _sentences(found: Estimates, rows: str) -> Sequence[str]:
    terms = list(dict.fromkeys(found["term"].tolist()))
    others = [k for k in found.keys if k != "term"]
    by = f" by {', '.join(others)}" if others else ""
    d = found.diagnostics
    fit = "" if d.get("r2") is None else f"The fit explains {100 * d['r2']:.0f} % of the variance. "
    p = found["p_value"].astype(np.float64)
    error = np.where(found["std_error"] > 0, found["std_error"], np.nan)
    size = np.nan_to_num(np.abs(found["estimate"] / error))
    top = int(np.argmax(size))
    what = " · ".join(_word(found[k][top]) for k in found.keys)
    target = {"sample": "these rows", "population": "the population they stand for"}.get(
        str(d.get("target")), "the rows"
    )
    return [
        f"How does the outcome respond to {count(len(terms), 'term')}{by}, with no functional form assumed? {found.title} from {rows}.",
        f"{fit}The clearest effect is {what}: {number(float(found['estimate'][top]))} "
        f"{span(float(found['conf_low'][top]), float(found['conf_high'][top]))}; {int(np.sum(p < 0.05)):,} of {len(found):,} have "
        "p < .05.",
        f"Intervals are at the level of {100 * (found.level or 0):.10g} % ({found.interval}), for the average over {target}; stars: "
        f"* p < .05, ** p < .01, *** p < .001, each test by itself. Penalty {plain(d.get('penalty'))} "
        f"({plain(d.get('rule'))}).",
    ]
