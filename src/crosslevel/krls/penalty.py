"""How much should the fit be smoothed? Exact leave-one-out, minimized to convergence; or R's search, step for step.

Deleting an observation of weight d from a distinct row of weight m changes its residual e = mean - f into
e / (1 - d h), h the leverage of one unit of weight; with B = Q diag(w) Q' and g = 1 / (w + penalty)

    M^1/2 e = penalty Q (g o Q' M^1/2 mean),    1 - d h = (1 - d/m) + (d/m) penalty [(B + penalty I)^-1]_uu,

so the loss and its derivative by log penalty cost two products with Q and two with Q o Q, for any number of penalties at
once. For m = d = 1 this is sum_i (c_i / [G^-1]_ii)^2, the loss of the R packages. Unlike theirs it stays the leave-one-out
loss when eigenvectors are left out.

With few rows and few columns the loss can have a second minimum, orders of magnitude below the first, where the fit follows
the noise. Of minima that the data cannot tell apart the one with the largest penalty is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from crosslevel.errors import InputError
from crosslevel.krls.spectrum import Spectrum
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.krls.model import Cells

RULES = ("loo", "krls")
LOWEST, HIGHEST = 1e-9, 1e2
"""Limits of the search, times the largest eigenvalue: below, rounding rules the loss; above, the fit is constant."""
N_GRID = 67  # six to a decade
EXTREME = 1e15
"""A given penalty this many times larger or smaller than the largest eigenvalue is lost beside it in rounding."""
N_NODES = 16
"""Chebyshev nodes between two points of the grid: the slope there is a polynomial of degree 15 to rounding."""
TOLD_APART = 1.0
"""Standard errors by which the loss at a smaller penalty must be the lower, where the curve has several minima."""
R_GOLDEN = 0.381966  # as R has it, not (3 - sqrt(5)) / 2
R_EPSILON = 2.220446e-16  # likewise
R_STEP = 0.05
MOST_STEPS = 10_000_000


@dataclass(frozen=True)
class Choice:
    """The penalty and the search that found it.

    Attributes
    ----------
    penalty : float
    curve : (L, 2)
        Penalties tried in ascending order, and the loss at each (standardized outcome, sum of squares).
    bound : {"lower", "upper"} or None
        The limit of the search the penalty lies at, if it does.
    """

    penalty: float
    curve: FloatArray
    bound: str | None = None


def losses(spectrum: Spectrum, cells: Cells, penalty: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the leave-one-out sum of squares at every penalty, and its derivative by log penalty: (L,) each.

    Parameters
    ----------
    spectrum : Spectrum
        Of the U distinct rows.
    cells : Cells
        With the standardized outcome.
    penalty : (L,)
    """
    loss, slope = np.zeros((2, len(penalty)))
    for _, part, part_slope in _strata_losses(spectrum, cells, penalty):
        loss += part.sum(axis=0)
        slope += part_slope.sum(axis=0)
    return loss, slope


def _strata_losses(
    spectrum: Spectrum, cells: Cells, penalty: FloatArray
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield, some strata at a time, squared deleted residuals and their derivatives by log penalty: (n_strata, L) each."""
    shrink = penalty / (spectrum.w[:, None] + penalty)
    root = np.sqrt(cells.m)
    a = spectrum.project((root * cells.mean)[:, None])
    outside = 0.0 if spectrum.complete else 1.0
    kept = np.concatenate([shrink - outside, shrink * (1.0 - shrink)], axis=1)
    for rows, Qb, QQx in spectrum.passes(kept * a, kept):
        (e, de), (t, dt) = np.split(Qb / root[rows, None], 2, axis=1), np.split(QQx, 2, axis=1)
        e, t = e + outside * cells.mean[rows, None], t + outside
        first, last = np.searchsorted(cells.stratum, [rows.start, rows.stop])
        strata = slice(int(first), int(last))
        u = cells.stratum[strata]
        if last - first != rows.stop - rows.start:  # with a stratum to a row, which is the rule, nothing need be copied
            e, de, t, dt = (x[u - rows.start] for x in (e, de, t, dt))
        e = e + (cells.stratum_mean[strata] - cells.mean[u])[:, None]
        share = (cells.step[strata] / cells.m[u])[:, None]
        weight = cells.weight[strata, None]
        left = (1.0 - share) + share * t
        loss = (cells.ss[strata, None] + weight * e * e) / left**2
        yield strata, loss, 2.0 * (weight * e * de / left**2 - loss * share * dt / left)


def choose_penalty(spectrum: Spectrum, cells: Cells, rule: str) -> Choice:
    """Choose the penalty by the rule "loo", to convergence, or "krls", R's search.

    Examples
    --------
    >>> from crosslevel.krls.model import collapse
    >>> from crosslevel.krls.spectrum import GaussianKernel
    >>> from crosslevel.krls.spectrum import decompose
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> cells = collapse(x, np.sin(3 * x[:, 0]) + 0.3 * np.cos(40 * x[:, 0]))
    >>> found = choose_penalty(decompose(GaussianKernel(x, 1.0), cells.m), cells, "loo")
    >>> found.bound is None, bool(found.penalty < 1)
    (True, True)
    """
    return _krls_search(spectrum, cells) if rule == "krls" else _converged(spectrum, cells)


def given_penalty(penalty: float, top: float) -> Choice:
    """Take a penalty as it is given; refuse one that is lost beside the largest eigenvalue of the kernel."""
    if not top / EXTREME <= penalty <= top * EXTREME:
        raise InputError(
            f"penalty={penalty:g} cannot be told from {'zero' if penalty < top else 'infinity'} beside the largest eigenvalue of the "
            f"kernel, {top:.3g}; pass one between {top / EXTREME:.0e} and {top * EXTREME:.0e}, or None to have it chosen."
        )
    return Choice(float(penalty), np.empty((0, 2)))


def _converged(spectrum: Spectrum, cells: Cells) -> Choice:
    """Find the least loss on a log grid, then the root of its slope beside it."""
    top = float(spectrum.w[-1])
    grid = np.geomspace(LOWEST * top, HIGHEST * top, N_GRID)
    values, slopes = losses(spectrum, cells, grid)
    curve = np.column_stack([grid, values])
    best = _smoothest(spectrum, cells, curve, int(np.argmin(values)))
    at_least, at_most = slopes[best] >= 0, slopes[best] <= 0
    if (best == 0 and at_least) or (best == N_GRID - 1 and at_most):
        return Choice(float(grid[best]), curve, "lower" if best == 0 else "upper")
    low, high = (best - 1, best) if at_least else (best, best + 1)
    # loss and slope between the two are polynomials to rounding, known after one pass over the data
    ends = np.log(grid[[low, high]])
    nodes = np.cos(np.pi * (np.arange(N_NODES) + 0.5) / N_NODES)
    penalties = np.exp(ends.mean() + nodes * (ends[1] - ends[0]) / 2)
    values, slopes = losses(spectrum, cells, penalties)
    loss, slope = (
        np.polynomial.Chebyshev.fit(np.log(penalties), known, N_NODES - 1, domain=ends) for known in (values, slopes)
    )
    if slope(ends[0]) * slope(ends[1]) >= 0:  # flat, or a wiggle finer than the grid: its best point is as good as any
        return Choice(float(grid[best]), curve)
    at = brentq(slope, *ends, xtol=1e-13, rtol=1e-13)
    return Choice(float(np.exp(at)), np.insert(curve, high, [np.exp(at), loss(at)], axis=0))


def _smoothest(spectrum: Spectrum, cells: Cells, curve: FloatArray, best: int) -> int:
    """Find the minimum with the largest penalty among those whose loss is the least, as far as the data tell.

    The limits of the search are no minima, except the lower one as the point to be compared with.

    Parameters
    ----------
    spectrum : Spectrum
    cells : Cells
    curve : (L, 2)
        Penalties and leave-one-out losses.
    best : int
        Place of the least loss.
    """
    loss = curve[:, 1]
    lower = (loss[1:-1] < loss[:-2]) & (loss[1:-1] < loss[2:])
    others = [int(i) for i in 1 + np.flatnonzero(lower) if i > best]
    if not others:
        return best
    apart = np.empty((len(cells.stratum), len(others)))
    for strata, part, _ in _strata_losses(spectrum, cells, curve[[best, *others], 0]):
        apart[strata] = part[:, 1:] - part[:, :1]
    total = apart.sum(axis=0)
    error = np.sqrt(np.square(apart - cells.weight[:, None] * total / cells.weight.sum()).sum(axis=0))
    same = total <= TOLD_APART * error
    return max((i for i, close in zip(others, same, strict=True) if close), default=best)


def _krls_search(spectrum: Spectrum, cells: Cells) -> Choice:
    """Repeat the search of KRLS and bigKRLS: their limits, their golden section, their early stop.

    It stops when two losses differ by less than N/1000, which is loose: the penalty is often several times the minimizer.
    """
    low, high = _krls_limits(spectrum.w, cells.N)
    tried: list[tuple[float, float]] = []

    def loss(penalty: float) -> float:
        tried.append((penalty, float(losses(spectrum, cells, np.array([penalty]))[0][0])))
        return tried[-1][1]

    x1, x2 = low + R_GOLDEN * (high - low), high - R_GOLDEN * (high - low)
    s1, s2 = loss(x1), loss(x2)
    while abs(s1 - s2) > cells.N / 1000.0:
        if s1 < s2:
            high, x2 = x2, x1
            x1 = low + R_GOLDEN * (high - low)
            s2, s1 = s1, loss(x1)
        else:
            low, x1 = x1, x2
            x2 = high - R_GOLDEN * (high - low)
            s1, s2 = s2, loss(x2)
    return Choice(x1 if s1 < s2 else x2, np.array(sorted(tried)))


def _krls_limits(w: FloatArray, N: float) -> tuple[float, float]:
    """Find R's limits by bisection over the steps its loops would take.

    The upper one descends from N by 1 until the effective degrees of freedom reach 1; the lower one ascends from zero by
    0.05 until they fall to q, the rank of the eigenvalue nearest to a thousandth of the largest. Sums of many steps of
    0.05 are rounded as R's loop rounds them.
    """
    descending = w[::-1]
    q = int(np.argmin(np.abs(descending - descending[0] / 1000.0))) + 1

    def edf(penalty: float) -> float:
        return float(np.sum(w / (w + penalty)))

    down = _first(lambda k: edf(N - k) >= 1.0, round(N))
    high = N - down
    up = _first(lambda k: edf(R_EPSILON + R_STEP * k) <= q, int(high / R_STEP) + 1)
    if up > MOST_STEPS:  # R's loop would take hours, and its rounding matters no more
        return R_STEP * up, high
    return float(np.cumsum(np.concatenate([[R_EPSILON], np.full(up, R_STEP)]))[-1]), high


def _first(holds: Callable[[int], bool], most: int) -> int:
    """Find the first k in 0..most for which a condition holds that goes on holding."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
