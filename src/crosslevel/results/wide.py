"""Estimates as tables that people read and print: one key across the top, words for codes, LaTeX and Word."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.data.atomic import whole_file
from crosslevel.errors import InputError, MissingExtraError, unknown_name
from crosslevel.results import display
from crosslevel.results.table import as_column, in_percent, midpoints, without_midpoints

if TYPE_CHECKING:
    from crosslevel.results.estimates import Estimates

Labels = Mapping[str, Mapping[Any, str]]
"""Column -> code -> word for it."""
MOST_ACROSS = 6
"""Columns of numbers that fit a printed page; a wider table continues below."""
DOCX_WIDTH = 6.7
"""Inches of text and tables across a page of a Word file."""
LONGEST_HEAD = 14
"""Letters of a head in one line of a LaTeX table."""
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\char34{}", "[": "{[}", "]": "{]}", "*": "{*}", "-": "-{}", "`": "{`}", "'": "{'}", "–": "--", "…": r"\ldots{}",
    "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "±": r"$\pm$", "·": r"$\cdot$", "\u00a0": "~", "?": "?{}", "!": "!{}",
}  # fmt: skip
"""Brackets and stars stand in braces, since they would be read as an option of the line break before them."""


@dataclass(frozen=True)
class Wide:
    """A table ready to be written: every cell is words, with smaller words (an interval) beneath or "".

    Attributes
    ----------
    caption : str
    head : tuple of str
    rows : tuple of tuple of (words, smaller words)
    left : int
        How many of the first columns are names.
    note : str
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]
    left: int
    note: str = ""


def relabeled(estimates: Estimates, labels: Labels, *, strict: bool = True) -> Estimates:
    """Put words in the place of codes, here and in the units; ``strict`` refuses a column or a code that is not there."""
    if strict:
        check_labels(labels, [estimates])
    table = (
        without_midpoints(estimates) if "method" in labels else estimates.table
    )  # by another name these would be points
    columns = {n: table[n] for n in table.column_names}
    for name, words in labels.items():
        if not isinstance(words, Mapping) or not all(isinstance(w, str) for w in words.values()):
            raise InputError(
                f"labels[{name!r}]={words!r} does not map codes to words; pass {{1: 'white', 2: 'Black'}}."
            )
        if name not in columns:
            continue
        if name in ("estimate", "std_error", "conf_low", "conf_high"):
            raise InputError(f"labels has {name!r}, a column of estimates and not of codes; name a key.")
        found = {_code(code): word for code, word in words.items()}
        codes = [None if v is None else _code(v) for v in columns[name].to_pylist()]
        code_of: dict[str, str] = {}
        for code in dict.fromkeys(c for c in codes if c is not None):
            word = found.get(code, code)
            if word in code_of:
                raise InputError(
                    f"labels[{name!r}] calls {code_of[word]!r} and {code!r} both {word!r}; give each code a word of its own."
                )
            code_of[word] = code
        values = [None if c is None else found.get(c, c) for c in codes]
        columns[name] = as_column(pa.array(values, pa.string()), name)
    units = None if estimates.units is None else relabeled(estimates.units, labels, strict=False)
    return replace(estimates, table=pa.table(columns), units=units)


def _code(value: Any) -> str:
    """Write a code: 1.0 of a column with gaps is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def across(estimates: Estimates, columns: str | None) -> str:
    """Choose the key that goes across: the one named, else the outcomes, else the last of several."""
    if columns is not None:
        if columns not in estimates.keys:
            raise unknown_name("columns", columns, estimates.keys, "key")
        return columns
    if len(estimates.keys) < 2:
        raise InputError(
            f"columns=None needs two keys, and these estimates have {list(estimates.keys)}; to_frame() is as wide."
        )
    return "outcome" if "outcome" in estimates.keys else estimates.keys[-1]


def pivoted(estimates: Estimates, columns: str | None, values: str) -> pa.Table:
    """Make a row for each combination of the other keys and a column for each value of one, after its candidate where rows name one."""
    key = across(estimates, columns)
    names = [n for n in estimates.table.column_names if n not in estimates.keys]
    if values not in names:
        raise unknown_name("values", values, names)
    rows, heads, place = _grid(estimates, key)
    index = [k for k in estimates.keys if k != key]
    taken = [h for h in heads if h in index]
    if taken:
        raise InputError(
            f"columns={key!r} has the value {taken[0]!r}, which is also the name of a key; rename one of them."
        )
    cells = {"": values}
    if _own_candidates(estimates) and values != "candidate":  # a number is read with the candidate it is of
        cells = {" candidate": "candidate", "": values}
        twice = [f"{h} candidate" for h in heads if f"{h} candidate" in (*heads, *index)]
        if twice:
            raise InputError(f"columns={key!r} would make two columns {twice[0]!r}; rename one of its values.")
    made = {k: as_column(pa.array([row[i] for row in rows], estimates.table[k].type), k) for i, k in enumerate(index)}
    for j, head in enumerate(heads):
        rows_of = pa.array(place[:, j], mask=place[:, j] < 0)
        made |= {head + more: estimates.table[n].combine_chunks().take(rows_of) for more, n in cells.items()}
    return pa.table(made)


def _own_candidates(estimates: Estimates) -> bool:
    """Tell whether every row is of a candidate of its own; ``share`` says that it is of several."""
    names = estimates.table.column_names
    return "candidate" in names and "candidate" not in estimates.keys and "share" not in names


def _grid(estimates: Estimates, key: str) -> tuple[list[tuple[Any, ...]], list[str], Any]:
    """Find the rows, the heads and the row of the table for each cell, -1 where there is none."""
    index = [k for k in estimates.keys if k != key]
    rows = list(zip(*(estimates.table[k].to_pylist() for k in index), strict=True)) if index else [()] * len(estimates)
    values = estimates.table[key].to_pylist()
    if None in values and "–" in values:
        raise InputError(
            f"columns={key!r} has rows without a value and rows with the value '–', which would share a column; rename that value."
        )
    heads = ["–" if v is None else str(v) for v in values]
    at = {v: i for i, v in enumerate(dict.fromkeys(rows))}
    to = {v: i for i, v in enumerate(dict.fromkeys(heads))}
    place = np.full((len(at), len(to)), -1, dtype=np.int64)
    for i, (row, head) in enumerate(zip(rows, heads, strict=True)):
        place[at[row], to[head]] = i
    return list(at), list(to), place


def wide_tables(estimates: Estimates, columns: str | None = None, caption: str = "") -> list[Wide]:
    """Lay the estimates out for print: estimate with its interval beneath, at most six columns of numbers a table.

    Shares are in percent. Rows that have bounds only show the bounds. Without a second key the rows stay as they are.
    """
    share = in_percent(estimates)
    words = _cells(estimates, share)
    bound = bool(midpoints(estimates).any())
    unit = "Percent" if share else "Estimates"
    note = f"{unit}{'' if estimates.level is None else f', with the {display.describe_level(estimates.level)} beneath'}"
    note += "; from bounds alone: the least and the most that the counts allow." if bound else "."
    caption = caption or estimates.title or estimates.method
    if columns is None and len(estimates.keys) < 2:
        keys = [[_said(v) for v in estimates.table[k].to_pylist()] for k in estimates.keys]
        rows = tuple((*((k[i], "") for k in keys), words[i]) for i in range(len(estimates)))
        return [Wide(caption, (*estimates.keys, "estimate"), rows, len(keys), note)]
    key = across(estimates, columns)
    index = tuple(k for k in estimates.keys if k != key)
    names, heads, place = _grid(estimates, key)
    made = []
    most = max(2, MOST_ACROSS + 1 - len(index))  # names of rows need room too
    for first in range(0, len(heads), most):
        block = range(first, min(first + most, len(heads)))
        rows = tuple(
            (*((_said(v), "") for v in row), *(words[place[i, j]] if place[i, j] >= 0 else ("–", "") for j in block))
            for i, row in enumerate(names)
        )
        told = caption + (" (continued)" if first else "")
        made.append(Wide(told, (*index, *(heads[j] for j in block)), rows, len(index), note))
    return made


def _cells(estimates: Estimates, share: bool) -> list[tuple[str, str]]:
    table, only = estimates.table, midpoints(estimates)
    form = ".1f" if share else display.number_format(table)
    factor = 100.0 if share else 1.0
    names = ("estimate", "conf_low", "conf_high", *(("lower", "upper") if only.any() else ()))
    columns = [[None if v is None else factor * v for v in table[n].to_pylist()] for n in names]

    def span(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f"{display.number(low, form)} to {display.number(high, form)}"

    whose = [""] * len(table)
    if _own_candidates(estimates):  # an estimate of a candidate is read with the name
        whose = [f"{_said(c)} " for c in table["candidate"].to_pylist()]
    return [
        (name + span(*row[3:]), "") if bound else (name + display.number(row[0], form), span(*row[1:3]))
        for name, bound, row in zip(whose, only.tolist(), zip(*columns, strict=True), strict=True)
    ]


def _said(value: Any) -> str:
    return "–" if value is None else _code(value)


def printable(text: str) -> str:
    """Put text on one line without characters that turn the direction of what follows, or that no file may hold.

    Examples
    --------
    >>> printable("a\\u202eb\\x00c\\nd")
    'ab c d'
    """
    out = []
    for c in text:
        kind = unicodedata.category(c)
        if kind in ("Cc", "Zl", "Zp"):
            out.append(" ")
        elif kind not in ("Cf", "Cs", "Cn", "Co") or c in "\u200c\u200d":
            out.append(c)
    return "".join(out)


def latex_words(text: str) -> str:
    """Escape text for LaTeX: what stands in a name is printed, never obeyed.

    Examples
    --------
    >>> latex_words("100% of A_B & {C} \\\\input")
    '100\\\\% of A\\\\_B \\\\& \\\\{C\\\\} \\\\textbackslash{}input'
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))


def latex_table(wide: Wide) -> str:
    """Write a table for LaTeX with booktabs; smaller words stand in a line of their own."""
    lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{latex_words(wide.caption)}}}"]
    lines += [rf"\begin{{tabular}}{{{'l' * wide.left}{'r' * (len(wide.head) - wide.left)}}}", r"\toprule"]
    lines += [_latex_row(_latex_head(h, "l" if i < wide.left else "r") for i, h in enumerate(wide.head)), r"\midrule"]
    for row in wide.rows:
        lines.append(_latex_row(latex_words(words) for words, _ in row))
        if any(small for _, small in row):
            lines.append(_latex_row(rf"{{\footnotesize {latex_words(small)}}}" if small else "" for _, small in row))
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\par\smallskip{{\footnotesize {latex_words(wide.note)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_head(words: str, side: str) -> str:
    """Break a long head into lines, which would push the table off the page."""
    lines = textwrap.wrap(printable(words), LONGEST_HEAD, break_long_words=False) or [""]
    if len(lines) == 1:
        return latex_words(lines[0])
    return rf"\shortstack[{side}]{{" + r"\\".join(map(latex_words, lines)) + "}"


def _latex_row(cells: Any) -> str:
    return " & ".join(cells) + r" \\"


def new_docx() -> Any:
    """Make an empty Word document."""
    try:
        import docx
    except ImportError as error:
        raise MissingExtraError(
            "Word files need python-docx; install it with pip install 'crosslevel[docx]'."
        ) from error
    made = docx.Document()
    made.styles["Normal"].font.size = docx.shared.Pt(10.5)
    page = made.sections[0]
    page.left_margin = page.right_margin = docx.shared.Inches((8.5 - DOCX_WIDTH) / 2)
    page.top_margin = page.bottom_margin = docx.shared.Inches(0.8)
    return made


def docx_table(document: Any, wide: Wide) -> None:
    """Add a table to a Word document: caption, head repeated on every page, rows that do not break, a note."""
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.oxml import OxmlElement
    from docx.shared import Inches, Pt

    caption = document.add_paragraph(printable(wide.caption), style="Caption")
    caption.paragraph_format.keep_with_next = True
    table = document.add_table(rows=0, cols=len(wide.head), style="Light List")
    table.autofit = False
    share = [
        (1.6 if wide.left == 1 else 1.3) if i < wide.left else 1.0 for i in range(len(wide.head))
    ]  # names need more room than numbers
    widths = [Inches(DOCX_WIDTH * v / sum(share)) for v in share]
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    for n, row in enumerate((tuple((h, "") for h in wide.head), *wide.rows)):
        added = table.add_row()
        marks = added._tr.get_or_add_trPr()
        for mark in ("w:tblHeader", "w:cantSplit") if n == 0 else ("w:cantSplit",):
            marks.append(OxmlElement(mark))
        for i, (cell, (words, small)) in enumerate(zip(added.cells, row, strict=True)):
            cell.width, text = widths[i], cell.paragraphs[0]
            text.alignment = WD_ALIGN_PARAGRAPH.LEFT if i < wide.left else WD_ALIGN_PARAGRAPH.RIGHT
            text.paragraph_format.keep_with_next = n < len(wide.rows) or bool(wide.note)
            text.paragraph_format.space_after = Pt(0)
            text.add_run(printable(words)).font.size = Pt(9.5)
            if small:
                text.add_run().add_break()
                text.add_run(printable(small)).font.size = Pt(8)
    if wide.note:
        document.add_paragraph().add_run(printable(wide.note)).font.size = Pt(8.5)


def save_docx(document: Any, path: str | os.PathLike[str]) -> Path:
    """Write a Word document, the same bytes each time; the file appears whole or not at all."""
    import datetime
    import io
    import zipfile

    when = datetime.datetime(1980, 1, 1)
    told = document.core_properties
    told.created = told.modified = when
    told.author, told.comments = "crosslevel", ""
    out = io.BytesIO()
    document.save(out)
    with (
        whole_file(path) as beside,
        zipfile.ZipFile(out) as made,
        zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as kept,
    ):
        for item in made.infolist():
            kept.writestr(zipfile.ZipInfo(item.filename), made.read(item), zipfile.ZIP_DEFLATED)
    return Path(path)


def write_text(text: str, path: str | os.PathLike[str] | None) -> str:
    """Write text where a path is given, and give it back."""
    if path is not None:
        with whole_file(path) as beside:
            beside.write_text(text, encoding="utf-8", newline="\n")
    return text


def check_labels(labels: Labels | None, found: Sequence[Estimates]) -> None:
    """Refuse labels of a column that none of the tables has, and words for codes that none of them has there."""
    names = list(dict.fromkeys(n for e in found for n in e.table.column_names))
    tables = [t.table for e in found for t in (e, e.units) if t is not None]
    for name, words in (labels or {}).items():
        if name not in names:
            raise unknown_name("labels", name, names)
        if not isinstance(words, Mapping) or name in ("estimate", "std_error", "conf_low", "conf_high"):
            continue  # refused with their own words
        known = dict.fromkeys(
            _code(v) for t in tables if name in t.column_names for v in t[name].unique().to_pylist() if v is not None
        )
        for code in words:
            if _code(code) not in known:
                raise unknown_name(f"labels[{name!r}]", code, list(known), "value")
