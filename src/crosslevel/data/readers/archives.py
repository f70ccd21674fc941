"""Files as publishers pack them: plain, compressed, or several in a zip archive."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from crosslevel.errors import FileError

UNPACKED = 2 << 30
"""Bytes an archive may always unpack to, however small it is."""


Entry: TypeAlias = Path | zipfile.Path
"""A file, or one in an archive."""


def entries(path: Path, ending: str) -> list[Entry]:
    """Give a file, or those with an ending in a zip archive, in order of their names."""
    if path.suffix.casefold() != ".zip":
        return [path]
    with reading(path, "a zip archive"):
        archive = zipfile.ZipFile(path)
    total = sum(member.file_size for member in archive.infolist())
    if total > max(UNPACKED, 100 * path.stat().st_size):
        raise FileError(
            f"{path} claims to unpack to {total:,} bytes, which no table does; get it again from its publisher."
        )
    names = [name for name in sorted(archive.namelist()) if name.strip().casefold().endswith(ending)]
    if not names:
        raise FileError(f"{path} holds no {ending} file; is it the zip of that version?")
    return [zipfile.Path(archive, name) for name in names if "__MACOSX" not in name]


def size_of(entry: Entry) -> int:
    """Give the size of a file in bytes, unpacked: gzip writes it last."""
    if isinstance(entry, zipfile.Path):
        return entry.root.getinfo(entry.at).file_size
    if entry.suffix != ".gz":
        return entry.stat().st_size
    with reading(entry, "gzip"), entry.open("rb") as packed:
        packed.seek(-4, 2)
        return int.from_bytes(packed.read(), "little")


def opened(entry: Entry) -> Any:
    """Open a file, unpacked."""
    return pa.input_stream(entry.open("rb"), compression="gzip" if entry.suffix == ".gz" else None)


@contextmanager
def reading(name: object, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Say of a file that cannot be read that it is not what its name says, or is cut short."""
    try:
        yield
    except FileError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        pa.ArrowException,
        UnicodeDecodeError,
        *errors,
    ) as error:
        said = f"{error}".strip().splitlines() or [type(error).__name__]
        raise FileError(
            f"{name} cannot be read as {kind}: it is truncated, damaged or of another format ({said[0].rstrip('.')}). "
            "Get it again, or check its ending."
        ) from error
