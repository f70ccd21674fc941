"""The distribution of a bag's label (mean, standard deviation, density and quantiles), and tables of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from crosslevel.data.bags import Bags
from crosslevel.results import Estimates
from crosslevel.typing import AnyArray, BoolArray, FloatArray

BISECTIONS = 60


@dataclass(frozen=True, eq=False)
class Predictive:
    """The distribution of one label per bag: an equal mixture of normal labels, one for each draw.

    Attributes
    ----------
    means, variances : (n_draws, n)
        One draw is a normal label.

    Examples
    --------
    >>> sure = Predictive.normal(np.zeros(1), np.ones(1))
    >>> np.round(sure.interval(0.95), 2).ravel().tolist(), sure.log_density(np.zeros(1)).round(4).tolist()
    ([-1.96, 1.96], [-0.9189])
    >>> two = Predictive(np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> two.mean.tolist(), (two.std**2).round(6).tolist(), np.round(np.ravel(two.interval(0.95)), 2).tolist()
    ([0.0], [2.0], [-2.65, 2.65])
    """

    means: FloatArray
    variances: FloatArray

    @classmethod
    def normal(cls, mean: FloatArray, variance: FloatArray) -> Predictive:
        """Make the distribution of normal labels, (n,) each."""
        return cls(mean[None], variance[None])

    @property
    def mean(self) -> FloatArray:
        """Give the means, (n,)."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def std(self) -> FloatArray:
        """Give the standard deviations of a new label, (n,): of labels within draws and of means between them."""
        return np.sqrt(self.variances.mean(axis=0) + self.means.var(axis=0))

    def log_density(self, y: FloatArray) -> FloatArray:
        """Give the log of the mean density, (n,): never the mean of the logs, which no forecast has."""
        each = -0.5 * (np.log(2.0 * np.pi * self.variances) + (y - self.means) ** 2 / self.variances)
        return np.asarray(special.logsumexp(each, axis=0) - np.log(len(each)))

    def cdf(self, y: FloatArray) -> FloatArray:
        """Give the probability of a label of at most y, (n,): the probability integral transform of labels."""
        return np.asarray(special.ndtr((y - self.means) / np.sqrt(self.variances)).mean(axis=0))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Give the central interval of a level, (n,) and (n,)."""
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def quantile(self, share: float) -> FloatArray:
        """Find where the distribution function is ``share``, by bisection between the quantiles of the draws."""
        at = self.means + special.ndtri(share) * np.sqrt(self.variances)
        low, high = at.min(axis=0), at.max(axis=0)
        for _ in range(BISECTIONS if len(at) > 1 else 0):
            middle = (low + high) / 2.0
            below = self.cdf(middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2.0)


def label_table(
    bags: Bags,
    mean: FloatArray,
    std: FloatArray,
    ends: FloatArray,
    truth: FloatArray | None,
    level: float,
    **about: Any,
) -> Estimates:
    """Make the table of predicted labels, ``ends`` (n, 2) of their intervals; ``about`` is what `Estimates.build` takes beside them."""
    columns = {
        "bag": _names(bags),
        "estimate": mean,
        "std_error": std,
        "conf_low": ends[:, 0],
        "conf_high": ends[:, 1],
        "size": bags.effective_sizes,
    }
    if truth is not None:
        columns["truth"] = truth
    about["method"] = f"distribution regression, {about['method']}"
    words: dict[str, Any] = {"kind": "labels", "title": "Labels of bags", "interval": "predictive, of a new label"}
    return Estimates.build(columns, keys=("bag",), level=level, **words, **about)


def class_table(
    bags: Bags, probabilities: FloatArray, classes: AnyArray, truth: BoolArray | None, **about: Any
) -> Estimates:
    """Make the table of probabilities."""
    n, k = probabilities.shape
    columns = {
        "bag": np.repeat(_names(bags), k),
        "class": np.tile(classes if classes.dtype.kind in "iufU" else classes.astype(str), n),
        "estimate": probabilities.ravel(),
        "size": np.repeat(bags.effective_sizes, k),
    }
    if truth is not None:
        columns["truth"] = truth.astype(np.float64).ravel()
    about["method"] = f"distribution classification, {about['method']}"
    words: dict[str, Any] = {"kind": "classes", "title": "Classes of bags", "interval": "none"}
    return Estimates.build(columns, keys=("bag", "class"), level=None, **words, **about)


def _names(bags: Bags) -> AnyArray:
    keys = np.asarray(bags.keys)
    return keys if keys.dtype.kind in "iufU" else np.array([str(k) for k in keys.tolist()])
