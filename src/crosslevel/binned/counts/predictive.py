"""From a curve to counts: shares within bins, and draws that keep every total."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.binned.counts.cells import CountBins
from crosslevel.errors import InputError
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.typing import FloatArray


def draw_curves(mean: FloatArray, covariance: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw curves from a Gaussian whose covariance may be singular, (n, A).

    Examples
    --------
    >>> draw_curves(np.zeros(2), np.zeros((2, 2)), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + rng.standard_normal((n, len(mean))) @ root.T)


def draw_shares(bins: CountBins, f: FloatArray) -> FloatArray:
    """Give each cell's share of its bin under each curve, (n, A): weight exp(f) over its sum in the bin.

    Cells of no bin get their expected counts instead.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> draw_shares(bins_from_edges([0, 2], cell=1), np.log([[1.0, 3.0]])).round(6)
    array([[0.25, 0.75]])
    """
    where = bins.bin_of
    inside = where >= 0
    member = (bins.C > 0).astype(np.float64)
    # the largest f of each bin is taken out first: shares of far tails neither overflow nor vanish
    top = np.stack([np.where(row > 0, f, -np.inf).max(axis=1) for row in member], axis=1)
    e = bins.weight * np.exp(f - np.where(inside, top[:, np.maximum(where, 0)], 0.0))
    total = (e * inside) @ member.T
    return np.where(inside, e / total[:, np.maximum(where, 0)], e)


def draw_counts(
    bins: CountBins, totals: FloatArray, shares: FloatArray, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw whole counts that keep every total: multinomial in each bin, Poisson in cells of no bin, (n, A).

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> bins = bins_from_edges([0, 2, 4], cell=1)
    >>> counts = draw_counts(bins, np.array([7.0, 0.0]), np.full((5, 4), 0.5), np.random.default_rng(0))
    >>> counts.sum(axis=1).tolist(), counts[:, 2:].max()
    ([7, 7, 7, 7, 7], np.int64(0))
    """
    out = np.zeros(shares.shape, dtype=np.int64)
    for b, row in enumerate(bins.C > 0):
        cells = np.flatnonzero(row)
        p = shares[:, cells]
        out[:, cells] = rng.multinomial(int(totals[b]), p / p.sum(axis=1, keepdims=True))
    outside = bins.bin_of < 0
    if outside.any():
        out[:, outside] = rng.poisson(np.minimum(shares[:, outside], 1e15))
    return out


def rake(C: FloatArray, expected: FloatArray, totals: FloatArray, steps: int = 500, strict: bool = True) -> FloatArray:
    """Scale expected cells until the sums of overlapping bins are the totals, (n, A): iterative proportional fitting.

    Parameters
    ----------
    C : (B, A)
        Share of each cell in each bin, between 0 and 1.
    expected : (n, A)
    totals : (B,) or (n, B)
    steps : int
        Rounds at most.
    strict : bool
        Refuse totals that no cells add up to; False gives the cells of the last round.

    Examples
    --------
    >>> C = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    >>> (rake(C, np.array([[2.0, 1.0, 2.0]]), np.array([6.0, 9.0])) @ C.T).round(6)
    array([[6., 9.]])
    """
    e = expected.copy()
    wanted = np.broadcast_to(totals, (len(e), len(C)))
    for _ in range(steps):
        for row, y in zip(C, wanted.T, strict=True):
            now = e @ row
            # a cell that lies in the bin by a part moves by that part of the way
            e *= np.where(now > 0, y / np.maximum(now, 1e-300), 1.0)[:, None] ** row
        off = np.abs(e @ C.T - wanted).max() / max(1.0, float(wanted.max()))
        if off < 1e-10:
            return e
    if not strict:
        return e
    raise InputError(
        f"no cells add up to all of these totals (off by {off:.1e} of the largest after {steps} rounds); the overlapping bins "
        "contradict one another. Correct the totals, or do not ask for them to be kept."
    )


def match_shares(averages: FloatArray, f: FloatArray, shares: FloatArray, rounds: int) -> FloatArray:
    """Shift the logits of each bin's cells together until their mean is the share drawn for the bin; give the cells' shares, (n, A).

    Parameters
    ----------
    averages : (B, A)
        Weights of the cells in each bin, which sum to 1.
    f : (n, A)
    shares : (n, B)
        Between 0 and 1.
    rounds : int
        How often all bins are gone through; once suffices where they lie apart.

    Examples
    --------
    >>> p = match_shares(np.array([[0.5, 0.5]]), np.array([[0.0, 2.0]]), np.array([[0.3]]), 1)
    >>> round(float(p.mean()), 12)
    0.3
    """
    out, n = f.copy(), len(f)
    targets = np.clip(shares, 1e-300, 1.0 - 1e-16)
    for _ in range(rounds):
        for row, target in zip(averages, targets.T, strict=True):
            cells = np.flatnonzero(row > 0)
            draw = np.repeat(np.arange(n), len(cells))
            found = shift_to_total(out[:, cells].reshape(1, -1), np.tile(row[cells], n), draw, target)
            out[:, cells] += found.shift.reshape(-1, 1)
    return np.asarray(special.expit(out))
