"""Does the study of ages measure what it says, and does the count model keep its accuracy on real ages?"""

from __future__ import annotations

import sys

import numpy as np
import pytest

TARGETS = {
    ("msoa", 5): 0.111,
    ("msoa", 10): 0.142,
    ("msoa", 20): 0.219,
    ("lsoa", 5): 0.217,
    ("lsoa", 10): 0.254,
    ("lsoa", 20): 0.320,
}
"""RMSE over the mean count of a year that the pooled model must not exceed."""


@pytest.fixture
def ages(experiment):
    return experiment("ages")


@pytest.fixture
def incomes(experiment):
    return experiment("ages_incomes")


@pytest.fixture
def gaussian(experiment):
    return experiment("ages_gaussian")


def test_measures_of_a_known_distribution_of_incomes(incomes):
    """Everybody between 0 and 100,000 evenly: mean and median 50,000, Gini a third."""
    bins = incomes.cut(np.array([0.0, 50_000, 100_000, 200_000]))
    low, high = incomes.UNIT * np.expm1(bins.lower[:, 0]), incomes.UNIT * np.expm1(bins.upper[:, 0])
    counts = np.where(high <= 100_001, high - low, 0.0)[None, :]
    mean, median, gini = incomes.measures(bins, counts)[0]
    assert mean == pytest.approx(50_000, rel=1e-3)
    assert median == pytest.approx(50_000, rel=1e-3)
    assert gini == pytest.approx(1 / 3, abs=1e-3)


def test_the_three_ways_agree_for_narrow_bins(gaussian):
    low = np.arange(0.0, 90, 10)
    x = np.linspace(0, 90, 7)
    found = [gaussian.covariance(way, low, low + 1e-3, low + 5e-4, x, 8.0) for way in gaussian.WAYS]
    for K, k in found[1:]:
        assert np.allclose(K, found[0][0], atol=1e-6)
        assert np.allclose(k, found[0][1], atol=1e-6)
    # bins of a straight line have the line's value at their center
    K, k = gaussian.covariance("integral", low, low + 10, low + 5, low + 5, 40.0)
    guess, _ = gaussian.predict(K, k, 3 + 0.1 * low, np.full(9, 1e-6), 100.0)
    assert np.allclose(guess, 3 + 0.1 * low, atol=0.02)


@pytest.mark.data
@pytest.mark.parametrize("width", [5, 10, 20])
def test_pooled_areas_meet_their_targets(ages, real_data, width):
    check(ages, ages.read_trafford(real_data / "ages", "msoa"), "msoa", width)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("width", [5, 10, 20])
def test_small_pooled_areas_meet_their_targets(ages, real_data, width):
    check(ages, ages.read_trafford(real_data / "ages", "lsoa"), "lsoa", width)


def check(ages, truth, kind, width):
    found = ages.score_all(truth, width, ("pclm", "pooled"))
    pooled = found["pooled"]
    assert pooled.rmse.mean() <= TARGETS[kind, width]
    assert pooled.log_score.mean() > found["pclm"].log_score.mean()
    assert 0.92 <= pooled.held.mean() <= 0.97


@pytest.mark.data
def test_the_quick_study_runs_and_writes_nothing(ages, real_data, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["ages.py", "--quick", "--out", str(tmp_path / "page.md")])
    monkeypatch.setenv("CROSSLEVEL_DATA", str(real_data))
    ages.main()
    said = capsys.readouterr().out
    for heading in ("Single years", "expected counts", "Incomes", "Heights", "lengthscale"):
        assert heading in said
    assert "nan" not in said
    assert not list(tmp_path.iterdir())
