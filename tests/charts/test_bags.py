from __future__ import annotations

import numpy as np

from crosslevel.charts import bag_calibration, predicted_bags
from crosslevel.diagnostics import calibration_table
from crosslevel.results import Estimates, Provenance


def make(n=30, **more):
    rng = np.random.default_rng(0)
    truth, sd = rng.normal(size=n), rng.uniform(0.2, 1.0, n)
    mean = truth + sd * rng.normal(size=n)
    columns = {
        "bag": np.arange(n),
        "estimate": mean,
        "std_error": sd,
        "conf_low": mean - sd,
        "conf_high": mean + sd,
        "size": np.resize([5.0, 20.0, 1000.0], n),
        "truth": truth,
    }
    return Estimates.build(
        columns | more, keys=["bag"], method="m", level=0.68, interval="i", provenance=Provenance.of(call="c")
    )


def test_bags_lie_at_their_numbers():
    est = make()
    ax = predicted_bags(est)
    bars, dots = ax.collections[:2]
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack([est["truth"], est["estimate"]]))
    np.testing.assert_allclose(dots.get_array(), est["std_error"])
    ends = [[s[0][1], s[1][1]] for s in bars.get_segments()]
    np.testing.assert_allclose(ends, np.column_stack([est["conf_low"], est["conf_high"]]))
    areas = dots.get_sizes()
    assert areas[0] < areas[1] < areas[2]
    line = ax.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    held = 100 * np.mean(np.abs(est["truth"] - est["estimate"]) <= est["std_error"])
    assert ax.get_title(loc="left") == f"30 bags, 68 % intervals hold {held:.0f} %"
    assert [t.get_text() for t in ax.texts] == ["larger marks are larger bags, 5 to 1,000"]


def test_calibration_is_drawn_beside_the_level():
    rng = np.random.default_rng(0)
    scores = calibration_table(rng.normal(size=90), np.zeros(90), np.ones(90), np.repeat(["5", "20"], 45), level=0.8)
    ax = bag_calibration(scores)
    level, dots = ax.lines
    assert set(level.get_xdata()) == {0.8}
    np.testing.assert_array_equal(dots.get_xdata(), scores["estimate"])
    ends = [[s[0][0], s[1][0]] for s in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, np.column_stack([scores["conf_low"], scores["conf_high"]]))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["all (90)", "5 (45)", "20 (45)"]
    assert ax.get_xlabel() == "share of labels inside 80 % intervals"
    assert ax.get_legend() is None
    assert scores.plot("bag_calibration").get_title(loc="left") == "Coverage by size of bag"
    more = bag_calibration(scores.with_columns(baseline_coverage=[0.5, 0.4, 0.6]))
    np.testing.assert_array_equal(more.lines[2].get_xdata(), [0.5, 0.4, 0.6])
