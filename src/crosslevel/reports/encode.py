"""Write a table by column for the page: each word once, numbers to six digits, long columns of them packed."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DIGITS", "encode_column", "pack_tables"]

DIGITS = 6
"""Significant digits of a number on the page: more than any chart shows, and a third of the bytes of all of them."""

EXACT = 2**53
"""Whole numbers beyond this are codes that a browser's numbers would change; they are written as words."""
SHORT = 200
"""Columns of fewer rows stay as they are, readable."""
STEPS = 2**24 - 2
"""Steps of the range that three bytes can tell apart; the number after them is for missing values."""
MISSING = 2**24 - 1
NEAR = 1e-4
"""Relative error that three bytes may leave in the smallest number; columns of a wider span get four bytes."""


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


def pack_tables(section: dict[str, Any]) -> dict[str, Any]:
    """Give a described section with its long columns packed for the page's script."""
    tables = {
        name: {**table, "columns": {c: _packed(column) for c, column in table["columns"].items()}}
        for name, table in section["tables"].items()
    }
    return {**section, "tables": tables}


def _packed(column: dict[str, Any]) -> dict[str, Any]:
    """Pack a column of numbers: base64 of three bytes each (steps of the range) or of four (floats), little end first.

    Examples
    --------
    >>> short = _packed({"numbers": [i / 500 for i in range(501)]})
    >>> short["low"], short["step"] * STEPS, len(short["steps"])
    (0.0, 1.0, 2004)
    """
    if "numbers" not in column or len(column["numbers"]) < SHORT:
        return column
    values = np.array([np.nan if v is None else v for v in column["numbers"]], dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return column
    apart = np.diff(values)
    if known.all() and (apart == apart[0]).all() and (apart[0] == 0 or values[0] == np.rint(values[0])):
        return {"start": float(values[0]), "by": float(apart[0]), "n": len(values)}
    low, high = float(values[known].min()), float(values[known].max())
    whole = bool((values[known] == np.rint(values[known])).all())
    step = 1.0 if whole and high - low <= STEPS else (high - low) / STEPS or 1.0
    smallest = np.abs(values[known & (values != 0)]).min(initial=np.inf)
    if (whole and step != 1.0) or (not whole and step / 2 > NEAR * smallest):
        if whole:
            return column
        return {"floats": base64.b64encode(values.astype("<f4").tobytes()).decode()}
    steps = np.full(len(values), MISSING, dtype="<u4")
    steps[known] = np.rint((values[known] - low) / step).astype("<u4")
    three = np.ascontiguousarray(steps.view(np.uint8).reshape(-1, 4)[:, :3])
    return {"steps": base64.b64encode(three.tobytes()).decode(), "low": low, "step": step}
