"""The same bits whatever the number of threads, from one process to the next, and whatever the kind of frame.

Every case of the contract is fitted in processes with other settings of their threads and other hash seeds; the digest of each answer
must be the same. Rows and columns in other orders are told apart by :mod:`tests.harden.laws`; here the kinds of frames are compared to
the last bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.harden.door import ROOT, Door
from tests.harden.worlds import KINDS, WORLDS

from crosslevel.errors import CrosslevelError

__all__ = ["digest", "run"]

SETTINGS = [
    {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
    {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "4", "PYTHONHASHSEED": "1"},
    {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2", "PYTHONHASHSEED": "2", "JOBS": "3"},
]
"""BLAS keeps one thread: sums of its own threads differ in the last digit, which is not ours to change."""
SLOW = ("CUDIA", "BinnedGP, polygons by features")
"""Cases whose class has a quicker one."""
CODE = "import sys; from tests.harden.orders import fit_all; fit_all(sys.argv[1:])"


def digest(answer: Any) -> str:
    """Name an answer by all its bits."""
    from tests.contract.test_parameters import numbers

    found = hashlib.sha256()
    for name, array in sorted(numbers(answer).items()):
        data = (
            np.array2string(array, threshold=10**9) if array.dtype == object else np.ascontiguousarray(array).tobytes()
        )
        found.update(name.encode() + (data.encode() if isinstance(data, str) else data))
    return found.hexdigest()


def fit_all(names: Sequence[str]) -> None:
    """Fit the named cases and print the digest of each answer."""
    import warnings

    from tests.contract.cases import CASES

    warnings.simplefilter("ignore")
    jobs = int(os.environ.get("JOBS", "1"))
    for case in CASES:
        if case.name in names:
            given = {"n_jobs": jobs} if "n_jobs" in case.make().get_params(deep=False) else {}
            print(json.dumps([case.name, digest(case.answer(case.fit(case.make(**given))))]), flush=True)


def _fitted(names: Sequence[str], settings: dict[str, str]) -> tuple[dict[str, str], str]:
    env = dict(os.environ, **settings)
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", CODE, *names],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines()), done.stderr


def _threads(door: Door, names: Sequence[str]) -> None:
    told = [_fitted(names, settings) for settings in SETTINGS]
    for name in names:
        door.cases += len(SETTINGS)
        found = {answers.get(name) for answers, _ in told}
        if None in found:
            door.note("crash", f"{name}: {told[0][1][-300:]}")
        elif len(found) > 1:
            door.note("wrong", f"{name}: other bits with other threads")


def run(door: Door, rng: random.Random, until: float) -> None:
    """Compare processes with other threads, then kinds of frames."""
    from tests.contract.cases import CASES

    if until - time.monotonic() > 60:
        _threads(door, [case.name for case in CASES if case.name not in SLOW])
    while time.monotonic() < until or door.cases < 4:
        world, seed = WORLDS[rng.choice(list(WORLDS))], rng.randrange(2**32)
        data = world.make(np.random.default_rng(seed))
        try:
            digests = {kind: digest(dict(world.told(data, kind))) for kind in KINDS}
        except CrosslevelError:
            continue
        door.cases += len(KINDS)
        if len(set(digests.values())) > 1:
            door.note("wrong", f"{world.name}, seed {seed}: other bits from other kinds of frames: {digests}")
