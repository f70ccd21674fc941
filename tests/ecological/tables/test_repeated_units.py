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


def with_total(frame):
    return pd.concat([frame, frame.sum().to_frame().T], ignore_index=True)


def shares_of(frame):
    return frame.div(frame.sum(axis=1), axis=0)


def test_totals_among_what_they_add_up_are_refused():
    groups, votes = with_total(GROUPS), with_total(VOTES)
    with pytest.raises(InputError):
        ecological.compare(groups, votes, ["bounds", "goodman"], units=[*UNITS, "TOTAL"])
    with pytest.raises(InputError):
        ecological.unit_tables(groups, votes[["A"]], balance="none-of-the-above")
    pasted = [0, *range(31)]
    with pytest.raises(InputError):
        ecological.unit_tables(
            *(f.iloc[pasted].reset_index(drop=True) for f in (groups, votes)),
            units=["p0", *UNITS, "TOTAL"],
            duplicates="drop_identical",
        )
    total = GROUPS.sum(axis=1)
    with pytest.raises(InputError):
        ecological.rxc(GROUPS.assign(total=total), VOTES.assign(total=total))


def test_units_that_are_nearly_a_total_are_units():
    groups, votes = with_total(GROUPS), with_total(VOTES)
    groups.loc[30, "Black"] += 1
    votes.loc[30, "A"] += 1
    assert len(ecological.unit_tables(groups, votes).units) == 31
    # two units may be equal, and units of one composition may add up to another
    assert len(ecological.unit_tables([[3, 7], [3, 7], [0, 0]], [[4, 6], [4, 6], [0, 0]]).units) == 2
    assert len(ecological.unit_tables([[10, 10], [20, 20], [30, 30]], [[5, 15], [10, 30], [15, 45]]).units) == 3


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
