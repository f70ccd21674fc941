"""Bins inside bins, of the same people: their differences are disjoint bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from crosslevel.binned.counts.cells import CountBins
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["difference_nested"]


def difference_nested(bins: CountBins, totals: FloatArray) -> tuple[CountBins, FloatArray] | None:
    """Replace every bin that holds others by what they leave of it.

    Given its parts, the count of a whole is that of the rest, so the likelihood is that of disjoint bins. Returns None when two
    bins overlap without one holding the other, or cells lie in a bin by a part.

    Parameters
    ----------
    totals : (B,)

    Raises
    ------
    InputError
        When a whole is smaller than its parts, or has people where it has no cells left.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_intervals
    >>> bins, totals = difference_nested(bins_from_intervals([0, 0], [10, 4], cell=2), np.array([30.0, 9.0]))
    >>> (bins.C > 0).astype(int).tolist(), totals.tolist()
    ([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], [9.0, 21.0])
    """
    member = bins.C > 0
    if not np.isclose(bins.C, bins.weight)[member].all():
        return None
    common = member.astype(np.int64) @ member.T.astype(np.int64)
    size = np.diag(common)
    smaller = np.minimum(size[:, None], size[None, :])
    if not ((common == 0) | (common == smaller)).all():
        return None
    kept: list[tuple[npt.NDArray[np.bool_], float]] = []
    parts: list[int] = []  # the largest bins met so far, which the next one may hold
    for i in np.argsort(size, kind="stable"):
        inside = [j for j in parts if common[i, j] == size[j]]
        rest = member[i] & ~np.any(member[inside], axis=0) if inside else member[i]
        left = float(totals[i] - totals[inside].sum())
        if left < 0 or (left > 0 and not rest.any()):
            raise InputError(
                f"bin {int(i)} counts {totals[i]:g}, and the bins inside it {totals[inside].sum():g}; a whole is the sum of its "
                "parts. Correct the totals, or drop the bin."
            )
        if rest.any():
            kept.append((rest, left))
        parts = [*(j for j in parts if j not in inside), int(i)]
    disjoint = bins.with_rows(np.array([rest for rest, _ in kept]) * bins.weight)
    if bins.n_axes == 1:
        disjoint = replace(disjoint, warped=_in_runs(disjoint)[:, None])
    return disjoint, np.array([left for _, left in kept])


def _in_runs(bins: CountBins) -> FloatArray:
    """Measure places in disjoint bins, a bin of several runs of cells counting once for each, (A,)."""
    where = bins.bin_of
    change = np.flatnonzero(np.diff(where)) + 1
    edges = np.concatenate([bins.lower[:1, 0], bins.lower[change, 0], bins.upper[-1:, 0]])
    return np.asarray(np.interp(bins.centres[:, 0], edges, np.arange(len(edges), dtype=np.float64)))
