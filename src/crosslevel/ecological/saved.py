"""The saved form of a fitted model: everything but the people.

Stored are the places' table and vectors, what was counted, the mode of every question with its Cholesky factor (lower triangle), the
embedding, and the hyperparameters; prior and Gram matrix are made again from these. Of the individual link also the limits of the bins
of numbers, the effects at the mode, and what was learnt from hidden columns. For 998 places and 4,096 features: 33 MB of
vectors and 4 MB for each question. When ``sampling_error`` is on the file also holds the encoded columns of a sample of at most a
thousand people, without their place or weight: the variance between people cannot be had without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.ecological.calibration import Calibration
from crosslevel.ecological.evidence import Evidence
from crosslevel.ecological.group.covariance import Hyperparameters, Rows
from crosslevel.ecological.group.fit import Fit
from crosslevel.ecological.group.link import GroupModel, observe
from crosslevel.ecological.honest import Confounding
from crosslevel.ecological.individual import saved as individual_saved
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.learning import sampling_error
from crosslevel.ecological.places import Places, Totals
from crosslevel.ecological.settings import prior_terms
from crosslevel.embedding import Embeddings
from crosslevel.numerics.laplace import Mode
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = ["from_payload", "to_payload"]

Model = TypeVar("Model", bound="EcologicalInference")

_VECTORS = ("f", "alpha", "curvature", "third")
_WHOLE = ("values", "weight", "n_rows", "effective_size")
_EVIDENCE = ("M", "A", "successes", "trials")


def to_payload(model: EcologicalInference) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    fitted, places, evidence = model.model_, model.places_, model.evidence_
    arrays: Arrays = {f"whole.{name}": getattr(model.whole_, name) for name in _WHOLE}
    arrays |= {"places.successes": places.totals.successes, "places.trials": places.totals.trials}
    arrays |= {"places.table": _table_bytes(places.table)}
    if isinstance(fitted, GroupModel):
        arrays["centre"] = fitted.centre
        if model.sampling_error:
            arrays["sample"] = model.embedder_.sample_
    else:
        arrays |= individual_saved.arrays_of(fitted)
    if places.coords is not None:
        arrays["places.coords"] = places.coords
    if evidence is not None:
        arrays |= {f"evidence.{name}": getattr(evidence, name) for name in _EVIDENCE}
    for stage, mode in enumerate([fit.mode for fit in fitted.fits]):
        arrays |= {f"mode{stage}.{name}": getattr(mode, name) for name in _VECTORS}
        arrays[f"mode{stage}.L"] = mode.L[np.tril_indices(len(mode.L))]
    meta = {
        "params": _plain(model.get_params(deep=False)),
        "embedder": model.embedder_,
        "places": {
            "by": places.by,
            "outcomes": list(places.totals.outcomes),
            "turnout": places.totals.turnout,
            "coords_by": None if places.coords_by is None else list(places.coords_by),
            "frame": places.frame,
            "fingerprint": places.fingerprint,
            "notes": list(places.notes),
        },
        "whole": {"warnings": list(model.whole_.warnings), "frame": model.whole_.frame},
        "evidence": None
        if evidence is None
        else {"labels": list(evidence.labels), "fingerprint": evidence.fingerprint, "notes": list(evidence.notes)},
        "nearest": fitted.nearest if isinstance(fitted, GroupModel) else None,
        "fits": [_fit_facts(f) if isinstance(f, Fit) else individual_saved.facts_of(f) for f in fitted.fits],
        "calibration": None if model.calibration_ is None else _calibration_facts(model.calibration_),
        "asked": _plain(model.asked_),
        "where": model.where_,
        "warnings": list(model.warnings_),
        "call": model.call_,
        "data": dict(model.data_),
        "counts": dict(model.counts_),
        "seconds": dict(model.seconds_),
    }
    return meta, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again, without people."""
    model = cls(**meta["params"])
    model.embedder_ = meta["embedder"]
    if "sample" in arrays:
        model.embedder_.sample_ = arrays["sample"]
    model.places_ = _places(meta["places"], arrays)
    model.whole_ = Embeddings(
        key_table=model.places_.table.select([model.places_.by]),
        warnings=tuple(meta["whole"]["warnings"]),
        frame=meta["whole"]["frame"],
        **{name: arrays[f"whole.{name}"] for name in _WHOLE},
    )
    model.evidence_ = None
    if meta["evidence"] is not None:
        words = meta["evidence"]
        model.evidence_ = Evidence(
            **_under(arrays, "evidence."),
            labels=tuple(words["labels"]),
            fingerprint=words["fingerprint"],
            notes=tuple(words["notes"]),
        )
    model.model_ = _model(model, meta, arrays)
    model.calibration_ = None if meta.get("calibration") is None else _calibration(meta["calibration"])
    model.asked_, model.cells_, model.counts_ = dict(meta.get("asked") or {}), None, dict(meta.get("counts") or {})
    model.people_, model.where_, model.by_ = None, meta["where"], model.places_.by
    model.warnings_, model.call_, model.data_ = tuple(meta["warnings"]), meta["call"], dict(meta["data"])
    model.seconds_ = dict(meta["seconds"])
    model._set_attributes()
    return model


def _places(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Places:
    table = _table_of(arrays["places.table"])
    totals = Totals(
        tuple(facts["outcomes"]), arrays["places.successes"], arrays["places.trials"], bool(facts["turnout"])
    )
    return Places(
        table,
        facts["by"],
        table[facts["by"]].to_pylist(),
        totals,
        arrays.get("places.coords"),
        None if facts["coords_by"] is None else tuple(facts["coords_by"]),
        facts["frame"],
        facts["fingerprint"],
        tuple(facts["notes"]),
    )


def _model(
    model: EcologicalInference, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> GroupModel | IndividualModel:
    """Put the fitted link together: rows as they were observed, and the mode of each question."""
    if model.link == "individual":
        return individual_saved.model_of(
            model.embedder_.encoder_,
            prior_terms(model, model.places_),
            model.interactions,
            float(model.rho),
            meta["fits"],
            arrays,
            lambda facts, stage, n: _mode(facts, arrays, stage, n),
        )
    totals, evidence, centre = model.places_.totals, model.evidence_, arrays["centre"]
    terms = prior_terms(model, model.places_)
    places = Rows.of(model.whole_.values - centre)
    seen = observe(places, centre, totals.successes, totals.trials, None if evidence is None else evidence.extra)
    fits = tuple(
        Fit(
            Hyperparameters(**facts["hyperparameters"]),
            _mode(facts, arrays, stage, len(seen.rows[stage].M)),
            facts["slope"],
            tuple(facts["at_limit"]),
            tuple(facts["evidences"]),
            facts["evaluations"],
        )
        for stage, facts in enumerate(meta["fits"])
    )
    sampling = sampling_error(model.embedder_, model.whole_) if model.sampling_error else None
    nearest = float(meta["nearest"])
    return GroupModel(centre, places.M, seen.rows, seen.observed, seen.likelihoods, terms, fits, sampling, nearest)


def _calibration_facts(found: Calibration) -> dict[str, Any]:
    return {
        "confounding": asdict(found.confounding),
        "pulls": dict(found.pulls),
        "labels": list(found.labels),
        "coverage": _known(found.coverage),
        "place_coverage": _known(found.place_coverage),
        "table": {name: [_known(v) for v in found.table[name].to_pylist()] for name in found.table.column_names},
        "level": found.level,
    }


def _calibration(facts: Mapping[str, Any]) -> Calibration:
    return Calibration(
        Confounding(**facts["confounding"]),
        dict(facts["pulls"]),
        tuple(facts["labels"]),
        _number(facts["coverage"]),
        _number(facts["place_coverage"]),
        pa.table({name: [_number(v) if v is None else v for v in values] for name, values in facts["table"].items()}),
        float(facts["level"]),
    )


def _known(value: Any) -> Any:
    """Give a number as JSON holds it, which has no NaN: labels without places of enough people have no scores there."""
    return None if isinstance(value, float) and np.isnan(value) else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {
        "hyperparameters": asdict(fit.hyperparameters),
        "slope": fit.slope,
        "at_limit": list(fit.at_limit),
        "evidences": list(fit.evidences),
        "evaluations": fit.evaluations,
        "log_evidence": fit.mode.log_evidence,
        "iterations": fit.mode.iterations,
        "gradient": fit.mode.gradient,
    }


def _mode(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], stage: int, n: int) -> Mode:
    # the order of the fitted factor: LAPACK's, in which BLAS then takes the same path to the last bit
    L = np.zeros((n, n), order="F")
    L[np.tril_indices(n)] = arrays[f"mode{stage}.L"]
    vectors = {name: arrays[f"mode{stage}.{name}"] for name in _VECTORS}
    return Mode(
        **vectors,
        L=L,
        log_evidence=facts["log_evidence"],
        iterations=facts["iterations"],
        gradient=facts["gradient"],
    )


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _table_bytes(table: pa.Table) -> npt.NDArray[np.uint8]:
    """Write a table as an Arrow stream: exact for every type of column."""
    sink = pa.BufferOutputStream()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def _table_of(data: npt.NDArray[np.uint8]) -> pa.Table:
    try:
        with pa.ipc.open_stream(pa.py_buffer(data.tobytes())) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the table of places cannot be read: {error}") from error
    return table


def _plain(value: Any) -> Any:
    """Give parameters as JSON holds them."""
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    return value
