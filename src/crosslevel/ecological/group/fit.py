"""Hyperparameters by the evidence, from several starts, with a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms, covariance, slopes
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.laplace import Likelihood, Mode, evidence_gradient, find_mode
from crosslevel.typing import FloatArray

__all__ = ["Fit", "fit"]


STEPS = 100
GRADIENT = 0.05
"""Largest slope of the log evidence by a log hyperparameter that passes: a hundredth of the evidence of one standard error."""
SMALLEST, LARGEST = 1e-6, 1e3
"""Limits of variances, in units of their first guess."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted prior and the mode under it.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    mode : Mode
    slope : float
        Largest slope of the log evidence left, over the hyperparameters that are not at a limit.
    at_limit : tuple of str
        Hyperparameters at the limit of their range.
    evidences : tuple of float
        Log evidence reached from each start.
    evaluations : int
    """

    hyperparameters: Hyperparameters
    mode: Mode
    slope: float
    at_limit: tuple[str, ...]
    evidences: tuple[float, ...]
    evaluations: int


def fit(
    rows: Rows,
    terms: Terms,
    likelihood: Likelihood,
    *,
    start: Hyperparameters | None = None,
    n_starts: int = 2,
    fixed: Hyperparameters | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
) -> Fit:
    """Maximise the Laplace evidence over the hyperparameters.

    Parameters
    ----------
    rows, terms, likelihood
    start : Hyperparameters, optional
        Begin here only, instead of at several places.
    n_starts : int
        How many of the most promising first guesses to follow to the end.
    fixed : Hyperparameters, optional
        Take these as they are.
    prior : mapping of name to (mean, sd), optional
        Normal priors of log hyperparameters.

    Raises
    ------
    ConvergenceError
        When no start ends where the evidence is flat.
    """
    if fixed is not None:
        mode = find_mode(covariance(rows, terms, fixed), likelihood)
        return Fit(fixed, mode, 0.0, (), (mode.log_evidence,), 1)
    search = _Search(rows, terms, likelihood, prior)
    guesses = [start] if start is not None else _guesses(rows, terms, likelihood)
    if len(guesses) > n_starts:
        heights = [search.value(search.pack(g))[0] for g in guesses]
        guesses = [guesses[i] for i in np.argsort(heights)[:n_starts]]
    ends = [search.climb(g) for g in guesses]
    best = min(ends, key=lambda end: end.cost)
    if best.slope > GRADIENT:
        raise ConvergenceError(
            f"the evidence is not flat at the best hyperparameters found (slope {best.slope:.2g}, allowed {GRADIENT}, after "
            f"{search.evaluations} evaluations); scale the coordinates, or fix hyperparameters."
        )
    h = search.unpack(best.x)
    mode = find_mode(covariance(rows, terms, h), likelihood)
    return Fit(h, mode, best.slope, best.at_limit, tuple(-end.cost for end in ends), search.evaluations)


@dataclass(frozen=True)
class _End:
    x: FloatArray
    cost: float
    slope: float
    at_limit: tuple[str, ...]


class _Search:
    """The negative log evidence over log hyperparameters."""

    def __init__(
        self,
        rows: Rows,
        terms: Terms,
        likelihood: Likelihood,
        prior: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.rows, self.terms, self.likelihood = rows, terms, likelihood
        self.evaluations = 0
        known = prior or {}
        self.prior = np.array([known.get(name, (0.0, np.inf)) for name in terms.names])
        scale = _scales(rows, likelihood)
        self.bounds = []
        for name in terms.names:
            if name == "length":
                apart = terms.distance[terms.distance > 0] if terms.distance is not None else np.ones(1)
                low, high = 0.1 * float(np.quantile(apart, 0.001)), 3.0 * float(apart.max())
            else:
                low, high = SMALLEST * scale[name], LARGEST * scale[name]
            self.bounds.append((np.log(low), np.log(high)))

    def pack(self, h: Hyperparameters) -> FloatArray:
        """Give log hyperparameters inside their limits."""
        x = np.log([max(getattr(h, name), 1e-300) for name in self.terms.names])
        return np.clip(x, *np.array(self.bounds).T)

    def unpack(self, x: FloatArray) -> Hyperparameters:
        """Give hyperparameters from their logarithms."""
        return Hyperparameters(**dict(zip(self.terms.names, np.exp(x).tolist(), strict=True)))

    def value(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Give minus the log evidence and its slopes."""
        h = self.unpack(x)
        K = covariance(self.rows, self.terms, h)
        mode = find_mode(K, self.likelihood)
        self.evaluations += 1
        off = (x - self.prior[:, 0]) / self.prior[:, 1]
        cost = -mode.log_evidence + 0.5 * float(off @ off)
        return cost, off / self.prior[:, 1] - slopes(self.rows, self.terms, h, evidence_gradient(mode, K))

    def climb(self, guess: Hyperparameters) -> _End:
        """Follow one start to its end."""
        found = optimize.minimize(
            self.value,
            self.pack(guess),
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options={"maxiter": STEPS, "gtol": 0.2 * GRADIENT, "ftol": 1e-13},
        )
        low, high = np.array(self.bounds).T
        down, up = found.x <= low + 1e-9, found.x >= high - 1e-9
        free = ~(down & (found.jac > 0)) & ~(up & (found.jac < 0))
        limit = tuple(np.array(self.terms.names)[~free].tolist())
        slope = float(np.abs(found.jac[free]).max()) if free.any() else 0.0
        return _End(found.x, float(found.fun), slope, limit)


def _scales(rows: Rows, likelihood: Likelihood) -> dict[str, float]:
    """Guess variances: each term as large as the spread of the observed logits."""
    spread = max(float(np.var(likelihood.start())), 1e-2)
    return {
        "embedding": spread / max(float(np.mean(np.diag(rows.gram))), 1e-12),
        "spatial": spread,
        "nugget": spread,
        "group": spread,
    }


def _guesses(rows: Rows, terms: Terms, likelihood: Likelihood) -> list[Hyperparameters]:
    s = _scales(rows, likelihood)
    lengths = [1.0]
    if terms.kind is not None and terms.distance is not None:
        apart = terms.distance[terms.distance > 0]
        typical = float(np.median(apart)) if len(apart) else 1.0
        lengths = [0.05 * typical, 0.2 * typical, 0.8 * typical]
    return [
        Hyperparameters(part * s["embedding"], 0.3 * s["spatial"], length, 0.05 * s["nugget"], 0.1 * s["group"])
        for length in lengths
        for part in (0.3, 3.0)
    ]
