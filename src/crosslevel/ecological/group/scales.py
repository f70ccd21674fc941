"""How sure are the hyperparameters? A few points that stand for their posterior.

A prior fitted to sixty places and then taken as known makes intervals too short. Near its peak the evidence is nearly normal in
the logarithms of the scales; points are drawn from that normal and weighed by what the evidence says of them, under a flat prior
on standard deviations (Gelman 2006) and on the logarithm of the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms, covariance, slopes
from crosslevel.ecological.group.fit import Fit
from crosslevel.numerics.laplace import Likelihood, Mode, evidence_gradient, find_mode

__all__ = ["Point", "counts", "points"]

FloatArray = npt.NDArray[np.float64]

N_POINTS = 32
STEP = 0.1
"""Of the differences of slopes, in logarithms: the evidence changes little over a tenth of a scale."""
WIDEST = 1.5
"""Largest standard deviation of a log scale: beyond a factor of five either way the normal no longer describes it."""
HEAVIEST = 4.0
"""Largest weight of a point, in units of an equal share, so that no single one speaks for all."""


@dataclass(frozen=True, eq=False)
class Point:
    """Hyperparameters that stand for some of their posterior.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    mode : Mode
        Of the latent values under them.
    weight : float
        Adds up to one over all points.
    """

    hyperparameters: Hyperparameters
    mode: Mode
    weight: float


def points(rows: Rows, terms: Terms, likelihood: Likelihood, found: Fit) -> tuple[Point, ...]:
    """Give points for the hyperparameters of a fit; one where they were given rather than learnt.

    Parameters
    ----------
    rows, terms, likelihood
        Of the fit.
    found : Fit
    """
    best = found.hyperparameters
    free = [name for name in terms.names if name not in found.at_limit]
    if found.evaluations == 1 or not free:
        return (Point(best, found.mode, 1.0),)

    def moved(away: FloatArray) -> Hyperparameters:
        return replace(best, **{n: getattr(best, n) * float(np.exp(x)) for n, x in zip(free, away, strict=True)})

    root = _root(rows, terms, likelihood, moved, free)
    z = stats.norm.ppf(stats.qmc.Sobol(len(free), scramble=True, rng=np.random.default_rng(0)).random(N_POINTS))
    away = z @ root.T
    flat = np.array([0.0 if name == "length" else 0.5 for name in free])
    chosen, heights = [], []
    for x, deviate in zip(away, z, strict=True):
        h = moved(x)
        mode = find_mode(covariance(rows, terms, h), likelihood, found.mode.f)
        chosen.append((h, mode))
        heights.append(mode.log_evidence + flat @ x + 0.5 * deviate @ deviate)
    weights = np.exp(np.array(heights) - max(heights))
    weights /= weights.sum()
    for _ in range(50):
        weights = np.minimum(weights, HEAVIEST / N_POINTS)
        weights /= weights.sum()
    return tuple(Point(h, mode, float(w)) for (h, mode), w in zip(chosen, weights, strict=True))


def _root(rows, terms, likelihood, moved, free):
    d = len(free)
    H = np.zeros((d, d))
    use = [terms.names.index(n) for n in free]
    for j in range(d):
        sides = []
        for s in (STEP, -STEP):
            h = moved(s * np.eye(d)[j])
            K = covariance(rows, terms, h)
            sides.append(slopes(rows, terms, h, evidence_gradient(find_mode(K, likelihood), K))[use])
        H[j] = (sides[1] - sides[0]) / (2 * STEP)
    H = 0.5 * (H + H.T)
    values, vectors = np.linalg.eigh(H)
    return vectors / np.sqrt(np.maximum(values, WIDEST**-2))


def counts(weights: FloatArray, n: int) -> npt.NDArray[np.int64]:
    """Divide n draws among points by their weights, exactly n in all."""
    ends = np.floor(np.cumsum(weights) * n + 0.5).astype(np.int64)
    ends[-1] = n
    return np.diff(ends, prepend=0)
