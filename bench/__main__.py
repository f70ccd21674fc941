"""``python -m bench``: list tasks and methods, run them, write the page."""

from __future__ import annotations

import argparse

from bench import page
from bench.cases import Method
from bench.registry import METHODS, TASKS
from bench.run import keep, run


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=("list", "run", "page"))
    parser.add_argument("--all", action="store_true", help="every case and the slow methods; a part of both otherwise")
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), help="these tasks alone")
    parser.add_argument("--methods", nargs="*", help="methods whose name contains one of these")
    parser.add_argument("--add", metavar="FILE.py:FUNCTION", help="a method of yours, alone; nothing is kept")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a method is stopped on a task")
    given = parser.parse_args()
    tasks = [TASKS[name] for name in given.tasks or TASKS]
    wanted = [m for m in METHODS if not given.methods or any(part in m.name for part in given.methods)]
    if given.what == "list":
        for task in tasks:
            names = ", ".join(m.name for m in wanted if m.answers(task))
            print(f"{task.name} ({task.kind}): {task.missing() or 'data found'}; {names}")
    elif given.what == "page":
        page.write()
    elif given.add:
        found = run(
            tasks, [Method("yours", task.kind, given.add, only=(task.name,)) for task in tasks], given.all, given.limit
        )
        print(page.tables(found, tasks))
    else:
        for task in tasks:
            keep(run([task], wanted, given.all, given.limit))
        page.write()


if __name__ == "__main__":
    main()
