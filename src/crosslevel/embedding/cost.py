"""What will a pass take? Timed on the first rows, before it begins."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from crosslevel.data.batches import Batches
from crosslevel.data.engines import ClusterEngine
from crosslevel.data.frames import group_rows
from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.engines import Engine
from crosslevel.embedding.engines.local import LocalEngine
from crosslevel.embedding.run import Pass, chunks
from crosslevel.embedding.state import BagSums
from crosslevel.errors import InputError

TIMED_CHUNKS = 4
"""Chunks per thread that are timed, after one that compiles the kernels."""
FIXED_BYTES = 350_000_000
"""What Python, Arrow, numba, scikit-learn and a row group in reading take (measured on Linux)."""


@dataclass(frozen=True)
class Cost:
    """What a pass will take, by the measure of its first rows.

    Attributes
    ----------
    rows : int or None
        People in all; None where only reading would tell (CSV, functions, readers).
    n_bags : int
        Bags, subgroups included; those of the first rows only where ``rows`` is None.
    rows_per_second : float
    seconds : float or None
    memory_bytes : int
        Largest resident memory.
    """

    rows: int | None
    n_bags: int
    rows_per_second: float
    seconds: float | None
    memory_bytes: int

    def __str__(self) -> str:
        memory = f"about {max(self.memory_bytes / 1e6, 1):,.0f} MB"
        if self.rows is None or self.seconds is None:
            return (
                f"about {self.rows_per_second:,.0f} rows/s, {memory} for {self.n_bags:,} bags or more; how many people "
                "there are is not known before they are read"
            )
        return f"{self.rows:,} people into {self.n_bags:,} bags: about {_duration(self.seconds)}, {memory}"


def estimate_cost(job: Pass, engine: Engine | ClusterEngine) -> Cost:
    """Time the first chunks of a pass and scale up; those of a cluster on one thread of this machine."""
    if not isinstance(engine, Engine):
        engine = LocalEngine(1)
    if job.people.one_shot:
        raise InputError(
            "the cost of a record batch reader cannot be estimated without using it up; pass a function that makes a new reader."
        )
    stream = job.people.select(job.recipe.columns, batch_size=engine.chunk_rows)
    width = getattr(engine, "n_jobs", 1)
    head = chunks(stream)
    first = next(head, None)
    if first is None:
        raise InputError(f"people has no rows ({stream.describe()}); check the file and the where filter.")
    seen = BagSums(job.feature_map.n_features, job.names)
    _, _, touched = _timed(job, engine, [first], seen)  # compiles the kernels
    done, seconds, more = _timed(job, engine, itertools.islice(head, TIMED_CHUNKS * width), seen)
    if not done:
        done, seconds, _ = _timed(job, engine, [first], BagSums(job.feature_map.n_features, job.names))
    rate = done / max(seconds, 1e-9)
    rows, places = _count(job.people, job.recipe)
    n_bags = len(seen) if places is None else max(len(seen), places * len(job.recipe.names))
    per_bag = 8 * job.feature_map.n_features
    in_flight = (width + 1) * (engine.chunk_rows * 16 * len(job.recipe.columns) + max(touched, more) * per_bag)
    map_bytes = sum(a.nbytes for a in job.feature_map.to_arrays().values())
    memory = FIXED_BYTES + 3 * n_bags * per_bag + in_flight + 3 * map_bytes  # sums, means, and means times a constant
    return Cost(rows, n_bags, rate, None if rows is None else rows / rate, int(memory))


def _timed(job: Pass, engine: Engine, head: Iterable[Chunk], seen: BagSums) -> tuple[int, float, int]:
    """Sum some chunks, reading included: rows, seconds, and the most bags that one chunk touched."""
    began, rows, most = time.perf_counter(), 0, 0
    for chunk, part in engine.sum_chunks(job.recipe, job.feature_map, head):
        seen.add(part)
        rows += chunk.batch.num_rows
        most = max(most, len(part.keys))
    return rows, time.perf_counter() - began, most


def _count(people: Batches, recipe: Recipe) -> tuple[int | None, int | None]:
    """Count people and places by reading the keys alone, where the format lets columns be read alone."""
    if not people.columnar:
        return None, None
    rows = 0
    places: set[tuple[object, ...]] = set()
    for batch in people.select(list(recipe.by)):
        rows += batch.num_rows
        keys = group_rows(pa.Table.from_batches([batch]), recipe.by).keys
        places.update(zip(*(column.to_pylist() for column in keys.columns), strict=True))
    return rows, len(places)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.1):.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
