"""``crosslevel rpv``: contests written out or in a file, findings printed, the study saved."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.cli import main
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
    counts = cl.Counts(UNITS, unit="precinct", groups={"Black": "black", "white": "white"})
    contests = {"Governor 2018": {"Abrams": "d18", "Kemp": "r18", "total": "all18"}}
    study = rpv(counts, contests, methods=["goodman", "rxc"])
    assert told["findings"] == list(study.sentences())
    assert cl.load(out / "study.crosslevel").summary.equals(cl.load(out / "summary.crosslevel"))
    assert "1. In 1 of 1 contest(s)" in crosslevel(*ASKED, *CONTEST, cwd=folder).out


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--contest", "Abrams=d18"), "'Abrams=d18'"),
        (("--contest", "Governor: Abrams=d19, Kemp=r18"), "d19"),
        ((*CONTEST, "--total-outcomes", "al18"), "--total-outcomes"),
        (("--contests", "none.json"), "none.json"),
        ((), "--contest"),
    ],
    ids=["no name", "no column", "no total", "no file", "no contest"],
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
    counts = cl.Counts(units.append_column("x", [[1, 2, 3, 4]]), unit="u", groups=["x"])
    assert list(_districts(counts, "plan").values()) == [["a", "d"]]
    text = cl.Counts({"u": ["a", "b"], "plan": ["", "north"], "x": [1, 2]}, unit="u", groups=["x"])
    assert _districts(text, "plan") == {"north": ["b"]}


def test_districts_of_a_column(crosslevel, folder):
    asked = (*ASKED, *CONTEST, "--district", "plan", "--district-group", "Black")
    told = json.loads(crosslevel(*asked, "--json", cwd=folder).out)
    rows = told["answers"]["districts"]["rows"]
    assert [(r["district"], r["winner"]) for r in rows] == [("1", "Kemp"), ("2", "Abrams")]
    assert "--district-group" in crosslevel(*ASKED, *CONTEST, "--district", "plan", cwd=folder, code=2).err


@pytest.fixture(scope="module")
def sealed(folder):
    """A folder that was sealed beside its input, at paths from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["crosslevel", *ASKED, *CONTEST, "--out", "whole", "--exhibit", "--bundle=sealed"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    return folder / "sealed"


def test_a_sealed_folder_is_reproduced(crosslevel, folder, sealed):
    for name in ("exhibit.html", "exhibit.docx"):
        assert (folder / "whole" / name).read_bytes() == (sealed / name).read_bytes()
    assert json.loads((sealed / "command.json").read_text()) == [*ASKED, *CONTEST]
    before = _files(folder)
    done = json.loads(crosslevel("report", "--reproduce", "sealed", "--json", cwd=folder).out)
    assert done["results"] == len(list((sealed / "results").rglob("*.json"))) > 8
    assert _files(folder) == before
    assert "not an empty folder" in crosslevel(*ASKED, *CONTEST, "--bundle", "sealed", cwd=folder, code=2).err
    assert "--out" in crosslevel(*ASKED, *CONTEST, "--exhibit", cwd=folder, code=2).err


def _files(where):
    return {p: p.read_bytes() for p in where.rglob("*") if p.is_file()}


def _resealed(sealed, where, **changed):
    """Copy the folder and its input, change files and write the hashes anew, as somebody else could."""
    shutil.copy(sealed.parent / "units.csv", where / "units.csv")
    folder = Path(shutil.copytree(sealed, where / "sealed"))
    for name, text in changed.items():
        (folder / f"{name}.json").write_text(text)
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*.json")]
    hashes = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "manifest-sha256.txt").write_text("".join(hashes))
    return folder


def test_a_changed_folder_or_input_is_noticed(crosslevel, sealed, tmp_path):
    folder = _resealed(sealed, tmp_path)
    result, units = folder / "results" / "summary.json", tmp_path / "units.csv"
    assert crosslevel("report", "--reproduce", "sealed", cwd=tmp_path).out.startswith("Reproduced")
    units.write_text(units.read_text().replace("80", "81", 1))
    assert "units.csv" in crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    UNITS.to_csv(units, index=False)
    kept = result.read_text()
    result.write_text(kept.replace('"Abrams"', '"Abrahams"', 1))
    assert "summary.json" in crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    # a seal made anew over other numbers is found out by computing them
    shutil.rmtree(folder)
    _resealed(sealed, tmp_path, **{"results/summary": kept.replace('"Abrams"', '"Abrahams"', 1)})
    said = crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    assert "1 of " in said
    assert "summary.json" in said


@pytest.mark.parametrize(
    "command",
    [
        (*ASKED, *CONTEST, "--out", "elsewhere"),
        (*ASKED, *CONTEST, "--out", "home", "--report"),
        (*ASKED, *CONTEST, "--out=home", "--exhibit"),
        (*ASKED, *CONTEST, "--bundle", "elsewhere"),
        (*ASKED, *CONTEST, "--json"),
        (*(word.replace("units.csv", "./home/private.csv") for word in ASKED), *CONTEST),
        (*ASKED, "--contests", "home/contests.json"),
        ("demo", "--out", "elsewhere"),
        ("report", "home/report.html"),
        ("embed", "units.csv", "--by", "precinct", "--out", "elsewhere"),
        ("--version", *ASKED, *CONTEST),
        ("rpv", "--help"),
        ("rpv", "units.csv", "--nonsense"),
        (),
    ],
    ids=str,
)
def test_a_hostile_command_is_not_run(crosslevel, sealed, tmp_path, command):
    _resealed(sealed, tmp_path, command=json.dumps(command))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "report.html").write_text("mine")
    # the same data at another place: only the refusal keeps the results from being the same
    shutil.copy(tmp_path / "units.csv", tmp_path / "home" / "private.csv")
    shutil.copy(sealed.parent / "contests.json", tmp_path / "home" / "contests.json")
    before = _files(tmp_path)
    said = crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2)
    assert said.err.count("\n") == 1
    assert _files(tmp_path) == before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("command.json", "{"),
        ("command.json", '{"rpv": 1}'),
        ("command.json", '["rpv", 3]'),
        ("command.json", "[" * 100_000),
        ("command.json", '["rpv", "\\u0000"]'),
        ("inputs.json", "null"),
        ("inputs.json", '[{"path": 3, "sha256": "x"}]'),
        ("inputs.json", '[{"path": "units.csv"}]'),
        ("inputs.json", '[{"path": "\\u0000", "sha256": "x", "of": "units.csv"}]'),
        ("manifest-sha256.txt", "no hash"),
        ("manifest-sha256.txt", "0  \x00\n"),
        ("manifest-sha256.txt", "0  ../units.csv\n"),
        ("manifest-sha256.txt", "0  /etc/passwd\n"),
        ("manifest-sha256.txt", ""),
    ],
)
def test_a_broken_folder_is_refused_in_a_sentence(crosslevel, sealed, tmp_path, file, text):
    stem = file.removesuffix(".json")
    folder = _resealed(sealed, tmp_path, **({stem: text} if stem != file else {}))
    if stem == file:
        (folder / file).write_text(text)
    said = crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err
    assert said.startswith("crosslevel: ")
    assert said.count("\n") == 1
    (folder / file).unlink()
    assert crosslevel("report", "--reproduce", "sealed", cwd=tmp_path, code=2).err.count("\n") == 1
