"""A stream that can be gone over again, in the same order, at flat memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from crosslevel.data.batches.delimited import CsvOptions, DelimitedSource, column_type
from crosslevel.data.batches.locate import locate
from crosslevel.data.batches.schemas import cast_batch, common_schema
from crosslevel.data.batches.source import Piece, Request, Source
from crosslevel.data.fingerprint import Fingerprint
from crosslevel.data.queries import Query, parse
from crosslevel.errors import InputError, unknown_name

__all__ = ["Batches", "checked_columns", "open_batches"]

BATCH_SIZE = 65_536


class Batches:
    """A re-iterable stream of Arrow record batches; made by :func:`open_batches`.

    Iterating gives the record batches, all of ``batch_size`` rows but the last of each piece. :meth:`pieces` gives the
    same batches piece by piece; where the pieces are cut depends on the data alone, never on ``batch_size``.

    Parameters
    ----------
    sources : sequence of Source
        What is read, in this order.
    columns : sequence of str, optional
        The columns to give, in this order; all by default.
    where : str or Query, optional
        The rows to give.
    batch_size : int
        The most rows of a batch.

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns and types of every batch.
    where : Query or None
        The filter.

    Examples
    --------
    >>> batches = open_batches({"age": [20, 30, 40], "sex": [1, 2, 1]}, columns=["age"], where="sex == 1")
    >>> [batch.num_rows for batch in batches]
    [2]
    >>> batches
    <Batches: 1 frame, 1 column (age), where sex == 1; iterate it, or call .pieces()>
    """

    def __init__(
        self,
        sources: Sequence[Source],
        columns: Sequence[str] | None = None,
        where: str | Query | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InputError(f"batch_size={batch_size!r} is not a positive whole number; 65_536 is a good one.")
        self.where = None if where is None else parse(where)
        self.batch_size = batch_size
        self._sources = list(sources)
        wanted = checked_columns(columns)
        read = None
        if wanted is not None:
            extra = [n for n in (self.where.columns if self.where else ()) if n not in wanted]
            read = [*wanted, *(n for n in extra if n in self._sources[0].schema.names)]
        self._read_schema = common_schema(self._sources, read)
        if self.where is not None:
            known = self._sources[0].schema
            self.where.check(pa.schema([self._field(name, known) for name in known.names]))
        self.schema = self._read_schema if wanted is None else pa.schema([self._read_schema.field(n) for n in wanted])

    def _field(self, name: str, known: pa.Schema) -> pa.Field:
        place = self._read_schema.get_field_index(name)
        return self._read_schema.field(place) if place >= 0 else known.field(name)

    def pieces(self, start: int = 0) -> Iterator[tuple[Piece, Iterator[pa.RecordBatch]]]:
        """Give each piece with an iterator over its record batches.

        A piece is a parquet row group, a CSV file, a record batch of an Arrow file, a frame, or all that a factory
        or reader gives. Draw its batches before going on to the next piece.

        Parameters
        ----------
        start : int
            The first piece wanted. Earlier ones are not read.

        Examples
        --------
        >>> batches = open_batches([{"x": [1, 2]}, {"x": [3]}])
        >>> [(piece.index, piece.n_rows) for piece, rows in batches.pieces(start=1)]
        [(1, 1)]
        """
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise InputError(f"start={start!r} is not the number of a piece; the first is 0.")
        request = Request(self._read_schema, self.batch_size, self.where)
        passed = 0
        for source in self._sources:
            if passed + source.n_parts <= start:
                passed += source.n_parts
                continue
            for part in source.parts(request, max(0, start - passed)):
                batches = _cut((self._finished(b, source.name) for b in part.batches), self.batch_size)
                yield Piece(source.name, passed + part.index, part.n_rows, part.index), batches
            passed += source.n_parts

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batches in self.pieces():
            yield from batches

    def _finished(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        batch = cast_batch(batch, self._read_schema, name)
        if self.where is not None:
            mask = self.where.mask(batch)
            if not mask.all():
                batch = batch.filter(pa.array(mask))
        return batch if self.schema is self._read_schema else batch.select(self.schema.names)

    @property
    def num_rows(self) -> int | None:
        """Number of rows, where it is known without reading: no filter, and no CSV, factory or reader."""
        counts = [source.num_rows for source in self._sources]
        if self.where is not None or None in counts:
            return None
        return sum(count for count in counts if count is not None)

    @property
    def columnar(self) -> bool:
        """Whether a few columns can be read alone at little cost: frames, parquet and Arrow files."""
        return all(source.num_rows is not None for source in self._sources)

    @property
    def one_shot(self) -> bool:
        """Whether the stream can be read only once."""
        return any(source.one_shot for source in self._sources)

    def select(
        self,
        columns: Sequence[str] | None = None,
        where: str | Query | None = None,
        batch_size: int | None = None,
    ) -> Batches:
        """Give the same stream with fewer columns, fewer rows or another batch size.

        Examples
        --------
        >>> people = open_batches({"age": [20, 30], "sex": [1, 2]}, where="age >= 18")
        >>> people.select(where="sex == 2 or age > 90").where.text
        '(age >= 18) and (sex == 2 or age > 90)'
        """
        for name in checked_columns(columns) or []:
            if name not in self.schema.names:
                raise unknown_name("columns", name, self.schema.names)
        extra = None if where is None else parse(where)
        if extra is not None:
            extra.check(self.schema)
        both = [q.text for q in (self.where, extra) if q is not None]
        joined = " and ".join(f"({text})" for text in both) if len(both) > 1 else next(iter(both), None)
        return Batches(
            self._sources, self.schema.names if columns is None else columns, joined, batch_size or self.batch_size
        )

    def to_table(self) -> pa.Table:
        """Read the whole stream into memory.

        Examples
        --------
        >>> open_batches({"x": [1, 2, 3]}, where="x > 1").to_table()["x"].to_pylist()
        [2, 3]
        """
        return pa.Table.from_batches(iter(self), schema=self.schema)

    def fingerprint(self) -> str:
        """Read the stream once and give the fingerprint of its content; see :mod:`crosslevel.data.fingerprint`.

        Examples
        --------
        >>> open_batches({"x": [1, 2]}).fingerprint() == open_batches({"x": [1.0, 2.0]}, batch_size=1).fingerprint()
        True
        """
        if self.one_shot:
            raise InputError(
                "the fingerprint of a record batch reader would use it up; pass a function that makes a new reader instead."
            )
        digest = Fingerprint(self.schema)
        for batch in self:
            digest.update(batch)
        return digest.text()

    def stamps(self) -> list[list[object]]:
        """Give what tells these sources from changed ones without reading them, as plain values.

        Examples
        --------
        >>> open_batches({"x": [1, 2]}).stamps() == open_batches({"x": [1, 3]}).stamps()
        False
        """
        return [source.stamp() for source in self._sources]

    def describe(self) -> str:
        """Say in a line what the stream is.

        Examples
        --------
        >>> open_batches({"x": [1, 2]}).describe()
        '1 frame, 2 rows, 1 column (x)'
        """
        first = self._sources[0]
        if len(self._sources) == 1 and first.unit not in ("frame", "file"):
            said = [first.name]
        else:
            kind = first.unit if first.unit in ("frame", "stream") else "file"
            said = [_counted(len(self._sources), kind)]
            said += [f"{first.name} first"] if kind == "file" and len(self._sources) > 1 else []
            said = [first.name] if kind == "file" and len(self._sources) == 1 else said
        if first.unit not in ("frame", "file", "stream"):
            said.append(_counted(sum(source.n_parts for source in self._sources), first.unit))
        if self.num_rows is not None:
            said.append(_counted(self.num_rows, "row"))
        names = ", ".join(self.schema.names[:5]) + (", ..." if len(self.schema) > 5 else "")
        said.append(f"{_counted(len(self.schema), 'column')} ({names})")
        if self.where is not None:
            said.append(f"where {self.where.text}")
        return ", ".join(said)

    def __repr__(self) -> str:
        return f"<Batches: {self.describe()}; iterate it, or call .pieces()>"


def open_batches(
    source: object,
    columns: Sequence[str] | None = None,
    where: str | Query | None = None,
    batch_size: int | None = None,
    *,
    column_types: Mapping[str, object] | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
) -> Batches:
    """Open people for streaming.

    Parameters
    ----------
    source : path, frame, list, reader or callable
        A parquet (``.parquet .pq``), CSV (``.csv .tsv``, also ``.gz``) or Arrow file (``.arrow .feather .ipc``); a
        folder or glob of files of one format, read in the order of their path parts; a list of any of these; a
        dataframe; a :class:`pyarrow.RecordBatchReader`, which can be read only once; a function that returns an
        iterable of record batches, called anew for each pass; or a :class:`Batches`, to narrow it.
    columns : sequence of str, optional
        The columns to give, in this order; all by default. Only these, and those of ``where``, are read.
    where : str or Query, optional
        The rows to give; see :func:`crosslevel.data.queries.parse`. Parquet row groups that cannot match are not read.
    batch_size : int, optional
        The most rows of a batch, 65,536 by default.
    column_types : mapping of str to str or pyarrow.DataType, optional
        For CSV: types that are not to be inferred, for example ``{"fips": "string"}``. Otherwise types are inferred on
        the first megabyte; numbers that begin with a zero there (``01001``), and whole numbers too long for int64, are
        read as text.
    encoding : str
        For CSV: the encoding.
    delimiter : str, optional
        For CSV: what stands between values; by default a comma, a tab in ``.tsv``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "people.csv"
    ...     _ = path.write_text("fips,age\\n01001,30\\n01003,70\\n")
    ...     open_batches(path, where="age >= 65").to_table().to_pylist()
    [{'fips': '01003', 'age': 70}]
    """
    if isinstance(source, Batches):
        if column_types:
            raise InputError("column_types is for CSV files as they are opened; pass it where this stream was opened.")
        return source.select(columns, where, batch_size)
    said = {name: column_type(name, kind) for name, kind in (column_types or {}).items()}
    sources = locate(source, CsvOptions(said, encoding), delimiter)
    delimited = [one for one in sources if isinstance(one, DelimitedSource)]
    if said and not delimited:
        raise InputError(
            f"column_types is for CSV files, and {sources[0].name} brings types of its own; leave it out, and convert the "
            "columns before or after."
        )
    for name in said:
        if not any(name in one.schema.names for one in delimited):
            raise unknown_name("column_types", name, delimited[0].schema.names)
    return Batches(sources, columns, where, BATCH_SIZE if batch_size is None else batch_size)


def checked_columns(columns: Sequence[str] | None) -> list[str] | None:
    """Read a choice of columns; refuse a bare name, none at all and repetitions."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InputError(f"columns={columns!r} is one name; pass a list, columns=[{columns!r}].")
    names = list(columns)
    if not names:
        raise InputError("columns is empty; name at least one column, or leave it out to read all.")
    repeated = next((n for n in names if names.count(n) > 1), None)
    if repeated is not None:
        raise InputError(f"columns names {repeated!r} more than once; name each column once.")
    return names


def _cut(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Cut and join batches so that all have ``size`` rows but the last."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        at = 0
        while held + batch.num_rows - at >= size:
            take = size - held
            yield _joined([*waiting, batch.slice(at, take)])
            waiting, held, at = [], 0, at + take
        if at < batch.num_rows:
            waiting.append(batch.slice(at))
            held += batch.num_rows - at
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    try:
        joined = table.combine_chunks().to_batches()
    except pa.ArrowInvalid:  # dictionaries that hold nulls cannot be unified
        whole = {f.name: _reencoded(table[f.name]) for f in table.schema}
        joined = pa.table(whole, schema=table.schema).to_batches()
    assert len(joined) == 1, "a batch is far below the two gigabytes at which Arrow would split a column"
    return joined[0]


def _reencoded(values: pa.ChunkedArray) -> pa.Array:
    if not pa.types.is_dictionary(values.type):
        return values.combine_chunks()
    plain = pa.concat_arrays([chunk.dictionary_decode() for chunk in values.chunks])
    return plain.dictionary_encode().cast(values.type)


def _counted(number: int, what: str) -> str:
    many = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"
