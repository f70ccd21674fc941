"""One chunk of people made ready for an engine: encoded, weighted, and assigned to bags.

A chunk is a fixed run of rows, cut by row number within a piece of the stream, so that what is added up, and in which
order, depends on the data alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.columns import Encoded, Encoder, read_weights
from crosslevel.data.frames import group_rows
from crosslevel.data.queries import ALL, Query
from crosslevel.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Recipe:
    """How to make chunks ready: the same for the whole pass.

    Attributes
    ----------
    encoder : Encoder
    by : tuple of str
        Columns that name a bag.
    weight : str or None
    subgroups : tuple of (name, Query)
        Further bags within each bag.
    """

    encoder: Encoder
    by: tuple[str, ...]
    weight: str | None
    subgroups: tuple[tuple[str, Query], ...] = ()

    @property
    def columns(self) -> list[str]:
        """Columns of the people that a pass reads."""
        asked = [c for _, q in self.subgroups for c in q.columns]
        return list(dict.fromkeys([*self.encoder.names, *self.by, *([self.weight] if self.weight else []), *asked]))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the subgroups, everybody first."""
        return (ALL, *(name for name, _ in self.subgroups))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of the stream.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
    row : int
        Number of its first row in the stream.
    position : (piece, chunk)
        Which piece, and which chunk of that piece.
    """

    batch: pa.RecordBatch
    row: int
    position: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Ready:
    """A chunk an engine can sum.

    Attributes
    ----------
    encoded : Encoded
    weights : (n,) float64
    bags : (n, n_subgroups + 1) int32
        Local number of each bag a row belongs to, -1 for none: place * (n_subgroups + 1) + subgroup.
    keys : pyarrow.Table
        Key of each place, by local number.
    """

    encoded: Encoded
    weights: npt.NDArray[np.float64]
    bags: npt.NDArray[np.int32]
    keys: pa.Table

    def __len__(self) -> int:
        return len(self.weights)


def prepare(recipe: Recipe, chunk: Chunk) -> Ready:
    """Encode a chunk and find the bags of every row."""
    batch = chunk.batch
    weights = read_weights(batch, recipe.weight, chunk.row)
    keys = pa.Table.from_batches([batch.select(list(recipe.by))])
    try:
        groups = group_rows(keys, recipe.by)
    except InputError as error:
        raise InputError(f"{error} (rows counted from row {chunk.row:,} of people)") from error
    return Ready(
        encoded=recipe.encoder.encode(batch, chunk.row),
        weights=weights,
        bags=_memberships(groups.codes, batch, recipe.subgroups),
        keys=groups.keys,
    )


def in_threads(work: Callable[[Chunk], T], chunks: Iterable[Chunk], n_jobs: int) -> Generator[T, None, None]:
    """Do something with every chunk in threads and give the answers in order; at most ``n_jobs + 1`` chunks are in memory."""
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(n_jobs, thread_name_prefix="crosslevel-embed")
    try:
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _memberships(
    places: npt.NDArray[np.int64], batch: pa.RecordBatch, subgroups: Sequence[tuple[str, Query]]
) -> npt.NDArray[np.int32]:
    width = len(subgroups) + 1
    bags = np.empty((len(places), width), dtype=np.int32)
    bags[:, 0] = places * width
    for j, (_, query) in enumerate(subgroups, start=1):
        bags[:, j] = np.where(query.mask(batch), bags[:, 0] + j, -1)
    return bags
