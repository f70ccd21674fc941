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

VERBS = {
    "demo": "Simulate a nation, estimate how its subgroups voted from regional totals, and compare with the truth.",
    "audit": "List what looks wrong in people, places and surveys: codes of missing values, totals among rows, and the like.",
    "ecological": "Estimate how each subgroup behaved in each place, from individual records and totals by place.",
    "table": "Estimate how each group voted, from group and outcome counts by unit, by several methods.",
    "rpv": "Analyze racially polarized voting in precinct data: candidates of choice, polarization, turnout, by contest.",
    "distribution": "Predict the labels of groups from samples of their members, with cross-validation.",
    "areas": "Interpolate totals of areas, with their margins of error, to other areas.",
    "binned": "Estimate counts in new bins or areas from the totals of others.",
    "impute": "Impute each person's value of a variable from its published group means.",
    "krls": "Estimate the effect of each x on y, with no functional form assumed.",
    "embed": "Compute one feature vector per group, in one pass over the data that can be resumed.",
    "report": "Make one self-contained HTML report from saved estimates and models, or check a sealed folder.",
    "info": "Print versions, cores, memory, accelerators and installed extras.",
}


def run(arguments: Sequence[str]) -> int:
    """Read the arguments and do what they say; gives the exit code."""
    verb = next((a for a in arguments if not a.startswith("-")), "")
    module: Any = importlib.import_module(f"crosslevel.cli.{verb}") if verb in VERBS else None
    told = parse(arguments, verb, module)
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


def parse(arguments: Sequence[str], verb: str, module: Any) -> Any:
    """Give the values of a verb's options as they were written; an exit code where only help was asked for."""
    try:
        return _make_app(verb, module)(list(arguments), standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own, whose home differs between its versions
            raise
        raise InputError(
            f"{error.format_message().rstrip('.')}. See crosslevel {verb} --help.".replace("  ", " ")
        ) from error


def _make_app(verb: str, module: Any) -> typer.Typer:
    app = typer.Typer(
        name="crosslevel",
        help="What can we learn about individuals when the outcome is reported only for groups, and how certain can we be?",
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
    """What can we learn about individuals when the outcome is reported only for groups, and how certain can we be?"""


def _nothing() -> None:
    """Stand for a verb that was not named."""


def _as_written(text: str, names: Sequence[str]) -> str:
    """Write parameters in a message of the library as options: ``missing='drop'`` becomes ``--missing drop``."""
    text = re.sub(r"\w+\(\.\.\., (\w+=[^)]*)\)", r"\1", text)
    text = re.sub(r"repair=\{'(\w+)': '([^']*)'\}", lambda m: f"--repair {shlex.quote(f'{m[1]}={m[2]}')}", text)
    from crosslevel.cli.options import spelled

    known = {spelling: spelled(name) for name in names for spelling in (name, spelled(name))}
    pattern = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    found = re.compile(rf"(?<![\w-])({pattern})=(?:'([^']*)'|([\w.+-]*\w))")
    return found.sub(lambda m: f"{known[m[1]]} {shlex.quote(m[2] or m[3])}", text)
