"""How a person becomes a sparse vector: categories as positions, numbers as scaled values.

The vector is never written out. A categorical column with L levels owns L positions (one more where values are
missing: "not applicable" is information); a numeric column owns one position, and a second that marks missing values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.errors import InputError, listed, unknown_name

__all__ = ["Category", "Encoded", "Encoder", "Number", "as_floats", "canonical", "decoded", "is_categorical"]

MAX_TABLE = 1 << 20
"""Widest range of whole-number levels for which a look-up table replaces hashing."""


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


@dataclass(frozen=True)
class Number:
    """A numeric column: ``(x - mean) / scale``, and 0 with a mark where x is missing.

    The mean is taken out so that float32 keeps its digits; the Gaussian kernel does not see it.
    """

    name: str
    mean: float
    scale: float
    has_null: bool

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
    """The learnt encoding of all columns, in order.

    Attributes
    ----------
    columns : tuple of Category and Number
    unknown : {"error", "ignore"}
        What to do with a level that was not there when the encoding was learnt.
    """

    columns: tuple[Category | Number, ...]
    unknown: str = "error"
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

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
        values = _plain_array(batch, column.name)
        if self._whole_numbers(values, column, offset, out):
            return
        if pa.types.is_dictionary(values.type):
            positions = self._look_up(canonical(values.dictionary), column)
            found = np.append(positions, -2).astype(np.int32)[_indices(values)]
        else:
            found = self._look_up(canonical(values), column)
        bad = found == -1
        if bad.any() and self.unknown == "error":
            self._refuse(values, column, bad, row)
        missing = found == -2
        if missing.any() and not column.has_null:
            if self.unknown == "error":
                self._refuse(values, column, missing, row)
            found = np.where(missing, -1, found)
        elif missing.any():
            found = np.where(missing, len(column.levels), found)
        np.add(found, offset, out=out, where=found >= 0, casting="unsafe")
        out[found < 0] = -1

    def _whole_numbers(self, values: pa.Array, column: Category, offset: int, out: npt.NDArray[np.int32]) -> bool:
        """Write the positions of codes that are whole numbers, the usual and quick case; tell whether all have one."""
        from crosslevel.embedding.lookup import place_codes, whole_numbers

        table = self._table(column)
        numbers = whole_numbers(values) if table is not None else None
        if table is None or numbers is None:
            return False
        missing = np.int32(offset + len(column.levels) if column.has_null else -1)
        low, positions = table
        lost = place_codes(*numbers, low - 1, positions, offset, missing, out)
        return lost == 0 or self.unknown == "ignore"

    def _look_up(self, values: pa.Array, column: Category) -> npt.NDArray[np.int32]:
        """Find each value among the levels: its number, -1 if it is not there, -2 if it is missing."""
        if pa.types.is_null(values.type):
            return np.full(len(values), -2, dtype=np.int32)
        table = self._table(column)
        if table is not None and pa.types.is_integer(values.type):
            low, positions = table
            numbers = values.fill_null(0).to_numpy(zero_copy_only=False) if values.null_count else values.to_numpy()
            # the first and last entries of the table catch what lies outside it
            at = np.clip(numbers, low - 1, low + len(positions) - 2) - (low - 1)
            found = positions[at]
        else:
            if values.type != column.levels.type:
                values = _cast_levels(values, column)
            found = pc.index_in(values, value_set=column.levels).fill_null(-1).to_numpy(zero_copy_only=False)
        if values.null_count:
            found = np.where(values.is_null().to_numpy(zero_copy_only=False), np.int32(-2), found)
        return np.asarray(found, dtype=np.int32)

    def _table(self, column: Category) -> tuple[int, npt.NDArray[np.int32]] | None:
        if column.name not in self._cache:
            made = None
            if pa.types.is_integer(column.levels.type) and len(column.levels):
                levels = column.levels.to_numpy()
                low, high = int(levels[0]), int(levels[-1])
                if high - low < MAX_TABLE and abs(low) < 1 << 62:
                    positions = np.full(high - low + 3, -1, dtype=np.int32)
                    positions[levels - low + 1] = np.arange(len(levels))
                    made = (low, positions)
            self._cache[column.name] = made
        return self._cache[column.name]

    def _refuse(self, values: pa.Array, column: Category, bad: npt.NDArray[np.bool_], row: int) -> None:
        first = int(np.argmax(bad))
        value = values[first].as_py()
        known = column.levels.to_pylist()
        raise InputError(
            f"column {column.name!r} has {'a missing value' if value is None else f'the value {value!r}'} in row "
            f"{row + first:,}, which was not there when the embedding was fitted (levels: {listed(known, 8)}); fit on people who "
            "have it, or pass unknown='ignore' to give it no feature."
        )

    def _number(
        self, batch: pa.RecordBatch | pa.Table, column: Number, row: int, out: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.bool_]:
        """Write the scaled values of one numeric column and tell which are missing."""
        values = as_floats(_plain_array(batch, column.name), column.name)
        missing = np.isnan(values)
        if np.isinf(values).any():
            first = int(np.argmax(np.isinf(values)))
            raise InputError(f"column {column.name!r} is infinite in row {row + first:,}; drop or mend this row.")
        if missing.any() and not column.has_null and self.unknown == "error":
            first = int(np.argmax(missing))
            raise InputError(
                f"column {column.name!r} is missing in row {row + first:,}, but was never missing when the embedding was "
                "fitted; fit on people like these, fill it, or pass unknown='ignore' to take the mean."
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
    """Tell categories (text, yes/no) from numbers by their type; refuse what is neither."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
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
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _plain_array(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    place = batch.schema.get_field_index(name)  # schema.names would build a list of all names, for every column
    if place < 0:
        raise unknown_name("people", name, batch.schema.names)
    values = batch.column(place)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _indices(values: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Give the dictionary index of each row, with the extra last entry for missing ones."""
    indices = values.indices.cast(pa.int64())
    if indices.null_count:
        return np.asarray(indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.asarray(indices.to_numpy(), dtype=np.int64)


def _cast_levels(values: pa.Array, column: Category) -> pa.Array:
    try:
        return values.cast(column.levels.type)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {column.name!r} holds {values.type} here and held {column.levels.type} when the embedding was fitted; "
            "give it the same type in both."
        ) from None
