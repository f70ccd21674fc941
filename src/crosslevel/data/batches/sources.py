"""What a stream is made of: the parts every source gives, and the sources in memory (frames, functions, readers)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from crosslevel.data.fingerprint import fingerprint
from crosslevel.data.frames import is_frame, to_arrow
from crosslevel.data.queries import Query
from crosslevel.errors import FileError, InputError

__all__ = [
    "FactorySource",
    "FrameSource",
    "Part",
    "Piece",
    "ReaderSource",
    "Request",
    "Source",
    "check_unique",
    "damaged",
]


@dataclass(frozen=True)
class Piece:
    """A stretch of a stream that is always the same, whatever the batch size: what a checkpoint counts.

    Parameters
    ----------
    source : str
        The file, or the kind of thing, the rows come from.
    index : int
        Position in the whole stream, from 0; ``batches.pieces(start=index)`` begins here.
    n_rows : int or None
        Rows before any filter; None where only reading would tell.
    part : int
        Position within the source, for example the row group of a parquet file.
    """

    source: str
    index: int
    n_rows: int | None
    part: int = 0


@dataclass(frozen=True)
class Request:
    """What is wanted of a source: the columns with their types, the batch size, and a filter it may use to skip."""

    schema: pa.Schema
    batch_size: int
    where: Query | None = None


@dataclass(frozen=True)
class Part:
    """One piece of one source, not read until its batches are drawn."""

    index: int
    n_rows: int | None
    batches: Iterator[pa.RecordBatch] = field(compare=False)


class Source(ABC):
    """One file or one thing in memory.

    A source yields at least the columns asked for; the stream casts, filters, projects and cuts to size.
    """

    name: str
    schema: pa.Schema
    n_parts: int
    """How many pieces it has: a matter of the data alone, since checkpoints count them."""
    one_shot: bool = False
    unit: str = "piece"
    """What a piece of it is called."""

    @abstractmethod
    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the pieces from ``start`` on, in order."""

    @property
    def num_rows(self) -> int | None:
        """Number of rows, where it is known without reading the data."""
        return None

    def stamp(self) -> list[object]:
        """Give what tells this source from a changed one, without reading the data: a file's name, size and time."""
        path = Path(self.name)
        file = path.stat() if path.is_file() else None
        return [self.name, self.num_rows, *([file.st_size, file.st_mtime_ns] if file else [])]

    def as_text(self, column: str) -> bool:
        """Tell whether this column, though read as numbers, could be read as the text that was written."""
        return False


def check_unique(name: str, columns: Sequence[str]) -> None:
    """Refuse a file in which two columns are called the same."""
    if len(set(columns)) < len(columns):
        repeated = next(column for column in columns if columns.count(column) > 1)
        raise FileError(f"{name} has more than one column named {repeated!r}; give each a name of its own.")


def damaged(name: str, kind: str, error: Exception) -> FileError:
    """Make the error for a file that is not what its name says, or is cut short."""
    return FileError(
        f"{name} cannot be read as {kind}: it is truncated, damaged or of another format ({_first_line(error)}). "
        "Get it again, or check its extension."
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


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
