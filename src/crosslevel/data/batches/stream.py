"""A stream that can be gone over again, in the same order, at flat memory; a frame is the simplest of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from crosslevel.data.batches.sources import Part, Piece, Request, Source
from crosslevel.data.checks import read_list
from crosslevel.data.frames import Fingerprint, fingerprint, is_frame, to_arrow
from crosslevel.data.queries import Query, read_query
from crosslevel.errors import FileError, InputError, nearest, unknown_name

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
        self.where = None if where is None else read_query(where, "where")
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
            read_query(self.where, "where", pa.schema([self._field(name, known) for name in known.names]))
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
                piece = Piece(source.name, passed + part.index, part.n_rows, part.index)
                yield piece, self.finish(part.batches, source.name)
            passed += source.n_parts

    @property
    def sources(self) -> tuple[Source, ...]:
        """What is read, in this order."""
        return tuple(self._sources)

    def finish(self, batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
        """Cast, filter, project and cut the batches that a source of this name gave."""
        return _cut((self._finished(batch, name) for batch in batches), self.batch_size)

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
        extra = None if where is None else read_query(where, "where", self.schema)
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
        """Read the stream once and give the fingerprint of its content; see :func:`crosslevel.data.frames.fingerprint`.

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
        first, n = self._sources[0], len(self._sources)
        kind = first.unit if first.unit in ("frame", "stream") else "file"
        said = [first.name] if n == 1 and kind != "frame" else [_counted(n, kind)]
        said += [f"{first.name} first"] if kind == "file" and n > 1 else []
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
    text_numbers: Sequence[str] | None = None,
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
    text_numbers : sequence of str, optional
        Columns of text to read as numbers: "1,234" is 1234, "45 %" is 0.45, blanks are missing, and any other text is refused with its row.

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
        for argument, given in (("column_types", column_types), ("text_numbers", text_numbers)):
            if given:
                raise InputError(f"{argument} is for what is opened first; pass it where this stream was opened.")
        return source.select(columns, where, batch_size)
    size = BATCH_SIZE if batch_size is None else batch_size
    if is_frame(source) and not isinstance(source, pa.RecordBatchReader) and not column_types and not text_numbers:
        return Batches([FrameSource(source)], columns, where, size)
    from crosslevel.data.batches.delimited import CsvOptions, DelimitedSource, column_types_of
    from crosslevel.data.batches.formats import locate
    from crosslevel.data.batches.sources import TextNumbers

    said = column_types_of(column_types)
    written = dict.fromkeys(checked_columns(text_numbers, "text_numbers") or (), pa.string())
    sources = locate(source, CsvOptions(written | said, encoding), delimiter)
    delimited = [one for one in sources if isinstance(one, DelimitedSource)]
    if said and not delimited:
        raise InputError(
            f"column_types is for CSV files, and {sources[0].name} brings types of its own; leave it out, and convert the "
            "columns before or after."
        )
    for name in said:
        if not any(name in one.schema.names for one in delimited):
            raise unknown_name("column_types", name, delimited[0].schema.names)
    return Batches([TextNumbers(one, list(written)) if written else one for one in sources], columns, where, size)


class FrameSource(Source):
    """A dataframe: one piece, or pieces of ``cut`` rows for the workers of a cluster."""

    unit = "frame"

    def __init__(self, frame: object, name: str = "frame", cut: int | None = None) -> None:
        self.name = name
        self._table = to_arrow(frame, name)
        self._cut = max(self._table.num_rows, 1) if cut is None else cut
        self.n_parts = max(1, -(-self._table.num_rows // self._cut))
        self.schema = self._table.schema.remove_metadata()

    def in_pieces(self, rows: int) -> FrameSource:
        """Give the same frame in pieces of so many rows."""
        return FrameSource(self._table, self.name, rows)

    @property
    def num_rows(self) -> int:
        """Number of rows of the frame."""
        return int(self._table.num_rows)

    def stamp(self) -> list[object]:
        """Tell this frame from another by its size and the content of its ends."""
        ends = [self._table.slice(0, 1000), self._table.slice(max(0, self.num_rows - 1000))]
        return [self.name, self.num_rows, *(fingerprint(end) for end in ends)]

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the frame, or its pieces."""
        table = self._table.select(request.schema.names)
        for i in range(start, self.n_parts):
            rows = table.slice(i * self._cut, self._cut)
            yield Part(i, rows.num_rows, iter(rows.to_batches(max_chunksize=request.batch_size)))


def checked_columns(columns: Sequence[str] | None, argument: str = "columns") -> list[str] | None:
    """Read a choice of columns; refuse a bare name, none at all and repetitions."""
    if columns is None:
        return None
    names = read_list(columns, argument)
    if not names:
        raise InputError(f"{argument} is empty; name at least one column, or leave it out.")
    repeated = next((n for n in names if names.count(n) > 1), None)
    if repeated is not None:
        raise InputError(f"{argument} names {repeated!r} more than once; name each column once.")
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


def check_unique(name: str, columns: Sequence[str]) -> None:
    """Refuse a file in which two columns are called the same."""
    if len(set(columns)) < len(columns):
        repeated = next(column for column in columns if columns.count(column) > 1)
        raise FileError(f"{name} has more than one column named {repeated!r}; give each a name of its own.")


def common_schema(sources: Sequence[Source], columns: Sequence[str] | None) -> pa.Schema:
    """Give the schema of the named columns in which all sources can be read.

    Integers widen, integers and floats meet in float64, a column of nulls takes any type, dictionaries and kinds of
    strings meet in their values. Without ``columns``, every source must have the columns of the first.
    """
    first = sources[0]
    for source in sources:
        check_unique(source.name, source.schema.names)
    if columns is None:
        names = first.schema.names
        for source in sources[1:]:
            extra = [name for name in source.schema.names if name not in names]
            if extra:
                raise FileError(
                    f"{source.name} has a column {extra[0]!r} that {first.name} has not; name the wanted columns, or "
                    "read these files separately."
                )
    else:
        names = list(columns)
        for name in names:
            if name not in first.schema.names:
                raise unknown_name("columns", name, first.schema.names)
    return pa.schema([_common_field(sources, name) for name in names])


def _common_field(sources: Sequence[Source], name: str) -> pa.Field:
    chosen: pa.DataType | None = None
    owner = sources[0]
    for source in sources:
        if source.schema.get_field_index(name) < 0:
            raise FileError(
                f"{source.name} has no column {name!r}, which {sources[0].name} has."
                f"{nearest(name, source.schema.names)} Files read together must have the same columns."
            )
        kind = _plain(source.schema.field(name).type)
        both = kind if chosen is None else _common_type(chosen, kind)
        if both is None and owner.as_text(name) and source.as_text(name):
            both = pa.string()
        if both is None:
            raise FileError(
                f"column {name!r} is {kind} in {source.name} and {chosen} in {owner.name}; convert one of the files, "
                "or, for CSV files, say which it is with column_types."
            )
        if both != chosen:
            chosen, owner = both, source
    return pa.field(name, chosen)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Give views as plain strings, since Arrow cannot filter views."""
    if pa.types.is_dictionary(kind):
        values = _plain(kind.value_type)
        return kind if values == kind.value_type else values
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _common_type(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if one == two or pa.types.is_null(two):
        return one
    if pa.types.is_null(one):
        return two
    one, two = (t.value_type if pa.types.is_dictionary(t) else t for t in (one, two))
    if one == two:
        return one
    if all(pa.types.is_integer(t) for t in (one, two)):
        return pa.int64()
    if all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (one, two)):
        return pa.float64()
    if all(pa.types.is_string(t) or pa.types.is_large_string(t) for t in (one, two)):
        return pa.large_string()
    return None


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    """Bring a batch to a schema, by column name."""
    arrays = []
    for wanted in schema:
        place = batch.schema.get_field_index(wanted.name)
        if place < 0:
            raise InputError(
                f"a batch of {name} has no column {wanted.name!r}, which the first had; every batch must have the same columns."
            )
        column = batch.column(place)
        try:
            arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"column {wanted.name!r} of {name} is {column.type} in one batch and {wanted.type} in another, and the "
                f"values do not fit ({error}); make every batch of one type."
            ) from error
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
