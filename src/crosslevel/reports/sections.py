"""One section of a page from a table of estimates, several tables, or a fitted model that gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from crosslevel.charts.chart import Chart, Choice, Places, Rows
from crosslevel.charts.effects import stars
from crosslevel.charts.kinds import charts_of
from crosslevel.errors import InputError
from crosslevel.reports.sentences import sentences_of
from crosslevel.reports.shapes import Shapes
from crosslevel.results import Estimates
from crosslevel.results.table import without_midpoints


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


@dataclass(frozen=True)
class Section:
    """One result on the page.

    Attributes
    ----------
    heading : str
    parts : sequence of Estimates
        The first is the answer.
    charts : sequence of Chart
        Within a section a name stands for one table and one list; charts that share them name the same.
    """

    heading: str
    parts: Sequence[Estimates]
    charts: Sequence[Chart] = ()

    @property
    def tables(self) -> dict[str, pa.Table]:
        """What the charts show; numbers are rounded to six digits on the page."""
        return {name: table for chart in self.charts for name, table in chart.tables.items()}

    @property
    def choices(self) -> dict[str, Choice]:
        """The lists of all charts by name; one that two charts show changes both."""
        return {c.name: c for chart in self.charts for c in chart.choices}

    @property
    def labels(self) -> dict[str, str]:
        """What columns of the tables are called in files of a chart's data."""
        return {name: words for chart in reversed(self.charts) for name, words in chart.labels.items()}

    @property
    def answer(self) -> pa.Table:
        """The table shown also without JavaScript; effects with stars behind the estimate, the usual columns first."""
        main = self.parts[0]
        table = without_midpoints(main)
        if main.kind != "effects" or "p_value" not in main.table.column_names or "stars" in main.table.column_names:
            return table
        first = [*main.keys, "estimate", "std_error", "conf_low", "conf_high", "p_value"]
        rest = [n for n in main.table.column_names if n not in first]
        marks = pa.array([stars(p) for p in main.table["p_value"].to_pylist()])
        return table.select([*first, *rest]).add_column(len(first), "stars", marks)

    @property
    def sentences(self) -> list[str]:
        """Three plain sentences: what was asked, what was found, how sure."""
        said = sentences_of(self.parts[0])
        beside = [e for e in self.parts[1:] if e.kind == "published"]
        return [*said[:2], " ".join([said[2], *(sentences_of(e)[1] for e in beside)])]


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
    >>> from crosslevel import Counts, ecological
    >>> units = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> found = ecological.bounds(Counts(units, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> section_of("Young and old", found).charts[0].title
    'Every subgroup with its bounds'
    """
    made = Section(heading, tables_of(result, heading))
    for estimates in made.parts:
        for chart in charts_of(estimates, shapes):
            made = replace(made, charts=[*made.charts, _fitted_in(chart, made)])
    return made


def _fitted_in(chart: Chart, section: Section) -> Chart:
    """Rename what an earlier chart of the section uses for something else: tables, lists, the chart itself."""
    known, lists, names = section.tables, section.choices, {c.name: None for c in section.charts}
    tables = {n: _free(n, known, t.equals) for n, t in chart.tables.items()}
    choices = {
        c.name: _free(c.name, lists, lambda o, c=c: (o.label, o.options) == (c.label, c.options)) for c in chart.choices
    }

    def followed(choice_of: Mapping[str, str]) -> dict[str, str]:
        return {column: choices.get(choice, choice) for column, choice in choice_of.items()}

    data: dict[str, Rows | Places] = {}
    for name, source in chart.data.items():
        moved = replace(source, table=tables[source.table], columns=followed(source.columns))
        if isinstance(moved, Rows):
            data[name] = replace(moved, where=followed(moved.where))
        else:
            data[name] = replace(moved, sides={side: followed(where) for side, where in moved.sides.items()})
    return replace(
        chart,
        name=_free(chart.name, names, lambda _: False),
        tables={tables[n]: t for n, t in chart.tables.items()},
        choices=[replace(c, name=choices[c.name]) for c in chart.choices],
        data=data,
    )


def _free(name: str, taken: Mapping[str, Any], same: Any) -> str:
    """Give the name, or the next that is not taken by something else."""
    found, k = name, 1
    while found in taken and not same(taken[found]):
        k += 1
        found = f"{name}{k}"
    return found
