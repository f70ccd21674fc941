"""The noun of tables: what it reads and refuses, what it repairs on request, and that neither order nor names decide."""

from __future__ import annotations

from dataclasses import replace

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.ecological.margins import counted

from crosslevel import Counts, audit, ecological
from crosslevel.ecological.tables.covariates import covariates_of
from crosslevel.ecological.tables.shares import rounding_of
from crosslevel.errors import FileError, InputError

UNITS = ["a", "b", "c"]
GROUPS = {"young": [30, 10, 0], "old": [70, 40, 20]}
VOTES = {"left": [50, 20, 5], "right": [50, 30, 15]}
SHORT = {"left": [50, 20, 5], "right": [30, 30, 10]}
PEOPLE = np.array([100.0, 50.0, 20.0])
FRAME = {"name": UNITS, **GROUPS, **SHORT, "people": PEOPLE, "z": [1.0, 2.0, 4.0]}
NAMED = {"unit": "name", "groups": ["young", "old"], "outcomes": ["left", "right"]}
REST = {"repair": {"rest": "did not vote"}}
ADULTS, CAST = np.array([200.0, 100.0, 80.0]), np.array([120.0, 50.0, 80.0])
PERCENT = (
    {"young": [30.0, 20.0, 50.0], "old": [70.0, 80.0, 50.0]},
    {"left": [55.0, 40.0, 25.0], "right": [45.0, 60.0, 75.0]},
)


def clean(groups=GROUPS, outcomes=VOTES, units=UNITS, **options):
    return counted(groups, outcomes, units, **options).tables


def shares_of(counts, whole=1.0):
    return {name: whole * np.array(values) / PEOPLE for name, values in counts.items()}


def with_total(frame):
    return pd.concat([pd.DataFrame(frame), pd.DataFrame(frame).sum().to_frame().T], ignore_index=True)


# what is refused, at once


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("data", "no such file.csv"),
        ("data", 3),
        ("unit", "nam"),
        ("unit", "young"),
        ("unit", 3),
        ("unit", ["name", "name"]),
        ("unit", []),
        ("groups", []),
        ("groups", None),
        ("groups", "young"),
        ("groups", [1, 2]),
        ("groups", ["young", "young"]),
        ("groups", ["young", "odl"]),
        ("groups", {"all": ["young", "young"]}),
        ("groups", {"some": "young", "more": ["young", "old"]}),
        ("outcomes", ["left", "old"]),
        ("outcomes", ["left", "rigth"]),
        ("total_groups", "left"),
        ("total_groups", 3),
        ("total_outcomes", "peple"),
        ("covariates", ["zz"]),
        ("repair", "scale"),
        ("repair", {"balanc": "scale"}),
        ("repair", {"balance": "none"}),
        ("repair", {"missing": "skip"}),
        ("repair", {"duplicates": "add"}),
        ("repair", {"excess": "more"}),
        ("repair", {"rest": ""}),
        ("repair", {"rest": "x", "balance": "scale"}),
    ],
)
def test_what_is_no_description_is_refused_at_once(argument, value):
    with pytest.raises((InputError, FileError)):
        Counts(**{"data": FRAME, **NAMED, argument: value})


# what is refused when the data are read

DECIMALS = {"young": [12.5, 20.1, 30], "old": [87.5, 79.9, 70]}, {"left": [50.5, 40, 30], "right": [49.5, 60, 70]}
REFUSED = {
    "short": {"outcomes": SHORT},
    "nobody to scale": {"outcomes": {"left": [50, 20, 0], "right": [50, 30, 0]}, "balance": "scale"},
    "scaled too far": {"outcomes": {"left": [50, 20, 5], "right": [50, 30, 2]}, "balance": "scale"},
    "no groups to scale to": {"groups": {"young": [0, 10, 0], "old": [0, 40, 20]}, "balance": "scale"},
    "both ways": {"outcomes": {"left": [50, 20, 5], "right": [30, 40, 15]}, "rest": "none"},
    "a rest that is there": {"outcomes": SHORT, "rest": "left"},
    "a gap": {"groups": {"young": [30, 10, None], "old": [70, 40, 20]}},
    "gaps everywhere": {"groups": {"young": [None] * 3, "old": [70, 40, 20]}, "missing": "drop"},
    "infinite": {"groups": {"young": [30, np.inf, None], "old": [70, 40, 20]}, "missing": "drop"},
    "negative": {"groups": {"young": [30, -10, 20], "old": [70, 60, 0]}},
    "texts": {"groups": {"young": ["x", "y", "z"], "old": [70, 40, 20]}},
    "nobody": {"groups": {"young": [0] * 3, "old": [0] * 3}, "outcomes": {"left": [0] * 3, "right": [0] * 3}},
    "one group": {"groups": {"young": [100, 50, 20]}},
    "no rows": {"groups": {"a": [], "b": []}, "outcomes": {"y": [], "n": []}, "units": []},
    "named twice": {"units": ["a", "b", "a"]},
    "no name": {"units": ["a", None, "b"]},
    "rows that differ": {"units": ["a", "b", "a"], "duplicates": "drop_identical"},
    "more votes than people": {"outcomes": {"left": [150, 20, 5], "right": [50, 30, 15]}},
    "nothing left": {"outcomes": {"left": [150, 60, 25], "right": [50, 30, 15]}, "excess": "drop"},
    "shares": {"groups": shares_of(GROUPS), "outcomes": shares_of(VOTES)},
    "shares beside counts": {"outcomes": shares_of(VOTES)},
    "percentages": dict(zip(("groups", "outcomes"), DECIMALS, strict=True)),
    "more than the total": {"total_groups": [100, 49, 20]},
    "shares of more than one": {"groups": {"young": [0.3, 0.2, 0.5], "old": [0.7, 0.9, 0.5]}, "total_groups": PEOPLE},
    "percentages of more than 100": {"groups": {"young": [30, 20.5, 50], "old": [70, 83, 50]}, "total_groups": PEOPLE},
    "negative total": {"total_groups": [100, -50, 20]},
    "no total": {"total_groups": [100, np.nan, 20]},
    "zero totals": {"total_outcomes": [0, 0, 0]},
    "a rest of that name": {"groups": {"young": [30, 10, 0], "other": [60, 30, 20]}, "total_groups": PEOPLE},
    "totals among columns": {"groups": {**GROUPS, "all": PEOPLE}, "outcomes": {**VOTES, "all": PEOPLE}},
    "a total among rows": {"groups": with_total(GROUPS), "outcomes": with_total(VOTES), "units": [*UNITS, "TOTAL"]},
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_counts_is_refused(case):
    with pytest.raises(InputError):
        clean(**REFUSED[case])


def test_what_is_only_odd_is_listed():
    frame = {n: [*v, sum(v)] if n not in ("name", "z") else [*v, v[0]] for n, v in {**FRAME, **VOTES}.items()}
    found = audit(Counts({**frame, "name": [*UNITS, "TOTAL"]}, **NAMED))
    assert [(one.test, one.names) for one in found] == [("total row", ("TOTAL",))] * 2
    assert len(audit(Counts({**FRAME, **VOTES}, **NAMED))) == 0


def test_counts_without_outcomes_are_for_contests():
    with pytest.raises(InputError):
        ecological.rxc(Counts(FRAME, unit="name", groups=["young", "old"]))


# what is repaired, and that it is said


def test_scaling_brings_outcomes_to_the_groups_and_leaves_other_units_alone():
    tables = clean(outcomes=SHORT, balance="scale")
    np.testing.assert_allclose(tables.T, [[62.5, 37.5], [20, 30], [20 / 3, 40 / 3]])
    assert len(tables.notes) == 1
    assert tables.notes[0] in ecological.bounds(counted(GROUPS, SHORT, UNITS, balance="scale")).warnings


def test_the_difference_becomes_an_outcome_or_a_group_of_its_own():
    tables = clean(outcomes=SHORT, rest="did not vote")
    assert tables.outcomes == ("left", "right", "did not vote")
    np.testing.assert_array_equal(tables.T, [[50, 30, 20], [20, 30, 0], [5, 10, 5]])
    tables = clean(groups={"young": [30, 10, 0], "old": [60, 40, 20]}, rest="none")
    assert tables.groups == ("young", "old", "none")
    np.testing.assert_array_equal(tables.X[:, 2], [10, 0, 0])
    alone = clean(groups={"young": [30, 10, 5]}, rest="none")
    np.testing.assert_array_equal(alone.X, [[30, 70], [10, 40], [5, 15]])


def test_more_votes_than_people_is_raised_or_left_out():
    people, votes = {"a": [50, 40, 0], "b": [50, 60, 0]}, {"x": [40, 90, 3], "y": [30, 30, 4]}
    raised = clean(people, votes, rest="stayed", excess="raise")
    np.testing.assert_allclose(raised.X, [[50, 50], [48, 72]])
    np.testing.assert_allclose(raised.T[:, 2], [30, 0])
    assert len(raised.notes) == 3
    dropped = clean(people, votes, rest="stayed", excess="drop")
    assert (dropped.units, dropped.left_out) == (("a",), ("b", "c"))


def test_missing_values_are_nobody_or_their_units_go():
    groups = {"young": [30, 10, None], "old": [70, 40, 20]}
    zero, drop = clean(groups, missing="zero"), clean(groups, missing="drop")
    np.testing.assert_array_equal(zero.X, clean().X)
    assert (drop.units, drop.left_out, len(drop.notes)) == (("a", "b"), ("c",), 1)
    assert clean(missing="drop", total_outcomes=[100, np.nan, 20]).units == ("a", "c")
    # of two columns summed one is missing, and the people counted in the other stay
    frame = {**FRAME, "more": [5, 5, 5], "young": [30, None, 0], "people": PEOPLE + 5}
    summed = replace(Counts(frame, **NAMED), groups={"young": ["young", "more"], "old": "old"})
    summed = replace(summed, total_groups="people", repair={"missing": "zero", "rest": "stayed", "excess": "raise"})
    np.testing.assert_array_equal(summed.tables.X[1], [5, 40, 10])


def test_rows_of_one_unit_are_summed_or_one_of_equal_rows_is_kept():
    tables = clean(units=["a", "b", "a"], duplicates="sum")
    assert tables.units == ("a", "b")
    np.testing.assert_array_equal(tables.X, [[30, 90], [10, 40]])
    np.testing.assert_array_equal(tables.T, [[55, 65], [20, 30]])
    pasted, votes = ({n: [*v, *v[:2]] for n, v in side.items()} for side in (GROUPS, VOTES))
    tables = clean(pasted, votes, [*UNITS, "a", "b"], duplicates="drop_identical")
    np.testing.assert_array_equal(tables.X, clean().X)
    assert (tables.units, tables.left_out, len(tables.notes)) == (tuple(UNITS), (), 1)
    assert clean(duplicates="drop_identical").notes == ()
    assert clean(pasted, votes, None, duplicates="drop_identical").units == (0, 1, 2)


def test_units_without_people_are_left_out_and_do_not_shift_the_others():
    groups, votes = {"a": [0, 3, 1], "b": [0, 7, 4]}, {"y": [0, 5, 2], "n": [0, 5, 3]}
    tables = clean(groups, votes, ["empty", "u", "v"])
    np.testing.assert_array_equal(tables.X, [[3, 7], [1, 4]])
    assert (tables.units, tables.left_out, tables.rows.tolist()) == (("u", "v"), ("empty",), [1, 2])


def test_margins_may_differ_by_rounding_only_and_nearly_totals_are_units():
    X = np.array([[3e6, 7e6]])
    clean(X, np.array([[5e6, 5e6 + 1]]), None)
    with pytest.raises(InputError):
        clean(X, np.array([[5e6, 5e6 + 1e4]]), None)
    found = ecological.bounds(counted(np.array([[1e7 - 1, 0]]), np.array([[1e7, 0]])))
    assert (found.units["lower"][:2] <= found.units["upper"][:2]).all()
    groups, votes = with_total(GROUPS).astype(float), with_total(VOTES).astype(float)
    groups.loc[3, "young"] += 1
    votes.loc[3, "left"] += 1
    assert len(clean(groups, votes, None).units) == 4
    # two units may be equal, and units of one composition may add up to another
    assert len(clean([[3, 7], [3, 7], [0, 0]], [[4, 6], [4, 6], [0, 0]]).units) == 2
    assert len(clean([[10, 10], [20, 20], [30, 30]], [[5, 15], [10, 30], [15, 45]]).units) == 3


# totals


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_shares_and_percentages_become_counts(whole):
    tables = clean(shares_of(GROUPS, whole), shares_of(VOTES, whole), total_groups=PEOPLE, total_outcomes=PEOPLE)
    np.testing.assert_allclose(tables.X, clean().X)
    np.testing.assert_allclose(tables.T, clean().T)
    groups, votes = ({name: np.array(v) * whole / 100 for name, v in side.items()} for side in PERCENT)
    two = {"total_groups": ADULTS, "total_outcomes": CAST}
    found = clean(groups, votes, rest="did not vote", **two)
    np.testing.assert_allclose(found.X, [[60, 140], [20, 80], [40, 40]])
    np.testing.assert_allclose(found.T, [[66, 54, 80], [20, 30, 50], [20, 60, 0]])
    with pytest.raises(InputError):
        clean(groups, votes, **two)


def test_one_margin_may_be_in_counts():
    counts = {name: np.array(v) * CAST / 100 for name, v in PERCENT[1].items()}
    both = clean(*PERCENT, total_groups=ADULTS, total_outcomes=CAST, rest="none")
    np.testing.assert_allclose(clean(PERCENT[0], counts, total_groups=ADULTS, rest="none").T, both.T)
    people = {name: np.array(v) * ADULTS / 100 for name, v in PERCENT[0].items()}
    np.testing.assert_allclose(clean(people, PERCENT[1], total_outcomes=CAST, rest="none").T, both.T)


def test_what_is_missing_to_a_total_is_an_option():
    tables = clean(outcomes=SHORT, total_outcomes=PEOPLE)
    assert tables.outcomes == ("left", "right", "others")
    np.testing.assert_array_equal(tables.T, [[50, 30, 20], [20, 30, 0], [5, 10, 5]])
    shared = clean(shares_of(SHORT), VOTES, total_groups=PEOPLE)
    assert shared.groups == ("left", "right", "other")
    np.testing.assert_allclose(shared.X, tables.T)
    # shares of the people themselves: the rest has no outcome, and has the name it is given
    frame = {**FRAME, **shares_of(GROUPS), **shares_of(SHORT)}
    named = Counts(frame, **NAMED, total_groups="people", total_outcomes="people", **REST).tables
    assert named.outcomes == ("left", "right", "did not vote")
    np.testing.assert_allclose(named.T, tables.T, atol=1e-9)


def test_rounding_is_what_the_last_decimal_allows():
    assert rounding_of(np.array([[33.0, 33.0, 33.0]]), 100.0) == pytest.approx(1.5)
    assert rounding_of(np.ones((1, 9)) * 11, 100.0) == pytest.approx(2)
    assert rounding_of(np.array([[1 / 3, 2 / 3]]), 1.0) < 1e-5
    votes = {"left": [33.3, 41.2, 20.0], "right": [33.3, 10.1, 20.0], "none": [33.3, 48.6, 60.0]}
    tables = clean(shares_of(GROUPS, 100), votes, total_groups=PEOPLE, total_outcomes=PEOPLE)
    np.testing.assert_allclose(tables.T.sum(axis=1), PEOPLE, rtol=1e-12)
    np.testing.assert_allclose(tables.T[0], 100 / 3)
    # the same numbers, short by more than their decimals allow, leave a rest
    short = clean(
        PERCENT[0],
        {"left": [55.0, 40.0, 25.0], "right": [44.9, 58.6, 75.0]},
        total_groups=ADULTS,
        total_outcomes=CAST,
        rest="n",
    )
    assert short.outcomes == ("left", "right", "others", "n")


# names


def test_several_columns_name_a_unit():
    frame = {**FRAME, **VOTES, "county": ["n", "s", "s"], "precinct": [1, 1, 2], "odd": ["1/2", "1", "x|y"]}
    of = {"groups": NAMED["groups"], "outcomes": NAMED["outcomes"]}
    assert Counts(frame, unit=["county", "precinct"], **of).tables.units == ("n/1", "s/1", "s/2")
    assert Counts(frame, unit=["name"], **of).names == tuple(UNITS)
    assert Counts(frame, unit=["county", "odd"], **of).names == ("n;1/2", "s;1", "s;x|y")
    for wrong in ({**frame, "county": ["n", None, "s"]}, {**frame, "county": ["n", ";", "s"]}):
        with pytest.raises(InputError):
            Counts(wrong, unit=["county", "odd"], **of).tables  # noqa: B018


def test_columns_of_units_follow_their_units():
    counts = Counts({**FRAME, **VOTES}, **NAMED)
    assert counts.by_unit(["z"], "z")["z"].to_pylist() == [1.0, 2.0, 4.0]
    empty = {"young": [0, 10, 0], "old": [0, 40, 20], "left": [0, 20, 5], "right": [0, 30, 15]}
    assert Counts({**FRAME, **empty}, **NAMED).by_unit(["z"], "z")["z"].to_pylist() == [2.0, 4.0]
    again = {**FRAME, **VOTES, "name": ["a", "b", "a"]}
    summed = Counts(again, **NAMED, repair={"duplicates": "sum"})
    with pytest.raises(InputError):
        summed.by_unit(["z"], "z")
    assert replace(summed, data={**again, "z": [1, 2, 1]}).by_unit(["z"], "z")["z"].to_pylist() == [1, 2]


def test_it_prints_itself():
    counts = Counts(FRAME, **NAMED, **REST)
    assert repr(counts).count("\n") == 0
    lines = counts.summary().splitlines()
    assert all(any(name in line for line in lines) for name in ("young", "old", "left", "right", "did not vote"))
    assert len(lines) == 9


# laws


def world(seed, n=12):
    rng = np.random.default_rng(seed)
    X = rng.integers(20, 200, (n, 2)).astype(float)
    T = np.array([rng.multinomial(int(k), [0.5, 0.5]) for k in X.sum(axis=1)]).astype(float)
    data = {"county": [f"c{i % 3}" for i in range(n)], "precinct": [i // 3 for i in range(n)], "z": rng.normal(size=n)}
    data |= {"g": X[:, 0], "h": X[:, 1], "y": T[:, 0], "n": T[:, 1]}
    return pd.DataFrame(data)


def answers(counts):
    return [ecological.bounds(counts), ecological.goodman(counts), ecological.rxc_em(counts, tol=1e-3)]


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        for name in ("estimate", "lower", "upper", "count"):
            np.testing.assert_allclose(one[name], other[name], atol=1e-9)


@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(st.integers(0, 10_000), st.sampled_from([pd.DataFrame, pl.DataFrame, pa.Table.from_pandas, "file"]))
def test_neither_order_nor_kind_nor_names_decide(tmp_path_factory, seed, kind):
    frame = world(seed)
    of = {"groups": ["g", "h"], "outcomes": ["y", "n"], "covariates": ["z"]}
    wanted = answers(Counts(frame, unit=["county", "precinct"], **of))
    mixed = frame.sample(frac=1, random_state=seed)
    mixed["one"] = mixed["county"] + "/" + mixed["precinct"].astype(str)
    if kind == "file":
        given = tmp_path_factory.mktemp("counts") / "units.csv"
        mixed.to_csv(given, index=False)
    else:
        given = kind(mixed)
    joined = Counts(given, unit="one", **of)
    found = answers(joined)
    same(found, wanted)
    assert type(found[0].to_frame()) is (pa.Table if kind == "file" else type(given))
    for one, other in zip(found, wanted, strict=True):
        by_unit, before = (dict(zip(f.units["unit"], f.units["estimate"], strict=True)) for f in (one, other))
        assert by_unit.keys() == before.keys()
        np.testing.assert_allclose([by_unit[u] for u in before], list(before.values()), atol=1e-9)
    z = dict(zip(joined.tables.units, covariates_of(joined)["z"][:, 0], strict=True))
    np.testing.assert_allclose([z[u] for u in mixed["one"]], (mixed["z"] - frame["z"].mean()) / frame["z"].std(ddof=0))
    renamed = answers(replace(joined, groups={"first": "g", "second": "h"}))
    assert set(renamed[0]["group"]) == {"first", "second"}
    same(renamed, wanted)
    halves = {**{n: frame[n] for n in frame}, "h": frame["h"] / 4, "more": 3 * frame["h"] / 4}
    same(answers(Counts(halves, **{**of, "groups": {"g": "g", "h": ["h", "more"]}})), wanted)


@hypothesis.given(
    st.integers(0, 10_000), st.sampled_from([{"balance": "scale"}, {"rest": "none"}]), st.sampled_from(["zero", "drop"])
)
def test_whatever_is_asked_the_margins_agree_and_nobody_appears_from_nowhere(seed, balance, missing):
    rng = np.random.default_rng(seed)
    X = rng.integers(20, 40, (8, 3)).astype(float)
    T = np.array([rng.multinomial(int(n), [0.4, 0.3, 0.2, 0.1]) for n in X.sum(axis=1)]).astype(float)
    T[rng.integers(8), 3] = np.nan  # the smallest, so that scaling stays below its limit
    units = rng.integers(0, 6, 8).tolist()
    tables = clean(X, T, units, missing=missing, duplicates="sum", **balance)
    np.testing.assert_allclose(tables.T.sum(axis=1), tables.N)
    kept = ~np.isnan(T).any(axis=1) if missing == "drop" else np.ones(8, dtype=bool)
    assert tables.N.sum() == pytest.approx(X[kept].sum())
    assert len(set(tables.units)) == len(tables.units)
    assert (tables.T >= 0).all()
