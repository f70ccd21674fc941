"""A number for what a person's columns hold: equal people have equal numbers, wherever they stand and however they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.embedding.encoding import as_floats, canonical

__all__ = ["Fingerprint"]

Words = npt.NDArray[np.uint64]

WHOLE = 2.0**62
"""Floats below it that are whole count as the integers they are: a column of codes is float in some frames."""


class Fingerprint:
    """Multilinear hashing: a random factor to each column, times what the column holds, summed and scrambled.

    Two different people have the same number with a chance of 2^-40 at most. The type of a column does not matter: 2 and 2.0, text and
    the entry of a dictionary, NaN and null are the same.

    Parameters
    ----------
    kinds : mapping of column to bool
        Whether each column is a category, in order.
    seed : int

    Examples
    --------
    >>> made = Fingerprint({"sex": True, "age": False}, seed=0)
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
        from crosslevel.embedding.counting import add_reals, finish

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

    def _category(self, values: pa.Array, name: str, factor: np.uint64, out: Words) -> None:
        from crosslevel.embedding.counting import MISSING, add_numbers
        from crosslevel.embedding.lookup import whole_numbers

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
    from crosslevel.embedding.counting import MISSING

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
