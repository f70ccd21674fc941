"""One pass over the people: ask for their rows, let an engine sum them, add the sums up, keep checkpoints.

A checkpoint is one file: the sums of the files of people that are done, and how many these are. It is written whole or not at all, and
belongs to one job: the same files, columns, bags and feature map.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.atomic import clear_parts, whole_file
from crosslevel.data.expressions import ALL
from crosslevel.data.people import People
from crosslevel.data.people_columns import check_rows
from crosslevel.data.progress import follow
from crosslevel.data.sql import Spark
from crosslevel.embedding.chunks import Recipe, number_rows
from crosslevel.embedding.engines import find_engine
from crosslevel.embedding.state import BagSums
from crosslevel.errors import CrosslevelWarning, FileError, InputError
from crosslevel.numerics.features import FeatureMap
from crosslevel.typing import Progress

FORMAT = 2
"""Of checkpoints."""
EVERY = 30.0
"""Seconds between two writings of a checkpoint, at least."""


def run_pass(
    people: People,
    recipe: Recipe,
    feature_map: FeatureMap,
    engine: str = "local",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> BagSums:
    """Sum the features of all people over their bags.

    Parameters
    ----------
    people : People
    recipe : Recipe
    feature_map : FeatureMap
    engine : str
        What sums people of this process; those of Spark are summed by its workers.
    checkpoint : path, optional
        A file that the sums are written to now and then where people are in files; a pass that finds it resumes from there.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called with rows done and rows in all.
    """
    if isinstance(people.table, Spark) and engine != "local":
        raise InputError(f"engine={engine!r} is for people of this process, and these are Spark's; leave it out.")
    total = check_rows(people)
    with follow(progress, "Embedding people") as tell:
        if isinstance(people.table, Spark):
            from crosslevel.embedding.engines.spark import sum_on_workers

            state = sum_on_workers(people, recipe, feature_map)
            if tell is not None:
                tell(total, total)
        else:
            state = _sum_here(people, recipe, feature_map, engine, checkpoint, total, tell)
    rows = int(sum(bag[0] for key, bag in state.bags.items() if not recipe.subgroups or key[-1] == ALL))
    if rows != total:
        raise InputError(f"people had {total:,} rows, and {rows:,} when they were embedded; embed them again.")
    return state


def _sum_here(
    people: People, recipe: Recipe, feature_map: FeatureMap, engine: str, checkpoint: Any, total: int, tell: Any
) -> BagSums:
    """Sum people of this process; the sums of a file that is under way are apart until it is done."""
    work = find_engine(engine)
    file = None if checkpoint is None else Checkpoint(checkpoint, describe_job(people, recipe, feature_map, engine))
    state = BagSums(recipe.names, recipe.parts)
    done, rows = (0, 0) if file is None else file.begin(state)
    parts: Sequence[Path | None] = () if file is None else people.table.parts
    parts = parts or (None,)
    ended: tuple[BagSums, int, int] | None = None  # what may be written; nothing while a file is being added
    try:
        for number in range(done, len(parts)):
            part = state if file is None else BagSums(recipe.names, recipe.parts)
            with closing(people.batches(recipe.query, work.chunk_rows, file=parts[number])) as batches:
                for sums in work.sum_chunks(recipe, feature_map, number_rows(batches)):
                    part.add(sums)
                    rows += sums.rows
                    if tell is not None:
                        tell(rows, total)
            if file is not None:
                ended = None
                state.merge(part)
                ended = (state, number + 1, rows)
                file.keep(*ended)
    except BaseException:
        if file is not None and ended is not None:
            file.keep(*ended, now=True)
        raise
    if file is not None:
        file.done()
    return state


def describe_job(people: People, recipe: Recipe, feature_map: FeatureMap, engine: str) -> str:
    """Name a job by a digest of what its sums depend on."""
    files = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in people.table.parts]
    columns = [column.facts() for column in recipe.encoder.columns]
    arrays = [hashlib.sha256(array.tobytes()).digest() for array in feature_map.to_arrays().values()]
    facts = [FORMAT, files, people.where, recipe.query, recipe.parts, columns, recipe.encoder.unknown, arrays, engine]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


class Checkpoint:
    """The file that a pass writes now and then, and may begin from.

    Parameters
    ----------
    path : path
        Where it lies.
    job : str
        Digest of the job.
    """

    def __init__(self, path: str | os.PathLike[str], job: str) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"checkpoint={path!r} is no path; name a file.")
        self.path, self.job = Path(path), job
        self._last, self._said = time.monotonic(), False

    def begin(self, state: BagSums) -> tuple[int, int]:
        """Fill an empty state with the sums to resume from; give the numbers of files and of rows in them."""
        try:
            there, begun = self.path.resolve().parent.is_dir(), self.path.exists()
        except (OSError, ValueError) as error:  # too long, a null byte, half a pair of surrogates
            raise FileError(f"checkpoint={str(self.path)[:80]!r} is no name of a file ({error!s:.80}).") from error
        if not there:
            raise FileError(f"checkpoint={str(self.path)!r}: its folder does not exist.")
        clear_parts(self.path)  # a pass that was killed while it wrote left one, and this one may never write
        if not begun:
            return 0, 0
        facts = self._read(state)
        if facts["job"] != self.job:
            raise InputError(
                f"checkpoint={str(self.path)!r} belongs to another job (other people, columns, bags, embedding or version); "
                "delete it to begin anew."
            )
        return facts["files"], facts["rows"]

    def keep(self, state: BagSums, files: int, rows: int, now: bool = False) -> None:
        """Write the sums of the first files if it is time to.

        Sums that cannot be written do not end the pass: it is said once, and tried again when it is time.
        """
        if not now and time.monotonic() - self._last < EVERY:
            return
        # keys may be dates or decimals, which JSON has not
        keys = pa.BufferOutputStream()
        with pa.ipc.new_stream(keys, (table := state.key_table()).schema) as stream:
            stream.write_table(table)
        facts, sums = json.dumps({"job": self.job, "files": files, "rows": rows}), list(state.bags.values())
        try:
            with whole_file(self.path) as beside, beside.open("wb") as out:
                np.savez(out, facts=np.array(facts), keys=np.frombuffer(keys.getvalue(), dtype=np.uint8), sums=sums)
        except (FileError, OSError) as error:
            self._say(f"the checkpoint was not written, and the pass goes on without it: {error}")
        self._last = time.monotonic()

    def done(self) -> None:
        """Remove the file: the pass has ended."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"the checkpoint {self.path} cannot be removed ({error.strerror or error}); delete it.")

    def _say(self, text: str) -> None:
        if not self._said:
            warnings.warn(text, CrosslevelWarning, stacklevel=6)
        self._said = True

    def _read(self, state: BagSums) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                facts, keys, sums = (kept[name] for name in ("facts", "keys", "sums"))
            state.restore(pa.ipc.open_stream(keys.tobytes()).read_all(), sums)
            return dict(json.loads(str(facts)))
        except (
            *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, TypeError, EOFError, AttributeError),
            RuntimeError,  # "encrypted", and unknown compression, which is a NotImplementedError
        ) as error:
            raise FileError(f"{self.path} is not a whole checkpoint ({error}); delete it.") from error
