from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile

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


def test_what_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    names = ("", "nowhere/a", "a", "pipe", "n" * 5000, "a\0b", "a\ud800b")
    for path in (*(tmp_path / name for name in names), 2.5, None):
        with pytest.raises(FileError), whole_file(path):
            pass


def test_links_are_followed_and_permissions_kept(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    with whole_file(link) as beside:
        assert beside.stat().st_mode & 0o777 == 0o600  # nobody else may read half of it either
        beside.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600
    real.chmod(0o444)
    with whole_file(real) as beside:
        beside.write_text("newer")
    assert real.stat().st_mode & 0o777 == 0o444


def test_a_full_disk_is_a_sentence_and_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(FileError), whole_file(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["out.txt", 230 * "n"])
def test_parts_of_a_killed_writer_are_cleared_by_the_next(tmp_path, name):
    target = tmp_path / name
    code = (
        "import os, signal\nfrom crosslevel.data.atomic import whole_file\n"
        f"with whole_file({str(target)!r}) as beside:\n    beside.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    living = tmp_path / f".{name[:40]}.{'0' * 8}-1-00000000.part"  # of another machine: not ours to clear
    living.write_text("theirs")
    with whole_file(target) as beside:
        beside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([target, living])
    assert target.read_text() == "whole"


def test_an_interrupt_inside_an_archive_is_one(tmp_path):
    """The archive complains that it is still open, which hides what happened."""

    def write():
        with whole_file(tmp_path / "a.zip") as beside, zipfile.ZipFile(beside, "w") as archive:
            half = archive.open("half", "w")  # a handle that nobody holds would close itself
            half.write(b"a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.iterdir())
