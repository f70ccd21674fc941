"""People at risk and trials: units, coverage, weights; and totals of only some areas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.binned import BinnedCountGP, Intervals
from crosslevel.errors import CrosslevelWarning, InputError

GROUPS = ["0-17", "18-24", "25-44", "45-64", "65-79", "80-99"]
AGES = Intervals.ages(GROUPS)
DEATHS = [10, 8, 40, 190, 500, 410]
PEOPLE = np.array([21400, 9700, 30100, 26800, 11900, 3600.0])
LOW, HIGH = [18, 25, 35, 45, 55, 65] * 2, [25, 35, 45, 55, 65, 80] * 2
AUDIENCE = [310, 520, 610, 480, 300, 160, 290, 610, 720, 510, 260, 120]
GENDER = ["women"] * 6 + ["men"] * 6


@pytest.mark.parametrize("unit", [1e3, 1e5])
def test_more_events_than_people_are_refused(unit):
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(AGES, DEATHS, exposure=PEOPLE / unit)


def test_few_people_with_fractions_are_told():
    with pytest.warns(CrosslevelWarning):
        BinnedCountGP(kernel="eq").fit(AGES, [1, 0, 3, 2, 2, 1], exposure=PEOPLE / 1e3)
    assert not BinnedCountGP(kernel="eq").fit(AGES, DEATHS, exposure=PEOPLE + 0.5).warnings_


def test_regions_of_exposure_must_cover_the_events():
    wide = Intervals.ages(["0-24", "25-64", "65-89"])
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(AGES, DEATHS, exposure=(wide, [31100, 56900, 15500]))
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(
            AGES, DEATHS, exposure=(Intervals.ages(["0-24", "25-64", "65-99"]), [31.1, 56.9, 15.5])
        )


def test_a_rate_of_nobody_is_not_informed():
    gp = BinnedCountGP(kernel="eq").fit(AGES, [0, *DEATHS[1:]], exposure=[0, *PEOPLE[1:]])
    assert gp.estimate(quantity="rate")["informed"].tolist() == [False] + [True] * 5
    assert gp.estimate()["informed"].all()


def test_the_share_of_everybody_is_that_of_the_totals():
    gp = BinnedCountGP("binomial").fit(AGES, DEATHS, trials=PEOPLE)
    assert gp.predict(Intervals.ages(["0-99"]))[0] == pytest.approx(sum(DEATHS) / PEOPLE.sum(), rel=0.02)


def test_a_total_of_one_area_adds_nothing_and_may_not_contradict():
    low, high, pool = [*LOW, 18], [*HIGH, 80], [*GENDER, "men"]
    with_total = BinnedCountGP(kernel="eq").fit(Intervals(low, high), [*AUDIENCE, 2510], pool=pool)
    without = BinnedCountGP(kernel="eq").fit(Intervals(LOW, HIGH), AUDIENCE, pool=GENDER)
    asked = Intervals([18, 30, 18], [25, 42, 80])
    np.testing.assert_allclose(with_total.predict(asked), without.predict(asked), rtol=0.01)
    assert with_total.predict(asked)[1, 0] == pytest.approx(290)
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(Intervals(low, high), [*AUDIENCE, 100], pool=pool)


def test_counts_are_matched_by_age_group():
    named = pd.Series(DEATHS, index=GROUPS)
    gp = BinnedCountGP(kernel="eq").fit(AGES, named.iloc[::-1])
    np.testing.assert_allclose(gp.predict(AGES), DEATHS)
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(AGES, named.set_axis([*GROUPS[:-1], "80+"]))


@pytest.mark.parametrize("cell", ["x", ["x"], True])
def test_a_cell_is_a_width(cell):
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(AGES, DEATHS, cell=cell)


@pytest.mark.parametrize("pool", [[[1, 2], [3]], [[1, 2], [3, 4]], [{1}, {2}]])
def test_an_area_is_one_name(pool):
    with pytest.raises(InputError):
        BinnedCountGP(kernel="eq").fit(Intervals([0, 10], [10, 20]), [1, 2], pool=pool)
