from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import BinnedCountGP, BinnedGP, Boxes, Intervals
from crosslevel.charts import histogram
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance


def make(columns, keys, **more):
    numbers = {n: columns["estimate"] + d for n, d in (("conf_low", -1.0), ("conf_high", 2.0))}
    return Estimates.build(
        columns | numbers, keys=keys, method="m", level=0.9, interval="i", provenance=Provenance.of(call="c"), **more
    )


def test_points_are_a_line_with_its_band_and_bars_have_the_bins_area():
    x = np.array([20.0, 0, 10])
    est = make({"point": x, "estimate": np.array([5.0, 3, 4]), "truth": [1.0, 2, 3]}, ["point"], title="Ages in $")
    ax = histogram(est, observed=([0, 10], [10, 30], [40, 120]), xlabel="age")
    line, truth = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 10, 20])
    np.testing.assert_array_equal(line.get_ydata(), [3, 4, 5])
    np.testing.assert_array_equal(truth.get_ydata(), [2, 3, 1])
    assert [(b.get_x(), b.get_width(), b.get_height()) for b in ax.patches] == [(0, 10, 4), (10, 20, 6)]
    band = ax.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (2, 7)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["observed", "90 % interval", "estimate", "truth"]
    assert ax.get_title(loc="left") == r"Ages in \$"


def test_intervals_are_steps_of_densities_that_a_gap_breaks():
    est = make({"lower": [10, 0, 30], "upper": [20, 10, 40], "estimate": np.array([20.0, 10, 50])}, ["lower", "upper"])
    (line,) = histogram(est).lines
    np.testing.assert_array_equal(line.get_xdata()[:4], [0, 10, 10, 20])
    np.testing.assert_allclose(line.get_ydata(), [1, 1, 2, 2, np.nan, 5, 5, np.nan])
    (line,) = histogram(est, totals=False, legend=False).lines
    np.testing.assert_allclose(line.get_ydata(), [10, 10, 20, 20, np.nan, 50, 50, np.nan])


def test_a_fitted_model_draws_itself():
    gp = BinnedCountGP().fit(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30])
    ax = gp.plot()
    assert [b.get_height() for b in ax.patches] == [9, 6, 3]
    x, y = ax.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(180, rel=0.02)
    means = BinnedGP(lengthscale=10.0).fit(Intervals.from_edges([0, 10, 20, 30]), [9, 6, 3], quantity="mean")
    assert [b.get_height() for b in means.plot().patches] == [9, 6, 3]
    pooled = BinnedCountGP().fit(Intervals([0, 10, 0, 10], [10, 20, 10, 20]), [9, 5, 2, 8], pool=["a", "a", "b", "b"])
    assert [b.get_height() for b in pooled.plot(pool="b").patches] == [0.2, 0.8]
    with pytest.raises(InputError):
        pooled.plot()
    with pytest.raises(InputError):
        histogram(pooled.estimate([3.0]))
    boxes = BinnedGP(variance=1.0, lengthscale=1.0, noise=1.0).fit(Boxes([[0, 0]], [[1, 1]]), [3], quantity="total")
    with pytest.raises(InputError):
        boxes.plot()
    shares = BinnedCountGP("binomial").fit(Intervals.from_edges([0, 10, 20, 30]), [9, 6, 3], trials=[20, 20, 20])
    with pytest.raises(InputError):
        shares.plot()
