"""The weighted median of distances, by hand."""

import numpy as np
import pytest

from crosslevel.numerics.features.make import _weighted_median


@pytest.mark.parametrize(
    ("values", "weights", "median"),
    [
        ([3.0, 1.0], [1.0, 1.0], 2.0),
        ([5.0, 1.0, 2.0], [1.0, 1.0, 1.0], 2.0),
        ([4.0, 1.0], [3.0, 1.0], 4.0),
        ([7.0], [2.0], 7.0),
    ],
)
def test_half_of_the_weight_lies_on_either_side(values, weights, median):
    assert _weighted_median(np.array(values), np.array(weights)) == median
