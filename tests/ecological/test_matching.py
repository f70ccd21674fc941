"""Do the people live in the places, and are they the people of the fit?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.ecological.matching import check_people, match
from crosslevel.ecological.places import read_places
from crosslevel.errors import InputError


def places(keys, trials=None):
    n = [10] * len(keys) if trials is None else trials
    return read_places({"town": list(keys), "yes": [0] * len(keys), "all": n}, "town", "yes", "all")


def matched(found, keys, unmatched="error", weight=None):
    weight = np.ones(len(keys)) if weight is None else np.asarray(weight, float)
    return match(found, keys, weight, np.full(len(keys), 5), unmatched)


def test_places_come_in_the_order_of_the_people():
    assert matched(places("cab"), ["a", "b", "c"]).keys == ["a", "b", "c"]


def test_places_without_trials_may_have_people():
    found = matched(places("abc", [10, 0, 10]), ["a", "b", "c"])
    assert found.keys == ["a", "c"]
    assert len(found.notes) == 1


def test_a_part_that_is_all_or_tiny_is_told_in_digits():
    with pytest.raises(InputError, match=r"20 people \(100 % of the weight\) .* 2 place\(s\) \(100 % of the trials\)"):
        matched(places("ab"), list("wxyz"))
    with pytest.raises(InputError, match=r"5 people \(0.05 % of the weight\)"):
        matched(places("ab"), list("abx"), weight=[1000, 999, 1])


def test_both_sides_are_told_by_count_and_weight():
    with pytest.raises(
        InputError, match=r"10 people \(50 % of the weight\) live in 2 place\(s\) that places lacks \('x', 'y'\)"
    ):
        matched(places("ab"), ["a", "b", "x", "y"])
    with pytest.raises(
        InputError, match=r"1 place\(s\) \(75 % of the trials\) have no people of positive weight \('b'\)"
    ):
        matched(places("ab", [10, 30]), ["a"])
    with pytest.raises(InputError, match=r"Correct the keys, or pass unmatched='drop'"):
        matched(places("ab"), ["a"])


def test_dropping_goes_on_and_says_so():
    found = matched(places("ab"), ["b", "x"], "drop", weight=[1, 3])
    assert found.keys == ["b"]
    assert found.notes == (
        "Left out: 5 people (75 % of the weight) live in 1 place(s) that places lacks ('x'); 1 place(s) (50 % of the trials) have "
        "no people of positive weight ('a').",
    )


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        ([1, 2], ["1", "2"], r"'town' is int in people \(1\) and str in places \('1'\); make it one type"),
        ([1001, 1003], ["01001", "01003"], r"is int in people \(1001\) and str in places \('01001'\)"),
        (["1001", "1003"], ["01001", "01003"], r"write leading zeros in both or in neither"),
        (["a", "b"], ["x", "y"], r"Check that by='town' is the right column, spelt alike"),
    ],
)
def test_keys_of_another_kind_are_told_apart(here, there, message):
    for unmatched in ("error", "drop"):  # nothing is left to go on with
        with pytest.raises(InputError, match=message):
            matched(places(there), here, unmatched)


def test_an_unknown_choice_is_refused():
    with pytest.raises(InputError, match=r"unmatched='dorp' is not a choice; .* Did you mean 'drop'\?"):
        matched(places("ab"), ["a", "b"], "dorp")


def test_the_people_of_the_fit_pass_and_others_do_not():
    found, whole = matched(places("ab"), ["a", "b"]), np.array([4.0, 6.0])
    keys, weight = ["a", "a", "b", "elsewhere"], np.array([1.0, 3.0, 6.0, 9.0])
    check_people(keys, weight, found, whole, part=False)
    check_people(keys, weight / 2, found, whole, part=True)
    with pytest.raises(
        InputError, match=r"people are not those of fit: in 1 place\(s\) .* first in 'b' \(5, and 6 in fit\)"
    ):
        check_people(keys, np.array([1.0, 3.0, 5.0, 9.0]), found, whole, part=False)
    with pytest.raises(InputError, match=r"first in 'a' \(5, and 4 in fit\)"):
        check_people(keys, np.array([2.0, 3.0, 6.0, 9.0]), found, whole, part=True)
