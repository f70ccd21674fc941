"""A sealed folder: everything that made the exhibit, to the last bit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from crosslevel import ecological, report
from crosslevel.errors import FileError, InputError
from crosslevel.reports.sealed import changed_files, changed_input, read_command
from crosslevel.results import Estimates

PEOPLE = {"a": [10, 40, 70, 90], "b": [90, 60, 30, 10]}
VOTES = {"x": [24, 37, 47, 56], "y": [76, 63, 53, 44]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data, and two folders sealed from the same results."""
    where = tmp_path_factory.mktemp("sealed")
    (where / "data.csv").write_text("a,b\n1,2\n")
    side = ecological.compare(PEOPLE, VOTES, ["bounds", "goodman"])
    pairs = [("Who won?", ecological.goodman(PEOPLE, VOTES)), ("../Who <else>?", [side])]
    for name in ("one", "two"):
        report(pairs, template="exhibit", bundle=where / name, inputs=[where / "data.csv"])
    return where


def test_the_folder_holds_everything_and_says_so(place):
    folder, data = place / "one", place / "data.csv"
    here = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert here == [
        "README.txt", "command.json", "exhibit.docx", "exhibit.html", "inputs.json", "manifest-sha256.txt",
        "results/01-Who-won-1.json", "results/02-Who-else-1.json", "settings.json", "versions.json",
    ]  # fmt: skip
    assert changed_files(folder) == []
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert json.loads((folder / "inputs.json").read_text()) == [{"path": str(data), "sha256": digest, "bytes": 8}]
    found = Estimates.from_json((folder / "results" / "01-Who-won-1.json").read_text(encoding="utf-8"))
    assert found.equals(ecological.goodman(PEOPLE, VOTES))
    versions = json.loads((folder / "versions.json").read_text())
    assert {"crosslevel", "python", "numpy", "scipy"} <= set(versions)
    settings = json.loads((folder / "settings.json").read_text())
    assert "goodman(" in settings["provenance"]["01-Who-won-1"]["call"]
    assert "seconds" not in (folder / "results" / "02-Who-else-1.json").read_text()
    for path in folder.rglob("*.*"):  # made again, everything is the same bytes
        assert path.read_bytes() == (place / "two" / path.relative_to(folder)).read_bytes(), path.name


def test_a_file_added_to_a_folder_is_a_changed_input(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("a\n1\n")
    sealed = data / "sealed"
    report(ecological.goodman(PEOPLE, VOTES), template="exhibit", bundle=sealed, inputs=[data])
    assert changed_input(sealed) is None
    (data / "b.csv").write_text("a\n2\n")
    assert changed_input(sealed) == str(data / "b.csv")
    (data / "a.csv").unlink()
    assert changed_input(sealed) == str(data / "a.csv")


def test_what_cannot_be_sealed_is_refused(tmp_path, place):
    data, found = place / "data.csv", ecological.goodman(PEOPLE, VOTES)
    for options, kind in (
        ({"bundle": "x"}, InputError),
        ({"template": "exhibit", "inputs": [data]}, InputError),
        ({"template": "exhibit", "bundle": tmp_path / "s", "inputs": [tmp_path / "none.csv"]}, FileError),
        ({"template": "exhibit", "bundle": data}, FileError),
        ({"template": "exhibit", "bundle": place}, FileError),
        ({"template": "exhibit", "bundle": data / "below"}, FileError),
    ):
        with pytest.raises(kind):
            report(found, **options)
    folder = Path(shutil.copytree(place / "one", tmp_path / "sealed"))
    (folder / "settings.json").unlink()
    (folder / "README.txt").write_text("other")
    (folder / "results" / "more.json").write_text("{}")
    assert changed_files(folder) == ["README.txt", "settings.json", "results/more.json"]
    for changed in (folder, place / "one"):  # the other has no command
        with pytest.raises(FileError):
            read_command(changed)
