"""Write long columns of numbers short: four or five characters a number instead of nine."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

__all__ = ["pack_tables"]

SHORT = 200
"""Columns of fewer rows stay as they are, readable."""
STEPS = 2**24 - 2
"""Steps of the range that three bytes can tell apart; the number after them is for missing values."""
MISSING = 2**24 - 1
NEAR = 1e-4
"""Relative error that three bytes may leave in the smallest number; columns of a wider span get four bytes."""


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
