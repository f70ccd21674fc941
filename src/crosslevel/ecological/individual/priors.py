"""Priors of the scales of the individual link, and where the search for them begins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crosslevel.ecological.group.covariance import Hyperparameters, Terms

__all__ = ["PRIOR", "first_guess", "priors"]

PRIOR: Mapping[str, tuple[float, float]] = {
    "embedding": (float(np.log(0.25)), 1.2),
    "spatial": (float(np.log(0.1)), 2.0),
    "nugget": (float(np.log(0.03)), 2.0),
    "group": (float(np.log(0.03)), 2.0),
}
"""Normal priors of log variances. That of effects (sd of half a logit, within a factor 3.3 with probability .95) holds what would run
away: the evidence of the linear look-alike, since the look-alike itself depends on the effects. The others are wide."""
START = Hyperparameters(embedding=0.25, spatial=0.1, length=300.0, nugget=0.03, group=0.02)


def priors(terms: Terms) -> dict[str, tuple[float, float]]:
    """Give the normal priors of the log scales that the terms have; that of the length is wide, around a fifth of the usual distance."""
    known = {**PRIOR, "length": (float(np.log(first_guess(terms).length)), 1.5)}
    return {name: known[name] for name in terms.names}


def first_guess(terms: Terms) -> Hyperparameters:
    """Say where the search begins."""
    length = 1.0
    if terms.distance is not None:
        apart = terms.distance[terms.distance > 0]
        length = 0.2 * float(np.median(apart)) if len(apart) else 1.0
    chosen = {name: getattr(START, name) for name in terms.names} | ({"length": length} if terms.kind else {})
    return Hyperparameters(**chosen)
