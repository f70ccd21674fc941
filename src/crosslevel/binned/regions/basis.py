"""Correlations of the means of regions under a kernel of the distance: by sines, their number chosen for an error, or by points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.data.checks import check_between
from crosslevel.numerics.integrals.correlations import reach, spectrum
from crosslevel.numerics.kernels import distances, matern
from crosslevel.typing import FloatArray, Int64Array

CHECKED = 12
"""Regions on which the error is measured: the smallest, which need the highest frequencies, and the largest."""
GROWTH = 1.3
START = {"eq": 3.0, "matern52": 5.0, "matern32": 8.0, "matern12": 12.0}
"""Highest frequency tried first, in units of 1 / lengthscale."""
MOST = 20_000
"""Features beyond which the number stops growing; the error is then larger than asked for."""


def region_correlations(
    regions: Regions, kernel: str, lengthscale: float, tolerance: float = 1e-4
) -> tuple[FloatArray, float]:
    """Give the covariances of the regions' means under an isotropic kernel of variance 1, (n, n), and the relative error.

    Box and features are chosen so that prior variances are right to ``tolerance``: half is spent on the border of the box (the
    correlation with mirror images beyond it), half on the frequencies that are left out, whose share is measured on the smallest
    and largest regions against a basis that reaches twice as far.

    Parameters
    ----------
    regions : Regions
        All that will be used together.
    kernel : {"eq", "matern12", "matern32", "matern52"}
    lengthscale : float
    tolerance : float

    Examples
    --------
    >>> from crosslevel.binned.regions.simplices import Simplices
    >>> far = Simplices([[[[0, 0], [0.1, 0], [0, 0.1]]], [[[5, 0], [5.1, 0], [5, 0.1]]]])
    >>> R, error = region_correlations(far, "eq", 1.0, tolerance=1e-6)
    >>> R.round(2) + 0.0, error <= 1e-6
    (array([[1., 0.],
           [0., 1.]]), True)
    """
    tolerance = check_between(tolerance, "tolerance", 1e-14, 1.0)
    low, high = (f(c, axis=0) for f, c in zip((np.min, np.max), regions.bounds(), strict=True))
    # an image stands beyond each of 2d borders, twice the margin away
    margin = 0.5 * reach(kernel, tolerance / (4.0 * regions.dimension)) * lengthscale
    center, half = 0.5 * (low + high), 0.5 * (high - low) + margin
    some = regions[extremes(regions)]
    top = START[kernel]
    while True:
        basis = SineBasis(center, half, _index(half, lengthscale, top, kernel))
        truncation = _left_out(some, kernel, lengthscale, basis, top)
        if truncation <= 0.5 * tolerance or len(_index(half, lengthscale, GROWTH * top, kernel)) > MOST:
            break
        top *= GROWTH
    density = spectrum(kernel, basis.frequencies, lengthscale)
    root = regions.sine_integrals(basis) / regions.volumes[:, None] * np.sqrt(density)
    return root @ root.T, truncation + tolerance / 2.0


def frequency_index(most: Int64Array, density: Callable[[Int64Array], FloatArray], floor: float) -> Int64Array:
    """List the whole numbers from 1 to ``most`` (d,) along the axes, (m, d), at which a density is at least ``floor``.

    Examples
    --------
    >>> frequency_index(np.array([3, 2]), lambda index: 1.0 / index.prod(axis=1), 0.5).tolist()
    [[1, 1], [1, 2], [2, 1]]
    """
    axes = [np.arange(1, n + 1, dtype=np.int64) for n in most]
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(most))
    kept = density(index) >= floor
    kept[0] = True
    return index[kept]


def _edge(dimension: int, frequency: float) -> FloatArray:
    """Give a frequency along the first axis, (1, d)."""
    return np.array([[frequency] + [0.0] * (dimension - 1)])


def _index(half: FloatArray, lengthscale: float, top: float, kernel: str) -> Int64Array:
    """List the frequencies at which the density is at least what it is at ``top`` / lengthscale along an axis, (m, d)."""
    most = np.maximum(np.floor(top / lengthscale * 2.0 * half / np.pi), 1).astype(np.int64)
    return frequency_index(
        most,
        lambda index: spectrum(kernel, np.pi * index / (2.0 * half), lengthscale),
        float(spectrum(kernel, _edge(len(half), top / lengthscale), lengthscale)[0]),
    )


def _left_out(regions: Regions, kernel: str, lengthscale: float, basis: SineBasis, top: float) -> float:
    wide = SineBasis(basis.center, basis.half_width, _index(basis.half_width, lengthscale, 2.0 * top, kernel))
    density = spectrum(kernel, wide.frequencies, lengthscale)
    part = regions.sine_integrals(wide) ** 2 * density
    inside = density >= spectrum(kernel, _edge(regions.dimension, top / lengthscale), lengthscale)[0]
    return float((part[:, ~inside].sum(axis=1) / part.sum(axis=1)).max())


def correlations_by_points(
    regions: Regions, kernel: str, lengthscale: float, scale: float | None = None
) -> tuple[FloatArray, float]:
    """Give the same for a kernel of the distance by cubature, with the largest error of the variances.

    Cheaper than features for "matern12", whose spectrum ends slowly. The kernel has a cusp at distance 0, so the cubature is not
    exact even for small regions; its error is measured on the smallest and largest regions against a rule four times as fine,
    and raised by a third for what that rule itself leaves (an error that falls at least in proportion to the size).

    Parameters
    ----------
    regions : Regions
    kernel : {"eq", "matern12", "matern32", "matern52"}
    lengthscale : float
    scale : float, optional
        Regions are cut to this size; twice the median side of the regions when not given.

    Examples
    --------
    >>> from crosslevel.binned.regions.simplices import Simplices
    >>> two = Simplices([[[[0, 0], [1, 0], [0, 1]]], [[[3, 0], [4, 0], [3, 1]]]])
    >>> R, error = correlations_by_points(two, "matern12", 2.0)
    >>> bool(np.allclose(R, region_correlations(two, "matern12", 2.0, tolerance=1e-3)[0], atol=0.003))
    True
    """
    low, high = regions.bounds()
    size = 2.0 * float(np.median((high - low).max(axis=1))) if scale is None else scale
    some = regions[extremes(regions)]
    coarse, fine = (np.diag(_by_points(some, kernel, lengthscale, s)) for s in (size, 0.25 * size))
    return _by_points(regions, kernel, lengthscale, size), float(np.abs(coarse / fine - 1.0).max()) * 4.0 / 3.0


def _by_points(regions: Regions, kernel: str, lengthscale: float, size: float, rows: int = 500) -> FloatArray:
    rule = regions.summed_pieces(np.full(regions.dimension, size))
    where = (rule.owner, np.arange(len(rule)))
    S = csr_array((rule.weight / regions.volumes[rule.owner], where), shape=(len(regions), len(rule))).tocsc()
    out = np.zeros((len(regions), len(regions)))
    for first in range(0, len(rule), rows):
        # symmetric: only the points from here on, those beyond the block counted twice
        block, rest = slice(first, first + rows), slice(first, None)
        r = distances(rule.lower[block], rule.lower[rest], "plane")
        k = np.exp(-0.5 * (r / lengthscale) ** 2) if kernel == "eq" else matern(r, lengthscale, kernel)[0]
        k[:, rows:] *= 2.0
        out += S[:, block] @ (S[:, rest] @ k.T).T
    return 0.5 * (out + out.T)


def extremes(regions: Regions, number: int = CHECKED) -> Int64Array:
    """Number the smallest regions, by the boxes around them, and the two largest.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> extremes(Intervals.from_edges([0, 1, 3, 6, 10, 15]), 3)
    array([0, 3, 4])
    """
    low, high = regions.bounds()
    order = np.argsort(np.prod(high - low, axis=1), kind="stable")
    return np.unique(np.concatenate([order[: number - 2], order[-2:]]))
