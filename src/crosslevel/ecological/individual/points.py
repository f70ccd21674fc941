"""How sure are the scales of the individual link? Points that stand for their posterior, each with its own approximation.

Effects at the single best scales are too sure of themselves and shrunk too far. The posterior of the logarithms of the scales is
Laplace's evidence times their priors. Of few places all scales are spread; of many only that of the effects, the others are known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import special, stats

from crosslevel.ecological.group.covariance import Hyperparameters, Terms
from crosslevel.ecological.individual.laplace import Point, Settled, settle
from crosslevel.ecological.individual.model import Design, Linear
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

__all__ = ["points_of"]


FEW_PLACES, FEW_PAIRS = 500, 100_000
"""Up to these all scales are spread: a mode takes milliseconds. In worlds of 300 places intervals that spread the scale of effects alone
hold .90 of the truths, those that spread all of them .96."""
ROUNDS, EACH = 4, 16
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


def points_of(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    found: Linear,
    h: Hyperparameters,
    prior: Mapping[str, tuple[float, float]],
    n_jobs: int = 1,
) -> tuple[Settled, tuple[Point, ...]]:
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

    def at(self, x: FloatArray) -> Settled:
        """Settle at log scales."""
        h = Hyperparameters(**dict(zip(self.terms.names, np.exp(x).tolist(), strict=True)))
        # other draws at every point: what they miss averages out
        return settle(self.design, self.terms, h, self.likelihood, self.start, self.n_jobs, seed=len(self.kept))

    def look(self, x: FloatArray, extra: float = 0.0) -> float:
        """Settle at log scales and keep the point; ``extra`` is added to its log weight."""
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
        z = stats.norm.ppf(stats.qmc.Sobol(d, scramble=True, seed=0).random(ROUNDS * EACH))
        raw: list[float] = []
        for round_ in range(ROUNDS):
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

    def weighed(self) -> tuple[Settled, tuple[Point, ...]]:
        """Settle at the mean, and give all points with their weights."""
        weight = special.softmax(self.heights)
        points = tuple(replace(p, weight=float(w)) for p, w in zip(self.kept, weight, strict=True))
        kept = [p for p in points if p.weight > LEAST]
        whole = sum(p.weight for p in kept)
        return self.at(weight @ np.array(self.logs)), tuple(replace(p, weight=p.weight / whole) for p in kept)
