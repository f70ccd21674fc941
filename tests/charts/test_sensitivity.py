from __future__ import annotations

import numpy as np
import pytest

from crosslevel.charts import contour, slope_curve
from crosslevel.results import Estimates, Provenance

BENCH = {
    "covariate": ["size", "size", "county", "county"],
    "group": ["a", "b", "a", "b"],
    "outcome": ["yes"] * 4,
    "r2_outcome": [0.1, 0.2, 0.5, 0.6],
    "r2_composition": [0.05, 0.06, 0.3, 0.4],
    "change": [0.01] * 4,
}
CURVE = {"points_per_10_points": [-2, 0, 2], "estimate": [[0.7, 0.6, 0.45], [0.5, 0.4, 0.3]]}


def make(bench=BENCH, curve=CURVE, scale=0.2, lower=0.0, **columns):
    move = 0.05
    f2 = (move / scale) ** 2
    return Estimates.build(
        {
            "group": ["a", "b"],
            "outcome": ["yes", "yes"],
            "estimate": [0.6, 0.4],
            "conf_low": [0.55, 0.35],
            "conf_high": [0.65, 0.45],
            "lower": [lower, 0.1],
            "upper": [1.0, 0.9],
            "sens_low": [0.5, 0.3],
            "sens_high": [0.7, 0.5],
            "robustness_value": [(np.sqrt(f2**2 + 4 * f2) - f2) / 2] * 2,
            "bias_scale": [scale, scale],
            **columns,
        },
        keys=["group", "outcome"],
        method="sensitivity",
        level=0.95,
        interval="t",
        provenance=Provenance.of(call="sensitivity(result)"),
        diagnostics={
            "points_per_10_points_of_share": 2.0,
            **({"bench": bench} if bench else {}),
            **({"curve": curve} if curve else {}),
        },
    )


def line(ax, start):
    return next(x for x in ax.lines if x.get_label().startswith(start))


def test_the_thick_line_is_where_the_bias_equals_the_move():
    ax = contour(make(), "a", "yes")
    thick = line(ax, "moves it by")
    x, y = thick.get_data()
    np.testing.assert_allclose(0.2 * np.sqrt(y * x / (1 - x)), 0.05, rtol=1e-9)
    assert thick.get_label() == "moves it by 5.0 points"
    (q,), (p,) = line(ax, "robustness value").get_data()
    assert q == p
    assert 0.2 * q / np.sqrt(1 - q) == pytest.approx(0.05)


def test_contours_lie_where_their_labels_say():
    answer = make(bench=None)
    ax = contour(answer, "a", limit=0.8)
    thin = [x for x in ax.lines if x.get_linewidth() == 0.9]
    words = [t.get_text() for t in ax.texts if "point" in t.get_text()]
    assert words == ["1 point", "2 points", "10 points", "20 points", "30 points"]  # the thick line stands for 5
    for drawn, said in zip(thin, words, strict=True):
        x, y = drawn.get_data()
        np.testing.assert_allclose(0.2 * np.sqrt(y * x / (1 - x)), int(said.split()[0]) / 100, rtol=1e-9)


def test_benchmarks_of_the_cell_are_marked_and_named():
    ax = contour(make(), "b")
    marks = line(ax, "covariate")
    np.testing.assert_allclose(marks.get_xdata(), [0.06, 0.4])
    np.testing.assert_allclose(marks.get_ydata(), [0.2, 0.6])
    assert {"size", "county"} <= {t.get_text() for t in ax.texts}
    assert ax.get_xlim()[1] > 0.6
    few = contour(make(), "b", names=1)
    assert "county" in {t.get_text() for t in few.texts}
    assert "size" not in {t.get_text() for t in few.texts}


def test_the_curve_is_drawn_in_its_units():
    ax = slope_curve(make(), "b", "yes")
    x, y = line(ax, "estimate").get_data()
    assert x.tolist() == [-2, 0, 2]
    np.testing.assert_allclose(y, [0.5, 0.4, 0.3])
    words = {t.get_text() for t in ax.get_legend().get_texts()}
    assert words == {"possible at all (bounds)", "widened interval", "estimate", "the method's own interval"}
    assert ax.get_title(loc="left") == "b × yes: if rates depend on composition"
