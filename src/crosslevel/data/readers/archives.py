"""Files as publishers pack them: plain, compressed, or several in a zip archive."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from crosslevel.errors import FileError

UNPACKED = 2 << 30
"""Bytes an archive may always unpack to, however small it is."""


@dataclass(frozen=True)
class Entry:
    """A file, or one in an archive: its full and short name, its size unpacked, and how to open it."""

    name: str
    short: str
    size: int
    open: Callable[[], IO[bytes]]


def entries(path: Path, ending: str) -> list[Entry]:
    """Give the file, or those with an ending in a zip archive, in order of their names."""
    if path.suffix.casefold() != ".zip":
        return [Entry(str(path), path.name, _size(path), lambda: pa.input_stream(str(path)))]
    with reading(str(path), "a zip archive"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    total = sum(member.file_size for member in members)
    if total > max(UNPACKED, 100 * path.stat().st_size):
        raise FileError(
            f"{path} claims to unpack to {total:,} bytes, which no table does; get it again from its publisher."
        )
    found = [
        one for one in members if one.filename.strip().casefold().endswith(ending) and "__MACOSX" not in one.filename
    ]
    if not found:
        raise FileError(f"{path} holds no {ending} file; is it the zip of that version?")
    return [
        Entry(f"{path}:{one.filename}", Path(one.filename).name, one.file_size, _opener(path, one.filename))
        for one in sorted(found, key=lambda one: one.filename)
    ]


def _size(path: Path) -> int:
    """Give the size of a file in bytes, unpacked: gzip writes it last."""
    if path.suffix.casefold() != ".gz":
        return path.stat().st_size
    with reading(str(path), "gzip"), path.open("rb") as packed:
        packed.seek(-4, 2)
        return int.from_bytes(packed.read(), "little")


def _opener(path: Path, member: str) -> Callable[[], IO[bytes]]:
    def opener() -> IO[bytes]:
        with zipfile.ZipFile(path) as archive:  # the member keeps the file open until it is closed itself
            return archive.open(member)

    return opener


@contextmanager
def reading(name: str, kind: str, *errors: type[Exception]) -> Iterator[Any]:
    """Say of a file that cannot be read that it is not what its name says, or is cut short."""
    try:
        yield
    except FileError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, pa.ArrowException, *errors) as error:
        said = f"{error}".strip().splitlines() or [type(error).__name__]
        raise FileError(
            f"{name} cannot be read as {kind}: it is truncated, damaged or of another format ({said[0].rstrip('.')}). "
            "Get it again, or check its ending."
        ) from error
