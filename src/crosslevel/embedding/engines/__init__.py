"""Where the pass over the people runs: threads of this machine, an accelerator, a cluster."""

from __future__ import annotations

import importlib
import os

from crosslevel.embedding.engines.protocol import Engine
from crosslevel.errors import InputError, unknown_name

__all__ = ["ENGINES", "Engine", "count_jobs", "find_engine"]

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


def count_jobs(n_jobs: int | None) -> int:
    """Give the number of threads: all cores this process may use when not said."""
    if n_jobs is None or n_jobs == -1:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1:
        raise InputError(f"n_jobs={n_jobs!r} is not a number of threads; pass 1 or more, or None for all cores.")
    return n_jobs
