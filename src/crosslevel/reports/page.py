"""Turn sections into a plain, versioned description of a page: what the template and its script show, and nothing else.

Tables are written by column: each word once, numbers to six digits.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from crosslevel.charts.chart import Chart, Places, Rows
from crosslevel.charts.words import plain
from crosslevel.data.checks import check_kind
from crosslevel.errors import InputError
from crosslevel.reports.sections import Section
from crosslevel.reports.sentences import citation_of
from crosslevel.reports.shapes import Shapes
from crosslevel.reports.vega import spec_of

DIGITS = 6
"""Significant digits of a number on the page: more than any chart shows, and a third of the bytes of all of them."""

EXACT = 2**53
"""Whole numbers beyond this are codes that a browser's numbers would change; they are written as words."""


def encode_column(values: pa.ChunkedArray) -> dict[str, Any]:
    """Give numbers as ``{"numbers": [...]}`` and all else as ``{"levels": [...], "codes": [...]}``; None is missing."""
    kind = values.type
    if pa.types.is_integer(kind):
        ends = pc.min_max(values).as_py()
        if max(abs(ends["min"] or 0), abs(ends["max"] or 0)) > EXACT:
            return _coded(None if v is None else str(v) for v in values.to_pylist())
        return {"numbers": values.to_pylist()}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"numbers": [_short(v) for v in values.to_pylist()]}
    if pa.types.is_boolean(kind):
        return _coded(None if v is None else "yes" if v else "no" for v in values.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.dictionary_encode(values.combine_chunks())
        return {"levels": found.dictionary.to_pylist(), "codes": found.indices.to_pylist()}
    return _coded(None if v is None else str(v) for v in values.to_pylist())


def _coded(words: Iterable[str | None]) -> dict[str, Any]:
    levels: dict[str, int] = {}
    codes = [None if w is None else levels.setdefault(w, len(levels)) for w in words]
    return {"levels": list(levels), "codes": codes}


def _short(value: Any) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


PAGE_VERSION = 2

MAX_ROWS = 2000
"""Rows of a table written into the page; the file to save holds all."""
MAX_CSV = 400_000
"""Characters of a table that stands in the page once more as a file with all digits; a longer one is written by the page's script."""
ANSWER = "answer"
"""Name of the encoded answer among the tables of a section."""
SAFE = re.compile(r"[a-z][a-z0-9_]*")
PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[a-z_][a-z0-9_]*)*")


def describe_page(
    sections: Sequence[Section],
    title: str,
    shapes: Shapes | None = None,
    figures: Mapping[str, str] | None = None,
    note: str = "",
    interactive: bool = True,
) -> dict[str, Any]:
    """Describe a page of results: JSON-able, one section per result.

    Parameters
    ----------
    sections : sequence of Section
    title : str
    shapes : Shapes, optional
        The places that maps show.
    figures : mapping of caption to SVG text, optional
    note : str
        A sentence under the title.
    interactive : bool
        Whether the page draws the charts of the sections; otherwise it shows the figures and the tables only.
    """
    names: list[list[str | None]] = []
    interactive = interactive and any(section.charts for section in sections)
    described = [_section(f"s{i + 1}", section, shapes, names, interactive) for i, section in enumerate(sections)]
    return {
        "page_version": PAGE_VERSION,
        "title": title,
        "note": note,
        "views": interactive,
        "figures": [{"caption": caption, "svg": svg} for caption, svg in (figures or {}).items()],
        "shapes": {**shapes.encoded(), "names": names} if shapes is not None and names else None,
        "sections": described,
    }


def _section(
    name: str, section: Section, shapes: Shapes | None, names: list[list[str | None]], interactive: bool
) -> dict[str, Any]:
    main, table = section.parts[0], section.answer
    shown = [n for n in table.column_names if table[n].null_count < table.num_rows] or table.column_names
    csv = _csv(table)
    told = main.provenance
    return {
        "name": name,
        "heading": section.heading,
        "kind": main.kind,
        "sentences": section.sentences,
        "method": main.method,
        "level": main.level,
        "interval": main.interval,
        "warnings": list(dict.fromkeys(w for e in section.parts for w in e.warnings)),
        "diagnostics": [[n, plain(value)] for n, value in main.diagnostics.items()],
        "provenance": [
            ["crosslevel", told.version],
            ["call", told.call],
            ["seed", "none" if told.seed is None else str(told.seed)],
            *([f"data: {n}", str(value)] for n, value in told.data.items()),
        ],
        "citation": citation_of(main),
        "columns": [{"name": n, "number": n not in main.keys and _is_number(table[n])} for n in shown],
        "rows": _rows(table.select(shown).slice(0, MAX_ROWS), main.keys),
        "n_rows": table.num_rows,
        "csv": csv if len(csv) <= MAX_CSV or not interactive else "",
        "labels": section.labels,
        "tables": _tables(section) if interactive else {},
        "choices": {n: asdict(c) for n, c in section.choices.items()},
        "views": [_view(section, chart, shapes, names) for chart in section.charts] if interactive else [],
    }


def _tables(section: Section) -> dict[str, Any]:
    """Encode the tables; a column that an earlier table has too is named, not written again."""
    answer = section.answer.rename_columns([f"c{i}" for i in range(section.answer.num_columns)])
    written: list[tuple[str, str, pa.ChunkedArray]] = []
    found: dict[str, Any] = {}
    for name, table in {**section.tables, ANSWER: answer}.items():
        columns: dict[str, Any] = {}
        for column in table.column_names:
            values = table[column]
            same = next(([t, c] for t, c, v in written if v.type == values.type and v.equals(values)), None)
            columns[column] = {"same": same} if same else encode_column(values)
            written += [] if same else [(name, column, values)]
        found[name] = {"n": table.num_rows, "columns": columns}
    found[ANSWER]["names"] = list(section.answer.column_names)
    return found


def _view(section: Section, chart: Chart, shapes: Shapes | None, names: list[list[str | None]]) -> dict[str, Any]:
    where = f"view {chart.name!r} of {section.heading!r}"
    for source in chart.data.values():
        if source.table not in chart.tables:
            raise InputError(f"{where} shows the table {source.table!r}, which it lacks.")
        for name in chart.tables[source.table].column_names:
            if not SAFE.fullmatch(name):
                raise InputError(f"{where}: the column {name!r} of its table is no safe name; rename it to c0, c1, ...")
        for name in _followed(source):
            if name not in section.choices:
                raise InputError(f"{where} names the choice {name!r}, which the section lacks.")
    data = {name: _source(section, source, shapes, names) for name, source in chart.data.items()}
    spec = spec_of(chart, shapes)
    for path in _fields(spec):
        if not PATH.fullmatch(path):
            raise InputError(f"{where} names the field {path!r}; fields are safe names, a user's words are titles.")
    said = {"name": chart.name, "title": chart.title, "caption": chart.caption, "size": chart.size}
    return said | {"spec": spec, "data": data, "choices": [c.name for c in chart.choices]}


def _followed(source: Rows | Places) -> Iterator[str]:
    yield from source.columns.values()
    if isinstance(source, Rows):
        yield from source.where.values()
    else:
        for side in source.sides.values():
            yield from side.values()


def _source(
    section: Section, source: Rows | Places, shapes: Shapes | None, names: list[list[str | None]]
) -> dict[str, Any]:
    """Describe the data of a chart; the names that a map's places have in its table are added to ``names``."""
    if isinstance(source, Rows):
        return {"kind": "rows", **asdict(source)}
    places = section.tables[source.table][source.place].unique().to_pylist()
    hint = section.labels.get(source.place, source.place)
    found = None if shapes is None else shapes.names_for(places, hint)
    if found is None:
        raise InputError(f"a map of {section.heading!r} has no shapes for its places; pass polygons that show them.")
    if found not in names:
        names.append(found)
    return {"kind": "features", "by": names.index(found), **asdict(source)}


def _fields(spec: Any) -> Iterator[str]:
    """Walk through a specification for the names of fields."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            if key in ("field", "lookup") and isinstance(value, str):
                yield value
            elif key == "url":
                raise InputError("a specification names an address; a page asks nobody for anything.")
            else:
                yield from _fields(value)
    elif isinstance(spec, Sequence) and not isinstance(spec, str):
        for part in spec:
            yield from _fields(part)


def _is_number(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(values.type) or pa.types.is_floating(values.type))


def _rows(table: pa.Table, keys: Sequence[str]) -> list[list[str]]:
    """Write each row out; keys as they are, since 2020 is a year and 12345 a code."""
    columns = [map(_key if n in keys else plain, table[n].to_pylist()) for n in table.column_names]
    return [list(row) for row in zip(*columns, strict=True)]


def _key(value: Any) -> str:
    return "–" if value is None else str(value)


def _csv(table: pa.Table) -> str:
    """Put the whole table into a data address, so that the page can hand it out offline."""
    out = io.BytesIO()
    pv.write_csv(table, out)
    return "data:text/csv;base64," + base64.b64encode(out.getvalue()).decode()


def figure_svg(ax: Any) -> str:
    """Draw the figure of an Axes as SVG text to stand inside a page, the same bytes each time."""
    import matplotlib as mpl
    from matplotlib.figure import FigureBase

    check_kind(getattr(ax, "figure", ax), FigureBase, "a value of figures", "pass axes of matplotlib")
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "crosslevel", "svg.fonttype": "none"}):
        ax.figure.savefig(
            out, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    svg = out.getvalue()
    return svg[svg.index("<svg") :]
