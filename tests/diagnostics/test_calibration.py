"""Calibration by stratum: it finds what marginal coverage hides."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from crosslevel.diagnostics import calibration_table, size_strata
from crosslevel.errors import InputError


def forecasts(n=4000, seed=0):
    """Small bags have sd 2 and are told 1.3, large ones sd 0.5 and are told 0.9: about right on average, wrong in both."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([5, 1000], n)
    return rng.normal(0, np.where(sizes == 5, 2.0, 0.5)), np.zeros(n), np.where(sizes == 5, 1.3, 0.9), sizes


def test_strata_show_what_the_margin_hides():
    y, m, s, sizes = forecasts()
    found = calibration_table(y, m, s, size_strata(sizes))
    assert found["stratum"].tolist() == ["all", "5", "1000"]
    assert found["n"].sum() == 2 * len(y)
    expected = [2 * stats.norm.cdf(1.96 * 1.3 / 2) - 1, 2 * stats.norm.cdf(1.96 * 0.9 / 0.5) - 1]
    np.testing.assert_allclose(found["estimate"][1:], expected, atol=0.02)
    assert (found["pit_p_value"][1:] < 1e-6).all()
    assert (found["conf_low"] <= found["estimate"]).all()
    small = sizes == 5
    np.testing.assert_allclose(found["nll"][1], -stats.norm(m, s).logpdf(y)[small].mean())
    np.testing.assert_allclose(found["mean_pit"][1], stats.norm(m, s).cdf(y)[small].mean())
    np.testing.assert_allclose(found["mean_width"][1], 2 * stats.norm.ppf(0.975) * 1.3)


def test_right_forecasts_pass_in_every_stratum():
    rng = np.random.default_rng(1)
    sizes, sd = rng.integers(1, 300, 6000), rng.uniform(0.3, 4, 6000)
    found = calibration_table(sd * rng.normal(size=6000), np.zeros(6000), sd, size_strata(sizes))
    assert len(found) == 5
    assert (np.abs(found["estimate"] - 0.95) < 0.02).all()
    assert (found["pit_p_value"] > 0.01).all()


@pytest.mark.parametrize(
    "change",
    [
        {"std": [1.0, 0.0]},
        {"mean": [1.0]},
        {"stratum": ["a"]},
        {"level": 95},
        {"stratum": ["a", None]},
        {"truth": pd.Series([0.0, 1.0], index=["a", "b"]), "mean": pd.Series([0.0, 0.0], index=["a", "c"])},
    ],
)
def test_bad_input_is_refused(change):
    given = {"truth": [0.0, 1.0], "mean": [0.0, 0.0], "std": [1.0, 1.0]} | change
    with pytest.raises(InputError):
        calibration_table(**given)


def test_forecasts_are_matched_by_the_names_of_bags():
    y, m, s, sizes = forecasts(60)
    every = {"truth": y, "mean": m + y, "std": s, "stratum": size_strata(sizes)}
    given = {name: pd.Series(v, index=[f"bag {i}" for i in range(60)]) for name, v in every.items()}
    mixed = {name: v.sample(frac=1, random_state=i) if i else v for i, (name, v) in enumerate(given.items())}
    one, two = calibration_table(**every), calibration_table(**mixed)
    for name in ("estimate", "nll", "rmse", "mean_width", "mean_pit"):
        np.testing.assert_allclose(two[name], one[name])
