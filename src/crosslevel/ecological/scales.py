"""Learn the hyperparameters of the prior over places by the Laplace evidence, from several starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crosslevel.ecological.covariance import Hyperparameters, Rows, Terms, covariance, slopes
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.evidence import maximize
from crosslevel.numerics.laplace import Likelihood, Mode, evidence_gradient, find_mode
from crosslevel.typing import FloatArray

FLAT = 0.05
"""Largest slope of the log evidence by a log hyperparameter that passes: a hundredth of the evidence of one standard error."""
OPTIONS = {"maxiter": 100, "gtol": 0.2 * FLAT, "ftol": 1e-13}
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


def fit_scales(
    rows: Rows,
    terms: Terms,
    likelihood: Likelihood,
    *,
    start: Hyperparameters | None = None,
    n_restarts: int = 2,
    fixed: Hyperparameters | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
) -> Fit:
    """Maximize the Laplace evidence over the hyperparameters.

    Parameters
    ----------
    rows, terms, likelihood
    start : Hyperparameters, optional
        Begin here only, instead of at several places.
    n_restarts : int
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
    search = ScaleSearch(rows, terms, likelihood, prior)
    guesses = [start] if start is not None else _guesses(rows, terms, likelihood)
    if len(guesses) > n_restarts:
        heights = [-search.value(search.pack(g))[0] for g in guesses]
        guesses = [guesses[i] for i in np.argsort(heights)[:n_restarts]]
    tried = search.evaluations
    found = maximize(
        search.value, [search.pack(g) for g in guesses], search.low, search.high, flat=FLAT, rounds=1, options=OPTIONS
    )
    out = (found.theta <= search.low + 1e-9) & (found.gradient < 0)
    out |= (found.theta >= search.high - 1e-9) & (found.gradient > 0)
    ended = found.convergence
    if ended.slope > FLAT:
        raise ConvergenceError(
            f"the evidence is not flat at the best hyperparameters found (slope {ended.slope:.2g}, allowed {FLAT}, after "
            f"{search.evaluations} evaluations); scale the coordinates, or fix hyperparameters."
        )
    h = terms.unpack(found.theta)
    mode = find_mode(covariance(rows, terms, h), likelihood)
    limit = tuple(np.array(terms.names)[out].tolist())
    return Fit(h, mode, ended.slope, limit, ended.values, tried + ended.evaluations)


class ScaleSearch:
    """The log evidence over log hyperparameters, with its slopes and limits."""

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
        first = _first_variances(rows, likelihood)
        bounds = []
        for name in terms.names:
            if name == "length":
                bounds.append((0.1 * float(np.quantile(terms.apart, 0.001)), 3.0 * float(terms.apart.max())))
            else:
                bounds.append((SMALLEST * first[name], LARGEST * first[name]))
        self.low, self.high = np.log(bounds).T

    def pack(self, h: Hyperparameters) -> FloatArray:
        """Give log hyperparameters inside their limits."""
        x = np.log([max(getattr(h, name), 1e-300) for name in self.terms.names])
        return np.clip(x, self.low, self.high)

    def value(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Give the log evidence (with the log prior) and its slopes."""
        h = self.terms.unpack(x)
        K = covariance(self.rows, self.terms, h)
        mode = find_mode(K, self.likelihood)
        self.evaluations += 1
        off = (x - self.prior[:, 0]) / self.prior[:, 1]
        value = mode.log_evidence - 0.5 * float(off @ off)
        return value, slopes(self.rows, self.terms, h, evidence_gradient(mode, K)) - off / self.prior[:, 1]


def _first_variances(rows: Rows, likelihood: Likelihood) -> dict[str, float]:
    """Guess variances: each term as large as the spread of the observed logits."""
    spread = max(float(np.var(likelihood.start())), 1e-2)
    return {
        "effect_variance": spread / max(float(np.mean(np.diag(rows.gram))), 1e-12),
        "spatial": spread,
        "nugget": spread,
        "group": spread,
        "second_group": spread,
    }


def _guesses(rows: Rows, terms: Terms, likelihood: Likelihood) -> list[Hyperparameters]:
    s = _first_variances(rows, likelihood)
    lengths = [part * terms.typical_distance for part in (0.05, 0.2, 0.8)] if terms.kind is not None else [1.0]
    return [
        Hyperparameters(
            *(part * s["effect_variance"], 0.3 * s["spatial"], length, 0.05 * s["nugget"]),
            *(0.1 * s["group"], 0.1 * s["second_group"]),
        )
        for length in lengths
        for part in (0.3, 3.0)
    ]
