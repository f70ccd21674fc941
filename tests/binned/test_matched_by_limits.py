"""What is indexed by the bins themselves is put in their order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.binned import BinnedGP, Boxes, Intervals
from crosslevel.binned.regions.matching import align_to_regions
from crosslevel.errors import InputError

LOWER, UPPER = np.array([0.0, 20, 40, 60]), np.array([20.0, 40, 60, 90])
COUNTS = np.array([1790.0, 2400, 1500, 658])
ORDER = [2, 0, 3, 1]


def names():
    cut = pd.IntervalIndex.from_arrays(LOWER, UPPER, closed="left")
    moved = pd.IntervalIndex.from_arrays(LOWER - [0.001, 0, 0, 0], UPPER)  # as pandas.cut(include_lowest=True) has it
    text = ["0-19", "20-39", "40-59", "60+"]
    return {"cut": cut, "moved": moved, "lower": LOWER, "upper": UPPER, "text": text, "brackets": [str(i) for i in cut]}


CASES = [(kind, ages) for kind in names() for ages in (False, True) if not (ages and kind in ("text", "brackets"))]
"""Text is matched with the names of age groups, and is no limit there."""


@pytest.mark.parametrize(("kind", "ages"), CASES)
def test_counts_are_matched_by_the_limits_in_their_index(kind, ages):
    bins = Intervals.ages(["0-19", "20-39", "40-59", "60-89"]) if ages else Intervals(LOWER, UPPER)
    people = 10 * COUNTS
    mixed = pd.Series(COUNTS, index=names()[kind]).iloc[ORDER]
    exposed = pd.Series(people, index=names()[kind]).iloc[ORDER[::-1]]
    for y, trials in ((mixed, people), (mixed, exposed), (COUNTS, exposed)):
        assert ordered(bins, y, trials=trials) == [COUNTS.tolist(), people.tolist()]


def test_means_are_matched_by_the_limits_in_their_index():
    bins, y = Intervals(LOWER, UPPER), pd.Series(COUNTS, index=LOWER)
    found = BinnedGP().fit(bins, y.iloc[ORDER], quantity="total").predict(bins)
    np.testing.assert_allclose(found, BinnedGP().fit(bins, COUNTS, quantity="total").predict(bins))


def ordered(bins, y, **others):
    return [np.asarray(values).tolist() for values in align_to_regions(bins, y, **others)]


def test_numbers_of_rows_are_not_taken_for_limits():
    ages = pd.DataFrame({"age": [3, 1, 0, 2], "n": [30, 10, 0, 20]})
    by_age = ages.sort_values("age")
    assert ordered(Intervals(by_age.age, by_age.age + 1), by_age.n) == [[0, 10, 20, 30]]
    with pytest.raises(InputError):  # ages, or the rows of the frame before
        ordered(Intervals.single_years(0, 4), by_age.n)
    with pytest.raises(InputError):
        ordered(Intervals([3, 1, 0, 2], [4, 2, 1, 3]), ages.n.set_axis([1, 2, 3, 4]))
    told = pd.Series([20, 10, 30, 0], index=pd.Index([2, 1, 3, 0], name="age"))
    assert ordered(Intervals.single_years(0, 4), told) == [[0, 10, 20, 30]]
    assert ordered(Intervals.single_years(0, 4), pd.Series([1, 2, 3, 4]), trials=told.rename_axis(None))[1] == [
        0,
        10,
        20,
        30,
    ]


def test_intervals_that_nest_or_repeat_are_matched_by_both_ends():
    limits = pd.IntervalIndex.from_arrays([0, 0, 20], [40, 20, 40], closed="left")
    y = pd.Series([90, 30, 60], index=limits)
    assert ordered(Intervals([0, 0, 20], [40, 20, 40]), y.iloc[[2, 0, 1]]) == [[90, 30, 60]]
    areas = Intervals([0, 20, 0, 20], [20, 40, 20, 40])
    twice = pd.Series([1, 2, 3, 4], index=limits[[1, 2, 1, 2]])
    assert ordered(areas, twice) == [[1, 2, 3, 4]]
    for index in (limits[[1, 1, 2, 2]], [0.0, 0.0, 20.0, 20.0]):
        with pytest.raises(InputError):
            ordered(areas, pd.Series([1, 3, 2, 4], index=index))


def test_rounded_and_closed_limits_are_those_of_the_regions():
    x = np.random.default_rng(0).gamma(2.0, 10.123, 500)
    cut, edges = pd.cut(x, 4, retbins=True)
    counts = np.histogram(x, edges)[0].tolist()
    assert ordered(Intervals.from_edges(edges), pd.Series(cut).value_counts().sort_values()) == [counts]
    ages = pd.Series([3, 1, 2], index=pd.IntervalIndex.from_breaks([-1, 4, 9, 14])[[2, 0, 1]])
    assert ordered(Intervals.from_edges([0, 5, 10, 15]), ages) == [[1, 2, 3]]
    text = pd.Series([3, 1], index=["(20.0, 40.0]", "(-0.001, 20.0]"])
    assert ordered(Intervals.from_edges([0, 20, 40]), text) == [[1, 3]]
    open_ended = text.set_axis(["(20.0, inf]", "(-inf, 20.0]"])
    assert ordered(Intervals([0, 20], [20, None], open_ended=True), open_ended) == [[1, 3]]


def test_the_index_of_limits_and_points_names_them():
    lower, upper = (pd.Series(v, index=list("abcd")) for v in (LOWER, UPPER))
    y = pd.Series(COUNTS, index=list("abcd")).iloc[ORDER]
    bins = Intervals(lower, upper.iloc[ORDER])
    assert bins.upper.tolist() == UPPER.tolist()
    assert ordered(bins, y) == [COUNTS.tolist()]
    gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0)
    found = [gp.fit(lower, values, "mean").predict([10.0, 50.0]) for values in (COUNTS, y)]
    np.testing.assert_allclose(*found)


def test_the_index_of_a_frame_names_boxes():
    lower = pd.DataFrame({"a": [0.0, 1, 2], "b": [0.0, 1, 2]}, index=list("xyz"))
    y = pd.Series([1.0, 2.0, 5.0], index=list("xyz"))
    fixed = BinnedGP(kernel="eq", variance=4.0, lengthscale=1.0, noise=0.01, mean=0.0)
    boxes = Boxes(lower, (lower + 1)[::-1])
    whole = fixed.fit(boxes, y, "mean").predict(boxes, quantity="mean")
    np.testing.assert_array_equal(fixed.fit(boxes, y[::-1], "mean").predict(boxes, quantity="mean"), whole)
    np.testing.assert_allclose(fixed.fit(boxes[[2, 0, 1]], y, "mean").predict(boxes, quantity="mean"), whole)


def test_limits_may_be_written_with_thousands():
    incomes, y = Intervals([0.0, 1000.0, 2000.0], [1000.0, 2000.0, 3000.0]), np.array([5.0, 7.0, 9.0])
    named = pd.Series(y, index=["0-999", "1,000-1,999", "2,000-2,999"])
    np.testing.assert_array_equal(align_to_regions(incomes, named[::-1])[0], y)
    brackets = pd.Series(y, index=["[0,1000)", "[1000,2000)", "[2000,3000)"])
    np.testing.assert_array_equal(align_to_regions(incomes, brackets[::-1])[0], y)
