"""Draws of the whole posterior of the individual link, as a sampler made them."""

from __future__ import annotations

from dataclasses import dataclass

from crosslevel.numerics.chains import ChainDiagnostics
from crosslevel.typing import FloatArray

__all__ = ["Sampled"]


@dataclass(frozen=True, eq=False)
class Sampled:
    """Draws of the posterior.

    Attributes
    ----------
    beta : (n_draws, p)
        Of all chains, one after another.
    f : (n_draws, q)
        What belongs to places, context included.
    logs : (n_draws, n_scales)
        Logarithms of the scales, in the order of ``terms.names``.
    rate : (n_draws, q)
        Rates of the places.
    diagnostics : ChainDiagnostics
    """

    beta: FloatArray
    f: FloatArray
    logs: FloatArray
    rate: FloatArray
    diagnostics: ChainDiagnostics
