"""Turn results into a plain, versioned description of a page: what the template shows, and nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv

from crosslevel.results import Estimates

__all__ = ["PAGE_VERSION", "describe_page", "figure_svg"]

PAGE_VERSION = 1

MAX_ROWS = 2000
"""Rows of a table shown on the page; the file to download holds all."""


def describe_page(results: Mapping[str, Estimates], title: str, figures: Mapping[str, str]) -> dict[str, Any]:
    """Describe a page of results: JSON-able, one section per result.

    Parameters
    ----------
    results : mapping of heading to Estimates
    title : str
    figures : mapping of caption to SVG text, shown first
    """
    return {
        "page_version": PAGE_VERSION,
        "title": title,
        "figures": [{"caption": caption, "svg": svg} for caption, svg in figures.items()],
        "sections": [_section(heading, estimates) for heading, estimates in results.items()],
    }


def _section(heading: str, estimates: Estimates) -> dict[str, Any]:
    table = estimates.table
    shown = [name for name in table.column_names if table[name].null_count < table.num_rows]
    return {
        "heading": heading,
        "method": estimates.method,
        "level": estimates.level,
        "interval": estimates.interval,
        "warnings": list(estimates.warnings),
        "diagnostics": [[name, _plain(value)] for name, value in estimates.diagnostics.items()],
        "provenance": [
            ["crosslevel", estimates.provenance.version],
            ["call", estimates.provenance.call],
            ["seed", "none" if estimates.provenance.seed is None else str(estimates.provenance.seed)],
            *([f"data: {name}", value] for name, value in estimates.provenance.data.items()),
        ],
        "columns": [{"name": n, "number": n not in estimates.keys and _is_number(table[n])} for n in shown],
        "rows": _rows(table.select(shown).slice(0, MAX_ROWS), estimates.keys),
        "n_rows": table.num_rows,
        "csv": _csv(table),
    }


def _is_number(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(values.type) or pa.types.is_floating(values.type))


def _rows(table: pa.Table, keys: Sequence[str]) -> list[list[str]]:
    """Write each row out; keys as they are, since 2020 is a year and 12345 a code."""
    columns = [map(str if n in keys else _plain, table[n].to_pylist()) for n in table.column_names]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> str:
    """Write one value as a reader likes it: four significant decimals, a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        size = abs(value)
        return f"{value:,.0f}" if size >= 1e4 else f"{value:.4f}" if size == 0 or 1e-3 <= size < 10 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_plain(v)}" for k, v in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_plain, value))
    return str(value)


def _csv(table: pa.Table) -> str:
    """Put the whole table into a data address, so that the page can hand it out offline."""
    out = io.BytesIO()
    pv.write_csv(table, out)
    return "data:text/csv;base64," + base64.b64encode(out.getvalue()).decode()


def figure_svg(ax: Any) -> str:
    """Draw the figure of an Axes as SVG text to stand inside a page, the same bytes each time."""
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "crosslevel", "svg.fonttype": "none"}):
        ax.figure.savefig(
            out, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    svg = out.getvalue()
    return svg[svg.index("<svg") :]
