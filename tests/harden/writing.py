"""Writers that are killed, interrupted, run out of disk, may not write, or meet each other: every file is the old one or the new one.

Each case is a fork of this process, which has read and compiled everything already: a case takes the time of its writing.
"""

from __future__ import annotations

import encodings.cp437  # noqa: F401 - zip files need it, and a fork that is nobody may not read Python's own folder
import os
import random
import resource
import signal
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.harden.door import Door, Fork, forked, scratch

import crosslevel as cl
from crosslevel.embedding import run as passes
from crosslevel.errors import FileError
from crosslevel.results import Estimates, Provenance

__all__ = ["run_full_disk", "run_interrupted", "run_killed", "run_permissions", "run_two_writers"]

KILLS = 100
"""Kills of each writer in a full run."""
ROWS, GROUP = 24_000, 1_000
NOBODY = 65_534


def estimates(number: int, n: int = 2000) -> Estimates:
    """Make a table that says in its call which one it is."""
    rng = np.random.default_rng(number)
    columns = {"place": [f"p{i}" for i in range(n)], "estimate": rng.random(n)}
    return Estimates.build(
        {**columns, "conf_low": np.zeros(n), "conf_high": np.ones(n)},
        keys=["place"],
        method="example",
        level=0.95,
        interval="example",
        provenance=Provenance.of(call=f"example({number})"),
    )


@cache
def people() -> pa.Table:
    """Make the people of a pass."""
    rng = np.random.default_rng(0)
    columns = {"region": rng.integers(0, 20, ROWS), "x": rng.normal(size=ROWS), "z": rng.random(ROWS)}
    return pa.table(columns)


def _people(data: object) -> cl.People:
    return cl.People(data, by="region", columns=["x", "z"])


def _embedding() -> cl.MeanEmbedding:
    return cl.MeanEmbedding(n_features=128, bandwidth=1.0).fit(_people(people()))


@cache
def _reference() -> tuple[cl.MeanEmbedding, np.ndarray]:
    model = _embedding()
    with scratch() as folder:  # files, since sums are added file by file
        _people_files(folder)
        kept = folder / "pass.state"
        return model, model.transform(_people(folder / "people"), checkpoint=kept).values


def _people_files(folder: Path) -> None:
    (folder / "people").mkdir()
    for first in range(0, ROWS, GROUP):
        pq.write_table(people().slice(first, GROUP), folder / "people" / f"part-{first:06}.parquet")


def _embed(folder: Path, number: int = 0) -> np.ndarray:
    """Embed with a checkpoint after every file."""
    del number
    passes.EVERY = 0.0
    return _reference()[0].transform(_people(folder / "people"), checkpoint=folder / "pass.state").values


def _fit(folder: Path, number: int = 0) -> np.ndarray:
    """Fit and embed by the command, with a checkpoint after every file."""
    del number
    from crosslevel.cli.app import run

    keep = passes.Checkpoint.keep
    passes.Checkpoint.keep = lambda self, *state, now=False: keep(self, *state, now=True)  # type: ignore[method-assign]
    try:
        options = ["--n-features", "128", "--bandwidth", "1.0", "--columns", "x", "--columns", "z"]
        with Path(os.devnull).open("w") as quiet, redirect_stdout(quiet), redirect_stderr(quiet):
            code = run(["embed", str(folder / "people"), "--by", "region", *options, "--out", str(folder / "out")])
        if code:
            raise KeyboardInterrupt  # the exit code of a command that was stopped while it read its options
    finally:
        passes.Checkpoint.keep = keep  # type: ignore[method-assign]
    return cl.load(folder / "out" / "embeddings.crosslevel").values


def _save(folder: Path, number: int = 0) -> int:
    cl.save(estimates(number), folder / "out.crosslevel")
    return number


def _report(folder: Path, number: int = 0) -> int:
    cl.report(estimates(number, 200), folder / "out.html")
    return number


def _document(folder: Path, number: int = 0) -> int:
    estimates(number, 30).to_docx(folder / "out.docx", caption=f"example({number})")
    return number


def _embedded(folder: Path, value: Any) -> str:
    if not np.array_equal(value, _reference()[1]):
        return "the resumed pass ends with other numbers"
    return "a checkpoint stays after the end" if list(folder.glob("*.state")) else ""


def _saved(folder: Path, value: Any) -> str:
    found = cl.load(folder / "out.crosslevel")
    whole = any(found.equals(estimates(number)) for number in (0, 1, 2))
    return "" if whole else f"the file is neither the old nor the new table (after {value})"


def _reported(folder: Path, value: Any) -> str:
    page = (folder / "out.html").read_text(encoding="utf-8")
    whole = page.rstrip().endswith("</html>") and any(f"example({number})" in page for number in (0, 1, 2))
    return "" if whole else f"the page is not whole (after {value})"


def _documented(folder: Path, value: Any) -> str:
    try:
        with zipfile.ZipFile(folder / "out.docx") as file:
            whole = file.testzip() is None and b"example(" in file.read("word/document.xml")
    except zipfile.BadZipFile:
        whole = False
    return "" if whole else f"the document is not whole (after {value})"


@dataclass(frozen=True)
class Writer:
    """One way of writing: what must lie there before, the writing, and what is wrong with what it left."""

    before: Callable[[Path], object]
    write: Callable[..., Any]
    problem: Callable[[Path, Any], str]
    file: str | None


WRITERS = {
    "embed": Writer(_people_files, _embed, _embedded, None),
    "fit": Writer(_people_files, _fit, _embedded, None),
    "save": Writer(_save, _save, _saved, "out.crosslevel"),
    "report": Writer(_report, _report, _reported, "out.html"),
    "document": Writer(_document, _document, _documented, "out.docx"),
}


@cache
def _seconds(name: str) -> float:
    """Measure one undisturbed writing, after a first that reads and compiles what the forks need."""
    with scratch() as folder:
        WRITERS[name].before(folder)
        WRITERS[name].write(folder, 1)
        begun = time.monotonic()
        WRITERS[name].write(folder, 1)
        return time.monotonic() - begun


def _disturbed(door: Door, rng: random.Random, name: str, sign: int) -> None:
    """Disturb one writing at a random moment, look at what it left, and let the next one finish."""
    writer, seconds = WRITERS[name], _seconds(name)
    with scratch() as folder:
        writer.before(folder)
        process = Fork(writer.write, folder, 1)
        moment = rng.random() * 1.2 * seconds
        time.sleep(moment)
        process.kill(sign)
        ended = process.wait()
        door.cases += 1
        where = f"{name}, {signal.Signals(sign).name} after {1000 * moment:.0f} of {1000 * seconds:.0f} ms"
        if ended == "hang":
            door.note("hang", where)
        if ended == "raised" and process.value[0] not in ("KeyboardInterrupt", "Abort"):
            door.note("crash", f"{where}: {process.value[2][-300:]}")
        if ended == "died" and sign != signal.SIGKILL:
            door.note("crash", f"{where}: the process died")
        if writer.file:
            try:
                problem = writer.problem(folder, "the signal")
            except (OSError, cl.errors.CrosslevelError) as error:
                problem = str(error)
            if problem:
                door.note("lost", f"{where}: {problem}")
        again = forked(writer.write, folder, 2)
        if again.ended != "done":
            door.note("hang" if again.ended == "hang" else "crash", f"{where}, then again: {again.value}")
        elif problem := writer.problem(folder, again.value):
            door.note("wrong", f"{where}, then again: {problem}")
        if parts := [p.name for p in folder.rglob("*.part")]:
            door.note("lost", f"{where}, then again: {parts} left behind")


def run_killed(door: Door, rng: random.Random, until: float) -> None:
    """Kill writers at random moments; the next one goes on."""
    _repeat(door, rng, until, signal.SIGKILL)


def run_interrupted(door: Door, rng: random.Random, until: float) -> None:
    """Send Ctrl-C at random moments; the next one resumes."""
    _repeat(door, rng, until, signal.SIGINT)


def _repeat(door: Door, rng: random.Random, until: float, sign: int) -> None:
    counts = dict.fromkeys(WRITERS, 0)
    while (time.monotonic() < until or not all(counts.values())) and min(counts.values()) < KILLS:
        name = min(counts, key=lambda n: counts[n])
        _disturbed(door, rng, name, sign)
        counts[name] += 1
    door.notes.append(f"{door.name}: {', '.join(f'{count} x {name}' for name, count in counts.items())}")


def _bounded(writer: Writer, folder: Path, limit: int) -> Any:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    warnings.simplefilter("ignore")
    return writer.write(folder, 1)


def run_full_disk(door: Door, rng: random.Random, until: float) -> None:
    """Let no file grow past some bytes: a sentence and the old file as it was; a pass goes on without its checkpoint."""
    names = ["save", "report", "embed", "document"]
    while (time.monotonic() < until or door.cases < len(names)) and door.cases < len(names) * KILLS:
        name = names[door.cases % len(names)]
        writer, limit = WRITERS[name], rng.choice([0, 1, rng.randrange(30_000)])
        _seconds(name)
        with scratch() as folder:
            writer.before(folder)
            process = forked(_bounded, writer, folder, limit)
            door.cases += 1
            where = f"{name}, no file over {limit} bytes"
            if process.ended in ("hang", "died"):
                door.note("hang" if process.ended == "hang" else "crash", where)
            elif process.ended == "raised" and (name == "embed" or process.value[0] != "FileError"):
                door.note("crash", f"{where}: {process.value[2][-300:]}")
            elif problem := writer.problem(folder, process.value):
                door.note("lost", f"{where}: {problem}")
            if parts := [p.name for p in folder.rglob("*.part")]:
                door.note("lost", f"{where}: {parts} left behind")


def _as_nobody(function: Callable[[], Any]) -> Any:
    """Do something as a user without rights: those of root are none that a user has."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return function()


def _forbidden(folder: Path) -> dict[str, Callable[[], Any]]:
    """List what must end with a sentence, in a folder that may be read only and with files that may not be read."""
    closed = folder / "closed"
    return {
        "save into a folder that is read-only": lambda: cl.save(estimates(1), closed / "new.crosslevel"),
        "report into a folder that is read-only": lambda: cl.report(estimates(1, 20), closed / "new.html"),
        "document into a folder that is read-only": lambda: estimates(1, 20).to_docx(closed / "new.docx"),
        "save over a file in a folder that is read-only": lambda: cl.save(estimates(1), closed / "old.crosslevel"),
        "load a file that may not be read": lambda: cl.load(folder / "secret.crosslevel"),
        **{
            f"read {kind} that may not be read": lambda kind=kind: cl.People(folder / f"secret.{kind}").answer(
                "select * from people"
            )
            for kind in ("parquet", "csv", "arrow")
        },
        "read a folder that may not be read": lambda: cl.People(folder / "nowhere"),
        "resume from a checkpoint that may not be read": lambda: _reference()[0].transform(
            _people(people()), checkpoint=folder / "secret.state"
        ),
    }


def run_permissions(door: Door, rng: random.Random, until: float) -> None:
    """Meet folders that may only be read, and files that may not be read at all."""
    _reference()
    _seconds("report")
    first = True
    while (first or time.monotonic() < until) and door.cases < KILLS:
        first = False
        with scratch() as folder:
            folder.chmod(0o755)
            (folder / "closed").mkdir()
            cl.save(estimates(0), folder / "closed" / "old.crosslevel")
            for kind in ("crosslevel", "parquet", "csv", "arrow", "state"):
                cl.save(estimates(0), folder / f"secret.{kind}")
                (folder / f"secret.{kind}").chmod(0)
            (folder / "nowhere").mkdir()
            (folder / "nowhere").chmod(0)
            (folder / "closed").chmod(0o555)
            old = (folder / "closed" / "old.crosslevel").read_bytes()
            tries = list(_forbidden(folder).items())
            rng.shuffle(tries)
            for name, action in tries:
                process = forked(_as_nobody, action)
                door.cases += 1
                refused = process.ended == "raised" and process.value[0] in ("FileError", "InputError")
                if process.ended == "done":
                    door.note("wrong", f"{name}: it was done")
                elif not refused:
                    door.note("hang" if process.ended == "hang" else "crash", f"{name}: {process.value}")
            _people_files(folder)
            process = forked(_as_nobody, lambda: _unwritable(folder))
            door.cases += 1
            if process.ended != "done" or not np.array_equal(process.value, _reference()[1]):
                door.note("lost", f"embed with a checkpoint that cannot be written: {process.ended} {process.value}")
            if (folder / "closed" / "old.crosslevel").read_bytes() != old:
                door.note("lost", "a file in a folder that is read-only has changed")
            (folder / "nowhere").chmod(0o755)


def _unwritable(folder: Path) -> np.ndarray:
    warnings.simplefilter("ignore")
    model = _reference()[0]
    passes.EVERY = 0.0
    return model.transform(_people(folder / "people"), checkpoint=folder / "closed" / "new.state").values


def _write_on(folder: Path, seconds: float, number: int) -> int:
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        _save(folder, number)
        count += 1
    return count


def run_two_writers(door: Door, rng: random.Random, until: float) -> None:
    """Let two processes write one file again and again: whoever looks sees a whole one."""
    first = True
    while first or time.monotonic() < until:
        first = False
        with scratch() as folder:
            _save(folder)
            seconds = min(2.0, max(0.5, until - time.monotonic()))
            both = [Fork(_write_on, folder, seconds, number) for number in (1, 2)]
            for _ in range(8):
                time.sleep(rng.random() * seconds / 8)
                door.cases += 1
                try:
                    problem = _saved(folder, "two writers")
                except FileError as error:
                    problem = str(error)
                if problem:
                    door.note("lost", f"two writers: {problem}")
            for process in both:
                if process.wait() != "done":
                    door.note("crash", f"two writers: {process.value}")
            if parts := [p.name for p in folder.rglob("*.part")]:
                door.note("lost", f"two writers: {parts} left behind")
