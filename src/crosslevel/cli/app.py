"""The verbs of the command line, each loaded only when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosslevel import __version__
from crosslevel.cli.binned_options import binned

app = typer.Typer(
    name="crosslevel",
    help="What can be said about people when the outcome is known only for groups, and how sure may we be?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]

Page = Annotated[bool, typer.Option("--report", help="Write report.html into the folder.")]

PEOPLE = "People and places"
TABLE = "Counts by unit"


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
    results: Annotated[
        list[Path] | None, typer.Argument(help="Estimates (.crosslevel or .json) and models saved by crosslevel.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file to write; report.html if left out.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    places: Annotated[Path | None, typer.Option("--map", help="GeoJSON or TopoJSON of the places.")] = None,
    serve: Annotated[
        Path | None, typer.Option(help="Show the reports of this folder in a browser on this machine.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Of --serve; 0 takes any that is free.")] = None,
    as_json: Json = False,
) -> None:
    """Turn saved estimates and models into one self-contained HTML page, or show a folder of such pages."""
    from crosslevel.cli.report import run

    run(results or [], out, title, places, serve, port, as_json)


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
    report: Page = False,
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
            feature_map=feature_map,
            n_features=features,
            bandwidth=bandwidth,
            unknown=unknown,
            seed=seed,
            engine=engine,
            n_jobs=jobs,
            checkpoint=checkpoint,
            resume=resume,
            report=report,
        ),
        as_json,
    )


@app.command()
def ecological(
    typed: typer.Context,
    people: Annotated[
        Path | None, typer.Argument(help="People: Parquet, CSV or Arrow file, a folder or a quoted glob of files.")
    ] = None,
    places: Annotated[Path | None, typer.Argument(help="Places, one row each, with their totals.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="Counts by unit, in place of people and places.", rich_help_panel=TABLE)
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Column of both tables that names the place.", rich_help_panel=PEOPLE)
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of survey weights.", rich_help_panel=PEOPLE)] = None,
    successes: Annotated[
        str | None, typer.Option(help="Column of places: how many did it.", rich_help_panel=PEOPLE)
    ] = None,
    trials: Annotated[str | None, typer.Option(help="Column of places: of how many.", rich_help_panel=PEOPLE)] = None,
    population: Annotated[
        str | None, typer.Option(help="Column of places: everybody; turnout is then modelled.", rich_help_panel=PEOPLE)
    ] = None,
    lon: Annotated[str | None, typer.Option(help="Column of places: longitude.", rich_help_panel=PEOPLE)] = None,
    lat: Annotated[str | None, typer.Option(help="Column of places: latitude.", rich_help_panel=PEOPLE)] = None,
    estimate: Annotated[
        list[str] | None,
        typer.Option(
            help="What to ask: a column (sex), a crossing ('sex*race'), a query ('age >= 65') or 'name=query'; repeat.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    rollup: Annotated[
        list[str] | None,
        typer.Option(
            help="Put places together by this column of theirs, or 'all'; repeat. Answers by place come too.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    of: Annotated[
        str, typer.Option(help="Shares of 'voters' or 'people', or 'turnout'.", rich_help_panel=PEOPLE)
    ] = "voters",
    contrast: Annotated[
        str | None,
        typer.Option(help="'difference' or 'ratio': compare subgroups pair by pair.", rich_help_panel=PEOPLE),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="A feature of people; repeat. All but by and weight if left out.", rich_help_panel=PEOPLE),
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are codes; repeat.", rich_help_panel=PEOPLE)
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Use these people only, for example 'age >= 18'.", rich_help_panel=PEOPLE)
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="Table of known results of subgroups.", rich_help_panel=PEOPLE)
    ] = None,
    state_effect: Annotated[
        str | None,
        typer.Option(help="Column of places whose values share an effect, such as the state.", rich_help_panel=PEOPLE),
    ] = None,
    features: Annotated[int, typer.Option(help="Length of the vectors.", rich_help_panel=PEOPLE)] = 4096,
    feature_map: Annotated[str, typer.Option("--map", help="The feature map.", rich_help_panel=PEOPLE)] = "sorf",
    spatial: Annotated[
        str, typer.Option(help="'matern12', 'matern32' or 'matern52': the field over the map.", rich_help_panel=PEOPLE)
    ] = "matern32",
    no_spatial: Annotated[
        bool, typer.Option("--no-spatial", help="No field over the map.", rich_help_panel=PEOPLE)
    ] = False,
    metric: Annotated[str, typer.Option(help="'sphere' or 'plane'.", rich_help_panel=PEOPLE)] = "sphere",
    no_nugget: Annotated[
        bool, typer.Option("--no-nugget", help="No effect of each place's own.", rich_help_panel=PEOPLE)
    ] = False,
    link: Annotated[
        str,
        typer.Option(
            help="'individual': people decide one by one; 'group': the paper's, for places.", rich_help_panel=PEOPLE
        ),
    ] = "individual",
    interval: Annotated[
        str | None,
        typer.Option(
            help="'confounding': intervals allow for confounding; 'model': they hold under the model.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    calibrate: Annotated[
        list[str] | None,
        typer.Option(
            help="Hide a column of 0 and 1 or a query of people to learn how far subgroups are off; repeat, or say 'auto'.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    rho: Annotated[
        float, typer.Option(help="How far a place's composition acts on everybody there.", rich_help_panel=PEOPLE)
    ] = 0.0,
    no_account: Annotated[
        bool,
        typer.Option("--no-account", help="Do not make subgroups add up to the totals.", rich_help_panel=PEOPLE),
    ] = False,
    unmatched: Annotated[
        str, typer.Option(help="'error' or 'drop': places of one table only.", rich_help_panel=PEOPLE)
    ] = "error",
    draws: Annotated[int, typer.Option(help="Number of posterior draws.", rich_help_panel=PEOPLE)] = 1000,
    cross_validate: Annotated[
        int | None, typer.Option(help="Predict each place from the others, in so many folds.", rich_help_panel=PEOPLE)
    ] = None,
    leave_out: Annotated[
        str | None,
        typer.Option(help="The same, one value of this column of places at a time.", rich_help_panel=PEOPLE),
    ] = None,
    polygons: Annotated[
        Path | None,
        typer.Option(help="GeoJSON with the property BY, for the report's maps.", rich_help_panel=PEOPLE),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if left out.", rich_help_panel=PEOPLE)] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column of counts of a group; repeat.", rich_help_panel=TABLE)
    ] = None,
    unit: Annotated[str | None, typer.Option(help="Column of the units' names.", rich_help_panel=TABLE)] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="A method, or 'all'; repeat or join by commas.", rich_help_panel=TABLE),
    ] = None,
    weights: Annotated[
        str, typer.Option(help="'population' or 'equal': units in Goodman's regression.", rich_help_panel=TABLE)
    ] = "population",
    contextual_slope: Annotated[
        float | None,
        typer.Option(
            help="Contextual effect in rxc and multinomial_dirichlet: 0.35 if left out, 0 for constant rates.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    contextual_slope_sd: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of that slope, which widens intervals: 0.1 if left out.", rich_help_panel=TABLE
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(help="'scale' or 'none-of-the-above': totals that differ.", rich_help_panel=TABLE),
    ] = None,
    rest: Annotated[
        str | None, typer.Option(help="Name of the column that takes the difference.", rich_help_panel=TABLE)
    ] = None,
    missing: Annotated[
        str, typer.Option(help="'error', 'zero' or 'drop': missing counts.", rich_help_panel=TABLE)
    ] = "error",
    duplicates: Annotated[
        str, typer.Option(help="'error' or 'sum': units named twice.", rich_help_panel=TABLE)
    ] = "error",
    merge_below: Annotated[
        float | None, typer.Option(help="Merge options below this share into 'other'.", rich_help_panel=TABLE)
    ] = None,
    total: Annotated[
        str | None, typer.Option(help="Column of people, by which shares are multiplied.", rich_help_panel=TABLE)
    ] = None,
    abstain: Annotated[
        list[str] | None,
        typer.Option(help="Outcome of those who did not vote: answer for voters, and turnout.", rich_help_panel=TABLE),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="Table with group, outcome and truth, to score the methods.", rich_help_panel=TABLE),
    ] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="Column of counts of an outcome; repeat for several.")
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the answers, the model and the report.")] = None,
    report: Page = False,
    as_json: Json = False,
) -> None:
    """Say how each subgroup behaved in each place: from people and totals, or from counts by unit with --table."""
    options = {name: value for name, value in locals().items() if name != "typed"}
    from crosslevel.cli.ecological_forms import run

    # what was written and what is a default must be told apart: the two forms do not share all options
    written = [n for n in options if getattr(typed.get_parameter_source(n), "name", "") == "COMMANDLINE"]
    run(options, written)


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
    bandwidth: Annotated[str, typer.Option(help="'n_columns', 'maxvar' or a number.")] = "n_columns",
    contrast: Annotated[str, typer.Option(help="'factor' or 'dummy': what the effect of a level sets.")] = "factor",
    missing: Annotated[str, typer.Option(help="'error' or 'drop': rows with missing values.")] = "error",
    loss: Annotated[str, typer.Option(help="'squared', or 'logistic' for outcomes of 0 and 1.")] = "squared",
    out: Annotated[Path | None, typer.Option(help="Folder for the effects, the model and a report.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write report.html; a folder has it anyway.")] = False,
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
            report=report,
        ),
        as_json,
    )


@app.command()
def impute(
    people: Annotated[
        Path, typer.Argument(help="People: Parquet, CSV or Arrow file, a folder or a quoted glob of files.")
    ],
    means: Annotated[Path, typer.Argument(help="The published means, a row for each group.")],
    partition: Annotated[str, typer.Option(help="Column of both files that names the group.")],
    hidden: Annotated[
        list[str], typer.Option("--impute", help="Column of means: the mean of a hidden feature; repeat.")
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option(help="A column known of each person; repeat. All but the group, weight and hidden if left out."),
    ] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="A column of numbers that are codes; repeat.")] = None,
    number: Annotated[
        list[str] | None,
        typer.Option(help="A hidden feature that is a number and not yes or no; 'name=sd' if known; repeat."),
    ] = None,
    se: Annotated[
        list[str] | None, typer.Option(help="'feature=column': standard errors of its means; repeat.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Means to print: 'age', or a crossing 'age*sex'; repeat.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Use these people only, for example 'age >= 18'.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of survey weights.")] = None,
    method: Annotated[
        str | None, typer.Option(help="'individual' (the default), or 'cudia': clusters of people.")
    ] = None,
    k: Annotated[str | None, typer.Option("--k", help="Number of clusters, or 'auto'; means --method cudia.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Of cudia: 'mcem' (the default), 'map', 'gibbs', 'hard' or 'two_stage'.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="'error', or 'mean': people with a missing value are average in it.")
    ] = None,
    m: Annotated[int, typer.Option("--m", help="Completed data sets to write; 0 for none.")] = 20,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the imputed columns, the tables and the model.")] = None,
    report: Page = False,
    as_json: Json = False,
) -> None:
    """Give each person's hidden value, when only its mean in groups was published."""
    options = {name: value for name, value in locals().items() if name != "as_json"}
    from crosslevel.cli.impute import Settings, run

    lists = ("columns", "categorical", "number", "se", "by")
    run(Settings(**{**options, **{name: options[name] or [] for name in lists}}), as_json)


@app.command()
def distribution(
    members: Annotated[Path, typer.Argument(help="Members, a row each: Parquet, CSV or Arrow file, folder or glob.")],
    labels: Annotated[Path, typer.Argument(help="Labels, a row for each group: CSV, Parquet or Arrow file.")],
    by: Annotated[str, typer.Option(help="Column of both files that names the group.")],
    label: Annotated[str, typer.Option(help="Column of the labels: a number, or with --classify a class.")],
    columns: Annotated[
        list[str] | None, typer.Option(help="A feature of members; repeat. All but by and weight if left out.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of members: survey weights.")] = None,
    model: Annotated[
        str,
        typer.Option(
            help="'mean_shrinkage', 'bayesian_linear', 'rbf_network', 'frequentist_shrinkage' or 'full_bayes' (sampled)."
        ),
    ] = "mean_shrinkage",
    classify: Annotated[bool, typer.Option("--classify", help="The label is a class.")] = False,
    landmarks: Annotated[int | None, typer.Option(help="Number of landmarks; chosen if left out.")] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    predict: Annotated[
        Path | None, typer.Option(help="Members of new groups, whose labels are to be predicted.")
    ] = None,
    unmatched: Annotated[str, typer.Option(help="'error' or 'drop': groups of one file only.")] = "error",
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for scores, predictions, the model and a report.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write report.html; a folder has it anyway.")] = False,
    as_json: Json = False,
) -> None:
    """Learn the labels of groups from their members, and say how well groups are predicted from other groups."""
    options = {name: value for name, value in locals().items() if name != "as_json"}
    from crosslevel.cli.distribution import Settings, run

    run(Settings(**{**options, "columns": columns or []}), as_json)


app.command()(binned)
