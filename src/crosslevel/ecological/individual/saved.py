"""The individual link as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.columns import Encoder
from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms
from crosslevel.ecological.individual.collapse import Coarsening
from crosslevel.ecological.individual.effects import effects_of
from crosslevel.ecological.individual.fit import IndividualFit
from crosslevel.ecological.individual.laplace import Point
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.individual.model import Linear
from crosslevel.ecological.individual.sampled import Sampled
from crosslevel.numerics.chains import ChainDiagnostics
from crosslevel.numerics.laplace import Mode
from crosslevel.typing import Arrays

__all__ = ["arrays_of", "facts_of", "model_of"]


_LINEAR = ("beta", "f", "J", "z", "W", "level", "slope", "inner", "alpha")
_LINEAR_FACTS = ("iterations", "decrement", "gradient", "height")
_POINT = ("beta", "root", "J", "W", "alpha", "level", "slope")
_SAMPLED = ("beta", "f", "logs", "rate")


def arrays_of(model: IndividualModel) -> Arrays:
    """Give limits of bins, modes and slopes by name."""
    arrays: Arrays = {f"edges.{name}": edges for name, edges in model.coarsening.edges.items()}
    for stage, fit in enumerate(model.fits):
        arrays |= {f"linear{stage}.{name}": getattr(fit.linear, name) for name in _LINEAR}
        arrays[f"context{stage}"] = fit.rows.M[:, fit.linear.J.shape[1] :]
        for name in _POINT:
            arrays[f"points{stage}.{name}"] = np.stack([getattr(point, name) for point in fit.points])
        if fit.sampled is not None:
            arrays |= {f"sampled{stage}.{name}": getattr(fit.sampled, name) for name in _SAMPLED}
    return arrays


def facts_of(fit: IndividualFit) -> dict[str, Any]:
    """Give plain values of one question."""
    return {
        "hyperparameters": asdict(fit.hyperparameters),
        "at_limit": list(fit.at_limit),
        "rounds": fit.rounds,
        "change": fit.change,
        **{f"linear_{name}": getattr(fit.linear, name) for name in _LINEAR_FACTS},
        "log_evidence": fit.mode.log_evidence,
        "iterations": fit.mode.iterations,
        "gradient": fit.mode.gradient,
        "points": [{"weight": p.weight, "hyperparameters": asdict(p.hyperparameters)} for p in fit.points],
        "sampled": None if fit.sampled is None else asdict(fit.sampled.diagnostics),
    }


def model_of(
    encoder: Encoder,
    terms: Terms,
    interactions: Sequence[Sequence[str]] | None,
    rho: float,
    facts: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, npt.NDArray[Any]],
    mode_of: Callable[[Mapping[str, Any], int, int], Mode],
) -> IndividualModel:
    """Put the link together again."""
    edges = {name.removeprefix("edges."): array for name, array in arrays.items() if name.startswith("edges.")}
    coarsening = Coarsening(encoder, edges)
    fits = []
    for stage, said in enumerate(facts):
        numbers: dict[str, Any] = {name: said[f"linear_{name}"] for name in _LINEAR_FACTS}
        numbers |= {name: arrays[f"linear{stage}.{name}"] for name in _LINEAR}
        linear = Linear(**numbers)
        rows = Rows.of(np.hstack([linear.J, arrays[f"context{stage}"]]))
        mode = mode_of(said, stage, len(linear.z))
        fits.append(
            IndividualFit(
                Hyperparameters(**said["hyperparameters"]),
                linear,
                rows,
                mode,
                said["rounds"],
                said["change"],
                tuple(said["at_limit"]),
                _points(said["points"], stage, arrays),
                _sampled(said["sampled"], stage, arrays),
            )
        )
    return IndividualModel(coarsening, effects_of(coarsening, interactions), terms, tuple(fits), rho)


def _points(said: Sequence[Mapping[str, Any]], stage: int, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Point, ...]:
    return tuple(
        Point(
            Hyperparameters(**facts["hyperparameters"]),
            facts["weight"],
            **{name: arrays[f"points{stage}.{name}"][number] for name in _POINT},
        )
        for number, facts in enumerate(said)
    )


def _sampled(said: Mapping[str, Any] | None, stage: int, arrays: Mapping[str, npt.NDArray[Any]]) -> Sampled | None:
    if said is None:
        return None
    found = {name: arrays[f"sampled{stage}.{name}"] for name in _SAMPLED}
    return Sampled(**found, diagnostics=ChainDiagnostics(**said))
