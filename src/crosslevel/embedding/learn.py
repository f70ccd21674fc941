"""What one pass over the people must learn before they can be embedded: levels, scales, leaks, a sample.

Nothing here depends on how the stream is cut: the sample is drawn by row number, and means and scales are rounded to
single precision, so that sums taken in another order give the same encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.batches import Batches
from crosslevel.embedding.encoding import Category, Encoder, Number, as_floats, canonical, is_categorical
from crosslevel.errors import InputError

__all__ = ["Learned", "check_weights", "learn", "row_noise"]

FloatArray = npt.NDArray[np.float64]

MAX_LEVELS = 100_000
"""More levels than this are names of people, not categories."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The answer of the first pass.

    Attributes
    ----------
    encoder : Encoder
    sample : pyarrow.Table
        People drawn with probability proportional to weight, without replacement, in order of row number.
    n_rows : int
    constant, leaking : tuple of str
        Columns with one value, and columns with one value within every bag.
    """

    encoder: Encoder
    sample: pa.Table
    n_rows: int
    constant: tuple[str, ...]
    leaking: tuple[str, ...]


@dataclass
class _Moments:
    """Weighted count, mean and sum of squares of one column; merges exactly as Chan, Golub and LeVeque do."""

    weight: float = 0.0
    mean: float = 0.0
    square: float = 0.0
    missing: bool = False
    low: float = np.inf
    high: float = -np.inf

    def add(self, x: FloatArray, w: FloatArray, name: str, row: int) -> None:
        there = ~np.isnan(x)
        if not there.all():
            self.missing = True
            x, w = x[there], w[there]
        if not len(x):
            return
        if np.isinf(x).any():
            raise InputError(f"column {name!r} has an infinite value near row {row:,}; drop or mend such rows.")
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        weight = float(w.sum())
        if weight <= 0:
            return
        mean = float(w @ x) / weight
        square = float(w @ np.square(x - mean))
        total = self.weight + weight
        shift = mean - self.mean
        self.square += square + shift * shift * self.weight * weight / total
        self.mean += shift * weight / total
        self.weight = total


@dataclass
class _Levels:
    """The distinct values of one column."""

    values: set[object] = field(default_factory=set)
    kind: pa.DataType | None = None
    missing: bool = False

    def add(self, values: pa.Array, name: str) -> None:
        if pa.types.is_dictionary(values.type):
            values = pc.unique(values)
            self.missing = self.missing or bool(values.indices.null_count)
            values = values.dictionary_decode()
        distinct = pc.unique(canonical(values))
        if distinct.null_count:
            self.missing = True
            distinct = distinct.drop_null()
        if pa.types.is_null(distinct.type):
            return
        if self.kind is not None and distinct.type != self.kind:
            raise InputError(
                f"column {name!r} is {self.kind} in some pieces and {distinct.type} in others; make it one type."
            )
        self.kind = distinct.type
        self.values.update(distinct.to_pylist())
        if len(self.values) > MAX_LEVELS:
            raise InputError(
                f"column {name!r} has more than {MAX_LEVELS:,} levels, so it names people rather than describes them; leave it "
                "out of columns."
            )


class _Leak:
    """Whether a column has one value within every bag: it then says where somebody lives, not who they are."""

    def __init__(self) -> None:
        self.pairs: pa.Table | None = None
        self.suspect = True
        self.repeats = False

    def add(self, keys: pa.Table, values: pa.Array) -> None:
        table = keys.append_column("__value", values)
        names = keys.column_names
        found = table.group_by([*names, "__value"]).aggregate([])
        if found.num_rows < table.num_rows:
            self.repeats = True
        self.pairs = (
            found if self.pairs is None else pa.concat_tables([self.pairs, found.select(self.pairs.column_names)])
        )
        self.pairs = self.pairs.group_by([*names, "__value"]).aggregate([])
        bags = self.pairs.group_by(names).aggregate([])
        self.suspect = bags.num_rows == self.pairs.num_rows


def learn(
    people: Batches,
    columns: Sequence[str],
    by: Sequence[str] = (),
    weight: str | None = None,
    categorical: Sequence[str] = (),
    unknown: str = "error",
    n_sample: int = 1000,
    seed: int = 0,
    n_jobs: int = 1,
) -> Learned:
    """Go over the people once and learn how to encode them.

    Parameters
    ----------
    people : Batches
    columns : sequence of str
        The features.
    by : sequence of str
        Columns that name the bag; used to find features that leak it.
    weight : str, optional
    categorical : sequence of str
        Columns of numbers that are codes.
    unknown : {"error", "ignore"}
        What the encoder is to do with levels it has not seen.
    n_sample : int
        Size of the sample.
    seed : int
        Seed of the sample.
    n_jobs : int
        Threads that share the columns of a batch.
    """
    needed = list(dict.fromkeys([*columns, *by, *([weight] if weight else [])]))
    stream = people.select(needed, batch_size=65_536)
    kinds = {c: c in categorical or is_categorical(stream.schema.field(c).type, c) for c in columns}
    levels = {c: _Levels() for c in columns if kinds[c]}
    moments = {c: _Moments() for c in columns if not kinds[c]}
    leaks = {c: _Leak() for c in columns} if by else {}
    sample = _Sample(n_sample, seed)
    row = 0
    with ThreadPoolExecutor(n_jobs) as pool:
        for batch in stream:
            w = check_weights(batch, weight, row)

            def study(name: str, batch: pa.RecordBatch = batch, w: FloatArray = w, row: int = row) -> None:
                if name in levels:
                    levels[name].add(batch.column(name), name)
                else:
                    moments[name].add(as_floats(batch.column(name), name), w, name, row)

            list(pool.map(study, columns))  # columns do not touch one another; list() raises what a thread raised
            _add_leaks(leaks, batch, by)
            sample.add(batch.select(list(columns)), w, row)
            row += batch.num_rows
    if row == 0:
        raise InputError(f"people has no rows ({people.describe()}); check the file and the where filter.")
    if weight is not None and not sample.any_weight:
        raise InputError(f"weight={weight!r} is zero for everybody; at least one weight must be positive.")
    learnt = tuple(_column(c, levels.get(c), moments.get(c)) for c in columns)
    constant = tuple(c.name for c in learnt if _is_constant(c, moments))
    leaking = tuple(c for c, leak in leaks.items() if leak.suspect and leak.repeats and c not in constant)
    return Learned(Encoder(learnt, unknown), sample.table(), row, constant, leaking)


def _add_leaks(leaks: dict[str, _Leak], batch: pa.RecordBatch, by: Sequence[str]) -> None:
    suspects = [name for name, leak in leaks.items() if leak.suspect]
    if not suspects:
        return
    keys = pa.Table.from_batches([batch.select(list(by))])
    for name in suspects:
        values = batch.column(name)
        leaks[name].add(keys, canonical(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values))


def _column(name: str, levels: _Levels | None, moments: _Moments | None) -> Category | Number:
    if levels is not None:
        kind = levels.kind if levels.kind is not None else pa.large_string()
        return Category(name, pa.array(sorted(levels.values), type=kind), levels.missing)  # type: ignore[type-var]
    assert moments is not None
    scale = np.sqrt(moments.square / moments.weight) if moments.weight > 0 else 0.0
    return Number(name, float(np.float32(moments.mean)), float(np.float32(scale)), moments.missing)


def _is_constant(column: Category | Number, moments: dict[str, _Moments]) -> bool:
    if isinstance(column, Category):
        return column.width <= 1
    found = moments[column.name]
    return (found.low >= found.high or column.scale == 0.0) and not (found.missing and np.isfinite(found.low))


def check_weights(batch: pa.RecordBatch, weight: str | None, row: int) -> FloatArray:
    """Read the weights of a batch that begins at ``row``; refuse missing, infinite and negative ones."""
    if weight is None:
        return np.ones(batch.num_rows)
    w = as_floats(batch.column(weight), weight)
    for bad, what in ((~np.isfinite(w), "missing or infinite"), (w < 0, "negative")):
        if bad.any():
            first = int(np.argmax(bad))
            raise InputError(
                f"weight={weight!r} is {what} in row {row + first:,} ({w[first]}); weights must be finite and >= 0. Drop such "
                "rows with where=, or pass weight=None."
            )
    return w


def row_noise(seed: int, first: int, n: int) -> FloatArray:
    """Give rows ``first, first + 1, ...`` a uniform number each, in (0, 1), that depends on seed and row alone.

    SplitMix64 of the row number: the same row has the same number however the stream is cut.
    """
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed & 0xFFFFFFFFFFFFFFFF) * np.uint64(0xD1342543DE82EF95)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


class _Sample:
    """Weighted sampling without replacement over a stream: keep the k smallest of -log(u) / w (Efraimidis, Spirakis)."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.keys = np.empty(0)
        self.rows = np.empty(0, dtype=np.int64)
        self.people: pa.Table | None = None
        self.any_weight = False

    def add(self, batch: pa.RecordBatch, w: FloatArray, row: int) -> None:
        drawn = np.flatnonzero(w > 0)
        self.any_weight = self.any_weight or len(drawn) > 0
        keys = -np.log(row_noise(self.seed, row, batch.num_rows)[drawn]) / w[drawn]
        if len(self.keys) == self.size:
            closer = keys < self.keys.max()
            drawn, keys = drawn[closer], keys[closer]
        if self.people is not None and not len(drawn):
            return
        if len(keys) > self.size:
            best = np.argpartition(keys, self.size - 1)[: self.size]
            drawn, keys = drawn[best], keys[best]
        taken = pa.Table.from_batches([batch.take(pa.array(drawn))])
        joined = taken if self.people is None else pa.concat_tables([self.people, taken]).unify_dictionaries()
        self.keys = np.concatenate([self.keys, keys])
        self.rows = np.concatenate([self.rows, row + drawn])
        best = np.argsort(self.keys, kind="stable")[: self.size]
        self.keys, self.rows, self.people = self.keys[best], self.rows[best], joined.take(pa.array(best))

    def table(self) -> pa.Table:
        """Give the sample in order of row number."""
        if self.people is None:
            raise InputError("people has no rows with positive weight; check the weights and the where filter.")
        return self.people.take(pa.array(np.argsort(self.rows, kind="stable"))).combine_chunks()
