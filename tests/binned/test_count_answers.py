"""Counts through the estimator: totals kept, parts that add up, areas, shares, rates, open ends, and sentences."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import BinnedGP, Boxes, Intervals, Polygons, WeightedSum, stack
from crosslevel.binned.counts import bins_from_edges, fit_counts, pool_counts
from crosslevel.errors import CrosslevelWarning, InputError

EDGES = np.arange(0, 100, 10)
AGES = Intervals.from_edges(EDGES)
PEOPLE = np.array([21.0, 34, 60, 52, 33, 25, 17, 9, 4])
LOW, HIGH = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
AUDIENCE = np.array([310.0, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120])
GENDER = ["women"] * 6 + ["men"] * 6


@pytest.fixture(scope="module")
def gp():
    return BinnedGP(likelihood="poisson").fit(AGES, PEOPLE, kind="total")


@pytest.fixture(scope="module")
def pooled():
    return BinnedGP(likelihood="poisson").fit(Intervals(LOW, HIGH), AUDIENCE, kind="total", pool={"gender": GENDER})


def test_the_answer_is_that_of_the_array_functions(gp):
    bands = fit_counts(bins_from_edges(EDGES), PEOPLE).predict([25, 3], [35, 41], random_state=0)
    mean, std = gp.predict(Intervals([25, 3], [35, 41]), return_std=True)
    np.testing.assert_allclose(mean, bands.estimate, rtol=1e-12)
    np.testing.assert_allclose(std, bands.std_error, rtol=1e-12)
    found = gp.estimates(Intervals([25, 3], [35, 41]))
    np.testing.assert_allclose(found["conf_low"], bands.low, rtol=1e-12)


def test_totals_are_kept_and_everything_is_positive(gp):
    np.testing.assert_allclose(gp.predict(AGES), PEOPLE, rtol=1e-12)
    counts = gp.sample(AGES, n=20, kind="count", random_state=3)
    np.testing.assert_array_equal(counts, np.tile(PEOPLE, (20, 1)))
    years = Intervals.from_edges(np.arange(91))
    draws = gp.sample(years, n=50)
    assert (draws > 0).all()
    assert (gp.predict(np.linspace(0, 90, 200)) > 0).all()
    whole = gp.sample(years, n=50, kind="count")
    assert (whole == np.round(whole)).all()
    np.testing.assert_array_equal(whole[:, 20:30].sum(axis=1), 60.0)


def test_parts_add_up_and_a_density_integrates_to_its_total(gp):
    parts = Intervals.from_edges([3.3, 17, 44.4, 81])
    mean, cov = gp.predict(stack(parts, Intervals([3.3], [81])), return_cov=True)
    assert mean[:3].sum() == pytest.approx(mean[3], rel=1e-12)
    assert cov[:3, :3].sum() == pytest.approx(cov[3, 3], rel=1e-9)
    middle = np.arange(0.25, 90, 0.5)
    assert gp.predict(middle).sum() * 0.5 == pytest.approx(PEOPLE.sum(), rel=1e-9)
    np.testing.assert_allclose(gp.predict(parts, kind="mean") * parts.volumes, gp.predict(parts), rtol=1e-12)


def test_a_count_is_less_sure_than_its_expectation(gp):
    new = Intervals([25], [35])
    (expected,), (sure,) = gp.predict(new, return_std=True)
    (count,), (unsure,) = gp.predict(new, kind="count", return_std=True)
    assert count == pytest.approx(expected, abs=1.0)
    assert unsure > 1.3 * sure
    row = gp.estimates(new).table.to_pylist()[0]
    assert row["count_low"] < row["conf_low"] < row["estimate"] < row["conf_high"] < row["count_high"]
    assert row["area_weighted"] == pytest.approx(56.0)
    assert 45 < row["pclm"] < 65


def test_fit_says_how_it_went(gp):
    assert gp.converged_
    assert "9 bins over 90 cells" in gp.path_
    assert sum(v for k, v in gp.hyperparameters_.items() if k.startswith("weight_")) == pytest.approx(1.0)
    assert gp.notes_ == ()
    told = gp.estimates().diagnostics
    assert set(told["skill"]["skill"]) == {"uniform", "pclm"}
    assert told["leave_one_out"]["log_score"] == pytest.approx(gp.loo_.mean_log_density)
    assert gp.skill().skill["uniform"] > 0
    assert "skill on bins merged in pairs" in gp.summary()


def test_gaussian_and_counts_agree_where_both_are_sure():
    rng = np.random.default_rng(1)
    y = rng.poisson(1000 * (2 + np.sin(EDGES[1:] / 15.0)))
    new = Intervals([12, 33], [27, 58])
    counts, normal = (
        BinnedGP(likelihood=name).fit(AGES, y, kind="total").predict(new) for name in ("poisson", "gaussian")
    )
    np.testing.assert_allclose(counts, normal, rtol=0.04)


def test_bands_hold_simulated_truths():
    """Single years behind 10-year bins, twelve histograms of curves the model does not know."""
    rng = np.random.default_rng(11)
    held = []
    years = np.arange(90)
    for _ in range(12):
        shape = 40 * np.exp(0.5 * np.sin(years / rng.uniform(8, 16) + rng.uniform(0, 6)) - years / 60)
        single = rng.poisson(shape)
        gp = BinnedGP(likelihood="poisson").fit(AGES, single.reshape(9, 10).sum(axis=1), kind="total", cell=1)
        draws = gp.sample(Intervals.from_edges(np.arange(91)), n=500, kind="count")
        low, high = np.quantile(draws, [0.025, 0.975], axis=0, method="inverted_cdf")
        held.append(((low <= single) & (single <= high)).mean())
    assert 0.9 < np.mean(held) < 0.995


def test_kernels_are_names_to_average_over():
    smooth = BinnedGP("eq", "poisson").fit(AGES, PEOPLE, kind="total")
    assert smooth.hyperparameters_["weight_eq"] == pytest.approx(1.0)
    both = BinnedGP("eq + matern32", "poisson").fit(AGES, PEOPLE, kind="total")
    assert {"weight_eq", "weight_matern32"} <= set(both.hyperparameters_)


def test_negative_binomial_is_wider(gp):
    wide = BinnedGP(likelihood="negative_binomial").fit(AGES, PEOPLE, kind="total")
    new = Intervals([5], [17])
    assert wide.predict(new, return_std=True)[1] > gp.predict(new, return_std=True)[1]
    with pytest.raises(InputError, match="leave-one-out is for Poisson fits"):
        _ = wide.loo_
    assert wide.estimates(new).diagnostics["leave_one_out"] is None


def test_shares():
    share = 1 / (1 + np.exp(-(np.arange(90) - 45) / 12))
    trials = np.full(9, 4000.0)
    y = np.round(trials * share.reshape(9, 10).mean(axis=1))
    gp = BinnedGP(likelihood="binomial").fit(AGES, y, kind="total", trials=trials)
    found = gp.estimates(Intervals([5, 35, 62], [15, 55, 64]))
    np.testing.assert_allclose(
        found["estimate"], [share[5:15].mean(), share[35:55].mean(), share[62:64].mean()], atol=0.02
    )
    assert (found["conf_low"] > 0).all()
    assert gp.predict([45.0])[0] == pytest.approx(0.5, abs=0.03)
    with pytest.raises(InputError, match="depends on its trials"):
        gp.predict(AGES, kind="total")


def test_rates():
    people = np.array([2000.0, 2100, 1900, 1800, 1700, 1500, 1200, 800, 300])
    rate = 0.001 * np.exp(np.arange(90) / 18)
    deaths = np.round(people * rate.reshape(9, 10).mean(axis=1))
    gp = BinnedGP(likelihood="poisson").fit(AGES, deaths, kind="total", exposure=people)
    found, std = gp.predict(Intervals([55, 70], [60, 72]), kind="rate", return_std=True)
    truth = np.array([rate[55:60].mean(), rate[70:72].mean()])
    assert (np.abs(found - truth) < 3 * std).all()
    np.testing.assert_allclose(found, truth, rtol=0.15)
    np.testing.assert_allclose(gp.predict(AGES), deaths, rtol=1e-9)  # totals of events are kept
    model = gp._counts
    both = np.tile(np.eye(model.bins.n_cells), 2)  # log events = log people + log rate
    np.testing.assert_allclose(model.fit.mean, both @ model.rates.mean)
    np.testing.assert_allclose(model.fit.covariance, both @ model.rates.covariance @ both.T, atol=1e-10)
    other = (Intervals.from_edges([0, 30, 60, 90]), people.reshape(3, 3).sum(axis=1))
    wide = BinnedGP(likelihood="poisson").fit(AGES, deaths, kind="total", exposure=other)
    assert wide.predict(Intervals([55], [60]), kind="rate", return_std=True)[1] > std[0]
    with pytest.raises(InputError, match="this fit is of rates"):
        _ = gp.loo_


def test_areas_share_a_curve(pooled):
    table = AUDIENCE.reshape(2, 6)
    assert pooled.areas_ == ("women", "men")
    np.testing.assert_allclose(pooled.predict(Intervals(LOW[:6], HIGH[:6])), table, rtol=1e-12)
    fit = pool_counts([18, 25, 35, 45, 55, 65, 80], table)
    expected = fit.area(1).predict([30], [42]).estimate
    np.testing.assert_allclose(pooled.predict(Intervals([30], [42]), pool="men")[0], expected, rtol=0.02)
    found = pooled.estimates(Intervals([30, 50], [42, 60]))
    assert found.keys == ("gender", "lower", "upper")
    assert found["gender"].tolist() == ["women", "women", "men", "men"]
    assert len(pooled.estimates(pool=["men"])) == 6
    assert pooled.sample(Intervals([30], [42]), n=7).shape == (2, 7, 1)
    mean, cov = pooled.predict(Intervals([30, 50], [42, 60]), return_cov=True)
    assert mean.shape == (2, 2)
    assert cov.shape == (2, 2, 2)
    assert 0 <= pooled.loo_.coverage() <= 1


def test_the_order_of_rows_does_not_matter_and_areas_may_lack_a_bin(pooled):
    order = np.random.default_rng(0).permutation(12)
    shuffled = BinnedGP(likelihood="poisson").fit(
        Intervals(np.array(LOW)[order], np.array(HIGH)[order]),
        AUDIENCE[order],
        kind="total",
        pool=np.array(GENDER)[order],
    )
    new = Intervals([30], [42])
    assert shuffled.estimates(new).keys[0] == "area"
    at = [shuffled.areas_.index(a) for a in pooled.areas_]
    np.testing.assert_allclose(shuffled.predict(new)[at], pooled.predict(new), rtol=0.03)
    keep = np.arange(12) != 8
    lacking = BinnedGP(likelihood="poisson").fit(
        Intervals(np.array(LOW)[keep], np.array(HIGH)[keep]), AUDIENCE[keep], kind="total", pool=np.array(GENDER)[keep]
    )
    found = lacking.estimates(Intervals([35], [45]))
    assert found["std_error"][1] > 20 * found["std_error"][0]
    assert 500 < found["estimate"][1] < 1000


def test_what_pooled_areas_are_told():
    low, high = [0, 0, 70] * 2, [64, 65, 90] * 2
    with pytest.warns(CrosslevelWarning, match=r"\[64, 65\) holds 2.*This is area 'b'"):
        gp = BinnedGP(likelihood="poisson").fit(
            Intervals(low, high), [5000, 5100, 900, 5000, 5002, 700], kind="total", pool=list("aaabbb")
        )
    assert any("1 gap(s)" in n and "from 65 to 70" in n for n in gp.notes_)


def test_ages_by_gender_as_boxes():
    code = np.repeat([0.0, 1.0], 6)
    bins = Boxes(np.column_stack([LOW, code]), np.column_stack([HIGH, code]), point_axes=[1])
    gp = BinnedGP(likelihood="poisson").fit(bins, AUDIENCE, kind="total")
    np.testing.assert_allclose(gp.predict(bins), AUDIENCE, rtol=1e-12)
    men, women = (Boxes([[30, g]], [[42, g]], point_axes=[1]) for g in (1, 0))
    either = WeightedSum(stack(men, women), [1, 1])
    (a,), (b,), (both,) = gp.predict(men), gp.predict(women), gp.predict(either)
    assert a + b == pytest.approx(both, rel=1e-12)
    assert a > b
    assert gp.estimates(either, kind="count").table.num_rows == 1


def test_an_open_last_bin():
    low, high = [0, 20, 40, 60, 85], [20, 40, 60, 85, np.inf]
    ages = Intervals(low, high, open_ended=True)
    y = [900.0, 1000, 800, 600, 100]
    gp = BinnedGP(likelihood="poisson").fit(ages, y, kind="total", tail=6.0)
    found = gp.estimates()
    np.testing.assert_allclose(found["estimate"], y, rtol=1e-9)
    assert found.table["upper"].to_pylist()[-1] is None
    beyond = gp.predict(Intervals([85, 90, 95], [90, 95, np.inf], open_ended=True))
    assert beyond.sum() == pytest.approx(100.0)
    assert beyond[0] > beyond[1]
    assert beyond[0] == pytest.approx(100 * (1 - np.exp(-5 / 6)), rel=0.25)
    first = Intervals([-np.inf, 0, 10, 20], [0, 10, 20, 30], open_ended=True)
    before = BinnedGP(likelihood="poisson").fit(first, [30, 50, 60, 20], kind="total", tail=5.0)
    np.testing.assert_allclose(before.predict(first), [30, 50, 60, 20], rtol=1e-9)
    near, far = before.predict(Intervals([-5, -np.inf], [0, -5], open_ended=True))
    assert near + far == pytest.approx(30.0)
    assert near == pytest.approx(30 * (1 - np.exp(-1)), rel=0.25)
    with pytest.raises(InputError, match="regions has an open end; pass tail="):
        BinnedGP(likelihood="poisson").fit(ages, y, kind="total")
    with pytest.raises(InputError, match=r"upper is infinite in row 4.*open_ended=True"):
        Intervals(low, high)
    with pytest.raises(InputError, match="the Gaussian model needs one"):
        BinnedGP().fit(ages, y, kind="total")
    with pytest.raises(InputError, match="of an interval without end is not defined"):
        gp.predict(Intervals([85], [np.inf], open_ended=True), kind="mean")


def test_gaps_and_what_lies_in_them():
    gp = BinnedGP(likelihood="poisson").fit(Intervals([0, 10, 30], [10, 20, 40]), [50.0, 40, 20], kind="total")
    assert any("1 gap(s)" in n and "upper limits are 10 and 20" in n for n in gp.notes_)
    found = gp.estimates(Intervals([20, 5], [30, 15]))
    assert found["informed"].tolist() == [False, True]
    assert any("lie mostly where no count was observed" in w for w in found.warnings)
    assert np.isnan(found["area_weighted"].astype(float)[0])
    assert 10 < found["estimate"][0] < 60


def test_nested_bins_are_the_same_people_and_small_differences_are_told():
    nested = Intervals([0, 10, 0], [10, 20, 30])
    gp = BinnedGP(likelihood="poisson").fit(nested, [50.0, 40, 120], kind="total")
    assert gp.predict(Intervals([20], [30]))[0] == pytest.approx(30.0)
    with pytest.warns(CrosslevelWarning, match=r"reveal 1 small unit.*\[64, 65\) holds 2"):
        BinnedGP(likelihood="poisson").fit(Intervals([0, 0], [64, 65]), [5000, 5002], kind="total")
    across = BinnedGP(likelihood="poisson").fit(Intervals([0, 10, 20], [15, 25, 30]), [50, 40, 20], kind="total")
    assert any("some bins overlap" in n for n in across.notes_)
    with pytest.raises(InputError, match="a whole is the sum of its parts"):
        BinnedGP(likelihood="poisson").fit(Intervals([0, 0], [10, 20]), [50.0, 40], kind="total")


@pytest.mark.parametrize(
    ("params", "call", "words"),
    [
        ({}, {"y": [1.0, np.nan] + [1.0] * 7}, "y is missing in row 1, 1 in all; leave these regions out"),
        ({}, {"y": [1.0, -2] + [1.0] * 7}, "y has a negative count, -2 in row 1"),
        ({}, {"y": [1.0, np.inf] + [1.0] * 7}, "missing or infinite"),
        ({}, {"y": [1.0, 2]}, "y has 2 values for 9 regions"),
        ({}, {"y": [0.0] * 9}, "zero in every region"),
        ({}, {"regions": Intervals([0], [10]), "y": [3]}, "one bin only, which says nothing about a curve"),
        ({}, {"kind": "mean"}, "counts are totals of their regions.*exposure="),
        ({}, {"sizes": [1] * 9}, "sizes is for the Gaussian likelihood"),
        ({}, {"std_error": [1] * 9}, "std_error is for the Gaussian likelihood"),
        ({}, {"trials": [100] * 9}, "trials is given with likelihood='poisson'"),
        ({}, {"regions": Polygons([[[0, 0], [1, 0], [0, 1]]]), "y": [3]}, "one bin only"),
        ({}, {"regions": Polygons([[[0, 0], [1, 0], [0, 1]]] * 2), "y": [3, 4]}, "Share counts of polygons out"),
        ({}, {"regions": [1.0, 2.0], "y": [3, 4]}, "a count belongs to a region with width"),
        ({}, {"cell": -1.0}, "not a positive width"),
        ({}, {"exposure": [1.0, 2.0]}, "exposure has 2 values for 9 regions"),
        ({}, {"exposure": (AGES, [1.0], 3)}, "another length than 2"),
        ({}, {"pool": ["a"]}, "pool has 1 values for 9 regions"),
        ({}, {"pool": ["a"] * 8 + [None]}, "pool is missing in row 8"),
        ({}, {"pool": {"a": [1], "b": [2]}}, "pool names 2 columns"),
        ({}, {"pool": ["a"] * 9}, "at least two areas"),
        ({}, {"pool": ["a"] * 9, "preserve": True}, "preserve is for one histogram of counts"),
        ({}, {"pool": ["a"] * 9, "exposure": [1.0] * 9}, "one area at a time"),
        ({"lengthscale": 3.0}, {}, "lengthscale=3.0 is of the Gaussian model"),
        ({"kernel": "white"}, {}, "kernel='white' is not a kernel of likelihood='poisson'"),
        ({"kernel": 3}, {}, "averages over kernels by name"),
        ({"likelihood": "binomial"}, {}, "likelihood='binomial' needs trials"),
        ({"likelihood": "binomial"}, {"trials": [1.0] * 9}, "exceed trials in bin 0"),
        ({"likelihood": "negative_binomial"}, {"pool": ["a"] * 9}, "pool is given with likelihood='negative_binomial'"),
        ({"likelihood": "gaussian"}, {"pool": ["a"] * 9}, "pool is for counts"),
        ({"likelihood": "gaussian"}, {"tail": 3.0}, "tail is for counts"),
    ],
)
def test_bad_input(params, call, words):
    given = {"regions": AGES, "y": PEOPLE, "kind": "total"} | call
    with pytest.raises(InputError, match=words):
        BinnedGP(**{"likelihood": "poisson"} | params).fit(given.pop("regions"), given.pop("y"), **given)


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        ([0, 20], [10, 15], "lower exceeds upper in 1 region.*first in row 1.*limits go lower first"),
        ([0, 10], [10, 10], "lower equals upper in row 1.*has no total"),
        ([0, np.nan], [10, 20], "lower is missing in row 1"),
    ],
)
def test_bad_limits(lower, upper, words):
    with pytest.raises(InputError, match=words):
        Intervals(lower, upper)


def test_a_repeated_bin_of_an_area():
    with pytest.raises(InputError, match="row 2 repeats a bin of area 'a'"):
        BinnedGP(likelihood="poisson").fit(
            Intervals([0, 10, 0, 0], [10, 20, 10, 10]), [1, 2, 3, 4], kind="total", pool=["a", "a", "a", "b"]
        )


def test_bad_questions(gp, pooled):
    for ask, words in (
        (lambda: gp.predict(AGES, kind="sum"), "kind='sum' is not a kind"),
        (lambda: gp.predict(Intervals([80], [95])), "reaches outside the bins of the fit"),
        (lambda: gp.predict(AGES, kind="rate"), "pass exposure= to fit"),
        (lambda: gp.predict(AGES, pool="men"), "was fitted without"),
        (lambda: gp.predict([3.0], kind="count"), "for regions with width"),
        (lambda: gp.predict([[3.0, 1.0]]), "has 2 dimension"),
        (lambda: pooled.predict(AGES[2:3], pool="man"), "Did you mean 'men'"),
        (pooled.skill, "see loo_"),
        (
            lambda: BinnedGP(lengthscale=9.0, variance=1.0, noise=1.0).fit(AGES, PEOPLE, kind="total").skill(),
            "scored by loo_",
        ),
        (
            lambda: BinnedGP(lengthscale=9.0).fit(AGES, PEOPLE, kind="total").predict(AGES, pool="a"),
            "pool is for counts",
        ),
    ):
        with pytest.raises(InputError, match=words):
            ask()


def test_fractions_have_no_whole_counts():
    gp = BinnedGP(likelihood="poisson").fit(AGES, PEOPLE + 0.5, kind="total")
    assert "count_low" not in gp.estimates(AGES).table.column_names
    with pytest.raises(InputError, match="y has fractions"):
        gp.predict(AGES, kind="count")
