"""Where the pass over the people runs: threads of this machine, an accelerator, or the workers of :mod:`crosslevel.data.engines`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from crosslevel.data.checks import count_jobs
from crosslevel.data.engines import ClusterEngine, find_cluster
from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.state import ChunkSums
from crosslevel.numerics.features import FeatureMap

__all__ = ["ENGINES", "Engine", "check_engine", "cluster_of", "find_engine"]

ENGINES = {
    "local": "crosslevel.embedding.engines.local:LocalEngine",
    "jax": "crosslevel.embedding.engines.jax:JaxEngine",
}
"""Name of an engine -> "module:Class", imported when it is asked for."""


@runtime_checkable
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
    """Refuse what is neither the name of an engine, the address of one, nor an engine."""
    cluster_of(engine)


def cluster_of(engine: object) -> ClusterEngine | None:
    """Give the cluster that an engine is; None for one of this machine."""
    return None if isinstance(engine, Engine) else find_cluster(engine, list(ENGINES))


def find_engine(engine: Any, n_jobs: int | None = None) -> Engine | ClusterEngine:
    """Give the engine of this name or address, or the one that was passed.

    Examples
    --------
    >>> find_engine("local", 2).n_jobs
    2
    """
    if isinstance(engine, Engine):
        return engine
    if (cluster := cluster_of(engine)) is not None:
        return cluster
    module, name = ENGINES[engine].split(":")
    made: Engine = getattr(importlib.import_module(module), name)(count_jobs(n_jobs))
    return made
