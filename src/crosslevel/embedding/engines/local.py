"""The engine of this machine: a thread per core, fused kernels, the same sums to 1e-12 whatever the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from crosslevel.data.checks import count_jobs
from crosslevel.embedding.chunks import Chunk, Recipe, bag_keys, in_threads, prepare
from crosslevel.embedding.state import ChunkSums
from crosslevel.numerics.features import FeatureMap


class LocalEngine:
    """Threads of this machine."""

    chunk_rows = 8192
    """Enough for long runs of one bag when people are sorted by place, few enough that a chunk's codes (8,192 x 223 x 4 bytes) stay in
    the second-level cache's reach."""

    def sum_chunks(self, recipe: Recipe, feature_map: FeatureMap, chunks: Iterable[Chunk]) -> Iterator[ChunkSums]:
        """Give the sums of each chunk, in order."""
        return in_threads(chunk_summer(recipe, feature_map), chunks, count_jobs(None))


def chunk_summer(recipe: Recipe, feature_map: FeatureMap) -> Callable[[Chunk], ChunkSums]:
    """Give the function that sums a chunk: what a thread of this engine runs, and what a worker of Spark does."""
    from crosslevel.numerics.fused import Scratch, embed_piece, make_plan

    plan = make_plan(feature_map)
    own = threading.local()

    def work(chunk: Chunk) -> ChunkSums:
        if not hasattr(own, "scratch"):
            own.scratch = Scratch(plan)
        ready = prepare(recipe, chunk)
        encoded = ready.encoded
        rows = (encoded.codes, encoded.reals, encoded.real_columns, ready.weights, ready.bags)
        piece = embed_piece(plan, *rows, own.scratch)
        keys = bag_keys(recipe, ready, piece.bags.tolist())
        return ChunkSums(len(ready.weights), keys, piece.count, piece.weight, piece.weight_squared, piece.sums)

    return work
