"""Where the pass over the people runs: threads of this machine, or an accelerator."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from crosslevel.data.checks import count_jobs
from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.state import ChunkSums
from crosslevel.errors import unknown_name
from crosslevel.numerics.features import FeatureMap

__all__ = ["ENGINES", "Engine", "check_engine", "find_engine"]

ENGINES = {
    "local": "crosslevel.embedding.engines.local:LocalEngine",
    "jax": "crosslevel.embedding.engines.jax:JaxEngine",
}
"""Name of an engine -> "module:Class", imported when it is asked for."""


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


def check_engine(engine: object) -> None:
    """Refuse what is neither the name of an engine nor an engine."""
    if (isinstance(engine, str) and engine not in ENGINES) or not (
        isinstance(engine, str) or hasattr(engine, "sum_chunks")
    ):
        raise unknown_name("engine", engine, list(ENGINES), "engine")


def find_engine(engine: str | Engine, n_jobs: int | None = None) -> Engine:
    """Give the engine of this name, or the one that was passed.

    Examples
    --------
    >>> find_engine("local", 2).n_jobs
    2
    """
    check_engine(engine)
    if not isinstance(engine, str):
        return engine
    module, name = ENGINES[engine].split(":")
    made: Engine = getattr(importlib.import_module(module), name)(count_jobs(n_jobs))
    return made
