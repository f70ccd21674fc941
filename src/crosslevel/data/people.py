"""``People``: individual records, wherever they are, and what each of their columns means.

A noun says what the data are, once: which column names the place, which holds the weights, which say who was drawn together. Models
take it whole. Names and types are checked when it is made; records are read when a model needs them, by SQL where they are
(:mod:`crosslevel.data.sql`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crosslevel.data.checks import read_list
from crosslevel.data.expressions import Expression, read_expression
from crosslevel.data.frames import as_names
from crosslevel.data.sql import Local, Spark, open_table, quoted
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import Progress

if TYPE_CHECKING:
    from crosslevel.data.bags import Bags

RESERVED = "crosslevel_"
"""How columns are called that queries add to those of people."""


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """Records of individuals: a row for each, with who they are and where they live.

    Parameters
    ----------
    data : path, sequence of paths, dataframe or Spark DataFrame
        CSV, TSV, Parquet or Arrow files, folders and patterns (``"acs/*.parquet"``); pandas, polars, pyarrow, duckdb; a DataFrame of
        Spark is counted where it is. Text is read exactly: a column with a code such as 01001 anywhere is text.
    by : str or sequence of str, optional
        Column that names the place, or those that name it together.
    weight : str, optional
        Survey weights; rows of weight 0 count for nothing.
    cluster : str, optional
        Who was drawn together, such as the household: people of one are alike.
    columns : sequence of str, optional
        What is known of people and used; by default all but the columns named above and those with one value within every place.
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    where : str, optional
        Keep these people only: one SQL expression over the columns, ``"age >= 18"``.

    See Also
    --------
    crosslevel.EcologicalInference : people by place and totals by place.

    Examples
    --------
    >>> People({"town": ["a", "a", "b"], "age": [30, 41, 65]}, by="town", where="age > 40")
    People(a table in memory: 2 columns, by='town', where='age > 40')
    """

    data: Any
    by: str | Sequence[str] | None = None
    weight: str | None = None
    cluster: str | None = None
    columns: Sequence[str] | None = None
    categorical: Sequence[str] = ()
    where: str | None = None
    table: Local | Spark = field(init=False)

    def __post_init__(self) -> None:
        table = self.data if isinstance(self.data, Local | Spark) else open_table(self.data)
        object.__setattr__(self, "table", table)
        roles = {"by": self.keys, "weight": self._one("weight"), "cluster": self._one("cluster")}
        roles |= {"columns": tuple(read_list(self.columns or (), "columns"))}
        roles |= {"categorical": tuple(read_list(self.categorical or (), "categorical"))}
        for argument, names in roles.items():
            for name in names:
                if name not in self.schema.names:
                    raise unknown_name(argument, name, self.schema.names)
        owners = [(name, argument) for argument in ("by", "weight", "cluster") for name in roles[argument]]
        for name, argument in owners:
            others = [other for same, other in owners if same == name and other != argument]
            others += ["columns"] if name in roles["columns"] else []
            if others:
                raise InputError(f"{argument}={name!r} is also named in {others[0]}; a column has one role.")
        if ours := [name for name in self.features if name.casefold().startswith(RESERVED)]:
            raise InputError(f"people has the column {ours[0]!r}, a name that queries use themselves; rename it.")
        if self.where is not None:
            read_expression(self.where, "where", self.schema)

    def _one(self, argument: str) -> tuple[str, ...]:
        name = getattr(self, argument)
        if name is not None and not isinstance(name, str):
            raise InputError(f"{argument}={name!r} is not a column name; names are text here.")
        return () if name is None else (name,)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns that name the place."""
        return () if self.by is None else as_names(self.by, "by")

    @property
    def schema(self) -> pa.Schema:
        """All columns with their types."""
        return self.table.schema

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Columns that say who people are, as far as names tell: those named, or all without another role."""
        taken = {*self.keys, self.weight, self.cluster}
        chosen = self.schema.names if self.columns is None else self.columns
        return tuple(sorted(name for name in dict.fromkeys(chosen) if name not in taken))

    @property
    def place(self) -> str:
        """The one column that names the place."""
        if len(self.keys) != 1:
            raise InputError(f"by={self.by!r} must name the one column of people that says where somebody lives.")
        return self.keys[0]

    def expression(self, text: object, argument: str) -> Expression:
        """Read a condition on the columns."""
        return read_expression(text, argument, self.schema)

    def kept(self, where: str | None) -> People:
        """Keep some of these people only; the table is the same."""
        both = [f"({one})" for one in (self.where, where) if one is not None]
        return replace(self, data=self.table, where=" and ".join(both) or None)

    def with_data(self, data: Any) -> People:
        """Give other people, described as these are."""
        return data if isinstance(data, People) else replace(self, data=data)

    def _kept(self, only: Expression | None) -> str:
        kept = [] if self.where is None else [self.expression(self.where, "where")]
        kept += [] if only is None else [only]
        return " and ".join(f"({one.sql})" for one in kept)

    def answer(self, sql: str, only: Expression | None = None) -> pa.Table:
        """Run a query on ``people``: those kept, or of these only some."""
        return self.table.answer(sql, self._kept(only))

    def batches(
        self, sql: str, rows: int, only: Expression | None = None, file: Path | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run a query on ``people`` whose answer need not fit in memory; ``file`` is one of ``table.parts``, to ask it alone."""
        return self.table.batches(sql, rows, self._kept(only), file)

    def select(self, sql: str) -> Any:
        """Give the DataFrame that a query on ``people`` of Spark makes."""
        assert isinstance(self.table, Spark)
        return self.table.select(sql, self._kept(None))

    def bags(self, columns: Sequence[str] | None = None, missing: str | None = None, like: Bags | None = None) -> Bags:
        """Put the people of every place in a bag, in memory, as models of groups take them; weight 0 counts for nothing.

        Parameters
        ----------
        columns : sequence of str, optional
            In place of those of the people.
        missing : {"error", "drop", "indicate"}, optional
            As in :meth:`crosslevel.Bags.from_frame`.
        like : Bags, optional
            Bags of other people whose columns are used again.

        Examples
        --------
        >>> people = People({"town": ["b", "a", "b"], "age": [30, 41, 50], "w": [2.0, 1.0, 0.0]}, by="town", weight="w")
        >>> bags = people.bags(columns=["age"])
        >>> bags.keys.tolist(), bags.mean().ravel().tolist()
        (['a', 'b'], [41.0, 30.0])
        """
        from crosslevel.data.bags import Bags

        if like is None:
            chosen = list(self.features if columns is None else columns)
            told: dict[str, Any] = {"columns": chosen, "categorical": [n for n in self.categorical if n in chosen]}
        else:
            chosen = [] if like.encoding is None else [column.name for column in like.encoding[0]]
            told = {"columns": columns, "like": like}
        for name in chosen:
            if name not in self.schema.names:
                raise unknown_name("columns", name, self.schema.names)
        weight = [] if self.weight is None else [self.weight]
        names = ", ".join(map(quoted, dict.fromkeys([*self.keys, *weight, *chosen])))
        table = self.answer(f"select {names} from people where {self.weight_sql} is distinct from 0")
        return Bags.from_frame(table, self.keys, weight=self.weight, missing=missing, **told)

    def roles(self) -> dict[str, Any]:
        """Give what each column means, all that is not data."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("data", "table")}
        given = {n: list(v) if isinstance(v, list | tuple) else v for n, v in given.items()}
        return {n: v for n, v in given.items() if v is not None and v != []}

    @property
    def weight_sql(self) -> str:
        """The weight of a person, as SQL."""
        return "cast(1 as double)" if self.weight is None else f"cast({quoted(self.weight)} as double)"

    def describe(self) -> str:
        """Say which data these are."""
        return self.table.describe()

    def __repr__(self) -> str:
        said = [f"{len(self.schema.names)} columns"]
        for one in fields(self)[1:-1]:
            value = getattr(self, one.name)
            if value is not None and value != ():
                said.append(f"{one.name}={value!r}" if isinstance(value, str) else f"{one.name}={listed(value)}")
        return f"People({self.describe()}: {', '.join(said)})"


@contextmanager
def counting(progress: Progress | None, what: str) -> Iterator[Callable[[int], None]]:
    """Show a pass over people that SQL makes; what is given is called at its end with how many there were."""
    if progress is None:
        yield lambda n: None
        return
    from crosslevel.data.progress import follow

    with follow(progress, what) as tell:
        yield lambda n: None if tell is None else tell(n, n)
