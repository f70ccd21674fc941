"""Fit the exact form: mode and scales in turn until neither moves, then how sure the scales are.

Effects at the single best scales are too sure of themselves and shrunk too far. The posterior of the logarithms of the scales is
Laplace's evidence times their priors. Of few places all scales are spread; of many only that of the effects, the others are known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special, stats

from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.persons.laplace import Laplace, laplace, start_mode
from crosslevel.ecological.persons.model import Design, Linear, PersonsFit, Point
from crosslevel.ecological.scales import fit_scales
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial, Gaussian
from crosslevel.typing import FloatArray

ROUNDS = 30
CLOSE = 0.03
"""Largest change of a log hyperparameter from one round to the next that counts as standing still."""
SLOWEST = 0.1
ALONE = 24
"""Opposite pairs of draws at scales that stand alone."""
FEW_PLACES, FEW_PAIRS = 500, 100_000
"""Up to these all scales are spread: a mode takes milliseconds. In worlds of 300 places intervals that spread the scale of effects alone
hold .90 of the truths, those that spread all of them .96."""
SPREADS, EACH = 4, 16
"""Rounds of points over all scales, and points of each."""
FIRST = 0.7
"""Standard deviations of the first round, in those of the prior."""
WIDER = 1.3
"""Standard deviations of later rounds, in those found."""
LEAST = 1e-3
"""A point of less weight is left out."""
STEP = 0.5
"""Between points along the scale of effects alone, in logarithms."""
MOST = 7
NEGLIGIBLE = 0.04
"""A point of this weight relative to the heaviest ends the walk."""
PRIOR: Mapping[str, tuple[float, float]] = {
    "effect_variance": (float(np.log(0.25)), 1.2),
    "spatial": (float(np.log(0.1)), 2.0),
    "nugget": (float(np.log(0.03)), 2.0),
    "group": (float(np.log(0.03)), 2.0),
    "second_group": (float(np.log(0.03)), 2.0),
}
"""Normal priors of log variances. That of effects (sd of half a logit, within a factor 3.3 with probability .95) holds what would run
away: the evidence of the linear look-alike, since the look-alike itself depends on the effects. The others are wide."""
START = Hyperparameters(effect_variance=0.25, spatial=0.1, length=300.0, nugget=0.03, group=0.02, second_group=0.02)


def priors(terms: Terms) -> dict[str, tuple[float, float]]:
    """Give the normal priors of the log scales that the terms have; that of the length is wide, around a fifth of the usual distance."""
    known = {**PRIOR, "length": (float(np.log(0.2 * terms.typical_distance)), 1.5)}
    return {name: known[name] for name in terms.names}


def first_guess(terms: Terms) -> Hyperparameters:
    """Say where the search begins."""
    chosen = {name: getattr(START, name) for name in terms.names} | (
        {"length": 0.2 * terms.typical_distance} if terms.kind else {}
    )
    return Hyperparameters(**chosen)


def fit_question(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    *,
    fixed: Hyperparameters | None = None,
    start: Hyperparameters | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    n_jobs: int = 1,
) -> PersonsFit:
    """Fit one question.

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
    context = np.zeros((terms.n_places, 0)) if design.context is None else design.context
    if fixed is not None:
        at = laplace(design, terms, fixed, likelihood, n_jobs=n_jobs, n_pairs=ALONE)
        return PersonsFit(fixed, at.linear, context, at.log_evidence, 1, 0.0, (), (at.point,))
    h = start or first_guess(terms)
    chosen = prior or priors(terms)
    found: Linear | None = None
    change = np.inf
    limit: tuple[str, ...] = ()
    # half way for the effects: their scale answers to itself and would swing; slower wherever one does
    full = {name: 0.6 if name == "effect_variance" else 1.0 for name in terms.names}
    pace = dict(full)
    before: dict[str, float] = {}
    turn = 0
    while turn < ROUNDS:
        turn += 1
        found = start_mode(design, terms, h, likelihood, found, n_jobs)
        better = fit_scales(design.rows(found.J), terms, Gaussian(found.z, found.W), start=h, prior=chosen)
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
        steps: dict[str, Any] = {
            name: float(getattr(h, name) * np.exp(pace[name] * moves[name])) for name in terms.names
        }
        h = replace(h, **steps)
    else:
        raise ConvergenceError(
            f"mode and scales did not come to rest in {ROUNDS} rounds (a log scale still moves by "
            f"{change:.2g}); fix hyperparameters, or use fewer columns."
        )
    if found is None:
        raise AssertionError("no turn was taken")
    at, points = points_of(design, terms, likelihood, found, h, chosen, n_jobs)
    h = at.point.hyperparameters
    return PersonsFit(h, at.linear, context, at.log_evidence, turn, float(change), limit, points)


def points_of(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    found: Linear,
    h: Hyperparameters,
    prior: Mapping[str, tuple[float, float]],
    n_jobs: int = 1,
) -> tuple[Laplace, tuple[Point, ...]]:
    """Give points for the scales around those of a fit; the approximation at the mean of log scales comes with them.

    Parameters
    ----------
    design, terms, likelihood
    found : Linear
        Mode at ``h``.
    h : Hyperparameters
    prior : mapping of name to (mean, sd)
        Of log scales.
    """
    posterior = _Posterior(design, terms, likelihood, prior, found, n_jobs)
    x = np.log([getattr(h, name) for name in terms.names])
    if terms.n_places > FEW_PLACES or len(design.pairs.cell) > FEW_PAIRS:
        posterior.walk(x)
    else:
        posterior.spread(x)
    return posterior.weighed()


class _Posterior:
    """The posterior of log scales, as far as it was looked at."""

    def __init__(
        self,
        design: Design,
        terms: Terms,
        likelihood: Binomial,
        prior: Mapping[str, tuple[float, float]],
        found: Linear,
        n_jobs: int,
    ) -> None:
        self.design, self.terms, self.likelihood, self.n_jobs = design, terms, likelihood, n_jobs
        self.prior = np.array([prior[name] for name in terms.names])
        self.start = found
        self.kept: list[Point] = []
        self.logs: list[FloatArray] = []
        self.heights: list[float] = []

    def at(self, x: FloatArray) -> Laplace:
        """Approximate at log scales."""
        h = self.terms.unpack(x)
        # other draws at every point: what they miss averages out
        return laplace(self.design, self.terms, h, self.likelihood, self.start, self.n_jobs, seed=len(self.kept))

    def look(self, x: FloatArray, extra: float = 0.0) -> float:
        """Approximate at log scales and keep the point; ``extra`` is added to its log weight."""
        found = self.at(x)
        off = (x - self.prior[:, 0]) / self.prior[:, 1]
        self.kept.append(found.point)
        self.logs.append(x)
        self.heights.append(found.log_evidence - 0.5 * float(off @ off) + extra)
        return self.heights[-1]

    def walk(self, x: FloatArray) -> None:
        """Go up and down the scale of effects in equal steps, until points weigh nothing."""
        ends = {1: 0, -1: 0}
        height = {0: self.look(x)}
        while len(height) < MOST:
            least = max(height.values()) + np.log(NEGLIGIBLE)
            sides = [side for side in ends if height[ends[side]] > least]
            if not sides:
                break
            side = max(sides, key=lambda s: height[ends[s]])
            ends[side] += side
            height[ends[side]] = self.look(x + STEP * ends[side] * np.eye(len(x))[0])

    def spread(self, x: FloatArray) -> None:
        """Draw points from normals, each round's from what the rounds before have found.

        Weights are relative to all rounds together, so that no point is heavy for having been unlikely (Cornuet et al. 2012,
        "Adaptive multiple importance sampling").
        """
        d, widest = len(x), np.diag(self.prior[:, 1] ** 2)
        mean, spread = x, FIRST**2 * widest
        asked = []
        z = stats.norm.ppf(stats.qmc.Sobol(d, scramble=True, seed=0).random(SPREADS * EACH))
        raw: list[float] = []
        for round_ in range(SPREADS):
            asked.append(stats.multivariate_normal(mean, spread))
            root = np.linalg.cholesky(spread)
            for deviate in z[round_ * EACH : (round_ + 1) * EACH]:
                # so far out that the prior cannot be factored: no weight
                with contextlib.suppress(ConvergenceError):
                    raw.append(self.look(mean + root @ deviate))
            logs = np.array(self.logs)
            proposed = special.logsumexp([np.atleast_1d(q.logpdf(logs)) for q in asked], axis=0)
            self.heights = list(np.array(raw) - proposed)
            weight = special.softmax(self.heights)
            mean, size = weight @ logs, 1.0 / float(weight @ weight)
            found = ((logs - mean).T * weight) @ (logs - mean)
            spread = WIDER**2 * (size * found + d * spread) / (size + d)

    def weighed(self) -> tuple[Laplace, tuple[Point, ...]]:
        """Approximate at the mean, and give all points with their weights."""
        weight = special.softmax(self.heights)
        points = tuple(replace(p, weight=float(w)) for p, w in zip(self.kept, weight, strict=True))
        kept = [p for p in points if p.weight > LEAST]
        whole = sum(p.weight for p in kept)
        return self.at(weight @ np.array(self.logs)), tuple(replace(p, weight=p.weight / whole) for p in kept)
