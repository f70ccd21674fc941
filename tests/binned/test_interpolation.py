"""Totals carried over to other areas: totals, margins, coverage, what geometry tells, bad inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

from crosslevel.binned import Polygons, interpolate
from crosslevel.binned.counts.likelihoods import PoissonBins
from crosslevel.binned.counts.modes import find_modes
from crosslevel.binned.densities import Counted, Parts
from crosslevel.errors import CrosslevelWarning, InputError

pytest.importorskip("shapely")


def box(x, y, width, height):
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]


def grid(columns, rows, width, height, **options):
    return Polygons([box(i * width, j * height, width, height) for i in range(columns) for j in range(rows)], **options)


FINE = grid(12, 12, 1, 1)
SOURCE, TARGET = grid(4, 4, 3, 3), grid(6, 3, 2, 4)


def world(seed, s=0.8, t=0.3):
    """Counts of 144 squares: a smooth density and a rough part."""
    rng = np.random.default_rng(seed)
    middle = np.array([[i + 0.5, j + 0.5] for i in range(12) for j in range(12)])
    apart = np.sqrt(((middle[:, None] - middle) ** 2).sum(axis=2)) / 4.0
    R = (1 + np.sqrt(3) * apart) * np.exp(-np.sqrt(3) * apart)
    f = 5 + s * np.linalg.cholesky(R + 1e-9 * np.eye(144)) @ rng.normal(size=144) + t * rng.normal(size=144)
    return rng.poisson(np.exp(f)).astype(float), middle


def sums(counts, middle, width, height, rows):
    place = (middle[:, 0] // width * rows + middle[:, 1] // height).astype(int)
    return np.bincount(place, counts)


def test_a_target_that_reaches_out_counts_the_people_of_the_covered_ground():
    """200 people on 2 x 1, half of it outside of the source: 100 people inside, as many as in the other target."""
    target = Polygons([box(0, 0, 1, 1), box(1, 0, 2, 1)])
    with pytest.warns(CrosslevelWarning):
        found = interpolate(Polygons([box(0, 0, 2, 1)]), target, [100.0], population=[100.0, 200.0])
    assert found["people_weighted"].tolist() == pytest.approx([50.0, 50.0])


def test_totals_are_kept_and_beat_area_weighting_with_intervals_that_cover():
    ours, plain, inside, wide = [], [], [], []
    for seed in range(8):
        counts, middle = world(seed)
        y, truth = sums(counts, middle, 3, 3, 4), sums(counts, middle, 2, 4, 3)
        found = interpolate(SOURCE, TARGET, y)
        assert found["estimate"].sum() == pytest.approx(y.sum(), rel=1e-9)
        assert (found["conf_low"] >= 0).all()
        ours.append(np.abs(found["estimate"] - truth).sum())
        plain.append(np.abs(found["area_weighted"] - truth).sum())
        inside.append((found["conf_low"] <= truth) & (truth <= found["conf_high"]))
        wide.append(found["std_error"].sum())
    assert np.sum(ours) < 0.85 * np.sum(plain)
    assert np.mean(inside) >= 0.92
    assert np.sum(wide) < 2.5 * np.sum(
        ours
    )  # a normal error has a mean size of 0.8 standard deviations: not twice too wide


HALVES, WHOLE = grid(4, 4, 1, 1), grid(2, 2, 2, 2)
RATES = np.array([0.10, 0.29, 0.22, 0.15, 0.25, 0.27, 0.11, 0.24, 0.20, 0.28, 0.26, 0.13, 0.26, 0.12, 0.24, 0.18])


def nested(weight):
    """Weighted means of the sources inside each target."""
    part = np.array([(i // 4 // 2) * 2 + i % 4 // 2 for i in range(16)])
    return np.bincount(part, weight * RATES) / np.bincount(part, weight)


@pytest.mark.parametrize("kind", ["mean", "rate"])
def test_means_and_rates_are_averaged_not_added_up(kind):
    """Four rates of .10 to .29 were said to be .93 together."""
    people = np.arange(16) * 10.0 + 50.0
    found = interpolate(HALVES, WHOLE, RATES, kind=kind, population=people)
    np.testing.assert_allclose(found["estimate"], nested(people), rtol=1e-9)
    np.testing.assert_allclose(found["people_weighted"], nested(people), rtol=1e-9)
    assert not found.warnings
    crossing = interpolate(HALVES, grid(3, 1, 4 / 3, 4), RATES, kind=kind, population=people)
    assert ((crossing["estimate"] > RATES.min()) & (crossing["estimate"] < RATES.max())).all()


def test_without_people_a_mean_is_that_of_the_ground():
    found = interpolate(HALVES, WHOLE, 100 * RATES, kind="mean")
    np.testing.assert_allclose(found["estimate"], 100 * nested(np.ones(16)), rtol=1e-9)
    with pytest.raises(InputError):
        interpolate(HALVES, WHOLE, RATES, kind="rate")


def test_totals_that_look_like_rates_are_said():
    for values in (RATES, 100 * RATES + 0.5):
        with pytest.warns(CrosslevelWarning) as said:
            found = interpolate(HALVES, WHOLE, values)
        assert [str(said[0].message)] == list(found.warnings)
    assert not interpolate(HALVES, WHOLE, np.round(1000 * RATES)).warnings


def test_a_nested_target_adds_up_to_its_source():
    counts, middle = world(3)
    y = sums(counts, middle, 3, 3, 4)
    found = interpolate(SOURCE, FINE, y)
    np.testing.assert_allclose(sums(found["estimate"], middle, 3, 3, 4), y, rtol=1e-9)


def test_intervals_carry_the_margins():
    """Where targets are the sources, all uncertainty is that of the totals; it adds to the rest elsewhere."""
    y, error = np.array([900.0, 400.0, 100.0, 0.0] * 4), np.array([90.0, 40.0, 30.0, 12.0] * 4)
    same = interpolate(SOURCE, SOURCE, y, error)
    np.testing.assert_allclose(same["estimate"], y, rtol=1e-9)
    some = y > 0
    np.testing.assert_allclose(same["std_error"][some], error[some], rtol=0.05)
    np.testing.assert_allclose(same["conf_high"][some], (y + 1.96 * error)[some], rtol=0.1)
    assert (same["conf_low"] >= 0).all()
    exact = interpolate(SOURCE, SOURCE, y)
    np.testing.assert_allclose(exact["conf_high"], y)
    smooth = sums(*world(0), 3, 3, 4)
    wide = (
        interpolate(SOURCE, TARGET, smooth, 0.3 * smooth)["std_error"]
        / interpolate(SOURCE, TARGET, smooth)["std_error"]
    )
    assert wide.min() > 1.03


def test_the_size_of_targets_tells_where_people_are():
    """Small targets where people are dense: 60 sources of which halves differ in size show it, and the split is then nearly even."""
    rng = np.random.default_rng(5)
    cut = rng.uniform(0.1, 0.9, 60)
    people = np.rint(200 * np.exp(0.1 * rng.normal(size=(60, 2)))).astype(float)
    deep = rng.uniform(1.0, 20.0, 60)
    corner = np.append(0.0, np.cumsum(deep))
    source = Polygons([box(0, corner[i], 1, deep[i]) for i in range(60)])
    parts = [[box(0, corner[i], cut[i], deep[i]), box(cut[i], corner[i], 1 - cut[i], deep[i])] for i in range(60)]
    target = Polygons([p for pair in parts for p in pair])
    found = interpolate(source, target, people.sum(axis=1), population="similar")
    off = np.abs(found["estimate"] - people.ravel()).sum() / np.abs(found["area_weighted"] - people.ravel()).sum()
    assert off < 0.35
    truth = people.ravel()
    assert 0.88 <= np.mean((found["conf_low"] <= truth) & (truth <= found["conf_high"])) <= 1.0


def test_people_of_the_targets_are_weights():
    people = np.array([100.0, 300.0])
    found = interpolate(grid(1, 1, 2, 1), grid(2, 1, 1, 1), [40], population=people)
    np.testing.assert_allclose(found["people_weighted"], [10, 30])
    np.testing.assert_allclose(found["estimate"], [10, 30], rtol=0.15)


def test_what_carries_names_is_matched_by_name():
    named = Polygons([box(i, 0, 1, 1) for i in range(4)], names=list("abcd"))
    target = Polygons([box(0, 0, 2, 1), box(2, 0, 2, 1)], names=["left", "right"])
    y = pd.Series([5, 60, 70, 8], index=list("dcba"))
    error = pd.Series([4.0, 3.0, 2.0, 1.0], index=list("abcd"))
    found = interpolate(named, target, y, error)
    straight = interpolate(named, target, [8, 70, 60, 5], [4.0, 3.0, 2.0, 1.0])
    assert found["estimate"].tolist() == straight["estimate"].tolist()
    assert found.keys == ("polygon",)
    people = pd.Series([100, 900], index=["right", "left"])
    assert interpolate(named, target, y, population=people)["people_weighted"].tolist() == [78.0, 65.0]
    with pytest.raises(InputError):
        interpolate(named, target, y, error.rename({"a": "z"}))


def test_ground_that_only_one_set_covers_is_said():
    source, right = grid(3, 1, 2, 1), Polygons([box(2, 0, 2, 1), box(4, 0, 4, 1)])
    with pytest.warns(CrosslevelWarning) as said:
        found = interpolate(source, right, [10, 20, 30])
    texts = [str(w.message) for w in said]
    assert any("1 target polygon(s) reach beyond the sources (1)" in t for t in texts)
    assert any("1 source polygon(s) reach beyond the targets (0)" in t for t in texts)
    assert list(found.warnings) == texts
    np.testing.assert_allclose(found["estimate"], [20, 30])


def test_borders_drawn_twice_make_no_parts():
    shifted = Polygons([box(i * 3 + 1e-4, j * 3, 3, 3) for i in range(4) for j in range(4)])
    found = interpolate(SOURCE, shifted, np.arange(16.0))
    assert found.diagnostics["parts"] == 16
    np.testing.assert_allclose(found["estimate"], np.arange(16.0))


KM = Polygons([[[0.0, 50.0], [0.1, 50.0], [0.1, 50.1], [0.0, 50.1]]], crs="degrees", project="local")
NAMED = grid(3, 1, 2, 1, names=list("abc"))


@pytest.mark.parametrize(
    "change",
    [
        {"values": [1.0, 2.0]},
        {"values": [1.0, -2.0, 3.0]},
        {"values": [1.0, np.nan, 3.0]},
        {"values": [1.0, 1e17, 3.0]},
        {"values": pd.Series([1.0, 2.0, 3.0], index=list("abd")), "source": NAMED},
        {"std_error": [1.0, 2.0]},
        {"std_error": [1.0, -2.0, 1.0]},
        {"population": [1.0]},
        {"population": [0.0, 0.0, 9.0]},
        {"population": pd.Series([1.0, 2.0, 3.0], index=list("abd")), "target": NAMED},
        {"target": Polygons([box(50, 50, 1, 1)])},
        {"target": Polygons([box(0, 0, 6, 1)] * 2)},
        {"source": Polygons([box(0, 0, 4, 1), box(3, 0, 4, 1), box(7, 0, 1, 1)])},
        {"source": KM, "values": [4.0]},
        {"source": "map.geojson"},
        {"population": "similar", "kind": "mean"},
        {"population": "yes"},
        {"level": 95},
    ],
)
def test_bad_input_is_refused(change):
    given = {"source": grid(3, 1, 2, 1), "target": grid(3, 1, 2, 1), "values": [1.0, 2.0, 3.0]}
    with pytest.raises((InputError, TypeError)):
        interpolate(**(given | change))


def test_standard_errors_of_any_size_are_right_or_refused():
    counts = np.arange(1.0, 17.0) * 50
    plain = interpolate(SOURCE, TARGET, counts)
    tiny = interpolate(SOURCE, TARGET, counts, np.full(16, 1e-200))
    for name in ("std_error", "conf_low", "conf_high"):
        np.testing.assert_allclose(tiny[name], plain[name], rtol=1e-6)
    with pytest.raises(InputError):
        interpolate(SOURCE, TARGET, counts, np.where(np.arange(16) == 3, 1e200, 1.0))


@pytest.mark.parametrize("ratio", [1.5, 3.0, 10.0, 100.0])
def test_a_total_with_a_wide_margin_has_a_wide_interval(ratio):
    nested = grid(2, 1, 1, 1)
    found = interpolate(nested, nested, [90, 900], [90 * ratio, 0])
    high = float(found["conf_high"][0])
    assert 90 * (1 + 1.9 * ratio) < high < 90 * (1 + 3.2 * ratio)
    np.testing.assert_allclose(found["estimate"], [90, 900])


def test_fast_modes_are_those_of_any_bins():
    """The same mode and evidence as the solver that knows nothing of disjoint sources."""
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(5), 3)
    parts = Parts(rng.normal(size=(15, 2)), of, of, np.ones(15))
    counted = Counted(parts, rng.poisson(40, 5).astype(float), rng.uniform(1, 9, 15), 1.0)
    root = rng.normal(size=(15, 15))
    K, C = root @ root.T / 15 + 0.1 * np.eye(15), np.zeros((5, 15))
    C[of, np.arange(15)] = counted.weight
    any_bins = find_modes(K, C, PoissonBins(counted.y[None]), np.ones(15))
    f, evidence = counted.climb(K, np.zeros(15))
    np.testing.assert_allclose(f, any_bins.f[0], atol=1e-6)
    assert evidence == pytest.approx(any_bins.log_evidence[0] + gammaln(counted.y + 1).sum(), abs=1e-6)


def borough(seed, s, t, length=3.0):
    """People of 64 squares, a group among them, and the 16 parents of four squares each, from rates with a smooth and a rough part."""
    rng = np.random.default_rng(seed)
    people = rng.integers(1000, 2500, 64).astype(float)
    middle = np.array([[i + 0.5, j + 0.5] for i in range(8) for j in range(8)])
    R = np.exp(-0.5 * ((middle[:, None] - middle) ** 2).sum(axis=2) / length**2)
    f = -1.5 + s * np.linalg.cholesky(R + 1e-9 * np.eye(64)) @ rng.normal(size=64) + t * rng.normal(size=64)
    counts = rng.binomial(people.astype(int), 1 / (1 + np.exp(-f))).astype(float)
    parent = (middle[:, 0] // 2 * 4 + middle[:, 1] // 2).astype(int)
    totals = np.bincount(parent, counts)
    nested = people * (totals / np.bincount(parent, people))[parent]
    return people, counts, totals, nested


SMALL, LARGE = grid(8, 8, 1, 1), grid(4, 4, 2, 2)


@pytest.mark.parametrize(("s", "t", "most"), [(0.8, 0.02, 0.85), (0.0, 0.4, 1.04)])
def test_a_smooth_world_is_found_better_than_by_the_nested_rate(s, t, most):
    """And a world without pattern hardly worse: both over several draws."""
    ours, plain = 0.0, 0.0
    for seed in range(4):
        people, counts, totals, nested = borough(seed, s, t)
        found = interpolate(LARGE, SMALL, totals, population=people)
        np.testing.assert_allclose(found["people_weighted"], nested)
        ours += np.sum((found["estimate"] - counts) ** 2)
        plain += np.sum((nested - counts) ** 2)
    assert np.sqrt(ours / plain) < most


def test_intervals_among_people_hold_what_they_should():
    inside = []
    for seed in range(6):
        people, counts, totals, _ = borough(seed, 0.4, 0.25)
        found = interpolate(LARGE, SMALL, totals, population=people)
        inside.append((found["conf_low"] <= counts) & (counts <= found["conf_high"]))
    assert 0.90 < np.mean(inside) < 0.995


def test_order_of_areas_does_not_matter():
    people, _, totals, _ = borough(1, 0.5, 0.2)
    order = np.random.default_rng(0).permutation(64)
    one = interpolate(LARGE, SMALL, totals, population=people)
    two = interpolate(LARGE, SMALL[order], totals, population=people[order])
    # means over 2,000 draws: a few Monte Carlo errors
    np.testing.assert_allclose(two["estimate"], one["estimate"][order], atol=6 * one["std_error"].max() / 2000**0.5)


def test_parks_get_nothing():
    people, counts, _, _ = borough(2, 0.5, 0.2)
    park = np.arange(64) % 4 == 1
    people, counts = np.where(park, 0.0, people), np.where(park, 0.0, counts)
    parent = np.array([(i // 8 // 2) * 4 + i % 8 // 2 for i in range(64)])
    found = interpolate(LARGE, SMALL, np.bincount(parent, counts), population=people)
    assert (found["estimate"][park] == 0).all()
    assert (found["conf_high"][park] == 0).all()
