"""What is told of regions is put in their order by names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.binned import Intervals, Polygons
from crosslevel.binned.regions.matching import align_to_regions
from crosslevel.errors import InputError

GROUPS = ["0-17", "18-24", "25-44"]
SQUARES = [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(3)]


def aligned(regions, *values, **others):
    return [np.asarray(v).tolist() for v in align_to_regions(regions, *values, **others)]


def test_age_groups():
    ages, back = Intervals.ages(GROUPS), GROUPS[::-1]
    assert aligned(ages, pd.Series([3, 2, 1], index=back), trials=pd.Series([7, 8, 9], index=GROUPS)) == [
        [1, 2, 3],
        [7, 8, 9],
    ]
    assert aligned(ages, pd.Series([1, 2, 3]), trials=pd.Series([9, 8, 7], index=back)) == [[1, 2, 3], [7, 8, 9]]
    rows = pd.Series([7, 8, 9], index=[5, 6, 7])  # of the frame the groups came from
    assert aligned(ages, pd.Series([1, 2, 3], index=[5, 6, 7]), trials=rows.iloc[::-1]) == [[1, 2, 3], [7, 8, 9]]
    assert aligned(Intervals.ages([30, 31]), pd.Series([2, 1], index=[31, 30])) == [[1, 2]]
    assert aligned(ages[[2, 0]], pd.Series([1, 3], index=["0-17", "25-44"])) == [[3, 1]]
    assert aligned(Intervals.ages(GROUPS * 2), pd.Series(range(6), index=GROUPS * 2)) == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(InputError):
        aligned(ages, pd.Series([1, 2, 3], index=list("xyz")))


def test_polygons_named_by_numbers():
    polygons = Polygons(SQUARES, names=[2, 1, 0])
    with pytest.raises(InputError):  # a column beside the polygons, or names: nobody can tell
        aligned(polygons, pd.Series([1, 2, 3]))
    assert aligned(polygons, pd.Series([1, 2, 3], index=pd.Index([0, 1, 2], name="id"))) == [[3, 2, 1]]
    assert aligned(polygons, pd.Series([1, 2, 3], index=[2, 1, 0])) == [[1, 2, 3]]
    assert aligned(polygons, np.array([1, 2, 3])) == [[1, 2, 3]]
    assert aligned(Polygons(SQUARES, names=list("abc")), pd.Series([1, 2, 3])) == [[1, 2, 3]]
