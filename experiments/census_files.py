"""Write a simulated census to parquet files, a row group at a time, however many people it has."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from census import Census, census

from crosslevel.data.atomic import whole_file
from crosslevel.errors import FileError, InputError

__all__ = ["CensusFiles", "write_census"]

PEOPLE_PER_FILE = 1_000_000
"""People per part file when ``files`` is not given."""


@dataclass(frozen=True)
class CensusFiles:
    """Where :func:`write_census` put the people, and what their columns are.

    Attributes
    ----------
    people : tuple of Path
        The parts, in order; ``folder`` reads them all.
    folder : Path
    n_people : int
    categorical, numeric : tuple of str
        Names of the columns of codes, for ``People(categorical=...)``, and of amounts.
    n_encoded : int
        Positions the encoding gives them.
    """

    people: tuple[Path, ...]
    folder: Path
    n_people: int
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    n_encoded: int


def write_census(
    folder: str | os.PathLike[str],
    n_people: int,
    *,
    n_regions: int = 340,
    n_categorical: int = 200,
    n_real: int = 23,
    n_encoded: int = 3251,
    sort: bool = True,
    rows_per_group: int = 65_536,
    files: int | None = None,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> CensusFiles:
    """Write people as wide as a census to parquet files: :func:`census`, at the memory of a few row groups.

    Parameters
    ----------
    folder : path
        Made if missing; must hold no files. Gets ``part-000.parquet`` and so on, each whole or not at all.
    n_people, n_regions, n_categorical, n_real, n_encoded, sort, random_state
        As in :func:`census`. The people depend on neither of the next two.
    rows_per_group : int
        People per row group.
    files : int, optional
        Parts; by default one per million people. Two are written at a time.
    progress : callable, optional
        Called after each row group with the people written and all people.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_census(folder, 3_000, n_regions=4, n_categorical=10, n_real=3, n_encoded=150, files=2)
    ...     [path.name for path in written.people], pq.read_table(written.folder).shape
    (['part-000.parquet', 'part-001.parquet'], (3000, 15))
    """
    plan = census(
        n_people,
        n_regions=n_regions,
        n_categorical=n_categorical,
        n_real=n_real,
        n_encoded=n_encoded,
        sort=sort,
        random_state=random_state,
    )
    for name, value in (("rows_per_group", rows_per_group), ("files", 1 if files is None else files)):
        if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= value <= n_people:
            if name == "rows_per_group" and isinstance(value, Integral) and value > n_people:
                continue
            raise InputError(f"{name}={value!r} is not a whole number from 1 to n_people={n_people:,}.")
    parts = -(-n_people // PEOPLE_PER_FILE) if files is None else int(files)
    root = _fresh_folder(folder)
    paths = [root / f"part-{part:03d}.parquet" for part in range(parts)]
    tell = _Telling(progress, n_people)
    edges = [n_people * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(2, thread_name_prefix="crosslevel-census") as pool:
        jobs = [
            pool.submit(_write_part, path, plan, edges[i], edges[i + 1], int(rows_per_group), tell)
            for i, path in enumerate(paths)
        ]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            tell.stopped = True
            for job in jobs:
                job.cancel()
            raise
    return CensusFiles(tuple(paths), root, plan.n_people, plan.categorical, plan.numeric, sum(plan.widths))


class _Telling:
    """Counts the rows that two threads write, and tells the caller; ends them when it must."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress, self.total = progress, total
        self.done = 0
        self.stopped = False
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self._lock:
            if self.stopped:
                raise InterruptedError("another part could not be written")
            self.done += rows
            if self.progress is not None:
                self.progress(self.done, self.total)


def _fresh_folder(folder: str | os.PathLike[str]) -> Path:
    """Make the folder; refuse one with files in it, for the parts of two censuses would be read as one."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise FileError(f"folder={str(root)!r} is a file; name a folder to write the people into.")
    if root.is_dir() and any(root.iterdir()):
        raise FileError(f"{root} already holds files; choose another folder, or empty it first.")
    root.mkdir(parents=True, exist_ok=True)
    return root


def _write_part(path: Path, plan: Census, start: int, stop: int, rows_per_group: int, tell: _Telling) -> None:
    # statistics of 223 columns cost a third of the writing; only the region's ever let a reader skip
    with (
        whole_file(path) as beside,
        pq.ParquetWriter(beside, plan.schema, compression="snappy", write_statistics=["region"]) as writer,
    ):
        for parts in plan.pieces(rows_per_group, start, stop):
            group = pa.Table.from_batches(parts)
            writer.write_table(group, row_group_size=rows_per_group)
            tell.add(group.num_rows)
