"""A sealed folder: everything that made the exhibit, to the last bit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from crosslevel import Counts, ecological, report
from crosslevel.errors import FileError, InputError
from crosslevel.reports.sealed import changed_files, changed_input, read_command
from crosslevel.results import Estimates

UNITS = {
    "unit": list("pqrs"),
    "a": [10, 40, 70, 90],
    "b": [90, 60, 30, 10],
    "x": [24, 37, 47, 56],
    "y": [76, 63, 53, 44],
}


@pytest.fixture(scope="module")
def study():
    return ecological.rpv(
        Counts(UNITS, unit="unit", groups=["a", "b"]),
        {"../Who <else>?": ["x", "y"]},
        methods=["goodman"],
        reference="b",
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory, study):
    """Data, and two folders sealed from the same results."""
    where = tmp_path_factory.mktemp("sealed")
    (where / "data.csv").write_text("a,b\n1,2\n")
    parts = [
        ("A part", study.performance(list("pq"), "a")),
        ("A-part", study.performance(list("rs"), "a")),
    ]
    for name in ("one", "two"):
        report([study, *parts], template="exhibit", bundle=where / name, inputs=[where / "data.csv"])
    return where


def test_the_folder_holds_everything_and_says_so(place, study):
    folder, data = place / "one", place / "data.csv"
    here = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert here == [
        "README.txt", "command.json", "exhibit.docx", "exhibit.html", "inputs.json", "manifest-sha256.txt",
        *(f"results/01-Who-else/{n}.json" for n in ("answers-goodman", "choice-goodman", "margin", "polarization-01-a", "voters-goodman")),
        *(f"results/{n}.json" for n in ("districts-01-A-part", "districts-02-A-part", "summary", "tally")),
        "settings.json", "versions.json",
    ]  # fmt: skip
    assert changed_files(folder) == []
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert json.loads((folder / "inputs.json").read_text()) == [{"path": str(data), "sha256": digest, "bytes": 8}]
    found = Estimates.from_json((folder / "results" / "tally.json").read_text(encoding="utf-8"))
    assert found.equals(study.tally)
    versions = json.loads((folder / "versions.json").read_text())
    assert {"crosslevel", "python", "numpy", "scipy"} <= set(versions)
    settings = json.loads((folder / "settings.json").read_text())
    assert "rpv(" in settings["provenance"]["summary"]["call"]
    assert "seconds" not in (folder / "results" / "01-Who-else" / "answers-goodman.json").read_text()
    for path in folder.rglob("*.*"):  # made again, everything is the same bytes
        assert path.read_bytes() == (place / "two" / path.relative_to(folder)).read_bytes(), path.name


@pytest.mark.parametrize("named", ["", "*.csv", "**/*.csv"])
def test_a_file_added_to_the_inputs_is_a_changed_input(tmp_path, study, named):
    """Whatever a folder or a pattern is read as, so that nothing without a hash is read."""
    data = tmp_path / "data"
    (data / "more").mkdir(parents=True)
    (data / "a.csv").write_text("a\n1\n")
    sealed = data / "sealed"
    report(study, template="exhibit", bundle=sealed, inputs=[data / named])
    assert changed_input(sealed) is None
    added = data / ("b.csv" if named == "*.csv" else "more/b.csv")
    added.write_text("a\n2\n")
    assert changed_input(sealed) == str(added)
    added.unlink()
    (data / "a.csv").unlink()
    assert changed_input(sealed) == str(data / "a.csv")


def test_what_cannot_be_sealed_is_refused(tmp_path, place, study):
    data = place / "data.csv"
    for options, kind in (
        ({"bundle": "x"}, InputError),
        ({"template": "exhibit", "inputs": [data]}, InputError),
        ({"template": "exhibit", "bundle": tmp_path / "s", "inputs": [tmp_path / "none.csv"]}, FileError),
        ({"template": "exhibit", "bundle": data}, FileError),
        ({"template": "exhibit", "bundle": place}, FileError),
        ({"template": "exhibit", "bundle": data / "below"}, FileError),
    ):
        with pytest.raises(kind):
            report(study, **options)
    folder = Path(shutil.copytree(place / "one", tmp_path / "sealed"))
    (folder / "settings.json").unlink()
    (folder / "README.txt").write_text("other")
    (folder / "results" / "more.json").write_text("{}")
    assert changed_files(folder) == ["README.txt", "settings.json", "results/more.json"]
    for changed in (folder, place / "one"):  # the other has no command
        with pytest.raises(FileError):
            read_command(changed)
