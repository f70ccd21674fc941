"""Damaged files at every reader: the answer is the table that was written, another table, or a sentence; never a crash or a hang.

A flipped byte inside a data page of Parquet or a field of a CSV is another table, which no reader can know. A saved model
carries checksums: there, anything but a refusal or the same object is wrong. A damaged checkpoint is refused, or the pass ends as if
it had never been.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from tests.harden.door import Door, Fork, scratch

import crosslevel as cl
from crosslevel.data.readers import read_acs_pums, read_brfss, read_county_votes
from crosslevel.errors import CrosslevelError, MissingExtraError
from crosslevel.results import Estimates, Provenance

__all__ = ["run"]

BATCH = 40
"""Cases a fork tries before it ends."""
N = 200


@cache
def people() -> pa.Table:
    """Make a table with a column of every kind."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "region": rng.integers(0, 9, N),
            "age": rng.normal(40, 9, N),
            "word": rng.choice(["a", "bé", "c,d", 'e"f', ""], N),
            "w": rng.random(N),
            "yes": rng.random(N) < 0.5,
        }
    )


def _saved(path: Path) -> None:
    rng = np.random.default_rng(0)
    found = Estimates.build(
        {"place": [f"place {i}" for i in range(50)], "estimate": rng.random(50)}
        | {"conf_low": np.zeros(50), "conf_high": np.ones(50)},
        keys=["place"],
        method="example",
        level=0.95,
        interval="example",
        provenance=Provenance.of(call="example()"),
        draws=rng.random((20, 50)),
    )
    cl.save(found, path)


def _compressed(path: Path) -> None:
    text = pa.BufferOutputStream()
    pyarrow.csv.write_csv(people(), text)
    path.write_bytes(gzip.compress(text.getvalue().to_pybytes(), mtime=0))


def _squares(path: Path) -> None:
    corners = [[[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]] for i in range(6)]
    features = [
        {"type": "Feature", "properties": {"name": f"n{i}"}, "geometry": {"type": "Polygon", "coordinates": ring}}
        for i, ring in enumerate(corners)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def _census(path: Path) -> None:
    rows = "".join(f"P,{i},1,0{1 + i % 3},0{2100 + i % 7},{10 + i},{20 + i % 60}\n" for i in range(60))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("psam_pusa.csv", "RT,SERIALNO,SPORDER,ST,PUMA,PWGTP,AGEP\n" + rows)


def _votes(path: Path) -> None:
    head = "year,state,county_name,county_fips,candidate,party,candidatevotes,totalvotes\n"
    rows = [f"2020,ALABAMA,C{c},{c},{n},{p},{40 + c % 9},100\n" for c in range(1001, 1040, 2)
            for n, p in (("A", "DEMOCRAT"), ("B", "REPUBLICAN"))]  # fmt: skip
    path.write_text(head + "".join(rows))


def _survey(path: Path) -> None:
    import pandas as pd
    import pyreadstat

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"_STATE": rng.integers(1, 9, 80).astype(float), "GENHLTH": rng.integers(1, 6, 80).astype(float)}
    )
    pyreadstat.write_xport(frame, str(path), file_format_version=5)


@cache
def _embedding() -> tuple[cl.MeanEmbedding, np.ndarray]:
    model = cl.MeanEmbedding(n_features=16, bandwidth=1.0).fit(_files())
    return model, model.transform(_files()).values


@cache
def _files() -> cl.People:
    """Give the people in two files, between which a pass can stop."""
    folder = Path(tempfile.mkdtemp(prefix="crosslevel-harden-"))
    for i in range(2):
        pq.write_table(people().slice(i * N // 2, N // 2), folder / f"part-{i}.parquet")
    return cl.People(folder, by="region", columns=["age", "w"])


def _state(path: Path) -> None:
    def stop(rows: int, total: int | None) -> None:
        if rows == total:
            raise KeyboardInterrupt

    try:
        _embedding()[0].transform(_files(), checkpoint=path, progress=stop)
    except KeyboardInterrupt:
        return


def _load(path: Path, good: Path) -> str:
    return "" if cl.load(path).equals(cl.load(good)) else "another object was loaded"


def _resume(path: Path, good: Path) -> str:
    del good
    model, values = _embedding()
    return (
        ""
        if np.allclose(model.transform(_files(), checkpoint=path).values, values, rtol=0, atol=1e-12)
        else "other numbers"
    )


def _table(path: Path, good: Path) -> str:
    del good
    cl.People(path).answer("select * from people")
    return ""


def _only(read: Callable[[Path], Any]) -> Callable[[Path, Path], str]:
    def attempt(path: Path, good: Path) -> str:
        del good
        found = read(path)
        if hasattr(found, "to_table"):
            found.to_table()
        return ""

    return attempt


@dataclass(frozen=True)
class Reader:
    """How a good file is written, and how a damaged one is read: "" or what was wrong with the answer."""

    name: str
    write: Callable[[Path], None]
    attempt: Callable[[Path, Path], str]


READERS = {
    "parquet": Reader("a.parquet", lambda path: pq.write_table(people(), path, row_group_size=50), _table),
    "csv": Reader("a.csv", lambda path: pyarrow.csv.write_csv(people(), path), _table),
    "csv.gz": Reader("a.csv.gz", _compressed, _table),
    "tsv": Reader(
        "a.tsv",
        lambda path: pyarrow.csv.write_csv(people(), path, pyarrow.csv.WriteOptions(delimiter="\t")),
        _table,
    ),
    "arrow": Reader("a.arrow", lambda path: pyarrow.feather.write_feather(people(), path, compression="zstd"), _table),
    "saved model": Reader("a.crosslevel", _saved, _load),
    "checkpoint": Reader("a.state", _state, _resume),
    "polygons": Reader("a.geojson", _squares, _only(cl.Polygons)),
    "census": Reader("csv_pus.zip", _census, _only(read_acs_pums)),
    "votes": Reader("countypres.csv", _votes, _only(read_county_votes)),
    "survey": Reader("LLCP.XPT", _survey, _only(read_brfss)),
}


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


def tries(reader: Reader, seed: str, folder: Path) -> None:
    """Try one batch of damaged files, writing down each before it is read."""
    good, bad = folder / f"good-{reader.name}", folder / reader.name
    reader.write(good)
    data = good.read_bytes()
    with (folder / "said").open("w", buffering=1) as said:
        for number in range(BATCH):
            bad.write_bytes(damage(data, random.Random(f"{seed}-{number}")))
            said.write(f"try {number}\n")
            try:
                problem = reader.attempt(bad, good)
            except CrosslevelError:
                continue
            except Exception as error:
                said.write(f"crash {number} {type(error).__name__}: {str(error)[:200]}".replace("\n", " ") + "\n")
                continue
            if problem:
                said.write(f"wrong {number} {problem}\n")


def _there(reader: Reader) -> bool:
    """Read a good file once, in this process; False where the reader's library is not installed."""
    with scratch() as folder:
        path = folder / reader.name
        try:
            reader.write(path)
            reader.attempt(path, path)
        except (ImportError, MissingExtraError):
            return False
    return True


def run(door: Door, rng: random.Random, until: float) -> None:
    """Send batches of damaged files of every kind to forks."""
    readers = {kind: reader for kind, reader in READERS.items() if _there(reader)}
    turn = 0
    while time.monotonic() < until or turn < len(readers):
        kind, seed = list(readers)[turn % len(readers)], f"{rng.random()}"
        turn += 1
        with scratch() as folder:
            fork = Fork(tries, readers[kind], seed, folder)
            ended = fork.wait()
            said = (folder / "said").read_text().splitlines() if (folder / "said").exists() else []
        door.cases += sum(line.startswith("try") for line in said)
        for line in said:
            if line.startswith(("wrong", "crash")):
                door.note(line[:5], f"{kind}, seed {seed}: {line[6:]}")
        if ended != "done":
            last = said[-1] if said else "before the first"
            door.note("hang" if ended == "hang" else "crash", f"{kind}, seed {seed}: {last} ({ended} {fork.value})")
    door.notes.append(f"{door.name}: {', '.join(readers)}")
