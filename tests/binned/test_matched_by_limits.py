"""What is indexed by the bins themselves is put in their order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.binned import BinnedCountGP, BinnedGP, Intervals
from crosslevel.errors import InputError

LOWER, UPPER = np.array([0.0, 20, 40, 60]), np.array([20.0, 40, 60, 90])
COUNTS = np.array([1790.0, 2400, 1500, 658])
ORDER = [2, 0, 3, 1]


def names():
    cut = pd.IntervalIndex.from_arrays(LOWER, UPPER, closed="left")
    moved = pd.IntervalIndex.from_arrays(LOWER - [0.001, 0, 0, 0], UPPER)  # as pandas.cut(include_lowest=True) has it
    text = ["0-19", "20-39", "40-59", "60+"]
    return {"cut": cut, "moved": moved, "lower": LOWER, "upper": UPPER, "text": text, "brackets": [str(i) for i in cut]}


@pytest.mark.parametrize("kind", names())
@pytest.mark.parametrize("ages", [False, True])
def test_counts_are_matched_by_the_limits_in_their_index(kind, ages):
    bins = Intervals.ages(["0-19", "20-39", "40-59", "60-89"]) if ages else Intervals(LOWER, UPPER)
    if ages and kind in ("text", "brackets"):
        pytest.skip("text is matched with the names of the age groups")
    people = 10 * COUNTS
    mixed = pd.Series(COUNTS, index=names()[kind]).iloc[ORDER]
    whole = BinnedCountGP(random_state=0).fit(bins, COUNTS, exposure=people).predict(bins)
    exposed = pd.Series(people, index=names()[kind]).iloc[ORDER[::-1]]
    for y, exposure in ((mixed, people), (mixed, exposed), (COUNTS, exposed)):
        found = BinnedCountGP(random_state=0).fit(bins, y, exposure=exposure).predict(bins)
        np.testing.assert_allclose(found, whole)


def test_means_are_matched_by_the_limits_in_their_index():
    bins, y = Intervals(LOWER, UPPER), pd.Series(COUNTS, index=LOWER)
    found = BinnedGP(random_state=0).fit(bins, y.iloc[ORDER], quantity="total").predict(bins)
    np.testing.assert_allclose(found, BinnedGP(random_state=0).fit(bins, COUNTS, quantity="total").predict(bins))


def test_other_intervals_are_refused():
    other = pd.IntervalIndex.from_arrays(LOWER + 5, UPPER + 5)
    with pytest.raises(InputError, match="not those of the regions"):
        BinnedCountGP().fit(Intervals(LOWER, UPPER), pd.Series(COUNTS, index=other))
