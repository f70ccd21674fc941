"""Compile kernels with numba, cached so that a changed kernel is never run from old machine code.

numba keys a cached function by the file it stands in. A function that calls a kernel of another file has that kernel's machine code
inside its own, and would go on running it after the other file has changed. So the folder of the cache is named by a hash of the
sources of all kernels and of the modules they import from. Folders that no process has used for ``KEPT_DAYS`` are removed when a new
one is made. ``NUMBA_CACHE_DIR`` says where the folders lie; otherwise it is ``__pycache__`` of the package, or the user's cache where
that cannot be written.

Every kernel of crosslevel is decorated with :func:`njit` of this module. Importing it imports numba.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

KEPT_DAYS = 30
PACKAGE = Path(__file__).parents[1]
PREFIX = "crosslevel-kernels-"
_IMPORTED = re.compile(rb"^\s*from crosslevel\.([\w.]+) import", re.MULTILINE)
_LOCK = threading.Lock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit(cache=True, **options)`` does, cached by the sources of all kernels.

    Examples
    --------
    >>> @njit(nogil=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """
    folder = cache_folder()

    def compiled(function: Callable[..., Any]) -> Any:
        cached = folder is not None and Path(function.__code__.co_filename).is_file()
        with _LOCK:  # numba reads the folder from its configuration, which is everybody's
            before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder) if cached else ""
            try:
                return numba.njit(**{**options, "cache": cached})(function)
            finally:
                numba.config.CACHE_DIR = before

    return compiled


@cache
def cache_folder() -> Path | None:
    """Give the folder of this version's machine code, made where it was not there; None where nothing can be written."""
    said = numba.config.CACHE_DIR
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosslevel"
    for base in [Path(said)] if said else [PACKAGE / "__pycache__", user]:
        folder = base / f"{PREFIX}{source_hash(PACKAGE)}"
        with suppress(OSError):
            new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)  # in use
            if new:
                _remove_unused(base)
            return folder
    return None


def source_hash(package: Path) -> str:
    """Hash the sources of all modules with kernels, and of those that they import from."""
    sources = {path: path.read_bytes() for path in sorted(package.rglob("*.py"))}
    kernels = [path for path, text in sources.items() if b"njit" in text]
    named = {name.decode().replace(".", "/") for path in kernels for name in _IMPORTED.findall(sources[path])}
    used = {package / f"{name}{end}" for name in named for end in (".py", "/__init__.py")} | set(kernels)
    digest = hashlib.sha256()
    for path in sorted(used & sources.keys()):
        digest.update(f"{path.relative_to(package).as_posix()} {len(sources[path])}\n".encode() + sources[path])
    return digest.hexdigest()[:16]


def _remove_unused(base: Path) -> None:
    limit = time.time() - KEPT_DAYS * 86_400
    for folder in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < limit:
                shutil.rmtree(folder)
