"""A chart as plain data: tables, marks, axes and words. The matplotlib backend and the page's backend draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from crosslevel.charts.style import BLUE
from crosslevel.typing import AnyArray


@dataclass(frozen=True)
class Choice:
    """A drop-down list; every chart of a section that names it follows it.

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
        Name of the table.
    where : mapping of column to choice
        Rows are kept whose value in the column is what the choice says; all rows where it says "" (nothing).
    columns : mapping of field to choice
        Further fields of a row: the value of the column that the choice names.
    joined : mapping of field to columns
        Further fields of a row: the words of these columns, a dot between them.
    rank : str
        Number the rows by this column, smallest first, in the field ``rank``; rows without a number are left out.
    """

    table: str
    where: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rank: str = ""


@dataclass(frozen=True)
class Places:
    """Places for a map: a feature for each, with the rows of a table as its properties.

    Attributes
    ----------
    table : str
        Name of the table.
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
class Shade:
    """Color by a field: a scale of numbers, or a color for each name."""

    field: str
    title: str = ""
    names: bool = False
    scheme: str = "viridis"
    domain: Sequence[Any] | None = None
    range: Sequence[str] | None = None
    """Colors of the names in ``domain``."""


@dataclass(frozen=True)
class Mark:
    """One layer of marks, a mark for each row of its data.

    Attributes
    ----------
    form : {"dot", "interval", "bar", "band", "line", "tick", "text", "cell", "ridge", "rule", "diagonal", "trend"}
        "interval" runs from x and y to x2 and y2, or one of these; "bar" is a light bar behind a name, or stands on zero from x to x2;
        "band" fills y to y2; "tick" is upright through a name's rows; "ridge" is a density (field y, at most 1) above a name's
        line; "rule" is a line at a number; "diagonal" is where y is x.
    x, x2, y, y2 : field, or a number
        Not given where the axis has names.
    data : str
        Name of the chart's data; its first when empty.
    color : str or Shade
    label : str
        Words of the legend.
    shape : str
        Of a dot.
    filled : bool
    size : float or field
        Area of a dot; a field gives the areas in proportion.
    alpha, width : float
    dash : bool
    text : field
    offset : bool
        Whether rows of one name are set apart by the axis' ``offset``.
    by : field
        A line for each value; of a text its color.
    order : field
        In which order a line goes through its rows; from left to right when empty.
    brush : bool
        Whether rows keep their color only inside the rectangle the reader draws.
    """

    form: str
    x: str | float | None = None
    y: str | float | None = None
    x2: str | float | None = None
    y2: str | float | None = None
    data: str = ""
    color: str | Shade = BLUE
    label: str = ""
    shape: str = "circle"
    filled: bool = True
    size: str | float = 30.0
    alpha: float = 1.0
    width: float = 2.0
    dash: bool = False
    text: str = ""
    offset: bool = False
    by: str = ""
    order: str = ""
    brush: bool = False

    @property
    def explained(self) -> bool:
        """Whether a legend has to say what this is; the interval of an estimate goes without saying."""
        return bool(self.label) and (self.form != "interval" or None not in (self.x2, self.y2))


@dataclass(frozen=True)
class Axis:
    """An axis of numbers, or of names.

    Attributes
    ----------
    title : str
    share : bool
        Whether numbers are shares, written in percent.
    limits : (low, high), optional
    zero : bool
        Whether the axis starts at zero.
    root : bool
        Whether distances are those of square roots.
    ticks : sequence of numbers, optional
        Or a mapping of place to the number that is written there.
    names : str
        Field of the names, of an axis of names.
    order : str
        Field of numbers by which names are ordered, smallest first; as they come when empty.
    down : bool
        Whether the largest comes first.
    group : str
        Column that gathers names under a head (one of those joined to the name).
    offset : str
        Field that sets rows of one name apart.
    notes : str
        Field of words written at the end of each name's line.
    """

    title: str = ""
    share: bool = False
    limits: tuple[float, float] | None = None
    zero: bool = False
    root: bool = False
    ticks: Sequence[float] | Mapping[float, float] | None = None
    names: str = ""
    order: str = ""
    down: bool = False
    group: str = ""
    offset: str = ""
    notes: str = ""


@dataclass(frozen=True)
class Panel:
    """Marks over two axes."""

    marks: Sequence[Mark]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""


@dataclass(frozen=True)
class Map:
    """Places colored by a field below their properties; those without a number are gray.

    Attributes
    ----------
    field : str
        ``a.estimate``, ``difference``.
    words : str
        Title of the legend.
    domain : two numbers, optional
        Ends of the colors; those of the numbers shown when not given.
    scheme : str
    diverging : bool
        Blue to orange around zero.
    share : bool
        Whether numbers are shares.
    title : str
    """

    field: str
    words: str
    domain: Sequence[float] | None = None
    scheme: str = "viridis"
    diverging: bool = False
    share: bool = False
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """One chart.

    Attributes
    ----------
    name : str
        Unique within a section; letters, digits and hyphens.
    title, caption : str
        What is shown, and how to read it, with the level of the intervals.
    panels : sequence of Panel or Map
        Side by side; usually one.
    tables : mapping of name to pyarrow.Table
        Columns have names of ours (lower case letters, digits, ``_``): a user's name never stands in a specification.
    data : mapping of name to Rows or Places
        All rows of every table, by its name, when not given.
    choices : sequence of Choice
        Lists shown above the chart.
    labels : mapping of column to words
        What columns are called in a file of the chart's data.
    tips : mapping of field to words
        What hovering tells; shares in percent where ``share``.
    share : bool
    size : {"full", "half", "third"}
        Width on the page.
    height : int
        Of an axis of numbers, in pixels.
    facet : (field, title), optional
        Draw a small chart for each value (page only).
    note : str
        A remark under a picture.
    inches : (width, height)
        Of a new matplotlib figure.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel | Map]
    tables: Mapping[str, pa.Table]
    data: Mapping[str, Rows | Places] = field(default_factory=dict)
    choices: Sequence[Choice] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tips: Mapping[str, str] = field(default_factory=dict)
    share: bool = False
    size: str = "full"
    height: int = 300
    facet: tuple[str, str] | None = None
    note: str = ""
    inches: tuple[float, float] = (6.4, 4.0)

    def __post_init__(self) -> None:
        if not self.data:
            object.__setattr__(self, "data", {name: Rows(name) for name in self.tables})


class Atlas(Protocol):
    """What charts ask of the places of a map."""

    @property
    def properties(self) -> Mapping[str, Sequence[Any]]:
        """What the map says of its places: name to values."""

    def names_for(self, values: Sequence[object], prefer: str = "") -> list[str | None] | None:
        """Name the places as these values do; None where the map does not show them."""


def field_rows(chart: Chart, name: str, without: str = "") -> dict[str, AnyArray]:
    """Give the fields of a chart's data as arrays, each list at its start; ``without`` names a column not to join.

    Examples
    --------
    >>> table = pa.table({"sex": ["m", "w", "w"], "n": [1.0, 2.0, 3.0]})
    >>> chart = Chart("c", "", "", [], {"t": table}, {"rows": Rows("t", {"sex": "sex"}, joined={"label": ["sex"]})},
    ...               [Choice("sex", "Sex", [("m", "m"), ("w", "w")], start=1)])
    >>> {name: values.tolist() for name, values in field_rows(chart, "rows").items()}
    {'sex': ['w', 'w'], 'n': [2.0, 3.0], 'label': ['w', 'w']}
    """
    source = chart.data[name]
    table = chart.tables[source.table]
    now = {c.name: c.options[c.start][0] for c in chart.choices}
    found: dict[str, AnyArray] = {n: _array(table[n]) for n in table.column_names}
    if isinstance(source, Places):
        return found
    keep = np.ones(table.num_rows, dtype=bool)
    for column, choice in source.where.items():
        if now[choice]:
            keep &= np.array(
                [("–" if v is None else str(v)) == now[choice] for v in found[column].tolist()], dtype=bool
            )
    found = {n: v[keep] for n, v in found.items()}
    found |= {n: found[now[choice]] for n, choice in source.columns.items()}
    for n, parts in source.joined.items():
        words = [[_word(v) for v in found[p].tolist()] for p in parts if p != without]
        found[n] = np.array(joined_words(words, int(keep.sum())), dtype=object)
    if source.rank:
        order = np.argsort(found[source.rank], kind="stable")
        order = order[np.isfinite(found[source.rank][order])]
        found = {n: v[order] for n, v in found.items()} | {"rank": np.arange(1.0, len(order) + 1)}
    return found


def joined_words(columns: Sequence[Sequence[str]], n: int) -> list[str]:
    """Join the words of each row by a dot; rows whose words differ but are the same when joined stay apart.

    Examples
    --------
    >>> joined_words([["a · b", "a"], ["c", "b · c"]], 2)
    ['a · b · c', 'a · b · c (2)']
    """
    known: dict[str, list[tuple[str, ...]]] = {}
    said = []
    for row in zip(*columns, strict=True) if columns else [()] * n:
        alike = known.setdefault(" · ".join(row), [])
        if row not in alike:
            alike.append(row)
        at = alike.index(row)
        said.append(" · ".join(row) + (f" ({at + 1})" if at else ""))
    return said


def _array(column: pa.ChunkedArray) -> AnyArray:
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return np.array(column.to_pylist(), dtype=object)


def _word(value: object) -> str:
    return "–" if value is None else str(value)
