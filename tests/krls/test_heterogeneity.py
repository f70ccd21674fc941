"""Spread of effects and their slopes along covariates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.errors import InputError
from crosslevel.krls import KRLS
from crosslevel.krls.heterogeneity import weighted_quantiles

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def test_numbers_are_those_of_the_rows(mixed):
    X, y = mixed(60)
    model = KRLS().fit(X, y)
    found = model.heterogeneity()
    D = model.pointwise_effects_
    np.testing.assert_allclose(found["estimate"], D.std(axis=0))
    np.testing.assert_allclose(found["average"], D.mean(axis=0))
    np.testing.assert_allclose(found["share_positive"], (D > 0).mean(axis=0))
    for q in (5, 25, 50, 75, 95):
        np.testing.assert_allclose(found[f"q{q:02d}"], np.quantile(D, q / 100, axis=0, method="inverted_cdf"))
    corr = np.array([[np.corrcoef(D[:, e], X[:, p])[0, 1] for p in range(3)] for e in range(3)])
    np.testing.assert_allclose(np.abs(found["correlation"]), np.abs(corr).max(axis=1))
    assert found["strongest"].tolist() == [f"x{p}" for p in np.abs(corr).argmax(axis=1)]
    assert found.level is None
    assert "shrunken" in found.warnings[0]


def test_weighted_quantiles_count_rows(rng):
    values, counts = rng.normal(size=(20, 2)), rng.integers(1, 5, 20)
    expected = np.quantile(np.repeat(values, counts, axis=0), [0.1, 0.5, 0.77], axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(weighted_quantiles(values, counts * 1.0, [0.1, 0.5, 0.77]), expected)


def test_monotone_or_not(rng):
    x = rng.uniform(-1, 1, (150, 3))
    x[:, 2] = x[:, 2] > 0
    y = 2 * x[:, 0] + 3 * x[:, 1] ** 2 + x[:, 2] + 0.05 * rng.normal(size=150)
    assert KRLS().fit(x, y).heterogeneity()["response"].tolist() == ["rising", "both", None]
    assert KRLS().fit(x, -y).heterogeneity()["response"].tolist() == ["falling", "both", None]


def test_slope_along_a_binary_covariate_is_the_difference_of_groups(smooth):
    X, y = smooth(60)
    model = KRLS().fit(X, y)
    slope = model.effects(along="x2")
    gap = model.effects(by="x2", differences=True)
    for name in ("estimate", "std_error", "plug_in", "p_value"):
        np.testing.assert_allclose(slope[name], gap[name], rtol=1e-8)


def test_plug_in_slopes_are_regressions_of_the_effects(mixed):
    X, y = mixed(60)
    model = KRLS().fit(X, y)
    found = model.effects(along=["x0", "x1", "x2"])
    assert found.keys == ("term", "along")
    for e in range(3):
        d = model.pointwise_effects_[:, e]
        for p in range(3):
            assert found["plug_in"][3 * e + p] == pytest.approx(np.polyfit(X[:, p], d, 1)[0])
            assert found["correlation"][3 * e + p] == pytest.approx(np.corrcoef(d, X[:, p])[0, 1])
    other = KRLS(penalty=model.penalty_).fit(X * [10, 100, 1], 7 * y).effects(along=["x0", "x1", "x2"])
    factor = 7 / np.outer([10, 1, 1], [10, 100, 1]).ravel()  # x1 has two values, whose difference is the effect
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(other[name], found[name] * factor, rtol=1e-6)


def test_factors_have_levels_to_vary_along(rng):
    frame = pd.DataFrame({"age": rng.normal(size=80), "arm": rng.choice(["a", "b", "c"], 80)})
    y = frame["age"] * (frame["arm"] == "b") + 0.1 * rng.normal(size=80)
    model = KRLS(reference={"arm": "a"}).fit(frame, y)
    found = model.effects(along=["age", "arm: b", "arm: c"]).select(term="age")
    assert found["along"].tolist() == ["age", "arm: b", "arm: c"]
    assert found["conf_low"][1] > 0.3
    clustered = KRLS(reference={"arm": "a"}).fit(frame, y, cluster=np.arange(80) // 4).effects(along="age")
    assert "CR3, 20 clusters" in clustered.interval
    for asked in ({"along": "arm"}, {"along": "age", "by": "arm"}, {"along": "age", "target": "population"}):
        with pytest.raises(InputError):
            model.effects(**asked)


@pytest.mark.slow
def test_intervals_of_slopes_and_groups_cover():
    """A product and a curve of known slopes, 120 draws of 200 rows: within .03 of .95 (three standard errors: .06)."""
    hits = {"slope": [], "group": []}
    for seed in range(120):
        rng = np.random.default_rng(seed)
        x = np.column_stack([rng.normal(size=(200, 2)), rng.integers(0, 2, 200)])
        f0 = 1 / np.cosh(x[:, 0]) ** 2 + 0.5 * x[:, 1] + 0.5 * x[:, 2]  # the effect of x0 at every row
        y = np.tanh(x[:, 0]) + 0.5 * x[:, 0] * (x[:, 1] + x[:, 2]) + 0.7 * rng.normal(size=200)
        model = KRLS().fit(x, y)
        for p in (1, 2):
            got = model.effects(along=f"x{p}").select(term="x0")
            truth = np.polyfit(x[:, p], f0, 1)[0]
            hits["slope"].append(got["conf_low"][0] < truth < got["conf_high"][0])
        got = model.effects(by="x2").select(term="x0")
        for g in (0, 1):
            hits["group"].append(got["conf_low"][g] < f0[x[:, 2] == g].mean() < got["conf_high"][g])
    assert np.mean(hits["slope"]) > 0.89
    assert np.mean(hits["group"]) > 0.89
