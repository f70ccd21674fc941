"""The saved form of an individual link: slopes, scores and people gathered by cell and group, not person by person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.cells import Cells
from crosslevel.imputation.columns import Column
from crosslevel.imputation.inputs import Partition, Schema
from crosslevel.imputation.persons.answers import Hidden
from crosslevel.imputation.persons.design import Design, Feature
from crosslevel.imputation.persons.learning import Learnt
from crosslevel.imputation.persons.model import LinkFit
from crosslevel.imputation.persons.similar import Adjustment, Left
from crosslevel.results.forms import plain
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.imputation.persons.estimator import CrossLevelImputer

__all__ = ["from_payload", "to_payload"]

Model = TypeVar("Model", bound="CrossLevelImputer")

_CELLS = ("X", "pair_cell", "pair_group", "count", "weight", "weight_squared")
_NUMBERS = ("intercept", "t_b", "objective", "gradient", "steps", "apart")


def to_payload(model: CrossLevelImputer) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    arrays: Arrays = {f"cells_{n}": getattr(model._cells, n) for n in _CELLS}
    for j, f in enumerate(model.design_.features):
        arrays |= {f"feature{j}_at": f.at, f"feature{j}_score": f.score, f"feature{j}_reach": f.reach}
    for j, h in enumerate(model.hidden_):
        own = {"mean": h.mean, "variance": h.variance, "shift": h.shift, "beta": h.fit.beta, "Sigma": h.fit.Sigma}
        arrays |= {f"hidden{j}_{n}": v for n, v in own.items()}
        arrays[f"hidden{j}_numbers"] = np.array([h.unit, h.noise, *(float(getattr(h.fit, n)) for n in _NUMBERS)])
    learnt = model.learned_
    for p, a in ({} if learnt is None else learnt.adjustments).items():
        arrays |= {f"adjustment{p}_shrink": a.shrink, f"adjustment{p}_add": a.add}
    meta = {
        "params": plain({k: list(v) if isinstance(v, tuple) else v for k, v in model.get_params().items()}, "params"),
        "columns": [{"name": c.name, "levels": plain(c.levels, c.name)} for c in model.schema_.columns],
        "partitions": [{"name": p.name, "labels": plain(list(p.labels), p.name)} for p in model.schema_.partitions],
        "partition_column": model.schema_.partition_column,
        "features": [{"name": f.name, "kind": f.kind, "terms": list(f.terms)} for f in model.design_.features],
        "hidden": [{"name": h.name, "partition": h.partition, "binary": h.binary} for h in model.hidden_],
        "learnt": None if learnt is None else _words_of(learnt),
        "warnings": list(model.warnings_),
        "frame": model._frame,
        "data": dict(model._data),
    }
    return meta, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again, without the single persons of its fit."""
    model = cls(**meta["params"])
    nobody = np.empty(0, dtype=np.intp)
    model._cells = Cells(**{n: arrays[f"cells_{n}"] for n in _CELLS}, row=nobody, pair=nobody)
    model._weight, model._frame, model._data = None, meta["frame"], dict(meta["data"])
    model.schema_ = Schema(
        tuple(Column(c["name"], None if c["levels"] is None else tuple(c["levels"])) for c in meta["columns"]),
        tuple(Partition(p["name"], tuple(p["labels"])) for p in meta["partitions"]),
        meta["partition_column"],
    )
    model.feature_names_in_ = np.array(model.schema_.names, dtype=object)
    model.n_features_in_ = len(model.schema_.columns)
    model.design_ = Design(
        tuple(
            Feature(
                f["name"],
                f["kind"],
                arrays[f"feature{j}_at"],
                arrays[f"feature{j}_score"],
                tuple(f["terms"]),
                arrays[f"feature{j}_reach"],
            )
            for j, f in enumerate(meta["features"])
        )
    )
    model.learned_ = None if meta["learnt"] is None else _learnt_of(meta["learnt"], arrays)
    model.hidden_ = tuple(_hidden_of(j, h, arrays, model.learned_) for j, h in enumerate(meta["hidden"]))
    model.hidden_names_ = tuple(h.name for h in model.hidden_)
    model.warnings_ = tuple(meta["warnings"])
    return model


def _hidden_of(
    j: int, words: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], learnt: Learnt | None
) -> Hidden:
    unit, noise, *numbers = (float(v) for v in arrays[f"hidden{j}_numbers"])
    intercept, t_b, objective, gradient, steps, apart = numbers
    beta, Sigma = arrays[f"hidden{j}_beta"], arrays[f"hidden{j}_Sigma"]
    return Hidden(
        **words,
        mean=arrays[f"hidden{j}_mean"],
        variance=arrays[f"hidden{j}_variance"],
        shift=arrays[f"hidden{j}_shift"],
        unit=unit,
        noise=noise,
        fit=LinkFit(beta, intercept, Sigma, t_b, objective, gradient, int(steps), apart),
        adjustment=None if learnt is None or not words["binary"] else learnt.adjustments[words["partition"]],
    )


def _words_of(learnt: Learnt) -> dict[str, Any]:
    return {
        "names": list(learnt.names),
        "warnings": list(learnt.warnings),
        "partitions": [
            {
                "partition": p,
                "kappa": a.kappa,
                "labels": a.labels,
                "left": [plain([one.lift, one.plain, one.coverage], "left") for one in learnt.left[p]],
            }
            for p, a in learnt.adjustments.items()
        ],
    }


def _learnt_of(words: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Learnt:
    adjustments, left = {}, {}
    for entry in words["partitions"]:
        p = int(entry["partition"])
        shrink, add = arrays[f"adjustment{p}_shrink"], arrays[f"adjustment{p}_add"]
        adjustments[p] = Adjustment(shrink, add, entry["kappa"], entry["labels"])
        left[p] = [Left(*(np.nan if v is None else v for v in one)) for one in entry["left"]]
    return Learnt(tuple(words["names"]), adjustments, left, tuple(words["warnings"]))
