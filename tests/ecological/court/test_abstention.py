"""Those who did not vote are nobody's candidate, and every sentence says of whom its shares are."""

from __future__ import annotations

import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.ecological.court.reporting import abstention_among
from crosslevel.errors import InputError

PEOPLE = {"black": [10, 40, 70, 90, 20, 55], "white": [90, 60, 30, 10, 80, 45]}
VOTES = {"a": [9, 17, 25, 27, 15, 26], "b": [21, 23, 15, 13, 15, 14]}
STAYED = [70, 60, 60, 60, 70, 60]
GROUPS = ("black", "white")


def answered(name="did not vote"):
    return ecological.neighborhood(counted(PEOPLE, {**VOTES, name: STAYED}))


@pytest.mark.parametrize(
    "name",
    [
        "did not vote",
        "Did_Not_Vote",
        "Abstained",
        "nonvoters",
        "not_voting",
        "Didn\u2019t vote",
    ],
)
def test_abstention_is_nobodys_choice_unless_asked_for(name):
    result = answered(name)
    found = ecological.candidate_of_choice(result)
    assert set(found["outcome"]) == {"a", "b"}
    assert any(f"{name!r} counts as abstention and is nobody's candidate" in w for w in found.warnings)
    assert found.title.endswith(f"leaving out {name}")
    apart = ecological.polarization(result, GROUPS)
    assert set(apart["outcome"]) == {"a", "b"}
    assert apart.diagnostics["findings"][0].startswith("black choose a, white choose b, by shares of everybody")
    asked = ecological.candidate_of_choice(result, abstention=None)
    assert asked["outcome"][0] == name
    assert not any("abstention" in w for w in asked.warnings)
    assert set(ecological.polarization(result, GROUPS, abstention=None)["outcome"]) == {"a", "b", name}


def test_other_names_are_named():
    result = answered("home")
    assert ecological.candidate_of_choice(result)["outcome"][0] == "home"
    found = ecological.candidate_of_choice(result, abstention="home")
    assert set(found["outcome"]) == {"a", "b"}
    again = ecological.candidate_of_choice(result, abstention=["home"])
    assert again["estimate"].tolist() == found["estimate"].tolist()
    with pytest.raises(InputError, match="abstention="):
        ecological.candidate_of_choice(result, abstention="hme")
    with pytest.raises(InputError, match="abstention="):
        ecological.margin(result, ("a", "b"), abstention=3)


def test_names_that_only_look_alike_are_candidates():
    assert abstention_among(["no vote", "Not Voting Party", "no", "none of the above", "other"]) == ()


def test_a_lead_over_abstention_is_refused_unless_asked_for():
    result = answered()
    with pytest.raises(InputError):
        ecological.margin(result, ("a", "did not vote"))
    with pytest.raises(InputError):
        ecological.polarization(result, GROUPS, outcome="did not vote")
    assert (ecological.margin(result, ("a", "did not vote"), abstention=None)["estimate"] < 0).all()


def test_a_question_of_turnout_alone_has_no_candidates():
    result = ecological.neighborhood(counted(PEOPLE, {"voted": [30, 40, 40, 40, 30, 40], "did not vote": STAYED}))
    with pytest.raises(InputError):
        ecological.candidate_of_choice(result)
    assert len(ecological.candidate_of_choice(result, abstention=None)) == 4


def test_sentences_name_their_denominator():
    result = answered()
    voters = ecological.among_voters(result)
    for found, words in ((result, "of everybody in the group"), (voters, "of the group's voters")):
        choice = ecological.candidate_of_choice(found)
        assert all(f" {words}, leads " in said for said in choice.diagnostics["findings"])
        apart = ecological.polarization(found, GROUPS)
        assert f"by shares {words};" in apart.diagnostics["findings"][0]
        assert f"as shares {words}" in apart.title
        assert f"as a share {words}" in ecological.margin(found, ("a", "b")).title
