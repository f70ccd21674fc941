"""Do the pictures of 2 x 2 tables show the lines, points, contours and bands that the numbers say?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.path import Path
from tests.ecological.margins import counted

from crosslevel.charts.tomography import _points, tomography, xt
from crosslevel.ecological.tables.baselines import neighborhood
from crosslevel.ecological.tables.king.estimator import king
from crosslevel.errors import InputError

RNG = np.random.default_rng(0)
SHARES = np.clip(RNG.normal([0.6, 0.3], [0.15, 0.1], (25, 2)), 0.02, 0.98)
YOUNG = np.round(1000 * RNG.uniform(0.1, 0.9, 25))
X = np.column_stack([YOUNG, 1000 - YOUNG])
YES = (X * SHARES).sum(axis=1)
T = np.column_stack([YES, 1000 - YES])
GROUPS, OUTCOMES = pd.DataFrame(X, columns=["young", "old"]), pd.DataFrame(T, columns=["yes", "no"])


@pytest.fixture(scope="module")
def fitted():
    return king(counted(GROUPS, OUTCOMES, units=[f"u{i}" for i in range(25)]), n_draws=200)


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def test_every_line_holds_its_totals_and_ends_at_the_square():
    x, t = np.array([0.0, 1.0, 0.2, 0.5, 0.9]), np.array([0.3, 0.7, 0.9, 0.5, 0.05])
    ax = tomography(np.column_stack([x, 1 - x]) * 100, np.column_stack([t, 1 - t]) * 100)
    ends = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(
        ends[:, :, 0] * x[:, None] + ends[:, :, 1] * (1 - x[:, None]), np.repeat(t[:, None], 2, axis=1)
    )
    assert ((ends >= 0) & (ends <= 1)).all()
    on_edge = (np.isclose(ends, 0) | np.isclose(ends, 1)).any(axis=2)
    assert on_edge.all()
    assert (np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1) > 0.05).all()


def test_estimates_lie_on_their_lines_and_bring_contours(fitted):
    ax = tomography(GROUPS, OUTCOMES, estimates=fitted, truth=SHARES)
    assert labels(ax) == ["what totals allow", "50 % of the fit", "95 % of the fit", "truth", "estimate"]
    points = next(x for x in ax.lines if x.get_label() == "estimate").get_xydata()
    np.testing.assert_allclose(
        np.asarray(points) @ [1, 0] * X[:, 0] + np.asarray(points) @ [0, 1] * X[:, 1], YES, rtol=1e-9
    )
    assert ax.get_xlabel() == "share of young: yes"
    assert ax.get_ylabel() == "share of old: yes"
    inner, outer = (np.ptp(line.get_xdata()) for line in ax.lines[:2])
    assert outer > inner > 0


def test_contours_hold_their_share_of_the_cut_distribution(fitted):
    """Counted by rejection: draw the uncut normal, keep what falls in the square, count what the drawn ellipse holds."""
    mean, sd, rho = np.array([0.95, 0.4]), np.array([0.3, 0.2]), 0.6
    said = {**fitted.diagnostics, "mean": mean.tolist(), "sd": sd.tolist(), "rho": rho}
    ax = tomography(type(fitted)(**{**fitted.__dict__, "diagnostics": said}))
    cov = np.array([[sd[0] ** 2, rho * sd.prod()], [rho * sd.prod(), sd[1] ** 2]])
    drawn = np.random.default_rng(0).multivariate_normal(mean, cov, 100_000)
    kept = drawn[((drawn > 0) & (drawn < 1)).all(axis=1)]
    for level, line in zip((0.5, 0.95), ax.lines[:2], strict=True):
        assert Path(line.get_xydata()).contains_points(kept).mean() == pytest.approx(level, abs=0.01)
    points, weight = _points(mean, sd, rho)
    np.testing.assert_allclose(weight @ points, kept.mean(axis=0), atol=4e-3)


def test_estimates_alone_and_checked_tables_draw_the_same_lines(fitted):
    from_counts = np.array(tomography(GROUPS, OUTCOMES).collections[0].get_segments())
    for given in (fitted, counted(GROUPS, OUTCOMES)):
        np.testing.assert_allclose(np.array(tomography(given).collections[0].get_segments()), from_counts, atol=1e-9)


def test_named_units_stand_out_and_other_methods_give_points_without_contours(fitted):
    ax = tomography(fitted, units=["u3", "u7"])
    lines = [c for c in ax.collections if isinstance(c, LineCollection)]
    np.testing.assert_allclose(np.array(lines[1].get_segments()), np.array(lines[0].get_segments())[[3, 7]])
    ax = tomography(GROUPS, OUTCOMES, estimates=neighborhood(counted(GROUPS, OUTCOMES)), legend=False)
    assert labels(ax) == ["what totals allow", "estimate"]
    assert ax.get_legend() is None


def test_truth_comes_from_the_column(fitted):
    answer = fitted.units.to_frame("pandas")[["unit", "group", "outcome"]]
    answer["truth"] = np.stack([SHARES, 1 - SHARES], axis=2).ravel()
    with_truth = type(fitted)(**{**fitted.__dict__, "units": fitted.units.with_truth(answer)})
    marks = next(x for x in tomography(with_truth, truth=True).lines if x.get_label() == "truth")
    np.testing.assert_allclose(marks.get_xydata(), SHARES)
    with pytest.raises(InputError):
        tomography(fitted, truth=True)


def test_xt_shows_goodmans_line_the_fan_and_what_king_expects(fitted):
    ax = xt(GROUPS, OUTCOMES, estimates=fitted)
    assert labels(ax) == [
        "bounds of the district",
        "80 % of T given X (king)",
        "mean of T given X (king)",
        "unit, by its people",
        "Goodman, by people",
    ]
    x, t = X[:, 0] / 1000, YES / 1000
    goodman = next(line for line in ax.lines if line.get_label().startswith("Goodman"))
    slope, start = np.polyfit(x, t, 1)
    np.testing.assert_allclose(goodman.get_ydata(), [start, start + slope], rtol=1e-9)
    mean = next(line for line in ax.lines if line.get_label().startswith("mean"))
    np.testing.assert_allclose(np.diff(mean.get_ydata(), 2), 0, atol=1e-9)  # a straight line between the two means
    assert mean.get_ydata()[0] == pytest.approx(fitted.diagnostics["mean"][1], abs=0.02)
    band = ax.collections[1].get_paths()[0].vertices
    inside = [band[np.isclose(band[:, 0], g, atol=0.013), 1] for g in x]
    share = np.mean([low.min() <= v <= low.max() for low, v in zip(inside, t, strict=True)])
    assert 0.6 <= share <= 1.0


def test_the_fan_ends_at_the_districts_bounds():
    ax = xt(GROUPS, OUTCOMES)
    edge = ax.collections[0].get_paths()[0].vertices
    low, high = (
        np.maximum(0, X[:, 0] + YES - 1000).sum() / X[:, 0].sum(),
        np.minimum(X[:, 0], YES).sum() / X[:, 0].sum(),
    )
    at_one = edge[np.isclose(edge[:, 0], 1), 1]
    np.testing.assert_allclose([at_one.min(), at_one.max()], [low, high], rtol=1e-9)
