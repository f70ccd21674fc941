"""Tell how far a long call is: ``progress=True`` draws a bar on stderr, a function is called with what is done and all there is to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from crosslevel.errors import InputError
from crosslevel.typing import Progress, Step, Tell

if TYPE_CHECKING:
    from rich.console import Console


def follow(progress: Progress | None, what: str, unit: str = "people") -> AbstractContextManager[Tell | None]:
    """Give what a loop calls with what is done: the caller's function, a bar for True, nothing for None or False.

    Examples
    --------
    >>> with follow(lambda done, total: print(done, "of", total), "Reading") as tell:
    ...     tell(3, 10)
    3 of 10
    >>> with follow(None, "Reading") as tell:
    ...     print(tell)
    None
    """
    if progress is None or progress is False:
        return nullcontext()
    if progress is True:
        return draw_bar(what, unit)
    if not callable(progress):
        raise InputError(
            f"progress={progress!r} is neither True nor a function; pass True for a bar, or f(done, total)."
        )
    return nullcontext(progress)


def count_steps(
    progress: Progress | None, what: str, of: int | None = None, unit: str = "steps"
) -> AbstractContextManager[Step | None]:
    """Give what a call runs after each of its steps, nothing for None or False; ``of`` is None where nobody knows how many there will be.

    At the end all is done: a search that needed fewer steps than it had is complete.

    Examples
    --------
    >>> with count_steps(lambda done, of: print(done, "of", of), "Fitting", 2) as step:
    ...     step()
    0 of 2
    1 of 2
    2 of 2
    """
    return _counted(follow(progress, what, unit), of)


@contextmanager
def _counted(followed: AbstractContextManager[Tell | None], of: int | None) -> Iterator[Step | None]:
    with followed as tell:
        if tell is None:
            yield None
            return
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            tell(done, of)

        tell(0, of)
        yield step
        if done != of:
            tell(done if of is None else of, done if of is None else of)


@contextmanager
def draw_bar(what: str, unit: str = "people", console: Console | None = None) -> Iterator[Tell]:
    """Draw a bar on stderr: what is done, how many rows a second and the time left; where the end is not known, it only moves.

    Nothing is drawn where stderr is a file: a bar would leave an empty line each.
    """
    from rich import console as rich_console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.total is None and not task.completed:
                return Text("working")  # nothing to count: a search, or the first rows
            of = "" if task.total is None else f" of {task.total:,.0f}"
            speed = f", {task.speed:,.0f} rows/s" if task.speed and unit == "people" else ""
            return Text(f"{task.completed:,.0f}{of} {unit}{speed}")

    shown_on = console or rich_console.Console(stderr=True, highlight=False)
    # steps differ in length: what one took says nothing of the next
    clock = TimeElapsedColumn() if unit == "steps" else TimeRemainingColumn()
    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), Rate(), clock)
    with Progress(*columns, console=shown_on, transient=True, disable=not shown_on.is_terminal) as shown:
        task = shown.add_task(what, total=None)

        def tell(done: int, total: int | None) -> None:
            shown.tasks[0].total = total  # None too: update() would keep what was there
            shown.update(task, completed=done)

        yield tell
