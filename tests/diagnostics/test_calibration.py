"""Calibration by stratum: it finds what marginal coverage hides, and conformal factors repair it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from crosslevel.diagnostics.calibration import (
    calibration_table,
    conformal_interval,
    fit_conformal,
    gaussian_nll,
    gaussian_pit,
    pit_uniformity,
    size_strata,
)
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
    by_hand = -stats.norm(m, s).logpdf(y)
    np.testing.assert_allclose(found["nll"][1], by_hand[sizes == 5].mean())


def test_right_forecasts_pass_in_every_stratum():
    rng = np.random.default_rng(1)
    sizes, sd = rng.integers(1, 300, 6000), rng.uniform(0.3, 4, 6000)
    found = calibration_table(sd * rng.normal(size=6000), np.zeros(6000), sd, size_strata(sizes))
    assert len(found) == 5
    assert (np.abs(found["estimate"] - 0.95) < 0.02).all()
    assert (found["pit_p_value"] > 0.01).all()


def test_given_intervals_densities_and_transforms_are_used():
    y, m, s, _ = forecasts(50)
    wide = np.column_stack([m - 99, m + 99])
    found = calibration_table(y, m, s, interval=wide, log_density=np.full(50, -2.0), pit=np.linspace(0.01, 0.99, 50))
    assert found["estimate"].tolist() == [1.0]
    assert found["nll"].tolist() == [2.0]
    assert found["pit_p_value"][0] > 0.9


def test_mondrian_conformal_covers_in_every_stratum_and_the_plain_one_only_on_average():
    hits = {"mondrian": [], "plain": []}
    for seed in range(100):
        y, m, s, sizes = forecasts(800, seed)
        strata, half = size_strata(sizes), np.arange(800) < 400
        scale = fit_conformal(y[half], m[half], s[half], strata[half])
        for name, labels in (("mondrian", strata[~half]), ("plain", None)):
            low, high = conformal_interval(scale, m[~half], s[~half], labels).T
            inside = (low <= y[~half]) & (y[~half] <= high)
            hits[name].append([inside[sizes[~half] == v].mean() for v in (5, 1000)])
    np.testing.assert_allclose(np.mean(hits["mondrian"], axis=0), 0.95, atol=0.008)
    assert np.mean(hits["plain"], axis=0)[0] < 0.93


def test_conformal_factor_is_the_order_statistic():
    assert fit_conformal(np.arange(1.0, 20.0), np.zeros(19), np.ones(19), level=0.95).overall == 19.0
    assert fit_conformal(np.arange(1.0, 40.0), np.zeros(39), np.ones(39), level=0.95).overall == 38.0


def test_pit_and_nll_are_those_of_the_normal():
    y, m, s, _ = forecasts(20)
    np.testing.assert_allclose(gaussian_pit(y, m, s), stats.norm(m, s).cdf(y))
    np.testing.assert_allclose(gaussian_nll(y, m, s), -stats.norm(m, s).logpdf(y))
    with pytest.raises(InputError):
        pit_uniformity([])


def test_size_classes():
    assert size_strata([1, 2, 3, 4, 5, 6, 7, 8], 2).tolist() == ["up to 4"] * 4 + ["over 4"] * 4
    assert size_strata([3, 3], 1).tolist() == ["all", "all"]
    assert len(set(size_strata(np.arange(1, 101)).tolist())) == 4
    with pytest.raises(InputError, match="edges="):
        size_strata([1, 2], 0)


@pytest.mark.parametrize(
    "change",
    [
        {"std": [1.0, 0.0]},
        {"mean": [1.0]},
        {"stratum": ["a"]},
        {"interval": [[1.0, 0.0], [0.0, 1.0]]},
        {"level": 95},
        {"pit": [0.5]},
        {"stratum": ["a", None]},
        {"stratum": [np.nan, 1.0]},
        {"truth": pd.Series([0.0, 1.0], index=["a", "b"]), "mean": pd.Series([0.0, 0.0], index=["a", "c"])},
    ],
)
def test_bad_input_gets_a_sentence(change):
    given = {"truth": [0.0, 1.0], "mean": [0.0, 0.0], "std": [1.0, 1.0]} | change
    with pytest.raises(InputError):
        calibration_table(**given)


def test_forecasts_are_matched_by_the_names_of_bags():
    y, m, s, sizes = forecasts(60)
    m, low = m + y, y - 0.1 * sizes
    every = {
        "truth": y,
        "mean": m,
        "std": s,
        "stratum": size_strata(sizes),
        "pit": stats.norm.cdf(y),
        "log_density": -s,
    }
    given = {name: pd.Series(v, index=[f"bag {i}" for i in range(60)]) for name, v in every.items()}
    given["interval"] = pd.DataFrame({"low": low, "high": low + sizes}, index=given["truth"].index)
    mixed = {name: v.sample(frac=1, random_state=i) if i else v for i, (name, v) in enumerate(given.items())}
    one, two = (calibration_table(**every, interval=np.column_stack([low, low + sizes])), calibration_table(**mixed))
    for name in ("estimate", "nll", "rmse", "mean_width", "mean_pit"):
        np.testing.assert_allclose(two[name], one[name])
    scales = [
        fit_conformal(*(of[name] for name in ("truth", "mean", "std", "stratum")), level=0.8) for of in (every, mixed)
    ]
    assert scales[0] == scales[1]
    found = conformal_interval(scales[0], mixed["mean"], mixed["std"], mixed["stratum"])
    again = conformal_interval(
        scales[0], *(mixed[name].loc[mixed["mean"].index] for name in ("mean", "std", "stratum"))
    )
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize(("mean", "std"), [([1.0, 2.0], [0.1, -0.1]), ([1.0, 2.0], [0.1]), ([1.0, np.nan], [0.1, 0.1])])
def test_conformal_intervals_of_no_forecasts_are_refused(mean, std):
    scale = fit_conformal(np.arange(40.0), np.zeros(40), np.ones(40))
    with pytest.raises(InputError):
        conformal_interval(scale, mean, std)


def test_conformal_refuses_too_few_bags_and_unseen_strata():
    with pytest.raises(InputError):
        fit_conformal(np.ones(5), np.zeros(5), np.ones(5))
    scale = fit_conformal(np.arange(40.0), np.zeros(40), np.ones(40), ["5"] * 40)
    with pytest.raises(InputError):
        conformal_interval(scale, [0.0], [1.0], ["20"])
