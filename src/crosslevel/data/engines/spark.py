"""Spark: pieces as tasks of ``mapInArrow``, whose states come back as bytes in an Arrow column."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from crosslevel.data.batches.sources import Part, Request, Source
from crosslevel.data.engines import (
    Failure,
    Node,
    Task,
    check_versions,
    count_pieces,
    merge_nodes,
    name_piece,
    run_piece,
    versions,
)
from crosslevel.errors import CrosslevelError, EngineError, InputError, MissingExtraError

SCHEMA = "first long, part int, state binary"
ARROW = pa.schema([("first", pa.int64()), ("part", pa.int32()), ("state", pa.binary())])
PART = 1 << 24
"""Bytes of a state in one row, so that none is too long for a buffer of Arrow."""
WAVES = 4
"""Tasks per core in a job; after each job what was done is kept."""


_ASKED: set[tuple[str, ...]] = set()
"""Sessions whose workers were found to have the versions of this process."""


class SparkEngine:
    """Executors of a Spark session.

    Parameters
    ----------
    session : SparkSession or "spark"
        "spark" is the session that is active in this process, or one that is started with this process's Python on the workers.
    """

    name = "spark"

    def __init__(self, session: object = "spark") -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise MissingExtraError(
                "engine='spark' needs pyspark, which is not installed; pip install crosslevel[spark]."
            ) from error
        if isinstance(session, SparkSession):
            self.session: Any = session
        elif session == "spark":
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            self.session = SparkSession.getActiveSession() or SparkSession.builder.appName("crosslevel").getOrCreate()
        else:
            raise EngineError(f"engine={session!r} is no SparkSession; pass the session, or engine='spark'.")

    @property
    def _cores(self) -> int:
        return max(int(self.session.sparkContext.defaultParallelism), 1)

    def describe(self) -> str:
        """Say where it runs."""
        return f"spark ({self.session.sparkContext.master})"

    def check(self, expected: dict[str, str]) -> None:
        """Refuse workers whose Python or crosslevel is another; a session is asked once, and every task looks again."""
        asked = (self.session.sparkContext.applicationId, *expected.values())
        if asked in _ASKED:
            return
        found = self._collect(self.session.range(0, self._cores, 1, self._cores), _report, "the versions")
        for seen in found.values():
            check_versions(expected, seen, "a Spark worker")
        _ASKED.add(asked)

    def run(self, task: Task, groups: Sequence[tuple[int, ...]]) -> Iterator[Node | Failure]:
        """Run a few groups per core in one job, and the next when it is done."""
        frame = next((s.frame for s in task.stream.sources if isinstance(s, SparkSource)), None)
        shipped = self.session.sparkContext.broadcast(pickle.dumps(task))
        try:
            size = WAVES * self._cores
            for at in range(0, len(groups), size):
                some = groups[at : at + size]
                rows, work = frame, partial(_run_partition, shipped, frozenset(g[0] for g in some))
                if frame is None:
                    rows = self.session.range(0, len(some), 1, len(some))
                    work = partial(_run_groups, shipped, tuple(some))
                named = " to ".join(name_piece(task.stream, g[0]) for g in (some[0], some[-1]))
                found = self._collect(rows, work, f"pieces {named}")
                for first in sorted(found):
                    yield from found[first]
                if frame is not None:  # a partition without rows may not even start a task
                    yield from (Node(g, 0, 0.0, task.work(iter(()), g[0])) for g in some if g[0] not in found)
        finally:
            shipped.destroy()

    def _collect(self, rows: Any, work: Callable[..., Any], what: str) -> dict[int, Any]:
        """Run a job and put the states together that it gave in parts, each once."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of versions of pandas, which is not used here
                made = rows.mapInArrow(work, SCHEMA)
                table = made.toArrow() if hasattr(made, "toArrow") else pa.Table.from_batches(made._collect_as_arrow())
        except CrosslevelError:
            raise
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if "Error: " in line or "Exception: " in line]
            ours = [line.partition("Error: ")[2] for line in lines if line.startswith("crosslevel.errors.")]
            cause = ours[-1] if ours else (lines or [str(error)[:400]])[-1]
            raise EngineError(
                f"{self.describe()} gave up on {what} after its retries: {cause} With checkpoint= what was done before is kept."
            ) from error
        parts: dict[int, dict[int, bytes]] = {}
        for first, part, state in zip(*(table[name].to_pylist() for name in ARROW.names), strict=True):
            parts.setdefault(first, {})[part] = state
        return {first: pickle.loads(b"".join(kept[i] for i in sorted(kept))) for first, kept in parts.items()}


def _sent(first: int, answer: object) -> Iterator[pa.RecordBatch]:
    """Lay an answer out as rows of bytes."""
    data = pickle.dumps(answer, protocol=5)
    for part, at in enumerate(range(0, len(data), PART)):
        yield pa.record_batch([[first], [part], [data[at : at + PART]]], schema=ARROW)


def _report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _sent(number, versions())


def _run_groups(
    shipped: Any, groups: Sequence[tuple[int, ...]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compute the groups whose numbers are the rows; the workers read their files themselves."""
    task: Task = pickle.loads(shipped.value)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _sent(groups[number][0], _answers(task, groups[number], {}))


def _run_partition(shipped: Any, wanted: frozenset[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute the partition that this task has the rows of."""
    from pyspark import TaskContext

    piece = TaskContext.get().partitionId()
    task: Task = pickle.loads(shipped.value)
    if piece in wanted:
        yield from _sent(piece, _answers(task, (piece,), {piece: batches}))
    elif piece >= count_pieces(task.stream):
        raise EngineError(
            f"the Spark DataFrame has a partition {piece}, and had {count_pieces(task.stream)} when it was opened; its plan changes while "
            "it runs. Call people.persist(), or write it to parquet, and pass that."
        )


def _answers(task: Task, group: tuple[int, ...], given: Mapping[int, object]) -> list[Node | Failure]:
    """Compute the pieces of a group, merged where none failed; errors that a retry cannot mend are answers."""
    found: list[Node | Failure] = []
    for piece in group:
        try:
            found.append(run_piece(task, piece, given.get(piece)))
        except EngineError:
            raise
        except CrosslevelError as error:
            found.append(Failure(piece, type(error)(str(error))))
    nodes = [n for n in found if isinstance(n, Node)]
    return [merge_nodes(nodes)] if len(nodes) == len(found) else found


class SparkSource(Source):
    """A Spark DataFrame: a piece for every partition, which only the workers read."""

    unit = "partition"

    def __init__(self, frame: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.name = "Spark DataFrame"
        self.frame = frame
        self.n_parts = max(int(frame.rdd.getNumPartitions()), 1)
        self._token = int(frame.semanticHash())
        self.schema = to_arrow_schema(frame.schema)
        self._rows: int | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows, counted by Spark: what the passes are compared with."""
        if self._rows is None:
            self._rows = int(self.frame.count())
        return self._rows

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Refuse: its rows do not come here."""
        raise InputError(
            "people is a Spark DataFrame, which only engine='spark' reads; pass that, or people.toArrow()."
        )

    def stamp(self) -> list[object]:
        """Tell this DataFrame from another by what makes it."""
        return [self.name, self.n_parts, self._token]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "frame": None}
