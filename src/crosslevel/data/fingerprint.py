"""A short name for the content of a table, so that a result can say which data it came from.

Two tables have the same fingerprint when they have the same column names in the same order, the same rows in the same
order and the same values, however they are stored: the batch size, the kind of dataframe, dictionary encoding, 32 or 64
bits, integers or floats of the same value, and NaN or null for a missing number make no difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.frames import to_arrow

__all__ = ["Fingerprint", "fingerprint"]

VERSION = 1  # hashed in first: a change of the recipe must change every fingerprint
ROWS_AT_ONCE = 65_536  # small enough that a column's copy stays in the cache
DIGITS = 16
EXACT = 2.0**53  # below this, whole numbers are exact in float64
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def fingerprint(data: object) -> str:
    """Give the fingerprint of a table or a stream.

    Parameters
    ----------
    data : dataframe or Batches
        A stream is read once, at flat memory.

    Returns
    -------
    str
        ``sha256:`` and 16 hexadecimal digits.

    Examples
    --------
    >>> fingerprint({"age": [30, 41]})
    'sha256:0aa0f7d5fb98d8af'
    >>> fingerprint({"age": [30.0, 41.0]}) == fingerprint({"age": [30, 41]})
    True
    >>> fingerprint({"age": [41, 30]}) == fingerprint({"age": [30, 41]})
    False
    """
    of_stream: Callable[[], str] | None = getattr(data, "fingerprint", None)
    if callable(of_stream):
        return of_stream()
    table = to_arrow(data, "data")
    digest = Fingerprint(table.schema)
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        digest.update(batch)
    return digest.text()


class Fingerprint:
    """The fingerprint of a stream, batch by batch.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of every batch.

    Examples
    --------
    >>> digest = Fingerprint(pa.schema({"age": pa.int64()}))
    >>> for age in (30, 41):
    ...     digest.update(pa.record_batch({"age": [age]}))
    >>> digest.text() == fingerprint({"age": [30, 41]})
    True
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._columns = [_Column(field.type) for field in schema]
        self._n_rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in the rows of a batch."""
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            for column, values in zip(self._columns, rows.columns, strict=True):
                column.update(values, self._n_rows)
            self._n_rows += rows.num_rows

    def text(self) -> str:
        """Give the fingerprint of the rows so far."""
        columns = [[name, *column.digests()] for name, column in zip(self._names, self._columns, strict=True)]
        whole = json.dumps([VERSION, self._n_rows, columns]).encode()
        return f"sha256:{hashlib.sha256(whole).hexdigest()[:DIGITS]}"


class _Column:
    """Three running hashes: the present values, where values are missing, and what the first cannot hold exactly."""

    def __init__(self, kind: pa.DataType) -> None:
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        self._type = kind
        self.kind, self._encode = _recipe(kind)
        self._values, self._missing, self._extra = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()

    def update(self, values: pa.Array, first_row: int) -> None:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if self.kind == "text":
            values = values.cast(pa.large_string())  # Arrow cannot filter string views
        if self.kind == "null":
            return  # the number of rows says it all
        missing = np.flatnonzero(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
        rows = None
        if len(missing):
            self._missing.update((missing + first_row).astype("<i8").tobytes())
            present = np.ones(len(values), dtype=bool)
            present[missing] = False
            values = values.filter(pa.array(present))
            rows = np.flatnonzero(present)
        for piece, extra in self._encode(values):
            self._values.update(piece)
            if extra is None:
                continue
            if isinstance(extra, tuple):  # (places among the present values, what is left over there)
                places, rest = extra
                places = (places if rows is None else rows[places]) + first_row
                extra = np.stack([places.astype("<i8"), rest.astype("<i8")], axis=1)
            self._extra.update(extra.tobytes())

    def digests(self) -> list[str]:
        return [self.kind, *(h.hexdigest() for h in (self._values, self._missing, self._extra))]


Leftover = tuple[npt.NDArray[np.int64], npt.NDArray[Any]] | npt.NDArray[Any] | None
Encoded = Iterator[tuple[Any, Leftover]]


def _recipe(kind: pa.DataType) -> tuple[str, Callable[[pa.Array], Encoded]]:
    """Choose the common name of a type and how its values become bytes."""
    types = pa.types
    if types.is_null(kind):
        return "null", _other
    if types.is_floating(kind):
        return "number", _floats
    if types.is_integer(kind):
        return "number", _integers
    if types.is_boolean(kind):
        return "boolean", _booleans
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text", _texts
    if types.is_date(kind):
        return "date", lambda values: _whole(values.cast(pa.date32()).cast(pa.int32()))
    if types.is_timestamp(kind):
        return f"timestamp {kind.tz or ''}", _moments
    if types.is_duration(kind) or types.is_time(kind):
        return ("duration" if types.is_duration(kind) else "time"), _moments
    if types.is_decimal(kind):
        return "decimal", lambda values: _texts(values.cast(pa.large_string()))
    return str(kind), _other


def _floats(values: pa.Array) -> Encoded:
    numbers = values.to_numpy(zero_copy_only=False).astype("<f8", copy=False)
    yield np.ascontiguousarray(numbers + 0.0), None  # -0.0 becomes 0.0


def _integers(values: pa.Array) -> Encoded:
    whole = values.to_numpy(zero_copy_only=False)
    numbers = whole.astype("<f8")
    yield numbers, _beyond_exact(whole, numbers)


def _beyond_exact(whole: npt.NDArray[Any], numbers: npt.NDArray[np.float64]) -> Leftover:
    """Find the integers that float64 cannot hold, and by how much it misses them."""
    if whole.dtype.itemsize < 8 or not len(numbers) or max(numbers.max(), -numbers.min()) < EXACT:
        return None
    limit = 2.0 ** (64 if whole.dtype.kind == "u" else 63)
    fits = numbers < limit  # float64 may have rounded up to just past the largest integer
    rounded = np.where(fits, numbers, 0.0).astype(whole.dtype)
    missed = np.where(rounded > whole, rounded - whole, whole - rounded)  # unsigned numbers cannot go below zero
    places = np.flatnonzero(missed)
    signed = np.where(rounded > whole, -1, 1)[places] * missed[places].astype(np.int64)
    return (places, signed) if len(places) else None


def _booleans(values: pa.Array) -> Encoded:
    yield values.to_numpy(zero_copy_only=False).astype(np.uint8), None


def _texts(values: pa.Array) -> Encoded:
    _, offset_buffer, data = values.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    text = b"" if data is None or not len(offsets) else memoryview(data)[int(offsets[0]) : int(offsets[-1])]
    yield text, np.diff(offsets).astype("<i8")


def _whole(values: pa.Array) -> Encoded:
    yield values.to_numpy(zero_copy_only=False).astype("<i8"), None


def _moments(values: pa.Array) -> Encoded:
    """Hash microseconds, with leftover nanoseconds apart, so that the unit makes no difference."""
    unit = cast("str", values.type.unit)
    ticks = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_numpy(zero_copy_only=False)
    ticks = ticks.astype("<i8")
    if unit != "ns":
        yield ticks * MICROSECONDS[unit], None
        return
    whole, rest = np.divmod(ticks, 1_000)
    places = np.flatnonzero(rest)
    yield whole, (places, rest[places]) if len(places) else None


def _other(values: pa.Array) -> Encoded:
    for value in values.to_pylist():
        written = repr(value).encode()
        yield written, np.array([len(written)], dtype="<i8")
