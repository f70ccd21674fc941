"""What a model says of a bag's label: a distribution with mean, standard deviation, density and quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from crosslevel.typing import FloatArray

__all__ = ["GaussianPredictive", "Predictive"]


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
