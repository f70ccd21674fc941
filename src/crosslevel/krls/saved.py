"""The saved form of a fitted model: distinct rows, coefficients, the table of effects, and the eigenvectors that count.

Predictions need only distinct rows and coefficients, 8 (P + 1) bytes a row. New standard errors need eigenvectors: those
whose eigenvalue exceeds 1e-8 penalties are kept (the others move a prior variance of 1 by less than 1e-8), U x k numbers;
when they take more than 64 MiB none are, and a loaded model predicts and has its table but makes no new standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.errors import CrosslevelError
from crosslevel.krls.collapse import Cells, Clusters
from crosslevel.krls.columns import Column, Encoding, build_effects
from crosslevel.krls.kernel import GaussianKernel, Scaling
from crosslevel.krls.logistic import LogisticFit
from crosslevel.krls.model import Fit, Solution
from crosslevel.krls.nystrom import LandmarkKernel, from_landmarks
from crosslevel.krls.penalty import Choice
from crosslevel.krls.spectrum import Spectrum
from crosslevel.krls.subgroups import RowFacts
from crosslevel.krls.variants import Inference
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.krls.estimator import KRLS

__all__ = ["KEPT", "LARGEST", "from_payload", "to_payload"]

Model = TypeVar("Model", bound="KRLS")

KEPT = 1e-8
"""Eigenvalues below this share of the penalty are left out of the file."""
LARGEST = 64 * 2**20
"""Bytes of eigenvectors beyond which none are saved."""

_CELLS = ("X", "m", "mean", "row", "stratum", "step", "weight", "stratum_mean", "ss")
_CLUSTERS = ("start", "cell", "n", "mean")
_ROWS = ("weights", "cluster")
_SOLUTION = ("rss", "edf", "loo")
_INFERENCE = ("estimate", "plug_in", "covariance", "spread")


def to_payload(model: KRLS) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    fit = model._model
    try:
        found: Inference | None = model._inference()
    except CrosslevelError:  # intervals that cannot be made are refused again when they are asked for
        found = None
    arrays: Arrays = {f"cells_{n}": getattr(fit.cells, n) for n in _CELLS}
    if fit.cells.clusters is not None:
        arrays |= {f"clusters_{n}": getattr(fit.cells.clusters, n) for n in _CLUSTERS}
    arrays |= {
        "x_mean": fit.scaling.mean,
        "x_sd": fit.scaling.sd,
        "curve": fit.choice.curve,
        "coef": fit.solution.coef,
        "fitted": fit.solution.fitted,
        "pointwise": model._pointwise,
        "row_coef": model.coef_,
        "used": model._used,
    }
    facts = model._rows
    arrays |= {f"rows_{n}": v for n in _ROWS if (v := getattr(facts, n)) is not None}
    kept = _kept_spectrum(fit)
    if isinstance(fit.kernel, LandmarkKernel):  # with these the eigenvectors can be made again
        arrays |= {"landmarks": fit.kernel.centres.Z, "T": fit.kernel.T, "T_w": fit.kernel.spectrum.w}
        kept = None
    if kept is not None:
        arrays |= {"Q": kept.Q, "w": kept.w}
    if found is not None:
        arrays |= {f"inference_{n}": getattr(found, n) for n in _INFERENCE}
    meta = {
        "params": _plain_params(model.get_params()),
        "columns": [asdict(c) for c in model.encoding_.columns],
        "names": [str(n) for n in getattr(model, "feature_names_in_", [])],
        "n_features_in": int(model.n_features_in_),
        "y": [fit.y_mean, fit.y_sd],
        "bandwidth": fit.kernel.s,
        "penalty": fit.choice.penalty,
        "bound": fit.choice.bound,
        "path": fit.path,
        "lost": fit.lost,
        "approximate": fit.approximate,
        "complete": kept is not None and kept.complete,
        "offset": fit.offset if isinstance(fit, LogisticFit) else None,
        "solution": {n: getattr(fit.solution, n) for n in _SOLUTION},
        "inference": None if found is None else _words_of(found),
        "frame": model._frame,
        "data": dict(model._data),
    }
    return meta, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again."""
    model = cls(**meta["params"])
    fit = _fit_of(meta, arrays)
    model._model, model._frame, model._data = fit, meta["frame"], dict(meta["data"])
    model.encoding_ = Encoding(
        tuple(Column(c["name"], None if c["levels"] is None else tuple(c["levels"])) for c in meta["columns"])
    )
    model._effects = build_effects(
        model.encoding_,
        fit.cells.X,
        fit.scaling,
        contrast=model.contrast,
        first_differences=model.first_differences,
        per_unit=model.inference == "bigkrls",
    )
    model._pointwise, model.coef_, model._used = arrays["pointwise"], arrays["row_coef"], arrays["used"]
    model._rows = RowFacts(arrays.get("rows_weights"), arrays.get("rows_cluster"), model.weights == "survey")
    model.n_features_in_ = meta["n_features_in"]
    if meta["names"]:
        model.feature_names_in_ = np.array(meta["names"], dtype=object)
    words = meta["inference"]
    model._inferred = None
    if words is not None:
        dof = np.inf if words["dof"] is None else words["dof"]
        numbers = {n: arrays[f"inference_{n}"] for n in _INFERENCE}
        model._inferred = Inference(**numbers, dof=dof, words=words["words"], notes=tuple(words["notes"]))
    model._set_attributes()
    return model


def _fit_of(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Fit:
    clusters = None
    if "clusters_start" in arrays:
        clusters = Clusters(**{n: arrays[f"clusters_{n}"] for n in _CLUSTERS})
    cells = Cells(**{n: arrays[f"cells_{n}"] for n in _CELLS}, clusters=clusters)
    scaling = Scaling(arrays["x_mean"], arrays["x_sd"])
    kernel = GaussianKernel(scaling.apply(cells.X), meta["bandwidth"])
    spectrum = Spectrum(arrays["Q"], arrays["w"], meta["complete"]) if "Q" in arrays else None
    if "landmarks" in arrays:
        found = from_landmarks(kernel, cells.m, arrays["landmarks"], arrays["T"], arrays["T_w"])
        kernel, spectrum = found.kernel, found.spectrum
    fit = Fit(
        cells=cells,
        scaling=scaling,
        y_mean=meta["y"][0],
        y_sd=meta["y"][1],
        kernel=kernel,
        spectrum=spectrum,
        choice=Choice(meta["penalty"], arrays["curve"], meta["bound"]),
        solution=Solution(arrays["coef"], arrays["fitted"], **meta["solution"]),
        path=meta["path"],
        lost=meta.get("lost", 0.0),
        approximate=meta.get("approximate", False),
    )
    if meta.get("offset") is None:
        return fit
    return LogisticFit(**{f.name: getattr(fit, f.name) for f in fields(fit)}, offset=meta["offset"])


def _kept_spectrum(fit: Fit) -> Spectrum | None:
    """Leave out the eigenvectors that no standard error needs; all of them when the rest is too large."""
    if fit.spectrum is None:
        return None
    keep = fit.spectrum.w > KEPT * fit.penalty
    if 8 * len(fit.spectrum) * int(keep.sum()) > LARGEST:
        return None
    whole = fit.spectrum.complete and bool(keep.all())
    return Spectrum(np.ascontiguousarray(np.asarray(fit.spectrum.Q)[:, keep]), fit.spectrum.w[keep], whole)


def _words_of(found: Inference) -> dict[str, Any]:
    return {"dof": None if np.isinf(found.dof) else float(found.dof), "words": found.words, "notes": list(found.notes)}


def _plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Give parameters as JSON holds them."""
    out: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, Mapping):
            value = {str(k): getattr(v, "item", lambda v=v: v)() for k, v in value.items()}
        elif isinstance(value, list | tuple | np.ndarray):
            value = [str(v) for v in value]
        out[name] = value
    return out
