"""Where the pass over the people runs: threads of this machine, an accelerator, a cluster."""

from __future__ import annotations

import importlib

from crosslevel.data.checks import count_jobs
from crosslevel.embedding.engines.protocol import Engine
from crosslevel.errors import unknown_name

__all__ = ["ENGINES", "Engine", "find_engine"]

ENGINES = {
    "local": "crosslevel.embedding.engines.local:LocalEngine",
    "jax": "crosslevel.embedding.engines.jax:JaxEngine",
}
"""Name of an engine -> "module:Class", imported when it is asked for."""


def find_engine(engine: str | Engine, n_jobs: int | None = None) -> Engine:
    """Give the engine of this name, or the one that was passed.

    Examples
    --------
    >>> find_engine("local", 2).n_jobs
    2
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise unknown_name("engine", engine, list(ENGINES), "engine")
    module, name = ENGINES[engine].split(":")
    made: Engine = getattr(importlib.import_module(module), name)(count_jobs(n_jobs))
    return made
