"""Counts shared out among small areas: totals, limits, truth, coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crosslevel.binned.areas import SharedOut, area_correlations, nested_rate, share_out
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.errors import InputError

pytest.importorskip("shapely")

SIDE = 8
SQUARES = Polygons([[[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]] for i in range(SIDE) for j in range(SIDE)])
PARENT = np.array([(i // 2) * (SIDE // 2) + j // 2 for i in range(SIDE) for j in range(SIDE)])


@pytest.fixture(scope="module")
def smooth():
    return area_correlations(SQUARES, ["eq", "matern32"], nodes=3)


def world(seed, s, t, length=3.0):
    """A borough drawn from the model: people, true counts, totals of the parents."""
    rng = np.random.default_rng(seed)
    people = rng.integers(1000, 2500, SIDE**2).astype(float)
    middle = np.array([[i + 0.5, j + 0.5] for i in range(SIDE) for j in range(SIDE)])
    R = np.exp(-0.5 * ((middle[:, None] - middle) ** 2).sum(axis=2) / length**2)
    f = (
        -1.5
        + s * np.linalg.cholesky(R + 1e-9 * np.eye(SIDE**2)) @ rng.normal(size=SIDE**2)
        + t * rng.normal(size=SIDE**2)
    )
    counts = rng.binomial(people.astype(int), 1 / (1 + np.exp(-f))).astype(float)
    return people, counts, np.bincount(PARENT, counts)


def test_totals_are_kept_in_every_draw_and_nobody_is_negative(smooth):
    people, _, totals = world(0, 0.5, 0.2)
    found = share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=300)
    sums = np.stack([np.bincount(PARENT, d) for d in found.draws])
    np.testing.assert_allclose(sums, np.tile(totals, (300, 1)), rtol=1e-9)
    assert (found.draws > 0).all()
    assert (found.draws < people).all()
    assert found.weights.sum() == pytest.approx(1.0)
    low, high = found.quantiles([0.025, 0.975])
    assert (low <= high).all()
    assert (high <= people).all()


def test_a_smooth_world_is_found_better_than_by_the_nested_rate(smooth):
    """And a world without pattern hardly worse: both over several draws."""
    ratio = {}
    for kind, s, t in (("smooth", 0.8, 0.02), ("white", 0.0, 0.4)):
        ours, nested = 0.0, 0.0
        for seed in range(4):
            people, counts, totals = world(seed, s, t)
            found = share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=300)
            ours += np.sum((found.mean - counts) ** 2)
            nested += np.sum((nested_rate(totals, people, PARENT) - counts) ** 2)
        ratio[kind] = np.sqrt(ours / nested)
    assert ratio["smooth"] < 0.85
    assert ratio["white"] < 1.04


def test_intervals_hold_what_they_should(smooth):
    inside, score, nested = [], [], []
    for seed in range(6):
        people, counts, totals = world(seed, 0.4, 0.25)
        found = share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=300)
        low, high = found.quantiles([0.025, 0.975])
        inside.append((low <= counts) & (counts <= high))
        score.append(found.log_score(counts).mean())
        word = SharedOut(nested_rate(totals, people, PARENT)[None], people, PARENT, np.ones(1), (), 0.0)
        nested.append(word.log_score(counts).mean())
    assert 0.90 < np.mean(inside) < 0.995
    assert np.mean(score) > np.mean(nested) + 1.0


def test_order_of_areas_does_not_matter(smooth):
    people, _, totals = world(1, 0.5, 0.2)
    order = np.random.default_rng(0).permutation(len(people))
    one = share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=4000)
    shuffled = area_correlations(SQUARES[order], ["eq", "matern32"], nodes=3)
    two = share_out(SQUARES[order], totals, people[order], PARENT[order], correlations=shuffled, nodes=3, n_draws=4000)
    np.testing.assert_allclose(two.weights, one.weights, atol=1e-6)
    # means over 4,000 draws: a few Monte Carlo errors
    np.testing.assert_allclose(two.mean, one.mean[order], atol=6 * one.draws.std(axis=0).max() / 4000**0.5)


def test_areas_count_by_their_people(smooth):
    """Parks, areas without people, say nothing and get nothing: the evidence is that of the other areas alone."""
    people, counts, _ = world(2, 0.5, 0.2)
    park = np.arange(len(people)) % 4 == 1
    people, counts = np.where(park, 0.0, people), np.where(park, 0.0, counts)
    totals = np.bincount(PARENT, counts)
    found = share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=200)
    assert (found.draws[:, park] == 0).all()
    assert (found.quantiles([0.025, 0.975])[:, park] == 0).all()
    rest = replace(smooth, R=smooth.R[:, ~park][:, :, ~park])
    alone = share_out(SQUARES[~park], totals, people[~park], PARENT[~park], correlations=rest, nodes=3, n_draws=200)
    np.testing.assert_allclose(found.weights, alone.weights, atol=1e-5)


def test_log_scores_are_probabilities():
    word = SharedOut(np.array([[30.0, 70.0]]), np.array([200.0, 200.0]), np.array([0, 0]), np.ones(1), (), 0.0)
    total = sum(np.exp(word.log_score(np.array([n, 70.0]))[0]) for n in range(200))
    assert total == pytest.approx(1.0, abs=1e-6)
    # given the sum, both counts vary alike: v1 v2 / (v1 + v2)
    v = np.array([30 * 0.85, 70 * 0.65])
    np.testing.assert_allclose(word.spread, [[v.prod() / v.sum()] * 2])


@pytest.mark.parametrize(
    "change",
    [
        {"population": [1.0, 2.0]},
        {"parent": [0, 1]},
        {"parent": [0, 1, 2]},
        {"parent": [0, 0, 0]},
        {"totals": [5, 900]},
        {"totals": [5, -1]},
        {"totals": [5, np.nan]},
    ],
)
def test_bad_input_gets_a_sentence(change):
    given = {"totals": [5, 6], "population": [10.0, 20.0, 30.0], "parent": [0, 0, 1], **change}
    with pytest.raises(InputError):
        share_out(SQUARES[:3], **given)


def test_the_error_of_the_number_of_draws_is_stated(smooth):
    """Mirrored draws leave less than independent ones would; many seeds show how much."""
    people, _, totals = world(0, 0.5, 0.2)
    found = [
        share_out(SQUARES, totals, people, PARENT, correlations=smooth, nodes=3, n_draws=200, random_state=seed)
        for seed in range(8)
    ]
    spread = np.std([f.mean for f in found], axis=0, ddof=1)
    assert np.median(spread / found[0].monte_carlo_error) < 0.4
    assert np.median(found[0].monte_carlo_error / found[0].draws.std(axis=0)) == pytest.approx(200**-0.5, rel=0.01)
    assert all(len(f.draws) == 200 for f in found)


def test_people_and_parents_are_matched_with_the_names_of_polygons():
    squares = Polygons([[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(4)], names=list("abcd"))
    smooth = area_correlations(squares, ["eq"], nodes=3)
    people = pd.Series([100.0, 200.0, 300.0, 400.0], index=list("abcd"))
    parent = pd.Series([0, 0, 1, 1], index=list("abcd"))

    def shared(population, own):
        return share_out(squares, [30, 60], population, own, correlations=smooth, nodes=3, n_draws=100).mean

    expected = shared(people.to_numpy(), parent.to_numpy())
    np.testing.assert_allclose(shared(people.iloc[[3, 1, 0, 2]], parent.iloc[[1, 3, 0, 2]]), expected)
