"""Repairs on request: what they change, that they say so, and that nothing is repaired unasked."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel import ecological
from crosslevel.ecological.tables.unit_tables import table_from_frame
from crosslevel.errors import InputError

UNITS = ["a", "b", "c"]
GROUPS = {"young": [30, 10, 0], "old": [70, 40, 20]}
VOTES = {"left": [50, 20, 5], "right": [50, 30, 15]}
SHORT = {"left": [50, 20, 5], "right": [30, 30, 10]}


def clean(groups=GROUPS, outcomes=VOTES, units=UNITS, **options):
    return ecological.unit_tables(groups, outcomes, units, **options)


# margins that do not add up


def test_scaling_brings_outcomes_to_the_groups_and_leaves_other_units_alone():
    tables = clean(outcomes=SHORT, balance="scale")
    np.testing.assert_allclose(tables.T.sum(axis=1), tables.N)
    np.testing.assert_allclose(tables.T[0], [62.5, 37.5])
    np.testing.assert_array_equal(tables.T[1], [20, 30])
    assert tables.notes == (
        "Outcomes of 2 of 3 units were scaled to the total of their groups: 25 people, 15 % of all, largest factor 1.33 in "
        "'c' ('a', 'c').",
    )
    assert tables.notes[0] in ecological.bounds(tables).warnings


def test_the_difference_becomes_an_outcome_of_its_own():
    tables = clean(outcomes=SHORT, balance="none-of-the-above", rest="did not vote")
    assert tables.outcomes == ("left", "right", "did not vote")
    np.testing.assert_array_equal(tables.T, [[50, 30, 20], [20, 30, 0], [5, 10, 5]])
    assert tables.notes == (
        "Outcomes fell short in 2 of 3 units; the outcome 'did not vote' takes the difference: 25 people, 15 % of all "
        "('a', 'c').",
    )
    assert clean(outcomes=SHORT, balance="none-of-the-above").outcomes[-1] == "none of the above"


def test_the_difference_becomes_a_group_where_groups_fall_short():
    tables = clean(groups={"young": [30, 10, 0], "old": [60, 40, 20]}, balance="none-of-the-above")
    assert tables.groups == ("young", "old", "none of the above")
    np.testing.assert_array_equal(tables.X[:, 2], [10, 0, 0])
    assert "Groups fell short in 1 of 3 units; the group 'none of the above'" in tables.notes[0]
    alone = clean(groups={"young": [30, 10, 5]}, balance="none-of-the-above")
    np.testing.assert_array_equal(alone.X, [[30, 70], [10, 40], [5, 15]])


# missing values


def test_missing_values_are_nobody_or_their_units_go():
    groups = {"young": [30, 10, None], "old": [70, 40, 20]}
    zero, drop = clean(groups, missing="zero"), clean(groups, missing="drop")
    np.testing.assert_array_equal(zero.X, clean().X)
    assert zero.notes == ("1 missing value(s) in 1 of 3 units were taken for zero ('c').",)
    assert drop.units == ("a", "b")
    np.testing.assert_array_equal(drop.T, clean().T[:2])
    assert drop.notes == ("1 of 3 units were left out for missing values ('c').",)
    assert drop.dropped == ()


# repeated units


def test_rows_of_one_unit_are_summed_on_request():
    tables = clean(units=["a", "b", "a"], duplicates="sum")
    assert tables.units == ("a", "b")
    np.testing.assert_array_equal(tables.X, [[30, 90], [10, 40]])
    np.testing.assert_array_equal(tables.T, [[55, 65], [20, 30]])
    assert len(tables.notes) == 1
    assert clean(PASTED, PASTED_VOTES, [*UNITS, "a", "b"], duplicates="sum").N.tolist() == [200, 100, 20]


PASTED = {"young": [30, 10, 0, 30, 10], "old": [70, 40, 20, 70, 40]}
PASTED_VOTES = {"left": [50, 20, 5, 50, 20], "right": [50, 30, 15, 50, 30]}


def test_rows_pasted_in_again_are_recognized_and_one_of_each_is_kept():
    units = [*UNITS, "a", "b"]
    tables = clean(PASTED, PASTED_VOTES, units, duplicates="drop_identical")
    np.testing.assert_array_equal(tables.X, clean().X)
    assert tables.units == tuple(UNITS)
    assert tables.notes == (
        "2 row(s) equal to another in all columns were left out, first 'a': 150 people who would count again.",
    )
    assert clean(duplicates="drop_identical").notes == ()
    groups, votes = ({n: v[:2] * 2 for n, v in side.items()} for side in (GROUPS, VOTES))
    assert clean(groups, votes, None, duplicates="drop_identical").units == (0, 1)


# small options


def test_small_options_are_merged_in_each_margin():
    groups = {"white": [900, 50], "x": [5, 0], "y": [2, 1], "black": [93, 949]}
    votes = {"left": [500, 500], "right": [490, 490], "tiny": [4, 6], "mini": [6, 4]}
    tables = ecological.unit_tables(groups, votes, merge_below=0.03)
    assert tables.groups == ("white", "black", "other")
    assert tables.outcomes == ("left", "right", "other")
    np.testing.assert_array_equal(tables.X, [[900, 93, 7], [50, 949, 1]])
    np.testing.assert_array_equal(tables.T[:, 2], [10, 10])
    assert tables.notes == (
        "2 of 4 groups were merged into 'other', those below 3 % ('x', 'y'): 8 people, 0.4 % of all.",
        "2 of 4 outcomes were merged into 'other', those below 3 % ('tiny', 'mini'): 20 people, 1 % of all.",
    )


# shares


PEOPLE = np.array([100.0, 50.0, 20.0])


def shares_of(counts, whole=1.0):
    return {name: whole * np.array(values) / PEOPLE for name, values in counts.items()}


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_shares_and_percentages_become_counts(whole):
    tables = clean(shares_of(GROUPS, whole), shares_of(VOTES, whole), total=PEOPLE)
    np.testing.assert_allclose(tables.X, clean().X)
    np.testing.assert_allclose(tables.T, clean().T)
    kind = "shares" if whole == 1 else "percentages"
    assert tables.notes[:2] == tuple(
        f"{m} were {kind}: multiplied by the people of each unit." for m in ("groups", "outcomes")
    )
    assert len(tables.notes) == 3
    assert "so that everybody has an outcome. If outcomes are shares of the votes cast, pass" in tables.notes[2]


def test_rounded_percentages_are_brought_to_the_total_and_it_is_said():
    votes = {"left": [33.3, 41.2, 20.0], "right": [33.3, 10.1, 20.0], "none": [33.3, 48.6, 60.0]}
    tables = clean(shares_of(GROUPS, 100), votes, total=PEOPLE)
    np.testing.assert_allclose(tables.T.sum(axis=1), PEOPLE, rtol=1e-12)
    np.testing.assert_allclose(tables.T[0], 100 / 3)
    assert "rows off by rounding (up to 0.1 %)" in tables.notes[1]


def test_shares_of_the_population_leave_the_rest_to_balance():
    tables = clean(shares_of(GROUPS), shares_of(SHORT), total=PEOPLE, balance="none-of-the-above", rest="did not vote")
    np.testing.assert_allclose(tables.T, [[50, 30, 20], [20, 30, 0], [5, 10, 5]], atol=1e-9)


# what is refused

GAP = {"young": [30, 10, None], "old": [70, 40, 20]}
DECIMALS = {"young": [12.5, 20.1, 30], "old": [87.5, 79.9, 70]}, {"left": [50.5, 40, 30], "right": [49.5, 60, 70]}
REST = {"balance": "none-of-the-above"}
REFUSED = {
    "short": ({"outcomes": SHORT}, "groups and outcomes"),
    "no choice": ({"outcomes": SHORT, "balance": "scal"}, "balance"),
    "nobody to scale": ({"outcomes": {"left": [50, 20, 0], "right": [50, 30, 0]}, "balance": "scale"}, "balance"),
    "scaled too far": ({"outcomes": {"left": [50, 20, 5], "right": [50, 30, 2]}, "balance": "scale"}, "balance"),
    "no groups to scale to": ({"groups": {"young": [0, 10, 0], "old": [0, 40, 20]}, "balance": "scale"}, "balance"),
    "both ways": ({"outcomes": {"left": [50, 20, 5], "right": [30, 40, 15]}, **REST}, "balance"),
    "a rest that is there": ({"outcomes": SHORT, "rest": "left", **REST}, "rest"),
    "no rest": ({"outcomes": SHORT, "rest": "", **REST}, "rest"),
    "a gap": ({"groups": GAP}, "groups"),
    "gaps everywhere": ({"groups": {"young": [None] * 3, "old": [70, 40, 20]}, "missing": "drop"}, "missing"),
    "infinite": ({"groups": {"young": [30, np.inf, None], "old": [70, 40, 20]}, "missing": "drop"}, "groups"),
    "no treatment": ({"missing": "skip"}, "missing"),
    "named twice": ({"units": ["a", "b", "a"]}, "units"),
    "rows that differ": ({"units": ["a", "b", "a"], "duplicates": "drop_identical"}, "units"),
    "no way to sum": ({"duplicates": "add"}, "duplicates"),
    "percent": ({"merge_below": 3}, "merge_below"),
    "all merged": ({"merge_below": 0.9}, "merge_below"),
    "shares": ({"groups": shares_of(GROUPS), "outcomes": shares_of(VOTES)}, "groups and outcomes"),
    "shares beside counts": ({"outcomes": shares_of(VOTES)}, "outcomes"),
    "percentages": (dict(zip(("groups", "outcomes"), DECIMALS, strict=True)), "groups and outcomes"),
    "another total": ({"total": [100, 50, 25]}, "groups"),
    "few totals": ({"total": [100, 50]}, "total"),
    "negative total": ({"total": [100, -50, 20]}, "total"),
    "no total": ({"total": [100, np.nan, 20]}, "total"),
    "zero totals": ({"total": [0, 0, 0]}, "total"),
    "a name for totals": ({"total": "people"}, "total"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_is_refused_by_the_argument(case):
    options, argument = REFUSED[case]
    with pytest.raises(InputError) as refused:
        clean(**options)
    assert str(refused.value).startswith(argument)


# laws


@hypothesis.given(
    st.integers(0, 10_000), st.sampled_from(["scale", "none-of-the-above"]), st.sampled_from(["zero", "drop"])
)
def test_whatever_is_asked_the_margins_agree_and_nobody_appears_from_nowhere(seed, balance, missing):
    rng = np.random.default_rng(seed)
    X = rng.integers(20, 40, (8, 3)).astype(float)
    T = np.array([rng.multinomial(int(n), [0.4, 0.3, 0.2, 0.1]) for n in X.sum(axis=1)]).astype(float)
    T[rng.integers(8), 3] = np.nan  # the smallest, so that scaling stays below its limit
    units = rng.integers(0, 6, 8).tolist()
    tables = ecological.unit_tables(X, T, units, balance=balance, missing=missing, duplicates="sum", merge_below=0.15)
    np.testing.assert_allclose(tables.T.sum(axis=1), tables.N)
    kept = ~np.isnan(T).any(axis=1) if missing == "drop" else np.ones(8, dtype=bool)
    assert tables.N.sum() == pytest.approx(X[kept].sum())
    assert len(set(tables.units)) == len(tables.units)
    assert (tables.T >= 0).all()
    assert any("missing value" in note for note in tables.notes)


# checked tables, and one frame


def test_checked_tables_take_no_further_options():
    tables = clean()
    assert ecological.unit_tables(tables) is tables
    given = {
        "balance": "scale",
        "total": PEOPLE,
        "missing": "zero",
        "merge_below": 0.1,
        "units": UNITS,
        "outcomes": VOTES,
    }
    for name, value in given.items():
        with pytest.raises(InputError):
            ecological.unit_tables(tables, **{name: value})
    with pytest.raises(InputError, match="rest="):
        clean(rest="did not vote")
    with pytest.raises(InputError):
        ecological.unit_tables(GROUPS, tables)


FRAME = {"name": UNITS, **GROUPS, **SHORT, "people": PEOPLE}
SIDES = {"groups": ["young", "old"], "outcomes": ["left", "right"]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_one_frame_holds_both_margins(kind):
    tables = table_from_frame(kind(FRAME), **SIDES, unit="name", balance="none-of-the-above")
    direct = clean(outcomes=SHORT, balance="none-of-the-above")
    np.testing.assert_array_equal(tables.T, direct.T)
    assert (tables.units, tables.notes, tables.outcomes) == (direct.units, direct.notes, direct.outcomes)
    assert tables.fingerprints == direct.fingerprints
    assert isinstance(ecological.bounds(tables).to_frame(), type(kind(FRAME)))


def test_several_columns_name_a_unit():
    frame = {**FRAME, **VOTES, "county": ["n", "s", "s"], "precinct": [1, 1, 2], "odd": ["1/2", "1", "x|y"]}
    tables = table_from_frame(frame, **SIDES, unit=["county", "precinct"])
    assert tables.units == ("n/1", "s/1", "s/2")
    with pytest.raises(InputError):
        table_from_frame(frame, **SIDES, unit="precinct")
    assert table_from_frame(frame, **SIDES, unit=["precinct", "name"]).units == ("1/a", "1/b", "2/c")
    assert table_from_frame(frame, **SIDES, unit=["name"]).units == tuple(UNITS)
    assert table_from_frame(frame, **SIDES, unit=["county", "odd"]).units == ("n;1/2", "s;1", "s;x|y")
    with pytest.raises(InputError):
        table_from_frame({**frame, "county": ["n", None, "s"]}, **SIDES, unit=["county", "precinct"])
    with pytest.raises(InputError):
        table_from_frame({**frame, "county": ["n", ";", "s"]}, **SIDES, unit=["county", "odd"])
    with pytest.raises(InputError, match="unit="):
        table_from_frame(frame, **SIDES, unit=["count", "precinct"])


@pytest.mark.parametrize(
    "options",
    [
        {"groups": "young"},
        {"groups": [1, 2]},
        {"groups": ["young", "young"]},
        {"outcomes": ["left", "old"]},
        {"outcomes": ["left", "rigth"]},
        {"unit": "nam"},
        {"unit": "young"},
        {"unit": 3},
        {"total": "left"},
        {"total": "name"},
        {"groups": []},
    ],
)
def test_bad_columns_get_a_sentence(options):
    with pytest.raises(InputError):
        table_from_frame(FRAME, **{**SIDES, **options})
