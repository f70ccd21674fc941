"""Ask one function every case of a folder, in a process of its own; needs numpy alone, so that it runs in any environment.

    python bench/worker.py MODULE:FUNCTION FOLDER     # a module of this folder, or the path of a file of yours

A case is ``N.npz``; its answer is written to ``N.answer.npz``, why there is none to ``N.why``, seconds and peak memory to ``run.json``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def answer(method: Callable[[dict[str, np.ndarray]], Any], given: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Ask a function one case: (estimate,) or (estimate, low, high), also of a table with such columns."""
    made = method(given)
    if hasattr(made, "to_frame"):
        low, high = made["conf_low"], made["conf_high"]
        made = made["estimate"], low, high
    elif not isinstance(made, tuple):
        made = (made,)
    return tuple(np.asarray(values, dtype=float).ravel() for values in made if values is not None)


def peak() -> float:
    """MiB at the peak of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    """Answer the cases in their order; a case that fails is named and does not stop the others."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    module, _, function = name.rpartition(":")
    sys.path[:0] = [str(Path(module).parent if module.endswith(".py") else Path(__file__).parent)]
    method = getattr(importlib.import_module(Path(module).stem if module.endswith(".py") else module), function)
    warnings.simplefilter("ignore")
    seconds = []
    for path in sorted(folder.glob("*[0-9].npz")):
        with np.load(path) as file:
            given = {key: file[key] for key in file.files}
        begun = time.process_time()
        try:
            made = answer(method, given)
            np.savez(path.with_suffix(".answer.npz"), *made)
        except Exception as error:  # a method may refuse a case: its row says so
            path.with_suffix(".why").write_text(f"{type(error).__name__}: {error}"[:300])
        seconds.append(time.process_time() - begun)
    (folder / "run.json").write_text(json.dumps({"seconds": seconds, "memory": peak()}))


if __name__ == "__main__":
    main()
