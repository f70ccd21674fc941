"""Learn the columns of people in one pass over a stream.

``learn_people(stream, by=..., columns=..., weight=..., categorical=...)`` chooses the columns, finds levels and scales, leaves out
constant columns and those that tell the place, and draws a weighted sample; ``learned.encoder`` encodes batches and
``learned.encoded_sample()`` gives the sample as vectors, from which bins or bandwidths are chosen. Tables in memory are learned in
:mod:`crosslevel.data.cells`.

Nothing here depends on how the stream is cut or on the order of its rows: the sample is drawn by what people's columns hold, and
means and scales are rounded to single precision, so that sums taken in another order give the same encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.batches import Batches
from crosslevel.data.columns import (
    MAX_TABLE,
    Category,
    Encoder,
    Number,
    as_floats,
    canonical,
    check_names,
    decoded,
    describe_codes,
    first_row,
    is_categorical,
    read_weights,
    refuse_stray_text,
    whole_numbers,
)
from crosslevel.data.progress import follow
from crosslevel.data.sketch import Fetching, Sketch, interruptible
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray, Int64Array, Progress, Tell

if TYPE_CHECKING:
    from crosslevel.data.engines import ClusterEngine

MAX_LEVELS = 100_000
"""More levels than this are names of people, not categories."""
BATCH_ROWS = 16_384
"""Rows learned from at a time: a batch of 223 columns is then 10 MB."""
FIRST_LOOK = 2048
"""Rows that clear nearly every column of leaking the place, before whole batches are looked at."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The answer of the first pass.

    Attributes
    ----------
    encoder : Encoder
    sample : pyarrow.Table
        People drawn with probability proportional to weight; those of whom there are many appear more than once.
    kinds : pyarrow.Table
        Different people, drawn alike but without replacement: twice as many, or all there are.
    n_rows : int
    constant, leaking : tuple of str
        Columns with one value, and columns with one value within every bag.
    warnings : tuple of str
        What was left out, and why.
    """

    encoder: Encoder
    sample: pa.Table
    kinds: pa.Table
    n_rows: int
    constant: tuple[str, ...]
    leaking: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def encoded_sample(self) -> FloatArray:
        """Give the sample as encoded vectors, (n_sample, n_inputs)."""
        return self.encoder.encode(self.sample).dense(self.encoder.n_inputs)


@dataclass
class _Moments:
    """Weighted count, mean and sum of squares of one column; merges exactly as Chan, Golub and LeVeque do."""

    weight: float = 0.0
    mean: float = 0.0
    square: float = 0.0
    missing: bool = False
    low: float = np.inf
    high: float = -np.inf

    @property
    def scale(self) -> float:
        """Standard deviation in single precision."""
        return float(np.float32(np.sqrt(self.square / self.weight))) if self.weight > 0 else 0.0

    def add(self, x: FloatArray, w: FloatArray, name: str, row: int) -> None:
        endless = np.isinf(x)
        if endless.any():
            first = row + int(np.argmax(endless))
            raise InputError(f"column {name!r} is infinite in row {first:,}; drop or mend this row.")
        there = ~np.isnan(x)
        if not there.all():
            self.missing = True
            x, w = x[there], w[there]
        if not len(x):
            return
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        weight = float(w.sum())
        if weight <= 0:
            return
        # not w @ x: a BLAS wakes its own threads for a vector this short, which costs ten times the product on a busy
        # machine and makes the last digits depend on how many there are
        mean = float(np.sum(w * x)) / weight
        square = float(np.sum(w * np.square(x - mean)))
        self._join(weight, mean, square)

    def _join(self, weight: float, mean: float, square: float) -> None:
        total = self.weight + weight
        shift = mean - self.mean
        self.square += square + shift * shift * self.weight * weight / total
        self.mean += shift * weight / total
        self.weight = total

    def merge(self, other: _Moments) -> None:
        """Add what was seen of other people."""
        self.missing = self.missing or other.missing
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        if other.weight > 0:
            self._join(other.weight, other.mean, other.square)


@dataclass
class _Levels:
    """The distinct values of one column."""

    values: set[object] = field(default_factory=set)
    kind: pa.DataType | None = None
    missing: bool = False
    low: int = 0
    seen: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Whether each of low, low + 1, ... has been met, so that values met before need not be looked at again."""

    def add(self, values: pa.Array, name: str) -> None:
        if self._all_met(values):
            return
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
        self._join(distinct.to_pylist(), distinct.type, name)
        self._remember()

    def merge(self, other: _Levels, name: str) -> None:
        """Add what was seen of other people."""
        self.missing = self.missing or other.missing
        if other.kind is not None:
            self._join(other.values, other.kind, name)
            self.seen = np.zeros(0, dtype=bool)

    def _join(self, values: Iterable[object], kind: pa.DataType, name: str) -> None:
        if self.kind is not None and kind != self.kind:
            raise InputError(f"column {name!r} is {self.kind} in some pieces and {kind} in others; make it one type.")
        self.kind = kind
        self.values.update(values)
        if len(self.values) > MAX_LEVELS:
            raise InputError(
                f"column {name!r} has more than {MAX_LEVELS:,} levels, so it names people rather than describes them; leave it "
                "out of columns."
            )

    def _all_met(self, values: pa.Array) -> bool:
        """Tell, for whole numbers, whether all have been met before: quick, and nearly always so after a few batches."""
        from crosslevel.numerics.hashing import all_seen

        numbers = whole_numbers(values) if len(self.seen) else None
        return numbers is not None and bool(all_seen(*numbers, self.low, self.seen, self.missing))

    def _remember(self) -> None:
        if not pa.types.is_integer(self.kind):
            return
        levels = np.array(sorted(self.values), dtype=np.int64)  # type: ignore[type-var]
        if len(levels) and int(levels[-1]) - int(levels[0]) < MAX_TABLE:
            self.low = int(levels[0])
            self.seen = np.zeros(int(levels[-1]) - self.low + 1, dtype=bool)
            self.seen[levels - self.low] = True
        else:
            self.seen = np.zeros(0, dtype=bool)


class _Leak:
    """Whether a column has one value within every bag: it then says where somebody lives, not who they are."""

    def __init__(self) -> None:
        self.pairs: pa.Table | None = None
        self.suspect = True
        self.rows = 0

    @property
    def told(self) -> bool:
        """Whether every bag had one value, and some bag had more than one row to show it."""
        return self.suspect and self.pairs is not None and self.rows > self.pairs.num_rows

    def add(self, keys: pa.Table, values: pa.Array, starts: Int64Array) -> None:
        for rows in (FIRST_LOOK, len(values)):
            found = canonical(decoded(values[:rows]))
            if _differs(found, starts[:rows]):
                self.suspect, self.pairs = False, None
                return
        self.rows += len(found)
        self._join(keys.append_column("__value", found), keys.column_names)

    def _join(self, found: pa.Table, names: list[str]) -> None:
        if self.pairs is not None:
            found = pa.concat_tables([self.pairs, found.select(self.pairs.column_names)])
        self.pairs = found.group_by([*names, "__value"], use_threads=False).aggregate([])
        self.suspect = self.pairs.group_by(names, use_threads=False).aggregate([]).num_rows == self.pairs.num_rows

    def merge(self, other: _Leak, names: list[str]) -> None:
        """Add what was seen of other people."""
        if not (self.suspect and other.suspect):
            self.suspect, self.pairs = False, None
        elif other.pairs is not None:
            self.rows += other.rows
            self._join(other.pairs, names)


def _differs(values: pa.Array, starts: Int64Array) -> bool:
    """Tell whether some bag has two values, one that is not that of the bag's first row; a missing value is one too."""
    if pa.types.is_null(values.type):
        return False
    first = values.take(pa.array(starts))
    if values.null_count and not values.is_null().equals(first.is_null()):
        return True
    return bool(pc.any(pc.not_equal(values, first)).as_py())


def _bag_starts(keys: pa.Table) -> Int64Array:
    """Give the first row of the bag of every row."""
    code = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        own = column.combine_chunks().dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
        _, first, code = np.unique(code * (own.max(initial=0) + 1) + own, return_index=True, return_inverse=True)
    return np.asarray(first[code], dtype=np.int64)


@interruptible
def learn_people(
    people: Batches,
    *,
    by: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    categorical: Sequence[str] | None = None,
    unknown: str = "error",
    n_sample: int = 1000,
    seed: int = 0,
    n_jobs: int = 1,
    progress: Progress | None = None,
    engine: ClusterEngine | None = None,
) -> Learned:
    """Choose the columns of people, go over the people once and learn how to encode them.

    Columns with one value are left out, and, unless they are named in ``columns``, those with one value within every bag, because
    they tell the place; ``warnings`` says so.

    Parameters
    ----------
    people : Batches
    by : sequence of str
        Columns that name the bag; used to find features that leak it.
    columns : sequence of str, optional
        The features; all columns but ``by`` and ``weight`` when not given.
    weight : str, optional
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    unknown : {"error", "ignore"}
        What the encoder is to do with levels it has not seen.
    n_sample, seed : int
        Size of the sample, and its seed.
    n_jobs : int
        With more than one, the next batch is read while one is studied.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called with the rows done and, where known, the rows in all.
    engine : ClusterEngine, optional
        Where the pieces of the stream are studied; this process when not given.
    """
    known = people.schema.names
    for argument, names in (("by", by), ("weight", [] if weight is None else [weight])):
        check_names(names, known, argument)
    if columns is None:
        chosen = [n for n in known if n not in by and n != weight]
    else:
        chosen = list(check_names(columns, known, "columns"))
        for name in chosen:
            if name in by or name == weight:
                what = "bag key in by, and a bag must not be its own feature" if name in by else "weight"
                raise InputError(f"columns names {name!r}, which is the {what}; leave it out.")
    codes = check_names(categorical or (), known, "categorical")
    needed = list(dict.fromkeys([*chosen, *by, *([] if weight is None else [weight])]))
    stream = people.select(needed, batch_size=BATCH_ROWS)
    kinds = {c: c in codes or is_categorical(stream.schema.field(c).type, c) for c in chosen}
    work = _Studying(kinds, tuple(by), weight, n_sample, seed)
    with follow(progress, "Reading people") if progress is not None else nullcontext() as tell:
        if engine is None:
            study = _Study(work)
            for row in _one_ahead(stream, study.add, n_jobs):
                if tell is not None:
                    tell(row, stream.num_rows)
        else:
            study = _study_on(engine, stream, work, tell)
    row, levels, moments, leaks = study.rows, study.levels, study.moments, study.leaks
    if row == 0:
        raise InputError(f"people has no rows ({people.describe()}); check the file and the where filter.")
    if weight is not None and not study.sketch.any_weight:
        raise InputError(f"weight={weight!r} is zero for everybody; at least one weight must be positive.")
    for name in set(levels) - set(codes):
        again: Iterable[pa.RecordBatch] = () if people.one_shot else people.select([name])
        refuse_stray_text(name, list(levels[name].values), row, partial(first_row, again, name))
    learned = tuple(_column(c, levels.get(c), moments.get(c)) for c in chosen)
    constant = tuple(c.name for c in learned if _is_constant(c, moments))
    leaking = tuple(c for c, leak in leaks.items() if leak.told and c not in constant)
    drawn = study.sketch.finish()
    found = Learned(Encoder(learned, unknown), drawn.sample, drawn.kinds, row, constant, leaking)
    return _without_idle(found, columns is not None)


def _without_idle(learned: Learned, explicit: bool) -> Learned:
    """Leave out constant columns, and those that tell the place unless they were asked for by name."""
    numbers = [c.name for c in learned.encoder.columns if isinstance(c, Number)]
    seen = {n: as_floats(learned.kinds[n].combine_chunks(), n) for n in numbers}
    dropped, said = [*learned.constant], [*describe_codes(seen, "people", "kind(s) of people sampled")]
    if dropped:
        said.append(f"{len(dropped)} column(s) have only one value and were left out: {listed(dropped, 8)}.")
    if learned.leaking and explicit:
        said.append(
            f"{len(learned.leaking)} column(s) have one value within every bag: {listed(learned.leaking, 8)}. They tell where "
            "somebody lives rather than who they are; leave them out of columns."
        )
    elif learned.leaking:
        dropped += learned.leaking
        said.append(
            f"{len(learned.leaking)} column(s) have one value within every bag and were left out, since they tell the place: "
            f"{listed(learned.leaking, 8)}. Name them in columns to keep them."
        )
    kept = tuple(c for c in learned.encoder.columns if c.name not in dropped)
    if not kept:
        raise InputError(f"no column is left to use; all were constant or told the place ({listed(dropped, 8)}).")
    return replace(learned, encoder=Encoder(kept, learned.encoder.unknown), warnings=tuple(said))


@dataclass(frozen=True, eq=False)
class _Studying:
    """What is learned: whether each column is a category, and of what people the sample is."""

    kinds: dict[str, bool]
    by: tuple[str, ...]
    weight: str | None
    n_sample: int
    seed: int

    def __call__(self, batches: Iterable[pa.RecordBatch], piece: int) -> _Study:
        study, row = _Study(self), 0
        for batch in batches:
            row = study.add(batch, row)
        return study


class _Study:
    """What was learned of some people."""

    def __init__(self, work: _Studying) -> None:
        self.work, self.rows = work, 0
        self.levels = {c: _Levels() for c, category in work.kinds.items() if category}
        self.moments = {c: _Moments() for c, category in work.kinds.items() if not category}
        self.leaks = {c: _Leak() for c in work.kinds} if work.by else {}
        self.sketch = Sketch(work.kinds, work.n_sample, work.seed)

    def add(self, batch: pa.RecordBatch, row: int) -> int:
        """Study a batch whose first row has this number, and give that of the next."""
        w = read_weights(batch, self.work.weight, row)
        for name, levels in self.levels.items():
            levels.add(batch.column(name), name)
        for name, moments in self.moments.items():
            moments.add(as_floats(batch.column(name), name), w, name, row)
        _add_leaks(self.leaks, batch, self.work.by)
        self.sketch.add(batch.select(list(self.work.kinds)), w)
        self.rows += batch.num_rows
        return row + batch.num_rows

    def merge(self, other: _Study) -> _Study:
        """Add what was learned of other people."""
        for name, levels in self.levels.items():
            levels.merge(other.levels[name], name)
        for name, moments in self.moments.items():
            moments.merge(other.moments[name])
        for name, leak in self.leaks.items():
            leak.merge(other.leaks[name], list(self.work.by))
        self.sketch.merge(other.sketch)
        self.rows += other.rows
        return self


def _study_on(engine: ClusterEngine, stream: Batches, work: _Studying, tell: Tell | None) -> _Study:
    """Study pieces on a cluster; a second pass fetches the people of the sample whom no piece alone would have held."""
    from crosslevel.data.engines import run_pass_on

    study: _Study = run_pass_on(engine, stream, work, None, tell)[0]
    missing = study.sketch.missing()
    if len(missing):
        fetched, _ = run_pass_on(
            engine, stream.select(list(work.kinds)), Fetching(work.kinds, work.seed, missing), None
        )
        study.sketch.take(fetched)
    return study


def _one_ahead(stream: Batches, study: Callable[[pa.RecordBatch, int], int], n_jobs: int) -> Iterator[int]:
    """Study batch after batch, in order, while the next is being read (which takes about as long); give the rows done."""
    row = 0
    if n_jobs == 1:
        for batch in stream:
            row = study(batch, row)
            yield row
        return
    with ThreadPoolExecutor(1, thread_name_prefix="crosslevel-learn") as pool:
        pending: Future[int] | None = None
        for batch in stream:
            if pending is not None:
                row = pending.result()
                yield row
            pending = pool.submit(study, batch, row)
        if pending is not None:
            yield pending.result()


def _add_leaks(leaks: dict[str, _Leak], batch: pa.RecordBatch, by: Sequence[str]) -> None:
    suspects = [name for name, leak in leaks.items() if leak.suspect]
    if not suspects:
        return
    keys = pa.table({name: decoded(batch.column(name)) for name in by})
    starts = _bag_starts(keys)
    for name in suspects:
        leaks[name].add(keys, batch.column(name), starts)


def _column(name: str, levels: _Levels | None, moments: _Moments | None) -> Category | Number:
    if levels is not None:
        kind = levels.kind if levels.kind is not None else pa.large_string()
        return Category(name, pa.array(sorted(levels.values), type=kind), levels.missing)  # type: ignore[type-var]
    assert moments is not None
    # a scale of 0 is kept only where missing values tell people apart; the value itself is then 0 whatever divides it
    mean, scale = float(np.float32(moments.mean)), moments.scale or 1.0
    return Number(name, mean, scale, moments.missing, moments.low, moments.high)


def _is_constant(column: Category | Number, moments: dict[str, _Moments]) -> bool:
    if isinstance(column, Category):
        return column.width <= 1
    found = moments[column.name]
    flat = found.low >= found.high or found.scale == 0.0
    return flat and not (found.missing and np.isfinite(found.low))
