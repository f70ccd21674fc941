"""A study of racially polarized voting: what it reads, which methods it runs, and what it says over all contests."""

from __future__ import annotations

import re

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.ecological import among_voters, candidate_of_choice, king, king_iterated, performance, rpv, unit_tables
from crosslevel.ecological.court import rpv as module
from crosslevel.ecological.court.rpv import METHODS, WHY_RXC
from crosslevel.errors import InputError

RATES = {"first": [[0.50, 0.04, 0.01], [0.10, 0.45, 0.02]], "second": [[0.30, 0.10, 0.0], [0.40, 0.15, 0.0]]}
GROUPS = {"Black": "black", "white": "white"}
CONTESTS = {name: {"Ames": f"{name}_a", "Brown": f"{name}_b"} for name in RATES}


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
    totals = {name: f"{name}_all" for name in RATES}
    methods = {**METHODS, "king_iterated": {"n_draws": 50}}
    return rpv(precincts, GROUPS, CONTESTS, "name", total_outcomes=totals, methods=methods, n_jobs=1)


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
    assert tables.outcomes == ("Ames", "Brown", "other candidates", "did not vote")
    found = candidate_of_choice(
        among_voters(cl.ecological.rxc(tables)), exclude="other candidates", abstention=None
    ).select(rank=1)
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


def test_a_study_is_saved_and_loaded_and_does_not_depend_on_threads(study, precincts, tmp_path):
    cl.save(study, tmp_path / "study.crosslevel")
    again = cl.load(tmp_path / "study.crosslevel")
    assert again.summary.equals(study.summary)
    assert again.sentences() == study.sentences()
    assert again.contests["first"].voters["rxc"].equals(study.contests["first"].voters["rxc"])
    options = {"methods": {"king_iterated": {"n_draws": 50}, "goodman": {}}, "lead": "goodman"}
    one, two = (rpv(precincts, GROUPS, CONTESTS, "name", **options, n_jobs=n) for n in (1, 2))
    assert one.summary.equals(two.summary)
    np.testing.assert_array_equal(one.comparison["estimate"], two.comparison["estimate"])


def test_processes_give_the_same_bytes_as_one_after_another(precincts, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH_PROCESSES", 1)
    steps: list[tuple[int, int]] = []
    for n in (1, 2):
        made = rpv(
            precincts,
            GROUPS,
            CONTESTS,
            "name",
            methods=["goodman", "rxc"],
            n_jobs=n,
            progress=lambda *s: steps.append(s),
        )
        cl.save(made, tmp_path / f"{n}.crosslevel")
    assert steps == [(2, 4), (4, 4)] * 2
    assert (tmp_path / "1.crosslevel").read_bytes() == (tmp_path / "2.crosslevel").read_bytes()
    few = {name: values[:1] for name, values in precincts.items()}
    with pytest.raises(InputError):  # by whichever process is first
        rpv(few, GROUPS, CONTESTS, "name", methods=["goodman"], n_jobs=2)


def test_shares_of_the_total_are_multiplied_by_it(precincts):
    share = {name: precincts[name] / precincts["adults"] for name in ("black", "white")}
    options = {"total_groups": "adults", "methods": ["goodman"]}
    counted, shared = (rpv(f, GROUPS, CONTESTS, **options) for f in (precincts, {**precincts, **share}))
    assert counted.groups == ("Black", "white", "other")
    np.testing.assert_allclose(counted.summary["estimate"], shared.summary["estimate"], rtol=1e-9)


def test_what_the_leading_method_refuses_stops_the_study_and_others_are_left_out(precincts):
    few = {name: values[:3] for name, values in precincts.items()}
    found = rpv(few, GROUPS, CONTESTS, methods=["king_iterated", "neighborhood"], lead="neighborhood")
    assert found.contests["first"].voters.keys() == {"neighborhood"}
    assert "at least 5 units" in found.contests["first"].left_out["king_iterated"]
    with pytest.raises(InputError):
        rpv(
            {**precincts, "goes": [1] * 24},
            {"Black": "black", "goes": "white"},
            {"first": {"goes": "first_a", "Black": "first_b"}},
        )


def test_more_votes_than_people_is_refused_raised_or_left_out():
    people, votes = {"a": [50, 40, 0], "b": [50, 60, 0]}, {"x": [40, 90, 3], "y": [30, 30, 4]}
    with pytest.raises(InputError, match="excess="):
        counted(people, votes, balance="none-of-the-above").tables
    raised = counted(people, votes, balance="none-of-the-above", excess="raise").tables
    np.testing.assert_allclose(raised.X, [[50, 50], [48, 72]])
    np.testing.assert_allclose(raised.T[:, 2], [30, 0])
    assert "largest factor 1.2 in 1" in raised.notes[0]
    assert "1 unit(s) with more outcomes than people" in raised.notes[1]
    dropped = counted(people, votes, balance="none-of-the-above", excess="drop").tables
    assert dropped.units == (0,)
    with pytest.raises(InputError, match="excess="):
        counted(people, votes, excess="raise").tables


def test_votes_beyond_people_are_no_group_of_those_who_stayed(precincts):
    """All units are off to the same side, so that unit_tables gives the difference to a group."""
    contests = {"first": ["first_a", "first_b"]}
    few = {**precincts, **{n: np.round(0.2 * precincts[n]) for n in ("black", "white")}}
    with pytest.raises(
        InputError,
    ):
        rpv(few, GROUPS, contests, "name", methods=["goodman"])
    found = rpv(few, GROUPS, contests, "name", methods=["goodman"], excess="raise")
    assert found.contests["first"].tables.groups == ("Black", "white")
    percent = np.round(100 * precincts["black"] / (precincts["black"] + precincts["white"]))
    share = {"black": percent, "white": 100 - percent}
    with pytest.raises(InputError):
        rpv({**precincts, **share}, GROUPS, contests, "name", methods=["goodman"])


def test_a_missing_number_taken_for_zero_leaves_the_others_where_they_were_counted(precincts):
    """Of two columns summed one is missing, and the people counted in the other stay; the rest is what the total lacks."""
    holes = {**precincts, "black": precincts["black"].copy(), "more": np.full(24, 10.0)}
    holes["adults"] = precincts["adults"] + 10.0
    holes["black"][3] = np.nan
    groups = {"Black": ["black", "more"], "white": "white"}
    options = {"total_groups": "adults", "methods": ["neighborhood"], "missing": "zero"}
    found = rpv(holes, groups, {"first": ["first_a", "first_b"]}, "name", **options)
    white, adults = precincts["white"][3], holes["adults"][3]
    np.testing.assert_allclose(found.contests["first"].tables.X[3], [10.0, white, adults - white - 10.0])
    assert found.data_notes[0] == "1 missing value(s) in 1 of 24 units were taken for zero ('p3')."
    holes["adults"][5] = np.nan
    with pytest.raises(InputError, match="total_groups="):
        rpv(holes, groups, {"first": ["first_a", "first_b"]}, "name", **options)


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
    found = performance(study, {"new": black, "rest": rest}, "Black")
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
    whole = performance(study, precincts["name"], "Black").select(contest="first").table.to_pylist()[0]
    np.testing.assert_allclose(whole["probability_wins"], 1 - study.summary["probability_lost"][0])


def test_a_tie_is_nobodys_victory_and_units_lost_in_any_contest_are_named(precincts):
    tied = {n: np.array(v, dtype=object if n == "name" else float) for n, v in precincts.items()}
    tied["first_b"][:2] = tied["first_a"][:2][::-1]
    tied["second_a"][5] = np.nan
    tied["first_a"][6] = np.nan
    both = {name: [f"{name}_a", f"{name}_b"] for name in RATES}
    study = rpv(tied, GROUPS, both, "name", methods=["rxc"], missing="drop")
    found = performance(study, {"even": ["p0", "p1"], "some": ["p0", "p5", "p6"]}, "Black")
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
        performance(study, districts, group)


def test_a_mistyped_precinct_is_refused_and_one_left_out_is_said(precincts):
    frame = {**precincts, "first_a": precincts["first_a"].astype(float)}
    frame["first_a"][3] = np.nan
    for column in ("black", "white", "first_a", "first_b"):
        frame[column] = np.where(np.array(frame["name"]) == "p5", 0.0, frame[column])
    contests = {"first": ["first_a", "first_b"]}
    study = rpv(frame, GROUPS, contests, "name", methods=["neighborhood"], missing="drop")
    assert (study.contests["first"].tables.left_out, study.contests["first"].tables.dropped) == (("p3",), ("p5",))
    found = performance(study, {"new": ["p1", "p3", "p5"]}, "Black")
    assert found.warnings == ("new: 'p3', 'p5' had no people or was left out of the study, and is not counted.",)
    assert found["units"].tolist() == [1]
    with pytest.raises(InputError):
        performance(study, {"new": ["p1", "p1O", "p3"]}, "Black")
    with pytest.raises(InputError):
        performance(study, {"new": ["p3", "p5"]}, "Black")


def test_a_group_of_reference_without_an_answer_is_left_out_of_the_sentences(precincts):
    options = {"total_groups": "adults", "methods": ["homogeneous", "goodman"], "reference": "other"}
    frame = {**precincts, "black": precincts["black"].copy(), "white": precincts["white"].copy(), "adults": None}
    frame["black"][:2], frame["white"][:2] = [800, 0], [0, 800]
    rest = np.r_[0, 0, precincts["rest"][2:]]
    frame["adults"] = frame["black"] + frame["white"] + rest
    study = rpv(frame, GROUPS, CONTESTS, "name", **options)
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
    study = rpv(
        {"name": list("vwxyz"), **LEANING},
        ["a", "b"],
        {"Mayor": ["x", "y"]},
        "name",
        methods=["goodman"],
        reference="b",
    )
    assert study.summary["estimate"].tolist() == pytest.approx([1.19, 1.19])
    assert study.contests["Mayor"].winner is None
    assert study.contests["Mayor"].ahead == ("x", "y")
    assert [(r["winner"], r["won"]) for r in study.summary.table.to_pylist()] == [(None, None)] * 2
    assert study.tally.select(group="a").table.to_pylist()[0]["lost"] == 0
    assert study.tally["outside"].tolist() == [1, 1]
    assert all("outside 0 to 100 %" in text for text in study.sentences())
    found = performance(study, {"whole": list("vwxyz"), "part": ["v"]}, "a").table.to_pylist()
    assert [(r["winner"], r["won"]) for r in found] == [(None, None), ("x", True)]


@pytest.fixture(scope="module")
def undetermined():
    """Nobody can tell whom Asian voters chose: both candidates have half of them."""
    rng = np.random.default_rng(4)
    few = np.round(500 * rng.uniform(0.15, 0.55, 12))
    day = rng.binomial(few.astype(int), 0.52) + rng.binomial((500 - few).astype(int), 0.43)
    frame = {"name": [f"p{i}" for i in range(12)], "Asian": few, "rest": 500 - few, "Day": day, "Evans": 500 - day}
    return {
        level: rpv(frame, ["Asian", "rest"], {"Clerk": ["Day", "Evans"]}, "name", methods=["rxc"], level=level)
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
    found = {k: performance(s, ["p0", "p1"], "Asian", level=k).table.to_pylist()[0] for k, s in undetermined.items()}
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
    study = rpv(
        {**people, **votes}, ["x", "y"], {"Senate": ["A", "B", "C"]}, "unit", methods=["goodman"], reference="y"
    )
    row = study.summary.select(group="x").table.to_pylist()[0]
    assert (row["candidate"], row["won"]) == ("A", True)
    assert row["vote_share"] < 0.5
    said = " ".join((*study.sentences(), *performance(study, ["a", "b"], "x").diagnostics["findings"]))
    assert "most votes in these units" in said
    assert not {"won", "lost", "wins"} & set(re.findall(r"\w+", said))


@pytest.mark.data
def test_where_the_assumption_fails_the_study_says_so(real_data):
    data = np.genfromtxt(real_data / "truth" / "eco_forgnlit30c.csv", delimiter=",", names=True)
    frame = {"foreign": 10_000 * data["X"], "native": 10_000 * (1 - data["X"])}
    frame |= {"illiterate": 10_000 * data["Y"], "literate": 10_000 * (1 - data["Y"])}
    study = rpv(frame, ["foreign", "native"], {"1930": ["illiterate", "literate"]}, methods=["goodman", "rxc"])
    assert any("at the edge of their deterministic bounds" in text for text in study.warnings)


def _twenty():
    rng = np.random.default_rng(3)
    black = rng.integers(50, 900, 20)
    table = {"unit": [f"p{i}" for i in range(20)], "Black": black, "white": 1000 - black, "vap": np.full(20, 1000)}
    table["A"] = rng.binomial(black, 0.4) + rng.binomial(1000 - black, 0.1)
    table["B"] = rng.binomial(black, 0.05) + rng.binomial(1000 - black, 0.4)
    return table | {"votes": table["A"] + table["B"]}


@pytest.mark.parametrize(
    ("groups", "candidates", "argument", "column"),
    [
        (["Black", "white"], ["A", "B", "A"], "contests", "'A'"),
        (["Black", "white"], {"A": "A", "B": "B", "C": "A"}, "contests", "'A'"),
        ({"Black": ["Black", "Black"], "white": "white"}, ["A", "B"], "groups", "'Black'"),
        (["Black", "white"], ["A", "B", "votes"], "contests", "'votes' is the sum of the others"),
        (["Black", "vap", "white"], ["A", "B"], "groups", "'vap' is the sum of the others"),
    ],
)
def test_columns_that_count_somebody_twice_are_refused(groups, candidates, argument, column):
    with pytest.raises(InputError) as refused:
        rpv(_twenty(), groups, {"Mayor": candidates}, "unit", methods=["goodman"])
    assert str(refused.value).startswith(argument)
    assert column in str(refused.value)
