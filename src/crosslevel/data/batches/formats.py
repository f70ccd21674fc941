"""From what the caller named to the sources it stands for: paths, folders, globs and lists; parquet and Arrow files, functions, readers.

Row groups of parquet files are read one after another with ``ParquetFile.iter_batches`` rather than through a dataset scanner: a
scanner reads ahead over row groups and files, so that its memory grows with the speed of the disk, while one row group at a time is
flat and always cuts at the same rows. The dataset module is used for what it does best: the statistics in the footer tell which row
groups a filter can skip.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from crosslevel.data.batches.delimited import CsvOptions, DelimitedSource, open_file
from crosslevel.data.batches.sources import Part, Request, Source, damaged
from crosslevel.data.batches.stream import FrameSource, check_unique
from crosslevel.data.frames import is_frame, to_arrow
from crosslevel.data.queries import Query
from crosslevel.errors import FileError, InputError, listed, nearest

Reader: TypeAlias = Callable[[str, CsvOptions, str | None], Source]

READ_BUFFER = 1 << 20  # bytes per column read at a time, so that huge row groups are not fetched whole
WILDCARDS = "*?["
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


class ParquetSource(Source):
    """A parquet file."""

    unit = "row group"

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            with pq.ParquetFile(path) as file:
                self.schema = file.schema_arrow
                self._footer = file.metadata  # kept: parsing it anew for each row group costs as much as a small one
                self._rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            check_unique(path, self.schema.names)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise damaged(path, "parquet", error) from error
        self.n_parts = len(self._rows)

    @property
    def num_rows(self) -> int:
        """Number of rows, from the footer."""
        return sum(self._rows)

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the row groups; those the filter cannot match come without batches."""
        kept = self._kept(request.where)
        for index in range(start, len(self._rows)):
            batches = self._read(index, request) if index in kept else iter(())
            yield Part(index, self._rows[index], batches)

    def _read(self, row_group: int, request: Request) -> Iterator[pa.RecordBatch]:
        try:
            with pq.ParquetFile(self.name, metadata=self._footer, buffer_size=READ_BUFFER) as file:
                for batch in file.iter_batches(
                    batch_size=request.batch_size, row_groups=[row_group], columns=request.schema.names
                ):
                    batch.validate(full=True)  # text of a damaged page need not be UTF-8
                    yield batch
        except (pa.ArrowException, OSError) as error:
            raise damaged(f"row group {row_group} of {self.name}", "parquet", error) from error

    def _kept(self, where: Query | None) -> set[int]:
        if where is None or not self._rows:
            return set(range(len(self._rows)))
        fragment = ds.ParquetFileFormat().make_fragment(self.name, pafs.LocalFileSystem())
        kept = fragment.subset(where.expression(self.schema), schema=self.schema)
        return {group.id for group in kept.row_groups}


class ArrowFileSource(Source):
    """An Arrow IPC file, which is also what feather is since version 2."""

    unit = "record batch"

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            with pa.OSFile(path) as handle, pa.ipc.open_file(handle) as file:
                self.schema = file.schema
                self.n_parts: int = file.num_record_batches
            check_unique(path, self.schema.names)
            self._num_rows: int = ds.dataset(path, format="ipc").count_rows()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise damaged(path, "Arrow IPC (feather)", error) from error

    @property
    def num_rows(self) -> int:
        """Number of rows, from the batch headers."""
        return self._num_rows

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Give the record batches of the file."""
        for index in range(start, self.n_parts):
            yield Part(index, None, self._read(index, request))

    def _read(self, index: int, request: Request) -> Iterator[pa.RecordBatch]:
        fields = [self.schema.get_field_index(name) for name in request.schema.names]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            with pa.OSFile(self.name) as handle, pa.ipc.open_file(handle, options=options) as file:
                batch = file.get_batch(index)
                batch.validate(full=True)  # Arrow trusts offsets and lengths as they stand in the file
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise damaged(f"record batch {index} of {self.name}", "Arrow IPC (feather)", error) from error


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


def _delimited(path: str, options: CsvOptions, delimiter: str | None) -> Source:
    separator = DELIMITERS[_extension(Path(path), DELIMITERS) or ".csv"] if delimiter is None else delimiter
    return DelimitedSource(path, open_file(path), CsvOptions(options.column_types, options.encoding, separator))


FORMATS: dict[str, tuple[str, Reader]] = {
    ".parquet": ("parquet", lambda path, *_: ParquetSource(path)),
    ".pq": ("parquet", lambda path, *_: ParquetSource(path)),
    ".arrow": ("arrow", lambda path, *_: ArrowFileSource(path)),
    ".feather": ("arrow", lambda path, *_: ArrowFileSource(path)),
    ".ipc": ("arrow", lambda path, *_: ArrowFileSource(path)),
    **dict.fromkeys(DELIMITERS, ("delimited text", _delimited)),
}


def locate(source: object, options: CsvOptions, delimiter: str | None = None) -> list[Source]:
    """Find the sources behind a path, folder, glob, list, frame, reader or factory, in a fixed order."""
    if isinstance(source, str | os.PathLike):
        return _open_files(find_files(source, FORMATS), options, delimiter)
    if isinstance(source, Source):
        return [source]
    if (of_cluster := _cluster_frame(source)) is not None:
        return [of_cluster]
    if isinstance(source, list | tuple):
        if not source:
            raise InputError("source is an empty list; name at least one file or frame.")
        found = [one for item in source for one in locate(item, options, delimiter)]
        _check_once([item for item in source if is_frame(item)], found)
        return found
    if isinstance(source, pa.RecordBatchReader):
        return [ReaderSource(source)]
    if is_frame(source):
        return [FrameSource(source)]
    if callable(source):
        return [FactorySource(source, getattr(source, "__name__", "factory"))]
    if isinstance(source, Iterator):
        raise InputError(
            f"source is a {type(source).__name__}, which can be read only once; pass the function that makes it instead, "
            "so that the data can be gone over again."
        )
    raise InputError(
        f"source is a {type(source).__name__}; pass a file, a folder, a glob, a list of these, a frame, a "
        "pyarrow.RecordBatchReader, or a function that returns an iterable of record batches."
    )


def _check_once(frames: Sequence[object], found: Sequence[Source]) -> None:
    """Refuse a frame or file that stands in a list twice, whose people would count twice."""
    kinds = (ParquetSource, ArrowFileSource, DelimitedSource)
    files = Counter(Path(one.name).resolve() for one in found if isinstance(one, kinds))
    again = [str(file) for file, times in files.items() if times > 1]
    again += ["the same frame"] * (len({*map(id, frames)}) < len(frames))
    if again:
        raise InputError(f"source holds {again[0]} twice, so that its rows would count twice; name each once.")


def _cluster_frame(source: object) -> Source | None:
    """Read a Spark DataFrame, whose rows stay with the workers."""
    home, name = type(source).__module__.partition(".")[0], type(source).__name__
    if home == "pyspark" and name == "DataFrame":
        from crosslevel.data.engines.spark import SparkSource

        return SparkSource(source)
    return None


def find_files(source: str | os.PathLike[str], formats: Mapping[str, object]) -> list[Path]:
    """Find the files a path, folder or glob stands for, in the order of their path parts (so ``p_10`` before ``p_2``).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", "notes.md"):
    ...         _ = (Path(folder) / name).write_text("x")
    ...     [path.name for path in find_files(folder, [".csv"])]
    ['a.csv', 'b.csv']
    """
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"path={source!r} is a {type(source).__name__}, not a path; pass the name of a file or folder."
        )
    path = Path(source)
    try:
        return _find(path, formats)
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror or error}); check its name and the permissions of its folder."
        ) from error


def _find(path: Path, formats: Mapping[str, object]) -> list[Path]:
    if path.is_dir():
        found = _ordered(p for p in path.iterdir() if p.is_file() and _visible(p) and _extension(p, formats))
        if not found:
            inner = next((p for p in sorted(path.iterdir()) if p.is_dir()), None)
            hint = f" Its files may lie deeper: try the glob '{path}/**/*.parquet'." if inner else ""
            raise FileError(f"the folder {path} holds no files that are read here ({_endings(formats)}).{hint}")
        return found
    if path.is_file():
        if not _extension(path, formats):
            raise FileError(f"{path} has an extension that is not read here; what is read: {_endings(formats)}.")
        return [path]
    if any(mark in str(path) for mark in WILDCARDS):
        found = _ordered(p for p in matches(path) if p.is_file() and _visible(p))
        unread = next((p for p in found if not _extension(p, formats)), None)
        if unread is not None:
            raise FileError(f"{path} also finds {unread}, which is not read here; what is read: {_endings(formats)}.")
        if not found:
            raise FileError(f"{path} finds no files; check the folder and the pattern.")
        return found
    if path.is_symlink():
        raise FileError(
            f"{path} is a broken link: {path.readlink()}, where it points, does not exist. Correct the link."
        )
    raise FileError(f"{path} does not exist.{_neighbor(path)}")


def _open_files(paths: list[Path], options: CsvOptions, delimiter: str | None) -> list[Source]:
    opened = [(path, *FORMATS[str(_extension(path, FORMATS))]) for path in paths]
    kinds = {kind: path for path, kind, _ in reversed(opened)}
    if len(kinds) > 1:
        raise InputError(
            f"these files are of different formats ({', '.join(f'{p.name} is {k}' for k, p in kinds.items())}); name the "
            "files of one format, for example with a glob."
        )
    return [read(str(path), options, delimiter) for path, _, read in opened]


def matches(pattern: Path) -> Iterator[Path]:
    """Give what fits a pattern with wildcards, which may be absolute and reach into folders (``**``)."""
    fixed = next(i for i, part in enumerate(pattern.parts) if any(mark in part for mark in WILDCARDS))
    return Path(*pattern.parts[:fixed]).glob(str(Path(*pattern.parts[fixed:])))


def _ordered(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda p: p.parts)


def _visible(path: Path) -> bool:
    return not path.name.startswith((".", "_"))  # _SUCCESS, _metadata and editors' leftovers are not data


def _extension(path: Path, formats: Iterable[str]) -> str | None:
    name = path.name.casefold()
    return max((e for e in formats if name.endswith(e)), key=len, default=None)


def _endings(formats: Iterable[str]) -> str:
    return ", ".join(formats)


def _neighbor(path: Path) -> str:
    if not path.parent.is_dir():
        return f" Nor does its folder {path.parent}."
    names = sorted(p.name for p in path.parent.iterdir())
    return nearest(path.name, names) or (f" In its folder are {listed(names)}." if names else " Its folder is empty.")
