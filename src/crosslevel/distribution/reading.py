"""Read and check what bag estimators are given: bags, labels, and names of parameters for the provenance."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import validate_data

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.data.checks import align_groups, row_keys
from crosslevel.errors import InputError, listed
from crosslevel.typing import AnyArray, FloatArray

DIGITS = 16


def read_bags(estimator: Any, X: Any, *, reset: bool) -> Bags:
    """Read X as bags, keeping scikit-learn's checks of names and shapes for arrays and frames."""
    in_list = isinstance(X, list | tuple)
    if in_list:
        X = _listed_bags(X)
    if not isinstance(X, Bags):
        try:
            rows = validate_data(estimator, checks.unmasked(X), dtype=np.float64, reset=reset)
        except ValueError as error:
            said = str(error)
            if "NaN" not in said and "could not convert string" not in said:
                raise
            what = "text" if "string" in said else "missing values (NaN)"
            raise InputError(
                f"X has {what} ({said.splitlines()[0].rstrip('.')}); make bags of a table by Bags.from_frame, whose columns may be "
                "text and which takes missing='drop' or missing='indicate', or fill and encode X before."
            ) from error
        return Bags(rows, np.arange(len(rows) + 1))
    width = X.shape[1]
    unnamed = tuple(f"x{j}" for j in range(width))
    if reset:
        estimator.n_features_in_ = width
        estimator._columns = X.columns
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif width != estimator.n_features_in_:
        raise InputError(
            f"X has {width:,} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_:,} features as "
            "input; pass bags with the columns of fit, as Bags.from_frame(..., like=bags) makes them."
        )
    elif X.columns != (fitted := getattr(estimator, "_columns", X.columns)):
        if in_list and unnamed in (X.columns, fitted):
            return X
        if set(X.columns) != set(fitted):
            strange = next(c for c in X.columns if c not in fitted)
            raise InputError(
                f"X has the column {strange!r}, and the bags of fit had {listed(fitted)}; pass bags with the columns of fit, as "
                "Bags.from_frame(..., like=bags) makes them."
            )
        order = [X.columns.index(c) for c in fitted]
        return Bags(X.values[:][:, order], X.offsets, weights=X.weights, keys=X.keys, columns=fitted)
    return X


def _listed_bags(X: Sequence[Any]) -> Any:
    """Read a list of 2-D arrays as bags; a list of rows is left to be an array."""
    if not len(X):
        raise InputError("X is an empty list; pass at least one bag.")
    if any(np.ndim(bag) == 2 for bag in X if isinstance(bag, np.ndarray)) or np.ndim(X[0]) == 2:
        return Bags.from_list(X)
    lengths = {len(bag) for bag in X if len(getattr(bag, "shape", ())) == 1}
    if len(lengths) > 1:
        raise InputError(
            "X is a list of 1-D arrays of different lengths; a bag is people x columns: pass each as bag[:, None]."
        )
    if lengths - {1}:
        (n,) = lengths
        raise InputError(
            f"X is a list of 1-D arrays of length {n:,}, which may be bags of {n:,} people with one column or of one person with {n:,} "
            "columns; pass Bags.from_list(X) for the former, a 2-D array (np.array(X)) for the latter."
        )
    return X


def bag_names(X: Any) -> Any:
    """Give the names of bags: their keys, or the index of a frame; None for lists and arrays."""
    return X.keys if isinstance(X, Bags) else row_keys(X)


def read_numbers(y: Any, names: Any, n: int) -> FloatArray:
    """Read one number for each of n bags, matched with their names where y has some."""
    labels = _one_per_bag(y, names, n)
    if labels.dtype.kind == "O" or labels.dtype.kind in "SU":
        labels = checks.as_numbers(labels, "y", 1)
    return checks.check_finite(labels, "y", 1)


def read_labels(y: Any, names: Any, n: int) -> AnyArray:
    """Read one class for each of n bags, matched with their names where y has some."""
    labels = _one_per_bag(y, names, n)
    if labels.dtype.kind == "f":
        checks.check_finite(labels, "y", 1)
    missing = [i for i, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise InputError(f"y has {len(missing):,} missing class(es), the first of bag {missing[0]}; drop these bags.")
    return labels


def _one_per_bag(y: Any, names: Any, n: int) -> AnyArray:
    if y is None:
        raise InputError("the estimator requires y to be passed, but the target y is None; pass one label per bag.")
    labels = np.asarray(column_or_1d(checks.unmasked(align_groups(y, names, "y")), warn=True))
    if len(labels) != n:
        raise InputError(f"y has {len(labels):,} labels for {n:,} bags; pass one label per bag.")
    return labels


def fingerprints(bags: Bags, y: Any) -> dict[str, str]:
    """Name the content of bags and labels; of stored bags, of every thousandth person."""
    digest = hashlib.sha256(bags.offsets.astype("<i8").tobytes())
    digest.update(bags.weights.astype("<f8", copy=False).data)
    people = np.ascontiguousarray(bags.values[::1000] if bags.stored else bags.values)
    digest.update(people.data)
    labels = hashlib.sha256(repr(np.asarray(y).tolist()).encode())
    kind = "sha256-sample" if bags.stored else "sha256"
    return {"X": f"{kind}:{digest.hexdigest()[:DIGITS]}", "y": f"sha256:{labels.hexdigest()[:DIGITS]}"}


def describe_parameters(params: Mapping[str, Any]) -> str:
    """Write parameters as a call has them, arrays by their shape."""
    given = {k: f"array{v.shape}" if isinstance(v, np.ndarray) else repr(v) for k, v in params.items() if v is not None}
    return ", ".join(f"{k}={v}" for k, v in given.items())
