"""What the verbs share: files, folders, warnings, tables and JSON."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import crosslevel as cl
from crosslevel.cli.job import OUTPUT, Job, file_stem, quiet
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
    with pytest.raises(FileError):
        job(out=tmp_path / "taken")
    with pytest.raises(FileError):
        job(out=tmp_path / "taken" / "x").folder()
    with pytest.raises(InputError):
        job(report=True)


def reading(options=(), **told):
    return Job(Given(told, dict.fromkeys(told, "")), options)


def test_columns_are_looked_up_in_their_file():
    options = [Option("weight", column_of="people"), Option("pairs", "crossings", several=True, column_of="people")]
    work = reading(options, weight="w", pairs=[("age", "sx")])
    work.check_columns(places=["x"])
    with pytest.raises(InputError):
        work.check_columns(people=["w", "age", "sex"])


def test_keys_of_a_csv_file_have_the_type_of_the_people(tmp_path):
    (tmp_path / "places.csv").write_text("region,n\n101,5\n102,7\n")
    people = pa.table({"region": ["101", "102"]})
    work = reading(places=tmp_path / "places.csv", by="region")
    assert work.read_beside("places", "by", people)["region"].to_pylist() == ["101", "102"]
    numbers = work.read_beside("places", "by", pa.table({"region": [101]}))
    assert numbers["region"].to_pylist() == [101, 102]
    with pytest.raises(InputError):
        reading(places=tmp_path / "places.csv", by="regin").read_beside("places", "by", people)
    with pytest.raises(InputError):
        work.read("places", "n > 9")


def test_numbers_in_text_are_columns_of_some_file(tmp_path):
    (tmp_path / "a.csv").write_text('region,n\n101,"1,234"\n')
    work = reading(a=tmp_path / "a.csv", text_numbers=["n"])
    assert work.read("a")["n"].to_pylist() == [1234]
    work.check_columns()
    work = reading(a=tmp_path / "a.csv", text_numbers=["m"])
    work.open("a")
    with pytest.raises(InputError):
        work.check_columns()


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_maps_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "map.geojson").write_text(text)
    with pytest.raises(FileError):
        reading(map=tmp_path / "map.geojson").read_map("map")
    with pytest.raises(FileError):
        reading(map=tmp_path / "none.geojson").read_map("map")
