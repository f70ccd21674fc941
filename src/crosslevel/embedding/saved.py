"""A fitted embedding as plain values and arrays, exact to the bit."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.columns import Category, Encoder, Number
from crosslevel.errors import FileError
from crosslevel.numerics.features import FeatureMap, from_arrays

if TYPE_CHECKING:
    from crosslevel.embedding.embedder import MeanEmbedding

__all__ = ["from_payload", "to_payload"]

_SETTINGS = ("n_features", "map", "bandwidth", "categorical", "unknown", "random_state", "n_jobs")
_SCALARS = tuple(f.name for f in fields(FeatureMap))
_TYPES = {str(t): t for t in (pa.int64(), pa.float64(), pa.bool_(), pa.large_string())}
"""The types of levels, which ``encoding.canonical`` gives."""


def to_payload(fitted: MeanEmbedding) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Take a fitted embedding apart; an engine that is an object is not saved and comes back as the local one."""
    arrays = fitted.feature_map_.to_arrays()
    scalars = {name: arrays.pop(name).item() for name in _SCALARS}
    # the linear map has no bandwidth, and JSON no NaN
    scalars["bandwidth"] = None if np.isnan(scalars["bandwidth"]) else scalars["bandwidth"]
    meta = {
        "settings": {name: _plain(getattr(fitted, name)) for name in _SETTINGS}
        | {"engine": fitted.engine if isinstance(fitted.engine, str) else "local"},
        "columns": [c.facts() for c in fitted.encoder_.columns],
        "map": scalars,
        "by": list(fitted.by_),
        "weight": fitted.weight_,
        "n_rows": int(fitted.n_rows_),
        "warnings": list(fitted.warnings_),
    }
    return meta, {f"map.{name}": array for name, array in arrays.items()}


def from_payload(cls: type[MeanEmbedding], meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> MeanEmbedding:
    """Put a fitted embedding together again."""
    try:
        made = cls(**meta["settings"])
        scalars = meta["map"] | {"bandwidth": meta["map"]["bandwidth"] or np.nan}
        parts = {name: np.asarray(value) for name, value in scalars.items()}
        parts |= {name.removeprefix("map."): array for name, array in arrays.items()}
        made.encoder_ = Encoder(tuple(_column(c) for c in meta["columns"]), made.unknown)
        made.feature_map_ = from_arrays(parts)
        made.by_, made.weight_ = tuple(meta["by"]), meta["weight"]
        made.n_rows_, made.warnings_ = meta["n_rows"], tuple(meta["warnings"])
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise FileError(
            f"this embedding is damaged or not complete ({error}); save it again from the original."
        ) from error
    made.columns_, made.n_inputs_ = made.encoder_.names, made.encoder_.n_inputs
    made.bandwidth_ = made.feature_map_.bandwidth
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if value is not None and not isinstance(value, str | int | float) else value


def _column(facts: dict[str, Any]) -> Category | Number:
    if "levels" not in facts:
        return Number(facts["name"], facts["mean"], facts["scale"], facts["missing"])
    return Category(facts["name"], pa.array(facts["levels"], _TYPES[facts["type"]]), facts["missing"])
