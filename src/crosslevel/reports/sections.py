"""One section of a page from a table of estimates, several tables, or a fitted model that gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from crosslevel.charts.chart import Chart, Choice, Places, Rows
from crosslevel.charts.effects import stars
from crosslevel.charts.kinds import charts_of
from crosslevel.charts.words import plain
from crosslevel.errors import InputError
from crosslevel.reports.sentences import citation_of, sentences_of
from crosslevel.reports.shapes import Shapes
from crosslevel.reports.vega import view_of
from crosslevel.reports.views import Section, View
from crosslevel.results import Estimates

__all__ = ["section_of", "tables_of"]


def tables_of(result: Any, heading: str = "") -> list[Estimates]:
    """Give the tables of a result: its own, those of each part, or those a fitted model reports; nothing is fitted here."""
    if isinstance(result, Estimates):
        return [result]
    if isinstance(result, list | tuple) and result:
        return [table for part in result for table in tables_of(part, heading)]
    told = getattr(result, "_report_tables", None)
    if told is None or isinstance(result, type):
        raise InputError(
            f"results[{heading!r}] is a {type(result).__name__}; pass Estimates, a fitted model or a list of these, or a mapping of "
            "heading to these."
        )
    found: Mapping[str, Estimates] = told()
    return list(found.values())


def section_of(heading: str, result: Any, *, shapes: Shapes | None = None) -> Section:
    """Make the section of a result: the charts of all its tables, and the first table as the answer.

    Parameters
    ----------
    heading : str
    result : Estimates, fitted model, or a list of these
    shapes : Shapes, optional
        Places that maps can show.

    Examples
    --------
    >>> from crosslevel import ecological
    >>> found = ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> section_of("Young and old", found).views[0].title
    'Every subgroup with its bounds'
    """
    parts = tables_of(result, heading)
    main = parts[0]
    tables: dict[str, pa.Table] = {}
    choices: dict[str, Choice] = {}
    labels: dict[str, str] = {}
    views: list[View] = []
    for estimates in parts:
        for chart in charts_of(estimates, shapes):
            shown = _fitted_in(chart, tables, choices, [view.name for view in views])
            tables |= shown.tables
            choices |= {c.name: c for c in shown.choices}
            labels = {**shown.labels, **labels}
            views.append(view_of(shown, shapes))
    said = sentences_of(main)
    said[2] += "".join(f" {sentences_of(e)[1]}" for e in parts[1:] if e.kind in ("published", "imputation_scores"))
    told = main.provenance
    return Section(
        heading=heading,
        kind=main.kind,
        sentences=said,
        answer=_answer(main),
        keys=list(main.keys),
        method=main.method,
        level=main.level,
        interval=main.interval,
        warnings=list(dict.fromkeys(w for e in parts for w in e.warnings)),
        diagnostics=[(name, plain(value)) for name, value in main.diagnostics.items()],
        provenance=[
            ("crosslevel", told.version),
            ("call", told.call),
            ("seed", "none" if told.seed is None else str(told.seed)),
            *((f"data: {name}", str(value)) for name, value in told.data.items()),
        ],
        citation=citation_of(main),
        tables=tables,
        labels=labels,
        choices=list(choices.values()),
        views=views,
    )


def _answer(main: Estimates) -> pa.Table:
    """Give the table; effects with stars behind the estimate, and first what a social scientist looks for."""
    if main.kind != "effects" or "p_value" not in main.table.column_names or "stars" in main.table.column_names:
        return main.table
    first = [*main.keys, "estimate", "std_error", "conf_low", "conf_high", "p_value"]
    rest = [n for n in main.table.column_names if n not in first]
    marks = pa.array([stars(p) for p in main.table["p_value"].to_pylist()])
    return main.table.select([*first, *rest]).add_column(len(first), "stars", marks)


def _fitted_in(
    chart: Chart, tables: Mapping[str, pa.Table], choices: Mapping[str, Choice], names: Sequence[str]
) -> Chart:
    """Rename what an earlier chart of the section uses for something else: tables, lists, the chart itself."""
    new_tables = {n: _free(n, tables, lambda old, t=t: old.equals(t)) for n, t in chart.tables.items()}
    new_choices = {
        c.name: _free(c.name, choices, lambda old, c=c: (old.label, old.options) == (c.label, c.options))
        for c in chart.choices
    }

    def followed(choice_of: Mapping[str, str]) -> dict[str, str]:
        return {column: new_choices.get(choice, choice) for column, choice in choice_of.items()}

    data: dict[str, Rows | Places] = {}
    for name, source in chart.data.items():
        moved = replace(source, table=new_tables[source.table], columns=followed(source.columns))
        if isinstance(moved, Rows):
            data[name] = replace(moved, where=followed(moved.where))
        else:
            data[name] = replace(moved, sides={side: followed(where) for side, where in moved.sides.items()})
    return replace(
        chart,
        name=_free(chart.name, dict.fromkeys(names), lambda old: False),
        tables={new_tables[n]: t for n, t in chart.tables.items()},
        choices=[replace(c, name=new_choices[c.name]) for c in chart.choices],
        data=data,
    )


def _free(name: str, taken: Mapping[str, Any], same: Any) -> str:
    """Give the name, or the next that is not taken by something else."""
    found, k = name, 1
    while found in taken and not same(taken[found]):
        k += 1
        found = f"{name}{k}"
    return found
