from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from crosslevel.charts import transfers
from crosslevel.charts.style import INK
from crosslevel.results import Estimates, Provenance


def make(columns, keys=("group", "outcome"), level=0.9, **options):
    interval = "none" if level is None else "wald"
    return Estimates.build(
        columns, keys=keys, method="m", level=level, interval=interval, provenance=Provenance.of(call="c"), **options
    )


def table(**more):
    return {
        "group": ["x", "x", "y"],
        "outcome": ["a", "b", "b"],
        "estimate": [0.95, 0.05, np.nan],
        "conf_low": [0.9, 0.01, np.nan],
        "conf_high": [1.0, 0.1, np.nan],
        "count": [1234.4, 65.0, 0.0],
        **more,
    }


def texts(ax):
    return {(t.get_position()): t.get_text() for t in ax.texts if t.get_transform() == ax.transData}


def test_every_cell_has_its_number_in_its_place_and_unknown_cells_a_dash():
    ax = transfers(make(table(), title="Share"))
    assert texts(ax) == {(0, 0): "0.95\n[0.90, 1.00]", (1, 0): "0.05\n[0.01, 0.10]", (0, 1): "–", (1, 1): "–"}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "y"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    drawn = ax.images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), [[False, False], [True, True]])
    assert drawn[0, 0] == 0.95
    assert ax.images[0].get_clim() == (0.0, 1.0)
    assert ax.get_title(loc="left") == "Share"
    assert "share of the group, 90 % interval" in [t.get_text() for t in ax.texts]


def test_counts_instead_of_shares():
    ax = transfers(make(table()), counts=True)
    assert texts(ax)[0, 0] == "1,234"
    assert any("people" in t.get_text() for t in ax.texts)
    assert texts(transfers(make(table()), intervals=False))[0, 0] == "0.95"


@pytest.mark.parametrize("cmap", ["Blues", "viridis", "Greys", "RdBu"])
def test_numbers_contrast_with_their_cell(cmap):
    """At least 3.9 to 1, by WCAG, on every shade: two inks cannot promise more."""
    n = 41
    shares = np.linspace(0, 1, n)
    est = make({"group": ["x"] * n, "outcome": [f"o{i}" for i in range(n)], "estimate": shares}, level=None)
    ax = transfers(est, cmap=cmap)

    def luminance(color):
        rgb = np.array(mpl.colors.to_rgb(color))
        return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    inks = set()
    for j, text in enumerate(ax.texts[:n]):
        cell, ink = (luminance(c) + 0.05 for c in (mpl.colormaps[cmap](shares[j])[:3], text.get_color()))
        assert max(cell, ink) / min(cell, ink) > 3.9, shares[j]
        inks.add(text.get_color())
    assert inks == {"white", INK}
