"""What a stream is made of: what every source gives, whatever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from crosslevel.data.queries import Query
from crosslevel.errors import FileError

__all__ = ["Part", "Piece", "Request", "Source", "damaged"]


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


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
