"""The engine of this machine: a thread per core, fused kernels, the same sums to 1e-12 whatever the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from crosslevel.embedding.chunks import Chunk, Ready, Recipe, in_threads, prepare
from crosslevel.embedding.state import BagSums, ChunkSums
from crosslevel.numerics.features import FeatureMap

CHUNK_ROWS = 8192
"""Rows summed before their bags' sums are added up: enough for long runs of one bag when people are sorted by place,
few enough that a chunk's codes (8,192 x 223 x 4 bytes) stay in the second-level cache's reach."""


class LocalEngine:
    """Threads of this machine.

    Parameters
    ----------
    n_jobs : int
        Number of threads.
    """

    chunk_rows = CHUNK_ROWS

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def sum_chunks(
        self, recipe: Recipe, feature_map: FeatureMap, chunks: Iterable[Chunk]
    ) -> Iterator[tuple[Chunk, ChunkSums]]:
        """Give the sums of each chunk, in order; at most ``n_jobs + 1`` chunks are in memory."""
        return in_threads(chunk_summer(recipe, feature_map), chunks, self.n_jobs)


def chunk_summer(recipe: Recipe, feature_map: FeatureMap) -> Callable[[Chunk], tuple[Chunk, ChunkSums]]:
    """Give the function that sums a chunk: what a thread of this engine runs, and what a worker of a cluster does."""
    from crosslevel.numerics.fused import Scratch, embed_piece, make_plan

    plan = make_plan(feature_map)
    own = threading.local()

    def work(chunk: Chunk) -> tuple[Chunk, ChunkSums]:
        if not hasattr(own, "scratch"):
            own.scratch = Scratch(plan)
        ready = prepare(recipe, chunk)
        encoded = ready.encoded
        piece = embed_piece(
            plan, encoded.codes, encoded.reals, encoded.real_columns, ready.weights, ready.bags, own.scratch
        )
        keys = chunk_keys(recipe, ready, piece.bags.tolist())
        return chunk, ChunkSums(keys, piece.count, piece.weight, piece.weight_squared, piece.sums)

    return work


@dataclass(frozen=True, eq=False)
class SumPiece:
    """The chunks of a piece, summed one after another and added in order: the work of a cluster's task."""

    recipe: Recipe
    feature_map: FeatureMap
    names: tuple[str, ...]

    @property
    def weight(self) -> str | None:
        """Column of weights."""
        return self.recipe.weight

    def __call__(self, batches: Iterator[pa.RecordBatch], piece: int) -> BagSums:
        """Sum a piece."""
        state = BagSums(self.feature_map.n_features, self.names, self.recipe.names if self.recipe.subgroups else ())
        work, row = chunk_summer(self.recipe, self.feature_map), 0
        for i, batch in enumerate(batches):
            state.add(work(Chunk(batch, row, (piece, i)))[1])
            row += batch.num_rows
        return state


def chunk_keys(recipe: Recipe, ready: Ready, bags: list[int]) -> list[tuple[object, ...]]:
    """Name local bag numbers: the place's key, then the subgroup where there are any."""
    places = list(zip(*(c.to_pylist() for c in ready.keys.columns), strict=True))
    width = len(recipe.names)
    if not recipe.subgroups:
        return [places[b] for b in bags]
    return [(*places[b // width], recipe.names[b % width]) for b in bags]
