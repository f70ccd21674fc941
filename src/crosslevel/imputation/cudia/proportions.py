"""The prior of the places' mixes of clusters: Dirichlet (given, uniform or learnt), or logistic normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma, softmax

from crosslevel.typing import FloatArray

__all__ = ["MixPrior", "expected_log", "learn_alpha", "learn_logistic_normal", "update_mix"]


SMALLEST_ALPHA, LARGEST_ALPHA = 1e-2, 1e4


@dataclass(frozen=True)
class MixPrior:
    """Prior of pi_p.

    Attributes
    ----------
    kind : {"dirichlet", "logistic_normal"}
    alpha : (K,)
        Of the Dirichlet.
    mean, variance : (K,)
        Of the centred logits of the logistic normal.
    """

    kind: str
    alpha: FloatArray
    mean: FloatArray
    variance: FloatArray

    @classmethod
    def dirichlet(cls, alpha: FloatArray) -> MixPrior:
        """Make a Dirichlet prior."""
        return cls("dirichlet", np.asarray(alpha, dtype=np.float64), np.zeros(len(alpha)), np.ones(len(alpha)))

    def log_density(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Log prior of mixes given by logits (A, K), with its gradient.

        The Dirichlet density is that of pi itself, not of its logits; learnt exponents below one are taken as one, since a mode
        at the edge would say that a cluster is absent for certain.
        """
        pi = softmax(logits, axis=1)
        if self.kind == "dirichlet":
            extra = np.maximum(self.alpha - 1.0, 0.0)
            log_pi = np.log(np.maximum(pi, 1e-300))
            return float((log_pi @ extra).sum()), extra - extra.sum() * pi
        centred = logits - logits.mean(axis=1, keepdims=True)
        pulled = (centred - self.mean) / self.variance
        slope = -pulled
        return float(-0.5 * ((centred - self.mean) * pulled).sum()), slope - slope.mean(axis=1, keepdims=True)


def update_mix(counts: FloatArray, prior: MixPrior, pi: FloatArray) -> FloatArray:
    """Most probable mixes given expected people by place and cluster, (A, K)."""
    if prior.kind == "dirichlet":
        n = counts + np.maximum(prior.alpha - 1.0, 0.0)
        n = np.maximum(n, 1e-12)
        return n / n.sum(axis=1, keepdims=True)
    logits = np.log(np.maximum(pi, 1e-12))
    total = counts.sum(axis=1, keepdims=True)
    for _ in range(5):
        logits = logits - logits.mean(axis=1, keepdims=True)
        now = softmax(logits, axis=1)
        slope = counts - total * now - (logits - prior.mean) / prior.variance
        logits = logits + np.clip(slope / (total * now + 1.0 / prior.variance), -1.0, 1.0)
    return softmax(logits, axis=1)


def expected_log(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """E[log pi] under Dirichlet(alpha + counts), (A, K)."""
    shape = counts + alpha
    return digamma(shape) - digamma(shape.sum(axis=1, keepdims=True))


def learn_alpha(mean_log: FloatArray, alpha: FloatArray, steps: int = 100) -> FloatArray:
    """Exponents of the Dirichlet that maximise P[lnG(sum a) - sum lnG(a)] + sum (a - 1) E[log pi] (Minka's Newton).

    Parameters
    ----------
    mean_log : (K,)
        Mean over places of E[log pi].
    alpha : (K,)
        Start.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = np.log(rng.dirichlet([2.0, 5.0], 20000)).mean(axis=0)
    >>> learn_alpha(draws, np.ones(2)).round(1).tolist()
    [2.0, 5.0]
    """
    a = np.clip(np.asarray(alpha, dtype=np.float64), SMALLEST_ALPHA, LARGEST_ALPHA)
    for _ in range(steps):
        slope = digamma(a.sum()) - digamma(a) + mean_log
        q, z = -polygamma(1, a), polygamma(1, a.sum())
        step = (slope - (slope / q).sum() / (1.0 / z + (1.0 / q).sum())) / q
        new = np.clip(np.where(a - step > 0, a - step, a / 2), SMALLEST_ALPHA, LARGEST_ALPHA)
        if np.max(np.abs(new - a) / a) < 1e-8:
            return new
        a = new
    return a


def learn_logistic_normal(pi: FloatArray) -> MixPrior:
    """Mean and variance of the centred logits of mixes (A, K), with the weight of one place at variance 1."""
    logits = np.log(np.maximum(pi, 1e-9))
    logits = logits - logits.mean(axis=1, keepdims=True)
    mean = logits.mean(axis=0)
    variance = (((logits - mean) ** 2).sum(axis=0) + 1.0) / (len(pi) + 1.0)
    return MixPrior("logistic_normal", np.ones(pi.shape[1]), mean, np.maximum(variance, 1e-3))
