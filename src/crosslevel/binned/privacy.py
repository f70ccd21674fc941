"""Find small groups whose totals follow from differences of nested totals, whatever the curve.

What a region has beyond another inside it, or beyond several inside it that lie apart, follows from the totals by subtraction, with
the sum of their noise variances. Where that total is small, and so determined to within half a person, the group is revealed.
"""

from __future__ import annotations

import numpy as np

from crosslevel.binned.baselines import shared_volumes, slack
from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import Intervals
from crosslevel.typing import FloatArray

SMALL = 10.0
"""Totals up to this are those of a small group."""
CERTAIN = 0.5
"""Standard deviation below which a total of whole people is as good as known."""
MOST_REGIONS = 600
"""Regions beyond which nothing is looked for."""


def privacy_warnings(regions: Regions, y: FloatArray, noise: FloatArray | float = 0.0) -> tuple[str, ...]:
    """Warn of small groups that differences of nested totals reveal; none where nothing is revealed.

    Parameters
    ----------
    regions : Regions
        Intervals, boxes or polygons.
    y : (n,)
        Totals.
    noise : (n,) or float
        Variances of their errors.

    Examples
    --------
    >>> privacy_warnings(Intervals([0, 0], [64, 65]), np.array([5000.0, 5002.0]))[0][:64]
    'privacy: differences of nested totals reveal 1 small group(s): r'
    >>> privacy_warnings(Intervals([0, 64], [64, 65]), np.array([5000.0, 2.0]))
    ()
    """
    found = revealed_groups(regions, y, noise)
    if not found:
        return ()
    names = getattr(regions, "names", None) or [f"row {i}" for i in range(len(y))]
    each = [f"{names[i]} without {' and '.join(names[j] for j in inside)} holds {n:.0f}" for i, inside, n in found[:3]]
    said = "; ".join(each) + " and more" * (len(found) > 3)
    return (
        f"privacy: differences of nested totals reveal {len(found)} small group(s): {said}. Publish coarser or noisier totals, "
        "or fewer that overlap.",
    )


def revealed_groups(regions: Regions, y: FloatArray, noise: FloatArray | float) -> list[tuple[int, list[int], float]]:
    """Give, for each region that reveals one, its row, the rows inside it, and what it holds beyond them: the smallest such group."""
    if len(regions) > MOST_REGIONS or (isinstance(regions, Intervals) and not regions.overlaps()):
        return []
    shared = shared_volumes(*[_closed(regions)] * 2)
    if shared is None:
        return []
    size, N = np.diag(shared), np.broadcast_to(noise, len(y))
    within = (shared >= (1.0 - slack(regions)) * size) & (size < (1.0 - slack(regions)) * size[:, None])
    found = []
    for i in np.flatnonzero(within.any(axis=1)):
        inside = sorted(np.flatnonzero(within[i]).tolist(), key=lambda j: -size[j])
        apart: list[int] = []
        for j in inside:
            if (shared[j, apart] <= slack(regions) * size[j]).all():
                apart.append(j)
        groups = []
        for rows in [*([j] for j in inside), apart]:
            rest, total = float(size[i] - size[rows].sum()), float(y[i] - y[rows].sum())
            small = abs(total) < SMALL + 0.5 and N[i] + N[rows].sum() < CERTAIN**2
            published = (
                within[i] & (shared[:, rows] <= slack(regions) * size[:, None]).all(axis=1) & np.isclose(size, rest)
            )
            if small and rest > slack(regions) * size[i] and not published.any():
                groups.append((rest, rows, total))
        if groups:
            _, rows, total = min(groups, key=lambda group: group[0])
            found.append((int(i), rows, total))
    return found


def _closed(regions: Regions) -> Regions:
    """End intervals that have no end a little beyond all others, so that their lengths can be compared."""
    if not (isinstance(regions, Intervals) and regions.open_ended):
        return regions
    limits = np.concatenate([regions.lower, regions.upper])
    finite = limits[np.isfinite(limits)]
    width = float(np.ptp(finite)) or 1.0
    return Intervals(np.maximum(regions.lower, finite.min() - width), np.minimum(regions.upper, finite.max() + width))
