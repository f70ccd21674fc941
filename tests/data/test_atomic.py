from __future__ import annotations

import pytest

from crosslevel.data.atomic import whole_file
from crosslevel.errors import FileError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(target) as beside:
        beside.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_good_write_replaces_and_is_readable_by_others(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with whole_file(target) as beside:
        beside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o600 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_no_folder_and_a_folder_get_a_sentence(tmp_path):
    with pytest.raises(FileError, match="the folder .*nowhere does not exist"), whole_file(tmp_path / "nowhere" / "a"):
        pass
    with pytest.raises(FileError, match="is a folder; name a file"), whole_file(tmp_path):
        pass
