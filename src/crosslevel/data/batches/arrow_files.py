"""Arrow IPC and feather files: one piece per stored record batch."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds

from crosslevel.data.batches.source import Part, Request, Source, check_unique, damaged

__all__ = ["ArrowFileSource"]


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
        except (pa.ArrowException, OSError) as error:
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
                yield file.get_batch(index)
        except (pa.ArrowException, OSError) as error:
            raise damaged(f"record batch {index} of {self.name}", "Arrow IPC (feather)", error) from error
