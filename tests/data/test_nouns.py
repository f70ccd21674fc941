"""What a noun refuses when it is made, how it looks, and how one is made of another."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import crosslevel as cl
from crosslevel.data.surveys import read_surveys
from crosslevel.errors import FileError, InputError

ROWS = {
    "town": ["a", "a", "b"],
    "age": [30, 41, 65],
    "w": [1.0, 2.0, 1.0],
    "home": [1, 1, 2],
    "vote": [1, 0, None],
}
TOWNS = {"town": ["a", "b"], "yes": [3, 5], "all": [9, 9], "x": [0.1, 0.2], "lon": [0.1, 0.2], "lat": [50.0, 50.1]}
NOUNS = {
    cl.People: {"data": ROWS, "by": "town", "weight": "w", "cluster": "home", "columns": ["age"], "where": "age > 40"},
    cl.Places: {"data": TOWNS, "by": "town", "successes": "yes", "trials": "all", "coords": ("lon", "lat")},
    cl.Means: {"columns": "ill", "se": {"ill": "ill_se"}, "of": "population"},
    cl.GroupCounts: {"groups": {"race": {"white": "vap_white", "black": "vap_black"}}, "weight": "vap"},
    cl.Survey: {"data": ROWS, "outcome": "vote", "by": "town", "weight": "w", "name": "poll"},
    cl.PublishedShares: {"data": {"subgroup": ["sex = 2"], "dem": [300], "votes": [500]}},
}
REFUSED = [
    *((cl.People, name, "nobody") for name in ("by", "weight", "cluster", "where")),
    *((cl.People, name, 3) for name in ("by", "weight", "cluster", "columns", "categorical", "where", "data")),
    *((cl.People, name, ["nobody"]) for name in ("by", "columns", "categorical")),
    *((cl.People, name, "age") for name in ("weight", "cluster", "columns", "categorical", "where")),
    *((cl.People, "where", text) for text in ("", "age >", "age > 1; select 1", "age + 1")),
    *(
        (cl.People, name, value)
        for name, value in (("by", "w"), ("by", []), ("by", ["town", "town"]), ("cluster", "town"))
    ),
    *((cl.Places, name, "nobody") for name in ("by", "successes", "trials", "population")),
    *((cl.Places, name, ["nobody"]) for name in ("outcomes", "covariates", "by", "successes")),
    *((cl.Places, "coords", value) for value in (("lon",), ("lon", "lat", "x"), ("lon", "nobody"), "lon", 3)),
    *(
        (cl.Places, "means", value)
        for value in ("nobody", ["nobody"], [], 3, "town", cl.Means("yes", se={"yes": "nobody"}))
    ),
    *(
        (cl.Means, name, value)
        for name, value in (("columns", []), ("columns", ["a", "a"]), ("se", {"x": "y"}), ("se", "x"), ("of", "some"))
    ),
    *((cl.Places, "by", None), (cl.Places, "data", 3), (cl.Places, "covariates", "yes")),
    *(
        (cl.GroupCounts, "groups", value)
        for value in (None, {}, ["white"], {"race": ["white"]}, {"race": "white"}, {"race": 3})
    ),
    *((cl.GroupCounts, "weight", 3), (cl.GroupCounts, "groups", {"n_people": ["a", "b"]})),
    *((cl.Survey, name, "nobody") for name in ("outcome", "by", "weight", "selection", "compare")),
    *((cl.Survey, name, 3) for name in ("outcome", "by", "weight", "name", "compare", "data")),
    *((cl.Survey, name, None) for name in ("outcome", "name", "selection", "compare")),
    *((cl.Survey, "selection", value) for value in (-0.1, True, float("nan"), 11, [0.1])),
    *(
        (cl.PublishedShares, name, value)
        for name, value in (("subgroup", "nobody"), ("source", "nobody"), ("data", {"x": [1]}))
    ),
]


@pytest.mark.parametrize(("noun", "argument", "value"), REFUSED)
def test_what_cannot_be_is_refused_at_once(noun, argument, value):
    with pytest.raises(InputError):
        noun(**NOUNS[noun] | {argument: value})


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_fits_on_one_screen_and_is_made_again_with_other_words(noun):
    made = noun(**NOUNS[noun])
    shown = repr(made)
    assert shown.startswith(f"{noun.__name__}(")
    assert len(shown) < 400
    assert "\n" not in shown
    assert repr(replace(made)) == shown
    with pytest.raises(AttributeError):
        made.data = "other"


def test_other_words_take_the_place_of_the_first():
    people = cl.People(**NOUNS[cl.People])
    assert replace(people, where=None).answer("select count(*) as n from people")["n"].to_pylist() == [3]
    assert people.answer("select count(*) as n from people")["n"].to_pylist() == [2]
    assert replace(cl.Places(**NOUNS[cl.Places]), coords=("x", "lat")).metric == "plane"
    assert cl.Places(**NOUNS[cl.Places]).metric == "sphere"
    wide = cl.People(
        {f"a long name of a column {i}": [1] for i in range(500)},
        categorical=[f"a long name of a column {i}" for i in range(500)],
    )
    assert len(repr(wide)) < 1000


def test_what_cannot_be_together_is_refused(tmp_path):
    poll, shares = cl.Survey(**NOUNS[cl.Survey]), cl.PublishedShares(**NOUNS[cl.PublishedShares])
    assert read_surveys([poll, shares]) == ((poll,), shares)
    assert read_surveys(None) == ((), None)
    for given in ([poll, poll], [shares, shares], ROWS, [ROWS], [poll, replace(poll, name="b", selection=0.2)], 3):
        with pytest.raises(InputError):
            read_surveys(given)
    for call in (
        lambda: pickle.dumps(cl.People(ROWS)),
        lambda: cl.People(ROWS, by=["town", "home"]).place,
        lambda: cl.People(ROWS | {"Crosslevel_set": [1, 2, 3]}),
    ):
        with pytest.raises(InputError):
            call()
    for noun in (cl.People, cl.Places, cl.Survey):
        with pytest.raises(FileError):
            noun(**NOUNS[noun] | {"data": tmp_path / "nothing.csv"})


def test_nouns_that_are_no_nouns_are_refused_in_fit():
    people, places, model = (
        cl.People(ROWS, by="town"),
        cl.Places(TOWNS, "town", "yes", "all"),
        cl.EcologicalInference(spatial=None),
    )
    counts = cl.GroupCounts({"race": ["yes", "all"]})
    for given in (
        (ROWS, places),
        (people, TOWNS),
        (None, places),
        (places, people),
        (people, places, ROWS),
        (cl.People(ROWS), places),
    ):
        with pytest.raises(InputError):
            model.fit(*given)
    with pytest.raises(InputError):
        model.fit(counts, replace(places, margins={"town": ["a"], "race=a": [1]}))
