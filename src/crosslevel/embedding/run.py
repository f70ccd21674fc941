"""One pass over the people: cut the stream, let an engine sum the chunks, add them up in order, keep checkpoints.

A checkpoint is one file: the sums so far, and the position up to which they hold (piece of the stream, chunk of the piece). It is
written whole or not at all, and belongs to one job: the same people, columns, bags and feature map. A pass that resumes from it ends
with the same bits.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import signal
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crosslevel.data.atomic import clear_parts, whole_file
from crosslevel.data.batches import Batches
from crosslevel.data.engines import ClusterEngine, Ledger, Node, Task, count_pieces, gather, spread, verify_weight
from crosslevel.data.progress import follow
from crosslevel.data.queries import ALL
from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.engines import Engine
from crosslevel.embedding.engines.local import CHUNK_ROWS, SumPiece
from crosslevel.embedding.state import BagSums
from crosslevel.errors import CrosslevelError, CrosslevelWarning, FileError, InputError
from crosslevel.numerics.features import FeatureMap
from crosslevel.typing import Progress, Tell

FORMAT = 1
ANOTHER = "belongs to another job (other people, columns, bags or embedding); name another file, or delete this one to begin anew."


@dataclass(frozen=True, eq=False)
class Pass:
    """What a pass is to do.

    Attributes
    ----------
    people : Batches
        With the filter, if any; the columns are chosen by the recipe.
    recipe : Recipe
    feature_map : FeatureMap
    names : tuple of str
        Names of the key columns.
    """

    people: Batches
    recipe: Recipe
    feature_map: FeatureMap
    names: tuple[str, ...]

    def digest(self, chunk_rows: int, cluster: bool = False) -> str:
        """Name the job: what its sums depend on, bit for bit; on a cluster less the people, which are compared piece by piece."""
        arrays = {n: hashlib.sha256(a.tobytes()).hexdigest() for n, a in self.feature_map.to_arrays().items()}
        facts = {
            "people": "in pieces" if cluster else self.people.stamps(),
            "where": None if self.people.where is None else self.people.where.text,
            "columns": [c.facts() for c in self.recipe.encoder.columns],
            "unknown": self.recipe.encoder.unknown,
            "by": self.recipe.by,
            "weight": self.recipe.weight,
            "subgroups": [(n, q.text) for n, q in self.recipe.subgroups],
            "map": arrays,
            "chunk_rows": chunk_rows,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def run_pass(
    job: Pass,
    engine: Engine | ClusterEngine,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    progress: Progress | None = None,
) -> BagSums:
    """Sum the features of all people over their bags.

    A pass that fails leaves what it has summed in the checkpoint.

    Parameters
    ----------
    job : Pass
    engine : Engine
    checkpoint : path, optional
        A file that the state is written to now and then; a pass that finds it resumes from there.
    checkpoint_every : float
        Seconds between two writings.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called with rows done and rows in all.
    """
    if not isinstance(engine, Engine):
        with follow(progress, "Embedding people") as tell:
            return _run_on_cluster(job, engine, checkpoint, checkpoint_every, tell)
    stream = job.people.select(job.recipe.columns, batch_size=engine.chunk_rows)
    file = Checkpoint(checkpoint, job.digest(engine.chunk_rows) if checkpoint is not None else "", checkpoint_every)
    state, position, rows = file.begin(
        job.feature_map.n_features, job.names, job.recipe.names if job.recipe.subgroups else ()
    )
    total = stream.num_rows
    sums = engine.sum_chunks(job.recipe, job.feature_map, chunks(stream, position, rows))
    whole = True  # false while a chunk is being added: such a state must never be written
    try:
        with _Interrupts() as interrupts, follow(progress, "Embedding people") as tell:
            for chunk, part in sums:
                whole = False
                state.add(part)
                position, rows = (chunk.position[0], chunk.position[1] + 1), rows + chunk.batch.num_rows
                whole = True
                file.keep(state, position, rows)
                if tell is not None:
                    tell(rows, total)
                interrupts.check()
    except (KeyboardInterrupt, CrosslevelError):
        if whole:
            file.keep(state, position, rows, now=True)
        raise
    file.done()
    return state


def _run_on_cluster(
    job: Pass, engine: ClusterEngine, checkpoint: Any, checkpoint_every: float, tell: Tell | None
) -> BagSums:
    """Sum pieces on the workers of a cluster; the checkpoint also holds pieces that are ahead of one that is not done."""
    stream = spread(job.people.select(job.recipe.columns, batch_size=CHUNK_ROWS))
    ledger = Ledger(count_pieces(stream))
    file = Checkpoint(checkpoint, job.digest(CHUNK_ROWS, True) if checkpoint is not None else "", checkpoint_every)
    sources = [[source.n_parts, source.stamp()] for source in stream.sources] if checkpoint is not None else []
    form = (job.feature_map.n_features, job.names, job.recipe.names if job.recipe.subgroups else ())
    file.begin_pieces(ledger, sources, *form)

    def keep(now: bool = False) -> None:
        file.keep_pieces(ledger, sources, form, now)

    work = SumPiece(job.recipe, job.feature_map, job.names)
    with _Interrupts() as interrupts:

        def after_each() -> None:
            keep()
            interrupts.check()

        try:
            node = gather(engine, Task(stream, work), ledger, None if checkpoint is None else after_each, tell)
        except (KeyboardInterrupt, CrosslevelError):
            keep(now=True)
            raise
    state: BagSums = node.state
    everybody = [key[-1] == ALL for key in state.keys] if state.subgroups else slice(None)
    state.said = (verify_weight(node, math.fsum(state.weight[everybody]), engine),)
    file.done()
    return state


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
        self._said = False
        # what a pass on a cluster writes and finds beside the state: facts, and pieces ahead of it
        self._pieces: tuple[dict[str, Any] | None, list[Node]] = None, []
        self._found: tuple[dict[str, Any] | None, dict[str, Any]] = None, {}

    def begin(
        self, n_features: int, names: tuple[str, ...], subgroups: tuple[str, ...] = ()
    ) -> tuple[BagSums, tuple[int, int], int]:
        """Give the state to resume from, the position of its next chunk, and the rows already in it."""
        try:
            there = self.path is None or self.path.resolve().parent.is_dir()
            begun = self.path is not None and self.path.exists()
        except (OSError, ValueError) as error:  # too long, a null byte, half a pair of surrogates
            raise FileError(
                f"checkpoint={str(self.path)[:80]!r} is no name of a file ({error!s:.80}); name another."
            ) from error
        if self.path is not None and not there:
            raise FileError(
                f"checkpoint={str(self.path)!r}: the folder {self.path.resolve().parent} does not exist. Make it first."
            )
        if self.path is not None:
            clear_parts(self.path)  # a pass that was killed while it wrote left one, and this one may never write
        if not begun:
            return BagSums(n_features, names, subgroups), (0, 0), 0
        facts, states = self._read()
        if facts["job"] != self.job:
            raise InputError(f"checkpoint={str(self.path)!r} {ANOTHER}")
        self._found = facts.get("pieces"), states
        piece, chunk = facts["position"]
        return BagSums.from_arrays(states[""][0], names, states[""][1], subgroups), (piece, chunk), facts["rows"]

    def begin_pieces(self, ledger: Ledger, sources: list[Any], *form: Any) -> None:
        """Take up the pieces that a pass on a cluster left; those of a source that changed since are refused."""
        state, position, rows = self.begin(*form)
        told, states = self._found
        if told is None:
            return
        n_features, names, subgroups = form
        node = Node(tuple(range(position[0])), rows, told["weight"], state) if position[0] else None
        ahead = []
        for kept in told["ahead"]:
            keys, arrays = states[_prefix(kept["pieces"])]
            held = (
                BagSums.from_arrays(keys, names, arrays, subgroups) if keys else BagSums(n_features, names, subgroups)
            )
            ahead.append(Node(tuple(kept["pieces"]), kept["rows"], kept["weight"], held))
        ledger.begin(node, ahead)
        now, first, changed = json.loads(json.dumps(sources)), 0, len(sources) != len(told["sources"])
        for (parts, stamp), other in zip(told["sources"], now, strict=False):
            done = not ledger.done.isdisjoint(range(first, first + parts))
            changed = changed or other[0] != parts or (done and other[1] != stamp)
            first += parts
        if changed:
            raise InputError(f"checkpoint={str(self.path)!r} {ANOTHER}")

    def keep_pieces(self, ledger: Ledger, sources: list[Any], form: tuple[Any, ...], now: bool = False) -> None:
        """Write the merged pieces and those ahead of them, if it is time to."""
        node = ledger.node or Node((), 0, 0.0, BagSums(*form))
        ahead = [ledger.ahead[first] for first in sorted(ledger.ahead)]
        told = [{"pieces": n.pieces, "rows": n.rows, "weight": n.weight} for n in ahead]
        self._pieces = {"sources": sources, "weight": node.weight, "ahead": told}, ahead
        self.keep(node.state, (len(node.pieces), 0), node.rows, now)

    def keep(self, state: BagSums, position: tuple[int, int], rows: int, now: bool = False) -> None:
        """Write the state if it is time to; ``position`` is the next chunk to be added.

        A state that cannot be written does not end the pass: it is said once, and tried again when it is time.
        """
        if self.path is None or not (now or time.monotonic() - self._last >= self.every):
            return
        try:
            self._write(self.path, state, position, rows)
        except (FileError, OSError) as error:
            self._say(f"the checkpoint was not written, and the pass goes on without it: {error}")
        self._last = time.monotonic()

    def _write(self, path: Path, state: BagSums, position: tuple[int, int], rows: int) -> None:
        facts: dict[str, Any] = {"format": FORMAT, "job": self.job, "position": position, "rows": rows}
        pieces, ahead = self._pieces
        with whole_file(path) as beside, zipfile.ZipFile(beside, "w") as archive:
            archive.writestr("facts.json", json.dumps(facts | ({} if pieces is None else {"pieces": pieces})))
            _write_state(archive, "", state)
            for node in ahead:
                _write_state(archive, _prefix(node.pieces), node.state)

    def done(self) -> None:
        """Remove the file: the pass has ended."""
        if self.path is not None:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                self._say(f"the checkpoint {self.path} cannot be removed ({error.strerror or error}); delete it.")

    def _say(self, text: str) -> None:
        if not self._said:
            warnings.warn(text, CrosslevelWarning, stacklevel=5)
        self._said = True

    def _read(self) -> tuple[dict[str, Any], dict[str, tuple[list[tuple[Any, ...]], dict[str, Any]]]]:
        """Give the facts, and the keys and arrays of the merged state ("") and of pieces ahead of it."""
        assert self.path is not None
        try:
            with zipfile.ZipFile(self.path) as archive:
                facts = json.loads(archive.read("facts.json"))
                pieces = facts.get("pieces", {"ahead": []})
                prefixes = ["", *(_prefix(kept["pieces"]) for kept in pieces["ahead"])]
                states = {prefix: _read_state(archive, prefix) for prefix in prefixes}
            newer = facts["format"] > FORMAT
        except (
            *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, TypeError, EOFError),
            RuntimeError,  # "encrypted", and unknown compression, which is a NotImplementedError
        ) as error:
            raise FileError(f"{self.path} is not a whole checkpoint ({error}); delete it to begin anew.") from error
        if newer:
            raise FileError(f"{self.path} was written by a newer crosslevel; upgrade, or delete it to begin anew.")
        return facts, states


def _write_state(archive: zipfile.ZipFile, prefix: str, state: BagSums) -> None:
    # keys may be dates or decimals, which JSON has not
    keys = pa.BufferOutputStream()
    with pa.ipc.new_stream(keys, (table := state.key_table()).schema) as stream:
        stream.write_table(table)
    archive.writestr(f"{prefix}keys.arrow", keys.getvalue().to_pybytes())
    for name, array in state.to_arrays().items():
        with archive.open(f"{prefix}{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def _read_state(archive: zipfile.ZipFile, prefix: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    table = pa.ipc.open_stream(archive.read(f"{prefix}keys.arrow")).read_all()
    arrays = {
        name: np.lib.format.read_array(io.BytesIO(archive.read(f"{prefix}{name}.npy")), allow_pickle=False)
        for name in ("small", "sums")
    }
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), arrays


def _prefix(pieces: Sequence[int]) -> str:
    return f"piece-{pieces[0]}-"


class _Interrupts:
    """Hold Ctrl-C back until the state is whole, so that a stopped pass can always resume; a second one breaks through.

    Only where Python's own handler is in place: who installed another knows better.
    """

    def __init__(self) -> None:
        self._asked = False
        self._held = False

    def __enter__(self) -> Self:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            signal.signal(signal.SIGINT, self._note)
            self._held = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            signal.default_int_handler(number, frame)
        self._asked = True

    def check(self) -> None:
        """Raise what was held back."""
        if self._asked:
            raise KeyboardInterrupt


def chunks(stream: Batches, start: tuple[int, int] = (0, 0), row: int = 0) -> Iterator[Chunk]:
    """Give the chunks from a position on; ``row`` is the number of its first row."""
    for piece, batches in stream.pieces(start[0]):
        for i, batch in enumerate(batches):
            if piece.index == start[0] and i < start[1]:
                continue
            yield Chunk(batch, row, (piece.index, i))
            row += batch.num_rows
