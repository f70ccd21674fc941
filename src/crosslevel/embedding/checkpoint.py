"""A pass that was stopped goes on where it was, and ends with the same bits.

A checkpoint is one file: the sums so far, and the position up to which they hold (piece of the stream, chunk of the
piece). It is written whole or not at all, and belongs to one job: the same people, columns, bags and feature map.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.atomic import whole_file
from crosslevel.embedding.state import BagSums
from crosslevel.errors import FileError, InputError

__all__ = ["Checkpoint", "job_digest"]

FORMAT = 1


def job_digest(facts: dict[str, Any]) -> str:
    """Name a job by everything its answer depends on."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


class Checkpoint:
    """The file that a pass writes now and then, and may begin from.

    Parameters
    ----------
    path : path or None
        Where it lies; None to keep none.
    job : str
        Digest of the job.
    every : float
        Seconds between two writings.
    """

    def __init__(self, path: str | os.PathLike[str] | None, job: str, every: float = 30.0) -> None:
        self.path = None if path is None else Path(path)
        self.job = job
        self.every = every
        self._last = time.monotonic()

    def begin(
        self, n_features: int, names: tuple[str, ...], subgroups: tuple[str, ...] = ()
    ) -> tuple[BagSums, tuple[int, int], int]:
        """Give the state to go on from, the position of its next chunk, and the rows already in it."""
        if self.path is None or not self.path.exists():
            return BagSums(n_features, names, subgroups), (0, 0), 0
        facts, keys, arrays = self._read()
        if facts["job"] != self.job:
            raise InputError(
                f"checkpoint={str(self.path)!r} belongs to another job (other people, columns, bags or embedding); name another "
                "file, or delete this one to begin anew."
            )
        state = BagSums.from_arrays(keys, names, arrays, subgroups)
        piece, chunk = facts["position"]
        return state, (piece, chunk), facts["rows"]

    def keep(self, state: BagSums, position: tuple[int, int], rows: int, now: bool = False) -> None:
        """Write the state if it is time to; ``position`` is the next chunk to be added."""
        if self.path is None or not (now or time.monotonic() - self._last >= self.every):
            return
        facts = {"format": FORMAT, "job": self.job, "position": position, "rows": rows}
        # keys may be dates or decimals, which JSON has not
        keys = pa.BufferOutputStream()
        with pa.ipc.new_stream(keys, (table := state.key_table()).schema) as stream:
            stream.write_table(table)
        with whole_file(self.path) as beside, zipfile.ZipFile(beside, "w") as archive:
            archive.writestr("facts.json", json.dumps(facts))
            archive.writestr("keys.arrow", keys.getvalue().to_pybytes())
            for name, array in state.to_arrays().items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        self._last = time.monotonic()

    def done(self) -> None:
        """Remove the file: the pass has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[dict[str, Any], list[tuple[Any, ...]], dict[str, Any]]:
        assert self.path is not None
        try:
            with zipfile.ZipFile(self.path) as archive:
                facts = json.loads(archive.read("facts.json"))
                table = pa.ipc.open_stream(archive.read("keys.arrow")).read_all()
                arrays = {
                    name: np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
                    for name in ("small", "sums")
                }
            newer = facts["format"] > FORMAT
            keys = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, TypeError, EOFError) as error:
            raise FileError(f"{self.path} is not a whole checkpoint ({error}); delete it to begin anew.") from error
        if newer:
            raise FileError(f"{self.path} was written by a newer crosslevel; upgrade, or delete it to begin anew.")
        return facts, keys, arrays
