"""Writers that are killed, run out of disk or meet each other: the file is the old one or the new one, whole."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harden.door import ROOT, Door, scratch

__all__ = ["run_full_disk", "run_killed", "run_two_writers"]

PREPARE = """
import sys, json, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
import crosslevel as cl
from crosslevel.results import Estimates, Provenance
folder = Path(sys.argv[1])

def estimates(number, n=4000):
    rng = np.random.default_rng(number)
    return Estimates.build(
        {"place": [f"p{i}" for i in range(n)], "estimate": rng.random(n), "conf_low": np.zeros(n), "conf_high": np.ones(n)},
        keys=["place"], method="example", level=0.95, interval="example", provenance=Provenance.of(call=f"example({number})"))
"""

WRITERS = {
    "save": "cl.save(estimates(number), folder / 'out.crosslevel')",
    "report": "cl.report(estimates(number, 300), folder / 'out.html')",
    "embed": (
        "cl.MeanEmbedding(n_features=256, random_state=0).fit(people, by='region', columns=['x', 'z'])"
        ".transform(people, by='region', checkpoint=folder / 'pass.checkpoint')"
    ),
}
PEOPLE = """
people = folder / 'people.parquet'
if not people.exists():
    rng = np.random.default_rng(0)
    n = 400_000
    pq.write_table(pa.table({"region": rng.integers(0, 20, n), "x": rng.normal(size=n), "z": rng.random(n)}), people, row_group_size=20_000)
"""
LOOP = """
print("ready", flush=True)
number = 0
while True:
    number += 1
    {writer}
    print("wrote", number, flush=True)
"""


def _start(what: str, folder: Path, limit: int | None = None) -> subprocess.Popen[str]:
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    code = PREPARE + (PEOPLE if what == "embed" else "") + LOOP.format(writer=WRITERS[what])

    def bounded() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        preexec_fn=bounded,
    )


def _whole(what: str, folder: Path) -> str:
    """Say what is wrong with what lies in the folder, or nothing."""
    import crosslevel as cl

    if what == "save":
        path = folder / "out.crosslevel"
        if not path.exists():
            return "the file is gone"
        return "" if len(cl.load(path)) == 4000 else "the file is not whole"
    if what == "report":
        path = folder / "out.html"
        if not path.exists():
            return "the file is gone"
        return "" if path.read_text().rstrip().endswith("</html>") else "the page is not whole"
    return ""


def run_killed(door: Door, rng: random.Random, until: float) -> None:
    """Kill writers at random moments; then look at what they left, and let the next one go on."""
    while time.monotonic() < until or door.cases < len(WRITERS):
        what = list(WRITERS)[door.cases % len(WRITERS)]
        with scratch() as folder:
            process = _start(what, folder)
            assert process.stdout is not None
            process.stdout.readline()
            if what != "embed":
                process.stdout.readline()  # one whole file is there, which must never be lost
            time.sleep(rng.random() * (1.5 if what == "embed" else 0.6))
            process.send_signal(signal.SIGKILL)
            process.wait()
            door.cases += 1
            if problem := _whole(what, folder):
                door.note("lost", f"{what}: {problem}")
            _go_on(door, what, folder)


def _go_on(door: Door, what: str, folder: Path) -> None:
    process = _start(what, folder)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    line = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    said = process.stderr.read()
    process.wait()
    if not line.startswith("wrote"):
        door.note("crash", f"{what} after a kill: {said[-300:]}")
    elif problem := _whole(what, folder):
        door.note("lost", f"{what}, written again: {problem}")


def run_full_disk(door: Door, rng: random.Random, until: float) -> None:
    """Let the disk be full after some bytes: a sentence, and the old file as it was."""
    while time.monotonic() < until or door.cases < 2:
        what = ["save", "report"][door.cases % 2]
        with scratch() as folder:
            good = _start(what, folder)
            assert good.stdout is not None
            good.stdout.readline()
            good.stdout.readline()
            good.send_signal(signal.SIGKILL)
            good.wait()
            process = _start(what, folder, limit=rng.randrange(0, 30_000))
            try:
                _, said = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                door.cases += 1
                continue  # the limit was above what the file needs
            door.cases += 1
            if "FileError" not in said:
                door.note("crash", f"{what}: {said[-300:]}")
            if problem := _whole(what, folder):
                door.note("lost", f"{what}, disk full: {problem}")
            if parts := [p.name for p in folder.iterdir() if p.name.endswith(".part")]:
                door.note("lost", f"{what}, disk full: {json.dumps(parts)} left behind")


def run_two_writers(door: Door, rng: random.Random, until: float) -> None:
    """Let two processes write one file again and again: whoever looks sees a whole one."""
    while time.monotonic() < until or door.cases < 1:
        with scratch() as folder:
            both = [_start("save", folder) for _ in range(2)]
            for process in both:
                assert process.stdout is not None
                process.stdout.readline()
                process.stdout.readline()
            for _ in range(20):
                door.cases += 1
                if problem := _whole("save", folder):
                    door.note("lost", f"two writers: {problem}")
                time.sleep(rng.random() * 0.1)
            for process in both:
                process.send_signal(signal.SIGKILL)
                process.wait()
