from __future__ import annotations

import numpy as np
import pytest

from crosslevel.charts.intervals import rows_chart
from crosslevel.results import Estimates, Provenance


def make(columns, keys=("place",), level=0.9, interval="wald", **options):
    return Estimates.build(
        columns, keys=keys, method="m", level=level, interval=interval, provenance=Provenance.of(call="c"), **options
    )


@pytest.fixture
def est():
    return make(
        {
            "place": ["a", "b", "c"],
            "estimate": [0.2, 0.5, np.nan],
            "conf_low": [0.1, 0.3, np.nan],
            "conf_high": [0.4, 0.9, np.nan],
            "lower": [0.0, 0.2, 0.1],
            "upper": [0.5, 1.0, np.nan],
            "truth": [0.25, 0.6, 0.7],
            "goodman": [-0.1, 0.4, 0.5],
        },
        title="Share",
    )


def line(ax, label):
    return next(x for x in ax.lines if x.get_label() == label)


def test_every_number_is_drawn_in_its_row(est):
    ax = est.plot()
    y = ax.get_yticks()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    np.testing.assert_array_equal(line(ax, "estimate").get_xdata(), est["estimate"])
    np.testing.assert_array_equal(line(ax, "estimate").get_ydata(), y)
    np.testing.assert_array_equal(line(ax, "truth").get_xdata(), est["truth"])
    np.testing.assert_array_equal(line(ax, "Goodman regression").get_xdata(), [np.nan, 0.4, 0.5])
    left = [
        found.get_xdata() for found in ax.lines if found.get_marker() == "<"
    ]  # what lies below zero is an arrow at the end
    np.testing.assert_array_equal(left, [[0.0, np.nan, np.nan]])
    assert ax.get_xlim() == (0.0, 1.0)
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose(segments, [[[0.1, y[0]], [0.4, y[0]]], [[0.3, y[1]], [0.9, y[1]]]])
    bars = [(p.get_x(), p.get_x() + p.get_width(), p.get_y() + p.get_height() / 2) for p in ax.patches]
    np.testing.assert_allclose(bars, [(0.0, 0.5, y[0]), (0.2, 1.0, y[1])])
    assert y[0] > ax.get_ylim()[1]
    assert ax.yaxis_inverted()


def test_bounds_by_either_name_are_drawn(est):
    table = {n: est.table[n] for n in est.table.column_names if n not in ("lower", "upper")}
    named = make({**table, "bound_low": est["lower"], "bound_high": est["upper"]}, title="Share")

    def bars(drawn):
        return [(p.get_x(), p.get_width(), p.get_y(), p.get_height()) for p in drawn.plot().patches]

    assert bars(named) == bars(est)
    assert len(bars(named)) == 2
    assert not named.plot(bounds=False).patches
    one_sided = make({**table, "bound_low": est["lower"]})
    assert not one_sided.plot().patches


def test_the_first_key_makes_groups():
    columns = {"variable": ["x", "y", "x", "y"], "at": [1, 1, 2, 2], "estimate": [1.0, 2.0, 3.0, 4.0]}
    ax = make(columns, keys=["variable", "at"]).plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1", "2", "1", "2"]
    assert [t.get_text() for t in ax.texts] == ["x", "y"]
    assert line(ax, "estimate").get_xdata().tolist() == [1, 3, 2, 4]
    steps = np.diff(ax.get_yticks())
    assert steps[1] > steps[0] == steps[2] == 1
    heads = [t.xy[1] for t in ax.texts]
    assert heads[0] < ax.get_yticks()[0] < ax.get_yticks()[1] < heads[1] < ax.get_yticks()[2]


def test_sorting_stays_inside_groups():
    columns = {"g": ["x", "x", "y", "y"], "o": [1, 2, 1, 2], "estimate": [1.0, 2.0, 9.0, np.nan]}
    ax = make(columns, keys=["g", "o"]).plot(sort=True)
    np.testing.assert_array_equal(line(ax, "estimate").get_xdata(), [2, 1, 9, np.nan])


def test_many_rows_grow_the_figure_then_stop_with_a_note():
    def height(n, **options):
        ax = make({"place": np.arange(n), "estimate": np.arange(n)}).plot(**options)
        return ax.figure.get_size_inches()[1], ax

    assert height(40)[0] > 2 * height(10)[0] > 4
    tall, ax = height(500, max_rows=25)
    assert tall == height(25)[0]
    assert len(ax.get_yticks()) == 25
    assert [t.get_text() for t in ax.texts] == ["the first 25 of 500 rows"]


def outside(low, high, estimate=(0.2, 0.9), **columns):
    given = {"g": ["a", "b"], "estimate": list(estimate), "conf_low": low, "conf_high": high, **columns}
    told = {"keys": ["g"], "method": "m", "level": 0.9, "interval": "wald", "provenance": Provenance.of(call="c")}
    return Estimates.build(given, **told)


def test_intervals_are_cut_only_where_bounds_say_that_these_are_shares():
    bounds = {"lower": [0.0, 0.1], "upper": [0.8, 1.0]}
    free = rows_chart(outside([-0.3, 0.5], [0.4, 1.4]))
    assert [m.x for m in free.panels[0].marks if m.form == "interval"] == ["conf_low"]
    assert "cut" not in free.caption
    cut = rows_chart(outside([-0.3, 0.5], [0.4, 1.4], **bounds))
    assert [m.x for m in cut.panels[0].marks if m.form in ("interval", "dot")] == ["shown_low", "shown"]
    assert "intervals are cut at 0 and 1" in cut.caption
    assert "arrows" not in cut.caption
    whole = rows_chart(outside([0.0, 0.5], [0.4, 1.0], **bounds))
    assert "cut" not in whole.caption
    above = rows_chart(outside([-0.3, 0.5], [0.4, 1.4], (0.2, 1.2), **bounds))
    assert [m.x for m in above.panels[0].marks if m.form == "dot"] == ["shown", "above"]
    assert "arrows are estimates outside 0 to 1" in above.caption
