"""The individual link, fitted: mode and scales in turn until neither moves, with priors on every scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms
from crosslevel.ecological.group.fit import fit
from crosslevel.ecological.individual.model import Design, Linear, find_map, linear_mode
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial, Gaussian, Mode

__all__ = ["PRIOR", "IndividualFit", "fit_individual", "priors"]

FloatArray = npt.NDArray[np.float64]

ROUNDS = 30
CLOSE = 0.03
"""Largest change of a log hyperparameter from one round to the next that counts as standing still."""
PRIOR: Mapping[str, tuple[float, float]] = {
    "embedding": (float(np.log(0.25)), 1.2),
    "spatial": (float(np.log(0.1)), 2.0),
    "nugget": (float(np.log(0.03)), 2.0),
    "group": (float(np.log(0.03)), 2.0),
}
"""Normal priors of log variances. That of effects (sd of half a logit, within a factor 3.3 with probability .95) holds what would run
away: the evidence of the linear look-alike, since the look-alike itself depends on the effects. The others are wide."""
START = Hyperparameters(embedding=0.25, spatial=0.1, length=300.0, nugget=0.03, group=0.02)


@dataclass(frozen=True, eq=False)
class IndividualFit:
    """A fitted question.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        ``embedding`` is the variance of effects.
    linear : Linear
        The mode and its linear look-alike.
    rows, mode
        The look-alike as rows and a mode.
    rounds : int
        Turns of mode and scales.
    change : float
        Last change of a log hyperparameter.
    at_limit : tuple of str
    """

    hyperparameters: Hyperparameters
    linear: Linear
    rows: Rows
    mode: Mode
    rounds: int
    change: float
    at_limit: tuple[str, ...]


def fit_individual(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    *,
    fixed: Hyperparameters | None = None,
    start: Hyperparameters | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    n_jobs: int = 1,
) -> IndividualFit:
    """Fit the individual link.

    Parameters
    ----------
    design, terms, likelihood
    fixed : Hyperparameters, optional
        Take these as they are.
    start : Hyperparameters, optional
        Begin here.
    prior : mapping of name to (mean, sd), optional
        Of log hyperparameters; :func:`priors` when not given.

    Raises
    ------
    ConvergenceError
        When the mode is not reached, or mode and scales do not come to rest.
    """
    h = fixed or start or _first(terms)
    found: Linear | None = None
    change = np.inf
    limit: tuple[str, ...] = ()
    turn = 0
    while turn < ROUNDS:
        turn += 1
        found = find_map(design, terms, h, likelihood, found, n_jobs)
        if fixed is not None:
            change = 0.0
            break
        better = fit(design.rows(found.J), terms, Gaussian(found.z, found.W), start=h, prior=prior or priors(terms))
        limit = better.at_limit
        moves = {name: np.log(getattr(better.hyperparameters, name) / getattr(h, name)) for name in terms.names}
        change = max(abs(v) for name, v in moves.items() if name not in limit) if len(limit) < len(moves) else 0.0
        if change < CLOSE:
            break
        # half way for the effects: their scale answers to itself and would swing
        h = Hyperparameters(
            **{
                name: float(getattr(h, name) * np.exp((0.6 if name == "embedding" else 1.0) * moves[name]))
                for name in terms.names
            }
        )
    else:
        raise ConvergenceError(
            f"mode and scales of the individual link did not come to rest in {ROUNDS} turns (a log scale still moves by "
            f"{change:.2g}); fix hyperparameters, or use fewer columns."
        )
    if found is None:
        raise AssertionError("no turn was taken")
    rows, mode = linear_mode(design, found, terms, h)
    return IndividualFit(h, found, rows, mode, turn, float(change), limit)


def priors(terms: Terms) -> dict[str, tuple[float, float]]:
    """Give the normal priors of the log scales that the terms have; that of the length is wide, around a fifth of the usual distance."""
    known = {**PRIOR, "length": (float(np.log(_first(terms).length)), 1.5)}
    return {name: known[name] for name in terms.names}


def _first(terms: Terms) -> Hyperparameters:
    length = 1.0
    if terms.distance is not None:
        apart = terms.distance[terms.distance > 0]
        length = 0.2 * float(np.median(apart)) if len(apart) else 1.0
    chosen = {name: getattr(START, name) for name in terms.names} | ({"length": length} if terms.kind else {})
    return Hyperparameters(**chosen)
