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

from collections.abc import Sequence
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
