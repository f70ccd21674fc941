"""Files appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crosslevel.errors import FileError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write beside ``path``; move it there when the block ends well, remove it when it fails.

    A link is followed, a file that was there keeps its owner and permissions, which hold for the part already, and what is no regular
    file (a device, a pipe) is refused.
    Parts that a process of this machine left behind when it was killed are cleared by the next writer of the same file.

    Parameters
    ----------
    path : path
        Where the file shall appear. Its folder must exist.

    Raises
    ------
    FileError
        Where the file cannot be written, also when the disk is full half way.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "a.txt") as beside:
    ...         _ = beside.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"path={path!r} is no name of a file; pass text or a pathlib.Path.")
    named = Path(path)
    try:
        target = named.resolve()
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise FileError(f"{named} cannot be written: its link leads nowhere ({error}); name another file.") from error
    except ValueError as error:  # a null byte
        raise FileError(f"{str(named)!r} is no name of a file ({error}); name another.") from error
    try:
        target.stat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name too long, a folder that may not be entered
        raise FileError(f"{named} cannot be written ({error.strerror}); choose another place or name.") from error
    if target.is_dir():
        raise FileError(f"{named} is a folder; name a file to write.")
    if target.exists() and not target.is_file():
        raise FileError(f"{named} is a device or a pipe, not a regular file; name a file to write.")
    if not target.parent.is_dir():
        raise FileError(f"{named} cannot be written: the folder {target.parent} does not exist. Make it first.")
    beside = _new_part(named, target)
    try:
        yield beside
        if target.exists():
            before = target.stat()
            with suppress(OSError):  # only root may give files away
                os.chown(beside, before.st_uid, before.st_gid)
            beside.chmod(before.st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise FileError(
            f"{named} cannot be written ({error.strerror or error}); free space or choose another place. "
            "What was there before is unchanged."
        ) from error
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, ValueError) and isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # an archive that Ctrl-C left open cannot be closed, and says so instead
        raise


def clear_parts(path: str | os.PathLike[str]) -> None:
    """Remove parts of a file whose writer, a process of this machine, no longer runs; every writer does so first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clear_parts(Path(folder) / "a.txt")  # nothing was left behind
    """
    target = Path(path).resolve()
    before, after = _part_prefix(target), ".part"
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            name = entry.name
            if name.startswith(before) and name.endswith(after):
                pid = name[len(before) :].split("-")[0]
                if pid.isdigit() and not _runs(int(pid)):
                    Path(entry.path).unlink(missing_ok=True)


def _new_part(named: Path, target: Path) -> Path:
    """Make an empty file beside the target, with the permissions that the process gives new files, or fewer where it has fewer."""
    clear_parts(target)
    mode = 0o600 | (target.stat().st_mode & 0o777) if target.exists() else 0o666
    beside = target.with_name(f"{_part_prefix(target)}{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    except OSError as error:
        raise FileError(f"{named} cannot be written ({error.strerror}); choose a folder you may write to.") from error
    return beside


def _part_prefix(target: Path) -> str:
    """Begin the name of a part: the target's, and this machine's mark."""
    machine = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    # a name may have 255 bytes on most systems; the marks take 40 of them
    long = len(os.fsencode(target.name)) > 200
    short = hashlib.sha256(os.fsencode(target.name)).hexdigest() if long else target.name
    return f".{short}.{machine}-"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or a number no process has
        return True
    return True
