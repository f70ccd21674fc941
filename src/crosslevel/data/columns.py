"""Columns of people as numbers: learned once, then applied to any batch or table.

A column is a :class:`Category` (levels in a fixed order, missing a level of its own where it occurs) or a :class:`Number`.
They are learned in memory with :func:`crosslevel.data.cells.learn_table`, or by SQL with
:func:`crosslevel.data.people_columns.learn_columns`. What a room then takes:

- sparse one-hot positions and standardized numbers for kernels: ``Encoder(columns, unknown).encode(batch)``;
- a matrix of plain numbers and level codes: :func:`crosslevel.data.cells.read_matrix`;
- the level codes of one factor: ``column.codes(values)``, with ``UNKNOWN`` and ``MISSING`` for what has none;
- levels of binned numbers: :class:`crosslevel.data.place_cells.Bins`.

Scores, families and contrasts that a model makes of these codes are its own mathematics and stay in its room.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.checks import read_list
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import BoolArray, FloatArray

UNKNOWN, MISSING = -1, -2
"""Codes of a value that is no level, and of no value."""
MAX_TABLE = 1 << 20
"""Widest range of whole-number levels for which a look-up table replaces hashing."""
SMALLEST_WEIGHT = 1e-100
MISSING_CODE = re.compile(r"-?(?:9*[789]|7+|8+)|-1")
"""What surveys write for a missing value: 9, 98, 99, 777, -1, -8, -999."""
LOOKS = str.maketrans("асеорхуіѕјԁһкмтвнαβεικνορτυχ", "aceopxyisjdhkmtbhabeiknoptux")
"""Letters of other alphabets, and the Latin ones they look like."""
SAME_SUM, ROUNDING = 1e-9, 0.005
"""Largest difference between a total and the sum of its parts that is rounding, relative to it; of one and its shares."""
PERCENT_PLACES, PERCENT_TRIALS, PERCENT_SPREAD, PERCENT_MEDIAN, PERCENT_GROWTH = 10, 1000, 0.3, 5, 0.3
"""Whole numbers up to 100 are asked about as percent with at least so many places, with trials that reach so many and whose logarithms
differ by so much, above this median (counts of rare events hardly grow with trials), and below this rank correlation with trials."""


@dataclass(frozen=True, eq=False)
class Category:
    """A categorical column.

    Attributes
    ----------
    name : str
    levels : pyarrow.Array
        Distinct values, sorted.
    has_null : bool
        Whether missing is a level of its own, the last.
    """

    name: str
    levels: pa.Array
    has_null: bool

    @property
    def width(self) -> int:
        """Positions the column owns."""
        return len(self.levels) + self.has_null

    def names(self) -> list[str]:
        """Name each position."""
        return [f"{self.name}={v}" for v in self.levels.to_pylist()] + [f"{self.name}=missing"] * self.has_null

    def facts(self) -> dict[str, Any]:
        """Give all that the encoding depends on, as plain values."""
        kind, levels = str(self.levels.type), self.levels.to_pylist()
        return {"name": self.name, "missing": bool(self.has_null), "type": kind, "levels": levels}

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """The levels as plain values."""
        return tuple(self.levels.to_pylist())

    @cached_property
    def table(self) -> tuple[int, npt.NDArray[np.int32]] | None:
        """The smallest level and, for each whole number from the one before it on, its code; None where hashing is needed."""
        if not pa.types.is_integer(self.levels.type) or not len(self.levels):
            return None
        levels = self.levels.to_numpy()
        low, high = int(levels.min()), int(levels.max())
        if high - low >= MAX_TABLE or abs(low) >= 1 << 62:
            return None
        # the first and last entries catch what lies outside
        codes = np.full(high - low + 3, UNKNOWN, dtype=np.int32)
        codes[levels - low + 1] = np.arange(len(levels))
        return low, codes

    def codes(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """Find each value among the levels: its number, or UNKNOWN or MISSING.

        Examples
        --------
        >>> Category("sex", pa.array(["f", "m"]), has_null=False).codes(pa.array(["m", None, "x", "f"])).tolist()
        [1, -2, -1, 0]
        """
        if pa.types.is_dictionary(values.type):
            found = self.codes(values.dictionary)
            return np.append(found, np.int32(MISSING))[_indices(values)]
        values = canonical(values)
        if pa.types.is_null(values.type):
            return np.full(len(values), MISSING, dtype=np.int32)
        if self.table is not None and pa.types.is_integer(values.type):
            low, table = self.table
            numbers = values.fill_null(0).to_numpy(zero_copy_only=False) if values.null_count else values.to_numpy()
            found = table[np.clip(numbers, low - 1, low + len(table) - 2) - (low - 1)]
        else:
            levels = canonical(self.levels)
            if values.type != levels.type:
                values = _cast_levels(values, self.name, levels.type)
            found = pc.index_in(values, value_set=levels).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
        if values.null_count:
            found = np.where(values.is_null().to_numpy(zero_copy_only=False), np.int32(MISSING), found)
        return np.asarray(found, dtype=np.int32)

    def refuse(self, values: pa.Array, bad: BoolArray, row: int, argument: str, repair: str) -> None:
        """Raise the error for the first value that is no level; ``row`` is the number of the first one."""
        first = int(np.argmax(bad))
        value = values[first].as_py()
        raise InputError(
            f"{argument}: the column {self.name!r} has {'a missing value' if value is None else f'the value {value!r}'} in row "
            f"{row + first:,}, which fit did not see (levels: {listed(self.labels, 12)}); {repair}."
        )


@dataclass(frozen=True)
class Number:
    """A numeric column: ``(x - mean) / scale``, and 0 with a mark where x is missing.

    The mean is taken out so that float32 keeps its digits; the Gaussian kernel does not see it. ``low`` and ``high`` are the range of
    the fit, where it is known.
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0
    has_null: bool = False
    low: float = -np.inf
    high: float = np.inf

    @property
    def width(self) -> int:
        """Positions the column owns."""
        return 1 + self.has_null

    def names(self) -> list[str]:
        """Name each position."""
        return [self.name] + [f"{self.name}=missing"] * self.has_null

    def facts(self) -> dict[str, Any]:
        """Give all that the encoding depends on, as plain values."""
        return {"name": self.name, "missing": bool(self.has_null), "mean": self.mean, "scale": self.scale}


@dataclass(frozen=True, eq=False)
class Encoded:
    """People as positions and values, ready for a kernel.

    Attributes
    ----------
    codes : (n, n_categories) int32
        Position that holds a 1; -1 for none.
    reals : (n, n_numbers) float32
        Scaled values, at the positions ``real_columns``.
    real_columns : (n_numbers,) int64
    """

    codes: npt.NDArray[np.int32]
    reals: npt.NDArray[np.float32]
    real_columns: npt.NDArray[np.int64]

    def dense(self, n_inputs: int) -> npt.NDArray[np.float64]:
        """Write the vectors out, (n, n_inputs); for small samples only."""
        out = np.zeros((len(self.codes), n_inputs))
        rows, columns = np.nonzero(self.codes >= 0)
        out[rows, self.codes[rows, columns]] = 1.0
        out[:, self.real_columns] = self.reals
        return out


@dataclass(frozen=True, eq=False)
class Encoder:
    """The learned encoding of all columns, in order.

    Attributes
    ----------
    columns : tuple of Category and Number
    unknown : {"error", "ignore"}
        What to do with a level that was not there when the encoding was learned.
    """

    columns: tuple[Category | Number, ...]
    unknown: str = "error"

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First position of each column, and the number of positions at the end."""
        return np.concatenate([[0], np.cumsum([c.width for c in self.columns])]).astype(np.int64)

    @property
    def n_inputs(self) -> int:
        """Length of the encoded vector."""
        return int(self.offsets[-1])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the people's columns that are read."""
        return tuple(c.name for c in self.columns)

    def input_names(self) -> list[str]:
        """Name each position of the encoded vector."""
        return [name for column in self.columns for name in column.names()]

    def encode(self, batch: pa.RecordBatch | pa.Table, row: int = 0) -> Encoded:
        """Encode people; ``row`` is the number of the first one, for messages."""
        categories = [(c, o) for c, o in zip(self.columns, self.offsets, strict=False) if isinstance(c, Category)]
        numbers = [(c, o) for c, o in zip(self.columns, self.offsets, strict=False) if isinstance(c, Number)]
        marked = [(c, o) for c, o in numbers if c.has_null]
        n = batch.num_rows
        codes = np.empty((n, len(categories) + len(marked)), dtype=np.int32)
        reals = np.empty((n, len(numbers)), dtype=np.float32)
        for j, (category, offset) in enumerate(categories):
            self._category(batch, category, int(offset), row, codes[:, j])
        k = len(categories)
        for j, (number, offset) in enumerate(numbers):
            missing = self._number(batch, number, row, reals[:, j])
            if number.has_null:
                codes[:, k] = np.where(missing, np.int32(offset + 1), np.int32(-1))
                k += 1
        return Encoded(codes, reals, np.array([o for _, o in numbers], dtype=np.int64))

    def _category(
        self, batch: pa.RecordBatch | pa.Table, column: Category, offset: int, row: int, out: npt.NDArray[np.int32]
    ) -> None:
        """Write the positions of one categorical column; missing takes the last of them."""
        values = plain_array(batch, column.name)
        found = column.codes(values)
        bad = found == UNKNOWN if column.has_null else found < 0
        if bad.any() and self.unknown == "error":
            column.refuse(values, bad, row, "people", "fit on people who have it, or pass unknown='ignore'")
        found = np.where(found == MISSING, len(column.levels) if column.has_null else UNKNOWN, found)
        np.add(found, offset, out=out, where=found >= 0, casting="unsafe")
        out[found < 0] = UNKNOWN

    def _number(
        self, batch: pa.RecordBatch | pa.Table, column: Number, row: int, out: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.bool_]:
        """Write the scaled values of one numeric column and tell which are missing."""
        values = as_floats(plain_array(batch, column.name), column.name)
        missing = np.isnan(values)
        if np.isinf(values).any():
            first = int(np.argmax(np.isinf(values)))
            raise InputError(f"people: the column {column.name!r} is infinite in row {row + first:,}; drop this row.")
        if missing.any() and not column.has_null and self.unknown == "error":
            first = int(np.argmax(missing))
            raise InputError(
                f"people: the column {column.name!r} is missing in row {row + first:,}, but was never missing in fit; fit on "
                "people like these, fill it, or pass unknown='ignore' to take the mean."
            )
        scaled = (values - column.mean) / column.scale
        out[:] = np.where(missing, 0.0, scaled) if missing.any() else scaled
        return missing


def decoded(values: pa.Array) -> pa.Array:
    """Give plain values for those of a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def canonical(values: pa.Array) -> pa.Array:
    """Give values a type that does not depend on where they came from: int64, float64, bool or large_string."""
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        plain = pc.add(values.cast(pa.float64(), safe=False), 0.0)  # -0.0 becomes 0.0: they are one level
        return pc.if_else(pc.is_nan(plain), None, plain)
    wanted = pa.int64() if pa.types.is_integer(kind) else pa.large_string()
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"values of type {kind} cannot be categories ({error}); turn them into text.") from error


def is_categorical(kind: pa.DataType, name: str) -> bool:
    """Tell categories (text, yes/no, pandas Categoricals of anything) from numbers by their type; refuse what is neither."""
    if pa.types.is_dictionary(kind):
        is_categorical(kind.value_type, name)  # refuses dates
        return True
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        return True
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return False
    raise InputError(
        f"column {name!r} is of type {kind}, which is neither a category nor a number; leave it out of columns or turn it "
        "into one."
    )


def as_floats(values: pa.Array, name: str) -> npt.NDArray[np.float64]:
    """Read numbers as float64, missing as NaN."""
    values = decoded(values)
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if is_categorical(values.type, name) and not pa.types.is_boolean(values.type):
        raise InputError(f"column {name!r} holds {values.type} where numbers were fitted; convert it to numbers.")
    return np.asarray(frames.exact_floats(values, f"column {name!r}"))


def plain_array(batch: pa.RecordBatch | pa.Table, name: str, argument: str = "people") -> pa.Array:
    """Give a column as one array; refuse a name that is no column."""
    try:  # schema.names would build a list of all names, for every column
        place = batch.schema.get_field_index(name)
    except (TypeError, UnicodeEncodeError):  # a number; half a pair of surrogates
        place = -1
    if place < 0:
        raise unknown_name(argument, name, batch.schema.names)
    values = batch.column(place)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _indices(values: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Give the dictionary index of each row, with the extra last entry for missing ones."""
    indices = values.indices.cast(pa.int64())
    if indices.null_count:
        return np.asarray(indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.asarray(indices.to_numpy(), dtype=np.int64)


def _cast_levels(values: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {name!r} holds {values.type} here and held {kind} in fit; give it the same type in both."
        ) from None


def check_names(names: Sequence[str], known: Sequence[str], argument: str) -> tuple[str, ...]:
    """Refuse a bare name and names that are no columns."""
    chosen = read_list(names, argument)
    for name in chosen:
        if name not in known:
            raise unknown_name(argument, name, list(known))
    return tuple(dict.fromkeys(chosen))


def check_squares(w: FloatArray, said: str, row: int = 0) -> None:
    """Refuse weights other than zero whose squares are no numbers.

    Parameters
    ----------
    w : (n,)
    said : str
        The argument, as an error names it.
    row : int
        Number of the first row.
    """
    beyond = (w > 1 / SMALLEST_WEIGHT) | ((w < SMALLEST_WEIGHT) & (w > 0))
    if beyond.any():
        first = int(np.argmax(beyond))
        raise InputError(
            f"{said} is {w[first]:g} in row {row + first:,}; weights must be 0 or lie between {SMALLEST_WEIGHT:g} and "
            f"{1 / SMALLEST_WEIGHT:g}, since squares of others are no numbers. Multiply all of them by one number."
        )


# what is more often a slip than the truth: codes, percent, totals among their parts ------------------------------------


def may_be_code(low: float, high: float) -> bool:
    """Tell from the ends of a column whether codes of missing values may stand there."""
    return any(MISSING_CODE.fullmatch(f"{end:.9g}") is not None for end in (low, high))


def missing_codes(values: FloatArray, least: int = 2) -> tuple[float, ...]:
    """Find codes of missing values: such numbers, further from all others than the whole range of these, ``least`` times or more.

    Examples
    --------
    >>> missing_codes(np.array([18.0, 90.0, 999.0, 999.0])), missing_codes(np.array([1.0, 5.0, 9.0, 9.0]))
    ((999.0,), ())
    """
    known, found = values[~np.isnan(values)], []
    if not len(known) or not may_be_code(known.min(), known.max()):
        return ()
    distinct, times = np.unique(known, return_counts=True)
    for sign in (1.0, -1.0):
        for i in range(1, len(distinct) - 1):  # two others at least: -1 and 1 are two values
            if not MISSING_CODE.fullmatch(f"{sign * distinct[-i]:.9g}"):
                break
            if distinct[-i] - distinct[-i - 1] > distinct[-i - 1] - distinct[0] and times[-i:].max() >= least:
                found += (sign * distinct[-i:]).tolist()
                distinct, times = distinct[:-i], times[:-i]
                break
        distinct, times = -distinct[::-1], times[::-1]
    return tuple(found)


def measure(parts: FloatArray, n: FloatArray | None, flags: bool = False) -> str | None:
    """Tell shares and percent from counts.

    Parameters
    ----------
    parts : (k, q)
        What should be counts.
    n : (q,) or None
        What they are parts of; their own sum where nothing else is known.
    flags : bool
        Whether they are true and false.

    Examples
    --------
    >>> n = np.array([200.0, 300.0, 250.0])
    >>> measure(np.array([[0.5, 0.25, 0.1]]), n), measure(np.array([[50.5, 25.2, 9.9]]), n), measure(n[None, :] / 5, n)
    ('shares', 'percent', None)
    """
    broken, whole = np.abs(parts - np.round(parts)) > 1e-6, parts.sum(axis=0) if n is None else n
    asked = whole[whole > 0]
    if not len(asked):
        return None
    single = n is not None and (n <= 1).all() and not (broken.any() and (n == 1).all())
    if (parts <= 1 + ROUNDING).all() and (broken.any() or flags) and not single:
        return "shares"
    told = n is not None and (parts <= 100).all()
    mostly = told and (asked > 100).all() and broken.mean() > 0.5
    ruled = told and not broken.any() and stays(parts.sum(axis=0), whole)
    hundred = (np.abs(asked - 100) <= 1).all() and (broken.any() if n is not None else len(asked) >= 3)
    return "percent" if mostly or ruled or hundred else None


def stays(k: FloatArray, n: FloatArray) -> bool:
    """Tell whether numbers are no larger where trials are more, though trials differ much: so are percent, and counts are not."""
    k, n = k[n > 0], n[n > 0]
    if len(n) < PERCENT_PLACES or n.max() < PERCENT_TRIALS or np.log(n).std() <= PERCENT_SPREAD:
        return False
    if np.median(k) < PERCENT_MEDIAN:
        return False
    ranks = []
    for values in (k, n):
        _, at, times = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(times) - 0.5 * (times - 1))[at])
    return bool(np.ptp(ranks[0]) == 0 or np.corrcoef(ranks[0], ranks[1])[0, 1] < PERCENT_GROWTH)


def total_column(counts: FloatArray) -> int | None:
    """Find a column that is the sum of all others in every row: of three columns and three rows with people, at least.

    Parts that are the same share of every row may add up to another by chance, and are left alone.

    Parameters
    ----------
    counts : (n_rows, n_columns)
        Rows with missing values are left out.

    Examples
    --------
    >>> total_column(np.array([[10.0, 20, 30], [5, 1, 6], [7, 7, 14]]))
    2
    """
    known = counts[(counts > 0).any(axis=1) & np.isfinite(counts).all(axis=1)]
    rows = known.sum(axis=1, keepdims=True)
    if known.shape[1] < 3 or len(known) < 3 or np.ptp(known / rows, axis=0).max() < SAME_SUM:
        return None
    found = (np.abs(2 * known - rows) <= SAME_SUM * rows).all(axis=0)
    return int(np.argmax(found)) if found.any() else None


def total_rows(counts: FloatArray) -> list[int]:
    """Find the rows that are, in every column, the sum of all other rows: of three rows with people, at least.

    Where all rows have the same composition, one equal number makes all equal: that can be chance, and they are left alone.

    Parameters
    ----------
    counts : (n_rows, n_columns)
        Missing values count nobody.

    Examples
    --------
    >>> total_rows(np.array([[10.0, 20], [5, 1], [15, 21]]))
    [2]
    """
    counts = np.nan_to_num(counts, posinf=0.0, neginf=0.0)
    there = counts.sum(axis=1) > 0
    counts, rows = counts[there], np.flatnonzero(there)
    if len(rows) < 3:
        return []
    shares, sums = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=0)
    if np.ptp(shares, axis=0).max() <= SAME_SUM:
        return []
    same = (np.abs(2 * counts - sums) <= SAME_SUM * sums).all(axis=1)
    return [int(row) for row in rows[same]]


def subtotal_rows(counts: FloatArray) -> list[int]:
    """Find rows that are the sum of all rows since the one before them, two such rows at least, as published tables have them.

    Examples
    --------
    >>> subtotal_rows(np.array([[1.0, 2], [3, 5], [4, 7], [2, 2], [2, 6], [4, 8]]))
    [2, 5]
    """
    for rows in (np.arange(len(counts)), np.arange(len(counts))[::-1]):  # totals below their parts, or above them
        found: list[int] = []
        start, below = 0, np.cumsum(counts[rows], axis=0)
        for i, row in enumerate(counts[rows]):
            parts = below[i] - row - (below[start - 1] if start else 0.0)
            if i - start >= 2 and row.any() and (np.abs(parts - row) <= SAME_SUM * row).all():
                found, start = [*found, i], i + 1
        if len(found) > 1 and start == len(rows):
            return sorted(int(rows[i]) for i in found)
    return []


def twins(names: Iterable[Any]) -> list[str]:
    """Find names that differ by blanks, case or letters that look alike.

    Examples
    --------
    >>> twins(["York", "york ", "Leeds"])
    ['York', 'york ']
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        if isinstance(name, str):
            folded = unicodedata.normalize("NFKC", name).casefold().translate(LOOKS)
            alike["".join(folded.split())].append(name)
    return sorted(name for own in alike.values() if len(own) > 1 for name in own)
