"""What is in memory or arrives from elsewhere: frames, readers that can be read once, and functions that make streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from crosslevel.data.batches.source import Part, Request, Source
from crosslevel.data.fingerprint import fingerprint
from crosslevel.data.frames import is_frame, to_arrow
from crosslevel.errors import InputError

__all__ = ["FactorySource", "FrameSource", "ReaderSource"]


class FrameSource(Source):
    """A dataframe: one piece."""

    unit = "frame"
    n_parts = 1

    def __init__(self, frame: object, name: str = "frame") -> None:
        self.name = name
        self._table = to_arrow(frame, name)
        self.schema = self._table.schema.remove_metadata()

    @property
    def num_rows(self) -> int:
        """Number of rows of the frame."""
        return int(self._table.num_rows)

    def stamp(self) -> list[object]:
        """Tell this frame from another by its size and the content of its ends."""
        ends = [self._table.slice(0, 1000), self._table.slice(max(0, self.num_rows - 1000))]
        return [self.name, self.num_rows, *(fingerprint(end) for end in ends)]

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the frame."""
        if start == 0:
            table = self._table.select(request.schema.names)
            yield Part(0, table.num_rows, iter(table.to_batches(max_chunksize=request.batch_size)))


class FactorySource(Source):
    """A function that begins the stream anew each time it is called: one piece, however it is cut into batches."""

    unit = "stream"
    n_parts = 1

    def __init__(self, factory: Callable[[], Iterable[object]], name: str = "factory") -> None:
        self.name = name
        self._factory = factory
        first = next(self._tables(), None)
        if first is None:
            raise InputError(f"{name} gave no batches, so the columns are unknown; it must give at least one.")
        self.schema = first.schema.remove_metadata()

    def _tables(self) -> Iterator[pa.Table]:
        made = self._factory()
        if is_frame(made) and not isinstance(made, pa.RecordBatchReader):
            made = [made]
        if not isinstance(made, Iterable):
            raise InputError(
                f"{self.name} returned a {type(made).__name__}; it must return an iterable of record batches, "
                "for example a generator."
            )
        for item in made:
            yield to_arrow(item, f"a batch of {self.name}")

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the stream, drawn batch by batch; only the function could skip, so a piece is all of it."""
        if start == 0:
            yield Part(0, None, _batches(self._checked(set(request.schema.names)), request))

    def _checked(self, wanted: set[str]) -> Iterator[pa.Table]:
        """Refuse columns that the first batch had not, where all columns are wanted."""
        known = set(self.schema.names)
        for table in self._tables():
            extra = [name for name in table.column_names if name not in known] if wanted >= known else []
            if extra:
                raise InputError(
                    f"a batch of {self.name} has a column {extra[0]!r} that the first had not; give every batch the same "
                    "columns, or name the wanted ones."
                )
            yield table


class ReaderSource(Source):
    """A :class:`pyarrow.RecordBatchReader`: one piece, which can be read once."""

    unit = "stream"
    n_parts = 1
    one_shot = True

    def __init__(self, reader: pa.RecordBatchReader, name: str = "reader") -> None:
        self.name = name
        self.schema = reader.schema.remove_metadata()
        self._reader: pa.RecordBatchReader | None = reader

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the stream, once."""
        if start > 0:
            return iter(())
        if self._reader is None:
            raise InputError(
                "this record batch reader has been read already, and it can be read only once; to go over the data again "
                "pass a function that makes a new reader, for example open_batches(lambda: relation.to_arrow_reader())."
            )
        reader, self._reader = self._reader, None
        tables = (pa.Table.from_batches([batch]) for batch in reader)
        return iter([Part(0, None, _batches(tables, request))])


def _batches(tables: Iterator[pa.Table], request: Request) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches(max_chunksize=request.batch_size)
