"""The table of places: what is read, matched with people by key, and refused with which sentence."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.data.places import chain, check_people, match_places, read_places
from crosslevel.errors import InputError

TOWNS = {"town": ["b", "a", "c"], "yes": [3, 5, 0], "no": [6, 4, 2], "all": [9, 9, 2], "everybody": [10, 20, 2]}


def towns(**changed):
    return {name: values for name, values in (TOWNS | changed).items() if values is not None}


def read(frame, successes="yes", trials="all", **options):
    return read_places(frame, "town", successes, trials, **options)


def test_one_outcome_is_one_question():
    found = read(towns())
    assert found.totals.questions == ("yes",)
    assert found.totals.successes.tolist() == [[3, 5, 0]]
    assert found.totals.trials.tolist() == [[9, 9, 2]]
    assert not found.totals.exhaustive
    assert found.notes == ()


def test_outcomes_that_add_up_need_one_question_less():
    found = read(towns(), None, "all", outcomes=["yes", "no"])
    assert found.totals.exhaustive
    assert found.totals.questions == ("yes",)
    assert found.totals.outcomes == ("yes", "no")
    partly = read(towns(all=[10, 9, 2]), None, "all", outcomes=["yes", "no"])
    assert not partly.totals.exhaustive
    assert partly.totals.trials.tolist() == [[10, 9, 2], [7, 4, 2]]


def test_turnout_is_the_first_question():
    found = read(towns(), population="everybody")
    assert found.totals.questions == ("turnout", "yes")
    assert found.totals.successes.tolist() == [[9, 9, 2], [3, 5, 0]]
    assert found.totals.trials.tolist() == [[10, 20, 2], [9, 9, 2]]


def test_every_question_is_asked_of_those_who_are_left():
    parts = np.array([[3.0, 0.0], [2.0, 1.0], [5.0, 0.0]])
    k, left = chain(parts, parts.sum(axis=0), False)
    assert left.tolist() == [[10, 1], [7, 1], [5, 0]]
    # the shares of the chain multiply back to the counts
    again, rest = [], parts.sum(axis=0)
    for yes, n in zip(k, left, strict=True):
        again.append(rest * np.divide(yes, n, out=np.zeros(2), where=n > 0))
        rest = rest - again[-1]
    assert np.allclose(again, parts)


def test_places_without_trials_are_left_out_and_named():
    found = read(towns(yes=[3, 5, 0], all=[9, 9, 0]))
    assert found.keys == ["b", "a"]
    assert found.left_out == ("c",)
    assert found.notes == ("1 place(s) without any trials were left out ('c').",)


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (towns(yes=[10, 5, 0]), {}),
        (towns(all=[9, 1e200, 2]), {}),
        (towns(yes=[-1, 5, 0]), {}),
        (towns(all=[9, None, 2]), {}),
        (towns(all=[9, np.inf, 2]), {}),
        (towns(yes=[0, 0, 0], all=[0, 0, 0]), {}),
        (towns(yes=["x", "y", "z"]), {}),
        (towns(), {"successes": "ye"}),
        (towns(), {"trials": "al"}),
        (towns(), {"trials": None}),
        (towns(), {"outcomes": ["yes", "no"]}),
        (towns(), {"successes": None, "outcomes": ["yes", "ni"]}),
        (towns(), {"successes": None, "trials": None, "outcomes": ["yes"]}),
        (towns(no=[7, 4, 2]), {"successes": None, "outcomes": ["yes", "no"]}),
        (towns(everybody=[8, 20, 2]), {"population": "everybody"}),
        (towns(), {"population": "evrybody"}),
        (towns(town=["a", "a", "c"]), {}),
        (towns(town=["a", None, "c"]), {}),
        (towns(town=None), {}),
        ({n: v[:0] for n, v in TOWNS.items()}, {}),
        (towns(lon=[0.0, np.nan, 1.0], lat=[0.0] * 3), {"coords": ("lon", "lat")}),
        (towns(lon=[0.0, 1.0, 1.0]), {"coords": ("lon", "lat")}),
        (towns(lon=[0.0, 1.0, 1.0]), {"coords": ("lon",)}),
        (towns(), {"coords": "lon"}),
    ],
)
def test_what_cannot_be_is_refused(frame, options):
    options = {"successes": "yes", "trials": "all"} | options
    with pytest.raises(InputError):
        read(frame, **options)


def places(keys, trials=None):
    n = [10] * len(keys) if trials is None else trials
    return read_places({"town": list(keys), "yes": [0] * len(keys), "all": n}, "town", "yes", "all")


def matched(found, keys, unmatched="error", weight=None):
    weight = np.ones(len(keys)) if weight is None else np.asarray(weight, float)
    return match_places(found, keys, weight, np.full(len(keys), 5), unmatched)


def test_places_come_in_the_order_of_the_people():
    assert matched(places("cab"), ["a", "b", "c"]).keys == ["a", "b", "c"]


def test_places_and_people_that_do_not_match_are_refused():
    for keys, trials, people, weight in (
        ("ab", None, "wxyz", None),
        ("ab", None, "abx", [1000, 999, 1]),
        ("ab", [10, 30], "a", None),
    ):
        with pytest.raises(InputError):
            matched(places(keys, trials), list(people), weight=weight)
    with pytest.raises(InputError):
        matched(places("ab"), ["a", "b"], "dorp")


def test_dropping_goes_on_and_says_so():
    found = matched(places("ab"), ["b", "x"], "drop", weight=[1, 3])
    assert found.keys == ["b"]
    assert found.notes == (
        "Left out: 5 people (75 % of the weight) live in 1 place(s) that places lacks ('x'); 1 place(s) (50 % of the trials) have "
        "no people of positive weight ('a').",
    )


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ([1, 2], ["1", "2"]),
        ([1001, 1003], ["01001", "01003"]),
        (["1001", "1003"], ["01001", "01003"]),
        (["a", "b"], ["x", "y"]),
    ],
)
def test_keys_of_another_kind_are_told_apart(here, there):
    for unmatched in ("error", "drop"):  # nothing is left to go on with
        with pytest.raises(InputError):
            matched(places(there), here, unmatched)


def test_the_people_of_the_fit_pass_and_others_do_not():
    found, whole = matched(places("ab"), ["a", "b"]), np.array([4.0, 6.0])
    keys, weight = ["a", "a", "b", "elsewhere"], np.array([1.0, 3.0, 6.0, 9.0])
    check_people(keys, weight, found, whole)
    with pytest.raises(InputError):
        check_people(keys, np.array([1.0, 3.0, 5.0, 9.0]), found, whole)
    with pytest.raises(InputError):
        check_people(keys, np.array([2.0, 3.0, 6.0, 9.0]), found, whole)
