"""People of a stream counted by equal rows, as they are written: one pass, at the memory of the distinct rows.

``count_kinds(stream, columns, weight)`` gives a table of the distinct rows of the columns, and for each of them the number of people, the
sum of their weights and of the squares. What needs no order of people (a fit to cells) can be given these rows in their place. People
are counted by place and binned columns in :mod:`crosslevel.data.place_cells`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.batches import Batches
from crosslevel.data.columns import decoded, read_weights
from crosslevel.data.progress import follow
from crosslevel.errors import InputError, TooManyKindsError
from crosslevel.typing import FloatArray, Progress

if TYPE_CHECKING:
    from crosslevel.data.engines import ClusterEngine

BATCH_ROWS = 262_144
MERGE_AT = 1_000_000
"""Rows held beside the distinct ones before equal ones are put together."""
MOST_KINDS = 4_000_000
"""Distinct rows that are held."""
AMOUNTS = ("people", "weight", "square")


@dataclass(frozen=True, eq=False)
class Kinds:
    """Distinct rows of people.

    Attributes
    ----------
    table : pyarrow.Table
        The rows, in no certain order.
    count, weight, weight_squared : (n,)
        People of each row, and the sums of their weights and squared weights.
    """

    table: pa.Table
    count: FloatArray
    weight: FloatArray
    weight_squared: FloatArray


def count_kinds(
    stream: Batches,
    columns: Sequence[str],
    weight: str | None = None,
    *,
    progress: Progress | None = None,
    engine: ClusterEngine | None = None,
) -> Kinds:
    """Count equal people in one pass.

    Parameters
    ----------
    stream : Batches
    columns : sequence of str
    weight : str, optional
        Column of weights; everybody weighs one when not given.
    progress : bool or callable, optional
    engine : ClusterEngine, optional
        Where the pieces of the stream are counted; this process when not given.

    Examples
    --------
    >>> from crosslevel.data.batches import open_batches
    >>> people = open_batches({"sex": ["f", "m", "f"], "age": [30, 40, 30], "w": [1.0, 2.0, 3.0]})
    >>> found = count_kinds(people, ["sex", "age"], "w")
    >>> found.table.num_rows, sorted(found.count.tolist()), sorted(found.weight.tolist())
    (2, [1.0, 2.0], [2.0, 4.0])
    """
    work = _CountingKinds(tuple(columns), weight)
    source = stream.select([*columns, *([] if weight is None else [weight])], batch_size=BATCH_ROWS)
    with follow(progress, "Counting people") if progress is not None else nullcontext() as tell:
        if engine is None:
            found = _Tally(work)
            for batch in source:
                found.add(batch)
                if tell is not None:
                    tell(found.rows, source.num_rows)
        else:
            from crosslevel.data.engines import run_pass_on

            found, _ = run_pass_on(engine, source, work, _Tally.weight, tell)
    return found.finish(stream)


@dataclass(frozen=True, eq=False)
class _CountingKinds:
    """What is counted; called with the batches of a piece."""

    columns: tuple[str, ...]
    weight: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch], piece: int) -> _Tally:
        found = _Tally(self)
        for batch in batches:
            found.add(batch)
        found.put_together()
        return found


class _Tally:
    """Some people counted: columns by number, so that no name can be one of the amounts."""

    def __init__(self, work: _CountingKinds) -> None:
        self.work, self.rows = work, 0
        self.parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        w = read_weights(batch, self.work.weight, self.rows)
        keys = {str(j): decoded(batch.column(name)) for j, name in enumerate(self.work.columns)}
        amounts = (np.ones(batch.num_rows), w, w**2)
        self._hold(_summed(pa.table(keys | dict(zip(AMOUNTS, amounts, strict=True)))))
        self.rows += batch.num_rows

    def merge(self, other: _Tally) -> _Tally:
        """Count other people too."""
        for part in other.parts:
            self._hold(part)
        self.rows += other.rows
        return self

    def weight(self) -> float:
        """Add up everybody's weight."""
        return math.fsum(pc.sum(part["weight"]).as_py() or 0.0 for part in self.parts)

    def _hold(self, part: pa.Table) -> None:
        self.parts.append(part)
        if sum(p.num_rows for p in self.parts[1:]) > MERGE_AT:
            self.put_together()

    def put_together(self) -> None:
        """Make one row of equal ones."""
        if len(self.parts) > 1:
            self.parts = [_summed(pa.concat_tables(self.parts))]
        if self.parts and self.parts[0].num_rows > MOST_KINDS:
            table = self.parts[0]
            distinct = [(pc.count_distinct(table[str(j)]).as_py(), n) for j, n in enumerate(self.work.columns)]
            dear = ", ".join(f"{name!r} ({n:,} values)" for n, name in sorted(distinct, reverse=True)[:5])
            raise TooManyKindsError(
                f"people have more than {MOST_KINDS:,} different rows, and no more are held in memory; the columns of most values are "
                f"{dear}. Leave such columns out of columns, or round them."
            )

    def finish(self, stream: Batches) -> Kinds:
        """Give the rows and their amounts."""
        self.put_together()
        if not self.rows:
            raise InputError(f"people has no rows ({stream.describe()}); check the file.")
        (table,) = self.parts
        amounts = [table[name].to_numpy() for name in AMOUNTS]
        return Kinds(table.drop_columns(list(AMOUNTS)).rename_columns(list(self.work.columns)), *amounts)


def _summed(table: pa.Table) -> pa.Table:
    """Add up the amounts of equal rows; on one thread, so that the same rows give the same bits."""
    keys = table.column_names[: -len(AMOUNTS)]
    found = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in AMOUNTS])
    renamed = {f"{name}_sum": name for name in AMOUNTS}
    found = found.rename_columns([renamed.get(name, name) for name in found.column_names])
    return found.select(table.column_names)
