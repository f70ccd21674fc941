"""Mappings of Series are matched by their index, as frames are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.ecological import rxc, unit_tables
from crosslevel.errors import InputError
from crosslevel.results import Provenance

GROUPS = pd.DataFrame({"a": [90.0, 20, 50, 70], "b": [10.0, 80, 50, 30]}, index=["p", "q", "r", "s"])
VOTES = pd.DataFrame({"d": [80.0, 30, 50, 60], "r": [20.0, 70, 50, 40]}, index=["p", "q", "r", "s"])


def columns(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {name: frame[name] for name in frame}


def test_outcomes_in_a_mapping_are_matched_by_the_index():
    whole = unit_tables(GROUPS, VOTES)
    for groups, votes in (
        (GROUPS, columns(VOTES[::-1])),
        (columns(GROUPS), columns(VOTES[::-1])),
        (columns(GROUPS), VOTES[::-1]),
    ):
        found = unit_tables(groups, votes)
        np.testing.assert_array_equal(found.T, whole.T)
        assert found.units == whole.units


def test_a_shuffled_count_in_a_mapping_is_matched():
    groups, votes = GROUPS.reset_index(drop=True), VOTES.reset_index(drop=True)
    found = unit_tables(groups, columns(votes.sample(frac=1, random_state=2)))
    np.testing.assert_array_equal(found.T, unit_tables(groups, votes).T)


def test_columns_of_a_mapping_with_other_names_are_refused():
    with pytest.raises(InputError):
        unit_tables(GROUPS, {"d": VOTES["d"], "r": VOTES["r"][::-1]})
    with pytest.raises(InputError):
        unit_tables(GROUPS, {"d": VOTES["d"], "r": VOTES["r"].set_axis(list("wxyz"))})
    found = unit_tables(GROUPS, {"d": VOTES["d"], "r": VOTES["r"].reset_index(drop=True)})  # only counts: by position
    np.testing.assert_array_equal(found.T, VOTES)


def test_covariates_in_a_mapping_are_matched_by_the_index():
    rng = np.random.default_rng(3)
    units = [f"u{i}" for i in range(40)]
    share = rng.uniform(0.1, 0.9, 40)
    groups = pd.DataFrame({"a": (1000 * share).round(), "b": 1000 - (1000 * share).round()}, index=units)
    z = pd.DataFrame({"z": rng.normal(size=40)}, index=units)
    yes = (groups["a"] * 0.7 + groups["b"] * (0.3 + 0.1 * np.tanh(z["z"]))).round()
    votes = pd.DataFrame({"y": yes, "n": 1000 - yes})
    whole = rxc(groups, votes, covariates=z, random_state=0)
    named = rxc(groups, votes, covariates=columns(z[::-1]), random_state=0)
    np.testing.assert_allclose(named["estimate"], whole["estimate"])


def test_a_truth_of_columns_in_two_orders_is_refused():
    answer = cl.Estimates.build(
        {"group": ["a", "b"], "estimate": [0.4, 0.6]}, keys=["group"], method="example", level=None, interval="none",
        provenance=Provenance.of(call="example()"),
    )  # fmt: skip
    group, truth = pd.Series(["a", "b"], index=[1, 0]), pd.Series([0.1, 0.9])
    with pytest.raises(InputError):
        answer.with_truth({"group": group, "truth": truth})
