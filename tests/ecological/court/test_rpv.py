"""A study of racially polarized voting: what it reads, which methods it runs, and what it says over all contests."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import Counts
from crosslevel.ecological import among_voters, candidate_of_choice, king, king_iterated, rpv, rxc
from crosslevel.ecological.court import rpv as module
from crosslevel.ecological.court.rpv import METHODS, WHY_RXC
from crosslevel.errors import InputError

RATES = {"first": [[0.50, 0.04, 0.01], [0.10, 0.45, 0.02]], "second": [[0.30, 0.10, 0.0], [0.40, 0.15, 0.0]]}
GROUPS = {"Black": "black", "white": "white"}
CONTESTS = {name: {"Ames": f"{name}_a", "Brown": f"{name}_b"} for name in RATES}


def ask(frame, contests, groups=GROUPS, unit="name", total_groups=None, repair="error", **options):
    """A study of a table of precincts."""
    return rpv(Counts(frame, unit=unit, groups=groups, total_groups=total_groups, repair=repair), contests, **options)


@pytest.fixture(scope="module")
def precincts():
    rng = np.random.default_rng(5)
    n = 24
    share = rng.beta(0.8, 1.4, n)
    people = np.column_stack([np.round(800 * share), np.round(800 * (1 - share))])
    frame = {
        "name": [f"p{i}" for i in range(n)],
        "black": people[:, 0],
        "white": people[:, 1],
        "rest": rng.integers(20, 300, n),
    }
    frame["adults"] = people.sum(axis=1) + frame["rest"]
    for name, rates in RATES.items():
        votes = np.array(
            [sum(rng.multinomial(int(k), [*p, 1 - sum(p)])[:3] for k, p in zip(x, rates, strict=True)) for x in people]
        )
        frame |= {f"{name}_{c}": votes[:, j] for j, c in enumerate("ab")}
        frame[f"{name}_all"] = votes.sum(axis=1)
    return frame  # fmt: skip


@pytest.fixture(scope="module")
def study(precincts):
    whole = {name: {**candidates, "total": f"{name}_all"} for name, candidates in CONTESTS.items()}
    return ask(precincts, whole, methods={**METHODS, "king_iterated": {"n_draws": 50}})


def test_every_method_that_courts_know_answers_by_default(study):
    assert tuple(METHODS) == ("homogeneous", "goodman", "king_iterated", "rxc")
    assert study.methods == tuple(METHODS)
    assert (study.lead, study.lead_reason) == ("rxc", WHY_RXC)
    for contest in study.contests.values():
        assert contest.left_out == {}
        np.testing.assert_allclose(contest.voters["rxc"]["estimate"].reshape(2, -1).sum(axis=1), 1, rtol=1e-9)


def test_the_summary_is_the_leading_method_among_voters(study):
    contest = study.contests["first"]
    tables = contest.tables
    assert tables.outcomes == ("Ames", "Brown", "others", "did not vote")
    counts = counted(
        dict(zip(tables.groups, tables.X.T, strict=True)), dict(zip(tables.outcomes, tables.T.T, strict=True))
    )
    found = candidate_of_choice(among_voters(rxc(counts)), exclude="others", abstention=None).select(rank=1)
    rows = study.summary.select(contest="first")
    np.testing.assert_array_equal(rows["estimate"], found["estimate"])
    np.testing.assert_array_equal(rows["probability_first"], found["probability_first"])
    assert rows["candidate"].tolist()[:2] == ["Ames", "Brown"]
    votes = tables.T.sum(axis=0)[:3]
    np.testing.assert_allclose(rows["vote_share"][:2], votes[:2] / votes.sum())
    np.testing.assert_allclose(
        rows["probability_lost"], 1 - contest.choice["rxc"].select(outcome=contest.winner)["probability_first"]
    )


def test_losses_and_differences_are_counted_over_contests(study):
    winner = {name: c.winner for name, c in study.contests.items()}
    assert winner["second"] == "Ames"  # whom both groups chose
    row = study.tally.select(group="Black").table.to_pylist()[0]
    assert (row["contests"], row["choices_differ"]) == (2, 1)
    assert row["lost"] == row["lost_where_choices_differ"] == int(winner["first"] == "Brown")
    assert study.tally.select(group="white").table.to_pylist()[0]["choices_differ"] is None
    said = study.sentences()
    assert said[0].startswith("In 1 of 2 contest(s)")
    assert "the candidate of choice of Black voters was not that of white voters" in said[0]
    assert any(text.startswith("first: ") and "Ames" in text for text in said)


def test_turnout_and_the_notes_on_the_data(study):
    went = study.contests["first"].turnout
    truth = {"Black": 0.55, "white": 0.57}
    for group, share in truth.items():
        row = went.select(group=group).table.to_pylist()[0]
        assert row["conf_low"] <= share <= row["conf_high"]
    assert any("'did not vote' takes the difference" in note for note in study.data_notes)


def test_a_study_is_saved_and_loaded_and_does_not_depend_on_threads(study, precincts, tmp_path, monkeypatch):
    cl.save(study, tmp_path / "study.crosslevel")
    again = cl.load(tmp_path / "study.crosslevel")
    assert again.summary.equals(study.summary)
    assert again.sentences() == study.sentences()
    assert again.contests["first"].voters["rxc"].equals(study.contests["first"].voters["rxc"])
    options = {"methods": {"king_iterated": {"n_draws": 50}, "goodman": {}}, "lead": "goodman"}
    found = []
    for n in (1, 2):
        monkeypatch.setattr(module.checks, "count_jobs", lambda asked, n=n: n)
        found.append(ask(precincts, CONTESTS, **options))
    one, two = found
    assert one.summary.equals(two.summary)
    np.testing.assert_array_equal(one.comparison["estimate"], two.comparison["estimate"])


def test_processes_give_the_same_bytes_as_one_after_another(precincts, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH_PROCESSES", 1)
    steps: list[tuple[int, int]] = []
    for n in (1, 2):
        monkeypatch.setattr(module.checks, "count_jobs", lambda asked, n=n: n)
        made = ask(precincts, CONTESTS, methods=["goodman", "rxc"], progress=lambda *s: steps.append(s))
        cl.save(made, tmp_path / f"{n}.crosslevel")
    assert steps == [(2, 4), (4, 4)] * 2
    assert (tmp_path / "1.crosslevel").read_bytes() == (tmp_path / "2.crosslevel").read_bytes()
    few = {name: values[:1] for name, values in precincts.items()}
    with pytest.raises(InputError):  # by whichever process is first
        ask(few, CONTESTS, methods=["goodman"])


def test_shares_of_the_total_are_multiplied_by_it(precincts):
    share = {name: precincts[name] / precincts["adults"] for name in ("black", "white")}
    options = {"total_groups": "adults", "methods": ["goodman"]}
    plain, shared = (ask(f, CONTESTS, **options) for f in (precincts, {**precincts, **share}))
    assert plain.groups == ("Black", "white", "other")
    np.testing.assert_allclose(plain.summary["estimate"], shared.summary["estimate"], rtol=1e-9)


def test_what_the_leading_method_refuses_stops_the_study_and_others_are_left_out(precincts):
    few = {name: values[:3] for name, values in precincts.items()}
    found = ask(few, CONTESTS, methods=["king_iterated", "neighborhood"], lead="neighborhood")
    assert found.contests["first"].voters.keys() == {"neighborhood"}
    assert "at least 5 units" in found.contests["first"].left_out["king_iterated"]
    with pytest.raises(InputError):
        ask(precincts, {"first": {"goes": "first_a", "Black": "first_b"}})


def test_votes_beyond_people_are_no_group_of_those_who_stayed(precincts):
    """All units are off to the same side, so that the difference would go to a group."""
    contests = {"first": ["first_a", "first_b"]}
    few = {**precincts, **{n: np.round(0.2 * precincts[n]) for n in ("black", "white")}}
    with pytest.raises(InputError):
        ask(few, contests, methods=["goodman"])
    found = ask(few, contests, methods=["goodman"], repair={"excess": "raise"})
    assert found.contests["first"].tables.groups == ("Black", "white")
    percent = np.round(100 * precincts["black"] / (precincts["black"] + precincts["white"]))
    share = {"black": percent, "white": 100 - percent}
    with pytest.raises(InputError):
        ask({**precincts, **share}, contests, methods=["goodman"])


def test_repairs_of_the_counts_are_done_and_said(precincts):
    holes = {**precincts, "black": precincts["black"].copy()}
    holes["black"][3] = np.nan
    options = {"total_groups": "adults", "methods": ["neighborhood"]}
    found = ask(holes, {"first": ["first_a", "first_b"]}, repair={"missing": "zero"}, **options)
    white, adults = precincts["white"][3], holes["adults"][3]
    np.testing.assert_allclose(found.contests["first"].tables.X[3], [0.0, white, adults - white])
    assert "taken for zero" in found.data_notes[0]
    with pytest.raises(InputError):
        ask(holes, {"first": ["first_a", "first_b"]}, **options)


def test_king_iterated_has_no_interval_where_it_has_no_fit(precincts):
    X = {"black": precincts["black"], "white": precincts["white"]}
    few = np.arange(24) % 3
    rest = precincts["black"] + precincts["white"] - precincts["first_a"] - few
    found = king_iterated(counted(X, {"Ames": precincts["first_a"], "few": few, "rest": rest}), n_draws=50)
    assert np.isfinite(found["estimate"]).all()
    for name in ("std_error", "conf_low", "conf_high"):
        np.testing.assert_array_equal(np.isnan(found[name]).reshape(2, 3), [[False, True, False]] * 2)
    # its draws are as wide as what the counts allow, and on average at the estimate
    drawn, (low, high) = (
        found.draws.reshape(-1, 2, 3)[:, :, 1],
        (found[n].reshape(2, 3)[:, 1] for n in ("lower", "upper")),
    )
    assert (drawn.std(axis=0) > (high - low) / 10).all()
    assert (np.abs(drawn.mean(axis=0) - found["estimate"].reshape(2, 3)[:, 1]) < (high - low) / 5).all()


def test_king_iterated_is_king_where_the_table_is_two_by_two(precincts):
    X = {"black": precincts["black"], "white": precincts["white"]}
    votes = precincts["first_a"]
    two = {"Ames": votes, "rest": precincts["black"] + precincts["white"] - votes}
    one, whole = king(counted(X, two), n_draws=100), king_iterated(counted(X, two), n_draws=100)
    np.testing.assert_allclose(whole["estimate"], one["estimate"], rtol=1e-12)
    np.testing.assert_allclose(whole.draws, one.draws, rtol=1e-12)
    three = {"Ames": votes, "Brown": precincts["first_b"], "rest": two["rest"] - precincts["first_b"]}
    found = king_iterated(counted(X, three), n_draws=100)
    raw = np.array(found.diagnostics["sums"])
    np.testing.assert_allclose(found["estimate"][0] * raw[0], one["estimate"][0], rtol=1e-9)
    np.testing.assert_allclose(found["estimate"].reshape(2, 3).sum(axis=1), 1)


def test_a_proposed_district_is_counted_again_and_the_choice_is_drawn(study, precincts):
    names, share = np.array(precincts["name"]), precincts["black"] / (precincts["black"] + precincts["white"])
    black, rest = names[share > 0.6].tolist(), names[share <= 0.6].tolist()
    found = study.performance({"new": black, "rest": rest}, "Black")
    assert list(zip(found["district"], found["contest"], strict=True))[:2] == [("new", "first"), ("new", "second")]
    row = found.table.to_pylist()[0]
    votes = {c: precincts[f"first_{k}"][share > 0.6].sum() for c, k in (("Ames", "a"), ("Brown", "b"))}
    assert row["winner"] == max(votes, key=votes.get) == "Ames"
    total = precincts["first_all"][share > 0.6].sum()
    np.testing.assert_allclose([row["share"], row["votes"]], [votes["Ames"] / total, total])
    # who wins is counted, so that the probability is that of Ames being the choice
    choice = study.contests["first"].choice["rxc"].select(group="Black", outcome="Ames")
    np.testing.assert_allclose(row["probability_wins"], choice["probability_first"][0])
    lost = found.select(district="rest", contest="first").table.to_pylist()[0]
    np.testing.assert_allclose(lost["probability_wins"], 1 - choice["probability_first"][0], atol=1e-12)
    assert lost["won"] is False
    x, y = precincts["black"][share > 0.6].sum(), precincts["white"][share > 0.6].sum()
    np.testing.assert_allclose(row["group_people"], x / (x + y))
    inside = study.contests["first"].cells[share > 0.6].sum(axis=0)
    np.testing.assert_allclose(row["support"], inside[0, 0] / inside[0, :3].sum())
    whole = study.performance(precincts["name"], "Black").select(contest="first").table.to_pylist()[0]
    np.testing.assert_allclose(whole["probability_wins"], 1 - study.summary["probability_lost"][0])


def test_a_tie_is_nobodys_victory_and_units_lost_in_any_contest_are_named(precincts):
    tied = {n: np.array(v, dtype=object if n == "name" else float) for n, v in precincts.items()}
    tied["first_b"][:2] = tied["first_a"][:2][::-1]
    tied["second_a"][5] = np.nan
    tied["first_a"][6] = np.nan
    both = {name: [f"{name}_a", f"{name}_b"] for name in RATES}
    study = ask(tied, both, methods=["rxc"], repair={"missing": "drop"})
    found = study.performance({"even": ["p0", "p1"], "some": ["p0", "p5", "p6"]}, "Black")
    row = found.select(district="even", contest="first").table.to_pylist()[0]
    assert (row["won"], row["winner"], row["lead"]) == (None, None, 0.0)
    np.testing.assert_allclose(row["probability_wins"], 0.5)
    said = [w for w in found.warnings if "is not counted" in w]
    assert len(said) == 1
    assert "'p5'" in said[0]
    assert "'p6'" in said[0]


@pytest.mark.parametrize(
    ("districts", "group"),
    [({"new": ["p99"]}, "Black"), ({"new": "p1"}, "Black"), (["p1"], "green"), ({}, "Black")],
    ids=["no unit", "one name", "no group", "none"],
)
def test_districts_and_groups_that_are_not_there_are_named(study, districts, group):
    with pytest.raises(InputError):
        study.performance(districts, group)


def test_a_mistyped_precinct_is_refused_and_one_left_out_is_said(precincts):
    frame = {**precincts, "first_a": precincts["first_a"].astype(float)}
    frame["first_a"][3] = np.nan
    for column in ("black", "white", "first_a", "first_b"):
        frame[column] = np.where(np.array(frame["name"]) == "p5", 0.0, frame[column])
    contests = {"first": ["first_a", "first_b"]}
    study = ask(frame, contests, methods=["neighborhood"], repair={"missing": "drop"})
    assert study.contests["first"].tables.left_out == ("p3", "p5")
    found = study.performance({"new": ["p1", "p3", "p5"]}, "Black")
    assert found.warnings == ("new: 'p3', 'p5' had no people or was left out of the study, and is not counted.",)
    assert found["units"].tolist() == [1]
    with pytest.raises(InputError):
        study.performance({"new": ["p1", "p1O", "p3"]}, "Black")
    with pytest.raises(InputError):
        study.performance({"new": ["p3", "p5"]}, "Black")


def test_a_group_of_reference_without_an_answer_is_left_out_of_the_sentences(precincts):
    options = {"total_groups": "adults", "methods": ["homogeneous", "goodman"], "reference": "other"}
    frame = {**precincts, "black": precincts["black"].copy(), "white": precincts["white"].copy(), "adults": None}
    frame["black"][:2], frame["white"][:2] = [800, 0], [0, 800]
    rest = np.r_[0, 0, precincts["rest"][2:]]
    frame["adults"] = frame["black"] + frame["white"] + rest
    study = ask(frame, CONTESTS, **options)
    assert study.lead_reason == "homogeneous leads, the first method named."
    row = study.tally.select(group="Black").table.to_pylist()[0]
    assert (row["contests"], row["contests_compared"]) == (2, 0)
    assert row["choices_differ"] is row["expected_choices_differ"] is row["mean_reference_support"] is None
    said = study.sentences()
    assert not any("other voters" in text or "None" in text for text in said)


LEANING = {
    "a": [90, 70, 50, 30, 10],
    "b": [10, 30, 50, 70, 90],
    "x": [99, 90, 50, 10, 1],
    "y": [1, 10, 50, 90, 99],
}


def test_impossible_estimates_and_ties_are_said():
    """Goodman's line through these shares reaches 119 % and -19 %; both candidates have 250 votes."""
    frame = {"name": list("vwxyz"), **LEANING}
    study = ask(frame, {"Mayor": ["x", "y"]}, ["a", "b"], methods=["goodman"], reference="b")
    assert study.summary["estimate"].tolist() == pytest.approx([1.19, 1.19])
    assert study.contests["Mayor"].winner is None
    assert study.contests["Mayor"].ahead == ("x", "y")
    assert [(r["winner"], r["won"]) for r in study.summary.table.to_pylist()] == [(None, None)] * 2
    assert study.tally.select(group="a").table.to_pylist()[0]["lost"] == 0
    assert study.tally["outside"].tolist() == [1, 1]
    assert all("outside 0 to 100 %" in text for text in study.sentences())
    found = study.performance({"whole": list("vwxyz"), "part": ["v"]}, "a").table.to_pylist()
    assert [(r["winner"], r["won"]) for r in found] == [(None, None), ("x", True)]


@pytest.fixture(scope="module")
def undetermined():
    """Nobody can tell whom Asian voters chose: both candidates have half of them."""
    rng = np.random.default_rng(4)
    few = np.round(500 * rng.uniform(0.15, 0.55, 12))
    day = rng.binomial(few.astype(int), 0.52) + rng.binomial((500 - few).astype(int), 0.43)
    frame = {"name": [f"p{i}" for i in range(12)], "Asian": few, "rest": 500 - few, "Day": day, "Evans": 500 - day}
    return {
        level: ask(frame, {"Clerk": ["Day", "Evans"]}, ["Asian", "rest"], methods=["rxc"], level=level)
        for level in (0.95, 0.4)
    }


def test_a_choice_below_the_level_cannot_be_determined(undetermined):
    row, other = undetermined[0.95].summary.table.to_pylist()
    assert 0.4 < row["probability_first"] < 0.95
    assert row["likeliest"] in ("Day", "Evans")
    assert row["candidate"] is row["won"] is row["vote_share"] is row["choices_differ"] is None
    assert (other["candidate"], other["won"]) == ("Evans", True)
    tally = undetermined[0.95].tally.select(group="Asian").table.to_pylist()[0]
    assert (tally["contests"], tally["determined"], tally["contests_compared"]) == (1, 0, 0)
    assert tally["lost"] is tally["choices_differ"] is tally["estimate"] is None
    known = undetermined[0.4].summary.table.to_pylist()[0]
    assert known["candidate"] == row["likeliest"]
    assert known["choices_differ"] is (known["candidate"] != "Evans")


def test_a_district_of_a_choice_below_the_level_keeps_what_is_counted(undetermined):
    found = {k: s.performance(["p0", "p1"], "Asian", level=k).table.to_pylist()[0] for k, s in undetermined.items()}
    assert found[0.95]["candidate"] is found[0.95]["won"] is found[0.95]["share"] is None
    assert found[0.4]["candidate"] in ("Day", "Evans")
    for name in ("winner", "votes", "estimate", "probability_wins"):
        assert found[0.95][name] == found[0.4][name]


def test_most_votes_in_these_units_is_no_victory():
    """Nobody has half of the votes: a runoff may decide."""
    people = {"unit": list("abcdefgh"), "x": [900, 700, 500, 300, 100, 800, 200, 400]}
    people["y"] = [1000 - v for v in people["x"]]
    x = np.array(people["x"])
    votes = {"A": np.round(0.65 * x + 0.3 * (1000 - x)), "C": np.full(8, 90)}
    votes["B"] = 1000 - votes["A"] - votes["C"]
    contests, options = {"Senate": ["A", "B", "C"]}, {"methods": ["goodman"], "reference": "y"}
    study = ask({**people, **votes}, contests, ["x", "y"], "unit", **options)
    row = study.summary.select(group="x").table.to_pylist()[0]
    assert (row["candidate"], row["won"]) == ("A", True)
    assert row["vote_share"] < 0.5
    said = " ".join((*study.sentences(), *study.performance(["a", "b"], "x").diagnostics["findings"]))
    assert "most votes in these units" in said
    assert not {"won", "lost", "wins"} & set(re.findall(r"\w+", said))


@pytest.mark.data
def test_where_the_assumption_fails_the_study_says_so(real_data):
    data = np.genfromtxt(real_data / "truth" / "eco_forgnlit30c.csv", delimiter=",", names=True)
    frame = {"foreign": 10_000 * data["X"], "native": 10_000 * (1 - data["X"])}
    frame |= {"illiterate": 10_000 * data["Y"], "literate": 10_000 * (1 - data["Y"])}
    study = ask(frame, {"1930": ["illiterate", "literate"]}, ["foreign", "native"], None, methods=["goodman", "rxc"])
    assert any("at the edge of their deterministic bounds" in text for text in study.warnings)


def _twenty():
    rng = np.random.default_rng(3)
    black = rng.integers(50, 900, 20)
    table = {"unit": [f"p{i}" for i in range(20)], "Black": black, "white": 1000 - black, "vap": np.full(20, 1000)}
    table["A"] = rng.binomial(black, 0.4) + rng.binomial(1000 - black, 0.1)
    table["B"] = rng.binomial(black, 0.05) + rng.binomial(1000 - black, 0.4)
    return table | {"votes": table["A"] + table["B"]}


@pytest.mark.parametrize(
    ("groups", "contests"),
    [
        (["Black", "white"], {"Mayor": ["A", "B", "A"]}),
        (["Black", "white"], {"Mayor": {"A": "A", "B": "B", "C": "A"}}),
        (["Black", "white"], {"Mayor": ["A", "B", "votes"]}),
        (["Black", "vap", "white"], {"Mayor": ["A", "B"]}),
        (["Black", "white"], {"Mayor": ["A", "B"], "Clerk": ["B", "A"]}),
        (["Black", "white"], {"Mayor": {"Black": "A", "B": "B"}}),
        (["Black", "white"], {"Mayor": {"did not vote": "A", "B": "B"}}),
        (["Black", "white"], {"Mayor": {"A": "A", "B": "B", "total": "vots"}}),
        (["Black", "white"], {"Mayor": {"A": "A", "B": "B", "total": 3}}),
        (["Black", "white"], {"Mayor": ["A", "Bb"]}),
        (["Black", "white"], {"Mayor": "A"}),
        (["Black", "white"], {}),
    ],
)
def test_contests_that_cannot_be_counted_are_refused(groups, contests):
    with pytest.raises(InputError):
        ask(_twenty(), contests, groups, "unit", methods=["goodman"])


def test_a_total_of_the_counts_is_that_of_every_contest_without_its_own():
    counts = Counts(_twenty(), unit="unit", groups=["Black", "white"], total_outcomes="votes")
    of_all = rpv(counts, {"Mayor": ["A", "B"]}, methods=["neighborhood"])
    own = replace(counts, total_outcomes=None)
    named = rpv(own, {"Mayor": {"A": "A", "B": "B", "total": "votes"}}, methods=["neighborhood"])
    np.testing.assert_array_equal(of_all.summary["estimate"], named.summary["estimate"])
    one = rpv(counts, {"Mayor": {"A": "A", "total": "votes"}}, methods=["neighborhood"])
    assert one.contests["Mayor"].tables.outcomes == ("A", "others", "did not vote")
