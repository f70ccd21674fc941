"""The saved form of a model of counts: the posterior of the curve over its cells, so that a loaded model answers as it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.binned.count_model import CountModel
from crosslevel.binned.counts.areas import PooledFit
from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.curve import Curve
from crosslevel.binned.counts.fit import CountFit
from crosslevel.binned.counts.pooled import PooledCurves
from crosslevel.binned.counts.rates import RateFit
from crosslevel.binned.regions import sums
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.binned.estimator import BinnedGP

__all__ = ["from_payload", "to_payload"]

Model = TypeVar("Model", bound="BinnedGP")

_BINS = ("C", "lower", "upper", "weight", "span", "places", "excess", "warped")
_CURVE = ("mean", "within", "rough", "scale", "length", "weight")
_POOLED = ("f", "K", "mean", "log_evidence")


def to_payload(model: BinnedGP, counts: CountModel) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    fit, curve = counts.fit, counts.curve
    arrays: Arrays = {"y": counts.y, "totals": fit.totals} | sums.to_arrays(counts.regions, "regions_")
    arrays |= {f"bins_{n}": getattr(fit.bins, n) for n in _BINS} | {f"curve_{n}": getattr(curve, n) for n in _CURVE}
    arrays |= {f"codes_{axis}": values for axis, values in counts.codes.items()}
    facts: dict[str, Any] = {
        "likelihood": counts.likelihood,
        "categorical": list(fit.bins.categorical),
        "curve": {"rho": curve.rho, "log_evidence": curve.log_evidence, "kernel": list(curve.kernel)},
        "codes": list(counts.codes),
        "pool": counts.pool,
        "areas": list(counts.areas),
        "notes": list(counts.notes),
    }
    if isinstance(fit, PooledFit):
        arrays |= {f"pooled_{n}": getattr(fit.curves, n) for n in _POOLED}
        facts["departures"] = [fit.curves.scale, fit.curves.length]
    else:
        facts |= {"family": fit.family, "preserve": fit.preserve, "warnings": list(fit.warnings)}
    if counts.rates is not None:
        arrays |= {"rates_mean": counts.rates.mean, "rates_covariance": counts.rates.covariance}
    params = {k: v.item() if isinstance(v, np.generic) else v for k, v in model.get_params().items()}
    return {"params": params, "counts": facts}, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again."""
    facts = meta["counts"]
    flags = tuple(bool(c) for c in facts["categorical"])
    bins = CountBins(**{n: arrays[f"bins_{n}"] for n in _BINS}, categorical=flags)
    told = facts["curve"]
    parts = {n: arrays[f"curve_{n}"] for n in _CURVE}
    curve = Curve(**parts, rho=told["rho"], log_evidence=told["log_evidence"], kernel=tuple(told["kernel"]))
    fit: CountFit | PooledFit
    if facts["pool"] is not None:
        scale, length = facts["departures"]
        pooled = {n: arrays[f"pooled_{n}"] for n in _POOLED}
        fit = PooledFit(bins, arrays["totals"], PooledCurves(shared=curve, **pooled, scale=scale, length=length))
    else:
        fit = CountFit(
            bins,
            arrays["totals"],
            curve.mean,
            curve.covariance,
            facts["family"],
            facts["preserve"],
            curve,
            tuple(facts["warnings"]),
        )
    rates = None
    if "rates_mean" in arrays:
        rates = RateFit(bins, arrays["rates_mean"], arrays["rates_covariance"], curve.log_evidence)
    model = cls(**meta["params"])
    counts = CountModel(
        sums.from_arrays(arrays, "regions_"),
        arrays["y"],
        facts["likelihood"],
        fit,
        rates,
        {int(a): arrays[f"codes_{a}"] for a in facts["codes"]},
        facts["pool"],
        tuple(facts["areas"]),
        tuple(facts["notes"]),
    )
    model._keep_counts(counts)
    return model
