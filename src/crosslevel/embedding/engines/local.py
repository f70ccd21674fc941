"""The engine of this machine: a thread per core, fused kernels, the same bits whatever the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from crosslevel.embedding.chunks import Chunk, Ready, Recipe, in_threads, prepare
from crosslevel.embedding.state import ChunkSums
from crosslevel.numerics.features import FeatureMap

__all__ = ["LocalEngine", "chunk_keys"]

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

        return in_threads(work, chunks, self.n_jobs)


def chunk_keys(recipe: Recipe, ready: Ready, bags: list[int]) -> list[tuple[object, ...]]:
    """Name local bag numbers: the place's key, then the subgroup where there are any."""
    places = list(zip(*(c.to_pylist() for c in ready.keys.columns), strict=True))
    width = len(recipe.names)
    if not recipe.subgroups:
        return [places[b] for b in bags]
    return [(*places[b // width], recipe.names[b % width]) for b in bags]
