from __future__ import annotations

import warnings

import pyarrow.csv as pacsv
import pytest

import crosslevel as cl
from crosslevel.cli.console import file_stem, make_folder, quietly, write_estimates
from crosslevel.errors import CrosslevelWarning, FileError


def test_answers_are_written_twice_and_named(tmp_path):
    found = cl.ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    files = write_estimates(found, tmp_path, "a")
    assert files == {"a": str(tmp_path / "a.crosslevel"), "a (csv)": str(tmp_path / "a.csv")}
    assert cl.load(tmp_path / "a.crosslevel").equals(found)
    assert pacsv.read_csv(tmp_path / "a.csv")["estimate"].to_pylist() == found["estimate"].tolist()


def test_our_warnings_are_silent_and_others_are_not():
    assert quietly(lambda: warnings.warn("ours", CrosslevelWarning, stacklevel=1)) is None
    with pytest.warns(UserWarning, match="theirs"):
        quietly(lambda: warnings.warn("theirs", UserWarning, stacklevel=1))


def test_names_of_files_hold_no_odd_signs(tmp_path):
    for words in (("a/b", "c d"), ("..",), ("",), ("é x",)):
        name = file_stem(*words)
        (tmp_path / name).write_text("")
        assert (tmp_path / name).parent == tmp_path
        assert name.strip(".")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match="is a file; name a folder"):
        make_folder(tmp_path / "taken")
    with pytest.raises(FileError, match="cannot be made"):
        make_folder(tmp_path / "taken" / "x")
