"""Where features are computed: threads of this machine, an accelerator, or the workers of Spark that have the people."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from crosslevel.embedding.chunks import Chunk, Recipe
from crosslevel.embedding.state import ChunkSums
from crosslevel.errors import unknown_name
from crosslevel.numerics.features import FeatureMap

ENGINES = {
    "local": "crosslevel.embedding.engines.local:LocalEngine",
    "jax": "crosslevel.embedding.engines.jax:JaxEngine",
}
"""Name of an engine -> "module:Class", imported when it is asked for."""


class Engine(Protocol):
    """Sums the features of chunks over their bags.

    ``chunk_rows`` is how long chunks are to be for it. Sums of *raw* features: the constant linear part of a map is applied once,
    after all sums are added.
    """

    chunk_rows: int

    def sum_chunks(self, recipe: Recipe, feature_map: FeatureMap, chunks: Iterable[Chunk]) -> Iterator[ChunkSums]:
        """Give the sums of each chunk, in order."""
        ...


def check_engine(engine: object) -> None:
    """Refuse what is not the name of an engine."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, list(ENGINES), "engine")


def find_engine(engine: str) -> Engine:
    """Give the engine of this name.

    Examples
    --------
    >>> find_engine("local").chunk_rows
    8192
    """
    module, name = ENGINES[engine].split(":")
    found: Engine = getattr(importlib.import_module(module), name)()
    return found
