from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.errors import InputError
from crosslevel.results import scores


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_scores_against_loops(rng):
    e, t = rng.normal(size=(2, 50))
    low, high = e - 0.5, e + 0.7
    inside = [a <= c <= b for a, b, c in zip(low, high, t, strict=True)]
    assert scores.rmse(e, t) == pytest.approx((sum((a - b) ** 2 for a, b in zip(e, t, strict=True)) / 50) ** 0.5)
    assert scores.mae(e, t) == pytest.approx(sum(abs(a - b) for a, b in zip(e, t, strict=True)) / 50)
    assert scores.bias(e, t) == pytest.approx(sum(e) / 50 - sum(t) / 50)
    assert scores.coverage(low, high, t) == sum(inside) / 50
    penalty = [2 / 0.2 * max(a - c, 0, c - b) for a, b, c in zip(low, high, t, strict=True)]
    assert scores.interval_score(low, high, t, 0.8) == pytest.approx(1.2 + sum(penalty) / 50)


def test_bias_has_a_sign():
    assert scores.bias([2.0], [1.0]) == 1.0
    assert scores.bias([1.0], [2.0]) == -1.0


def test_interval_score_is_least_at_the_true_quantiles(rng):
    t = rng.normal(size=20_000)
    z = stats.norm.ppf(0.95)
    best = scores.interval_score(np.full_like(t, -z), np.full_like(t, z), t, 0.9)
    for factor in (0.7, 1.4):
        assert scores.interval_score(np.full_like(t, -z * factor), np.full_like(t, z * factor), t, 0.9) > best


def test_coverage_counts_both_ends_and_has_the_binomial_error(rng):
    assert scores.coverage([0, 0], [1, 1], [0, 1]) == 1.0
    shares = (rng.random((4000, 25)) < 0.8).mean(axis=1)
    one = scores.coverage_std_error(np.zeros(25), np.ones(25), np.where(np.arange(25) < 20, 0.5, 2.0))
    assert one == pytest.approx(shares.std(), rel=0.05)  # 4000 repetitions know a standard deviation to about 1 %


def test_missing_pairs_are_left_out():
    assert scores.rmse([1.0, np.nan, 3.0], [1.0, 2.0, np.nan]) == 0.0
    card = scores.scorecard([1.0, 2.0], [np.nan, 1.5], [np.nan, 2.5], [1.0, 2.0], 0.9)
    assert (card["n"], card["coverage"]) == (2, 1.0)
    assert scores.scorecard([1.0], [np.nan], [np.nan], [1.0], None)["coverage"] is None
    assert scores.scorecard([1.0], [np.nan], [np.nan], [1.0], 0.9)["interval_score"] is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: scores.rmse([1.0], [1.0, 2.0]),
        lambda: scores.mae([np.nan], [1.0]),
        lambda: scores.rmse([], []),
        lambda: scores.interval_score([0], [1], [0], 95),
    ],
)
def test_bad_input_gets_a_sentence(call):
    with pytest.raises(InputError):
        call()
