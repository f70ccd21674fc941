"""People who would count twice, and names that say which row is which."""

from __future__ import annotations

import numpy as np
import pandas as pd
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
    with pytest.raises(InputError, match="units: 'TOTAL' counts .* what the other units count together.*leave its row"):
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
    with pytest.raises(InputError, match="units: 'TOTAL'"):
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
    sums = frame.groupby("county", as_index=False)[["Black", "white", "A", "B"]].sum().assign(precinct="all")
    both = pd.concat([frame, sums], ignore_index=True)
    names = {"groups": ["Black", "white"], "outcomes": ["A", "B"], "unit": ["county", "precinct"]}
    with pytest.raises(InputError, match=r"unit=.*3 unit\(s\) count .* 'north' count together \('north/all'"):
        ecological.table_from_frame(both, **names)
    assert len(ecological.table_from_frame(frame, **names).units) == 30
    with pytest.raises(InputError, match=r"pool: 3 unit\(s\) count .* \(30, 31, 32\)"):
        ecological.rxc(both[["Black", "white"]], both[["A", "B"]], pool=both["county"])
    with pytest.raises(InputError, match=r"contests\['Mayor'\]: unit=.*'north/all'"):
        ecological.rpv(both, ["Black", "white"], {"Mayor": ["A", "B"]}, ["county", "precinct"], methods=["goodman"])


def test_a_column_of_totals_is_no_group():
    total = GROUPS.sum(axis=1)
    with pytest.raises(InputError, match="groups: 'total' is the sum of the other columns in every unit.*leave it out"):
        ecological.rxc(GROUPS.assign(total=total), VOTES.assign(total=total))
    with pytest.raises(InputError, match="outcomes: 'votes' is the sum"):
        ecological.unit_tables(GROUPS, VOTES.assign(votes=total), balance="none-of-the-above")
    nearly = GROUPS.assign(other=total)
    nearly.loc[4, "other"] += 1
    votes = VOTES.assign(none=nearly["other"].to_numpy())
    assert ecological.unit_tables(nearly, votes).groups == ("Black", "white", "other")


def test_a_number_of_the_unit_is_neither_group_nor_outcome():
    with pytest.raises(InputError, match="groups and outcomes both have the column 'precinct'.*leave it out of both"):
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
    with pytest.raises(InputError, match=r"weights has no row for 30 unit\(s\)"):
        ecological.goodman(NAMED_GROUPS, NAMED_VOTES, weights=weights.add_prefix("q"))
    with pytest.raises(InputError, match=r"pool has no row for 30 unit\(s\)"):
        ecological.rxc(GROUPS, VOTES, pool=pool)
    with pytest.raises(InputError, match=r"pool has 1 missing district\(s\), the first of 'p2'"):
        ecological.rxc(NAMED_GROUPS, NAMED_VOTES, pool=pool.where(pool.index != "p2", None))


def test_names_decide_where_groups_have_none():
    mixed = NAMED_VOTES.sample(frac=1, random_state=1)
    np.testing.assert_array_equal(ecological.unit_tables(GROUPS, mixed, UNITS).T, VOTES)
    people = GROUPS.sum(axis=1).set_axis(UNITS).sample(frac=1, random_state=1)
    for groups in (GROUPS, GROUPS.to_dict("list")):
        found = ecological.unit_tables(shares_of(pd.DataFrame(groups)), shares_of(VOTES), UNITS, total=people)
        np.testing.assert_allclose(found.X, GROUPS)
    with pytest.raises(InputError, match="total is named by its index"):
        ecological.unit_tables(shares_of(GROUPS), shares_of(VOTES), UNITS, total=people.add_prefix("q"))


def test_units_do_not_contradict_the_index():
    with pytest.raises(InputError, match="units names row 0 'p29', which the index of groups names 'p0'"):
        ecological.rxc(NAMED_GROUPS, NAMED_VOTES, units=UNITS[::-1])
    assert ecological.unit_tables(NAMED_GROUPS, NAMED_VOTES, units=UNITS).units == tuple(UNITS)
    assert ecological.unit_tables(GROUPS, VOTES, units=UNITS[::-1]).units == tuple(UNITS[::-1])
    kept = GROUPS["Black"] > 300
    left, n = GROUPS[kept].index.tolist(), int(kept.sum())
    for units in (UNITS[:n], [*range(1, n + 1)]):
        assert ecological.unit_tables(GROUPS[kept], VOTES[kept], units=units).units == tuple(units)
    with pytest.raises(InputError, match="has the same names in another order"):
        ecological.unit_tables(GROUPS[kept], VOTES[kept], units=left[::-1])
