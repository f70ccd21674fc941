"""The distribution of a bag's label (mean, standard deviation, density and quantiles), and tables of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from crosslevel.data.bags import Bags
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import AnyArray, BoolArray, FloatArray

__all__ = ["GaussianPredictive", "MixturePredictive", "Predictive", "class_table", "label_table"]


BISECTIONS = 60


class Predictive(Protocol):
    """The distribution of one label per bag."""

    @property
    def mean(self) -> FloatArray:
        """Give the means, (n,)."""
        ...

    @property
    def std(self) -> FloatArray:
        """Give the standard deviations of a new label, (n,)."""
        ...

    def log_density(self, y: FloatArray) -> FloatArray:
        """Give the log density of each label, (n,)."""
        ...

    def cdf(self, y: FloatArray) -> FloatArray:
        """Give the probability of a label of at most y, (n,): the probability integral transform of labels."""
        ...

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Give the central interval of a level, (n,) and (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianPredictive:
    """Normal labels.

    Attributes
    ----------
    mean, variance : (n,)

    Examples
    --------
    >>> sure = GaussianPredictive(np.zeros(1), np.ones(1))
    >>> np.round(sure.interval(0.95), 2).ravel().tolist(), sure.log_density(np.zeros(1)).round(4).tolist()
    ([-1.96, 1.96], [-0.9189])
    """

    mean: FloatArray
    variance: FloatArray

    @property
    def std(self) -> FloatArray:
        """Give the standard deviations, (n,)."""
        return np.sqrt(self.variance)

    def log_density(self, y: FloatArray) -> FloatArray:
        """Give the log density of each label, (n,)."""
        return np.asarray(-0.5 * (np.log(2.0 * np.pi * self.variance) + (y - self.mean) ** 2 / self.variance))

    def cdf(self, y: FloatArray) -> FloatArray:
        """Give the probability of a label of at most y, (n,)."""
        return np.asarray(special.ndtr((y - self.mean) / self.std))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Give the central interval of a level."""
        half = float(special.ndtri(0.5 + level / 2.0)) * self.std
        return self.mean - half, self.mean + half


@dataclass(frozen=True, eq=False)
class MixturePredictive:
    """An equal mixture of normal labels, one for each draw.

    Attributes
    ----------
    means, variances : (n_draws, n)

    Examples
    --------
    >>> two = MixturePredictive(np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> two.mean.tolist(), (two.std**2).round(6).tolist(), np.round(np.ravel(two.interval(0.95)), 2).tolist()
    ([0.0], [2.0], [-2.65, 2.65])
    """

    means: FloatArray
    variances: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Give the means, (n,)."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def std(self) -> FloatArray:
        """Give the standard deviations: of labels within draws and of means between them."""
        return np.sqrt(self.variances.mean(axis=0) + self.means.var(axis=0))

    def log_density(self, y: FloatArray) -> FloatArray:
        """Give the log of the mean density, (n,): never the mean of the logs, which no forecast has."""
        each = -0.5 * (np.log(2.0 * np.pi * self.variances) + (y - self.means) ** 2 / self.variances)
        return np.asarray(special.logsumexp(each, axis=0) - np.log(len(each)))

    def cdf(self, y: FloatArray) -> FloatArray:
        """Give the probability of a label of at most y, (n,): the mean over draws."""
        return np.asarray(special.ndtr((y - self.means) / np.sqrt(self.variances)).mean(axis=0))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Give the central interval, from quantiles of the mixture."""
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def quantile(self, share: float) -> FloatArray:
        """Find where the mixture's distribution function is ``share``, by bisection."""
        sd = np.sqrt(self.variances)
        at = self.means + special.ndtri(share) * sd
        low, high = at.min(axis=0), at.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2.0
            below = self.cdf(middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2.0)


def label_table(
    bags: Bags,
    found: Predictive,
    truth: FloatArray | None,
    level: float,
    method: str,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
) -> Estimates:
    """Make the table of predicted labels."""
    low, high = found.interval(level)
    columns = {
        "bag": _names(bags),
        "estimate": found.mean,
        "std_error": found.std,
        "conf_low": low,
        "conf_high": high,
        "size": bags.effective_sizes,
    }
    if truth is not None:
        columns["truth"] = truth
    return Estimates.build(
        columns,
        keys=("bag",),
        kind="labels",
        method=f"distribution regression, {method}",
        level=level,
        interval="predictive, of a new label",
        provenance=provenance,
        diagnostics=diagnostics,
        title="Labels of bags",
    )


def class_table(
    bags: Bags,
    probabilities: FloatArray,
    classes: AnyArray,
    truth: BoolArray | None,
    method: str,
    provenance: Provenance,
    diagnostics: Mapping[str, Any],
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
    return Estimates.build(
        columns,
        keys=("bag", "class"),
        kind="classes",
        method=f"distribution classification, {method}",
        level=None,
        interval="none",
        provenance=provenance,
        diagnostics=diagnostics,
        title="Classes of bags",
    )


def _names(bags: Bags) -> AnyArray:
    keys = np.asarray(bags.keys)
    return keys if keys.dtype.kind in "iufU" else np.array([str(k) for k in keys.tolist()])
