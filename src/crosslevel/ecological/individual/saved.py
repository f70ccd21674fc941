"""The individual link as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms
from crosslevel.ecological.individual.collapse import Coarsening
from crosslevel.ecological.individual.effects import effects_of
from crosslevel.ecological.individual.fit import IndividualFit
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.individual.model import Linear
from crosslevel.embedding.encoding import Encoder
from crosslevel.numerics.laplace import Mode

__all__ = ["arrays_of", "facts_of", "model_of"]

Arrays = dict[str, npt.NDArray[Any]]

_LINEAR = ("beta", "f", "J", "z", "W", "level", "slope")
_LINEAR_FACTS = ("iterations", "decrement", "gradient")


def arrays_of(model: IndividualModel) -> Arrays:
    """Give limits of bins, modes and slopes by name."""
    arrays: Arrays = {f"edges.{name}": edges for name, edges in model.coarsening.edges.items()}
    for stage, fit in enumerate(model.fits):
        arrays |= {f"linear{stage}.{name}": getattr(fit.linear, name) for name in _LINEAR}
        arrays[f"context{stage}"] = fit.rows.M[:, fit.linear.J.shape[1] :]
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
            )
        )
    return IndividualModel(coarsening, effects_of(coarsening, interactions), terms, tuple(fits), rho)
