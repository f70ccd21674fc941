"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crosslevel.errors import FileError

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write beside ``path``; move it there when the block ends well, remove it when it fails.

    Parameters
    ----------
    path : path
        Where the file shall appear. Its folder must exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "a.txt") as beside:
    ...         _ = beside.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path)
    if target.is_dir():
        raise FileError(f"{target} is a folder; name a file to write.")
    if not target.parent.is_dir():
        raise FileError(f"{target} cannot be written: the folder {target.parent} does not exist. Make it first.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise FileError(f"{target} cannot be written ({error.strerror}); choose a folder you may write to.") from error
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        beside.chmod(0o666 & ~_umask())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
