"""``crosslevel rpv``: contests written out or in a file, findings printed, the study saved."""

from __future__ import annotations

import hashlib
import json

import pandas as pd
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.cli.rpv import _districts
from crosslevel.ecological import rpv

UNITS = pd.DataFrame(
    {
        "precinct": list("abcdefgh"),
        "white": [80, 50, 20, 10, 60, 95, 70, 35],
        "black": [20, 50, 80, 90, 40, 5, 30, 65],
        "d18": [30, 40, 60, 62, 33, 20, 31, 52],
        "r18": [40, 30, 10, 8, 36, 50, 38, 18],
    }
)
UNITS["plan"] = ["1", "1", "2", "2", "1", "1", "1", "2"]
UNITS["all18"] = UNITS["d18"] + UNITS["r18"] + 1
FEW = ("--methods", "goodman", "--methods", "rxc")
ASKED = ("rpv", "units.csv", "--unit", "precinct", "--group", "Black=black", "--group", "white", *FEW)
CONTEST = ("--contest", "Governor 2018: Abrams=d18, Kemp=r18, total=all18")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("rpv")
    UNITS.to_csv(where / "units.csv", index=False)
    contests = {"Governor 2018": {"Abrams": "d18", "Kemp": ["r18"], "total": "all18"}}
    (where / "contests.json").write_text(json.dumps(contests))
    return where


def test_contests_written_out_or_in_a_file_are_the_same_study(crosslevel, folder):
    out = folder / "run"
    told = json.loads(crosslevel(*ASKED, *CONTEST, "--out", str(out), "--json", cwd=folder).out)
    filed = json.loads(crosslevel(*ASKED, "--contests", "contests.json", "--json", cwd=folder).out)
    assert told["answers"]["summary"] == filed["answers"]["summary"]
    study = rpv(
        UNITS,
        {"Black": "black", "white": "white"},
        {"Governor 2018": {"Abrams": "d18", "Kemp": "r18"}},
        "precinct",
        total_outcomes={"Governor 2018": "all18"},
        methods=["goodman", "rxc"],
    )
    assert told["findings"] == list(study.sentences())
    assert cl.load(out / "study.crosslevel").summary.equals(cl.load(out / "summary.crosslevel"))
    assert "1. In 1 of 1 contest(s)" in crosslevel(*ASKED, *CONTEST, cwd=folder).out


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--contest", "Abrams=d18"), "'Abrams=d18'"),
        (("--contest", "Governor: Abrams=d19, Kemp=r18"), "d19"),
        ((*CONTEST, "--total-outcomes", "all18"), "--total-outcomes"),
        (("--contests", "none.json"), "none.json"),
        ((), "--contest"),
    ],
    ids=["no name", "no column", "two totals", "no file", "no contest"],
)
def test_what_is_wrong_is_named(crosslevel, folder, given, named):
    assert named in crosslevel(*ASKED, *given, cwd=folder, code=2).err


def test_a_contest_or_candidate_twice_in_a_file_is_refused(crosslevel, folder):
    (folder / "twice.json").write_text('{"Governor": {"Abrams": "d18", "Kemp": "r18", "Abrams": "all18"}}')
    told = crosslevel(*ASKED, "--contests", "twice.json", cwd=folder, code=2).err
    assert "twice.json" in told
    assert "'Abrams' twice" in told


def test_a_precinct_without_a_district_belongs_to_none():
    units = pa.table({"u": ["a", "b", "c", "d"], "plan": pa.array([1.0, float("nan"), None, 1.0])})
    assert list(_districts(units, {"unit": ["u"], "district": "plan"}).values()) == [["a", "d"]]
    text = pa.table({"u": ["a", "b"], "plan": ["", "north"]})
    assert _districts(text, {"unit": ["u"], "district": "plan"}) == {"north": ["b"]}


def test_districts_of_a_column(crosslevel, folder):
    asked = (*ASKED, *CONTEST, "--district", "plan", "--district-group", "Black")
    told = json.loads(crosslevel(*asked, "--json", cwd=folder).out)
    rows = told["answers"]["districts"]["rows"]
    assert [(r["district"], r["winner"]) for r in rows] == [("1", "Kemp"), ("2", "Abrams")]
    assert "--district-group" in crosslevel(*ASKED, *CONTEST, "--district", "plan", cwd=folder, code=2).err


def test_exhibit_word_latex_and_a_sealed_folder_from_one_command(crosslevel, folder):
    out, sealed = folder / "whole", folder / "sealed"
    told = json.loads(
        crosslevel(*ASKED, *CONTEST, "--out", str(out), "--exhibit", f"--bundle={sealed}", "--json", cwd=folder).out
    )
    for name in ("exhibit.html", "exhibit.docx", "exhibit.tex", "tables.tex", "exhibit-1.pdf"):
        assert (out / name).read_bytes() == (sealed / name).read_bytes()
    assert told["files"]["bundle"] == str(sealed)
    command = json.loads((sealed / "command.json").read_text())
    assert command == [*ASKED, *CONTEST]
    done = json.loads(crosslevel("report", "--reproduce", str(sealed), "--json", cwd=folder).out)
    assert done["results"] == len(list((sealed / "results").rglob("*.json"))) > 8


def test_a_changed_folder_or_input_is_noticed(crosslevel, folder, tmp_path):
    units = tmp_path / "units.csv"
    UNITS.to_csv(units, index=False)
    sealed = tmp_path / "sealed"
    crosslevel(*ASKED, *CONTEST, "--bundle", "sealed", cwd=tmp_path)
    units.write_text(units.read_text().replace("80", "81", 1))
    assert "units.csv is missing or is not" in crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    result = sealed / "results" / "summary.json"
    kept = result.read_text()
    result.write_text(kept.replace("0", "1", 1))
    assert "results/summary.json" in crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    result.write_text(kept)
    # a seal made anew over other numbers is found out by running it
    UNITS.to_csv(units, index=False)
    text = result.read_text().replace('"Abrams"', '"Abrahams"', 1)
    result.write_text(text)
    manifest = sealed / "manifest-sha256.txt"
    lines = manifest.read_text().splitlines(keepends=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    manifest.write_text(
        "".join(f"{digest}  results/summary.json\n" if "results/summary" in row else row for row in lines)
    )
    said = crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    assert "1 of " in said
    assert "summary.json" in said
    assert "not an empty folder" in crosslevel(*ASKED, *CONTEST, "--bundle", "sealed", cwd=tmp_path, code=2).err
    assert "manifest" in crosslevel("report", "--reproduce", str(tmp_path), cwd=tmp_path, code=2).err
    assert "--out" in crosslevel(*ASKED, *CONTEST, "--exhibit", cwd=tmp_path, code=2).err
