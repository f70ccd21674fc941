"""Masked entries are missing, everywhere: the value behind a mask is never read."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.binned import Intervals
from crosslevel.data import checks
from crosslevel.distribution import MeanShrinkage, MeanShrinkageClassifier
from crosslevel.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
BAGS = [RNG.normal(i, 1, (10, 2)) for i in range(12)]
BINS = Intervals.from_edges([0, 10, 20, 30, 40])


def hidden(values, *where):
    """Mask one entry, with nonsense behind the mask."""
    out = np.ma.array(values, copy=True)
    out.data[where] = 1e6
    out[where] = np.ma.masked
    return out


def test_masked_entries_are_missing():
    assert np.isnan(checks.as_numbers(hidden(X, 3, 0), "x")[3, 0])
    assert np.isnan(checks.as_numbers([hidden(X[:2], 0, 1), X[:2]], "x")[0, 0, 1])
    assert np.isnan(checks.as_numbers(hidden([1, 2, 3], 1), "x")[1])
    assert checks.as_numbers(np.ma.array([1, 2]), "x").tolist() == [1.0, 2.0]
    assert checks.unmasked(np.ma.array(["a", "b"], mask=[True, False])).tolist() == [None, "b"]
    for check in (checks.check_finite, checks.check_weights, checks.check_counts):
        with pytest.raises(InputError):
            check(hidden([1.0, 2.0, 3.0], 1), "x")


@pytest.mark.parametrize(
    "fit",
    [
        lambda: cl.KRLS().fit(hidden(X, 3, 0), Y),
        lambda: cl.KRLS().fit(X, hidden(Y, 3)),
        lambda: cl.KRLS().fit(X, Y, sample_weight=hidden(np.ones(40), 3)),
        lambda: cl.KRLS().fit(X, Y).predict(hidden(X, 3, 0)),
        lambda: cl.KRLS().fit({"a": hidden(X[:, 0], 3), "b": X[:, 1]}, Y),
        lambda: MeanShrinkage().fit([hidden(BAGS[0], 3, 0), *BAGS[1:]], np.arange(12.0)),
        lambda: MeanShrinkage().fit(BAGS, hidden(np.arange(12.0), 3)),
        lambda: MeanShrinkageClassifier().fit(BAGS, np.ma.array(["a", "b"] * 6, mask=np.arange(12) == 3)),
        lambda: cl.BinnedGP().fit(BINS, hidden([1.0, 2.0, 4.0, 3.0], 2), quantity="total"),
        lambda: cl.BinnedCountGP().fit(BINS, hidden([1.0, 2.0, 4.0, 3.0], 2)),
        lambda: Intervals(hidden([0.0, 10.0], 1), [10, 20]),
        lambda: Intervals.from_edges(hidden([0.0, 10.0, 20.0], 1)),
    ],
)
def test_masked_entries_are_refused(fit):
    with pytest.raises(ValueError):
        fit()


def test_masked_rows_are_left_out_where_missing_rows_are():
    rows = np.arange(40) != 3
    plain = cl.KRLS().fit(X[rows], Y[rows])
    masked = cl.KRLS(missing="drop").fit(hidden(X, 3, 0), Y)
    assert np.allclose(masked.predict(X), plain.predict(X), rtol=1e-12)
