from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special, stats

from crosslevel.ecological.confounding import Confounding, Tail, draw_shared, perturb, shrink
from crosslevel.ecological.quantities import summing
from crosslevel.numerics.logit_shift import shift_to_total


@dataclass(frozen=True)
class VarianceFactors:
    """How a confounding of unit variance shows after totals are matched: in parts, in levels shared, in levels of each place."""

    part: np.ndarray
    level: np.ndarray
    level_own: np.ndarray


def variance_factors(rate, share, weight, place, level):
    """Say in closed form how confounding of unit variance shows in parts and in levels."""
    q, n_levels = int(place.max()) + 1, int(level.max()) + 1
    v = rate * (1.0 - rate)
    add = summing(place, q)
    w = share * v / np.maximum((add @ (share * v))[place], 1e-300)
    part = (1.0 - w) ** 2 + (add @ w**2)[place] - w**2
    by_level = summing(level, n_levels)
    people = by_level @ weight
    P = (by_level @ (weight * rate)) / np.maximum(people, 1e-300)
    a = weight / np.maximum(people[level], 1e-300) * v / np.maximum((P * (1.0 - P))[level], 1e-300)
    # J_gh = sum_i a_ig (1[g = h] - w_ih): places' parts meet pairwise
    A, W = np.zeros((q, n_levels)), np.zeros((q, n_levels))
    A[place, level], W[place, level] = a, w
    J = np.diag(A.sum(axis=0)) - A.T @ W
    return VarianceFactors(part, (J**2).sum(axis=1), by_level @ (a**2 * part))


@pytest.fixture
def parts():
    rng = np.random.default_rng(2)
    q, levels = 60, 4
    share = rng.dirichlet([4, 2, 1, 0.5], q)
    place, level = np.repeat(np.arange(q), levels), np.tile(np.arange(levels), q)
    rate = special.expit(rng.normal(0, 0.7, (q, levels)) + np.array([0.3, -0.5, 0.8, 0.0]))
    total = (share * rate).sum(axis=1)
    weight = share * rng.uniform(500, 5000, (q, 1))
    return share.ravel(), place, level, rate.ravel(), total, weight.ravel()


def moved_by(f, effects, confounding, seed=0, place=None):
    shared = draw_shared(effects, confounding, len(f), np.random.default_rng(seed))
    place = np.zeros(f.shape[1], dtype=int) if place is None else place
    return perturb(f, shared, np.arange(f.shape[1]), place, confounding, seed, (4,))


def test_a_part_that_is_everybody_cannot_be_confounded():
    found = variance_factors(
        np.array([0.3, 0.5]), np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([0, 0]), np.array([0, 1])
    )
    assert found.part[0] == 0.0


def test_closed_form_and_draws_agree(parts):
    share, place, level, rate, total, weight = parts
    tau, omega = 0.3, 0.15
    f = np.repeat(special.logit(rate)[None, :], 8000, axis=0)
    moved = moved_by(f, [level], Confounding(tau, omega, 5), place=place)
    drawn = shift_to_total(moved, share, place, total).rate
    np.testing.assert_allclose(
        (summing(place, len(total)) @ (drawn * share).T).T, np.broadcast_to(total, (8000, len(total))), atol=1e-8
    )
    found = variance_factors(rate, share, weight, place, level)
    by_part = np.sqrt((tau**2 + omega**2) * found.part)
    ratio = special.logit(drawn).std(axis=0) / by_part
    assert np.median(np.abs(ratio - 1)) < 0.03
    add = summing(level, 4)
    nation = special.logit((add @ (drawn * weight).T).T / (add @ weight))
    np.testing.assert_allclose(
        nation.std(axis=0), np.sqrt(tau**2 * found.level + omega**2 * found.level_own), rtol=0.05
    )


def test_no_confounding_changes_nothing(parts):
    _share, _place, level, rate, _total, _ = parts
    f = special.logit(rate)[None, :]
    moved = moved_by(f, [level], Confounding(0.0, 0.0, 0))
    np.testing.assert_array_equal(moved, f)
    np.testing.assert_array_equal(shrink(f, np.zeros(f.shape[1]), 0.0), f)


def test_the_spread_does_not_vanish_with_more_people(parts):
    share, place, level, rate, _, weight = parts
    one = variance_factors(rate, share, weight, place, level)
    many = variance_factors(rate, share, 1e6 * weight, place, level)
    np.testing.assert_allclose(one.level, many.level)


def test_crossings_add_the_effects_of_their_columns():
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    moved = moved_by(np.zeros((40_000, 4)), [a, b], Confounding(1.0, 0.0, 0), 1)
    cov = np.cov(moved.T)
    np.testing.assert_allclose(np.diag(cov), 2.3, rtol=0.05)
    np.testing.assert_allclose([cov[0, 1], cov[0, 2]], 1.0, rtol=0.06)
    assert abs(cov[0, 3]) < 0.05


def test_shrinking_moves_toward_the_place():
    assert shrink(np.array([2.0]), np.array([1.0]), 0.25) == pytest.approx(1.75)


def test_few_columns_make_heavier_tails_of_the_right_quantile():
    """The Student quantile of 5 + 1 degrees in place of the normal one."""
    moved = moved_by(np.zeros((200_000, 1)), [np.zeros(1, dtype=int)], Confounding(1.0, 0.0, 5, 6.0))
    assert np.quantile(moved, 0.975) == pytest.approx(2.447, rel=0.03)


def test_places_by_themselves_are_perturbed_as_with_others(parts):
    _share, place, level, rate, _total, _ = parts
    confounding = Confounding(0.3, 0.2)
    f = np.repeat(special.logit(rate)[None, :], 30, axis=0)
    shared = draw_shared([level], confounding, 30, np.random.default_rng(0))
    whole = perturb(f, shared, np.arange(len(level)), place, confounding, 1, (4, 0))
    some = np.flatnonzero(place >= 40)
    np.testing.assert_array_equal(
        perturb(f[:, some], shared, some, place[some], confounding, 1, (4, 0)), whole[:, some]
    )


def test_scales_of_columns_are_independent_and_follow_from_their_names():
    tail, names = Tail(4.0, 0.2, 0.5), [f"column {k}" for k in range(50)]
    scales = tail.scales(names)
    np.testing.assert_array_equal(tail.scales(names[::-1]), scales[::-1])
    np.testing.assert_array_equal(tail.scales(names[7:8]), scales[7:8])
    apart = np.corrcoef(scales)[np.triu_indices(50, 1)]
    assert abs(apart.mean()) < 0.02
    assert apart.max() < 0.7
    # Student's law of as many degrees of freedom, but for the far tails that so few scales cannot have
    reach = stats.t.ppf(0.975, 4.0)
    assert stats.norm.cdf(reach / scales[0]).mean() == pytest.approx(0.975, abs=1e-3)
