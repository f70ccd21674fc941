"""Write a table by column for the page: each word once, numbers to six digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DIGITS", "encode_column", "encode_table"]

DIGITS = 6
"""Significant digits of a number on the page: more than any chart shows, and a third of the bytes of all of them."""

EXACT = 2**53
"""Whole numbers beyond this are codes that a browser's numbers would change; they are written as words."""


def encode_table(table: pa.Table) -> dict[str, Any]:
    """Give a table as plain JSON, by column.

    Returns
    -------
    dict
        ``{"n": rows, "columns": {name: column}}``, a column as :func:`encode_column` gives it.

    Examples
    --------
    >>> encode_table(pa.table({"sex": ["men", "women", "men"], "share": [0.5, 1 / 3, None]}))
    {'n': 3, 'columns': {'sex': {'levels': ['men', 'women'], 'codes': [0, 1, 0]}, 'share': {'numbers': [0.5, 0.333333, None]}}}
    """
    return {"n": table.num_rows, "columns": {name: encode_column(table[name]) for name in table.column_names}}


def encode_column(values: pa.ChunkedArray) -> dict[str, Any]:
    """Give numbers as ``{"numbers": [...]}`` and all else as ``{"levels": [...], "codes": [...]}``; None is missing."""
    kind = values.type
    if pa.types.is_integer(kind):
        ends = pc.min_max(values).as_py()
        if max(abs(ends["min"] or 0), abs(ends["max"] or 0)) > EXACT:
            return _coded(None if v is None else str(v) for v in values.to_pylist())
        return {"numbers": values.to_pylist()}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"numbers": [_short(v) for v in values.to_pylist()]}
    if pa.types.is_boolean(kind):
        return _coded(None if v is None else "yes" if v else "no" for v in values.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.dictionary_encode(values.combine_chunks())
        return {"levels": found.dictionary.to_pylist(), "codes": found.indices.to_pylist()}
    return _coded(None if v is None else str(v) for v in values.to_pylist())


def _coded(words: Iterable[str | None]) -> dict[str, Any]:
    levels: dict[str, int] = {}
    codes = [None if w is None else levels.setdefault(w, len(levels)) for w in words]
    return {"levels": list(levels), "codes": codes}


def _short(value: Any) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
