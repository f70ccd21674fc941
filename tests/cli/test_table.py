from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.ecological import among_voters, rxc, turnout

UNITS = pd.DataFrame(
    {
        "precinct": list("abcdefgh"),
        "white": [80, 50, 20, 10, 60, 95, 70, 35],
        "black": [20, 50, 80, 90, 40, 5, 30, 65],
        "dem": [30, 40, 60, 62, 33, 20, 31, 52],
        "rep": [40, 30, 10, 8, 36, 50, 38, 18],
    }
)
UNITS["did not vote"] = 100 - UNITS["dem"] - UNITS["rep"]
SIZES = [1, 2, 3, 4, 1, 2, 3, 4]
UNITS.iloc[:, 1:] = UNITS.iloc[:, 1:].mul(SIZES, axis=0)
GROUPS = ("--group", "white", "--group", "black")
ASKED = ("table", "units.csv", "--unit", "precinct", *GROUPS, "--outcome", "dem", "--outcome", "rep")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("table")
    UNITS.to_csv(where / "units.csv", index=False)
    return where


@pytest.fixture(scope="module")
def tables():
    return cl.Counts(UNITS, unit="precinct", groups=["white", "black"], outcomes=["dem", "rep", "did not vote"])


def test_those_who_did_not_vote_are_left_out_of_the_shares(crosslevel, folder, tables):
    asked = ("--outcome", "did not vote", "--abstain", "did not vote", "--methods", "goodman,rxc")
    told = json.loads(crosslevel(*ASKED, *asked, "--json", cwd=folder).out)["answers"]
    answer = rxc(tables)
    for name, expected in (("among-voters", among_voters(answer)), ("turnout", turnout(answer))):
        rows = [r for r in told[name]["rows"] if r["method"] == "rxc"]
        for column in ("estimate", "conf_low", "conf_high", "lower", "upper", "count"):
            np.testing.assert_allclose([r[column] for r in rows], expected[column], rtol=1e-9)
    assert {r["outcome"] for r in told["among-voters"]["rows"]} == {"dem", "rep"}
    assert "no posterior draws" in crosslevel(*ASKED, *asked, cwd=folder).out
    told = json.loads(crosslevel(*ASKED, *asked[:4], "--json", cwd=folder).out)["answers"]
    assert {r["method"] for r in told["comparison"]["rows"]} - {r["method"] for r in told["turnout"]["rows"]} == {
        "bounds"
    }
    said = crosslevel(*ASKED, *asked[:4], "--methods", "bounds", cwd=folder, code=2).err
    assert "--abstain needs a method whose shares add up" in said


def test_numbers_with_commas_and_per_cent_signs_are_read_on_request(crosslevel, folder, tmp_path):
    numbers = [*UNITS.columns[1:]]
    written = UNITS.assign(**{n: [f"{v:,}.0" if v < 100 else f"{100 * v:,} %" for v in UNITS[n]] for n in numbers})
    written.to_csv(tmp_path / "units.csv", index=False)
    asked = ("--outcome", "did not vote", "--methods", "goodman", "--json")
    said = crosslevel(*ASKED, *asked, cwd=tmp_path, code=2)
    assert "'10,000 %' in row 1" in said.out + said.err
    assert "--text-numbers" in said.out + said.err
    requested = [word for n in numbers for word in ("--text-numbers", n)]
    told = json.loads(crosslevel(*ASKED, *asked, *requested, cwd=tmp_path).out)
    plain = json.loads(crosslevel(*ASKED, *asked, cwd=folder).out)
    assert told["answers"]["comparison"]["rows"] == plain["answers"]["comparison"]["rows"]
    said = crosslevel(*ASKED, *asked, "--text-numbers", "wite", cwd=tmp_path, code=2)
    assert "Did you mean 'white'" in said.out + said.err


def test_bad_options_are_refused(crosslevel, folder):
    asked = ("--outcome", "did not vote", "--methods", "goodman,rxc", "--contextual-slope", "7")
    assert "--contextual-slope 7 is not a number between -1 and 2" in crosslevel(*ASKED, *asked, cwd=folder, code=2).err


def test_repairs_are_done_and_said(crosslevel, folder):
    asked = ("--methods", "neighborhood", "--repair", "rest=stayed at home")
    out = crosslevel(*ASKED, *asked, cwd=folder).out
    assert "stayed at home" in out
    assert "Outcomes fell short in 8 of 8 units" in out
    people = UNITS["white"] + UNITS["black"]
    shares = UNITS.assign(white=UNITS["white"] / people, black=UNITS["black"] / people, people=people)
    shares.to_csv(folder / "shares.csv")
    shares = ("table", "shares.csv", *ASKED[2:], "--outcome", "did not vote", "--methods", "goodman")
    assert "multiplied by total_groups" in crosslevel(*shares, "--total-groups", "people", cwd=folder).out
    pd.concat([UNITS, UNITS.tail(1)]).to_csv(folder / "twice.csv", index=False)
    twice = ("table", "twice.csv", *ASKED[2:], "--outcome", "did not vote", "--methods", "goodman")
    said = crosslevel(*twice, cwd=folder, code=2).err
    assert "more than once" in said
    assert "--repair duplicates=drop_identical" in said
    assert "1 row(s) equal to another" in crosslevel(*twice, "--repair", "duplicates=drop_identical", cwd=folder).out
    summed = crosslevel(*twice, "--repair", "duplicates=sum", cwd=folder)
    assert len(json.loads(crosslevel(*twice, "--repair", "duplicates=sum", "--json", cwd=folder).out)["warnings"]) > 0
    assert summed.err == ""
    counties = UNITS.assign(county=["n", "s"] * 4, precinct=[1, 1, 2, 2, 3, 3, 4, 4])
    counties.to_csv(folder / "counties.csv", index=False)
    named = ("table", "counties.csv", *GROUPS, "--outcome", "dem", "--outcome", "rep", "--outcome", "did not vote")
    assert "more than once" in crosslevel(*named, "--unit", "precinct", cwd=folder, code=2).err
    asked = ("--unit", "county", "--unit", "precinct", "--methods", "goodman", "--out", "named")
    assert crosslevel(*named, *asked, cwd=folder).out
    assert set(cl.load(folder / "named" / "goodman.crosslevel").units["unit"]) >= {"n/1", "s/1", "n/4", "s/4"}
    UNITS.assign(dem=UNITS["dem"].where(UNITS["precinct"] != "c")).to_csv(folder / "holes.csv", index=False)
    holes = ("table", "holes.csv", *ASKED[2:], "--outcome", "did not vote", "--methods", "goodman")
    said = crosslevel(*holes, cwd=folder, code=2).err
    assert "missing" in said
    assert "--repair missing=zero" in said
    assert "left out for missing values" in crosslevel(*holes, "--repair", "missing=drop", cwd=folder).out
    merged = crosslevel(*ASKED, "--outcome", "stayed=did not vote", "--methods", "goodman", cwd=folder)
    assert "stayed" in merged.out


def test_two_totals_give_the_turnout(crosslevel, folder):
    adults, cast = UNITS["white"] + UNITS["black"], UNITS["dem"] + UNITS["rep"]
    shares = {name: 100 * UNITS[name] / adults for name in ("white", "black")}
    shares |= {name: 100 * UNITS[name] / cast for name in ("dem", "rep")}
    UNITS.assign(**shares, adults=adults, cast=cast).to_csv(folder / "two.csv", index=False)
    asked = (
        "table",
        "two.csv",
        *ASKED[2:],
        *shlex.split("--total-groups adults --total-outcomes cast --methods goodman --json"),
    )
    rest = ("--repair", "rest=did not vote", "--abstain", "did not vote")
    told = json.loads(crosslevel(*asked, *rest, cwd=folder).out)["answers"]["turnout"]["rows"]
    assert sum(r["count"] for r in told) == pytest.approx(cast.sum())
    assert "--repair 'rest=did not vote'" in crosslevel(*asked, cwd=folder, code=2).err
    wrong = tuple("csat" if word == "cast" else word for word in asked)
    assert "--total-outcomes csat is not a column" in crosslevel(*wrong, *rest, cwd=folder, code=2).err


def test_the_context_is_handed_to_those_that_have_one(crosslevel, folder, tables):
    asked = (*ASKED, "--outcome", "did not vote", "--methods", "rxc,goodman")
    done = crosslevel(*asked, "--contextual-slope", "0", "--out", "constant", cwd=folder)
    found = cl.load(folder / "constant" / "rxc.crosslevel")
    np.testing.assert_allclose(found["estimate"], rxc(tables, contextual_slope=0.0)["estimate"], rtol=1e-9)
    np.testing.assert_allclose(found["std_error"], rxc(tables, contextual_slope=0.0)["std_error"], rtol=1e-9)
    assert "rxc (contextual slope 0)" in done.out
    assert "goodman (population weights)" in done.out


def test_of_all_methods_those_that_refuse_are_left_out_and_said(crosslevel, folder, monkeypatch):
    from crosslevel.cli import table as module

    monkeypatch.setattr(module, "METHODS", ("neighborhood", "goodman", "king"))
    done = crosslevel(*ASKED, "--outcome", "did not vote", "--methods", "all", "--json", cwd=folder)
    told = json.loads(done.out)
    assert list(told["fit"]["by_method"]) == ["neighborhood", "goodman"]
    assert any("king is left out" in w for w in told["warnings"])
    assert "Note: king is left out" in done.err
    said = crosslevel(*ASKED, "--outcome", "did not vote", "--methods", "king", cwd=folder, code=2).err
    assert "--methods king: " in said
    two = ("table", "units.csv", *GROUPS, "--outcome", "dem", "--outcome", "rep", "--repair", "balance=scale")
    told = json.loads(crosslevel(*two, "--methods", "king", "--seed", "4", "--json", cwd=folder).out)
    assert len(told["answers"]["comparison"]["rows"]) == 4


def test_the_truth_scores_every_method(crosslevel, folder):
    names = ("dem", "rep", "did not vote")
    truth = pd.DataFrame(
        [(g, o, 1 / 3) for g in ("black", "white") for o in names], columns=["group", "outcome", "truth"]
    )
    truth.to_csv(folder / "truth.csv", index=False)
    asked = ("--outcome", "did not vote", "--methods", "goodman,rxc_em", "--truth", "truth.csv")
    told = json.loads(crosslevel(*ASKED, *asked, "--json", cwd=folder).out)
    rows = told["answers"]["comparison"]["rows"]
    error = np.mean([abs(r["estimate"] - 1 / 3) for r in rows if r["method"] == "rxc_em"])
    assert told["scores"]["rxc_em"]["mae"] == pytest.approx(error)
    assert told["scores"]["rxc_em"]["coverage"] is None
    assert 0 <= told["scores"]["goodman"]["coverage"] <= 1
    assert "mean absolute error" in crosslevel(*ASKED, *asked, cwd=folder).out
    truth.iloc[1:].to_csv(folder / "truth.csv", index=False)
    assert "no row for group 'black' and outcome 'dem'" in crosslevel(*ASKED, *asked, cwd=folder, code=2).err
    for wrong, words in (
        (pd.concat([truth, truth.assign(truth=0.5)]), "--truth has several rows for group 'black' and outcome 'dem'"),
        (truth.assign(truth=100 / 3), "--truth holds 33.3"),
    ):
        wrong.to_csv(folder / "truth.csv", index=False)
        assert words in crosslevel(*ASKED, *asked, cwd=folder, code=2).err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (ASKED, "do not add up"),
        ((*ASKED, "--outcome", "did not vot"), "Did you mean 'did not vote'"),
        ((*ASKED, "--group", "dem"), "a column has one role"),
        ((*ASKED, "--outcome", "did not vote", "--methods", "godman"), "Did you mean 'goodman'"),
        ((*ASKED, "--outcome", "did not vote", "--abstain", "did not"), "--abstain 'did not'"),
        ((*ASKED, "--repair", "rests=x"), "Did you mean 'rest'"),
        ((*ASKED, "--truth", "t.csv", "--abstain", "rep"), "--truth and --abstain exclude one another"),
        ((*ASKED, "--out", "units.csv"), "is a file; name a folder"),
        (("table", "units.csv", "--outcome", "dem"), "'--group'"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*asked, cwd=folder, code=2)
    assert words in said.err
    assert said.out == ""
