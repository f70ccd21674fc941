"""A weighted sample of people that depends on who they are and on the seed, not on where they stand in the stream.

People with the same columns are one *kind*. Every kind c has a number h_c (its hash), from it e_c ~ Exp(1), and the weight W_c of
all its people; the kinds of smallest e_c / W_c are a sample without replacement with chances proportional to W_c (Efraimidis and
Spirakis 2006; Cohen and Kaplan 2007). W_c must be counted for all kinds. Where there are more than ``MOST_KINDS`` only those with h_c
below a limit are, which is halved until there are not: the limit is a function of the set of kinds, not of their order.

The rows of a kind are needed too, and are held as soon as its key is small enough. Keys only fall, and so does the k-th smallest
among kinds below a given limit: a kind of the final sample is let in with its last row at the latest, and stays, whatever limit is
the final one, if every limit has a k-th smallest of its own. So the order of rows cannot matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.columns import as_floats, canonical, decoded, whole_numbers
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

Words = npt.NDArray[np.uint64]
Function = TypeVar("Function", bound=Callable[..., Any])

WHOLE = 2.0**62
"""Floats below it that are whole count as the integers they are: a column of codes is float in some frames."""
MOST_KINDS = 1 << 20
"""Kinds whose weight is counted: 36 MB."""
SLACK = 64
"""Kinds held beyond those asked for: single precision may exchange the last ones."""
LIMITS = 65  # 2^64, 2^63, ..., 1
FULL = 0.75  # share of the slots in use from which the table doubles


@dataclass(frozen=True, eq=False)
class Sketched:
    """The answer of a sketch.

    Attributes
    ----------
    sample : pyarrow.Table
        People drawn with chances proportional to weight; a kind of many people appears more than once.
    kinds : pyarrow.Table
        Different people, twice as many (or all there are), in the order of a sample without replacement.
    """

    sample: pa.Table
    kinds: pa.Table


class Sketch:
    """Count kinds of people over a stream, and hold those a sample may need.

    Parameters
    ----------
    kinds : mapping of column to bool
        Whether each column is a category.
    size : int
        People in the sample.
    seed : int

    Examples
    --------
    >>> sketch = Sketch({"sex": True}, size=6, seed=0)
    >>> sketch.add(pa.record_batch({"sex": ["f", "m", "f", "m"]}), np.array([1.0, 1.0, 3.0, 1.0]))
    >>> sketch.add(pa.record_batch({"sex": ["f", "f"]}), np.array([2.0, 4.0]))
    >>> sorted(sketch.finish().sample["sex"].to_pylist())
    ['f', 'f', 'f', 'f', 'f', 'm']
    """

    hashes: Words
    weights: FloatArray
    held: npt.NDArray[np.bool_]

    def __init__(self, kinds: Mapping[str, bool], size: int, seed: int) -> None:
        self.size = size
        self.hash_rows = Hashes(kinds, seed)
        self.n_people = 0
        self.level = 0
        self.count = 0
        self.most = np.full(LIMITS, np.inf)
        self.rows: list[pa.Table] = []
        self.row_hashes: Words = np.empty(0, dtype=np.uint64)
        self.room = 2 * (2 * size + SLACK)
        self._allocate(1 << 12)

    @property
    def any_weight(self) -> bool:
        """Whether anybody had a positive weight."""
        return self.n_people > 0

    @property
    def limit(self) -> np.uint64:
        """The largest number whose kind is counted."""
        return np.uint64((1 << (64 - self.level)) - 1)

    def add(self, batch: pa.RecordBatch, w: FloatArray) -> None:
        """Count the people of a batch, of the columns sketched alone, with weights (n,)."""
        from crosslevel.numerics.hashing import add_weights, find

        self._make_room(batch.num_rows)
        self.n_people += int(np.count_nonzero(w > 0))
        numbers = self.hash_rows(batch)
        new, wanted = add_weights(numbers, w + 0.0, self.limit, self.hashes, self.weights, self.held, self.most)
        self.count += new
        if len(self.row_hashes) + len(wanted) > self.room:
            self._prune()
            wanted = wanted[self.held[find(numbers[wanted], self.hashes)]]
        if len(wanted):
            self._hold(batch, wanted, numbers[wanted])
        while self.count > MOST_KINDS:
            self._halve()

    def finish(self) -> Sketched:
        """Draw the sample."""
        if not self.any_weight:
            raise InputError("people has no rows with positive weight; check the weights and the where filter.")
        from crosslevel.numerics.hashing import find

        table = pa.concat_tables(self.rows)
        W = _rounded(self.weights[find(self.row_hashes, self.hashes)])
        keys = _exponential(self.row_hashes) / W
        order = np.lexsort((self.row_hashes, keys))
        k = 2 * self.size
        reach = keys[order[k]] * W if self.count > k else np.full(len(W), np.inf)
        order = order[:k]
        ends = _exponential(np.array([self.limit]))[0] if self.level else np.inf
        weight = (W / -np.expm1(-np.minimum(reach, ends)))[order]
        by_number = np.argsort(self.row_hashes[order])
        n = min(self.size, self.n_people)
        total = np.cumsum(weight[by_number])
        drawn = np.searchsorted(total, (np.arange(n) + 0.5) / n * total[-1])
        return Sketched(
            sample=table.take(pa.array(order[by_number[drawn]])).combine_chunks(),
            kinds=table.take(pa.array(order)).combine_chunks(),
        )

    def merge(self, other: Sketch) -> Sketch:
        """Count the kinds of another sketch, over other people, too; rows of some that are then needed may be :meth:`missing`."""
        from crosslevel.numerics.hashing import add_weights

        while self.level < other.level:
            self._halve()
        self.n_people += other.n_people
        there = other.hashes > 0
        hashes, weights = other.hashes[there], other.weights[there]
        self._make_room(len(hashes))
        none = np.zeros(LIMITS)  # rows are taken from the other below
        self.count += add_weights(hashes, weights, self.limit, self.hashes, self.weights, self.held, none)[0]
        self.take(HeldRows(other.rows, other.row_hashes))
        while self.count > MOST_KINDS:
            self._halve()
        if len(self.row_hashes) > self.room:
            self._prune()
        return self

    def missing(self) -> Words:
        """Give the kinds of the sample whose rows no part of the people held: they are small in every part, and large together."""
        there = np.flatnonzero(self.hashes > 0)
        k = 2 * self.size + SLACK // 2
        if len(there) > k:
            there = there[np.argpartition(_exponential(self.hashes[there]) / self.weights[there], k - 1)[:k]]
        return self.hashes[there[~self.held[there]]]

    def take(self, held: HeldRows) -> None:
        """Hold rows that were held elsewhere, of kinds that count and have none yet."""
        from crosslevel.numerics.hashing import find

        numbers, first = np.unique(held.hashes, return_index=True)
        at = find(numbers, self.hashes)
        new = np.flatnonzero((self.hashes[at] == numbers) & ~self.held[at])
        if len(new):
            self.held[at[new]] = True
            self.rows.append(pa.concat_tables(held.tables).take(pa.array(first[new])))
            self.row_hashes = np.concatenate([self.row_hashes, numbers[new]])

    def __getstate__(self) -> dict[str, object]:
        there = self.hashes > 0
        table = (self.hashes[there], self.weights[there], self.held[there])
        rows = [pa.concat_tables(self.rows).combine_chunks()] if self.rows else []
        self.hash_rows.forget()
        return {**self.__dict__, "hashes": None, "weights": None, "held": None, "rows": rows, "table": table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from crosslevel.numerics.hashing import move

        hashes, weights, held = state.pop("table")
        self.__dict__.update(state)
        self._allocate(1 << 12)
        slots = len(self.hashes)
        while len(hashes) > FULL * slots:
            slots *= 2
        self._allocate(slots)
        move(hashes, weights, held, self.limit, self.hashes, self.weights, self.held)

    def _allocate(self, slots: int) -> None:
        table = np.zeros((slots, 2))  # side by side: a kind is then fetched from memory once
        self.hashes = table.view(np.uint64)[:, 0]
        self.weights = table[:, 1]
        self.held = np.zeros(slots, dtype=bool)

    def _make_room(self, rows: int) -> None:
        slots = len(self.hashes)
        while self.count + rows > FULL * slots:
            slots *= 2
        if slots > len(self.hashes):
            self._rebuild(slots)

    def _rebuild(self, slots: int) -> None:
        """Move the kinds that still count to a table of that many slots."""
        from crosslevel.numerics.hashing import move

        old = self.hashes, self.weights, self.held
        self._allocate(slots)
        self.count = move(*old, self.limit, self.hashes, self.weights, self.held)

    def _halve(self) -> None:
        """Count only the kinds whose number is in the lower half."""
        self.level += 1
        self._rebuild(len(self.hashes))
        self._keep_rows(self.row_hashes <= self.limit)

    def _hold(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64], numbers: Words) -> None:
        taken = batch.take(pa.array(rows))
        # plain values: dictionaries differ between batches, and those that hold nulls cannot be joined
        self.rows.append(pa.table({name: decoded(taken.column(name)) for name in taken.schema.names}))
        self.row_hashes = np.concatenate([self.row_hashes, numbers])

    def _prune(self) -> None:
        """Find, for every limit still to come, the key beyond which no kind is needed; let go of rows beyond it."""
        from crosslevel.numerics.hashing import find, let_go

        there = self.hashes > 0
        hashes, keys = self.hashes[there], _exponential(self.hashes[there]) / self.weights[there]
        keep = 2 * self.size + SLACK
        for level in range(self.level, LIMITS):
            if level > self.level:
                below = hashes < np.uint64(1 << (64 - level))
                hashes, keys = hashes[below], keys[below]
            if len(keys) <= keep:
                break
            self.most[level] = np.partition(keys, keep - 1)[keep - 1]
        needed = let_go(self.hashes, self.weights, self.held, self.most)
        self._keep_rows(self.held[find(self.row_hashes, self.hashes)])
        self.room = 2 * (needed + keep)

    def _keep_rows(self, kept: npt.NDArray[np.bool_]) -> None:
        if self.rows and not kept.all():
            self.rows = [pa.concat_tables(self.rows).filter(pa.array(kept))]
            self.row_hashes = self.row_hashes[kept]


@dataclass(eq=False)
class HeldRows:
    """Rows of people by the hash of their kind; those of other people merge."""

    tables: list[pa.Table]
    hashes: Words

    def merge(self, other: HeldRows) -> HeldRows:
        """Hold the rows of another too."""
        self.tables = [*self.tables, *other.tables]
        self.hashes = np.concatenate([self.hashes, other.hashes])
        return self


@dataclass(frozen=True, eq=False)
class Fetching:
    """Find rows of some kinds in a stream of the columns sketched alone, the first of each in every piece."""

    kinds: Mapping[str, bool]
    seed: int
    wanted: Words
    weight: None = None

    def __call__(self, batches: Iterable[pa.RecordBatch], piece: int) -> HeldRows:
        """Find those of a piece."""
        hash_rows, wanted, found = Hashes(self.kinds, self.seed), self.wanted, HeldRows([], self.wanted[:0])
        for batch in batches:
            kinds, first = np.unique(hash_rows(batch), return_index=True)
            here = np.isin(kinds, wanted)
            wanted = wanted[~np.isin(wanted, kinds)]
            if here.any():
                taken = batch.take(pa.array(first[here]))
                plain = pa.table({name: decoded(taken.column(name)) for name in taken.schema.names})
                found.merge(HeldRows([plain], kinds[here]))
        return found


def _rounded(values: FloatArray) -> FloatArray:
    """Keep 24 bits, those of single precision: sums taken in another order differ only in later ones."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24))


def _exponential(hashes: Words) -> FloatArray:
    """Make of each number one from the exponential distribution."""
    u = ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return np.asarray(-np.log1p(-u))


class Hashes:
    """A hash of what the columns of each row hold: a random factor to each column, times its value, summed and scrambled.

    Two different people have the same number with a chance of 2^-40 at most. The type of a column does not matter: 2 and 2.0, text and
    the entry of a dictionary, NaN and null are the same.

    Parameters
    ----------
    kinds : mapping of column to bool
        Whether each column is a category, in order.
    seed : int

    Examples
    --------
    >>> made = Hashes({"sex": True, "age": False}, seed=0)
    >>> one = made(pa.record_batch({"sex": ["f", "m", "f"], "age": [30.0, None, 30.0]}))
    >>> two = made(pa.record_batch({"sex": pa.array(["m", "f"]).dictionary_encode(), "age": [float("nan"), 30]}))
    >>> [bool(one[0] == one[2]), bool(one[0] == two[1]), bool(one[1] == two[0]), bool(one[0] == one[1])]
    [True, True, True, False]
    """

    def __init__(self, kinds: Mapping[str, bool], seed: int) -> None:
        self.kinds = dict(kinds)
        drawn = np.random.default_rng([seed, len(self.kinds)]).integers(0, 2**64, len(self.kinds) + 1, dtype=np.uint64)
        self.start, self.factors = drawn[0], drawn[1:] | np.uint64(1)
        self._dictionaries: dict[str, tuple[pa.Array, Words]] = {}

    def __call__(self, batch: pa.RecordBatch) -> Words:
        """Give the numbers (n,) of the rows of a batch; none is 0."""
        from crosslevel.numerics.hashing import add_reals, finish

        out = np.full(batch.num_rows, self.start)
        for (name, categorical), factor in zip(self.kinds.items(), self.factors, strict=True):
            if categorical:
                self._category(batch.column(name), name, factor, out)
            else:
                add_reals(
                    (as_floats(batch.column(name), name) + 0.0).view(np.uint64), factor, out
                )  # + 0.0: -0.0 is 0.0
        finish(out)
        return out

    def forget(self) -> None:
        """Let go of the dictionaries of the last batch."""
        self._dictionaries = {}

    def _category(self, values: pa.Array, name: str, factor: np.uint64, out: Words) -> None:
        from crosslevel.numerics.hashing import MISSING, add_numbers

        numbers = whole_numbers(values)
        if numbers is not None:
            add_numbers(*numbers, factor, out)
            return
        if not pa.types.is_dictionary(values.type):
            values = canonical(values)
            if pa.types.is_large_string(values.type):
                values = values.dictionary_encode()
        if pa.types.is_dictionary(values.type):
            words = np.append(self._dictionary(values.dictionary, name), MISSING)
            indices = values.indices.cast(pa.int64()).fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
            out += factor * words[indices]
        else:
            out += factor * _words(values)

    def _dictionary(self, values: pa.Array, name: str) -> Words:
        """Give the words of a dictionary, which nearly always is that of the batch before."""
        last = self._dictionaries.get(name)
        if last is None or not last[0].equals(values):
            last = self._dictionaries[name] = (values, _words(canonical(values)))
        return last[1]


def _words(values: pa.Array) -> Words:
    """Give a word for each value of one of the types that ``canonical`` gives."""
    from crosslevel.numerics.hashing import MISSING

    missing = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_null(values.type):
        return np.full(len(values), MISSING)
    if pa.types.is_large_string(values.type):
        texts = ("" if text is None else text for text in values.to_pylist())
        hashed = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
        words = np.frombuffer(b"".join(hashed), dtype="<u8").astype(np.uint64)
    elif pa.types.is_floating(values.type):
        numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < WHOLE)
        bits = np.ascontiguousarray(numbers).view(np.uint64)
        bits = bits ^ (bits >> np.uint64(32))
        words = np.where(whole, np.where(whole, numbers, 0.0).astype(np.int64).view(np.uint64), bits)
    else:
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        words = np.ascontiguousarray(numbers).view(np.uint64)
    return np.where(missing, MISSING, words)


def interruptible(function: Function) -> Function:
    """Let Ctrl-C be a KeyboardInterrupt also where it met compiled code that had just ended, which Python calls a SystemError."""

    @functools.wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except SystemError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise

    return cast("Function", run)
