"""The individual link, fitted: mode and scales in turn until neither moves, with priors on every scale, then how sure the scales are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms
from crosslevel.ecological.group.fit import fit
from crosslevel.ecological.individual.laplace import Point, lean, settle
from crosslevel.ecological.individual.model import Design, Linear, linear_mode
from crosslevel.ecological.individual.points import points_of
from crosslevel.ecological.individual.priors import PRIOR, first_guess, priors
from crosslevel.ecological.individual.sampled import Sampled
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial, Gaussian, Mode

__all__ = ["PRIOR", "IndividualFit", "fit_individual", "priors"]


ROUNDS = 30
CLOSE = 0.03
"""Largest change of a log hyperparameter from one round to the next that counts as standing still."""

SLOWEST = 0.1
ALONE = 24
"""Opposite pairs of draws at scales that stand alone."""


@dataclass(frozen=True, eq=False)
class IndividualFit:
    """A fitted question.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        Posterior means of log scales, or those that were given; ``embedding`` is the variance of effects.
    linear : Linear
        The mode and its linear look-alike under them.
    rows, mode
        The look-alike as rows and a mode.
    rounds : int
        Turns of mode and scales.
    change : float
        Last change of a log hyperparameter.
    at_limit : tuple of str
    points : tuple of Point
        Scales that stand for their posterior, each with its approximation.
    sampled : Sampled or None
        Draws of the whole posterior, where they were asked for.
    """

    hyperparameters: Hyperparameters
    linear: Linear
    rows: Rows
    mode: Mode
    rounds: int
    change: float
    at_limit: tuple[str, ...]
    points: tuple[Point, ...]
    sampled: Sampled | None = None


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
    if fixed is not None:
        at = settle(design, terms, fixed, likelihood, n_jobs=n_jobs, n_pairs=ALONE)
        rows, mode = linear_mode(design, at.linear, terms, fixed)
        mode = replace(mode, log_evidence=at.log_evidence)
        return IndividualFit(fixed, at.linear, rows, mode, 1, 0.0, (), (at.point,))
    h = start or first_guess(terms)
    believed = prior or priors(terms)
    found: Linear | None = None
    change = np.inf
    limit: tuple[str, ...] = ()
    # half way for the effects: their scale answers to itself and would swing; slower wherever one does
    full = {name: 0.6 if name == "embedding" else 1.0 for name in terms.names}
    pace = dict(full)
    before: dict[str, float] = {}
    turn = 0
    while turn < ROUNDS:
        turn += 1
        found = lean(design, terms, h, likelihood, found, n_jobs)
        better = fit(design.rows(found.J), terms, Gaussian(found.z, found.W), start=h, prior=believed)
        limit = better.at_limit
        moves = {name: np.log(getattr(better.hyperparameters, name) / getattr(h, name)) for name in terms.names}
        change = max(abs(v) for name, v in moves.items() if name not in limit) if len(limit) < len(moves) else 0.0
        if change < CLOSE:
            break
        for name, move in moves.items():
            if turn > 2:
                back = move * before[name] < 0.0
                pace[name] = max(0.5 * pace[name], SLOWEST) if back else min(1.5 * pace[name], full[name])
        before = moves
        h = Hyperparameters(
            **{name: float(getattr(h, name) * np.exp(pace[name] * moves[name])) for name in terms.names}
        )
    else:
        raise ConvergenceError(
            f"mode and scales of the individual link did not come to rest in {ROUNDS} turns (a log scale still moves by "
            f"{change:.2g}); fix hyperparameters, or use fewer columns."
        )
    if found is None:
        raise AssertionError("no turn was taken")
    at, points = points_of(design, terms, likelihood, found, h, believed, n_jobs)
    h = at.point.hyperparameters
    rows, mode = linear_mode(design, at.linear, terms, h)
    mode = replace(mode, log_evidence=at.log_evidence)
    return IndividualFit(h, at.linear, rows, mode, turn, float(change), limit, points)
