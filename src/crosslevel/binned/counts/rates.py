"""Fit rates from two histograms: numerator and denominator together, each behind its own bins.

A denominator known only in bins is itself a curve with uncertainty, and dividing two un-binned curves treats their errors as if
they had nothing to do with one another. Here log numerator = log denominator + log rate. The denominator's posterior
N(m, V) is the prior of the first part; the rate has the candidates' covariances; both are updated by the numerator's counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosslevel.binned.counts.candidates import KERNELS, candidates
from crosslevel.binned.counts.cells import CountBins
from crosslevel.binned.counts.curve import Curve, average_curve, blend, normalize, solve_all, with_functionals
from crosslevel.binned.counts.histogram import ROUNDS
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.predictive import draw_curves, rake
from crosslevel.typing import BoolArray, FloatArray, Step


@dataclass(frozen=True)
class RateFit:
    """The joint posterior of a denominator's log curve and a log rate.

    Attributes
    ----------
    bins, below : CountBins
        Of the numerator and of the denominator.
    mean : (2 A + B + B',)
        Of the log density of the denominator, of the log rate, and of the log means of the bins of numerator and denominator.
    covariance : (2 A + B + B', 2 A + B + B')
    log_evidence : float
        Of the numerator given the denominator.
    people : (B',) or None
        The denominator as observed.
    """

    bins: CountBins
    below: CountBins
    mean: FloatArray
    covariance: FloatArray
    log_evidence: float
    people: FloatArray | None = None

    @property
    def known(self) -> BoolArray:
        """Cells of a bin of the numerator, and of bins of the denominator that have somebody, (A,)."""
        nobody = np.zeros(self.below.n_bins, dtype=bool) if self.people is None else self.people == 0
        above, below = self.bins.C > 0, self.below.C > 0
        return np.asarray(above.any(axis=0) & below.any(axis=0) & ~below[nobody].any(axis=0))

    @property
    def events(self) -> Curve:
        """Curve of the numerator: its log density is that of the denominator plus the log rate."""
        A, B = self.bins.n_cells, self.bins.n_bins
        sums = np.zeros((A + B, len(self.mean)))
        sums[:A, :A] = sums[:A, A : 2 * A] = np.eye(A)
        sums[A:, 2 * A : 2 * A + B] = np.eye(B)
        return Curve.normal(A, sums @ self.mean, sums @ self.covariance @ sums.T, self.log_evidence)

    def draw(self, rows: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the rates of regions, numerator over denominator, both summed over the cells by ``rows`` (R, A): (n_draws, R).

        Examples
        --------
        >>> from crosslevel.binned.counts.cells import bins_from_edges
        >>> fit = fit_rates(bins_from_edges([0, 10, 20, 30], cell=1), np.array([5.0, 20, 60]), np.full(3, 1000.0))
        >>> first, last = fit.draw(np.kron(np.eye(3), np.ones(10))[[0, 2]], 200, np.random.default_rng(0)).mean(axis=0)
        >>> bool(first < last)
        True
        """
        A, B = self.bins.n_cells, self.bins.n_bins
        people, rate, of_events, of_people = np.split(
            draw_curves(self.mean, self.covariance, n_draws, rng), [A, 2 * A, 2 * A + B], axis=1
        )
        above, below = (
            rake(bins.C / bins.weight, bins.weight * np.exp(f), np.exp(on_link), steps=ROUNDS, strict=False)
            for bins, f, on_link in ((self.bins, people + rate, of_events), (self.below, people, of_people))
        )
        return np.asarray((above @ rows.T) / (below @ rows.T))


def fit_rates(
    bins: CountBins,
    numerator: FloatArray,
    denominator: FloatArray,
    denominator_bins: CountBins | None = None,
    kernels: Sequence[str] = KERNELS,
    step: Step | None = None,
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
    >>> fit_rates(events, np.array([5.0, 20, 60]), np.array([1500.0, 1500]), people).mean.shape
    (65,)
    """
    below = bins if denominator_bins is None else denominator_bins
    base = average_curve(below, PoissonBins(denominator[None, :]), kernels, step=step)
    V = base.covariance
    flat = float(np.log(np.nansum(numerator) / ((bins.C @ np.exp(base.mean)).sum())))
    tried = candidates(bins, kernels)
    # the uncertainty of the denominator is part of the prior of what the events see
    solved = solve_all(bins, PoissonBins(numerator[None, :]), tried, base.mean + flat, V, step=step)
    weight, total = normalize(solved.log_evidence + tried.log_prior)
    used = np.flatnonzero(weight > 1e-7)
    weight = weight[used] / weight[used].sum()

    across, of_people = base.with_bins[:, : bins.n_cells], base.with_bins[:, bins.n_cells :]

    def means(i: int) -> FloatArray:
        modes, row = solved.problem(i)
        beta = modes.beta[row]
        rate = flat + tried.stack([i])[0] @ beta
        return np.concatenate([base.mean + V @ beta, rate, np.log(modes.lam[row]), base.bins + across @ beta])

    def covariance(i: int) -> FloatArray:
        """Of people, rate, bins of events and bins of people; the last are beforehand known with the people only."""
        modes, row = solved.problem(int(used[i]))
        K, J = tried.stack([int(used[i])])[0], modes.J[row]
        zero, none = np.zeros_like(V), np.zeros_like(across)
        prior = np.block([[V, zero, across.T], [zero, K, none.T], [across, none, of_people]])
        half = np.linalg.solve(np.linalg.cholesky(modes.S[row]), np.hstack([J @ V, J @ K, J @ across.T]))
        slope = J / modes.lam[row][:, None]
        joint = with_functionals(prior - half.T @ half, np.hstack([slope, slope, np.zeros((len(J), len(across)))]))
        A, B = bins.n_cells, len(across)
        order = np.r_[0 : 2 * A, 2 * A + B : len(joint), 2 * A : 2 * A + B]
        return joint[np.ix_(order, order)]

    mean, joint = blend(np.array([means(int(i)) for i in used]), weight, covariance)
    return RateFit(bins, below, mean, joint, total, denominator)
