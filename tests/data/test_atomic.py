from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

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
    with pytest.raises(FileError), whole_file(tmp_path / "nowhere" / "a"):
        pass
    with pytest.raises(FileError), whole_file(tmp_path):
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


def test_the_owner_of_a_file_stays_its_owner(tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("old")
    if os.geteuid() == 0:  # nobody else may give files away
        os.chown(file, 12_345, 12_345)
    owner = file.stat().st_uid
    with whole_file(file) as beside:
        beside.write_text("new")
    assert file.stat().st_uid == owner


def test_devices_and_pipes_are_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    device = Path(os.devnull)
    if os.geteuid() == 0:  # who may replace the system's own tries another
        device = tmp_path / "null"
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError:  # not everywhere may root make devices
            device = pipe
    for target in (pipe, device):
        with pytest.raises(FileError), whole_file(target):
            pass
        assert not target.is_file()
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_circle_of_links_is_refused(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.symlink_to(b)
    b.symlink_to(a)
    with pytest.raises(FileError), whole_file(a):
        pass


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


def test_a_long_name_can_be_written(tmp_path):
    target = tmp_path / ("n" * 250)
    with whole_file(target) as beside:
        beside.write_text("whole")
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("name", ["n" * 5000, "a\0b", "a\ud800b"])
def test_a_name_that_no_file_can_have_gets_a_sentence(tmp_path, name):
    from crosslevel import load
    from crosslevel.data.batches import open_batches

    for use in (load, open_batches, lambda path: whole_file(path).__enter__()):
        with pytest.raises(FileError):
            use(tmp_path / name)


@pytest.mark.parametrize("path", [2.5, True, float("nan"), None])
def test_what_is_no_name_is_refused(path):
    with pytest.raises(FileError, match="path="), whole_file(path):
        pass


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
