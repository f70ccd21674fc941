"""Shares of two totals, and columns that do not add up to theirs."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel import ecological
from crosslevel.ecological.tables.shares import rounding_of
from crosslevel.ecological.tables.unit_tables import table_from_frame
from crosslevel.errors import InputError

UNITS = ["a", "b", "c"]
ADULTS, CAST = np.array([200.0, 100.0, 80.0]), np.array([120.0, 50.0, 80.0])
GROUPS = {"young": [30.0, 20.0, 50.0], "old": [70.0, 80.0, 50.0]}
VOTES = {"left": [55.0, 40.0, 25.0], "right": [45.0, 60.0, 75.0]}
REST = {"balance": "none-of-the-above", "rest": "did not vote"}
TWO = {"total_groups": ADULTS, "total_outcomes": CAST}


def tables(groups=GROUPS, outcomes=VOTES, **options):
    return ecological.unit_tables(groups, outcomes, UNITS, **options)


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_each_margin_is_multiplied_by_its_own_total(whole):
    groups, votes = ({name: np.array(v) * whole / 100 for name, v in side.items()} for side in (GROUPS, VOTES))
    found = tables(groups, votes, **TWO, **REST)
    np.testing.assert_allclose(found.X, [[60, 140], [20, 80], [40, 40]])
    np.testing.assert_allclose(found.T, [[66, 54, 80], [20, 30, 50], [20, 60, 0]])
    kind = "shares" if whole == 1 else "percentages"
    assert found.notes[:2] == (
        f"groups were {kind}: multiplied by total_groups.",
        f"outcomes were {kind}: multiplied by total_outcomes.",
    )
    turnout = ecological.turnout(ecological.neighborhood(found))
    assert turnout["count"].sum() == pytest.approx(CAST.sum())
    with pytest.raises(InputError):
        tables(groups, votes, **TWO)


def test_one_margin_may_be_in_counts():
    counts = {name: np.array(v) * CAST / 100 for name, v in VOTES.items()}
    both = tables(**TWO, **REST)
    np.testing.assert_allclose(tables(outcomes=counts, total_groups=ADULTS, **REST).T, both.T)
    people = {name: np.array(v) * ADULTS / 100 for name, v in GROUPS.items()}
    np.testing.assert_allclose(tables(people, total_outcomes=CAST, **REST).T, both.T)


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({"right": [45.0, 52.0, 75.0]}, TWO),
        ({"right": [44.9, 58.6, 75.0]}, TWO),
        ({"right": [44.9, 58.6, 75.0]}, {"total": ADULTS}),
        ({"left": [0.55, 0.4, 0.25], "right": [0.45, 0.59, 0.65]}, TWO),
        ({"left": [0.55, 0.4, 0.25], "right": [0.45, 0.59, 0.65]}, {"total": ADULTS}),
        ({"left": [66, 20, 20], "right": [54, 31, 60]}, TWO),
        ({}, {"total_groups": ADULTS}),
        ({}, {"total_outcomes": CAST}),
        ({}, {"total": ADULTS, "total_groups": ADULTS}),
        ({}, {"total_groups": "adults"}),
        ({}, {**TWO, "total_outcomes": [1, 2]}),
        ({}, {**TWO, "total_outcomes": [120, np.nan, 80]}),
        ({}, {**TWO, "total_outcomes": [0, 0, 0]}),
    ],
)
def test_what_does_not_add_up_is_refused_and_not_called_rounding(changed, options):
    with pytest.raises(InputError):
        tables(outcomes={**VOTES, **changed}, **options)


def test_rounding_is_what_the_last_decimal_allows():
    assert rounding_of(np.array([[33.3, 33.3, 33.3]]), 100.0) == pytest.approx(0.15)
    assert rounding_of(np.array([[33.0, 33.0, 33.0]]), 100.0) == pytest.approx(1.5)
    assert rounding_of(np.ones((1, 9)) * 11, 100.0) == pytest.approx(2)
    assert rounding_of(np.array([[1 / 3, 2 / 3]]), 1.0) < 1e-5
    found = tables(outcomes={**VOTES, "right": [44.9, 60.1, 75.0]}, **TWO, **REST)
    np.testing.assert_allclose(found.T[:, :2].sum(axis=1), CAST)
    assert "rows off by rounding (up to 0.1 %) were brought to it" in found.notes[1]


def test_totals_are_columns_of_a_frame():
    frame = {"name": UNITS, "adults": ADULTS, "cast": CAST, **GROUPS, **VOTES}
    named = {"groups": ["young", "old"], "outcomes": ["left", "right"], "unit": "name"}
    found = table_from_frame(frame, **named, total_groups="adults", total_outcomes="cast", **REST)
    np.testing.assert_allclose(found.T, tables(**TWO, **REST).T)
    with pytest.raises(InputError, match="total_outcomes="):
        table_from_frame(frame, **named, total_groups="adults", total_outcomes="casts")
    with pytest.raises(InputError, match="total_groups="):
        table_from_frame(frame, **named, total_groups="left")
