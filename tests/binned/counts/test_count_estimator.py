"""Counts through the estimator: totals kept, parts that add up, areas, shares, open ends, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import BinnedCountGP, BinnedGP, Boxes, Intervals, Polygons, WeightedSum, stack
from crosslevel.binned.counts.cells import bins_from_edges
from crosslevel.binned.counts.pooled import pool_counts
from crosslevel.binned.counts.targets import cell_shares
from crosslevel.errors import CrosslevelWarning, InputError

EDGES = np.arange(0, 100, 10)
AGES = Intervals.from_edges(EDGES)
PEOPLE = np.array([21.0, 34, 60, 52, 33, 25, 17, 9, 4])
LOW, HIGH = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
AUDIENCE = np.array([310.0, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120])
GENDER = ["women"] * 6 + ["men"] * 6


@pytest.fixture(scope="module")
def gp():
    return BinnedCountGP().fit(AGES, PEOPLE)


@pytest.fixture(scope="module")
def pooled():
    return BinnedCountGP().fit(Intervals(LOW, HIGH), AUDIENCE, pool={"gender": GENDER})


def test_totals_are_kept_and_everything_is_positive(gp):
    np.testing.assert_allclose(gp.predict(AGES), PEOPLE, rtol=1e-12)
    counts = gp.sample(AGES, n_draws=20, quantity="count", random_state=3)
    np.testing.assert_array_equal(counts, np.tile(PEOPLE, (20, 1)))
    years = Intervals.from_edges(np.arange(91))
    draws = gp.sample(years, n_draws=50)
    assert (draws > 0).all()
    assert (gp.predict(np.linspace(0, 90, 200)) > 0).all()
    whole = gp.sample(years, n_draws=50, quantity="count")
    assert (whole == np.round(whole)).all()
    np.testing.assert_array_equal(whole[:, 20:30].sum(axis=1), 60.0)


def test_parts_add_up_and_a_density_integrates_to_its_total(gp):
    parts = Intervals.from_edges([3.3, 17, 44.4, 81])
    mean, cov = gp.predict(stack(parts, Intervals([3.3], [81])), return_cov=True)
    assert mean[:3].sum() == pytest.approx(mean[3], rel=1e-12)
    assert cov[:3, :3].sum() == pytest.approx(cov[3, 3], rel=1e-9)
    middle = np.arange(0.25, 90, 0.5)
    assert gp.predict(middle).sum() * 0.5 == pytest.approx(PEOPLE.sum(), rel=1e-9)
    np.testing.assert_allclose(gp.predict(parts, quantity="mean") * parts.volumes, gp.predict(parts), rtol=1e-12)


def test_a_count_is_less_sure_than_its_expectation(gp):
    new = Intervals([25], [35])
    (expected,), (sure,) = gp.predict(new, return_std=True)
    (count,), (unsure,) = gp.predict(new, quantity="count", return_std=True)
    assert count == pytest.approx(expected, abs=1.0)
    assert unsure > 1.3 * sure
    row = gp.estimate(new).table.to_pylist()[0]
    assert row["count_low"] < row["conf_low"] < row["estimate"] < row["conf_high"] < row["count_high"]
    assert row["area_weighted"] == pytest.approx(56.0)


def test_gaussian_and_counts_agree_where_both_are_sure():
    rng = np.random.default_rng(1)
    y = rng.poisson(1000 * (2 + np.sin(EDGES[1:] / 15.0)))
    new = Intervals([12, 33], [27, 58])
    counts, normal = BinnedCountGP().fit(AGES, y).predict(new), BinnedGP().fit(AGES, y, quantity="total").predict(new)
    np.testing.assert_allclose(counts, normal, rtol=0.04)


def test_bands_hold_simulated_truths():
    """Single years behind 10-year bins, twelve histograms of curves the model does not know."""
    rng = np.random.default_rng(11)
    held = []
    years = np.arange(90)
    for _ in range(12):
        shape = 40 * np.exp(0.5 * np.sin(years / rng.uniform(8, 16) + rng.uniform(0, 6)) - years / 60)
        single = rng.poisson(shape)
        gp = BinnedCountGP().fit(AGES, single.reshape(9, 10).sum(axis=1), cell=1)
        draws = gp.sample(Intervals.from_edges(np.arange(91)), n_draws=500, quantity="count")
        low, high = np.quantile(draws, [0.025, 0.975], axis=0, method="inverted_cdf")
        held.append(((low <= single) & (single <= high)).mean())
    assert 0.9 < np.mean(held) < 0.995


def test_shares():
    share = 1 / (1 + np.exp(-(np.arange(90) - 45) / 12))
    trials = np.full(9, 4000.0)
    y = np.round(trials * share.reshape(9, 10).mean(axis=1))
    gp = BinnedCountGP("binomial").fit(AGES, y, trials=trials)
    found = gp.estimate(Intervals([5, 35, 62], [15, 55, 64]))
    np.testing.assert_allclose(
        found["estimate"], [share[5:15].mean(), share[35:55].mean(), share[62:64].mean()], atol=0.02
    )
    assert (found["conf_low"] > 0).all()
    assert gp.predict([45.0])[0] == pytest.approx(0.5, abs=0.03)
    with pytest.raises(InputError):
        gp.predict(AGES, quantity="total")


def test_areas_share_a_curve(pooled):
    table = AUDIENCE.reshape(2, 6)
    assert pooled.areas_ == ("women", "men")
    np.testing.assert_allclose(pooled.predict(Intervals(LOW[:6], HIGH[:6])), table, rtol=1e-12)
    fit = pool_counts(bins_from_edges([18, 25, 35, 45, 55, 65, 80]), table).area(1)
    expected = fit.draws().expected.mean(axis=0) @ cell_shares(fit.bins, np.array([[30.0]]), np.array([[42.0]])).T
    np.testing.assert_allclose(pooled.predict(Intervals([30], [42]), pool="men")[0], expected, rtol=0.02)
    found = pooled.estimate(Intervals([30, 50], [42, 60]))
    assert found.keys == ("gender", "lower", "upper")
    assert found["gender"].tolist() == ["women", "women", "men", "men"]
    assert len(pooled.estimate(pool=["men"])) == 6
    assert pooled.sample(Intervals([30], [42]), n_draws=7).shape == (2, 7, 1)
    mean, cov = pooled.predict(Intervals([30, 50], [42, 60]), return_cov=True)
    assert mean.shape == (2, 2)
    assert cov.shape == (2, 2, 2)


def test_the_order_of_rows_does_not_matter_and_areas_may_lack_a_bin(pooled):
    order = np.random.default_rng(0).permutation(12)
    shuffled = BinnedCountGP().fit(
        Intervals(np.array(LOW)[order], np.array(HIGH)[order]),
        AUDIENCE[order],
        pool=np.array(GENDER)[order],
    )
    new = Intervals([30], [42])
    assert shuffled.estimate(new).keys[0] == "area"
    at = [shuffled.areas_.index(a) for a in pooled.areas_]
    np.testing.assert_allclose(shuffled.predict(new)[at], pooled.predict(new), rtol=0.03)
    keep = np.arange(12) != 8
    lacking = BinnedCountGP().fit(
        Intervals(np.array(LOW)[keep], np.array(HIGH)[keep]), AUDIENCE[keep], pool=np.array(GENDER)[keep]
    )
    found = lacking.estimate(Intervals([35], [45]))
    assert found["std_error"][1] > 20 * found["std_error"][0]
    assert 500 < found["estimate"][1] < 1000


def test_ages_by_gender_as_boxes():
    code = np.repeat([0.0, 1.0], 6)
    bins = Boxes(np.column_stack([LOW, code]), np.column_stack([HIGH, code]), point_axes=[1])
    gp = BinnedCountGP().fit(bins, AUDIENCE)
    np.testing.assert_allclose(gp.predict(bins), AUDIENCE, rtol=1e-12)
    men, women = (Boxes([[30, g]], [[42, g]], point_axes=[1]) for g in (1, 0))
    either = WeightedSum(stack(men, women), [1, 1])
    (a,), (b,), (both,) = gp.predict(men), gp.predict(women), gp.predict(either)
    assert a + b == pytest.approx(both, rel=1e-12)
    assert a > b
    assert gp.estimate(either, quantity="count").table.num_rows == 1


def test_an_open_last_bin():
    low, high = [0, 20, 40, 60, 85], [20, 40, 60, 85, np.inf]
    ages = Intervals(low, high, open_ended=True)
    y = [900.0, 1000, 800, 600, 100]
    gp = BinnedCountGP().fit(ages, y, tail=6.0)
    found = gp.estimate()
    np.testing.assert_allclose(found["estimate"], y, rtol=1e-9)
    assert found.table["upper"].to_pylist()[-1] is None
    years = gp.estimate("single_years")
    assert len(years) == 86
    assert years["estimate"][-1] == pytest.approx(100)
    with pytest.raises(InputError):
        gp.estimate("singel_years")
    beyond = gp.predict(Intervals([85, 90, 95], [90, 95, np.inf], open_ended=True))
    assert beyond.sum() == pytest.approx(100.0)
    assert beyond[0] > beyond[1]
    assert beyond[0] == pytest.approx(100 * (1 - np.exp(-5 / 6)), rel=0.25)
    first = Intervals([-np.inf, 0, 10, 20], [0, 10, 20, 30], open_ended=True)
    before = BinnedCountGP().fit(first, [30, 50, 60, 20], tail=5.0)
    np.testing.assert_allclose(before.predict(first), [30, 50, 60, 20], rtol=1e-9)
    near, far = before.predict(Intervals([-5, -np.inf], [0, -5], open_ended=True))
    assert near + far == pytest.approx(30.0)
    assert near == pytest.approx(30 * (1 - np.exp(-1)), rel=0.25)
    with pytest.raises(InputError):
        BinnedCountGP().fit(ages, y)
    with pytest.raises(InputError):
        Intervals(low, high)
    with pytest.raises(InputError):
        BinnedGP().fit(ages, y, quantity="total")
    with pytest.raises(InputError):
        gp.predict(Intervals([85], [np.inf], open_ended=True), quantity="mean")


def test_gaps_and_what_lies_in_them():
    gp = BinnedCountGP().fit(Intervals([0, 10, 30], [10, 20, 40]), [50.0, 40, 20])
    assert any("1 gap(s)" in n and "upper limits are 10 and 20" in n for n in gp.warnings_)
    found = gp.estimate(Intervals([20, 5], [30, 15]))
    assert found["informed"].tolist() == [False, True]
    assert any("lie mostly where no count was observed" in w for w in found.warnings)
    assert np.isnan(found["area_weighted"].astype(float)[0])
    assert 10 < found["estimate"][0] < 60


def test_nested_bins_are_the_same_people_and_small_differences_are_told():
    nested = Intervals([0, 10, 0], [10, 20, 30])
    gp = BinnedCountGP().fit(nested, [50.0, 40, 120])
    assert gp.predict(Intervals([20], [30]))[0] == pytest.approx(30.0)
    with pytest.warns(CrosslevelWarning):
        BinnedCountGP().fit(Intervals([0, 0], [64, 65]), [5000, 5002])
    across = BinnedCountGP().fit(Intervals([0, 10, 20], [15, 25, 30]), [50, 40, 20])
    assert any("some bins overlap" in n for n in across.warnings_)
    with pytest.raises(InputError):
        BinnedCountGP().fit(Intervals([0, 0], [10, 20]), [50.0, 40])


@pytest.mark.parametrize(
    ("params", "call"),
    [
        ({}, {"y": [1.0, np.nan] + [1.0] * 7}),
        ({}, {"y": [1.0, -2] + [1.0] * 7}),
        ({}, {"y": [1.0, np.inf] + [1.0] * 7}),
        ({}, {"y": [1.0, 2]}),
        ({}, {"y": [0.0] * 9}),
        ({}, {"regions": Intervals([0], [10]), "y": [3]}),
        ({}, {"trials": [100] * 9}),
        ({}, {"regions": Polygons([[[0, 0], [1, 0], [0, 1]]]), "y": [3]}),
        ({}, {"regions": Polygons([[[0, 0], [1, 0], [0, 1]]] * 2), "y": [3, 4]}),
        ({}, {"regions": [1.0, 2.0], "y": [3, 4]}),
        ({}, {"cell": -1.0}),
        ({}, {"pool": ["a"]}),
        ({}, {"pool": ["a"] * 8 + [None]}),
        ({}, {"pool": {"a": [1], "b": [2]}}),
        ({}, {"pool": ["a"] * 9}),
        ({}, {"pool": ["a"] * 9, "preserve": True}),
        ({}, {"tail": 3.0}),
        ({"likelihood": "poison"}, {}),
        ({"kernel": "eqq"}, {}),
        ({"kernel": "white"}, {}),
        ({"kernel": 3}, {}),
        ({"likelihood": "binomial"}, {}),
        ({"likelihood": "binomial"}, {"trials": [5.0] * 3}),
        ({"likelihood": "binomial"}, {"trials": [1.0] * 9}),
        ({}, {"cell": "x"}),
        ({}, {"cell": True}),
        ({}, {"pool": [[1, 2]] * 8 + [[3]]}),
        ({}, {"regions": Intervals([0, 10, 0, 0], [10, 20, 10, 10]), "y": [1, 2, 3, 4], "pool": list("aaab")}),
    ],
)
def test_bad_input(params, call):
    given = {"regions": AGES, "y": PEOPLE} | call
    with pytest.raises(InputError):
        BinnedCountGP(**params).fit(given.pop("regions"), given.pop("y"), **given)


def test_bad_questions(gp, pooled):
    fractions = BinnedCountGP(kernel="eq").fit(AGES, PEOPLE + 0.5)
    for ask in (
        lambda: gp.predict(AGES, quantity="rate"),
        lambda: gp.predict(Intervals([80], [95])),
        lambda: gp.predict(AGES, pool="men"),
        lambda: gp.predict([3.0], quantity="count"),
        lambda: gp.predict([[3.0, 1.0]]),
        lambda: pooled.predict(AGES[2:3], pool="man"),
        lambda: fractions.predict(AGES, quantity="count"),
    ):
        with pytest.raises(InputError):
            ask()


def test_totals_that_are_kept_have_no_error():
    model = BinnedCountGP().fit(
        Intervals.ages(["0-17", "18-24", "25-44", "45-64", "65+"]), [8120, 4301, 11020, 9800, 28920], tail=8
    )
    kept = model.estimate()
    assert (kept["std_error"] == 0).all()
    assert (kept["conf_low"] == kept["estimate"]).all()
    assert (kept["conf_high"] == kept["estimate"]).all()


def test_what_is_known_of_a_bin_is_not_lost_among_its_cells():
    """Half a million people tell the rate of a wide bin to a thousandth of it, whatever its cells may be."""
    wide = Intervals.from_edges([0, 20, 40, 60, 80])
    events, people = np.array([1000.0, 5000, 20000, 90000]), np.array([1e6, 1.2e6, 9e5, 4e5])
    share = events / people
    binomial = BinnedCountGP("binomial").fit(wide, events, trials=people).estimate()
    of_share = np.sqrt(share * (1 - share) / people)
    free = BinnedCountGP().fit(wide, events, preserve=False).estimate()
    for found, truth, error in ((binomial, share, of_share), (free, events, np.sqrt(events))):
        np.testing.assert_allclose(found["estimate"], truth, atol=3.5 * error.max() / 10, rtol=0.01)
        np.testing.assert_allclose(found["std_error"], error, rtol=0.15)


def test_overlapping_bins_of_areas_keep_what_is_known_of_them():
    bins = Intervals([0, 20, 10, 40], [20, 40, 30, 60])
    counts = np.array([9000.0, 7000, 8100, 5000])
    pooled = BinnedCountGP(kernel="eq").fit(
        Intervals(np.tile(bins.lower, 2), np.tile(bins.upper, 2)), np.tile(counts, 2), pool=["a"] * 4 + ["b"] * 4
    )
    found = pooled.estimate(bins, pool="a")
    np.testing.assert_allclose(found["estimate"], counts, rtol=0.03)
    assert (found["std_error"] < 1.5 * np.sqrt(counts)).all()
    assert (found["std_error"] > 0.4 * np.sqrt(counts)).all()


def test_the_share_of_everybody_is_that_of_the_totals():
    cases, people = [10, 8, 40, 190, 500, 410], np.array([21400, 9700, 30100, 26800, 11900, 3600.0])
    ages = Intervals.ages(["0-17", "18-24", "25-44", "45-64", "65-79", "80-99"])
    gp = BinnedCountGP("binomial").fit(ages, cases, trials=people)
    assert gp.predict(Intervals.ages(["0-99"]))[0] == pytest.approx(sum(cases) / people.sum(), rel=0.02)


def test_a_total_of_one_area_adds_nothing_and_may_not_contradict():
    low, high, pool = [*LOW, 18], [*HIGH, 80], [*GENDER, "men"]
    with_total = BinnedCountGP(kernel="eq").fit(Intervals(low, high), [*AUDIENCE, 2510], pool=pool)
    without = BinnedCountGP(kernel="eq").fit(Intervals(LOW, HIGH), AUDIENCE, pool=GENDER)
    asked = Intervals([18, 30, 18], [25, 42, 80])
    np.testing.assert_allclose(with_total.predict(asked), without.predict(asked), rtol=0.01)
    assert with_total.predict(asked)[1, 0] == pytest.approx(290)
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(Intervals(low, high), [*AUDIENCE, 100], pool=pool)
