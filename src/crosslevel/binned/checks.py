"""What should the reader know of the regions: gaps, overlaps, places the data do not speak of, units that differences reveal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crosslevel.binned.problem import Problem
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.intervals import Intervals
from crosslevel.errors import listed
from crosslevel.numerics.integrals import White

__all__ = ["layout_notes", "overlap", "privacy_notes", "revealed_units", "shared_volumes", "uninformed"]

FloatArray = npt.NDArray[np.float64]

UNKNOWN = 0.05
"""Share of the prior variance that the data must remove for a region to count as informed."""
SMALL = 10.0
"""Totals up to this are those of a small unit."""
CERTAIN = 0.5
"""Standard deviation below which a total of whole people is as good as known."""
MOST_UNITS = 1500
"""Units beyond which nothing is looked for."""
MOST_COMPARED = 3000
"""Regions beyond which boxes are not compared pair by pair."""


def layout_notes(regions: Regions) -> tuple[str, ...]:
    """Say where observed intervals leave gaps and where they overlap; both are allowed, and may be a slip."""
    if not isinstance(regions, Intervals):
        return ()
    said = []
    gaps, overlaps = regions.gaps(), regions.overlaps()
    if gaps:
        said.append(
            f"{len(gaps)} gap(s) between intervals, first from {gaps[0][0]:g} to {gaps[0][1]:g}: the curve is inferred there. If groups "
            "were written 0-9, 10-19, their upper limits are 10 and 20."
        )
    if overlaps:
        i, j = overlaps[0]
        said.append(
            f"{len(overlaps)} overlap(s), first rows {i} and {j} ([{regions.lower[i]:g}, {regions.upper[i]:g}) and "
            f"[{regions.lower[j]:g}, {regions.upper[j]:g})): both totals are taken to count the people they share."
        )
    return tuple(said)


def uninformed(variance: FloatArray, prior_variance: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which predictions the data hardly changed: less than 5 % of the prior variance is gone.

    Examples
    --------
    >>> uninformed(np.array([0.99, 0.2]), np.ones(2))
    array([ True, False])
    """
    return np.asarray(variance > (1.0 - UNKNOWN) * prior_variance)


def shared_volumes(a: Regions, b: Regions) -> FloatArray | None:
    """Measure the volume that each region of a shares with each of b, (n, m); None unless all are single boxes.

    A point of ``a`` counts 1 where it lies in a box of ``b``, borders included on the lower side.
    """
    p, q = a.pieces(), b.pieces()
    if p is None or q is None or not (p.simple and q.simple):
        return None
    out = np.ones((p.n, q.n))
    for d in range(a.dimension):
        s, t, u, v = p.lower[:, d], p.upper[:, d], q.lower[:, d], q.upper[:, d]
        shared = White().covariance((s, t), (u, v), 1.0)[0]
        at = (s == t)[:, None]
        inside = (s[:, None] >= u) & ((s[:, None] < v) | ((u == v) & (s[:, None] == u)))
        out *= np.where(at, inside, shared)
    return out


def overlap(regions: Regions) -> bool | None:
    """Tell whether any two regions share volume; None when that is not known, or too many to compare."""
    if isinstance(regions, Intervals):
        return bool(regions.overlaps())
    if len(regions) > MOST_COMPARED:
        return None
    shared = shared_volumes(regions, regions)
    return None if shared is None else bool((np.triu(shared, 1) > 1e-12 * np.diag(shared)).any())


def revealed_units(problem: Problem, noise: float) -> list[tuple[FloatArray, FloatArray, float]]:
    """Find small units whose totals follow from differences of overlapping totals, whatever the curve.

    The space is cut along all limits into units. With nothing assumed of them but a size of at most the largest total, the
    totals observed leave each unit a variance; a unit that is no region itself, holds at most `SMALL` and has a standard
    deviation below `CERTAIN` is revealed.

    Returns
    -------
    list of (lower, upper, total)
        Corners (d,) and the total that follows.
    """
    pieces = problem.regions.pieces()
    if pieces is None or not pieces.simple or (problem.scale != 1.0).any() or (pieces.lower == pieces.upper).any():
        return []
    if not overlap(problem.regions):
        return []
    edges = [np.unique([pieces.lower[:, d], pieces.upper[:, d]]) for d in range(problem.regions.dimension)]
    if np.prod([len(e) - 1.0 for e in edges]) > MOST_UNITS:
        return []
    low = np.stack([g.ravel() for g in np.meshgrid(*(e[:-1] for e in edges), indexing="ij")], axis=1)
    high = np.stack([g.ravel() for g in np.meshgrid(*(e[1:] for e in edges), indexing="ij")], axis=1)
    middle = 0.5 * (low + high)
    M = ((middle >= pieces.lower[:, None]) & (middle <= pieces.upper[:, None])).all(axis=2).astype(float)
    covered = M.any(axis=0)
    low, high, M = low[covered], high[covered], M[:, covered]
    size = float(np.abs(problem.y).max()) ** 2 or 1.0
    S = size * M @ M.T + np.diag(problem.noise(noise) + 1e-9 * size)
    gain = size * np.linalg.solve(S, M)
    variance = size * (1.0 - np.einsum("ij,ij->j", gain, M))
    total = gain.T @ problem.y
    observed = (M.sum(axis=1) == 1)[:, None] & (M > 0)
    found = (variance < CERTAIN**2) & (np.abs(total) <= SMALL) & ~observed.any(axis=0)
    return [(low[i], high[i], float(total[i])) for i in np.flatnonzero(found)]


def privacy_notes(problem: Problem, noise: float) -> tuple[str, ...]:
    """Warn of small units that differences of overlapping totals reveal."""
    found = revealed_units(problem, noise)
    if not found:
        return ()
    said = [f"{_span(low, high)} holds {total:.0f}" for low, high, total in found]
    return (
        f"privacy: differences of overlapping totals reveal {len(found)} small unit(s) that no single total does: {listed(said, 3)}. "
        "Publish coarser or noisier totals, or fewer that overlap.",
    )


def _span(low: FloatArray, high: FloatArray) -> str:
    return " x ".join(f"[{a:g}, {b:g})" for a, b in zip(low, high, strict=True))
