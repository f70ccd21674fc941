from __future__ import annotations

import numpy as np

from crosslevel.charts import contextual_variance
from crosslevel.results import Estimates, Provenance

RHO = (0.0, 0.03, 0.1, 0.3)


def make(
    rows,
    keys=("rho", "sex"),
    title="Share with dem of each subgroup, everywhere, by how far composition acts on everybody (rho)",
):
    """Rows: (rho, key, estimate, neighborhood, changes)."""
    at, who, estimate, near, changes = (np.array(column) for column in zip(*rows, strict=True))
    return Estimates.build(
        {
            "rho": at.astype(float),
            "sex": who.tolist(),
            "estimate": estimate,
            "conf_low": estimate - 0.05,
            "conf_high": estimate + 0.07,
            "neighborhood": near,
            "changes_sign": changes,
        },
        keys=keys,
        method="distribution regression",
        level=0.9,
        interval="quantiles",
        provenance=Provenance.of(call="model.sensitivity()"),
        title=title,
    )


def women_and_men():
    # rows of one rho are not in one order, and rho is not sorted
    rows = [(r, "women", 0.55 - 0.2 * r, 0.52, True) for r in reversed(RHO)]
    rows += [(r, "men", 0.40 + 0.1 * r, 0.45, False) for r in RHO]
    return make(rows)


def lines(ax):
    return [x for x in ax.lines if len(x.get_xdata()) and x.get_linestyle() == "-"]


def at_rho(ax, x):
    """Read the axis backwards: ticks stand at the values of rho."""
    ticks = np.sqrt(ax.get_xticks())
    return [float(ax.get_xticklabels()[int(np.argmin(np.abs(ticks - np.sqrt(v))))].get_text()) for v in x]


def test_every_subgroup_has_its_line_in_order_of_rho():
    ax = contextual_variance(women_and_men())
    women, men = lines(ax)
    assert (women.get_label(), men.get_label()) == ("women (changes sign)", "men")
    np.testing.assert_allclose(women.get_ydata(), [0.55 - 0.2 * r for r in RHO])
    np.testing.assert_allclose(men.get_ydata(), [0.40 + 0.1 * r for r in RHO])
    for line in (women, men):
        assert (np.diff(line.get_xdata()) > 0).all()
        assert at_rho(ax, line.get_xdata()) == list(RHO)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.03", "0.1", "0.3"]


def test_bars_are_the_intervals_and_do_not_hide_one_another():
    ax = contextual_variance(women_and_men())
    bars = [c.get_segments() for c in ax.collections]
    assert [len(b) for b in bars] == [4, 4]
    for line, mine in zip(lines(ax), bars, strict=True):
        np.testing.assert_allclose([s[:, 0] for s in mine], np.column_stack([line.get_xdata()] * 2))
        np.testing.assert_allclose([s[0, 1] for s in mine], line.get_ydata() - 0.05)
        np.testing.assert_allclose([s[1, 1] for s in mine], line.get_ydata() + 0.07)
    places = np.concatenate([[s[0, 0] for s in mine] for mine in bars])
    assert len(np.unique(places.round(9))) == 8
    assert places.min() > ax.get_xlim()[0]
    assert places.max() < ax.get_xlim()[1]


def test_subgroups_that_change_sign_have_open_dots_and_a_remark():
    ax = contextual_variance(women_and_men())
    open_, closed = (
        [x for x in ax.lines if x.get_marker() == "o" and (x.get_markerfacecolor() == "none") is o]
        for o in (True, False)
    )
    assert [np.isfinite(x.get_ydata()).sum() for x in open_] == [4, 0]  # women change sign, men do not
    assert [np.isfinite(x.get_ydata()).sum() for x in closed] == [0, 4]
    assert any("below it for others" in t.get_text() for t in ax.texts)
    steady = contextual_variance(make([(r, "men", 0.4, 0.45, False) for r in RHO]))
    assert not steady.texts


def test_of_many_subgroups_those_that_change_sign_come_first():
    rows = [(r, f"kind {i}", 0.5, 0.4, i == 11) for i in range(12) for r in RHO]
    ax = contextual_variance(make(rows), max_lines=3)
    assert [x.get_label() for x in lines(ax)] == ["kind 11 (changes sign)", "kind 0", "kind 1"]
    assert any("3 of 12 subgroups" in t.get_text() for t in ax.texts)
