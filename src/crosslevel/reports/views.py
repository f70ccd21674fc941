"""What a page is made of: tables, choices, and charts that show the tables as the choices say. Plain data, no drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

__all__ = ["Choice", "Features", "Rows", "Section", "View"]


@dataclass(frozen=True)
class Choice:
    """A drop-down list of a section; every chart that names it follows it.

    Attributes
    ----------
    name : str
        Unique within its section; stands in the address of the page.
    label : str
        What the reader chooses, in words.
    options : sequence of (value, words)
        Values are text: levels of a column, or names of columns.
    start : int
        Position of the option shown first.
    """

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    start: int = 0


@dataclass(frozen=True)
class Rows:
    """Rows of a table for a chart.

    Attributes
    ----------
    table : str
        Name of the table in the section.
    where : mapping of column to choice
        Rows are kept whose value in the column is what the choice says; all rows where it says "" (nothing).
    columns : mapping of field to choice
        Further fields of a row: the value of the column that the choice names.
    joined : mapping of field to columns
        Further fields of a row: the words of these columns, a dot between them.
    """

    table: str
    where: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Features:
    """Places for a map: a GeoJSON feature for each, with the rows of a table as its properties.

    Attributes
    ----------
    table : str
        Name of the table in the section.
    place : str
        Its column that names the place.
    sides : mapping of side to (mapping of column to choice)
        For each side the one row of the place where each column is what its choice says; the row's columns become
        ``properties.<side>.<column>``. With sides ``a`` and ``b``, ``properties.difference`` is a's estimate less b's.
    columns : mapping of field to choice
        Further fields of each side: the value of the column that the choice names.
    """

    table: str
    place: str
    sides: Mapping[str, Mapping[str, str]]
    columns: Mapping[str, str] = field(default_factory=dict)


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
        A Vega-Lite specification without ``$schema``, ``config`` and colours of text or background, which the page sets. Its
        data are named: ``{"data": {"name": "rows"}}`` with ``rows`` a key of ``data``. Width ``"container"`` where it can be.
    data : mapping of name to Rows or Features
    choices : sequence of str
        Names of the choices shown above this chart; one that another chart shows too is shown at both and changes both.
    size : {"full", "half", "third"}
        Width on the page; charts of a half or a third stand side by side where the window has room.
    """

    name: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    data: Mapping[str, Rows | Features]
    choices: Sequence[str] = ()
    size: str = "full"


@dataclass(frozen=True)
class Section:
    """One result on the page.

    Attributes
    ----------
    heading : str
    kind : str
        The kind of page: "ecological", "krls", "distribution", "binned", "imputation" or "table".
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
