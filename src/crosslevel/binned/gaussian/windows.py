"""Search lengthscales with features: in windows that a modest basis can hold, moved until the optimum lies inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crosslevel.binned.gaussian import sines
from crosslevel.binned.gaussian.features import FeatureSolver
from crosslevel.numerics.evidence import Maximum
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.binned.gaussian.fit import Search

__all__ = ["search_windows"]


WINDOWS = {1: (1 / 15, 0.5)}
"""First window of lengthscales by dimension, as shares of the range."""
WINDOW = (1 / 6, 0.5)
"""The first window in more than one dimension."""
STEP = 3.0
"""How far a window moves."""
MOVES = 8
LONGEST = 20.0
"""Share of the range beyond which a lengthscale is as good as infinite."""
SHORTER = 2
"""Windows of shorter lengthscales that are tried in any case."""


def search_windows(search: Search) -> tuple[Maximum, dict[str, float]]:
    """Search from long to short and keep the best; also name the lengthscales that were too short for the features.

    A window is moved along every axis whose lengthscale stopped at its end. A curve shorter than a window looks like noise
    there, so shorter windows are tried even where no end calls for them.
    """
    kernel, most = search.kernel, search.most_features
    sines.require_features(kernel)
    d = kernel.dimension
    low, high = (np.full(d, share) for share in WINDOWS.get(d, WINDOW))
    best, at = _search_window(search, low, high)
    best, at = _follow(search, low, high, best, at)
    for k in range(1, SHORTER + 1):
        lower, upper = low / STEP**k, high / STEP**k
        if _size(lower, upper) > most:
            break
        found, ended = _search_window(search, lower, upper)
        if found.value > best.value:
            best, at = _follow(search, lower, upper, found, ended)
    return best, _too_short(search, best, at)


def _too_short(search: Search, found: Maximum, at: FloatArray) -> dict[str, float]:
    """Name the lengthscales at which the likelihood still rises toward shorter ones, which would take too many features."""
    logs, _ = search.unpack(found.theta)
    axes = zip(search.kernel.names, search.kernel.axes, logs, search.lower, strict=False)
    return {
        name: float(np.exp(log))
        for name, axis, log, lowest in axes
        if axis is not None and at[axis] < 0 and name in found.convergence.at_bounds and log > lowest + 1e-3
    }


def _follow(
    search: Search, low: FloatArray, high: FloatArray, best: Maximum, at: FloatArray
) -> tuple[Maximum, FloatArray]:
    """Move the window where the optimum lies at its end, as long as that pays."""
    for _ in range(MOVES):
        move = np.where((at > 0) & (high >= LONGEST), 0.0, at)
        low, high = low * STEP**move, high * STEP**move
        if not move.any() or _size(low, high) > search.most_features:
            break
        found, ended = _search_window(search, low, high)
        if found.value <= best.value:
            break
        best, at = found, ended
    return best, at


def _search_window(search: Search, low: FloatArray, high: FloatArray) -> tuple[Maximum, FloatArray]:
    """Search with lengthscales between shares of the range, (d,) each.

    Gives what was found, and per axis -1, 0 or 1: stopped at the lower end, inside, or at the upper end.
    """
    kernel = search.kernel
    axes = np.array([-1 if a is None else a for a in kernel.axes])
    is_length = np.append(axes >= 0, False)
    own = axes[axes >= 0]
    span = search.span[own] * kernel.stretch
    lower, upper = search.lower.copy(), search.upper.copy()
    lower[is_length], upper[is_length] = np.log(low[own] * span), np.log(high[own] * span)
    solver = _window_solver(search, lower, upper)
    found = search.run(solver, lower, upper, most=2)
    whole = search.fixed.copy()
    whole[search.free] = found.theta
    at = np.zeros(kernel.dimension)
    for i in np.flatnonzero(is_length & search.free):
        if whole[i] < lower[i] + 1e-3:
            at[axes[i]] = -1.0
        elif whole[i] > upper[i] - 1e-3 and at[axes[i]] == 0:
            at[axes[i]] = 1.0
    return found, at


def _window_solver(search: Search, lower: FloatArray, upper: FloatArray) -> FeatureSolver:
    problem, kernel = search.problem, search.kernel
    low = np.where(search.free, lower, search.fixed)[:-1]
    high = np.where(search.free, upper, search.fixed)[:-1]
    bounds = problem.regions.bounds()
    short, long = sines.span_of(kernel, low, *bounds), sines.span_of(kernel, high, *bounds)
    span = sines.Span(short.low, short.high, short.shortest, long.longest)
    middle = low.copy()
    middle[[a is None for a in kernel.axes]] = 0.0
    tolerance = max(search.settings.tolerance, 1e-5)
    basis, _ = sines.grow(kernel, middle, span, sines.sample_of(problem.regions), tolerance, search.most_features)
    return FeatureSolver(problem, kernel, basis)


def _size(low: FloatArray, high: FloatArray) -> float:
    """Estimate how many features a window of lengthscales takes; in more than one dimension the corners are left out."""
    axes = 2.0 * (0.5 + 2.9 * high) * 4.5 / low / math.pi
    return float(np.prod(axes) * {1: 1.0, 2: 0.785}.get(len(axes), 0.52))
