"""Parts add up to totals, in every draw, whatever the logits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from crosslevel.ecological.quantities import part_bounds, summing
from crosslevel.numerics.logit_shift import shift_to_total


def totals_of(rate: np.ndarray, share: np.ndarray, place: np.ndarray) -> np.ndarray:
    return (summing(place, int(place.max()) + 1) @ (rate * share).T).T


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0, 300.0])
def test_every_draw_adds_up(scale: float) -> None:
    rng = np.random.default_rng(0)
    q, parts = 300, 4
    place = rng.permutation(np.repeat(np.arange(q), parts))
    share = np.empty(q * parts)
    for i in range(q):
        share[place == i] = np.maximum(rng.dirichlet(np.full(parts, 0.3)), 1e-9)
    share /= np.bincount(place, share)[place]
    y = special.expit(rng.normal(0, 4, q))
    found = shift_to_total(rng.normal(0, scale, (20, q * parts)), share, place, y)
    np.testing.assert_allclose(totals_of(found.rate, share, place), np.tile(y, (20, 1)), atol=1e-12)
    low, high = part_bounds(share, y[place])
    # the last digit of a logit of the part with most people moves one of few by that much
    room = 1e-15 * (1 + scale) / share
    assert np.all(found.rate >= low - room)
    assert np.all(found.rate <= high + room)
    assert np.all(np.isfinite(found.shift))


@pytest.mark.parametrize("y", [1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
def test_extreme_logits(y: float) -> None:
    f = np.array([[-800.0, 800.0, 0.0], [800.0, 799.0, 798.0], [-800.0, -800.0, -800.0], [1e-300, 745.0, -745.0]])
    share = np.array([0.3, 0.3, 0.4])
    found = shift_to_total(f, share, np.zeros(3, np.intp), np.array([y]))
    assert np.all(np.isfinite(found.rate))
    np.testing.assert_allclose(found.rate @ share, y, rtol=1e-9, atol=1e-15)
    assert np.all((found.rate >= 0) & (found.rate <= 1))


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=6),
    st.floats(-300, 300),
    st.floats(0.001, 0.999),
    st.integers(0, 10**6),
)
def test_laws(f: list[float], constant: float, y: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(len(f)))
    place, logits = np.zeros(len(f), np.intp), np.array([f])
    rate = shift_to_total(logits, share, place, np.array([y])).rate[0]
    # a constant for all parts of a place changes nothing
    np.testing.assert_allclose(shift_to_total(logits + constant, share, place, np.array([y])).rate[0], rate, atol=1e-10)
    # a higher total raises every part
    assert np.all(shift_to_total(logits, share, place, np.array([0.5 * (y + 1)])).rate[0] >= rate)
    # a part whose logit is higher has the higher rate
    assert np.all(np.diff(rate[np.argsort(f, kind="stable")]) >= 0)
    # shares count by their proportions, parts in any order
    order = rng.permutation(len(f))
    turned = shift_to_total(logits[:, order], 7.0 * share[order], place, np.array([y])).rate[0]
    np.testing.assert_allclose(turned, rate[order], atol=1e-10)


def test_bounds_by_enumeration() -> None:
    """All tables of a place of 12 with 5 yes: the extreme rates of a part of 4."""
    people, own, yes = 12, 4, 5
    rates = [a / own for a in range(own + 1) if 0 <= yes - a <= people - own]
    low, high = part_bounds(np.array([own / people]), np.array([yes / people]))
    assert low[0] == pytest.approx(min(rates))
    assert high[0] == pytest.approx(max(rates))
    low, high = part_bounds(np.array([10 / 12]), np.array([5 / 12]))
    rates = [a / 10 for a in range(11) if 0 <= yes - a <= 2]
    assert (low[0], high[0]) == (pytest.approx(min(rates)), pytest.approx(max(rates)))


def test_bounds_hold_the_rate_itself_and_meet_for_everybody() -> None:
    rng = np.random.default_rng(0)
    share, y = rng.uniform(0, 1, 1000), rng.uniform(0, 1, 1000)
    low, high = part_bounds(share, y)
    assert np.all((low >= 0) & (low <= y) & (y <= high) & (high <= 1))
    low, high = part_bounds(np.array([1.0, 1e-300, 1.0]), np.array([0.37, 0.5, 0.0]))
    np.testing.assert_allclose(low, [0.37, 0.0, 0.0])
    np.testing.assert_allclose(high, [0.37, 1.0, 0.0])
