"""What ``crosslevel binned`` may be told; the work is in `crosslevel.cli.binned`, loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["binned"]

BINS = "Bins of one axis"
AREAS = "Areas"


def binned(
    data: Annotated[Path | None, typer.Argument(help="Bins, a row each: Parquet, CSV or Arrow file.")] = None,
    lower: Annotated[str | None, typer.Option(help="Column of lower limits.", rich_help_panel=BINS)] = None,
    upper: Annotated[
        str | None, typer.Option(help="Column of upper limits; ages 0 to 9 are 0 and 10.", rich_help_panel=BINS)
    ] = None,
    total: Annotated[str | None, typer.Option(help="Column of counts or totals.", rich_help_panel=BINS)] = None,
    mean: Annotated[str | None, typer.Option(help="Column of means, in place of totals.", rich_help_panel=BINS)] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Column of the numbers behind each mean.", rich_help_panel=BINS)
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="A new bin, such as 18-25 (up to 25), -5:5 or 85+; repeat.", rich_help_panel=BINS),
    ] = None,
    at_file: Annotated[
        Path | None, typer.Option(help="Table of new bins, with the same columns of limits.", rich_help_panel=BINS)
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Column of areas that share a curve.", rich_help_panel=BINS)] = None,
    trials: Annotated[
        str | None, typer.Option(help="Column: of how many the totals are.", rich_help_panel=BINS)
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Column of people at risk; ask for --quantity rate.", rich_help_panel=BINS)
    ] = None,
    tail: Annotated[
        float | None, typer.Option(help="Mean excess of an open last bin over its limit.", rich_help_panel=BINS)
    ] = None,
    cell: Annotated[float | None, typer.Option(help="Width of the cells of counts.", rich_help_panel=BINS)] = None,
    polygons: Annotated[
        Path | None, typer.Option(help="GeoJSON of areas, in place of bins.", rich_help_panel=AREAS)
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="Property of the areas: the number known.", rich_help_panel=AREAS)
    ] = None,
    to: Annotated[Path | None, typer.Option(help="GeoJSON of the areas asked for.", rich_help_panel=AREAS)] = None,
    key: Annotated[str | None, typer.Option(help="Property that names an area.", rich_help_panel=AREAS)] = None,
    to_key: Annotated[
        str | None, typer.Option(help="The same in --to, where it differs.", rich_help_panel=AREAS)
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="Property of --to: its people; counts are shared out.", rich_help_panel=AREAS)
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(help="'gaussian', 'poisson', 'negative_binomial' or 'binomial'; 'poisson' for totals of bins."),
    ] = None,
    kernel: Annotated[str, typer.Option(help="'auto', or names such as 'matern32'.")] = "auto",
    quantity: Annotated[str | None, typer.Option(help="What to predict: 'total', 'mean', 'rate' or 'count'.")] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the estimates and the model.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write report.html into the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Say how many lie in new bins or areas, from the totals of others."""
    options = {name: value for name, value in locals().items() if name != "as_json"}
    from crosslevel.cli.binned import Settings, run

    run(Settings(**{**options, "at": at or []}), as_json)
