"""A weighted sample of people that depends on who they are and on the seed, not on where they stand in the stream.

People with the same columns are one *kind*. Every kind c has a number h_c (its fingerprint), from it e_c ~ Exp(1), and the weight W_c of
all its people; the kinds of smallest e_c / W_c are a sample without replacement with chances proportional to W_c (Efraimidis and
Spirakis 2006; Cohen and Kaplan 2007). W_c must be counted for all kinds. Where there are more than ``MOST_KINDS`` only those with h_c
below a limit are, which is halved until there are not: the limit is a function of the set of kinds, not of their order.

The rows of a kind are needed too, and are held as soon as its key is small enough. Keys only fall, and so does the k-th smallest
among kinds below a given limit: a kind of the final sample is let in with its last row at the latest, and stays, whatever limit is
the final one, if every limit has a k-th smallest of its own. So the order of rows cannot matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.embedding.encoding import decoded
from crosslevel.embedding.fingerprint import Fingerprint, Words
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["Sketch", "Sketched"]


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

    def __init__(self, kinds: Mapping[str, bool], size: int, seed: int) -> None:
        self.size = size
        self.fingerprint = Fingerprint(kinds, seed)
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
        from crosslevel.embedding.counting import add_weights, find

        self._make_room(batch.num_rows)
        self.n_people += int(np.count_nonzero(w > 0))
        numbers = self.fingerprint(batch)
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
        from crosslevel.embedding.counting import find

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

    def _allocate(self, slots: int) -> None:
        table = np.zeros((slots, 2))  # side by side: a kind is then fetched from memory once
        self.hashes: Words = table.view(np.uint64)[:, 0]
        self.weights: FloatArray = table[:, 1]
        self.held: npt.NDArray[np.bool_] = np.zeros(slots, dtype=bool)

    def _make_room(self, rows: int) -> None:
        slots = len(self.hashes)
        while self.count + rows > FULL * slots:
            slots *= 2
        if slots > len(self.hashes):
            self._rebuild(slots)

    def _rebuild(self, slots: int) -> None:
        """Move the kinds that still count to a table of that many slots."""
        from crosslevel.embedding.counting import move

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
        from crosslevel.embedding.counting import find, let_go

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


def _rounded(values: FloatArray) -> FloatArray:
    """Keep 24 bits, those of single precision: sums taken in another order differ only in later ones."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24))


def _exponential(hashes: Words) -> FloatArray:
    """Make of each number one from the exponential distribution."""
    u = ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return np.asarray(-np.log1p(-u))
