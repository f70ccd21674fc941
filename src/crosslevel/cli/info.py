"""``crosslevel info``: what this machine and installation have."""

from __future__ import annotations

import json
import os
import platform
import shutil
from importlib import metadata, util
from typing import Any

from crosslevel import __version__
from crosslevel.cli.job import OUTPUT, Job
from crosslevel.cli.options import Given

EXAMPLES = ("crosslevel info", "crosslevel info --json")
OPTIONS = [option for option in OUTPUT if option.name == "as_json"]

EXTRAS = {
    "bayes": ("jax", "numpyro"),
    "geo": ("shapely", "geopandas"),
    "report": ("vl-convert-python",),
    "docx": ("python-docx",),
    "spark": ("pyspark",),
    "readers": ("pyreadstat",),
}
CORE = ("numpy", "scipy", "numba", "scikit-learn", "narwhals", "pyarrow", "xarray", "matplotlib")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _accelerators() -> list[str]:
    """Name the accelerators JAX sees; asked only where JAX is installed, because asking starts it."""
    if util.find_spec("jax") is None:
        return []
    import jax

    return [f"{d.platform}: {d.device_kind}" for d in jax.devices() if d.platform != "cpu"]


def _engines() -> dict[str, str]:
    """Say which engines of the passes over people can run here, and what the others lack."""
    needs = {"local": (), "jax": EXTRAS["bayes"][:1], "spark": EXTRAS["spark"]}
    extra = {"jax": "bayes"}
    found = {
        name: "ready" if all(_version(n) for n in names) else f"pip install crosslevel[{extra.get(name, name)}]"
        for name, names in needs.items()
    }
    if found["spark"] == "ready" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        found["spark"] = "needs a Java runtime, such as openjdk-17-jre-headless"
    return found


def collect() -> dict[str, Any]:
    """Gather the facts."""
    memory = _memory_bytes()
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "crosslevel": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gib": None if memory is None else round(memory / 2**30, 1),
        "accelerators": _accelerators(),
        "engines": _engines(),
        "packages": {name: _version(name) for name in CORE},
        "extras": {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()},
    }


def run(given: Given, job: Job) -> None:
    """Print the facts."""
    facts = collect()
    if job.as_json:
        print(json.dumps(facts, indent=2))
        return
    for name in ("crosslevel", "python", "platform", "cores"):
        print(f"{name:<13} {facts[name]}")
    print(f"{'memory':<13} {'unknown' if facts['memory_gib'] is None else str(facts['memory_gib']) + ' GiB'}")
    print(f"{'accelerators':<13} {', '.join(facts['accelerators']) or 'none'}")
    print(f"{'engines':<13} {', '.join(f'{n} ({v})' for n, v in facts['engines'].items())}")
    print(f"{'packages':<13} {', '.join(f'{n} {v}' for n, v in facts['packages'].items())}")
    print("extras")
    for extra, names in facts["extras"].items():
        missing = [n for n, v in names.items() if v is None]
        have = ", ".join(f"{n} {v}" for n, v in names.items() if v)
        print(f"  {extra:<11} {have if not missing else f'not installed: pip install crosslevel[{extra}]'}")
