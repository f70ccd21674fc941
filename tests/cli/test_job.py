"""What the verbs share: files, folders, warnings, tables and JSON."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import crosslevel as cl
from crosslevel.cli.job import OUTPUT, Job, check_columns, file_stem, quiet, read_beside, read_geojson, read_table
from crosslevel.cli.options import Given, Option
from crosslevel.errors import CrosslevelWarning, FileError, InputError


def job(**told):
    return Job(Given(told, {option.name: option.panel for option in OUTPUT}))


@pytest.fixture(scope="module")
def found():
    return cl.ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})


def test_answers_are_written_twice_and_named(tmp_path, found):
    work = job(out=tmp_path / "new" / "run")
    work.write_answers({"a b": found}, title="x")
    assert work.files == {
        n: str(tmp_path / "new" / "run" / f) for n, f in (("a b", "a_b.crosslevel"), ("a b (csv)", "a_b.csv"))
    }
    assert cl.load(work.files["a b"]).equals(found)
    assert pacsv.read_csv(work.files["a b (csv)"])["estimate"].to_pylist() == found["estimate"].tolist()


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch, found):
    monkeypatch.chdir(tmp_path)
    work = job()
    work.write_answers({"a": found}, model=found)
    assert work.files == {}
    assert list(tmp_path.iterdir()) == []


def test_tables_and_json_say_the_same(capsys, found):
    job().print({"a": found}, warnings=["careful", "careful"])
    out = capsys.readouterr().out
    assert out.count("Warning: careful") == 1
    assert "young" in out
    job(as_json=True).print({"a": found}, warnings=["careful"], more={"x": float("nan")})
    told = json.loads(capsys.readouterr().out)
    assert told["answers"]["a"]["rows"] == found.table.to_pylist()
    assert told["warnings"][0] == "careful"
    assert told["more"] == {"x": None}
    assert told["files"] == {}


def test_our_warnings_are_silent_and_others_are_not():
    with quiet():
        warnings.warn("ours", CrosslevelWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="theirs"), quiet():
        warnings.warn("theirs", UserWarning, stacklevel=1)


def test_names_of_files_hold_no_odd_signs(tmp_path):
    for words in (("a/b", "c d"), ("..",), ("",), ("é x",)):
        name = file_stem(*words)
        (tmp_path / name).write_text("")
        assert (tmp_path / name).parent == tmp_path
        assert name.strip(".")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match="taken is a file; name a folder"):
        job(out=tmp_path / "taken")
    with pytest.raises(FileError, match="cannot be made"):
        job(out=tmp_path / "taken" / "x").folder()
    with pytest.raises(InputError, match="--report needs a folder"):
        job(report=True)


NOTHING = Given({}, {})


def test_columns_are_looked_up_in_their_file():
    options = [Option("weight", column_of="people"), Option("pairs", "crossings", several=True, column_of="people")]
    given = Given({"weight": "w", "pairs": [("age", "sx")]}, dict.fromkeys(("weight", "pairs"), ""))
    check_columns(options, given, {"places": ["x"]})
    with pytest.raises(InputError, match="--pairs='sx' is not a column.*Did you mean 'sex'"):
        check_columns(options, given, {"people": ["w", "age", "sex"]})


def test_keys_of_a_csv_file_have_the_type_of_the_people(tmp_path):
    (tmp_path / "places.csv").write_text("region,n\n101,5\n102,7\n")
    people = pa.table({"region": ["101", "102"]})
    assert read_beside(NOTHING, tmp_path / "places.csv", "region", people, "--by")["region"].to_pylist() == [
        "101",
        "102",
    ]
    numbers = read_beside(NOTHING, tmp_path / "places.csv", "region", pa.table({"region": [101]}), "--by")
    assert numbers["region"].to_pylist() == [101, 102]
    with pytest.raises(InputError, match="--by='regin' is not a column"):
        read_beside(NOTHING, tmp_path / "places.csv", "regin", people, "--by")
    with pytest.raises(InputError, match="places.csv has no rows where n > 9"):
        read_table(NOTHING, tmp_path / "places.csv", "n > 9")


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_maps_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "map.geojson").write_text(text)
    with pytest.raises(FileError, match="--map .*map.geojson is n"):
        read_geojson(tmp_path / "map.geojson", "--map")
    with pytest.raises(FileError, match="does not exist"):
        read_geojson(tmp_path / "none.geojson", "--map")
