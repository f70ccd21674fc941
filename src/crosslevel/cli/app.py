"""The verbs, each loaded only when it runs; their options are made from signatures and docstrings."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Sequence
from typing import Any

import typer

from crosslevel import __version__
from crosslevel.errors import InputError

__all__ = ["VERBS", "run"]

VERBS = {
    "demo": "Simulate a nation, estimate how its subgroups voted from regional totals, compare with the truth.",
    "ecological": "Estimate how each subgroup behaved in each place, from people and totals by place.",
    "table": "Estimate how groups chose between outcomes, from counts of both by unit, by several methods side by side.",
    "rpv": "Study racially polarized voting over all contests, from precincts: candidates of choice, polarization, turnout.",
    "distribution": "Predict the labels of groups from samples of their members, and say how well that works.",
    "areas": "Carry totals of areas, with their margins of error, over to other areas.",
    "binned": "Estimate how many lie in new bins or areas, from the totals of others.",
    "impute": "Impute each person's hidden value, when only its mean in groups was published.",
    "krls": "Estimate how y responds to each x, with no functional form assumed.",
    "embed": "Turn people into one vector per bag, in one pass that can be stopped and resumed.",
    "report": "Turn saved estimates and models into one self-contained HTML page, or show a folder of such pages.",
    "info": "Print what this machine and installation have: versions, cores, memory, accelerators, extras.",
}


def run(arguments: Sequence[str]) -> int:
    """Read the arguments and do what they say; gives the exit code."""
    verb = next((a for a in arguments if not a.startswith("-")), "")
    module: Any = importlib.import_module(f"crosslevel.cli.{verb}") if verb in VERBS else None
    try:
        told = _make_app(verb, module)(list(arguments), standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own, whose home differs between its versions
            raise
        raise InputError(
            f"{error.format_message().rstrip('.')}. See crosslevel {verb} --help.".replace("  ", " ")
        ) from error
    if not isinstance(told, dict):
        return int(told or 0)
    from crosslevel.cli.job import Job
    from crosslevel.cli.options import read

    try:
        given = read(module.OPTIONS, told)
        module.run(given, Job(given, module.OPTIONS, arguments))
    except InputError as error:
        raise InputError(_as_written(str(error), [o.name for o in module.OPTIONS])) from error
    return 0


def _make_app(verb: str, module: Any) -> typer.Typer:
    app = typer.Typer(
        name="crosslevel",
        help="What can be said about people when the outcome is known only for groups, and how sure may we be?",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    for name, summary in VERBS.items():
        if name != verb:
            app.command(name, help=summary)(_nothing)
            continue
        from crosslevel.cli.options import as_function

        examples = "\n\n".join(["Examples:", *(f"  {e}" for e in module.EXAMPLES)]).replace("[", r"\[")
        app.command(name, help=summary, epilog=examples)(as_function(module.OPTIONS))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"crosslevel {__version__}")
        raise typer.Exit


def _common(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """What can be said about people when the outcome is known only for groups, and how sure may we be?"""


def _nothing() -> None:
    """Stand for a verb that was not named."""


def _as_written(text: str, names: Sequence[str]) -> str:
    """Write parameters in a message of the library as options: ``missing='drop'`` becomes ``--missing drop``."""
    text = re.sub(r"\w+\(\.\.\., (\w+=[^)]*)\)", r"\1", text)
    from crosslevel.cli.options import spelled

    known = {spelling: spelled(name) for name in names for spelling in (name, spelled(name))}
    pattern = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    found = re.compile(rf"(?<![\w-])({pattern})=(?:'([^']*)'|([\w.+-]*\w))")
    return found.sub(lambda m: f"{known[m[1]]} {shlex.quote(m[2] or m[3])}", text)
