"""Damaged files at every reader: the answer is the table that was written, another table, or a sentence; never a crash or a hang.

A flipped byte inside a data page of Parquet or a field of a CSV is another table, which no reader can know. A saved model
carries checksums: there, anything but a refusal or the same object is wrong.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from tests.harden.door import Door, child, scratch

__all__ = ["run"]

BATCH = 60
"""Cases a child process tries before it ends."""


def write(kind: str, path: Path) -> None:
    """Write a good file."""
    rng = np.random.default_rng(0)
    n = 200
    table = pa.table(
        {
            "region": rng.integers(0, 9, n),
            "age": rng.normal(40, 9, n),
            "word": rng.choice(["a", "bé", "c,d", 'e"f', ""], n),
            "w": rng.random(n),
            "yes": rng.random(n) < 0.5,
        }
    )
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=50)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, path)
    elif kind == "arrow":
        pyarrow.feather.write_feather(table, path, compression="zstd")
    else:
        import crosslevel as cl
        from crosslevel.results import Estimates, Provenance

        names = [f"place {i}" for i in range(50)]
        found = Estimates.build(
            {"place": names, "estimate": rng.random(50), "conf_low": np.zeros(50), "conf_high": np.ones(50)},
            keys=["place"],
            method="example",
            level=0.95,
            interval="example",
            provenance=Provenance.of(call="example()"),
            draws=rng.random((20, 50)),
        )
        cl.save(found, path)


SUFFIX = {"parquet": ".parquet", "csv": ".csv", "arrow": ".arrow", "crosslevel": ".crosslevel"}


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes, cut the file, repeat or remove a stretch, or put text in."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out) + 1) if out else 0
        what = rng.randrange(6)
        if what == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del out[at:]
        elif what == 2:
            del out[at : at + rng.randrange(1, 40)]
        elif what == 3:
            out[at:at] = out[at : at + rng.randrange(1, 200)]
        elif what == 4:
            out[at:at] = rng.choice([b"\x00", b"\xff\xfe", b'"', b"\r\n", b"1e999", b"NaN", b"\xc3", b",,,", b"-"])
        elif out:
            out[at % len(out)] = rng.choice([0, 255, 127, 128])
    return bytes(out)


def attempt(kind: str, path: Path, good: object) -> str:
    """Read one file; give "" or what was wrong with the answer."""
    from crosslevel.errors import CrosslevelError

    try:
        if kind == "crosslevel":
            import crosslevel as cl

            return "" if cl.load(path).equals(good) else "another object was loaded"
        from crosslevel.data.batches import open_batches

        open_batches(path).to_table()
    except CrosslevelError:
        return ""
    return ""


def tries(kind: str, seed: str, folder: Path, say: Callable[[str], None]) -> None:
    """Try one batch of damaged files, announcing each before it is read."""
    good_path = folder / f"good{SUFFIX[kind]}"
    write(kind, good_path)
    good = None
    if kind == "crosslevel":
        import crosslevel as cl

        good = cl.load(good_path)
    data, path = good_path.read_bytes(), folder / f"bad{SUFFIX[kind]}"
    for number in range(BATCH):
        path.write_bytes(damage(data, random.Random(f"{seed}-{number}")))
        say(f"try {number}")
        try:
            if problem := attempt(kind, path, good):
                say(f"wrong {number} {problem}")
        except Exception as error:
            say(f"crash {number} {type(error).__name__}: {str(error)[:200]}".replace("\n", " "))
    say("done")


def run(door: Door, rng: random.Random, until: float) -> None:
    """Send batches of damaged files of every kind to child processes."""
    kinds = list(SUFFIX)
    turn = 0
    while time.monotonic() < until or turn < len(kinds):
        kind, seed = kinds[turn % len(kinds)], f"{rng.random()}"
        turn += 1
        with scratch() as folder:
            code = "import sys; from tests.harden.readers import main; main(*sys.argv[1:])"
            try:
                done = child(code, kind, seed, str(folder), timeout=120.0)
                said, dead = done.stdout.splitlines(), done.returncode
            except subprocess.TimeoutExpired as stopped:
                said, dead = (stopped.stdout or b"").decode().splitlines(), None
        door.cases += sum(line.startswith("try") for line in said)
        for line in said:
            if line.startswith(("wrong", "crash")):
                door.note(line[:5], f"{kind}, seed {seed}: {line[6:]}")
        if not said or said[-1] != "done":
            last = said[-1] if said else "before the first"
            door.note("hang" if dead is None else "crash", f"{kind}, seed {seed}: {last} (exit {dead})")


def main(kind: str, seed: str, folder: str) -> None:
    """Run a batch in this process."""

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    tries(kind, seed, Path(folder), say)
