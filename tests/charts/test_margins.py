from __future__ import annotations

import numpy as np
import pytest

from crosslevel.charts.densities import _density, margins
from crosslevel.results import Estimates, Provenance


def make(draws, **more):
    n = np.shape(draws)[1] if draws is not None else 1
    center = np.array([0.1] * n) if draws is None else np.array([np.mean(d[np.isfinite(d)] if np.isfinite(d).any() else [np.nan])
                                                                for d in np.asarray(draws).T])  # fmt: skip
    return Estimates.build(
        {"group": [f"g{i}" for i in range(n)], "estimate": center, "conf_low": center - 0.1, "conf_high": center + 0.1, **more},
        keys=["group"], method="m", level=0.9, interval="q", provenance=Provenance.of(call="c"), draws=draws, title="Lead",
    )  # fmt: skip


def test_the_share_of_draws_beyond_the_threshold_is_written_and_colored():
    rng = np.random.default_rng(0)
    draws = np.column_stack([rng.normal(0.3, 0.05, 400), rng.normal(0.0, 0.1, 400), np.full(400, 0.2)])
    draws[:100, 1] = -0.5
    ax = margins(make(draws), threshold=0.05)
    said = [t.get_text() for t in ax.texts]
    assert said == [f"{share} above 0.05" for share in ("1.00", f"{np.mean(draws[:, 1] > 0.05):.2f}", "1.00")]
    # the filled parts of a ridge meet at the threshold: blue to its right, vermilion to its left
    for part in ax.collections:
        for path in part.get_paths():
            x = path.vertices[:, 0]
            assert (x >= 0.05 - 0.01).all() or (x <= 0.05 + 0.01).all() or len(x) == 2
    assert [t.get_text() for t in ax.get_yticklabels()] == ["g0", "g1", "g2"]
    assert ax.get_xlabel() == "estimate, 90 % interval and density of 400 draws"


def test_the_density_is_that_of_normal_kernels_to_a_height_of_one():
    draws = np.random.default_rng(1).normal(0.2, 0.1, 500)
    x, density = _density(draws)
    width = 0.9 * min(draws.std(), np.subtract(*np.quantile(draws, [0.75, 0.25])) / 1.349) * 500**-0.2
    exact = np.exp(-0.5 * ((x[:, None] - draws) / width) ** 2).mean(axis=1)
    np.testing.assert_allclose(density, exact / exact.max(), rtol=1e-12)
    assert x[np.argmax(density)] == pytest.approx(0.2, abs=0.05)


def test_unknown_rows_have_a_dash_and_bounds_a_bar():
    draws = np.column_stack([np.linspace(0, 1, 20), np.full(20, np.nan)])
    ax = margins(make(draws, lower=[-0.5, np.nan], upper=[0.9, np.nan]), bounds=True)
    assert [t.get_text() for t in ax.texts][1] == "–"
    assert ax.patches[0].get_x() == -0.5
    assert ax.patches[0].get_width() == pytest.approx(1.4)
    assert not margins(make(draws, lower=[-0.5, 0], upper=[0.9, 0])).patches
