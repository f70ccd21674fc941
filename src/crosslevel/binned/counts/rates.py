"""Rates from two histograms: numerator and denominator together, each behind its own bins.

A denominator known only in bins is itself a curve with uncertainty, and dividing two un-binned curves treats their errors as if
they had nothing to do with one another. Here log numerator = log denominator + log rate. The denominator's posterior
N(m, V) is the prior of the first part; the rate has the candidates' covariances; both are updated by the numerator's counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.covariances import KERNELS, candidates
from crosslevel.binned.counts.curve import ROUGHNESS, average_curve, blend, normalise, solve_all
from crosslevel.binned.counts.fit import RegionBands, check_totals
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.predictive import draw_curves
from crosslevel.binned.counts.targets import cell_shares, read_regions
from crosslevel.data.checks import check_level, check_seed
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["RateFit", "fit_rates"]


@dataclass(frozen=True)
class RateFit:
    """The joint posterior of a denominator's log curve and a log rate.

    Attributes
    ----------
    bins : CountBins
        Of the numerator.
    mean : (2 A,)
        Of the log density of the denominator, then of the log rate.
    covariance : (2 A, 2 A)
    log_evidence : float
        Of the numerator given the denominator.
    """

    bins: CountBins
    mean: FloatArray
    covariance: FloatArray
    log_evidence: float

    def predict(
        self, lower: Any = None, upper: Any = None, level: float = 0.95, n: int = 1000, random_state: int | None = 0
    ) -> RegionBands:
        """Predict the rate of new regions, numerator over denominator, both integrated; of the cells without limits.

        Examples
        --------
        >>> from crosslevel.binned.counts.cells import bins_from_edges
        >>> bins = bins_from_edges([0, 10, 20, 30], cell=1)
        >>> fit = fit_rates(bins, [5, 20, 60], [1000, 1000, 1000])
        >>> bool(fit.predict([0], [10]).estimate < fit.predict([20], [30]).estimate)
        True
        """
        half = 0.5 * (1.0 - check_level(level))
        generator = np.random.default_rng(check_seed(random_state))
        h = draw_curves(self.mean, self.covariance, n, generator)
        A = self.bins.n_cells
        people = self.bins.weight * np.exp(h[:, :A])
        if lower is None or upper is None:
            low, high = self.bins.lower, self.bins.upper
        else:
            low, high = read_regions(self.bins, lower, upper)
        shares = cell_shares(self.bins, low, high)
        rate = ((people * np.exp(h[:, A:])) @ shares.T) / (people @ shares.T)
        floor, roof = np.quantile(rate, [half, 1.0 - half], axis=0)
        nothing = np.full(len(low), np.nan)
        return RegionBands(rate.mean(axis=0), rate.std(axis=0, ddof=1), floor, roof, nothing, nothing, level)


def fit_rates(
    bins: CountBins,
    numerator: Any,
    denominator: Any,
    denominator_bins: CountBins | None = None,
    kernels: Sequence[str] = KERNELS,
    roughness: Sequence[float] = ROUGHNESS,
) -> RateFit:
    """Learn a rate from binned events and binned people, whose bins may differ.

    Parameters
    ----------
    bins : CountBins
        Of the numerator.
    numerator, denominator : (B,), (B',)
        Events (taken as Poisson given the people), and people or time at risk.
    denominator_bins : CountBins, optional
        Over the same cells; those of the numerator by default.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> events, people = bins_from_edges([0, 10, 20, 30], cell=1), bins_from_edges([0, 15, 30], cell=1)
    >>> fit_rates(events, [5, 20, 60], [1500, 1500], people).mean.shape
    (60,)
    """
    below = bins if denominator_bins is None else denominator_bins
    if below.n_cells != bins.n_cells or not np.allclose(below.centres, bins.centres):
        raise InputError(
            "the bins of numerator and denominator are cut into different cells; give both the same cell=."
        )
    y, people = check_totals(numerator, bins, "skip"), check_totals(denominator, below, "skip")
    base = average_curve(below, PoissonBins(people[None, :]), kernels, roughness)
    V = base.covariance
    events = PoissonBins(y[None, :])
    flat = float(np.log(np.nansum(y) / ((bins.C[~np.isnan(y)] @ np.exp(base.mean)).sum())))
    tried = candidates(bins, kernels)
    # the uncertainty of the denominator is part of the prior of what the events see
    solved = solve_all(bins, events, tried, base.mean + flat, V)
    weight, total = normalise(solved.log_evidence + tried.log_prior)
    used = np.flatnonzero(weight > 1e-7)
    weight = weight[used] / weight[used].sum()

    means = np.empty((len(used), 2 * bins.n_cells))
    for i, one in enumerate(used):
        modes, row = solved.problem(int(one))
        beta = modes.beta[row]
        means[i] = np.concatenate([base.mean + V @ beta, flat + tried.stack([int(one)])[0] @ beta])

    def covariance(i: int) -> FloatArray:
        modes, row = solved.problem(int(used[i]))
        K = tried.stack([int(used[i])])[0]
        seen = np.concatenate([modes.J[row] @ V, modes.J[row] @ K], axis=1)
        half = np.linalg.solve(np.linalg.cholesky(modes.S[row]), seen)
        zero = np.zeros_like(V)
        return np.asarray(np.block([[V, zero], [zero, K]]) - half.T @ half)

    mean, joint = blend(means, weight, covariance)
    return RateFit(bins, mean, joint, total)
