"""People as wide as a census: hundreds of coded columns, millions of rows, made and written at flat memory.

There is no truth in this world: it exists to be streamed. Its columns are as a census has them (a few big
classifications, many small ones, "not applicable" as a missing code, skewed amounts), places differ in who lives there,
and the number of positions that an encoding gives the columns is set exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import ndtr, ndtri

from crosslevel.errors import InputError

__all__ = ["BLOCK_ROWS", "Census", "census"]

BLOCK_ROWS = 16_384
"""Rows drawn together; a block depends on the seed and its number alone, however the people are cut or spread over files."""
POOL = 16_384
"""People behind the draws. A column of the pool (32 kB) stays in the first-level cache while it is drawn from."""
FACTORS = 8
"""Sides of a person (work, housing, family, ...): the columns of one side are drawn together and hang together."""
SKEW = 1.5
"""Standard deviation of the log of the number of levels: most columns have under ten, the largest several hundred."""
SHARED = 0.7
"""Correlation of a person's sides with one another."""
BETWEEN = 0.5
"""Standard deviation of a side's mean between regions, where people of one region differ by 1."""


@dataclass(frozen=True)
class Census:
    """How to draw a census, row by row; made by :func:`census`.

    Attributes
    ----------
    n_people, n_regions : int
    categorical, numeric : tuple of str
        Names of the coded columns (``c000``, ...) and of the amounts (``x00``, ...).
    widths : tuple of int
        Positions of each column of ``categorical`` and then of ``numeric``: levels, and one more where values are missing.
    sort : bool
        Whether people come region by region.
    schema : pyarrow.Schema
        ``region``, ``weight``, then the columns.

    Examples
    --------
    >>> small = census(2_000, n_regions=5, n_categorical=6, n_real=2, n_encoded=60)
    >>> small
    <Census: 2,000 people in 5 regions, 8 columns encoded in 60 positions; see .batches(), .table()>
    >>> sum(small.widths), small.numeric
    (60, ('x00', 'x01'))
    """

    n_people: int
    n_regions: int
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    widths: tuple[int, ...]
    sort: bool
    schema: pa.Schema
    _seed: int = field(repr=False)
    _pool: tuple[npt.NDArray[Any], ...] = field(repr=False, compare=False)
    _missing: tuple[bool, ...] = field(repr=False)
    _first_rows: npt.NDArray[np.int64] = field(repr=False, compare=False)
    _means: npt.NDArray[np.float32] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"<Census: {self.n_people:,} people in {self.n_regions:,} regions, {len(self.widths):,} columns encoded in "
            f"{sum(self.widths):,} positions; see .batches(), .table()>"
        )

    def batches(self, batch_size: int = 65_536, start: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Give the people from row ``start`` up to ``stop``, ``batch_size`` at a time.

        Examples
        --------
        >>> small = census(2_000, n_regions=5, n_categorical=6, n_real=2, n_encoded=60)
        >>> [batch.num_rows for batch in small.batches(800)]
        [800, 800, 400]
        """
        for parts in self.pieces(batch_size, start, self.n_people if stop is None else stop):
            yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def pieces(self, size: int, start: int, stop: int) -> Iterator[list[pa.RecordBatch]]:
        """Give the same batches in parts as they were drawn: joining them costs more than drawing."""
        block, number = None, -1
        for first in range(start, stop, size):
            last = min(first + size, stop)
            parts = []
            for i in range(first // BLOCK_ROWS, -(-last // BLOCK_ROWS)):
                if i != number:
                    block, number = self._block(i), i
                assert block is not None
                at = max(first - i * BLOCK_ROWS, 0)
                parts.append(block.slice(at, last - i * BLOCK_ROWS - at))
            yield parts

    def table(self) -> pa.Table:
        """Draw everybody into memory.

        Examples
        --------
        >>> census(2_000, n_regions=5, n_categorical=6, n_real=2, n_encoded=60).table().shape
        (2000, 10)
        """
        return pa.Table.from_batches(self.batches(BLOCK_ROWS), schema=self.schema)

    def _block(self, number: int) -> pa.RecordBatch:
        """Draw one block of people."""
        first = number * BLOCK_ROWS
        n = min(BLOCK_ROWS, self.n_people - first)
        rng = np.random.default_rng([self._seed, 1, number])
        at = np.arange(first, first + n) if self.sort else rng.integers(self.n_people, size=n)
        region = np.searchsorted(self._first_rows, at, side="right") - 1
        common = rng.standard_normal(n, dtype=np.float32)
        turns = self._roll_call(first, n)
        drawn: list[npt.NDArray[np.intp]] = []
        for factor in range(FACTORS):
            own = rng.standard_normal(n, dtype=np.float32)
            z = self._means[region, factor] + np.float32(SHARED) * common + np.float32((1 - SHARED**2) ** 0.5) * own
            drawn.append((ndtr(z) * np.float32(POOL * (1 - 1e-6))).astype(np.intp))
        weight = self._pool[-1][rng.integers(POOL, size=n)]
        arrays = [pa.array(region.astype(np.int32)), pa.array(weight)]
        for j, values in enumerate(self._pool[:-1]):
            column = values.take(drawn[j % FACTORS])
            if j < len(self.categorical):
                column[turns[0]] = turns[1] % self.widths[j]
                arrays.append(_codes(column, self.widths[j], self._missing[j]))
            else:
                if self._missing[j]:
                    column[turns[0][turns[1] == j]] = np.nan
                arrays.append(pa.array(column, mask=np.isnan(column) if self._missing[j] else None))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _roll_call(self, first: int, n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Tell which rows of a block are called, and their turn: the t-th has level t of every column, modulo its levels.

        As many rows as the widest column has positions (and there are columns) are called, spread evenly over all
        people, so that every level occurs.
        """
        called = max(*self.widths, len(self.widths))
        step = self.n_people // called
        turns = np.arange(-(-first // step), min(called, -(-(first + n) // step)))
        return turns * step - first, turns


def census(
    n_people: int,
    *,
    n_regions: int = 340,
    n_categorical: int = 200,
    n_real: int = 23,
    n_encoded: int = 3251,
    sort: bool = True,
    random_state: int = 0,
) -> Census:
    """Plan people as wide as a census.

    Parameters
    ----------
    n_people : int
        At least as many as the widest column has levels.
    n_regions : int
        Regions; their sizes differ by a few times.
    n_categorical : int
        Columns of codes 0, 1, ...; every fourth has missing values, "not applicable".
    n_real : int
        Columns of amounts, rounded to three digits; every third has missing values.
    n_encoded : int
        Positions of all columns together: levels, "missing" where it occurs, amounts and their marks of missing values.
    sort : bool
        Whether people come region by region, as in census files, or in random order.
    random_state : int
        Seed.

    Notes
    -----
    Eight sides of a person are normal variables, correlated with one another, whose means differ by region. Each
    column hangs on one side, more or less closely. Its levels have the shares of Zipf's law. A few hundred rows, spread
    evenly, are not drawn but called up to give every level at least once.

    Examples
    --------
    >>> people = census(3_000, n_regions=4, n_categorical=10, n_real=3, n_encoded=150)
    >>> next(people.batches(1_000)).column_names[:4]
    ['region', 'weight', 'c000', 'c001']
    """
    for name, value, low in (
        ("n_people", n_people, 1),
        ("n_regions", n_regions, 1),
        ("n_categorical", n_categorical, 1),
        ("n_real", n_real, 0),
        ("n_encoded", n_encoded, 1),
        ("random_state", random_state, 0),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise InputError(f"{name}={value!r} is not a whole number of at least {low}.")
    rng = np.random.default_rng([random_state, 0])
    missing = [j % 4 == 3 for j in range(n_categorical)] + [j % 3 == 2 for j in range(n_real)]
    reals = [1 + m for m in missing[n_categorical:]]
    widths = (*_level_counts(n_categorical, n_encoded - sum(reals), missing, rng), *reals)
    if n_people < max(*widths, len(widths)):
        raise InputError(
            f"n_people={n_people:,} is too few to show every level: the widest column has {max(widths):,} and there are "
            f"{len(widths):,} columns; pass more people or a smaller n_encoded."
        )
    names = [f"c{j:03d}" for j in range(n_categorical)], [f"x{j:02d}" for j in range(n_real)]
    sizes = np.exp(0.5 * rng.standard_normal(n_regions))
    first_rows = np.concatenate([[0], np.cumsum(sizes)[:-1]]) / sizes.sum() * n_people
    kinds = [("region", pa.int32()), ("weight", pa.float64())]
    kinds += [(name, pa.int16()) for name in names[0]] + [(name, pa.float64()) for name in names[1]]
    return Census(
        n_people=int(n_people),
        n_regions=int(n_regions),
        categorical=tuple(names[0]),
        numeric=tuple(names[1]),
        widths=widths,
        sort=bool(sort),
        schema=pa.schema(kinds),
        _seed=int(random_state),
        _pool=_draw_pool(widths, missing, n_categorical, rng),
        _missing=tuple(missing),
        _first_rows=first_rows.astype(np.int64),
        _means=(BETWEEN * rng.standard_normal((n_regions, FACTORS))).astype(np.float32),
    )


def _level_counts(n: int, total: int, missing: list[bool], rng: np.random.Generator) -> list[int]:
    """Share ``total`` positions out among n columns, at least two levels each, skewed."""
    least = np.array([2 + m for m in missing[:n]])
    spare = total - int(least.sum())
    if spare < 0:
        raise InputError(
            f"n_encoded is too small by {-spare:,}: {n:,} coded columns with two levels each and the amounts need more "
            "positions; pass a larger n_encoded or fewer columns."
        )
    if total > 30_000 * n:
        raise InputError(f"n_encoded is too large for {n:,} coded columns of 16-bit codes; pass more columns.")
    share = np.exp(SKEW * ndtri((np.arange(n) + 0.5) / n))
    exact = spare * rng.permutation(share) / share.sum()
    extra = np.floor(exact).astype(int)
    extra[np.argsort(extra - exact, kind="stable")[: spare - int(extra.sum())]] += 1
    return [int(w) for w in least + extra]


def _draw_pool(
    widths: tuple[int, ...], missing: list[bool], n_categorical: int, rng: np.random.Generator
) -> tuple[npt.NDArray[Any], ...]:
    """Draw the pool, a column at a time, in order of the side the column hangs on; the weights are the last.

    Codes of coded columns, the last of them for missing where there is that; NaN for missing amounts.
    """
    side = ndtri((np.arange(POOL) + 0.5) / POOL)
    columns: list[npt.NDArray[Any]] = []
    for j, width in enumerate(widths):
        closeness = rng.uniform(0.2, 0.8) * rng.choice([-1, 1])
        z = closeness * side + (1 - closeness**2) ** 0.5 * rng.standard_normal(POOL)
        absent = rng.random(POOL) < rng.uniform(0.05, 0.6) if missing[j] else np.zeros(POOL, dtype=bool)
        if j < n_categorical:
            levels = width - missing[j]
            share = rng.permutation(1.0 / (np.arange(levels) + 1.0))
            codes = np.searchsorted(np.cumsum(share / share.sum())[:-1], ndtr(z))
            columns.append(np.where(absent, levels, codes).astype(np.int16))
        else:
            amount = np.exp(z + 4.0)
            digits = 10.0 ** (np.floor(np.log10(amount)) - 2)
            columns.append(np.where(absent, np.nan, np.round(amount / digits) * digits))
    columns.append(np.round(10.0 + 5.0 * rng.gamma(2.0, size=POOL)))
    return tuple(columns)


def _codes(column: npt.NDArray[np.int16], width: int, missing: bool) -> pa.Array:
    """Turn the last code into missing where the column has that."""
    return pa.array(column, mask=column == width - 1) if missing else pa.array(column)
