"""What the verbs share: files, folders, warnings, tables and JSON."""

from __future__ import annotations

import json

import pyarrow.csv as pacsv
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel.cli.job import OUTPUT, Job, file_stem
from crosslevel.cli.options import Given


def job(**told):
    return Job(Given(told, {option.name: option.panel for option in OUTPUT}))


@pytest.fixture(scope="module")
def found():
    return cl.ecological.bounds(counted({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]}))


def test_answers_are_written_twice_and_named(tmp_path, found):
    work = job(out=tmp_path / "new" / "run")
    work.write_answers({"a b": found}, title="x")
    assert work.files == {
        n: str(tmp_path / "new" / "run" / f) for n, f in (("a b", "a_b.crosslevel"), ("a b (csv)", "a_b.csv"))
    }
    assert cl.load(work.files["a b"]).equals(found)
    assert pacsv.read_csv(work.files["a b (csv)"])["estimate"].to_pylist() == found["estimate"].tolist()


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


def test_names_of_files_hold_no_odd_signs(tmp_path):
    for words in (("a/b", "c d"), ("..",), ("",), ("é x",)):
        name = file_stem(*words)
        (tmp_path / name).write_text("")
        assert (tmp_path / name).parent == tmp_path
        assert name.strip(".")
