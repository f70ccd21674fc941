"""What a solver gives: the log marginal likelihood with its gradient, and a posterior that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from crosslevel.binned.regions.base import Regions
from crosslevel.typing import FloatArray

__all__ = ["LeftOut", "Objective", "Posterior", "Predicted", "Solver"]


@dataclass(frozen=True, eq=False)
class Objective:
    """Log marginal likelihood, and its derivatives by the logarithms of kernel hyperparameters and noise.

    Attributes
    ----------
    value : float
    by_kernel : (h,)
    by_noise : float
    """

    value: float
    by_kernel: FloatArray
    by_noise: float


@dataclass(frozen=True, eq=False)
class Predicted:
    """Posterior of linear functionals.

    Attributes
    ----------
    mean, variance : (m,)
    prior_variance : (m,)
        Before the data; the level, when it is estimated, not counted.
    covariance : (m, m) or None
    """

    mean: FloatArray
    variance: FloatArray
    prior_variance: FloatArray
    covariance: FloatArray | None


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Each observation as the others foretell it: mean and variance (with its noise), (n,) each."""

    mean: FloatArray
    variance: FloatArray


class Posterior(Protocol):
    """The posterior at given hyperparameters."""

    @property
    def log_marginal(self) -> float:
        """Log marginal likelihood."""

    @property
    def level(self) -> float:
        """Prior mean of f: given, or estimated by generalised least squares."""

    def predict(self, regions: Regions, scale: FloatArray, covariance: bool) -> Predicted:
        """Predict ``scale`` times the integral of f over ``regions``, without noise."""

    def left_out(self) -> LeftOut:
        """Foretell each observation from the others, in closed form, at the same hyperparameters and level."""


class Solver(Protocol):
    """A way to the numbers."""

    @property
    def words(self) -> str:
        """The way, in words."""

    def objective(self, logs: FloatArray, noise: float) -> Objective:
        """Give the log marginal likelihood with its gradient."""

    def condition(self, logs: FloatArray, noise: float) -> Posterior:
        """Give the posterior."""
