"""A document as plain blocks (headings, sentences, tables, figures), written as a page and for Word."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from crosslevel.charts.chart import Chart
from crosslevel.charts.matplotlib import draw
from crosslevel.results.wide import (
    DOCX_WIDTH,
    Wide,
    docx_table,
    new_docx,
    printable,
    save_docx,
)

FORMATS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": dict.fromkeys(("Date", "Creator", "Format", "Type"))},
    "png": {"metadata": {"Software": None}, "dpi": 200},
}
"""What each form of a picture is saved with: no date, so that a picture made twice is the same."""


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 is a part of the document, 3 one of its sections; ``page`` begins a new page."""

    text: str
    level: int = 2
    page: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """Sentences under one another, numbered from ``start``; without numbers where it is 0."""

    items: Sequence[str]
    start: int = 0


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Figure:
    """A chart with its caption."""

    caption: str
    chart: Chart

    def drawn(self, form: str) -> bytes:
        """Draw the chart as svg or png; the same bytes each time."""
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        out = io.BytesIO()
        with (
            warnings.catch_warnings(),
            mpl.rc_context({"svg.hashsalt": "crosslevel", "svg.fonttype": "none", "axes.titlesize": 9}),
        ):
            warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
            figure: Any = draw(replace(self.chart, title="")).figure
            figure.savefig(out, format=form, bbox_inches="tight", **FORMATS[form])
            plt.close(figure)
        return out.getvalue()


Block = Heading | Text | Items | Facts | Figure | Wide


@dataclass(frozen=True)
class Document:
    """A title and blocks.

    Attributes
    ----------
    title : str
    blocks : sequence of Heading, Text, Items, Facts, Figure or Wide
        Figures and tables are numbered in their order.
    """

    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)

    def described(self) -> dict[str, Any]:
        """Give the document as plain values, pictures as SVG: what the template of the page shows."""
        forms: Mapping[type, str] = {
            Heading: "heading",
            Text: "text",
            Items: "items",
            Facts: "facts",
            Figure: "figure",
            Wide: "table",
        }
        made: list[dict[str, Any]] = []
        numbers = {"figure": 0, "table": 0}
        for block in self.blocks:
            form = forms[type(block)]
            told: dict[str, Any]
            if isinstance(block, Figure):
                svg = block.drawn("svg").decode()
                told = {"caption": printable(block.caption), "svg": svg[svg.index("<svg") :]}
            else:
                told = _printable(asdict(block))
            if form in numbers:
                numbers[form] += 1
                told["number"] = numbers[form]
            made.append({"form": form, **told})
        return {"title": printable(self.title), "blocks": made}

    def to_docx(self, path: str | os.PathLike[str]) -> Path:
        """Write a Word file."""
        from docx.shared import Inches

        made = new_docx()
        made.add_heading(printable(self.title), 0)
        figures = tables = 0
        for block in self.blocks:
            if isinstance(block, Heading):
                made.add_heading(printable(block.text), block.level - 1).paragraph_format.page_break_before = block.page
            elif isinstance(block, Text):
                made.add_paragraph(printable(block.text))
            elif isinstance(block, Items):
                for i, text in enumerate(block.items):
                    said = f"{block.start + i}. {text}" if block.start else text
                    made.add_paragraph(printable(said), style=None if block.start else "List Bullet")
            elif isinstance(block, Facts):
                for name, value in block.rows:
                    made.add_paragraph().add_run(printable(f"{name}: ")).bold = True
                    made.paragraphs[-1].add_run(printable(value))
            elif isinstance(block, Figure):
                figures += 1
                made.add_picture(io.BytesIO(block.drawn("png")), width=Inches(DOCX_WIDTH))
                made.paragraphs[-1].paragraph_format.keep_with_next = True
                made.add_paragraph(printable(f"Figure {figures}. {block.caption}"), style="Caption")
            else:
                tables += 1
                docx_table(made, replace(block, caption=f"Table {tables}. {block.caption}"))
        return save_docx(made, path)


def _printable(value: Any) -> Any:
    """Clean every text of plain values."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {k: _printable(v) for k, v in value.items()}
    return [_printable(v) for v in value] if isinstance(value, list | tuple) else value
