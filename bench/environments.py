"""Where methods run: this environment, a virtual one for each peer and for version 0.2 in ``.cache/``, or R.

``CROSSLEVEL_PEERS`` names another folder than ``.cache/peers``. What cannot be made is no error: its rows say why they are empty.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKER, R_WORKER = Path(__file__).with_name("worker.py"), Path(__file__).parent / "methods" / "peers.R"
PACKAGES = {"GPy": ["numpy<2", "scipy<1.13", "matplotlib", "GPy"], "PyEI": ["pyei"], "tobler": ["tobler", "astropy"]}
PREVIOUS = "5eb1304"
"""The last commit of version 0.2."""
EXTRAS = "bayes,geo,report"


@cache
def interpreter(name: str) -> tuple[str, str]:
    """Return the Python of an environment, made where it is not there; or why there is none."""
    if not name:
        return sys.executable, ""
    folder = Path(os.environ.get("CROSSLEVEL_PEERS", ROOT / ".cache" / "peers")) / name
    python = folder / "bin" / "python"
    if not (folder / ".done").exists():
        print(f"making an environment for {name} in {folder} ...", file=sys.stderr, flush=True)
        try:
            venv.create(folder, with_pip=True, clear=True)
            _install(python, name)
        except (OSError, subprocess.CalledProcessError) as error:
            said = str(getattr(error, "stderr", "") or error).strip().splitlines()
            return "", f"not installed: {said[-1][:120] if said else 'no reason given'}"
        (folder / ".done").touch()
    return str(python), ""


def _install(python: Path, name: str) -> None:
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    if name in PACKAGES:
        subprocess.run([*pip, *PACKAGES[name]], check=True, capture_output=True, text=True)
        return
    archive = subprocess.run(["git", "archive", PREVIOUS], cwd=ROOT, check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as sources:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(sources, filter="data")
        wanted = ["-c", "constraints.txt", f".[{EXTRAS}]", "pandas"]
        subprocess.run([*pip, *wanted], cwd=sources, check=True, capture_output=True, text=True)


@cache
def r_version(package: str) -> str:
    """Return the version of a package of R; empty where it, or R, is not installed."""
    if shutil.which("Rscript") is None:
        return ""
    code = f"if (requireNamespace('{package}', quietly = TRUE)) cat(as.character(packageVersion('{package}')))"
    return subprocess.run(["Rscript", "-e", code], capture_output=True, text=True).stdout.strip()


def command(function: str, environment: str, folder: Path) -> tuple[list[str], str]:
    """Return what asks a function the cases of a folder, or why nothing does."""
    if environment.startswith("R:"):
        if not r_version(environment[2:]):
            return [], "not installed"
        return ["Rscript", str(R_WORKER), function, str(folder)], ""
    python, why = interpreter(environment)
    return ([python, "-W", "ignore", str(WORKER), function, str(folder)] if python else []), why


def variables(environment: str) -> dict[str, str]:
    """Return the variables a method runs with: one thread; in an environment of its own, none of this package's paths."""
    out = {k: v for k, v in os.environ.items() if not environment or k != "PYTHONPATH"}
    return out | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
