"""What the verbs share: a bar for passes over people, quiet work, folders, files for reading and writing tables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.csv as pacsv

from crosslevel.data.atomic import whole_file
from crosslevel.data.batches import open_batches
from crosslevel.errors import CrosslevelWarning, FileError, InputError
from crosslevel.results import Estimates, save

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "check_folder",
    "check_report",
    "file_stem",
    "make_folder",
    "people_bar",
    "quietly",
    "read_table",
    "write_estimates",
]

T = TypeVar("T")


@contextmanager
def people_bar(console: Console, what: str, unit: str = "people") -> Iterator[Callable[[int, int | None], None]]:
    """Show rows of people (or other units) done, how many a second and the time left; a further pass begins from 0."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            of = "" if task.total is None else f" of {task.total:,.0f}"
            speed = f", {task.speed:,.0f} rows/s" if task.speed and unit == "people" else ""
            return Text(f"{task.completed:,.0f}{of} {unit}{speed}")

    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn())
    # into a file a bar would leave an empty line each
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda rows, total: shown.update(task, completed=rows, total=total)


def quietly(work: Callable[[], T]) -> T:
    """Run without printing our warnings: they are carried in the answer and said once, with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return work()


def check_folder(out: Path | None) -> None:
    """Refuse a file where a folder is wanted, before any work is done."""
    if out is not None and out.exists() and not out.is_dir():
        raise FileError(f"out={str(out)!r} is a file; name a folder for the answer.")


def check_report(wanted: bool, out: Path | None) -> None:
    """Refuse a report without a folder to put it into."""
    if wanted and out is None:
        raise InputError("--report needs a folder for the page; add --out.")


def make_folder(out: Path) -> None:
    """Make the folder for the answer."""
    check_folder(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"out={str(out)!r} cannot be made ({error.strerror}); name a folder you may write to."
        ) from error


def read_table(path: Path) -> pa.Table:
    """Read a whole file that is small: places, units, evidence."""
    return open_batches(path).to_table()


def file_stem(*words: str) -> str:
    """Make a name for a file out of names of columns.

    Examples
    --------
    >>> file_stem("sex", "age group", "by", "region/county")
    'sex-age_group-by-region_county'
    """
    return "-".join(re.sub(r"[^\w.]+", "_", word).strip("_.") or "_" for word in words)


def write_estimates(found: Estimates, folder: Path, stem: str) -> dict[str, str]:
    """Write an answer twice: for ``cl.load``, and as CSV for everybody else. Gives what was written."""
    saved, table = folder / f"{stem}.crosslevel", folder / f"{stem}.csv"
    save(found, saved)
    with whole_file(table) as beside:
        pacsv.write_csv(found.table, beside)
    return {stem: str(saved), f"{stem} (csv)": str(table)}
