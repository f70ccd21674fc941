"""Whom the events happened to: the people at risk of rates and the trials of shares, checked and laid over the cells."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from crosslevel.binned.baselines import uniform_spread
from crosslevel.binned.counts.cells import CountBins, difference_nested
from crosslevel.binned.counts.likelihoods import check_size
from crosslevel.binned.counts.targets import cut_regions
from crosslevel.binned.regions.base import Regions, align_to_regions
from crosslevel.binned.regions.boxes import as_regions
from crosslevel.binned.regions.sums import stack
from crosslevel.data.checks import check_counts, check_length
from crosslevel.errors import InputError
from crosslevel.typing import BoolArray, FloatArray

FEW_PEOPLE = 1000.0
"""Exposures with fractions that reach below this may be thousands of people: 21.4 for 21,400."""
UNIT = "exposure is in people or person-years, and is itself taken as a count of them"
REPAIR = "multiply exposure that is in thousands or hundred thousands (exposure=1000 * exposure)"


def per_region(values: Any, argument: str, n: int) -> FloatArray:
    """Refuse what is not one count per region, (n,)."""
    counts = check_counts(values, argument, 1)
    check_length(counts, argument, n, "regions")
    return counts


def read_exposure(
    regions: Regions, y: FloatArray, exposure: Any, cell: Any, tail: float | None
) -> tuple[CountBins, CountBins, FloatArray, dict[int, FloatArray]]:
    """Read the people at risk: bins of events and of people over the same cells, the people, and codes of categories.

    Examples
    --------
    >>> from crosslevel.binned.regions.boxes import Intervals
    >>> ages, wide = Intervals([0, 10, 20], [10, 20, 30]), Intervals([0, 15], [15, 30])
    >>> events, below, people, _ = read_exposure(ages, np.array([5.0, 20, 60]), (wide, [1500, 1500]), 5, None)
    >>> events.C.shape, below.C.shape, people
    ((3, 6), (2, 6), array([1500., 1500.]))
    """
    if isinstance(exposure, tuple):
        if len(exposure) != 2:
            raise InputError("exposure is a tuple of another length than 2; pass (regions, people), or people alone.")
        other = as_regions(exposure[0], "exposure", regions.dimension)
        (people,) = align_to_regions(other, exposure[1], argument="exposure")
        both, codes = cut_regions(stack(regions, other), cell, tail)
        bins, below = both.keep(np.arange(len(regions))), both.keep(np.arange(len(regions), both.n_bins))
        _check_covered(bins, below)
    else:
        people = exposure
        bins, codes = cut_regions(regions, cell, tail)
        below = bins
    numbers = per_region(people, "exposure", below.n_bins)
    check_size(numbers, "exposure")
    if below.n_bins < 2 or not numbers.any():
        raise InputError(
            "exposure has one bin only, or nobody in any; pass the people at risk of at least two regions."
        )
    _check_people(bins, y, below, numbers)
    return bins, below, numbers, codes


def _check_covered(bins: CountBins, below: CountBins) -> None:
    """Refuse events where nobody was counted."""
    lacking = (bins.C > 0) & ~(below.C > 0).any(axis=0)
    beyond = lacking.any(axis=1)
    if beyond.any():
        i = int(np.argmax(beyond))
        raise InputError(
            f"row {i} of regions ({_limits(bins, bins.C[i] > 0)}) reaches beyond the regions of exposure: nobody is counted "
            f"{_limits(bins, lacking[i])}. Pass the people at risk there too, or leave the row out."
        )


def _check_people(bins: CountBins, y: FloatArray, below: CountBins, people: FloatArray) -> None:
    """Refuse more events than people: those of a bin, or of the bins inside a region of the exposure."""
    inside = np.eye(len(y), dtype=bool) if below is bins else _inside(bins, below)
    once = below is bins or bins.disjoint  # overlapping bins may count an event twice
    events = inside @ y if once else np.where(inside, y, 0.0).max(axis=1)
    over = events > people
    if not over.any():
        return
    i = int(np.argmax(over))
    if people[i] == 0:
        raise InputError(
            f"exposure is 0 in row {i}, which counts {events[i]:g} event(s): nobody was there to have them. Correct the row, or drop it."
        )
    raise InputError(
        f"exposure is {people[i]:g} in row {i} ({_limits(below, below.C[i] > 0)}), which counts {events[i]:g} events, more than people. "
        f"{UNIT[0].upper()}{UNIT[1:]}; {REPAIR}, and check that y and exposure are not swapped."
    )


def _inside(bins: CountBins, below: CountBins) -> BoolArray:
    """Tell which bins lie in which regions of the exposure, (B', B)."""
    of, into = (bins.C > 0).astype(np.int64), (below.C > 0).astype(np.int64)
    return np.asarray(into @ of.T == of.sum(axis=1))


def exposure_warnings(people: FloatArray) -> tuple[str, ...]:
    """Warn of people who have fractions and are few, which may be thousands.

    Examples
    --------
    >>> exposure_warnings(np.array([21_400.5, 9_700.0])), len(exposure_warnings(np.array([21.4, 9.7])))
    ((), 1)
    """
    broken, least = people != np.round(people), float(people[people > 0].min())
    if not broken.any() or least >= FEW_PEOPLE:
        return ()
    i = int(np.argmax(broken))
    return (
        f"exposure has fractions ({people[i]:g} in row {i}) and is as small as {least:g}. {UNIT[0].upper()}{UNIT[1:]}: in thousands it "
        f"gives rates that are a thousand times too high, and bands that are too wide. If it is, {REPAIR}.",
    )


def spread_trials(bins: CountBins, trials: FloatArray) -> FloatArray:
    """Spread the trials of each bin evenly over it, (A,); cells of no bin have as many as others on average.

    Bins that hold others are taken as their rest, as counts are; a cell of bins that overlap has the mean of their densities.

    Examples
    --------
    >>> from crosslevel.binned.counts.cells import bins_from_edges
    >>> spread_trials(bins_from_edges([0, 10, 20], cell=5), np.array([60.0, 2.0]))
    array([30., 30.,  1.,  1.])
    """
    rows, people = bins, trials
    if not bins.disjoint:
        with suppress(InputError):  # shares of different people, whose numbers need not add up
            rows, people = difference_nested(bins, trials) or (bins, trials)
    spread = uniform_spread(rows.C, people)
    covered = (rows.C > 0).any(axis=0)
    density = spread[covered].sum() / bins.weight[covered].sum()
    return np.where(covered, spread, density * bins.weight)


def _limits(bins: CountBins, cells: BoolArray) -> str:
    low, high = bins.lower[cells].min(axis=0), bins.upper[cells].max(axis=0)
    return f"from {low[0]:g} to {high[0]:g}" if len(low) == 1 else f"from {low.tolist()} to {high.tolist()}"
