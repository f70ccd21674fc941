"""Engines that go over a stream on other processes or machines: ``spark``, or one that is passed.

One protocol. A pass is a function of the batches of one piece (a row group, a file, a partition) that gives a state, and states
merge. An engine runs that function, found by its name on the workers, for the pieces it is given, and hands back a :class:`Node` for
every one; a :class:`Ledger` puts nodes together in the order of pieces, each once. So a piece that was computed twice, because a
worker died or was slow, counts once, and the same pieces give the same bits, whatever ran where.
"""

from __future__ import annotations

import copy
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from crosslevel.data.batches import Batches
from crosslevel.data.batches.stream import FrameSource
from crosslevel.data.frames import is_frame, to_arrow
from crosslevel.errors import CrosslevelError, EngineError, FileError, InputError, listed, unknown_name
from crosslevel.typing import Tell

__all__ = [
    "ClusterEngine",
    "Failure",
    "Ledger",
    "Node",
    "OnEngine",
    "Task",
    "Work",
    "check_versions",
    "count_pieces",
    "find_cluster",
    "gather",
    "merge_nodes",
    "name_piece",
    "run_pass_on",
    "run_piece",
    "spread",
    "verify_weight",
    "versions",
]

FAN = 8
"""Pieces that are merged where they were summed, at most, before they travel."""
FEW = 64
"""Up to this many pieces each travels alone."""


FRAME_ROWS = 65_536
"""Rows of a piece of a frame in memory: eight chunks of the local engine."""


class Work(Protocol):
    """What is done with the batches of a piece: an object that pickles by the name of its class.

    It gives a state with ``merge(other)``, which adds the state of other people in place and gives itself.
    """

    @property
    def weight(self) -> str | None:
        """Column of weights."""

    def __call__(self, batches: Iterator[pa.RecordBatch], piece: int) -> Any:
        """Give the state of a piece; rows are counted from its first."""


@dataclass(frozen=True, eq=False)
class Task:
    """What every worker of a pass is given.

    Attributes
    ----------
    stream : Batches
        With the columns and the batch size that the work wants.
    work : Work
    versions : dict
        Of the process that started the pass.
    """

    stream: Batches
    work: Work
    versions: dict[str, str] = field(default_factory=lambda: versions())


@dataclass(frozen=True, eq=False)
class Node:
    """What neighboring pieces add up to.

    Attributes
    ----------
    pieces : tuple of int
    rows : int
    weight : float
        Sum of the weight column as it was read, apart from what the work made of it; of rows where there is none.
    state
    """

    pieces: tuple[int, ...]
    rows: int
    weight: float
    state: Any


@dataclass(frozen=True, eq=False)
class Failure:
    """A piece that could not be computed, and why."""

    piece: int
    error: BaseException


class ClusterEngine(Protocol):
    """Runs pieces elsewhere."""

    name: str

    def check(self, expected: dict[str, str]) -> None:
        """Refuse workers whose Python or crosslevel is another."""

    def run(self, task: Task, groups: Sequence[tuple[int, ...]]) -> Iterator[Node | Failure]:
        """Give a node for each group of pieces, in any order; where a piece fails, its failure and the others of its group one by one."""

    def describe(self) -> str:
        """Say where it runs."""


def find_cluster(engine: object, local: Sequence[str] = ("local",)) -> ClusterEngine | None:
    """Read what was passed as ``engine``: a name, a session or an engine; None for one of this machine.

    Examples
    --------
    >>> find_cluster("local") is None
    True
    """
    if isinstance(engine, str) and engine in local:
        return None
    home = type(engine).__module__.partition(".")[0]
    if engine == "spark" or home == "pyspark":
        from crosslevel.data.engines.spark import SparkEngine

        return SparkEngine(engine)
    if all(hasattr(engine, name) for name in ("run", "check", "describe")):
        return engine  # type: ignore[return-value]
    raise unknown_name("engine", engine, [*local, "spark"], "engine")


class OnEngine:
    """An estimator whose passes run on an ``engine``."""

    engine: Any

    @property
    def _cluster(self) -> ClusterEngine | None:
        return None if isinstance(self.engine, str) and self.engine == "local" else find_cluster(self.engine)

    def _as_saved(self) -> Self:
        """An engine that is an object is not saved; what is loaded runs on the local one."""
        if isinstance(self.engine, str):
            return self
        local = copy.copy(self)
        local.engine = "local"
        return local

    def __sklearn_clone__(self) -> Self:
        """Share an engine that is an object: a session cannot be copied."""
        if isinstance(self.engine, str):
            return super().__sklearn_clone__()  # type: ignore[misc]
        local: Any = clone(self._as_saved())
        local.engine = self.engine
        return local


def versions() -> dict[str, str]:
    """Give the versions that must be the same everywhere."""
    from crosslevel import __version__

    return {"python": ".".join(platform.python_version_tuple()[:2]), "crosslevel": __version__}


def check_versions(expected: dict[str, str], found: dict[str, str] | None = None, where: str = "a worker") -> None:
    """Refuse other versions than those of the process that started the pass.

    Examples
    --------
    >>> check_versions(versions())
    """
    found = versions() if found is None else found
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            raise EngineError(
                f"{where} runs {name} {found.get(name)}, and this process {wanted}: their sums could differ. Give the workers the same "
                f"environment (pip install crosslevel=={expected['crosslevel']} with Python {expected['python']})."
            )


def spread(stream: Batches) -> Batches:
    """Give the same stream for workers: frames cut into pieces, and nothing that only this process can read."""
    for source in stream.sources:
        if source.unit == "stream":
            raise InputError(
                f"people is a {source.name}, which only this process can read; write it to parquet, or use engine='local'."
            )
    cut = [s.in_pieces(FRAME_ROWS) if isinstance(s, FrameSource) else s for s in stream.sources]
    return Batches(cut, stream.schema.names, stream.where, stream.batch_size)


def count_pieces(stream: Batches) -> int:
    """Count the pieces of a stream."""
    return sum(source.n_parts for source in stream.sources)


def name_piece(stream: Batches, index: int) -> str:
    """Name a piece as a reader would look for it: which row group of which file."""
    for source in stream.sources:
        if index < source.n_parts:
            return f"{source.unit} {index} of {source.name}"
        index -= source.n_parts
    return f"piece {index}"


def run_piece(task: Task, index: int, given: object = None) -> Node:
    """Compute one piece: the very function of the local engine, on the batches of the piece.

    Parameters
    ----------
    task : Task
    index : int
    given : iterable of record batches, or frame, optional
        The rows of the piece, where they are not read from a file.
    """
    check_versions(task.versions)
    rows, weight = 0, 0.0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal rows, weight
        for batch in batches:
            rows += batch.num_rows
            named = task.work.weight
            weight += float(np.sum(batch.column(named).cast(pa.float64()).to_numpy(False))) if named else batch.num_rows
            yield batch

    stream, name = task.stream, name_piece(task.stream, index)
    try:
        if given is None:
            batches = next(stream.pieces(index))[1]
        else:
            held: Any = to_arrow(given, name).to_batches() if is_frame(given) else given
            batches = stream.finish(held, name)
        state = task.work(counted(batches), index)
    except InputError as error:
        raise type(error)(f"{error} ({name}; its rows are counted from its first.)") from error
    except CrosslevelError:
        raise
    except Exception as error:
        raise EngineError(f"{name} could not be computed ({type(error).__name__}: {error}).") from error
    return Node((index,), rows, weight, state)


def merge_nodes(nodes: Sequence[Node]) -> Node:
    """Add up nodes in their order; none of them is changed, since what was kept may be merged again by a second run of this task."""
    state = copy.deepcopy(nodes[0].state) if len(nodes) > 1 else nodes[0].state
    for node in nodes[1:]:
        state = state.merge(node.state)
    pieces = tuple(p for node in nodes for p in node.pieces)
    return Node(pieces, sum(n.rows for n in nodes), math.fsum(n.weight for n in nodes), state)


class Ledger:
    """Nodes put together in the order of pieces, each piece once.

    Parameters
    ----------
    n_pieces : int

    Attributes
    ----------
    node : Node or None
        The first pieces, merged.
    ahead : dict of first piece to Node
        Later ones, which wait for those between.
    """

    def __init__(self, n_pieces: int) -> None:
        size = max(1, min(FAN, n_pieces // FEW))
        self.n_pieces = n_pieces
        self.groups = [tuple(range(i, min(i + size, n_pieces))) for i in range(0, n_pieces, size)]
        self.node: Node | None = None
        self.ahead: dict[int, Node] = {}
        self._next = 0

    @property
    def done(self) -> set[int]:
        """Pieces that are counted."""
        nodes = [*([] if self.node is None else [self.node]), *self.ahead.values()]
        return {piece for node in nodes for piece in node.pieces}

    @property
    def rows(self) -> int:
        """Rows that are counted."""
        return (self.node.rows if self.node else 0) + sum(node.rows for node in self.ahead.values())

    def put(self, node: Node) -> None:
        """Take in a node; one whose pieces are counted already is left out."""
        if self.done & set(node.pieces):
            return
        self.ahead[node.pieces[0]] = node
        while self._next < len(self.groups):
            group = self.groups[self._next]
            found = [self.ahead[p] for p in group if p in self.ahead]
            if sum(len(n.pieces) for n in found) < len(group):
                return
            for n in found:
                del self.ahead[n.pieces[0]]
            whole = merge_nodes(found)
            if self.node is None:
                self.node = whole
            else:
                state = self.node.state.merge(whole.state)
                sums = self.node.rows + whole.rows, math.fsum([self.node.weight, whole.weight])
                self.node = Node(self.node.pieces + whole.pieces, *sums, state)
            self._next += 1

    def begin(self, node: Node | None, ahead: Sequence[Node]) -> None:
        """Take up what a checkpoint held: the first groups merged, and later nodes."""
        self.node = node
        self._next = 0 if node is None else sum(group[-1] <= node.pieces[-1] for group in self.groups)
        self.ahead = {n.pieces[0]: n for n in ahead}

    def todo(self) -> list[tuple[int, ...]]:
        """Give the groups that are not counted; of one that is in part, the pieces that are not."""
        done = self.done
        left: list[tuple[int, ...]] = []
        for group in self.groups:
            missing = [p for p in group if p not in done]
            left += [group] if len(missing) == len(group) else [(p,) for p in missing]
        return left


def gather(
    engine: ClusterEngine,
    task: Task,
    ledger: Ledger,
    keep: Callable[[], None] | None = None,
    progress: Tell | None = None,
) -> Node:
    """Run what the ledger lacks, and give everything merged.

    Parameters
    ----------
    engine : ClusterEngine
    task : Task
    ledger : Ledger
    keep : callable, optional
        Called after every node; with it, the other pieces are computed although one failed.
    progress : callable, optional
    """
    engine.check(task.versions)
    failures: list[Failure] = []
    total = task.stream.num_rows
    if todo := ledger.todo():
        for found in engine.run(task, todo):
            if isinstance(found, Failure):
                failures.append(found)
                if keep is None:
                    break
                continue
            ledger.put(found)
            if keep is not None:
                keep()
            if progress is not None:
                progress(ledger.rows, total)
    if failures:
        raise _described(failures, ledger, engine, keep is not None) from failures[0].error
    assert ledger.node is not None, "a stream has at least one piece"
    if total is not None and ledger.node.rows != total:
        raise EngineError(
            f"{engine.describe()} read {ledger.node.rows:,} rows, and the source has {total:,}; did a file change meanwhile? Run it again."
        )
    return ledger.node


def verify_weight(node: Node, weight: float, engine: ClusterEngine) -> str:
    """Compare the weight that was summed with that of the source, and say both."""
    if abs(weight - node.weight) > 1e-9 * max(abs(node.weight), 1.0):
        raise EngineError(
            f"{engine.describe()} summed a weight of {weight:.12g}, and the source has {node.weight:.12g}; some people were counted twice "
            "or not at all. Run it again, and report this."
        )
    return f"{node.rows:,} people of weight {weight:.12g} in {len(node.pieces):,} piece(s) on {engine.describe()}; the source has as many"


def run_pass_on(
    engine: ClusterEngine,
    stream: Batches,
    work: Work,
    weight_of: Callable[[Any], float] | None,
    progress: Tell | None = None,
) -> tuple[Any, str]:
    """Go over a stream once on an engine; give the merged state, and a sentence with the totals that were compared.

    ``weight_of`` tells the weight that a state summed; without it the state sums none, and only rows are compared.
    """
    pieces = spread(stream)
    node = gather(engine, Task(pieces, work), Ledger(count_pieces(pieces)), progress=progress)
    return node.state, verify_weight(node, node.weight if weight_of is None else weight_of(node.state), engine)


def _described(failures: list[Failure], ledger: Ledger, engine: ClusterEngine, kept: bool) -> CrosslevelError:
    first = failures[0].error
    more = (
        f" {len(failures):,} pieces failed in all ({listed([f.piece for f in failures])})." if len(failures) > 1 else ""
    )
    rest = (
        f" The other {len(ledger.done):,} of {ledger.n_pieces:,} pieces are kept; mend it and run the same again."
        if kept
        else ""
    )
    kind = type(first) if isinstance(first, FileError | InputError | EngineError) else EngineError
    return kind(f"{engine.describe()}: {first}{more}{rest}")
