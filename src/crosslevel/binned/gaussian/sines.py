"""Choose the box and the frequencies of the sines that a kernel needs, and measure the error they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosslevel.binned.gaussian.covariances import Kernel, lay_out, prior_covariance
from crosslevel.binned.regions.base import Regions, SineBasis
from crosslevel.numerics.integrals.correlations import reach, spectral_density
from crosslevel.typing import FloatArray, Int64Array

SAMPLE = 80
"""Regions on which the error is measured."""
START, GROWTH = 3.0, 1.25
"""Highest frequency tried first in units of 1 / lengthscale, and how it grows."""
CHECKED = 12
"""Regions on which the error is measured where it takes long: the smallest, which need the highest frequencies, and the largest."""
BORDER = 1e-7
"""Correlation with mirror images behind the border of the box that is put up with."""


@dataclass(frozen=True, eq=False)
class Span:
    """Where features must hold: corners of the space, (d,) each, and the lengthscales, shortest and longest, (d,) each."""

    low: FloatArray
    high: FloatArray
    shortest: FloatArray
    longest: FloatArray


def densities(kernel: Kernel, logs: FloatArray, w: FloatArray, gradient: bool = False) -> tuple[FloatArray, FloatArray]:
    """Give the prior variances of the coefficients at frequencies w (m, d), and their derivatives by every hyperparameter, (h, m)."""
    name = kernel.correlation.name
    axes = [spectral_density(name, w[:, d], float(n)) for d, n in enumerate(np.exp(logs[1:]))]
    total = np.exp(logs[0]) * np.prod([s for s, _ in axes], axis=0)
    if not gradient:
        return total, np.zeros((0, len(w)))
    # by the log of the variance, and of each lengthscale
    ratio = [np.divide(slope, s, out=np.zeros_like(s), where=s > 0) for s, slope in axes]
    return total, total * np.array([np.ones(len(w)), *ratio])


def span_of(logs: FloatArray, lower: FloatArray, upper: FloatArray) -> Span:
    """Give the space between the corners of regions, (n, d) each, and the lengthscales along its axes."""
    lengths = np.exp(logs[1:])
    return Span(lower.min(axis=0), upper.max(axis=0), lengths, lengths)


def margins(kernel: Kernel, longest: FloatArray) -> FloatArray:
    """Give how far the border of the box must stand from the regions, (d,)."""
    return 0.5 * reach(kernel.correlation.name, BORDER) * longest


def widen(kernel: Kernel, logs: FloatArray, basis: SineBasis, lower: FloatArray, upper: FloatArray) -> SineBasis | None:
    """Give a basis for a space that holds further regions too, with the same highest frequencies; None when this one does."""
    found = span_of(logs, lower, upper)
    margin = margins(kernel, found.longest)
    inner = basis.half_width - margin
    slack = 1e-9 * basis.half_width
    if (found.low >= basis.center - inner - slack).all() and (found.high <= basis.center + inner + slack).all():
        return None
    span = Span(
        np.minimum(found.low, basis.center - inner),
        np.maximum(found.high, basis.center + inner),
        found.shortest,
        found.longest,
    )
    return choose(kernel, span, float((basis.frequencies * found.shortest).max()))


def choose(kernel: Kernel, span: Span, top: float) -> SineBasis:
    """Make the basis whose highest frequencies are ``top`` / shortest lengthscale, in a box that holds the longest.

    In more than one dimension only frequencies are kept whose density is at least that at the end of the first axis.
    """
    margin = margins(kernel, span.longest)
    half = 0.5 * (span.high - span.low) + margin
    most = np.maximum(np.ceil(top / span.shortest * 2.0 * half / np.pi), 2).astype(np.int64)
    given = np.log([1.0, *span.shortest])
    ends = np.diag(top / span.shortest)
    floor = 0.0 if kernel.dimension == 1 else float(densities(kernel, given, ends)[0].min())
    index = frequency_index(most, lambda i: densities(kernel, given, np.pi * i / (2.0 * half))[0], floor)
    return SineBasis(0.5 * (span.low + span.high), half, index)


def sample_of(regions: Regions) -> Regions:
    """Pick regions on which errors are measured: neighbors in the middle and at both ends, and some spread over all.

    Of regions without exact covariances some dozen: the smallest, which need the highest frequencies, and the largest.
    """
    n = len(regions)
    if regions.pieces() is None:
        return regions[extremes(regions)]
    if n <= SAMPLE:
        return regions
    quarter = SAMPLE // 4
    lower, upper = regions.bounds()
    order = np.argsort((lower + upper)[:, 0], kind="stable")
    runs = [order[:quarter], order[-quarter:], order[n // 2 : n // 2 + quarter], order[:: max(1, n // quarter)]]
    return regions[np.unique(np.concatenate(runs))]


def measure_error(
    kernel: Kernel, logs: FloatArray, basis: SineBasis, sample: Regions, exact: FloatArray | SineBasis
) -> float:
    """Give the largest error of a covariance between regions of the sample, over the product of their standard deviations.

    ``exact`` are the covariances without features, or, where there are none, a basis that reaches much farther.
    """

    def covariance(basis: SineBasis) -> FloatArray:
        features = sample.sine_integrals(basis)
        return (features * densities(kernel, logs, basis.frequencies)[0]) @ features.T

    truth = covariance(exact) if isinstance(exact, SineBasis) else exact
    sd = np.sqrt(np.diag(truth))
    return float(np.abs((covariance(basis) - truth) / np.outer(sd, sd)).max())


def grow(
    kernel: Kernel, logs: FloatArray, span: Span, sample: Regions, tolerance: float, max_features: int
) -> tuple[SineBasis, float]:
    """Add frequencies until the error is below ``tolerance`` or the number reaches ``max_features``."""
    pieces = sample.pieces()
    exact = None if pieces is None else prior_covariance(kernel, logs, lay_out(pieces))[0]

    def error_of(basis: SineBasis, top: float) -> float:
        return measure_error(kernel, logs, basis, sample, choose(kernel, span, 2.0 * top) if exact is None else exact)

    top = START
    basis = choose(kernel, span, top)
    error = error_of(basis, top)
    while error > tolerance:
        more = choose(kernel, span, top * GROWTH)
        if len(more) > max_features:
            break
        top, basis = top * GROWTH, more
        error = error_of(basis, top)
    return basis, error


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
