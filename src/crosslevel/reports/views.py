"""What a page is made of: sections with their tables, lists and views. Plain data, no drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crosslevel.charts.chart import Choice, Places, Rows

__all__ = ["Section", "View"]


@dataclass(frozen=True)
class View:
    """One chart.

    Attributes
    ----------
    name : str
        Unique within its section; letters, digits and hyphens.
    title, caption : str
        What is shown, and how to read it, with the level of the intervals.
    spec : mapping
        A Vega-Lite specification without ``$schema``, ``config`` and colors of text or background, which the page sets. Its
        data are named: ``{"data": {"name": "rows"}}`` with ``rows`` a key of ``data``. Width ``"container"`` where it can be.
    data : mapping of name to Rows or Places
    choices : sequence of str
        Names of the choices shown above this chart; one that another chart shows too is shown at both and changes both.
    size : {"full", "half", "third"}
        Width on the page; charts of a half or a third stand side by side where the window has room.
    """

    name: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    data: Mapping[str, Rows | Places]
    choices: Sequence[str] = ()
    size: str = "full"


@dataclass(frozen=True)
class Section:
    """One result on the page.

    Attributes
    ----------
    heading : str
    kind : str
        The kind of the answer's table.
    sentences : sequence of str
        Three plain sentences: what was asked, what was found, how sure.
    answer : pyarrow.Table
        The answer, shown as a table also without JavaScript.
    keys : sequence of str
        Columns of ``answer`` that are codes and names, never numbers.
    method : str
    level : float or None
    interval : str
    warnings : sequence of str
    diagnostics, provenance : sequence of (name, words)
    citation : str
        The paper behind the method.
    tables : mapping of name to pyarrow.Table
        What the charts show; text columns are choices' levels, numbers are rounded to six digits on the page. Their columns have
        names of ours (lower case letters, digits and ``_``): a user's name never stands in a specification.
    labels : mapping of column to words
        What the columns of the tables are called in files of a chart's data.
    choices : sequence of Choice
    views : sequence of View
    """

    heading: str
    kind: str
    sentences: Sequence[str]
    answer: pa.Table
    keys: Sequence[str]
    method: str
    level: float | None
    interval: str
    warnings: Sequence[str] = ()
    diagnostics: Sequence[tuple[str, str]] = ()
    provenance: Sequence[tuple[str, str]] = ()
    citation: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    choices: Sequence[Choice] = ()
    views: Sequence[View] = ()
