"""What an engine must do: turn chunks into sums, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.state import ChunkSums
from crosslevel.numerics.features import FeatureMap

__all__ = ["Engine"]


class Engine(Protocol):
    """Sums the features of chunks over their bags.

    ``chunk_rows`` is how the stream is to be cut for it; ``sum_chunks`` gives one answer per chunk, in the order of the
    chunks, with the position it answers for. Sums of *raw* features: the constant linear part of a map is applied
    once, after merging.
    """

    chunk_rows: int

    def sum_chunks(
        self, recipe: Recipe, feature_map: FeatureMap, chunks: Iterable[Chunk]
    ) -> Iterator[tuple[Chunk, ChunkSums]]:
        """Give the sums of each chunk, in order."""
        ...
