"""A sealed folder: everything that made the exhibit, to the last bit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from crosslevel import ecological, report
from crosslevel.errors import FileError, InputError
from crosslevel.reports.sealed import changed_files, changed_inputs, read_command
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
        "README.txt", "command.json", "exhibit-1.pdf", "exhibit-2.pdf", "exhibit.docx", "exhibit.html", "exhibit.tex", "inputs.json",
        "manifest-sha256.txt", "results/01-Who-won-1.json", "results/02-Who-else-1.json", "ro-crate-metadata.json", "settings.json",
        "tables.tex", "versions.json",
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
    with pytest.raises(FileError):
        read_command(folder)


def test_the_metadata_is_a_research_object_crate(place):
    folder, data = place / "one", place / "data.csv"
    crate = json.loads((folder / "ro-crate-metadata.json").read_text(encoding="utf-8"))
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    by_id = {e["@id"]: e for e in crate["@graph"]}
    assert len(by_id) == len(crate["@graph"])
    about = by_id["ro-crate-metadata.json"]
    assert about["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = by_id[about["about"]["@id"]]
    assert {"name", "description", "datePublished", "license"} <= set(root)
    for part in root["hasPart"]:
        told = by_id[part["@id"]]
        assert told["sha256"] == hashlib.sha256((folder / part["@id"]).read_bytes()).hexdigest()
        assert told["contentSize"] == str((folder / part["@id"]).stat().st_size)
    run = by_id["#run"]
    assert by_id[run["instrument"]["@id"]]["name"] == "crosslevel"
    assert by_id[run["object"][0]["@id"]]["name"] == str(data)


def test_made_again_everything_but_the_date_is_the_same_bytes(place):
    one, two = place / "one", place / "two"
    for path in one.rglob("*"):
        if path.is_file() and path.name not in ("ro-crate-metadata.json", "manifest-sha256.txt"):
            assert path.read_bytes() == (two / path.relative_to(one)).read_bytes(), path.name


def test_a_file_added_to_a_folder_is_a_changed_input(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("a\n1\n")
    sealed = data / "sealed"
    report(ecological.goodman(PEOPLE, VOTES), template="exhibit", bundle=sealed, inputs=[data])
    assert changed_inputs(sealed) == []
    (data / "b.csv").write_text("a\n2\n")
    assert changed_inputs(sealed) == [str(data / "b.csv")]
    (data / "a.csv").unlink()
    assert changed_inputs(sealed) == [str(data / "a.csv"), str(data / "b.csv")]


def test_what_cannot_be_sealed_is_refused(tmp_path, place):
    data = place / "data.csv"
    found = ecological.goodman(PEOPLE, VOTES)
    with pytest.raises(InputError, match="bundle="):
        report(found, bundle="x")
    with pytest.raises(InputError, match="inputs="):
        report(found, template="exhibit", inputs=[data])
    with pytest.raises(FileError):
        report(found, template="exhibit", bundle=tmp_path / "s", inputs=[tmp_path / "none.csv"])
    with pytest.raises(FileError):
        report(found, template="exhibit", bundle=data)
    with pytest.raises(FileError):
        report(found, template="exhibit", bundle=place)
    with pytest.raises(FileError):
        report(found, template="exhibit", bundle=data / "below")
    folder = Path(shutil.copytree(place / "one", tmp_path / "sealed"))
    (folder / "tables.tex").unlink()
    (folder / "README.txt").write_text("other")
    assert changed_files(folder) == ["README.txt", "tables.tex"]
    with pytest.raises(FileError):
        read_command(folder)
