"""What is asked of a table of people, and its rows made ready for an engine: encoded, weighted, and assigned to bags."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.columns import Encoded, Encoder
from crosslevel.data.expressions import ALL, SUBGROUP, Expression
from crosslevel.data.frames import group_rows
from crosslevel.data.sql import quoted

T = TypeVar("T")
WEIGHT, KEY, MEMBER = "crosslevel_weight", "crosslevel_key", "crosslevel_member"
"""Names of the columns that are asked for beside those that are encoded; the last two are numbered."""

Chunk = tuple[int, pa.RecordBatch]
"""Number of the first row, for messages, and the rows."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """How people become sums: the same for the whole pass.

    Attributes
    ----------
    encoder : Encoder
    by : tuple of str
        Columns that name a bag.
    weight : str
        The weight, as SQL.
    subgroups : mapping of name to Expression
        Further bags within each bag.
    """

    encoder: Encoder
    by: tuple[str, ...]
    weight: str
    subgroups: dict[str, Expression]

    @property
    def query(self) -> str:
        """The query whose rows :func:`prepare` reads."""
        asked = [quoted(name) for name in self.encoder.names]
        asked += [f"{quoted(name)} as {key}" for name, key in zip(self.by, self.keys, strict=True)]
        asked += [f"coalesce({part.sql}, false) as {MEMBER}{j}" for j, part in enumerate(self.subgroups.values())]
        return f"select {', '.join(asked)}, {self.weight} as {WEIGHT} from people"

    @property
    def keys(self) -> list[str]:
        """Names under which the columns of ``by`` come back."""
        return [f"{KEY}{i}" for i in range(len(self.by))]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the key columns of the answer."""
        return (*self.by, SUBGROUP) if self.subgroups else self.by

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the subgroups, everybody first; empty where none were asked for."""
        return (ALL, *self.subgroups) if self.subgroups else ()


@dataclass(frozen=True, eq=False)
class Ready:
    """Rows an engine can sum.

    Attributes
    ----------
    encoded : Encoded
    weights : (n,) float64
    bags : (n, n_subgroups + 1) int32
        Local number of each bag a row belongs to, -1 for none: place * (n_subgroups + 1) + subgroup.
    places : list of tuple
        Key of each place, by local number.
    """

    encoded: Encoded
    weights: npt.NDArray[np.float64]
    bags: npt.NDArray[np.int32]
    places: list[tuple[object, ...]]


def prepare(recipe: Recipe, chunk: Chunk) -> Ready:
    """Encode rows and find the bags of each."""
    row, batch = chunk
    groups = group_rows(pa.Table.from_batches([batch.select(recipe.keys)]), recipe.keys)
    width = len(recipe.subgroups) + 1
    bags = np.empty((batch.num_rows, width), dtype=np.int32)
    bags[:, 0] = groups.codes * width
    for j in range(1, width):
        member = batch.column(f"{MEMBER}{j - 1}").to_numpy(zero_copy_only=False)
        bags[:, j] = np.where(member, bags[:, 0] + j, -1)
    weights = batch.column(WEIGHT).to_numpy()
    places = list(zip(*(column.to_pylist() for column in groups.keys.columns), strict=True))
    return Ready(recipe.encoder.encode(batch, row), weights, bags, places)


def bag_keys(recipe: Recipe, ready: Ready, bags: list[int]) -> list[tuple[object, ...]]:
    """Name local bag numbers: the place's key, then the subgroup where there are any."""
    if not recipe.subgroups:
        return [ready.places[b] for b in bags]
    parts = recipe.parts
    return [(*ready.places[b // len(parts)], parts[b % len(parts)]) for b in bags]


def number_rows(batches: Iterable[pa.RecordBatch]) -> Generator[Chunk, None, None]:
    """Give batches with the number of their first row."""
    row = 0
    for batch in batches:
        yield row, batch
        row += batch.num_rows


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
