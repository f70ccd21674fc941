"""Predictions as tables: a row per bag, or per bag and class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.bags import Bags
from crosslevel.distribution.predictive import Predictive
from crosslevel.distribution.stored import StoredBags
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["class_table", "label_table"]


def label_table(
    bags: Bags | StoredBags,
    found: Predictive,
    truth: FloatArray | None,
    level: float,
    method: str,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
) -> Estimates:
    """Make the table of predicted labels."""
    low, high = found.interval(level)
    columns = {
        "bag": _names(bags),
        "estimate": found.mean,
        "std_error": found.std,
        "conf_low": low,
        "conf_high": high,
        "size": bags.effective_sizes,
    }
    if truth is not None:
        columns["truth"] = truth
    return Estimates.build(
        columns,
        keys=("bag",),
        method=f"distribution regression, {method}",
        level=level,
        interval="predictive, of a new label",
        provenance=provenance,
        diagnostics=diagnostics,
        title="Labels of bags",
    )


def class_table(
    bags: Bags | StoredBags,
    probabilities: FloatArray,
    classes: npt.NDArray[Any],
    truth: npt.NDArray[np.bool_] | None,
    method: str,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
) -> Estimates:
    """Make the table of probabilities."""
    n, k = probabilities.shape
    columns = {
        "bag": np.repeat(_names(bags), k),
        "class": np.tile(classes if classes.dtype.kind in "iufU" else classes.astype(str), n),
        "estimate": probabilities.ravel(),
        "size": np.repeat(bags.effective_sizes, k),
    }
    if truth is not None:
        columns["truth"] = truth.astype(np.float64).ravel()
    return Estimates.build(
        columns,
        keys=("bag", "class"),
        method=f"distribution classification, {method}",
        level=None,
        interval="none",
        provenance=provenance,
        diagnostics=diagnostics,
        title="Classes of bags",
    )


def _names(bags: Bags | StoredBags) -> npt.NDArray[Any]:
    keys = np.asarray(bags.keys)
    return keys if keys.dtype.kind in "iufU" else np.array([str(k) for k in keys.tolist()])
