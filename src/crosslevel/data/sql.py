"""Where a table of people is, and the SQL that runs there: DuckDB in this process, Spark where the table is one of Spark's.

``open_table(data)`` gives a :class:`Local` or a :class:`Spark`; both answer queries on ``people``, written in the dialect of DuckDB,
with Arrow tables. Files are read as the query needs them; a Local table has a database of its own, in which nothing but its own files
can be read and nothing can be written. Values come in one form whatever they were stored as: whole numbers in 64 bits, other numbers
as doubles in which NaN is missing, categories as text.
"""

from __future__ import annotations

import csv
import glob
import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crosslevel.data import frames
from crosslevel.data.expressions import Expression
from crosslevel.data.frames import kind_of
from crosslevel.errors import EngineError, FileError, InputError, MissingExtraError, listed, nearest
from crosslevel.typing import BoolArray

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A")
"""What stands for no value in delimited text."""
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
FORMATS |= {ending + packed: "csv" for ending in (".csv", ".tsv", ".txt", ".tab") for packed in ("", ".gz")}
ROW, FILE = "crosslevel_row", "crosslevel_file"
DELIMITERS = ",;\t|"
CODE = r"^[+-]?0[0-9]+$"
"""A whole number that begins with a zero: a code, such as 01001."""
LONGEST_WHOLE = 18
"""Digits that every 64-bit integer can hold."""


def is_value(name: str, value: object) -> str:
    """Write the expression for the people with a value in a column.

    Examples
    --------
    >>> is_value("hours worked", 1), is_value("town", "Land's End"), is_value("owner", True)
    ('"hours worked" = 1', '"town" = \\'Land\\'\\'s End\\'', '"owner" = true')
    """
    return f"{quoted(name)} = {constant(value)}"


def constant(value: object) -> str:
    """Write a value in SQL.

    Examples
    --------
    >>> constant(True), constant(2.5), constant("it's")
    ('true', '2.5', "'it''s'")
    """
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else quoted(str(value), "'")


LEFT_BEHIND: list[Any] = []
"""Databases of a process that this one was forked from."""


def quoted(name: str, mark: str = '"') -> str:
    """Quote the name of a column, or text.

    Examples
    --------
    >>> print(quoted('the "old" town'), quoted("it's", "'"))
    "the ""old"" town" 'it''s'
    """
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def open_table(data: Any, argument: str = "people") -> Local | Spark:
    """Find out where a table is.

    Parameters
    ----------
    data : path, sequence of paths, dataframe or Spark DataFrame
        A path may be a folder or a pattern (``"acs/*.parquet"``).

    Examples
    --------
    >>> open_table({"age": [30, 41]}).answer("select max(age) as oldest from people").to_pydict()
    {'oldest': [41]}
    """
    if type(data).__module__.startswith("pyspark.sql"):
        return Spark(data)
    if isinstance(data, str | os.PathLike):
        return Local(files=find_files([data], argument))
    if isinstance(data, list | tuple) and data:
        if all(isinstance(one, str | os.PathLike) for one in data):
            return Local(files=find_files(data, argument))
        tables = [frames.to_arrow(one, f"{argument}[{i}]") for i, one in enumerate(data)]
        return Local(table=_stacked(tables, argument))
    return Local(table=frames.to_arrow(data, argument))


def find_files(
    paths: Sequence[str | os.PathLike[str]], argument: str, formats: Mapping[str, str] = FORMATS
) -> tuple[Path, ...]:
    """List the files that paths, folders and patterns name, each once; ``formats`` are endings and what they mean."""
    found: list[Path] = []
    for path in paths:
        text = os.fspath(path)
        if not text:
            raise FileError(f"{argument} is an empty file name; name a file, a folder or a pattern.")
        here = Path(text)
        if here.is_dir():
            try:
                inside = sorted(here.iterdir())
            except OSError as error:
                raise FileError(f"{argument}={text!r} cannot be read ({error.strerror}).") from error
            own = [one for one in inside if format_of(one, formats) and not one.name.startswith((".", "_"))]
        elif not here.exists() and (found_here := matching(text)):
            own = found_here
        else:
            own = [here]
        if not own or not all(one.is_file() for one in own):
            beside = [one.name for one in here.parent.iterdir()] if here.parent.is_dir() else []
            raise FileError(f"{argument}={text!r} does not exist.{nearest(here.name, beside)} Check the path.")
        found += own
    strange = [one for one in found if format_of(one, formats) is None]
    if strange:
        raise FileError(f"{strange[0]} has an ending that says no format; the endings are {listed(formats, 12)}.")
    kinds = {format_of(one, formats) for one in found}
    if len(kinds) > 1:
        raise FileError(
            f"{argument} names files of several formats ({listed(sorted(map(str, kinds)))}); pass one format."
        )
    real = [one.resolve() for one in found]
    twice = [one for one in real if real.count(one) > 1]
    if twice:
        raise FileError(f"{argument} names {twice[0]} twice, so that everybody in it counts twice; name it once.")
    return tuple(found)


def _stacked(tables: Sequence[pa.Table], argument: str) -> pa.Table:
    """Put the rows of several tables in one; what a table lacks is missing there."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(
            f"{argument} has tables whose columns are of different types ({error}); give them the same."
        ) from error


def matching(pattern: str) -> list[Path]:
    """List the files that fit a pattern with wildcards, which may reach into folders (``**``); none where it has no wildcard."""
    found = sorted(glob.iglob(pattern, recursive=True)) if glob.has_magic(pattern) else []  # noqa: PTH207
    return [one for one in map(Path, found) if one.is_file()]


def format_of(path: Path, formats: Mapping[str, str] = FORMATS) -> str | None:
    """Tell the format of a file by its ending."""
    name = path.name.casefold()
    return next((kind for ending, kind in formats.items() if name.endswith(ending)), None)


def check_names(names: Sequence[str], argument: str) -> None:
    """Refuse columns without a name, and names that SQL cannot tell apart."""
    folded = [name.casefold() for name in names]
    for name, key in zip(names, folded, strict=True):
        if not name.strip():
            raise InputError(f"{argument} has a column without a name; name it or leave it out.")
        if folded.count(key) > 1:
            twins = [n for n in names if n.casefold() == key]
            raise InputError(f"{argument} has the columns {listed(twins)}, equal but for case; rename all but one.")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Give the type in which values of a type come back.

    Examples
    --------
    >>> plain_type(pa.float32()), plain_type(pa.uint8()), plain_type(pa.dictionary(pa.int8(), pa.string()))
    (DataType(double), DataType(int64), DataType(string))
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    of = {
        "number": pa.int64() if pa.types.is_integer(kind) else pa.float64(),
        "text": pa.string(),
        "missing": pa.string(),
    }
    return of.get(kind_of(kind), kind)


def plain_value(name: str, kind: pa.DataType) -> str:
    """Write the SQL that gives a stored column in its plain form."""
    column, wanted = quoted(name), plain_type(kind)
    if wanted == pa.float64():
        return f"nullif(cast({column} as double) + 0.0, cast('nan' as double)) as {column}"
    if wanted == pa.int64():
        return f"cast({column} as bigint) as {column}"
    return f"cast({column} as varchar) as {column}" if wanted == pa.string() else column


class Table:
    """A table that answers SQL.

    Attributes
    ----------
    schema : pyarrow.Schema
        Its columns, in their plain form.
    orders : dict of column to list
        Levels of ordered categories, in order.
    parts : tuple of Path
        The files that can be asked alone; none for a table in memory.
    """

    stored: pa.Schema
    orders: dict[str, list[Any]]
    parts: tuple[Path, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns in their plain form."""
        return pa.schema([(field.name, plain_type(field.type)) for field in self.stored])

    @cached_property
    def plain(self) -> str:
        """The query that gives all columns in their plain form."""
        return f"select {', '.join(plain_value(field.name, field.type) for field in self.stored)} from stored"

    def query(self, sql: str, where: str = "", file: Path | None = None) -> str:
        """Write a query on ``people``, kept where a condition holds, as one on what is stored, or on one file of it."""
        kept = f" where {where}" if where else ""
        there = "" if file is None else f" where {FILE} = {quoted(str(file), chr(39))}"
        return f"with people as (select * from ({self.plain}{there}) plain{kept}) {sql}"

    def answer(self, sql: str, where: str = "") -> pa.Table:
        """Run a query on ``people``, kept where a condition holds."""
        raise NotImplementedError

    def batches(
        self, sql: str, rows: int, where: str = "", file: Path | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run a query whose answer need not fit in memory, on one of ``parts`` if that is named."""
        raise NotImplementedError


class Local(Table):
    """A table of files or in memory, in a DuckDB database of its own.

    Parameters
    ----------
    table : pyarrow.Table, optional
    files : sequence of Path
        Of one format, where there is no table.
    """

    def __init__(self, table: pa.Table | None = None, files: Sequence[Path] = ()) -> None:
        import duckdb

        self.files, self.orders, self.lock = tuple(files), {}, threading.RLock()
        self.given, self.process = table, os.getpid()
        self.errors = duckdb.Error
        self.connection = duckdb.connect(":memory:")
        if table is None and format_of(files[0]) == "arrow":
            table = _stacked([_read_arrow(path) for path in files], "people")
        self.parts = self.files if table is None else ()
        names = [str(path) for path in files]
        with self._said():
            if table is None:
                self.connection.execute(f"create view stored as {self._files()}")
            allowed = ", ".join(quoted(name, "'") for name in names)
            self.connection.execute("set enable_progress_bar=false")  # it would be drawn on stdout, among answers
            self.connection.execute(f"set allowed_paths=[{allowed}]")
            self.connection.execute("set enable_external_access=false")
            self.connection.execute("set lock_configuration=true")
            if table is not None:
                check_names(table.column_names, "people")
                self.stored, self.orders = table.schema, _orders(table)
                self.connection.register("stored", _registered(table))
            else:
                self.stored = (
                    self.connection.sql(f"select * exclude ({FILE}) from stored limit 0").to_arrow_table().schema
                )

    def _files(self) -> str:
        listing = "[" + ", ".join(quoted(str(path), "'") for path in self.files) + "]"
        for path in self.files:
            check_names(names_of(path), str(path))  # SQL would rename one of two that are equal but for case
        if format_of(self.files[0]) == "parquet":
            return f"select * from read_parquet({listing}, union_by_name=true, filename={FILE!r})"
        words = "[" + ", ".join(quoted(word, "'") for word in MISSING_WORDS) + "]"
        marks = {delimiter_of(path) for path in self.files}
        if len(marks) > 1:
            raise FileError(
                f"people names files whose values are set apart by {listed(sorted(marks))}; pass files of one kind."
            )
        options = (  # nothing is guessed: a line of another length, or one that begins with #, would be left out silently
            f"all_varchar=true, union_by_name=true, filename={FILE!r}, skip=0, comment='', delim={quoted(marks.pop(), chr(39))}, "
            f"quote='\"', escape='\"', nullstr={words}"
        )
        text = f"select * from read_csv({listing}, header=true, {options})"
        names = self.connection.sql(f"{text} limit 0").to_arrow_table().column_names
        names.remove(FILE)
        return f"select {', '.join([*self._typed(text, names), FILE])} from ({text})"

    def _typed(self, text: str, names: Sequence[str]) -> list[str]:
        """Write every column of text as what it holds: whole numbers, numbers, or text where one value is neither or a code."""
        said = []
        for name in names:
            c = quoted(name)
            whole = f"regexp_full_match(trim({c}), '[+-]?[0-9]+')"
            number = f"try_cast(case when not contains({c}, '_') then {c} end as double)"  # 1_5 is fifteen to DuckDB
            said.append(
                f"count({c}), count({c}) filter (where {number} is null or not isfinite({number})), "
                f"count({c}) filter (where {whole}), count({c}) filter (where regexp_matches(trim({c}), {quoted(CODE, chr(39))})), "
                f"max(case when {whole} then length(trim({c})) end)"
            )
        row = list(self.connection.sql(f"select {', '.join(said)} from ({text})").fetchall()[0])
        typed = []
        for name in names:
            (n, strange, whole, codes, digits), row = row[:5], row[5:]
            numbers = n and not strange and not codes and (digits or 0) <= LONGEST_WHOLE
            kind = ("bigint" if whole == n else "double") if numbers else "varchar"
            typed.append(f"cast({quoted(name)} as {kind}) as {quoted(name)}")
        return typed

    def _connect_in_forks(self) -> None:
        """Open a database anew in a process that was forked: the threads of the other one have not come along."""
        if self.process != os.getpid():
            LEFT_BEHIND.append(self.connection)  # closing it would wait for its threads
            self.__init__(self.given, self.files)  # type: ignore[misc]

    def answer(self, sql: str, where: str = "") -> pa.Table:
        """Run a query on ``people``, kept where a condition holds."""
        self._connect_in_forks()
        with self.lock, self._said():
            return self.connection.sql(self.query(sql, where)).to_arrow_table()

    def batches(
        self, sql: str, rows: int, where: str = "", file: Path | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run a query whose answer need not fit in memory, on one of ``parts`` if that is named."""
        self._connect_in_forks()
        with self.lock, self._said():
            yield from self.connection.sql(self.query(sql, where, file)).to_arrow_reader(rows)

    def describe(self) -> str:
        """Say what it is."""
        if not self.files:
            return "a table in memory"
        return f"{self.files[0]}{f' and {len(self.files) - 1:,} more' if len(self.files) > 1 else ''}"

    def _said(self) -> _Said:
        return _Said(self.errors, self.describe(), FileError if self.files else InputError)

    def __reduce__(self) -> Any:
        raise InputError("people are not written with what is fitted to them; save the model with crosslevel.save.")


class _Said:
    """Turn what a database says into a sentence of our own."""

    def __init__(self, errors: Any, what: str, sentence: type[FileError | InputError]) -> None:
        self.errors, self.what, self.sentence = errors, what, sentence

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (RuntimeError, self.errors)) and "interrupted" in str(error).casefold():
            raise KeyboardInterrupt from error  # Ctrl-C met a query
        if isinstance(error, self.errors):
            said = [line for line in str(error).splitlines() if line and not line.startswith("Original Line")]
            if "Memory" in said[0]:
                return
            raise self.sentence(f"{self.what} cannot be read: {' '.join(said[:2])}") from error


def names_of(path: Path) -> list[str]:
    """Read the names of the columns of a file, as they are written there."""
    if format_of(path) == "parquet":
        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowInvalid, OSError) as error:
            raise FileError(
                f"{path} cannot be read as Parquet: it is truncated, damaged or of another format."
            ) from error
    names = next(csv.reader([_first_line(path)], delimiter=delimiter_of(path)), [])
    return [name or f"column{i}" for i, name in enumerate(names)]  # the index of a frame has no name


def delimiter_of(path: Path) -> str:
    """Tell what stands between the values of delimited text: what its first line holds most of."""
    if path.name.casefold().endswith((".tsv", ".tsv.gz", ".tab")):
        return "\t"
    return max(DELIMITERS, key=_first_line(path).count)


def _first_line(path: Path) -> str:
    packed = "gzip" if path.suffix.casefold() == ".gz" else None
    try:
        with pa.input_stream(str(path), compression=packed) as stream:
            head = stream.read(1 << 16).decode("utf-8-sig", "replace").splitlines()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error}.") from error
    if not head or not head[0].strip():
        raise FileError(f"{path} has no line of names at its top; pass a file that begins with one.")
    return str(head[0])


def _read_arrow(path: Path) -> pa.Table:
    try:
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        table.validate(full=True)  # Arrow trusts offsets and lengths as they stand in the file
        check_names(table.column_names, str(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read as Arrow: it is truncated, damaged or of another format.") from error
    return table


def _orders(table: pa.Table) -> dict[str, list[Any]]:
    """Note the order of ordered categories, which SQL does not keep."""
    found = {}
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_dictionary(kind) and kind.ordered and kind_of(kind) == "text":
            chunks = table[name].unify_dictionaries().chunks
            found[name] = chunks[0].dictionary.to_pylist() if chunks else []
    return found


def _registered(table: pa.Table) -> pa.Table:
    """Give categories as plain values and columns without any as text, so that SQL knows their types."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table[i].cast(field.type.value_type))
        elif pa.types.is_null(field.type):
            table = table.set_column(i, field.name, table[i].cast(pa.string()))
        elif pa.types.is_float16(field.type):
            table = table.set_column(i, field.name, pc.cast(table[i], pa.float32()))
    return table


class Spark(Table):
    """A table of Spark, which answers where it is."""

    def __init__(self, frame: Any) -> None:
        try:
            from pyspark.errors import PySparkException
            from pyspark.sql.pandas.types import to_arrow_schema
        except ImportError as error:
            raise MissingExtraError("a Spark DataFrame needs pyspark; pip install crosslevel[spark].") from error
        self.errors, self.orders, self.frame = PySparkException, {}, frame
        check_names(frame.columns, "people")
        self.stored = to_arrow_schema(frame.schema)

    def answer(self, sql: str, where: str = "") -> pa.Table:
        """Run a query on ``people``, kept where a condition holds."""
        return self.collect(self.select(sql, where))

    def select(self, sql: str, where: str = "") -> Any:
        """Give the DataFrame that a query on ``people`` makes, which nobody has computed yet."""
        import sqlglot

        session = self.frame.sparkSession
        written = sqlglot.transpile(self.query(sql, where), read="duckdb", write="spark")[0]
        view = f"crosslevel_{id(self):x}"
        self.frame.createOrReplaceTempView(view)
        try:
            return session.sql(written.replace("FROM stored", f"FROM {view}"))
        except self.errors as error:
            raise self._failure(error) from error
        finally:
            session.catalog.dropTempView(view)

    def collect(self, frame: Any) -> pa.Table:
        """Compute a DataFrame and bring it here; what our own code on a worker found wrong with people is said as it says it."""
        try:
            return frame.toArrow()
        except self.errors as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> InputError | EngineError:
        ours = re.findall(r"crosslevel\.errors\.InputError: (.*)", str(error))
        if ours:
            return InputError(ours[-1].strip())
        return EngineError(f"Spark could not count people: {str(error).strip().splitlines()[0]}")

    def batches(
        self, sql: str, rows: int, where: str = "", file: Path | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run a query; the answer is collected."""
        yield from self.answer(sql, where).to_batches(max_chunksize=rows)

    def describe(self) -> str:
        """Say what it is."""
        return "a table of Spark"


def mask_of(table: pa.Table, condition: Expression) -> BoolArray:
    """Tell of every row of a table whether a condition is known to hold there, (n,).

    Examples
    --------
    >>> from crosslevel.data.expressions import read_expression
    >>> table = pa.table({"age": [20, None, 40]})
    >>> mask_of(table, read_expression("not (age > 30)", "where", table.schema)).tolist()
    [True, False, False]
    """
    if not table.num_rows:
        return np.zeros(0, dtype=bool)
    numbered = table.select(list(condition.columns)).append_column(ROW, pa.array(range(table.num_rows)))
    kept = Local(table=numbered).answer(f"select {ROW} from people", condition.sql)[ROW].to_numpy()
    mask = np.zeros(table.num_rows, dtype=bool)
    mask[kept] = True
    return mask
