"""The report: one HTML file with the maps, the table and the words a reader needs."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
import tempfile
import webbrowser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosslevel.charts import intervals, methods
from crosslevel.charts.chart import Places
from crosslevel.charts.kinds import KINDS, charts_of
from crosslevel.charts.maps import by_names_of, estimate_map
from crosslevel.charts.matplotlib import draw
from crosslevel.data import checks
from crosslevel.data.atomic import whole_file
from crosslevel.data.signatures import checked
from crosslevel.ecological.court.study import PolarizationStudy
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.reports import vega
from crosslevel.reports.document import Document
from crosslevel.reports.exhibit import exhibit_of
from crosslevel.reports.page import describe_page, figure_svg
from crosslevel.reports.sealed import seal
from crosslevel.reports.sections import Section, section_of, tables_of
from crosslevel.reports.shapes import Shapes, read_points, read_shapes
from crosslevel.results import Estimates
from crosslevel.results.wide import Labels, check_labels, relabeled

LONGEST = 60
"""Rows of an interval plot; further ones stand in the table."""
MOST_CELLS = 20
"""Cells of a picture of several methods."""


@dataclass(frozen=True)
class Report:
    """A page ready to be written, shown or mailed.

    Attributes
    ----------
    page : dict
        The plain, versioned description the page is made from.
    """

    page: dict[str, Any]

    def html(self) -> str:
        """Give the whole page as text; it needs no other file and no network."""
        import jinja2

        scripts = [vega.vega_script(), _file("page.js")] if self.page["views"] else []
        # only these two scripts may run, whatever a name in the data says
        return (
            _templates()
            .get_template("report.html")
            .render(
                page=self.page,
                hashes=jinja2.filters.do_mark_safe(" ".join(map(_hash, scripts))),
                fragment=jinja2.filters.do_mark_safe(self._fragment(alone=True)),
            )
        )

    def json(self) -> str:
        """Give the page's description as strict JSON."""
        return json.dumps(self.page, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; the file appears whole or not at all."""
        with whole_file(path) as beside:
            beside.write_text(self.html(), encoding="utf-8", newline="\n")
        return Path(path)

    def open(self) -> Path:
        """Write the page to a temporary file and show it in the browser."""
        path = self.save(Path(tempfile.mkdtemp(prefix="crosslevel-")) / "report.html")
        webbrowser.open(path.as_uri())
        return path

    def _fragment(self, alone: bool) -> str:
        """Give what stands in a page's body: the report in a shadow tree, its data and scripts."""
        import jinja2

        safe = jinja2.filters.do_mark_safe
        body = _templates().get_template("body.html").render(page=self.page, style=safe(_file("style.css")))
        views = self.page["views"]
        return (
            _templates()
            .get_template("fragment.html")
            .render(
                page=self.page,
                alone=alone,
                body=safe(body),
                data=safe(_script_json(_for_script(self.page))) if views else "",
                vega=safe(vega.vega_script()) if views else "",
                script=safe(_file("page.js")),
            )
        )

    def _repr_html_(self) -> str:
        return self._fragment(alone=False)

    def __repr__(self) -> str:
        return f"Report({self.page['title']!r}; .save(path) or .open())"


@dataclass(frozen=True, repr=False)
class Exhibit(Report):
    """A report as a document for print: the same methods, and a file for Word.

    Attributes
    ----------
    document : Document
        The blocks it is made of.
    """

    document: Document

    def html(self) -> str:
        """Give the whole page as text; it needs no other file, no network and no script."""
        import jinja2

        style = jinja2.filters.do_mark_safe(_file("exhibit.css"))
        return _templates().get_template("exhibit.html").render(page=self.page, style=style)

    def to_docx(self, path: str | os.PathLike[str]) -> Path:
        """Write the exhibit as a Word file (extra ``docx``)."""
        return self.document.to_docx(path)

    def _repr_html_(self) -> str:
        import html

        return f'<iframe srcdoc="{html.escape(self.html())}" style="width:100%;height:40em;border:0" sandbox></iframe>'

    def __repr__(self) -> str:
        return f"Exhibit({self.page['title']!r}; .save(path), .to_docx(path) or .open())"


@functools.cache
def _templates() -> Any:
    import jinja2

    loader = jinja2.PackageLoader("crosslevel.reports")
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    made.filters["breakable"] = _breakable
    return made


def _breakable(text: str) -> Any:
    """Let a long word of a table break, so that no column leaves the page; short ones stay whole."""
    from markupsafe import Markup, escape

    words = re.findall(r"\s+|\S{1,14}", text)
    return Markup("<wbr>").join(map(escape, words))


@functools.cache
def _file(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8").strip()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _for_script(page: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the body of the page says already."""
    wanted = ("name", "heading", "level", "labels", "columns", "tables", "choices", "views", "n_rows")
    sections = [{name: section[name] for name in wanted} for section in page["sections"]]
    return {"page_version": page["page_version"], "shapes": page["shapes"], "sections": sections}


def _script_json(value: Any) -> str:
    """Write JSON that can stand inside a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@checked
def report(
    results: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    figures: Mapping[str, Any] | None = None,
    polygons: Any = None,
    coords: Mapping[Any, tuple[float, float]] | None = None,
    labels: Labels | None = None,
    template: str = "page",
    bundle: str | os.PathLike[str] | None = None,
    inputs: Sequence[str | os.PathLike[str]] | None = None,
) -> Report:
    """Make one self-contained HTML page of results, with maps and charts that answer to the reader.

    Parameters
    ----------
    results : Estimates, fitted model, or mapping of heading to these
        A heading may also have a list of Estimates and models, which share a section; the first is its table. Also a list of
        (heading, result) pairs, and the study of :func:`crosslevel.ecological.rpv`. An exhibit is of a study, alone or first in a list
        with pairs of a heading and its answer of :func:`crosslevel.ecological.performance`.
    path : path, optional
        Where to write the page; nothing is written when not given.
    title : str, optional
        Heading of the page.
    figures : mapping of caption to matplotlib Axes, optional
        Further pictures. Without the extra ``report`` they stand in place of the charts, and are by default the interval plot
        of each result and, with ``polygons``, a map of its first subgroup.
    polygons : mapping, optional
        The map of the places, GeoJSON or TopoJSON, or a GeoDataFrame. Results are mapped that have a key whose values are those
        of a property of the features, or their id.
    coords : mapping of place to (x, y), optional
        Where the places are (longitude and latitude, or any plane), for a map of dots when there are no polygons.
    labels : mapping of column to (mapping of code to words), optional
        Words for codes, ``{"eth5": {1: "white", 2: "Black"}}``, in every table and chart.
    template : {"page", "exhibit"}
        A page to click through; or a study as a document to print and file: numbered findings, a figure and wide tables for each contest,
        the data, the methods with their papers and versions, what was checked, references. It has ``to_docx`` too.
    bundle : path, optional
        Of an exhibit: a new folder for the exhibit, the results to the last bit, settings, seeds, versions and hashes.
    inputs : sequence of path, optional
        Files that the results were made from; the bundle keeps their hashes.

    Returns
    -------
    Report

    Examples
    --------
    >>> from crosslevel import Counts, ecological
    >>> units = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> found = ecological.bounds(Counts(units, groups=["young", "old"], outcomes=["yes", "no"]))
    >>> page = report(found, title="Young and old")
    >>> page
    Report('Young and old'; .save(path) or .open())
    >>> [view["title"] for section in page.page["sections"] for view in section["views"]]
    ['Every subgroup with its bounds', 'Groups by outcomes']
    """
    if template not in ("page", "exhibit"):
        raise unknown_name("template", template, ["page", "exhibit"], "template")
    if bundle is not None and template != "exhibit":
        raise InputError(f"bundle={str(bundle)!r} is of an exhibit; pass template='exhibit' too.")
    if inputs is not None and bundle is None:
        raise InputError(f"inputs={list(inputs)!r} are for a bundle; pass bundle= too.")
    if template == "exhibit":
        idle = {"figures": figures, "polygons": polygons, "coords": coords, "labels": labels}
        checks.refuse_idle_arguments(
            report, idle, "with template='exhibit', which has figures and words of its own; use template='page'"
        )
        study, districts = _study_of(results)
        document = exhibit_of(study, districts, title)
        exhibit = Exhibit(document.described(), document)
        if path is not None:
            exhibit.save(path)
        if bundle is not None:
            seal(exhibit, study, districts, bundle, inputs or ())
        return exhibit
    tables = {heading: tables_of(result, heading) for heading, result in _named(results).items()}
    if labels is not None:
        check_labels(labels, [e for parts in tables.values() for e in parts])
        tables = {h: [relabeled(e, labels, strict=False) for e in parts] for h, parts in tables.items()}
    interactive = vega.available()
    shapes = _shapes(tables, polygons, coords)
    sections = [section_of(heading, parts, shapes=shapes) for heading, parts in tables.items()]
    if polygons is not None and figures is None:
        _check_mapped(tables, sections)
    own: dict[str, Any] = {}
    if figures is None and not interactive:
        shown = polygons if isinstance(polygons, Mapping) and "features" in polygons else None
        own = pictures({h: parts[0] for h, parts in tables.items()}, shown)
    drawn = {caption: figure_svg(ax) for caption, ax in (figures or own).items()}
    _close(own)
    note = "" if interactive else vega.MISSING
    made = Report(describe_page(sections, title or next(iter(tables)), shapes, drawn, note, interactive))
    if path is not None:
        made.save(path)
    return made


def pictures(named: Mapping[str, Estimates], polygons: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Draw each result for a page without scripts: a row per estimate, and a map of its first subgroup where polygons show its places.

    A result of many rows that is mapped is not drawn row by row too.

    Parameters
    ----------
    named : mapping of heading to Estimates
    polygons : mapping, optional
        A GeoJSON FeatureCollection; a property of its features is a key of the results that are to be mapped.

    Returns
    -------
    dict of caption to matplotlib Axes
    """
    drawn: dict[str, Any] = {}
    for heading, estimates in named.items():
        by = None if polygons is None else _place(estimates, polygons)
        if polygons is not None and by is not None:
            others = estimates.table.select([n for n in estimates.keys if n != by])
            rows: list[dict[str, Any]] = others.to_pylist()
            select = next((row for row in rows if None not in row.values()), {})
            words = ", ".join(f"{n} {v}" for n, v in select.items())
            caption = f"{heading}: the estimate by {by}{f' for {words}' if words else ''}"
            drawn[caption] = estimate_map(estimates, polygons, by=by, select=select)
        if by is None or len(estimates) <= LONGEST:
            drawn[heading] = _picture(estimates)
    return drawn


def _close(drawn: Mapping[str, Any]) -> None:
    if drawn:
        import matplotlib.pyplot as plt

        for ax in drawn.values():
            plt.close(ax.figure)


def _picture(estimates: Estimates) -> Any:
    """Draw the first chart of a result's kind; a row per estimate where it has none of its own."""
    if "method" in estimates.keys:
        return methods(estimates, max_cells=MOST_CELLS)
    if estimates.kind not in KINDS or estimates.kind == "cells":
        return intervals(estimates, max_rows=LONGEST)
    return draw(charts_of(estimates)[0])


def _place(estimates: Estimates, polygons: Mapping[str, Any]) -> str | None:
    """Find the key that names places of the map: a property has all of its values."""
    if any((f.get("geometry") or {}).get("type") not in ("Polygon", "MultiPolygon") for f in polygons["features"]):
        return None
    for name in estimates.keys:
        on_map = {(f.get("properties") or {}).get(name) for f in polygons["features"]}
        values = by_names_of(polygons, dict.fromkeys(estimates[name].tolist(), 0.0), name)
        if len(values) > 1 and set(values) <= on_map:
            return name
    return None


def _named(results: Any) -> dict[str, Any]:
    if isinstance(results, Mapping):
        if not results:
            raise InputError("results is empty; pass at least one Estimates.")
        return _once((str(heading), result) for heading, result in results.items())
    if isinstance(results, PolarizationStudy):
        contests = [(n, [c.comparison, c.choice[c.lead]]) for n, c in results.contests.items()]
        return _once([("All contests", [results.summary, results.tally]), *contests])
    if isinstance(results, list | tuple) and results and all(_is_pair(r) for r in results):
        return _once(results)
    if isinstance(results, Estimates):
        return {results.title or results.method: results}
    if isinstance(results, str | bytes | list | tuple) or results is None:
        raise InputError(
            f"results is a {type(results).__name__}; pass Estimates or a fitted model, or a mapping of heading to these."
        )
    return {type(results).__name__: results}


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Give results by their headings; refuse a heading that would take the place of another."""
    found: dict[str, Any] = {}
    for heading, result in pairs:
        if heading in found:
            raise InputError(f"results has the heading {heading!r} twice; give each result a heading of its own.")
        found[heading] = result
    return found


def _study_of(results: Any) -> tuple[PolarizationStudy, dict[str, Estimates]]:
    """Give a study and the tables of proposed districts beside it."""
    study, *beside = results if isinstance(results, list | tuple) and results else [results]
    if not isinstance(study, PolarizationStudy) or not all(_is_pair(p) and _of_districts(p[1]) for p in beside):
        raise InputError(
            "an exhibit is made of a study; pass that of crosslevel.ecological.rpv, alone or in a list with pairs of a heading and the "
            "answer of crosslevel.ecological.performance. Other results have a page (template='page') and wide tables (to_latex, to_docx)."
        )
    return study, _once(beside)


def _of_districts(found: Any) -> bool:
    return isinstance(found, Estimates) and found.kind == "performance"


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _shapes(
    tables: Mapping[str, list[Estimates]], polygons: Any, coords: Mapping[Any, tuple[float, float]] | None
) -> Shapes | None:
    if polygons is not None:
        every = [e for parts in tables.values() for e in parts]
        return read_shapes(polygons, [{key: e.table[key].unique().to_pylist() for key in e.keys} for e in every])
    return None if coords is None else read_points(coords)


def _check_mapped(tables: Mapping[str, list[Estimates]], sections: list[Section]) -> None:
    if any(isinstance(d, Places) for s in sections for chart in s.charts for d in chart.data.values()):
        return
    keys = list(dict.fromkeys(key for parts in tables.values() for e in parts for key in e.keys))
    raise InputError(
        f"polygons shows the places of no result: no property of its features has all the values of one of their keys, and "
        f"these are two or more ({listed(keys)}); pass the map of these places."
    )
