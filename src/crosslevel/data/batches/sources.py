"""What a stream is made of: what every source gives, whatever it is.

Numbers that stand in a column as text: which cell is none, and, on request, those written as 1,234 or 45 %.

A column of text is never taken for numbers unasked, since codes look like them. ``open_batches(..., text_numbers=["votes"])`` (and
``--text-numbers votes`` on the command line) asks for it.
"""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from crosslevel.data.queries import Query
from crosslevel.data.text_numbers import read_text_numbers
from crosslevel.errors import FileError, unknown_name


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


def damaged(name: str, kind: str, error: Exception) -> FileError:
    """Make the error for a file that is not what its name says, or is cut short."""
    return FileError(
        f"{name} cannot be read as {kind}: it is truncated, damaged or of another format ({_first_line(error)}). "
        "Get it again, or check its extension."
    )


UNPACKED = 2 << 30  # bytes an archive may always unpack to, however small it is


def check_unpacked(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that unpacks to far more than tables do: 2 GB and a hundred times its own size."""
    total = sum(info.file_size for info in archive.infolist())
    if total > max(UNPACKED, 100 * path.stat().st_size):
        raise FileError(
            f"{path} claims to unpack to {total:,} bytes, which no table does; get it again from its publisher."
        )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type, or the values of a dictionary, are text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


class TextNumbers(Source):
    """A source some of whose columns of text are read as numbers."""

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self.source = source
        self.name, self.n_parts, self.one_shot, self.unit = source.name, source.n_parts, source.one_shot, source.unit
        self.schema = source.schema
        self.columns = []
        for name in columns:
            place = self.schema.get_field_index(name)
            if place < 0:
                raise unknown_name("text_numbers", name, self.schema.names)
            if is_text(self.schema.field(place).type):
                self.columns.append(name)
                self.schema = self.schema.set(place, pa.field(name, pa.float64()))

    @property
    def num_rows(self) -> int | None:
        """Number of rows, where the source knows it."""
        return self.source.num_rows

    def stamp(self) -> list[object]:
        """Tell this source from a changed one."""
        return [*self.source.stamp(), *self.columns]

    def as_text(self, column: str) -> bool:
        """Tell whether the source could give this column as text; those read here are numbers."""
        return column not in self.columns and self.source.as_text(column)

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the pieces of the source, with the numbers read."""
        fields = [self.source.schema.field(f.name) if f.name in self.columns else f for f in request.schema]
        asked = request.where is not None and not set(request.where.columns) & set(self.columns)
        inner = Request(pa.schema(fields), request.batch_size, request.where if asked else None)
        for part in self.source.parts(inner, start):
            yield Part(part.index, part.n_rows, self._read(part.batches))

    def _read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in batches:
            for name in self.columns:
                place = batch.schema.get_field_index(name)
                if place >= 0:
                    batch = batch.set_column(place, name, read_text_numbers(batch.column(place), name, row))
            yield batch
            row += batch.num_rows
