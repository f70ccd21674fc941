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


@app.command()
def embed(
    people: Annotated[Path, typer.Argument(help="Parquet, CSV or Arrow file, a folder or a quoted glob of files.")],
    by: Annotated[list[str], typer.Option(help="Column that names the bag; repeat for several.")],
    weight: Annotated[str | None, typer.Option(help="Column of survey weights.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the answer.")] = Path("embeddings"),
    columns: Annotated[
        list[str] | None, typer.Option(help="A feature; repeat. All but by and weight if left out.")
    ] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="A column of numbers that are codes; repeat.")] = None,
    where: Annotated[str | None, typer.Option(help="Keep these people only, for example 'age >= 18'.")] = None,
    subgroup: Annotated[
        list[str] | None, typer.Option(help="'name=query', for example 'women=sex == 2'; repeat. All in one pass.")
    ] = None,
    feature_map: Annotated[str, typer.Option("--map", help="The feature map.")] = "sorf",
    features: Annotated[int, typer.Option(help="Length of the vectors.")] = 4096,
    bandwidth: Annotated[str, typer.Option(help="'median' or a number.")] = "median",
    unknown: Annotated[str, typer.Option(help="'error' or 'ignore': levels not seen before.")] = "error",
    seed: Seed = 0,
    engine: Annotated[str, typer.Option(help="'local' or 'jax'.")] = "local",
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if left out.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File to go on from; in the out folder if left out.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with a pass that was stopped.")] = True,
    as_json: Json = False,
) -> None:
    """Turn people into one vector per bag, in one pass that can be stopped and gone on with."""
    from crosslevel.cli.embed import Settings, run

    run(
        Settings(
            people=people,
            by=by,
            weight=weight,
            out=out,
            columns=columns or None,
            categorical=categorical or None,
            where=where,
            subgroups=subgroup or [],
            map=feature_map,
            n_features=features,
            bandwidth=bandwidth,
            unknown=unknown,
            seed=seed,
            engine=engine,
            n_jobs=jobs,
            checkpoint=checkpoint,
            resume=resume,
        ),
        as_json,
    )


@app.command()
def krls(
    data: Annotated[Path, typer.Argument(help="Parquet, CSV or Arrow file, a folder or a quoted glob of files.")],
    y: Annotated[str, typer.Option("--y", help="The outcome, a column of numbers.")],
    x: Annotated[list[str], typer.Option("--x", help="A covariate; repeat. Text columns are factors.")],
    cluster: Annotated[str | None, typer.Option(help="Column whose members' errors go together.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None,
    weights: Annotated[str, typer.Option(help="'counts' or 'survey': what a weight means.")] = "counts",
    categorical: Annotated[
        list[str] | None, typer.Option(help="A covariate of numbers that are codes; repeat.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="'column=level' to compare a factor with; repeat.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Keep these rows only, for example 'age >= 18'.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="Column of subgroups; repeat to cross them.")] = None,
    subgroup: Annotated[
        list[str] | None, typer.Option(help="'name=query' over covariates, for example 'old=age >= 65'; repeat.")
    ] = None,
    differences: Annotated[bool, typer.Option(help="Compare the subgroups pair by pair.")] = False,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    target: Annotated[str, typer.Option(help="'sample' or 'population'.")] = "sample",
    rule: Annotated[str, typer.Option(help="'loo', 'gcv' or 'krls': how the penalty is chosen.")] = "loo",
    inference: Annotated[
        str, typer.Option(help="'debiased', 'hc3', 'classical', 'krls' or 'bigkrls'; only the first covers.")
    ] = "debiased",
    method: Annotated[str, typer.Option(help="The way to the numbers; 'auto' chooses and says.")] = "auto",
    penalty: Annotated[float | None, typer.Option(help="A penalty instead of a rule.")] = None,
    bandwidth: Annotated[str, typer.Option(help="'P', 'maxvar' or a number.")] = "P",
    contrast: Annotated[str, typer.Option(help="'factor' or 'dummy': what the effect of a level sets.")] = "factor",
    missing: Annotated[str, typer.Option(help="'error' or 'drop': rows with missing values.")] = "error",
    loss: Annotated[str, typer.Option(help="'squared', or 'logistic' for outcomes of 0 and 1.")] = "squared",
    out: Annotated[Path | None, typer.Option(help="Folder for the effects, the model and a report.")] = None,
    as_json: Json = False,
) -> None:
    """Estimate how y responds to each x with no functional form assumed, with intervals that cover."""
    from crosslevel.cli.krls import Settings, run

    run(
        Settings(
            data=data,
            y=y,
            x=x,
            cluster=cluster,
            weight=weight,
            weights=weights,
            categorical=categorical or [],
            references=reference or [],
            where=where,
            by=by or [],
            subgroups=subgroup or [],
            differences=differences,
            level=level,
            target=target,
            rule=rule,
            inference=inference,
            method=method,
            penalty=penalty,
            bandwidth=bandwidth,
            contrast=contrast,
            missing=missing,
            loss=loss,
            out=out,
        ),
        as_json,
    )
