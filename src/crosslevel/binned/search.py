"""The hyperparameters that a fit must find: how they start, how they are bounded, how they fill in those that are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.binned.hyperparameters import Found, maximise
from crosslevel.binned.kernels import BoundKernel
from crosslevel.binned.problem import Problem
from crosslevel.binned.scales import FEW, lay_starts, length_priors
from crosslevel.binned.solver import Solver
from crosslevel.typing import FloatArray

__all__ = ["Search", "Settings", "Way"]


FEATURES, FEATURES_OF_FEW = 1200, 6000
"""Features at most; and where regions are at most `FEW_REGIONS`, whose covariance is factorised instead."""
FEW_REGIONS = 500


@dataclass(frozen=True)
class Settings:
    """How to fit.

    Attributes
    ----------
    solver : {"auto", "dense", "kronecker", "features"}
    optimize : bool
    restarts : int
    seed : int or None
    prior : {"auto", "none", "lengthscale"}
        Whether lengthscales have a prior; "auto": when there are fewer than 15 regions.
    tolerance : float
        Relative error of covariances asked of features.
    max_features : int or None
        None: as many as the number of regions makes quick; see ``most_features``.
    """

    solver: str = "auto"
    optimize: bool = True
    restarts: int = 1
    seed: int | None = 0
    prior: str = "auto"
    tolerance: float = 1e-6
    max_features: int | None = None

    def most_features(self, n: int) -> int:
        """Give the largest number of features for n regions: with few, work is that of the regions, and features are cheap."""
        if self.max_features is not None:
            return self.max_features
        return FEATURES_OF_FEW if n <= FEW_REGIONS else FEATURES


@dataclass(frozen=True, eq=False)
class Way:
    """A solver with its name and error."""

    solver: Solver
    name: str
    error: float


class Search:
    """The free hyperparameters of a fit: where they start, their bounds and priors, and how they fill in the others."""

    def __init__(
        self,
        problem: Problem,
        kernel: BoundKernel,
        noise: float | None,
        free: npt.NDArray[np.bool_],
        settings: Settings,
    ) -> None:
        self.problem, self.kernel, self.settings, self.free = problem, kernel, settings, free
        self.starts, self.lower, self.upper, self.scales = lay_starts(problem, kernel, settings.restarts, settings.seed)
        with np.errstate(divide="ignore"):
            self.fixed = np.array([np.nan if g is None else np.log(g) for g in (*kernel.given, noise)])
        self.starts = [np.where(free, s, self.fixed) for s in self.starts]
        self.names = [n for n, f in zip((*kernel.names, "noise"), free, strict=True) if f]
        few = settings.prior == "lengthscale" or (settings.prior == "auto" and len(problem.y) < FEW)
        priors = length_priors(kernel, self.scales)
        self.priors = [p for p, f in zip(priors, free, strict=True) if f] if few else None
        self.too_short: dict[str, float] = {}
        """Lengthscales at which features, not the data, ended the search; set by it."""
        self.notes: tuple[str, ...] = ()
        if few and any(p is not None for p in self.priors or ()):
            self.notes = (
                f"with {len(problem.y)} regions the lengthscale has a prior (median a fifth of the range); prior='none' takes it away.",
            )

    @property
    def most_features(self) -> int:
        """Largest number of features."""
        return self.settings.most_features(len(self.problem.y))

    def unpack(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Give the kernel's logarithms and the noise."""
        whole = self.fixed.copy()
        whole[self.free] = theta
        return whole[:-1], float(np.exp(whole[-1]))

    def goal(self, solver: Solver) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """Give the function to be maximised."""

        def of(theta: FloatArray) -> tuple[float, FloatArray]:
            found = solver.objective(*self.unpack(theta))
            return found.value, np.append(found.by_kernel, found.by_noise)[self.free]

        return of

    def run(
        self, solver: Solver, lower: FloatArray | None = None, upper: FloatArray | None = None, most: int | None = None
    ) -> Found:
        """Search within the bounds, or narrower ones, from the first ``most`` starts."""
        low = self.lower if lower is None else lower
        high = self.upper if upper is None else upper
        starts = [s[self.free] for s in self.starts[:most]]
        return maximise(self.goal(solver), starts, low[self.free], high[self.free], self.names, self.priors)
