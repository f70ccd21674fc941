"""The synthetic bags of Law et al. (2018), seeded as the published experiments were, and the best any model can do on them.

A bag has a label y ~ U(4, 8) and people of five independent coordinates ``chi2_y / y + N(0, v)``. The generator is NumPy's
legacy one, whose streams are frozen, so the labels equal the published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import signal, special

from crosslevel import Bags

FloatArray = npt.NDArray[np.float64]

SETS = {"train": 1000, "early": 500, "validation": 500, "test": 1000}
SIZES = (5, 20, 100, 1000)
COLUMNS = 5
LOW, HIGH = 4.0, 8.0


@dataclass(frozen=True)
class Labeled:
    """Bags with their labels, (n,)."""

    bags: Bags
    y: FloatArray


def set_seeds(data_seed: int) -> dict[str, int]:
    """Draw the seeds of the four sets."""
    seeds = np.random.RandomState(data_seed).randint(2**32, size=4, dtype=np.int64)
    return {name: int(s) for name, s in zip(SETS, seeds, strict=True)}


def draw_set(seed: int, n: int, fractions: Sequence[float], noise: float) -> Labeled:
    """Draw one set: sizes, labels, people, in this order.

    Parameters
    ----------
    seed : int
    n : int
        Number of bags.
    fractions : three numbers
        Shares of bags of 5, 20 and 100 people; the others have 1000.
    noise : float
        Variance of the normal part.
    """
    rs = np.random.RandomState(seed)
    few = [np.repeat(size, int(n * f)) for size, f in zip(SIZES, fractions, strict=False)]
    sizes = np.concatenate([*few, np.repeat(SIZES[-1], n - sum(map(len, few)))])
    rs.shuffle(sizes)
    y = rs.uniform(LOW, HIGH, n)
    values = np.empty((int(sizes.sum()), COLUMNS))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scale = np.sqrt(noise)
    for label, start, stop in zip(y, offsets[:-1], offsets[1:], strict=True):
        shape = (stop - start, COLUMNS)
        # a normal is drawn also at scale zero: the next bag's numbers depend on it
        values[start:stop] = rs.chisquare(label, shape) / label + rs.normal(0, scale, shape)
    return Labeled(Bags(values, offsets), y)


def draw_all(
    data_seed: int, fractions: Sequence[float] = (0.0, 0.0, 0.0), noise: float = 1.0, shrink: int = 1
) -> dict[str, Labeled]:
    """Draw the four sets; ``shrink`` divides their sizes, for a quick look."""
    seeds = set_seeds(data_seed)
    return {name: draw_set(seeds[name], n // shrink, fractions, noise) for name, n in SETS.items()}


def optimum(data: Labeled, noise: float, n_grid: int = 401, whole_ends: bool = False) -> tuple[FloatArray, FloatArray]:
    """Give the posterior mean of each label, and the log posterior density at the true one, when the family is known.

    Parameters
    ----------
    data : Labeled
    noise : float
        Variance of the normal part.
    n_grid : int
        Labels at which the posterior is tabulated.
    whole_ends : bool
        Count the ends of the grid like its other points. It inflates the norm by about a step's width and the mean negative log
        density by .0025 at 401 points; published notes have it.

    Notes
    -----
    With noise, values are counted in bins, and the log probability of a bin is tabulated (differences of the gamma distribution
    function, convolved with the normal), so that a bag costs one product of its counts with the table. Without, the likelihood
    of a gamma sample needs its sum and the sum of its logarithms only.
    """
    grid = np.linspace(LOW, HIGH, n_grid)
    log_p = _gamma_likelihoods(data.bags, grid) if noise == 0 else _binned_likelihoods(data.bags, grid, noise)
    weights = np.full(n_grid, grid[1] - grid[0])
    if not whole_ends:
        weights[[0, -1]] /= 2.0
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    p /= (p @ weights)[:, None]
    at = np.array([np.interp(label, grid, row) for label, row in zip(data.y, p, strict=True)])
    return p @ (weights * grid), np.log(np.maximum(at, 1e-300))


def _gamma_likelihoods(bags: Bags, grid: FloatArray) -> FloatArray:
    """Compute log p(bag | label) up to a constant, (n, n_grid), when values are chi2_k / k."""
    total = np.add.reduceat(bags.values.sum(axis=1), bags.offsets[:-1])[:, None]
    logs = np.add.reduceat(np.log(bags.values).sum(axis=1), bags.offsets[:-1])[:, None]
    count = COLUMNS * np.asarray(bags.sizes, dtype=np.float64)[:, None]
    half = grid / 2.0
    return np.asarray((half - 1.0) * logs - half * total + count * (half * np.log(half) - special.gammaln(half)))


def _binned_likelihoods(bags: Bags, grid: FloatArray, noise: float, width: float = 0.004) -> FloatArray:
    """Compute log p(bag | label), (n, n_grid), of values counted in bins."""
    start, table = _log_table(grid, noise, width, float(bags.values.min()), float(bags.values.max()))
    out = np.empty((len(bags), len(grid)))
    for i, (low, high) in enumerate(zip(bags.offsets[:-1], bags.offsets[1:], strict=True)):
        bins = ((bags.values[low:high].ravel() - start) / width).astype(np.intp)
        seen, count = np.unique(bins, return_counts=True)
        out[i] = count @ table[seen]
    return out


def _log_table(grid: FloatArray, noise: float, width: float, low: float, high: float) -> tuple[float, FloatArray]:
    """Tabulate log P(bin | label), (n_bins, n_grid), over bins that hold all values; the first begins at ``start``."""
    reach = 9.0 * np.sqrt(noise)
    start = float(np.floor(min(low, 0.0) - reach))
    n = int(np.ceil((max(high, 0.0) + 2.0 * reach + 1.0 - start) / width))
    edges = start + width * np.arange(n + 1)
    steps = width * np.arange(-int(reach / width), int(reach / width) + 1)
    kernel = np.exp(-0.5 * steps**2 / noise)
    kernel /= kernel.sum()
    table = np.empty((n, len(grid)))
    for j, k in enumerate(grid):
        mass = np.diff(special.gammainc(k / 2.0, np.maximum(edges, 0.0) * k / 2.0))
        table[:, j] = np.log(np.maximum(signal.fftconvolve(mass, kernel, mode="same"), 1e-300))
    return start, table
