"""One pass over the people: cut the stream, let an engine sum the chunks, add them up in order, keep checkpoints."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Self

from crosslevel.data.batches import Batches
from crosslevel.embedding.checkpoint import Checkpoint, job_digest
from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.engines.protocol import Engine
from crosslevel.embedding.state import BagSums
from crosslevel.numerics.features import FeatureMap
from crosslevel.typing import Progress

__all__ = ["Pass", "chunks", "run_pass"]


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

    def digest(self, chunk_rows: int) -> str:
        """Name the job: what its sums depend on, bit for bit."""
        arrays = {n: hashlib.sha256(a.tobytes()).hexdigest() for n, a in self.feature_map.to_arrays().items()}
        return job_digest(
            {
                "people": self.people.stamps(),
                "where": None if self.people.where is None else self.people.where.text,
                "columns": [c.facts() for c in self.recipe.encoder.columns],
                "unknown": self.recipe.encoder.unknown,
                "by": self.recipe.by,
                "weight": self.recipe.weight,
                "subgroups": [(n, q.text) for n, q in self.recipe.subgroups],
                "map": arrays,
                "chunk_rows": chunk_rows,
            }
        )


def run_pass(
    job: Pass,
    engine: Engine,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    progress: Progress | None = None,
) -> BagSums:
    """Sum the features of all people over their bags.

    Parameters
    ----------
    job : Pass
    engine : Engine
    checkpoint : path, optional
        A file that the state is written to now and then; a pass that finds it goes on from there.
    checkpoint_every : float
        Seconds between two writings.
    progress : callable, optional
        Called with rows done and rows in all.
    """
    stream = job.people.select(job.recipe.columns, batch_size=engine.chunk_rows)
    file = Checkpoint(checkpoint, job.digest(engine.chunk_rows) if checkpoint is not None else "", checkpoint_every)
    state, position, rows = file.begin(
        job.feature_map.n_features, job.names, job.recipe.names if job.recipe.subgroups else ()
    )
    total = stream.num_rows
    sums = engine.sum_chunks(job.recipe, job.feature_map, chunks(stream, position, rows))
    whole = True  # false while a chunk is being added: such a state must never be written
    try:
        with _Interrupts() as interrupts:
            for chunk, part in sums:
                whole = False
                state.add(part)
                position, rows = (chunk.position[0], chunk.position[1] + 1), rows + chunk.batch.num_rows
                whole = True
                file.keep(state, position, rows)
                if progress is not None:
                    progress(rows, total)
                interrupts.check()
    except KeyboardInterrupt:
        if whole:
            file.keep(state, position, rows, now=True)
        raise
    file.done()
    return state


class _Interrupts:
    """Hold Ctrl-C back until the state is whole, so that a stopped pass can always go on; a second one breaks through.

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
