"""The saved form of a bag estimator: its parameters, the landmark map, and the fields of its fits.

Files hold no NaN and no infinity, which JSON does not know; ``{"number": "inf"}`` stands for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.distribution.features import LandmarkMap
from crosslevel.distribution.second_level import SecondLevel
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.distribution.base import BagEstimator

__all__ = ["from_payload", "pack", "to_payload", "unpack"]

Model = TypeVar("Model", bound="BagEstimator")

NUMBER = "number"


def pack(item: Any, prefix: str) -> tuple[dict[str, Any], Arrays]:
    """Split a dataclass of arrays and plain values into both."""
    values = {f.name: getattr(item, f.name) for f in fields(item) if f.init}
    arrays = {f"{prefix}_{n}": v for n, v in values.items() if isinstance(v, np.ndarray)}
    plain = {n: _plain(v) for n, v in values.items() if not isinstance(v, np.ndarray)}
    return plain, arrays


def unpack(cls: type, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Any:
    """Make the dataclass again."""
    mine = {n.removeprefix(f"{prefix}_"): a for n, a in arrays.items() if n.startswith(f"{prefix}_")}
    return cls(**{n: _value(v) for n, v in meta.items()}, **mine)


def to_payload(model: BagEstimator) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    map_meta, arrays = pack(model.map_, "map")
    metas = []
    for i, fit in enumerate(model._fits):
        meta, more = pack(fit, f"fit{i}")
        metas.append(meta)
        arrays |= more
    second = None
    if model._second is not None:
        second, more = pack(model._second, "second")
        arrays |= more
    params: dict[str, Any] = {}
    for name, value in model.get_params().items():
        if isinstance(value, np.ndarray):
            arrays[f"param_{name}"] = value
        else:
            params[name] = _plain(value)
    saved: dict[str, Any] = {
        "params": params,
        "map": map_meta,
        "fits": metas,
        "second": second,
        "n_features_in": int(model.n_features_in_),
        "names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "data": dict(model._data),
        "notes": _plain(model._notes),
    }
    classes = getattr(model, "classes_", None)
    if classes is not None:
        saved["classes"] = classes.tolist()
        saved["classes_dtype"] = classes.dtype.str if classes.dtype.kind != "O" else "O"
    return saved, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again."""
    given: dict[str, Any] = {n.removeprefix("param_"): a for n, a in arrays.items() if n.startswith("param_")}
    model = cls(**{n: _value(v) for n, v in meta["params"].items()}, **given)
    model.map_ = unpack(LandmarkMap, meta["map"], arrays, "map")
    model._fits = tuple(unpack(cls._fit_class, m, arrays, f"fit{i}") for i, m in enumerate(meta["fits"]))
    model._second = None if meta["second"] is None else unpack(SecondLevel, meta["second"], arrays, "second")
    model.n_features_in_ = meta["n_features_in"]
    if meta["names"]:
        model.feature_names_in_ = np.array(meta["names"], dtype=object)
    model._data, model._notes = dict(meta["data"]), _value(meta["notes"])
    if "classes" in meta:
        model.classes_ = np.array(meta["classes"], dtype=meta["classes_dtype"])
    model._set_attributes()
    return model


def _plain(value: Any) -> Any:
    """Give what JSON can say."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(v) for v in value]
    return value


def _value(plain: Any) -> Any:
    """Read what `_plain` gave."""
    if isinstance(plain, Mapping):
        return float(plain[NUMBER]) if set(plain) == {NUMBER} else {k: _value(v) for k, v in plain.items()}
    return [_value(v) for v in plain] if isinstance(plain, list) else plain
