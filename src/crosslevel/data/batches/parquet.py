"""Parquet: one piece per row group.

Row groups are read one after another with ``ParquetFile.iter_batches`` rather than through a dataset scanner: a scanner
reads ahead over row groups and files, so that its memory grows with the speed of the disk, while one row group at a
time is flat and always cuts at the same rows. The dataset module is used for what it does best: the statistics in the
footer tell which row groups a filter can skip.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from crosslevel.data.batches.source import Part, Request, Source, damaged
from crosslevel.data.queries import Query

__all__ = ["ParquetSource"]

READ_BUFFER = 1 << 20  # bytes per column read at a time, so that huge row groups are not fetched whole


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
        except (pa.ArrowException, OSError) as error:
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
                yield from file.iter_batches(
                    batch_size=request.batch_size, row_groups=[row_group], columns=request.schema.names
                )
        except (pa.ArrowException, OSError) as error:
            raise damaged(f"row group {row_group} of {self.name}", "parquet", error) from error

    def _kept(self, where: Query | None) -> set[int]:
        if where is None or not self._rows:
            return set(range(len(self._rows)))
        fragment = ds.ParquetFileFormat().make_fragment(self.name, pafs.LocalFileSystem())
        kept = fragment.subset(where.expression(self.schema), schema=self.schema)
        return {group.id for group in kept.row_groups}
