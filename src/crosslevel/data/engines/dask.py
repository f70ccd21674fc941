"""Dask: pieces as tasks of a ``distributed`` client, merged in groups on the workers."""

from __future__ import annotations

import pickle
import uuid
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from crosslevel.data.batches.sources import Part, Request, Source
from crosslevel.data.engines import Failure, Node, Task, check_versions, merge_nodes, run_piece, versions
from crosslevel.errors import EngineError, InputError, MissingExtraError

PATIENCE = "15s"
"""How long a scheduler is waited for."""
_CLIENTS: dict[Any, Any] = {}
"""Clients that were opened for an address, one for each."""
AHEAD = 2
"""Pieces per thread of the workers that are under way at a time."""


class DaskEngine:
    """Workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, address of a scheduler, or "dask"
        "dask" is the client that is open in this process.
    """

    name = "dask"

    def __init__(self, client: object = "dask") -> None:
        try:
            import distributed
        except ImportError as error:
            raise MissingExtraError(
                "engine='dask' needs dask and distributed, which are not installed; pip install crosslevel[dask]."
            ) from error
        if isinstance(client, distributed.Client):
            self.client: Any = client
        elif client == "dask":
            try:
                self.client = distributed.default_client()
            except ValueError as error:
                raise EngineError(
                    "engine='dask' found no open client; open one (from distributed import Client; client = Client(n_workers=4, "
                    "threads_per_worker=1)), or pass the address of a scheduler, engine='tcp://host:8786'."
                ) from error
        else:
            try:
                if client not in _CLIENTS or _CLIENTS[client].status != "running":
                    _CLIENTS[client] = distributed.Client(client, set_as_default=False, timeout=PATIENCE)
                self.client = _CLIENTS[client]
            except (OSError, ValueError, TimeoutError) as error:
                raise EngineError(
                    f"engine={client!r} does not answer ({error}); is the scheduler running there?"
                ) from error

    def describe(self) -> str:
        """Say where it runs."""
        return f"dask ({len(self.client.ncores())} workers)"

    def check(self, expected: dict[str, str]) -> None:
        """Refuse workers whose Python or crosslevel is another."""
        for address, found in self.client.run(_versions).items():
            check_versions(expected, found, f"the worker {address}")

    def run(self, task: Task, groups: Sequence[tuple[int, ...]]) -> Iterator[Node | Failure]:
        """Keep a few pieces per thread under way; all futures are held until their node is here."""
        from distributed import as_completed

        run = uuid.uuid4().hex[:8]
        frame = next((s.partitions for s in task.stream.sources if isinstance(s, DaskSource)), None)
        # a task and no scattered data: what is lost with a worker is made again
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a large graph: a frame in memory is sent once
            shipped = self.client.submit(pickle.loads, pickle.dumps(task), key=f"crosslevel-task-{run}")
        waiting, under_way = deque(groups), 0
        flying: dict[str, tuple[tuple[int, ...], list[Any], list[Any]]] = {}
        most = max(AHEAD * sum(self.client.ncores().values()), 2)
        finished = as_completed(loop=self.client.loop)
        while waiting or flying:
            while waiting and (not flying or under_way < most):
                group = waiting.popleft()
                given = [None] * len(group) if frame is None else self.client.compute([frame[i] for i in group])
                leaves = [
                    self.client.submit(run_piece, shipped, i, rows, key=f"crosslevel-piece-{run}-{i}")
                    for i, rows in zip(group, given, strict=True)
                ]
                root = leaves[0]
                if len(group) > 1:
                    root = self.client.submit(merge_nodes, leaves, key=f"crosslevel-merge-{run}-{group[0]}")
                flying[root.key] = (group, leaves, given)
                under_way += len(group)
                finished.add(root)
            root = next(finished)
            group, leaves, _ = flying.pop(root.key)
            under_way -= len(group)
            if root.status == "finished":
                yield root.result()
            elif root.status == "error":
                yield from _one_by_one(group, leaves, root)
            else:
                raise EngineError(
                    f"{self.describe()}: the scheduler was restarted or lost while pieces {group[0]} to {group[-1]} were under way; "
                    "when it is back, run the same again: with checkpoint= what was done is kept."
                )


def _one_by_one(group: tuple[int, ...], leaves: list[Any], root: Any) -> Iterator[Node | Failure]:
    """Give the pieces of a group in which one failed."""
    from distributed import wait

    wait(leaves)
    failed = False
    for piece, leaf in zip(group, leaves, strict=True):
        if leaf.status == "finished":
            yield leaf.result()
        else:
            failed = True
            yield Failure(piece, _named(leaf.exception(), piece))
    if not failed:  # the merge itself
        yield Failure(group[0], _named(root.exception(), group[0]))


def _named(error: Any, piece: int) -> BaseException:
    """Name the piece in an error that is not ours, such as that of a worker killed for its memory again and again."""
    if type(error).__module__.startswith("crosslevel."):
        return error
    return EngineError(f"piece {piece} could not be computed ({type(error).__name__}: {error}).")


def _versions() -> dict[str, str]:
    return versions()


class DaskSource(Source):
    """A dask dataframe: a piece for every partition, which only the workers read."""

    unit = "partition"

    def __init__(self, frame: Any) -> None:
        self.name = "dask dataframe"
        self.partitions = frame.to_delayed()
        self.n_parts = frame.npartitions
        self._token = frame._name
        self.schema = _plain_schema(frame._meta)
        if any(pa.types.is_null(f.type) for f in self.schema):  # objects, unknown categories: only rows tell
            self.schema = _plain_schema(frame.head(1000, npartitions=-1))

    def parts(self, request: Request, start: int = 0) -> Iterator[Part]:
        """Refuse: its rows do not come here."""
        raise InputError("people is a dask dataframe, which only engine='dask' reads; pass that, or people.compute().")

    def stamp(self) -> list[object]:
        """Tell this dataframe from another by what makes it."""
        return [self.name, self.n_parts, self._token]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "partitions": None}


def _plain_schema(frame: Any) -> pa.Schema:
    """Give the types of a pandas frame, categories as their values: partitions need not have the same."""
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])
