from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel import ecological
from crosslevel.errors import InputError

GOOD = {"a": [3.0, 1.0], "b": [7.0, 4.0]}
VOTES = {"yes": [5.0, 2.0], "no": [5.0, 3.0]}


def test_frames_and_arrays_say_the_same():
    named = ecological.unit_tables(pd.DataFrame(GOOD), pd.DataFrame(VOTES), units=["u", "v"])
    bare = ecological.unit_tables(np.array([*GOOD.values()]).T, np.array([*VOTES.values()]).T)
    np.testing.assert_array_equal(named.X, bare.X)
    np.testing.assert_array_equal(named.T, bare.T)
    assert named.frame == "pandas"
    assert named.units == ("u", "v")
    assert bare.groups == ("group_0", "group_1")


def test_units_without_people_are_left_out_and_named():
    tables = ecological.unit_tables({"a": [3, 0], "b": [7, 0]}, {"y": [5, 0], "n": [5, 0]}, units=["u", "empty"])
    assert tables.units == ("u",)
    assert tables.dropped == ("empty",)


PEOPLE = {"p": ["a", "a", "b", "a"], "g": [2, 1, 1, 2], "w": [1.0, 2.0, 5.0, 1.0]}
PLACES = {"p": ["b", "a"], "n": [10, 100]}


def test_group_counts_add_up_to_the_places_totals():
    counts, keys = ecological.group_counts(PEOPLE, by="p", group="g", places=PLACES, total="n", weight="w")
    assert keys == ("b", "a")
    assert counts.to_pydict() == {"1": [10.0, 50.0], "2": [0.0, 50.0]}
    unweighted, _ = ecological.group_counts(PEOPLE, by="p", group="g", places=PLACES, total="n")
    np.testing.assert_allclose(unweighted["2"].to_numpy(), [0, 200 / 3])


@pytest.mark.parametrize(
    ("people", "places"),
    [
        (PEOPLE, {"p": ["b"], "n": [10]}),
        (PEOPLE, {"p": ["b", "a", "c"], "n": [10, 100, 1]}),
        (PEOPLE, {"p": ["b", "a", "a"], "n": [10, 100, 1]}),
        (PEOPLE, {"p": ["b", "a"], "n": [10, -1]}),
        ({**PEOPLE, "w": [1, -1, 1, 1]}, PLACES),
        (PEOPLE, {"p": [1, 2], "n": [10, 100]}),
    ],
)
def test_bad_people_and_places_get_a_sentence(people, places):
    with pytest.raises(InputError):
        ecological.group_counts(people, by="p", group="g", places=places, total="n", weight="w")


def test_an_empty_unit_does_not_shift_the_others():
    groups, outcomes = {"a": [0, 3, 1], "b": [0, 7, 4]}, {"y": [0, 5, 2], "n": [0, 5, 3]}
    tables = ecological.unit_tables(groups, outcomes, units=["empty", "u", "v"])
    np.testing.assert_array_equal(tables.X, [[3, 7], [1, 4]])
    np.testing.assert_array_equal(tables.T, [[5, 5], [2, 3]])
    assert tables.units == ("u", "v")


def test_margins_may_differ_by_rounding_only():
    X = np.array([[3e6, 7e6]])
    ecological.unit_tables(X, np.array([[5e6, 5e6 + 1]]))
    with pytest.raises(InputError):
        ecological.unit_tables(X, np.array([[5e6, 5e6 + 1e4]]))
    found = ecological.bounds(np.array([[1e7 - 1, 0]]), np.array([[1e7, 0]]))
    assert (found.units["lower"][:2] <= found.units["upper"][:2]).all()


def test_a_filtered_pandas_frame_is_the_frame_of_its_rows():
    groups = pd.DataFrame({"young": [30, 90, 50, 20], "old": [70, 10, 50, 80]})
    votes = pd.DataFrame({"yes": [80, 20, 60, 50], "no": [20, 80, 40, 50]})
    kept = groups.young > 25
    a = ecological.goodman(groups[kept], votes[kept])
    b = ecological.goodman(groups[kept].reset_index(drop=True), votes[kept].reset_index(drop=True))
    assert len(a) == 4
    np.testing.assert_array_equal(a["estimate"], b["estimate"])
    with pytest.raises(InputError):
        ecological.goodman(groups[kept], votes[~kept].reset_index(drop=True))


@pytest.mark.parametrize(
    "options",
    [{"by": "q"}, {"group": "gg"}, {"group": 3}],
)
def test_group_counts_names_the_argument_that_is_wrong(options):
    with pytest.raises(InputError):
        ecological.group_counts(PEOPLE, **{"by": "p", "group": "g", "places": PLACES, "total": "n", **options})
