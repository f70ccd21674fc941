"""People who would count twice, and names that say which row is which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crosslevel import ecological
from crosslevel.errors import InputError

RNG = np.random.default_rng(0)
GROUPS = pd.DataFrame(RNG.integers(50, 900, (30, 2)), columns=["Black", "white"])
VOTES = pd.DataFrame(
    sum(RNG.multinomial(GROUPS[g], p) for g, p in (("Black", [0.8, 0.2]), ("white", [0.3, 0.7]))), columns=["A", "B"]
)
UNITS = [f"p{i}" for i in range(30)]
NAMED_GROUPS, NAMED_VOTES = GROUPS.set_axis(UNITS), VOTES.set_axis(UNITS)
METHODS = {
    "bounds": ecological.bounds,
    "goodman": ecological.goodman,
    "king": ecological.king,
    "rxc": ecological.rxc,
    "multinomial_dirichlet": ecological.multinomial_dirichlet,
    "compare": lambda x, t, **o: ecological.compare(x, t, ["bounds", "goodman"], **o),
}


def with_total(frame):
    return pd.concat([frame, frame.sum().to_frame().T], ignore_index=True)


def shares_of(frame):
    return frame.div(frame.sum(axis=1), axis=0)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_row_of_totals_is_no_unit(name):
    with pytest.raises(InputError):
        METHODS[name](with_total(GROUPS), with_total(VOTES), units=[*UNITS, "TOTAL"])


def test_a_row_of_totals_is_found_beside_repairs():
    groups, votes = with_total(GROUPS).astype(float), with_total(VOTES).astype(float)
    found = {"match": "units: 30 counts in every group"}
    with pytest.raises(InputError, **found):
        ecological.unit_tables(groups, votes[["A"]], balance="none-of-the-above")
    people = groups.sum(axis=1)
    with pytest.raises(InputError, **found):
        ecological.unit_tables(shares_of(groups).round(2), shares_of(votes).round(3), total=people)
    hole = groups.copy()
    hole.loc[30, "Black"] -= hole.loc[3, "Black"]
    hole.loc[3, "Black"] = np.nan
    for missing in ("zero", "drop"):
        with pytest.raises(InputError, **found):
            ecological.unit_tables(hole, votes, missing=missing, balance="none-of-the-above")
    pasted = [0, *range(31)]
    with pytest.raises(InputError):
        ecological.unit_tables(
            groups.iloc[pasted].reset_index(drop=True),
            votes.iloc[pasted].reset_index(drop=True),
            units=["p0", *UNITS, "TOTAL"],
            duplicates="drop_identical",
        )


def test_units_that_are_nearly_a_total_are_units():
    groups, votes = with_total(GROUPS), with_total(VOTES)
    groups.loc[30, "Black"] += 1
    votes.loc[30, "A"] += 1
    assert len(ecological.unit_tables(groups, votes).units) == 31
    # two units may be equal, and units of one composition may add up to another
    assert len(ecological.unit_tables([[3, 7], [3, 7], [0, 0]], [[4, 6], [4, 6], [0, 0]]).units) == 2
    assert len(ecological.unit_tables([[10, 10], [20, 20], [30, 30]], [[5, 15], [10, 30], [15, 45]]).units) == 3


def test_rows_of_county_totals_are_no_units():
    county = np.repeat(["north", "south", "west"], 10)
    frame = pd.concat([GROUPS, VOTES], axis=1).assign(county=county, precinct=UNITS)
    sums = frame.groupby("county", as_index=False)[["Black", "white", "A", "B"]].sum().assign(precinct="p30")
    both = pd.concat([frame, sums], ignore_index=True)
    names = {"groups": ["Black", "white"], "outcomes": ["A", "B"], "unit": ["county", "precinct"]}
    with pytest.raises(InputError, match="unit="):
        ecological.table_from_frame(both, **names)
    assert len(ecological.table_from_frame(frame, **names).units) == 30
    with pytest.raises(InputError):
        ecological.rxc(both[["Black", "white"]], both[["A", "B"]], pool=both["county"])
    with pytest.raises(InputError):
        ecological.rpv(both, ["Black", "white"], {"Mayor": ["A", "B"]}, ["county", "precinct"], methods=["goodman"])


def test_a_column_of_totals_is_no_group():
    total = GROUPS.sum(axis=1)
    with pytest.raises(InputError):
        ecological.rxc(GROUPS.assign(total=total), VOTES.assign(total=total))
    with pytest.raises(InputError):
        ecological.unit_tables(GROUPS, VOTES.assign(votes=total), balance="none-of-the-above")
    nearly = GROUPS.assign(other=total)
    nearly.loc[4, "other"] += 1
    votes = VOTES.assign(none=nearly["other"].to_numpy())
    assert ecological.unit_tables(nearly, votes).groups == ("Black", "white", "other")


def test_a_number_of_the_unit_is_neither_group_nor_outcome():
    with pytest.raises(InputError):
        ecological.rxc(GROUPS.assign(precinct=range(30)), VOTES.assign(precinct=range(30)))
    again = VOTES.set_axis(GROUPS.columns, axis=1)
    assert ecological.unit_tables(GROUPS, again).outcomes == ("Black", "white")


def test_names_decide_which_weight_and_which_district_a_unit_has():
    weights = pd.Series(np.arange(1.0, 31), index=UNITS)
    pool = pd.Series(np.repeat(["x", "y"], 15), index=UNITS)
    tables = ecological.unit_tables(NAMED_GROUPS, NAMED_VOTES)
    wanted = ecological.goodman(GROUPS, VOTES, weights=weights.to_numpy())["estimate"]
    for data, options in (
        ((NAMED_GROUPS, NAMED_VOTES), {}),
        ((GROUPS, VOTES), {"units": UNITS}),
        ((tables,), {}),
    ):
        shuffled = ecological.goodman(*data, weights=weights.sort_index(), **options)["estimate"]
        np.testing.assert_array_equal(shuffled, wanted)
    pooled = ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=pool.to_numpy())
    by_name = ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=pool.sort_index(ascending=False))
    np.testing.assert_array_equal(by_name["estimate"], pooled["estimate"])
    by_number = pd.Series(np.arange(1.0, 31)).sample(frac=1, random_state=1)
    for units in (None, UNITS, list(range(1, 31))):
        found = ecological.goodman(GROUPS, VOTES, weights=by_number, units=units)["estimate"]
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InputError):
        ecological.goodman(NAMED_GROUPS, NAMED_VOTES, weights=weights.add_prefix("q"))
    with pytest.raises(InputError):
        ecological.rxc(GROUPS, VOTES, pool=pool)
    with pytest.raises(InputError):
        ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=pool.where(pool.index != "p2", None))


def test_names_decide_where_groups_have_none():
    mixed = NAMED_VOTES.sample(frac=1, random_state=1)
    np.testing.assert_array_equal(ecological.unit_tables(GROUPS, mixed, UNITS).T, VOTES)
    people = GROUPS.sum(axis=1).set_axis(UNITS).sample(frac=1, random_state=1)
    for groups in (GROUPS, GROUPS.to_dict("list")):
        found = ecological.unit_tables(shares_of(pd.DataFrame(groups)), shares_of(VOTES), UNITS, total=people)
        np.testing.assert_allclose(found.X, GROUPS)
    with pytest.raises(InputError):
        ecological.unit_tables(shares_of(GROUPS), shares_of(VOTES), UNITS, total=people.add_prefix("q"))


def test_units_do_not_contradict_the_index():
    with pytest.raises(InputError):
        ecological.rxc(NAMED_GROUPS, NAMED_VOTES, units=UNITS[::-1])
    assert ecological.unit_tables(NAMED_GROUPS, NAMED_VOTES, units=UNITS).units == tuple(UNITS)
    assert ecological.unit_tables(GROUPS, VOTES, units=UNITS[::-1]).units == tuple(UNITS[::-1])
    kept = GROUPS["Black"] > 300
    left, n = GROUPS[kept].index.tolist(), int(kept.sum())
    for units in (UNITS[:n], [*range(1, n + 1)]):
        assert ecological.unit_tables(GROUPS[kept], VOTES[kept], units=units).units == tuple(units)
    with pytest.raises(InputError):
        ecological.unit_tables(GROUPS[kept], VOTES[kept], units=left[::-1])


@pytest.mark.parametrize("again", ["p4 ", " p4", "P4"])
def test_equal_rows_under_names_of_other_blanks_or_case_are_one_unit(again):
    groups, votes = (pd.concat([f, f.iloc[[4]]], ignore_index=True) for f in (GROUPS, VOTES))
    with pytest.raises(InputError):
        ecological.unit_tables(groups, votes, [*UNITS, again])
    found = ecological.unit_tables(groups, votes, [*UNITS, again], duplicates="drop_identical")
    assert found.units == tuple(UNITS)
    np.testing.assert_array_equal(found.X, GROUPS)


def test_rows_under_names_of_other_blanks_or_case_stay_apart_where_they_differ():
    assert ecological.unit_tables(GROUPS, VOTES, [*UNITS[:-1], "P4 "]).units[-1] == "P4 "
    few = ecological.unit_tables([[3, 7], [3, 7], [5, 1]], [[4, 6], [4, 6], [3, 3]], ["a", "A", "b"])
    assert len(few.units) == 3


@pytest.mark.parametrize("name", ["TOT A", "Subtotal North", "north_all", "Countywide"])
def test_subtotals_among_units_of_one_column_are_no_units(name):
    for rows, at in ((slice(0, 10), 10), (slice(20, 30), 20), (slice(5, 10), 30), (slice(7, 8), 8)):
        groups, votes = (
            pd.concat([f.iloc[:at], f.iloc[rows].sum().to_frame().T, f.iloc[at:]], ignore_index=True)
            for f in (GROUPS, VOTES)
        )
        with pytest.raises(InputError):
            ecological.unit_tables(groups, votes, [*UNITS[:at], name, *UNITS[at:]])
        assert len(ecological.unit_tables(groups, votes, [*UNITS[:at], "p1b", *UNITS[at:]]).units) == 31
    assert len(ecological.unit_tables(GROUPS, VOTES, ["All Saints", *UNITS[1:]]).units) == 30
    few = [[1, 2], [2, 1], [3, 5], [3, 3]], [[2, 1], [1, 2], [4, 4], [3, 3]]
    assert len(ecological.unit_tables(*few, ["a", "b", "c", "All Saints"]).units) == 4
    with pytest.raises(InputError):
        ecological.unit_tables(*([rows[i] for i in (0, 1, 3, 2)] for rows in few), ["a", "b", "total a", "c"])


def test_a_group_that_is_the_sum_of_some_others_is_refused():
    three = GROUPS.assign(Hispanic=np.arange(30) * 7 % 50)
    nested = three.assign(minority=three["Black"] + three["Hispanic"])
    for groups in (nested, nested[::-1], nested[["minority", "white", "Hispanic", "Black"]]):
        with pytest.raises(InputError):
            ecological.unit_tables(groups, VOTES.loc[groups.index], balance="none-of-the-above")
    votes = VOTES.assign(none=nested.sum(axis=1) - VOTES.sum(axis=1))  # made from the sum, and so adds up to it
    with pytest.raises(InputError):
        ecological.rxc(nested, votes)
    nested.loc[4, "minority"] += 1
    assert len(ecological.unit_tables(nested, votes, balance="none-of-the-above").groups) == 4
    # equal shares add up to others by chance
    flat = pd.DataFrame({"a": [10.0, 20, 15], "b": [20.0, 10, 15], "c": [300.0] * 3, "d": [30.0] * 3})
    assert len(ecological.unit_tables(flat, flat.rename(columns=str.upper)).groups) == 4


def test_a_mapping_of_unit_to_district_is_matched_by_its_keys():
    pool = dict(zip(UNITS, np.repeat(["x", "y"], 15).tolist(), strict=True))
    wanted = ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=list(pool.values()))
    found = ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=dict(reversed(pool.items())))
    np.testing.assert_array_equal(found["estimate"], wanted["estimate"])
    with pytest.raises(InputError):
        ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool={u: d for u, d in pool.items() if u != "p4"})


def test_names_in_an_arrow_array_are_text():
    assert ecological.unit_tables(GROUPS, VOTES, pa.array(UNITS)).units == tuple(UNITS)
    with pytest.raises(InputError):
        ecological.unit_tables(GROUPS, VOTES, pa.array([None if u == "p3" else u for u in UNITS]))
