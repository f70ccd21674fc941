"""The verbs of the command line, each loaded only when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosslevel import __version__

app = typer.Typer(
    name="crosslevel",
    help="What can be said about people when the outcome is known only for groups, and how sure may we be?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"crosslevel {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What can be said about people when the outcome is known only for groups, and how sure may we be?"""


@app.command()
def info(as_json: Json = False) -> None:
    """Say what this machine and installation have: versions, cores, memory, accelerators, extras."""
    from crosslevel.cli.info import run

    run(as_json)


@app.command()
def demo(
    regions: Annotated[int, typer.Option(min=20, help="Number of regions to simulate.")] = 300,
    people: Annotated[int, typer.Option(min=10_000, help="Number of people to simulate (a survey sample).")] = 300_000,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Simulate a nation, estimate how its subgroups voted from regional totals, compare with the truth."""
    from crosslevel.cli.demo import run

    run(regions, people, out, seed, as_json)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="Estimates saved by crosslevel (.crosslevel or .json).")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    as_json: Json = False,
) -> None:
    """Turn saved estimates into one self-contained HTML page."""
    from crosslevel.cli.report import run

    run(results, out, title, as_json)
