"""The saved form of a CUDIA fit: parameters and draws of them, families, groups and means; no people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.imputation.columns import Column
from crosslevel.imputation.cudia.chain import Draws
from crosslevel.imputation.cudia.encoding import Reading, family_from_dict, family_to_dict
from crosslevel.imputation.cudia.hidden import EtaPrior, Identifiability
from crosslevel.imputation.cudia.places import Slopes
from crosslevel.imputation.cudia.posterior import Parameters
from crosslevel.imputation.cudia.problem import Block, Problem
from crosslevel.imputation.cudia.proportions import MixPrior
from crosslevel.imputation.cudia.setup import Layout
from crosslevel.imputation.inputs import Partition, Schema
from crosslevel.results import Estimates
from crosslevel.results.forms import plain
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.imputation.cudia.estimator import CUDIA

__all__ = ["from_payload", "to_payload"]

Model = TypeVar("Model", bound="CUDIA")

_DRAWS = ("pi", "H", "tau2", "trace", "people")
_BLOCK = ("features", "group", "share", "S", "size", "se")
_REPORT = ("singular_values", "share", "contrasts", "variance")


def to_payload(model: CUDIA) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    layout, at = model._layout, model.parameters_
    arrays: Arrays = {"pi": at.pi, "H": at.H, "tau2": at.tau2, "atoms": layout.atoms, "shares": model._shares}
    arrays["atom_weight"] = layout.atom_weight
    arrays |= {f"theta{i}": t for i, t in enumerate(at.theta)}
    arrays |= {f"block{b}_{n}": getattr(block, n) for b, block in enumerate(layout.problem.blocks) for n in _BLOCK}
    arrays |= {f"target{j}": mean for j, (_, mean) in enumerate(layout.targets)}
    arrays |= {f"report{j}_{n}": getattr(r, n) for j, r in enumerate(model.identifiability_) for n in _REPORT}
    arrays |= {f"prior_{n}": getattr(model._prior, n) for n in ("precision", "centre", "scale")}
    arrays |= {f"mix_{n}": getattr(model._mix_prior, n) for n in ("alpha", "mean", "variance")}
    draws = model._draws if len(layout.problem.cell) == 0 else model._posterior()
    if draws is not None:
        arrays |= {f"draws_{n}": getattr(draws, n) for n in _DRAWS}
        arrays |= {f"draws_theta{i}": t for i, t in enumerate(draws.theta)}
    slopes = None if draws is None else model._open_slopes()
    open_slopes, more = (None, {}) if slopes is None else slopes.to_payload()
    arrays |= more
    meta = {
        "params": _plain_params(model.get_params()),
        "columns": [{"name": c.name, "levels": plain(c.levels, c.name)} for c in model.schema_.columns],
        "partitions": [{"name": p.name, "labels": plain(list(p.labels), p.name)} for p in model.schema_.partitions],
        "partition_column": model.schema_.partition_column,
        "families": [family_to_dict(f) for f in layout.problem.families],
        "values": [None if v is None else list(v) for v in layout.reading.values],
        "hidden": [{"name": n, "kind": k} for n, k in zip(layout.hidden, layout.problem.hidden, strict=True)],
        "targets": [p for p, _ in layout.targets],
        "reports": [{"effective_df": r.effective_df, "n_groups": r.n_groups} for r in model.identifiability_],
        "prior": model._prior.kind,
        "mix": model._mix_prior.kind,
        "accepted": None if draws is None else draws.accepted,
        "slopes": open_slopes,
        "chosen": [model.n_clusters_, model.ridge_, model.ridge_target_],
        "convergence": plain(model.convergence_, "convergence"),
        "selection": None if model.selection_ is None else model.selection_.to_json(),
        "warnings": list(model.warnings_),
        "frame": model._frame,
        "data": dict(model._data),
    }
    return meta, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again, without the people of its fit."""
    model = cls(**_read_params(meta["params"]))
    n_families = len(meta["families"])
    families = tuple(family_from_dict(f) for f in meta["families"])
    hidden = tuple(h["name"] for h in meta["hidden"])
    model.schema_ = Schema(
        tuple(Column(c["name"], None if c["levels"] is None else tuple(c["levels"])) for c in meta["columns"]),
        tuple(Partition(p["name"], tuple(p["labels"])) for p in meta["partitions"]),
        meta["partition_column"],
    )
    blocks: list[Block] = []
    while f"block{len(blocks)}_S" in arrays:
        blocks.append(Block(**{n: arrays[f"block{len(blocks)}_{n}"] for n in _BLOCK}))
    nobody = np.zeros(0, dtype=np.int64)
    d = len(meta["columns"])
    problem = Problem(
        np.zeros((0, d)), families, nobody, nobody, np.zeros(0), nobody, len(arrays["atoms"]), tuple(blocks),
        tuple(h["kind"] for h in meta["hidden"]),
    )  # fmt: skip
    reading = Reading(families, tuple(None if v is None else tuple(v) for v in meta["values"]))
    targets = tuple((p, arrays[f"target{j}"]) for j, p in enumerate(meta["targets"]))
    model._layout = Layout(problem, reading, arrays["atoms"], hidden, targets, arrays["atom_weight"])
    model.parameters_ = Parameters(
        tuple(arrays[f"theta{i}"] for i in range(n_families)), arrays["pi"], arrays["H"], arrays["tau2"]
    )
    model._shares = arrays["shares"]
    model._prior = EtaPrior(meta["prior"], *(arrays[f"prior_{n}"] for n in ("precision", "centre", "scale")))
    model._mix_prior = MixPrior(meta["mix"], *(arrays[f"mix_{n}"] for n in ("alpha", "mean", "variance")))
    model._draws = None
    model._slopes = Slopes.from_payload(meta["slopes"], arrays) if meta["slopes"] is not None else None
    if meta["accepted"] is not None:
        theta = tuple(arrays[f"draws_theta{i}"] for i in range(n_families))
        model._draws = Draws(theta, **{n: arrays[f"draws_{n}"] for n in _DRAWS}, accepted=meta["accepted"])
    model.identifiability_ = tuple(
        Identifiability(
            arrays[f"report{j}_singular_values"],
            r["effective_df"],
            arrays[f"report{j}_share"],
            arrays[f"report{j}_contrasts"],
            arrays[f"report{j}_variance"],
            r["n_groups"],
        )
        for j, r in enumerate(meta["reports"])
    )
    model.n_clusters_, model.ridge_, model.ridge_target_ = meta["chosen"]
    model.convergence_ = dict(meta["convergence"])
    model.selection_ = None if meta["selection"] is None else Estimates.from_json(meta["selection"])
    model.hidden_names_, model.warnings_ = hidden, tuple(meta["warnings"])
    model._frame, model._data = meta["frame"], dict(meta["data"])
    model.feature_names_in_ = np.array(model.schema_.names, dtype=object)
    model.n_features_in_ = d
    return model


def _plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(params)
    if isinstance(out["families"], Mapping):  # keys may be tuples of columns
        out["families"] = [[k if isinstance(k, str) else list(k), v] for k, v in out["families"].items()]
    if not isinstance(out["alpha"], str):
        out["alpha"] = np.asarray(out["alpha"], dtype=np.float64).tolist()
    found: dict[str, Any] = plain(out, "params")
    return found


def _read_params(params: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(params)
    if isinstance(out["families"], list):
        out["families"] = {k if isinstance(k, str) else tuple(k): v for k, v in out["families"]}
    return out
