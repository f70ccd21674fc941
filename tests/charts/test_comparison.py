from __future__ import annotations

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.charts import methods
from crosslevel.charts.style import CYCLE


@pytest.fixture(scope="module")
def both():
    people, votes = {"x": [10, 40, 70, 90], "y": [90, 60, 30, 10]}, {"a": [25, 36, 48, 55], "b": [75, 64, 52, 45]}
    return ecological.compare(counted(people, votes), methods=["bounds", "neighborhood", "goodman"])


def test_each_method_is_drawn_at_its_numbers_in_front_of_the_bounds(both):
    ax = methods(both)
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["neighborhood", "goodman"]  # midpoints of bounds are no estimates
    for i, name in enumerate(lines):
        np.testing.assert_array_equal(lines[name].get_xdata(), both.select(method=name)["estimate"])
        assert lines[name].get_color() == CYCLE[i]
    y = lines["goodman"].get_ydata()
    np.testing.assert_allclose(y - lines["neighborhood"].get_ydata(), 1.0)
    goodman = both.select(method="goodman")
    ends = [[tuple(p) for p in s] for s in ax.collections[0].get_segments()]
    for k in range(4):
        assert ends[k] == [(goodman["conf_low"][k], y[k]), (goodman["conf_high"][k], y[k])]
    bars = ax.patches
    assert len(bars) == 4
    for k, bar in enumerate(bars):
        assert bar.get_x() == pytest.approx(goodman["lower"][k])
        assert bar.get_x() + bar.get_width() == pytest.approx(goodman["upper"][k])
        assert bar.get_y() < y[k] - 1 < y[k] < bar.get_y() + bar.get_height()
        assert bar.get_zorder() < lines["goodman"].get_zorder()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x · a", "x · b", "y · a", "y · b"]
    words = [t.get_text() for t in ax.get_legend().get_texts()]
    assert words == ["possible at all (bounds)", "neighborhood", "goodman"]
    assert "95 % interval" in ax.get_xlabel()
    assert ax.yaxis_inverted()


def test_truth_is_a_line_through_the_methods(both):
    ax = methods(both.with_columns(truth=np.repeat([0.6, 0.4, 0.2, 0.8], 3)))
    drawn = next(c for c in ax.collections if c.get_label() == "truth")
    assert [s[0][0] for s in drawn.get_segments()] == [0.6, 0.4, 0.2, 0.8]


def test_a_regression_outside_zero_to_one_gets_arrows_at_the_ends_of_the_axis():
    people = {"x": [95, 80, 60, 30, 10, 50], "y": [5, 20, 40, 70, 90, 50]}
    votes = {"a": [92, 83, 52, 22, 1, 40], "b": [8, 17, 48, 78, 99, 60]}
    found = ecological.goodman(counted(people, votes))
    outside = found["estimate"][(found["estimate"] < 0) | (found["estimate"] > 1)]
    assert len(outside) == 2
    for ax in (methods(ecological.compare(counted(people, votes), methods=["bounds", "goodman"])), found.plot()):
        assert ax.get_xlim() == (0.0, 1.0)
        at = {marker: [] for marker in "<>"}
        for line in ax.lines:
            if line.get_marker() in at:
                at[line.get_marker()] += np.asarray(line.get_xdata())[np.isfinite(line.get_xdata())].tolist()
            else:
                drawn = np.asarray(line.get_xdata(), dtype=float)
                assert not ((drawn < 0) | (drawn > 1)).any()
        assert at == {"<": [0.0], ">": [1.0]}
        below = [t.get_text() for t in ax.texts]
        assert any("arrows are estimates outside 0 to 1; intervals are cut at 0 and 1" in t for t in below)
        ends = np.concatenate([np.asarray(s)[:, 0] for c in ax.collections for s in c.get_segments()])
        assert ends.min() >= 0
        assert ends.max() <= 1
