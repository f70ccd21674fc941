"""Choose the box and the frequencies of the sines that a kernel needs, and measure the error they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.binned.gaussian.covariances import lay_out, prior_covariance
from crosslevel.binned.gaussian.kernels import BoundKernel
from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.binned.regions.basis import extremes, frequency_index
from crosslevel.errors import InputError
from crosslevel.numerics.integrals.correlations import Antiderivative, Correlation, reach
from crosslevel.typing import FloatArray, Int64Array

SAMPLE = 80
"""Regions on which the error is measured."""
POINTS = 4000
"""Points of a cubature that are compared pair by pair to measure it."""
START, GROWTH = 3.0, 1.25
"""Highest frequency tried first in units of 1 / lengthscale, and how it grows."""
BORDER = 1e-7
"""Correlation with mirror images behind the border of the box that is put up with."""


@dataclass(frozen=True, eq=False)
class Span:
    """Where features must hold: corners of the space, (d,) each, and the lengthscales, shortest and longest, (d,) each."""

    low: FloatArray
    high: FloatArray
    shortest: FloatArray
    longest: FloatArray


def check_features(kernel: BoundKernel) -> str | None:
    """Say why a kernel has no features, or None."""
    for term in kernel.terms:
        if len(term.factors) < kernel.dimension:
            return "a term is constant along an axis"
        for f in term.factors:
            if f.correlation.spectral_density(np.zeros(1), 1.0) is None:
                return f"the spectral density of {f.correlation.name!r} is not known"
    return None


def require_features(kernel: BoundKernel) -> None:
    """Refuse a kernel without features."""
    why = check_features(kernel)
    if why is not None:
        raise InputError(f"solver='features' cannot be used: {why}. Use solver='dense'.")


def densities(
    kernel: BoundKernel, logs: FloatArray, w: FloatArray, gradient: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Give the prior variances of the coefficients at frequencies w (m, d), and their derivatives by every hyperparameter, (h, m)."""
    total = np.zeros(len(w))
    slopes = np.zeros((len(logs) if gradient else 0, len(w)))
    place = 0
    for variance, factors in kernel.split(logs):
        axes = []
        for f, length, _ in factors:
            found = f.correlation.spectral_density(w[:, f.axis or 0], length)
            assert found is not None  # check_features has asked
            axes.append(found)
        part = variance * np.prod([s for s, _ in axes], axis=0)
        total += part
        if gradient:
            slopes[place] = part
            for i in range(len(axes)):
                others = [s if j != i else g for j, (s, g) in enumerate(axes)]
                slopes[place + 1 + i] = variance * np.prod(others, axis=0)
        place += 1 + len(factors)
    return total, slopes


def span_of(kernel: BoundKernel, logs: FloatArray, lower: FloatArray, upper: FloatArray) -> Span:
    """Give the space between the corners of regions, (n, d) each, and the lengthscales along its axes."""
    lengths: list[list[float]] = [[] for _ in range(kernel.dimension)]
    for _, factors in kernel.split(logs):
        for f, length, place in factors:
            if place >= 0:
                lengths[f.axis or 0].append(length)
    low, high = lower.min(axis=0), upper.max(axis=0)
    return Span(low, high, np.array([min(x) for x in lengths]), np.array([max(x) for x in lengths]))


def margins(kernel: BoundKernel, longest: FloatArray) -> FloatArray:
    """Give how far the border of the box must stand from the regions, (d,)."""
    out = np.zeros(kernel.dimension)
    for term in kernel.terms:
        for f in term.factors:
            axis = f.axis or 0
            out[axis] = max(out[axis], 0.5 * _reach(f.correlation) * longest[axis])
    return out


def widen(
    kernel: BoundKernel, logs: FloatArray, basis: SineBasis, lower: FloatArray, upper: FloatArray
) -> SineBasis | None:
    """Give a basis for a space that holds further regions too, with the same highest frequencies; None when this one does."""
    found = span_of(kernel, logs, lower, upper)
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


def choose(kernel: BoundKernel, span: Span, top: float) -> SineBasis:
    """Make the basis whose highest frequencies are ``top`` / shortest lengthscale, in a box that holds the longest.

    In more than one dimension only frequencies are kept whose density is at least that at the end of the first axis.
    """
    margin = margins(kernel, span.longest)
    half = 0.5 * (span.high - span.low) + margin
    most = np.maximum(np.ceil(top / span.shortest * 2.0 * half / np.pi), 2).astype(np.int64)
    given = _at_lengths(kernel, span.shortest)
    ends = np.diag(top / span.shortest)
    floor = 0.0 if kernel.dimension == 1 else float(densities(kernel, given, ends)[0].min())
    index = frequency_index(most, lambda i: densities(kernel, given, np.pi * i / (2.0 * half))[0], floor)
    return SineBasis(0.5 * (span.low + span.high), half, index)


def sample_of(regions: Regions) -> Regions:
    """Pick regions on which errors are measured: neighbors in the middle and at both ends, and some spread over all.

    Of regions that only a cubature can sum, some dozen: the smallest, which need the highest frequencies, and the largest.
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


def measure_error(kernel: BoundKernel, logs: FloatArray, basis: SineBasis, sample: Regions, exact: FloatArray) -> float:
    """Give the largest error of a covariance between regions of the sample, over the product of their standard deviations.

    ``exact`` are the covariances without features; see `exact_sample`.
    """
    features = sample.sine_integrals(basis)
    found = (features * densities(kernel, logs, basis.frequencies)[0]) @ features.T
    sd = np.sqrt(np.diag(exact))
    return float(np.abs((found - exact) / np.outer(sd, sd)).max())


def exact_sample(kernel: BoundKernel, logs: FloatArray, sample: Regions) -> tuple[Regions, FloatArray]:
    """Give the sample with its exact covariances; where a cubature has many points, of the regions with the fewest only."""
    pieces = sample.exact_pieces(kernel.scale(logs))
    size = np.bincount(pieces.owner, minlength=pieces.n)
    order = np.argsort(size, kind="stable")
    quick = np.cumsum(size[order]) <= POINTS
    if pieces.simple or quick.all():
        return sample, prior_covariance(kernel, logs, lay_out(pieces))[0]
    kept = np.sort(order[: max(2, int(quick.sum()))])
    rows = np.isin(pieces.owner, kept)
    owner = np.searchsorted(kept, pieces.owner[rows])
    some = Pieces(pieces.lower[rows], pieces.upper[rows], pieces.weight[rows], owner, len(kept))
    return sample[kept], prior_covariance(kernel, logs, lay_out(some))[0]


def grow(
    kernel: BoundKernel, logs: FloatArray, span: Span, sample: Regions, tolerance: float, max_features: int
) -> tuple[SineBasis, float]:
    """Add frequencies until the error is below ``tolerance`` or the number reaches ``max_features``."""
    top = START
    basis = choose(kernel, span, top)
    sample, exact = exact_sample(kernel, logs, sample)
    error = measure_error(kernel, logs, basis, sample, exact)
    while error > tolerance:
        more = choose(kernel, span, top * GROWTH)
        if len(more) > max_features:
            break
        top, basis = top * GROWTH, more
        error = measure_error(kernel, logs, basis, sample, exact)
    return basis, error


def _at_lengths(kernel: BoundKernel, lengths: Int64Array | FloatArray) -> FloatArray:
    """Give hyperparameters of variance 1 with these usual lengthscales."""
    return np.array([0.0 if a is None else np.log(lengths[a] * kernel.stretch) for a in kernel.axes])


def _reach(correlation: Correlation) -> float:
    """Give the distance, in lengthscales, at which the correlation has fallen to `BORDER`."""
    if not isinstance(correlation, Antiderivative):
        return reach(correlation.name, BORDER)
    r = np.linspace(0.0, 40.0, 801)
    zero = np.zeros(1)
    k = correlation.covariance((zero, zero), (r, r), 1.0)[0][0]
    below = np.flatnonzero(k < BORDER)
    return float(r[below[0]]) if len(below) else float(r[-1])
