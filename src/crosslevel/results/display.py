"""Estimates as a person likes to read them: one line, a text table, an HTML table."""

from __future__ import annotations

import html as html_words
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.results.table import NUMBERS, midpoints, to_array, without_midpoints

if TYPE_CHECKING:
    from crosslevel.results.estimates import Estimates

NULL = "–"
LONGEST_LINE = 72  # characters of the diagnostics above a table; the others on request
LONGEST_WORD = 40
WIDEST = 118  # characters; further columns are named below the table instead
DIGITS_OF_ERROR = 2
DIGITS_OF_ESTIMATE = 3
LEAST_DECIMALS, MOST_DECIMALS = 0, 6


@dataclass(frozen=True)
class Column:
    """One column as text: heading, cells, and whether it is aligned to the left."""

    heading: str
    cells: list[str]
    left: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest entry."""
        return max(map(_width, (self.heading, *self.cells)))


def describe_level(level: float | None) -> str:
    """Say the level as a heading does.

    Examples
    --------
    >>> describe_level(0.95), describe_level(0.999), describe_level(None)
    ('95 % interval', '99.9 % interval', 'no interval')
    """
    return "no interval" if level is None else f"{100 * level:.10g} % interval"


def describe_interval(low: float | None, high: float | None) -> str:
    """Write a bin in words: its lower end belongs to it, its upper end does not, and a missing one has no end.

    Ends are written in full: rounded ones would give narrow bins the same name.

    Examples
    --------
    >>> describe_interval(18.0, 25.0), describe_interval(85.0, None), describe_interval(None, 5.0)
    ('18 to under 25', '85 and over', 'under 5')
    """
    if high is None:
        return f"{low:,.10g} and over"
    return f"under {high:,.10g}" if low is None else f"{low:,.10g} to under {high:,.10g}"


def one_line(estimates: Estimates) -> str:
    """Name the answer and the next step in one line."""
    about = f"{_sizes(estimates)}, {_clean(estimates.method)}, {describe_level(estimates.level)}"
    kind = "" if estimates.level is None else f" ({_clean(estimates.interval)})"
    count = len(estimates.warnings)
    noted = f", {count} warning{'s' if count > 1 else ''}" if count else ""
    return f"<Estimates: {about}{kind}{noted}; see .summary(), .to_frame() or .plot()>"


def summary(estimates: Estimates, max_rows: int | None = 20, diagnostics: bool = False) -> str:
    """Write the heading, warnings, one line of diagnostics (or all) and the first rows as aligned text."""
    lines = _heading(estimates, LONGEST_LINE)
    if diagnostics:
        lines = [*(line for line in lines if not line.startswith("Diagnostics: ")), *_diagnostics(estimates)]
    columns, hidden = _fit(layout(estimates, max_rows))
    lines += ["", *_aligned(columns)]
    shown = len(columns[0].cells)
    if shown < len(estimates):
        lines.append(
            f"… {len(estimates) - shown:,} more rows: summary(max_rows=None) prints all, to_frame() gives the table."
        )
    if hidden:
        lines.append(f"Further columns: {', '.join(hidden)}.")
    return "\n".join(lines)


def html(estimates: Estimates, max_rows: int = 20) -> str:
    """Write the same as an HTML fragment, every word escaped."""
    columns = layout(estimates, max_rows)

    def row(cells: Sequence[str], tag: str) -> str:
        made = (
            f'<{tag} style="text-align:{"left" if c.left else "right"}">{html_words.escape(text)}</{tag}>'
            for c, text in zip(columns, cells, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = [row(cells, "td") for cells in zip(*(c.cells for c in columns), strict=True)]
    shown = len(columns[0].cells)
    more = [f"… {len(estimates) - shown:,} more rows; to_frame() gives the table."] if shown < len(estimates) else []
    first, *others = _heading(estimates, LONGEST_LINE)
    words = "".join(f"<div>{html_words.escape(line)}</div>" for line in others)
    every = "".join(f"<div>{html_words.escape(line)}</div>" for line in _diagnostics(estimates))
    words += f"<details><summary>All diagnostics</summary>{every}</details>" if every else ""
    tail = "".join(f"<div>{html_words.escape(line)}</div>" for line in more)
    return (
        f'<div class="crosslevel-estimates"><strong>{html_words.escape(first)}</strong>{words}<table><thead>'
        f"{row([c.heading for c in columns], 'th')}</thead><tbody>{''.join(body)}</tbody></table>{tail}</div>"
    )


def layout(estimates: Estimates, max_rows: int | None) -> list[Column]:
    """Choose the columns, the rows and the digits to show; columns with nothing in them are left out."""
    shown = len(estimates) if max_rows is None else min(max(max_rows, 0), len(estimates))
    table = without_midpoints(estimates).slice(0, shown)
    shared = number_format(table)
    made = _key_columns(estimates, table)
    only = midpoints(estimates)[: len(table)]
    if only.any():  # what lies in the middle of bounds is no estimate, nor a count
        table = table.drop_columns(["count"]) if only.all() and "count" in table.column_names else table
    if not only.all() or not len(table):
        made.append(_numbers("estimate", table["estimate"], shared))
    if table["std_error"].null_count < len(table):
        made.append(_numbers("std_error", table["std_error"], shared))
    if estimates.level is not None:
        low, high = (_numbers("", table[n], shared) for n in ("conf_low", "conf_high"))
        ends = zip(low.cells, high.cells, strict=True)
        cells = [NULL if lo == hi == NULL else f"[{lo:>{low.width}}, {hi:>{high.width}}]" for lo, hi in ends]
        made.append(Column(describe_level(estimates.level), cells))
    for name in table.column_names:
        if name not in estimates.keys and name not in NUMBERS:
            made.append(_extra(name, table, shared))
    return made


def _key_columns(estimates: Estimates, table: pa.Table) -> list[Column]:
    """Lay out the keys; the two ends of a bin are one column of words."""
    names, cells = list(estimates.keys), {k: table[k].to_pylist() for k in estimates.keys}
    if estimates.kind == "binned" and {"lower", "upper"} <= set(names):
        ends = zip(cells["lower"], cells["upper"], strict=True)
        cells["bin"] = [describe_interval(low, high) for low, high in ends]
        names = ["bin" if k == "lower" else k for k in names if k != "upper"]
    return [Column(_clean(k), [_word(v) for v in cells[k]], left=True) for k in names]


def _heading(estimates: Estimates, longest: int) -> list[str]:
    title, method = _clean(estimates.title, None), _clean(estimates.method, None)
    first = f"{title} ({method})" if title and method and title != method else title or method or "Estimates"
    kind = describe_level(estimates.level) + ("" if estimates.level is None else f": {_clean(estimates.interval)}")
    parts = [_sizes(estimates)]
    if estimates.units is not None:
        parts.append(f"{len(estimates.units):,} rows in .units")
    if estimates.draws is not None:
        parts.append(f"{len(estimates.draws):,} draws")
    lines = [first, " · ".join([*parts, kind])]
    lines += [f"Warning: {_clean(w, None)}" for w in estimates.warnings]
    found = estimates.diagnostics.get("findings")
    if isinstance(found, list):
        lines += [f"Finding: {_clean(str(text), None)}" for text in found]
    said = [f"{_clean(k)} {_short(v)}" for k, v in estimates.diagnostics.items() if not isinstance(v, list | dict)]
    said.sort(key=lambda words: not words.startswith("converged "))
    n = next((i for i in range(len(said), 0, -1) if len(", ".join(said[:i])) <= longest), 1)
    if said:
        more = len(estimates.diagnostics) - n
        rest = f"; {more:,} more in .diagnostics" if n < len(said) else ""
        lines.append(f"Diagnostics: {', '.join(said[:n])}{rest}")
    return lines


def _diagnostics(estimates: Estimates) -> list[str]:
    """Write every diagnostic in a line of its own."""
    return [f"{_clean(k)}: {_clean(_short(v), None)}" for k, v in estimates.diagnostics.items() if k != "findings"]


def _sizes(estimates: Estimates) -> str:
    rows = f"{len(estimates):,} row{'' if len(estimates) == 1 else 's'}"
    return f"{rows} by {', '.join(map(_clean, estimates.keys))}" if estimates.keys else rows


def _fit(columns: list[Column]) -> tuple[list[Column], list[str]]:
    """Keep the columns that fit the width, and name the others; at least the first three stay."""
    kept: list[Column] = []
    used = 0
    for i, column in enumerate(columns):
        used += column.width + 2
        if used > WIDEST and i >= 3:
            return kept, [c.heading for c in columns[i:]]
        kept.append(column)
    return kept, []


def _aligned(columns: list[Column]) -> list[str]:
    rows = [[c.heading for c in columns], *zip(*(c.cells for c in columns), strict=True)]
    return ["  ".join(_pad(text, c) for c, text in zip(columns, row, strict=True)).rstrip() for row in rows]


def _pad(text: str, column: Column) -> str:
    gap = " " * (column.width - _width(text))
    return text + gap if column.left else gap + text


def _numbers(heading: str, values: pa.ChunkedArray, form: str) -> Column:
    return Column(heading, [number(v, form) for v in values.to_pylist()])


def number(value: float | None, form: str) -> str:
    """Write a number in a format, without a minus before zero."""
    if value is None:
        return NULL
    if form == ".4g" and 1e3 <= abs(value) < 1e9:
        form = ",.0f"  # four digits, and not as a power of ten
    text = format(value, form)
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text  # no "-0.00"


def _extra(name: str, table: pa.Table, shared: str) -> Column:
    """Lay out a column of the method: on the scale of the estimates with their digits, else with its own."""
    values, heading = table[name], _clean(name)
    if pa.types.is_floating(values.type):
        largest, typical = _largest(to_array(values)), _largest(to_array(table["estimate"]))
        alike = largest == 0 or (typical > 0 and abs(math.log10(largest) - math.log10(typical)) <= 2)
        return _numbers(heading, values, shared if alike else _with_decimals(largest, largest, DIGITS_OF_ESTIMATE))
    if pa.types.is_integer(values.type):
        return _numbers(heading, values, ",d")
    return Column(heading, [_word(v) for v in values.to_pylist()], left=True)


def number_format(table: pa.Table) -> str:
    """Choose one format for estimate, error and interval: two digits of a typical error, if the scales allow."""
    errors, estimates = np.abs(to_array(table["std_error"])), np.abs(to_array(table["estimate"]))
    errors, sizes = errors[errors > 0], estimates[estimates > 0]
    reference, digits = (errors, DIGITS_OF_ERROR) if errors.size else (sizes, DIGITS_OF_ESTIMATE)
    if not reference.size:
        return ".3f"
    if math.log10(reference.max()) - math.log10(reference.min()) > 4:
        return ".4g"  # rows on different scales: no number of decimals suits all
    form = _with_decimals(float(np.median(reference)), _largest(estimates), digits)
    # an error that is not zero must not be written as zero: its row would be read as certain, its estimate cut to nothing
    return form if not errors.size or number(float(errors.min()), form).strip("0.,") else ".4g"


def _with_decimals(reference: float, largest: float, digits: int) -> str:
    if reference <= 0:
        return ".3f"
    decimals = digits - 1 - math.floor(math.log10(reference))
    if decimals > MOST_DECIMALS or largest >= 1e9:
        return ".4g"
    return f",.{max(decimals, LEAST_DECIMALS)}f"


def _largest(values: npt.NDArray[np.float64]) -> float:
    return float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return NULL
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_short(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return f"{value:,}" if isinstance(value, int) else _clean(str(value))


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return NULL if value is None else _short(value) if isinstance(value, bool) else _clean(str(value))


def _clean(text: str, longest: int | None = LONGEST_WORD) -> str:
    """Put text on one line: control characters become spaces, the end of a long word an ellipsis."""
    flat = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
    return flat if longest is None or len(flat) <= longest else flat[: longest - 1] + "…"


def _width(text: str) -> int:
    """Count the columns a terminal uses: two for East Asian wide letters, none for combining ones."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
