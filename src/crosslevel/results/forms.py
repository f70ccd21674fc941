"""Estimates as JSON, exact: types, nulls and the last bit of every float.

A document (``schema_version`` 2) is one object: the words and numbers of the header, ``columns`` as a list of
``{"name", "type", "values"}``, ``draws``, and ``units`` as the same kind of object or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.errors import CrosslevelError, FileError
from crosslevel.results.provenance import Provenance, installed_version
from crosslevel.results.table import COLUMN_TYPES

if TYPE_CHECKING:
    from crosslevel.results.estimates import Estimates

FORMAT = "crosslevel.estimates"
SCHEMA_VERSION = 2
_WORDS = ("kind", "method", "level", "interval", "diagnostics", "warnings", "frame", "title")


def to_document(estimates: Estimates, *, draws: bool = True) -> dict[str, Any]:
    """Give the JSON form as plain values."""
    table = estimates.table
    kept = estimates.draws if draws else None
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(estimates, name) for name in _WORDS},
        "keys": list(estimates.keys),
        "warnings": list(estimates.warnings),
        "provenance": estimates.provenance.as_dict(),
        "columns": [
            {
                "name": n,
                "type": str(table.schema.field(n).type).replace("double", "float64"),
                "values": table[n].to_pylist(),
            }
            for n in table.column_names
        ],
        "draws": None if kept is None else [[None if math.isnan(v) else v for v in row] for row in kept.tolist()],
        "units": None if estimates.units is None else to_document(estimates.units, draws=draws),
    }


def from_document(text: str | bytes, build: Callable[..., Estimates]) -> Estimates:
    """Read the JSON form; ``build`` makes the estimates and checks them."""
    try:
        document = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise FileError(f"this is not the JSON form of estimates ({error}); pass what to_json() wrote.") from error
    return _read_document(document, build)


def _read_document(document: Any, build: Callable[..., Estimates]) -> Estimates:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"this JSON is not of the format {FORMAT!r}; pass what Estimates.to_json() wrote.")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FileError(
            f"these estimates have schema_version {version!r} and crosslevel {installed_version()} reads {SCHEMA_VERSION}; upgrade "
            "crosslevel, or write them again from the original."
        )
    try:
        columns = {c["name"]: pa.array(c["values"], COLUMN_TYPES[c["type"]]) for c in document["columns"]}
        draws = document["draws"]
        if draws is not None:
            draws = np.array(draws, dtype=np.float64).reshape(
                len(draws), -1 if draws else len(document["columns"][0]["values"])
            )
        units = document["units"]
        return build(
            columns,
            draws=draws,
            units=None if units is None else _read_document(units, build),
            keys=list(document["keys"]),
            provenance=Provenance(**document["provenance"]),
            **{name: document[name] for name in _WORDS},
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged(error) from error


def _not_json(name: str) -> float:
    raise ValueError(f"{name} is not strict JSON")


def _damaged(error: Exception) -> FileError:
    if isinstance(error, FileError):
        return error
    detail = str(error) if isinstance(error, CrosslevelError) else f"{type(error).__name__}: {error}"
    return FileError(f"these estimates are damaged or not complete ({detail}); write them again from the original.")
