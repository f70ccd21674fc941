"""``crosslevel report``: saved estimates and models to one HTML page; a sealed folder computed again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslevel.cli import rpv
from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, read, spelled
from crosslevel.errors import FileError, InputError
from crosslevel.reports import report
from crosslevel.reports.sealed import changed_input, read_command, result_texts, sealed_inputs, sealed_results
from crosslevel.results import Estimates, load

EXAMPLES = (
    "crosslevel report run/sex-by-region.crosslevel --out report.html --map regions.geojson --title 'Men and women'",
    "crosslevel report --reproduce sealed/",
)
PAGE = ("results", "out", "title", "map", "labels")
OPTIONS = [
    Option("results", "file", "Estimates (.crosslevel or .json) and models saved by crosslevel.", True, argument=True),
    Option("out", "file", "The HTML file to write; default: report.html."),
    Option("title", help="Heading of the page."),
    Option("map", "file", "GeoJSON or TopoJSON of the places."),
    Option("labels", "file", 'Words for codes, JSON: {"eth5": {"1": "white"}}.'),
    Option(
        "reproduce",
        "file",
        "A folder that rpv --bundle wrote: compute its results again and compare every byte; nothing is written.",
        excludes=PAGE,
    ),
    *(option for option in OUTPUT if option.name == "as_json"),
]


def run(given: Given, job: Job) -> None:
    """Write the page and say where; or compute a sealed folder's results again."""
    results, page = given.get("results", ()), given.get("out", Path("report.html"))
    if "reproduce" in given:
        _reproduce(given["reproduce"], job)
        return
    if not results:
        raise InputError("name at least one file of saved results, or --reproduce a sealed folder.")
    polygons = job.read_map("map") if "map" in given else None
    with quiet():
        labels = _labels(given["labels"]) if "labels" in given else None
        report(named_results(results), page, title=given.get("title"), polygons=polygons, labels=labels)
    print(json.dumps({"report": str(page)}) if job.as_json else f"Report: {page}")


def _reproduce(folder: Path, job: Job) -> None:
    """Compute a sealed folder's results again from the same inputs, and compare their bytes."""
    command = read_command(folder)
    asked = _sealed_options(folder, command)
    changed = changed_input(folder)
    if changed is not None:
        raise FileError(
            f"--reproduce {folder}: {changed} is missing or is not a file the results were made from; put the inputs back."
        )
    study, answers = rpv.study_of(asked, Job(asked, rpv.OPTIONS, command))
    again = {name: text.encode() for name, text in result_texts(study, rpv.beside_study(answers)).items()}
    kept = sealed_results(folder)
    names = sorted(again.keys() | kept.keys())
    differ = [name for name in names if again.get(name) != kept.get(name)]
    if differ:
        raise FileError(
            f"{len(differ):,} of {len(names):,} results differ from {folder} ({', '.join(differ[:3])}); compare versions.json."
        )
    told = {"reproduced": str(folder), "results": len(names)}
    print(
        json.dumps(told)
        if job.as_json
        else f"Reproduced: {len(names):,} results of {folder} are the same to the last byte."
    )


def _sealed_options(folder: Path, command: Sequence[str]) -> Given:
    """Read the command of a sealed folder, which may be anybody's: it computes with sealed inputs and names no place to write to."""
    from crosslevel.cli.app import parse

    told = parse(command, "rpv", rpv) if command[0] == "rpv" else None
    if not isinstance(told, dict):
        raise FileError(f"{folder} holds a command that is not one of rpv, which alone seals folders; nothing was run.")
    asked = read(rpv.OPTIONS, told)
    inputs = sealed_inputs(folder)
    for option in rpv.OPTIONS:
        if option.name in asked and option.panel == "Output":
            raise FileError(
                f"{folder} holds a command with {spelled(option.name)}, which sealing leaves out; nothing was run."
            )
        if option.name in asked and option.kind == "file" and str(asked[option.name]) not in inputs:
            raise FileError(
                f"{folder} holds a command that reads {asked[option.name]}, which is not among its inputs; nothing was run."
            )
    return asked


def named_results(paths: Sequence[Path]) -> dict[str, Any]:
    """Read results and give each a heading: its title or kind, with the file's name where two are alike."""
    found = [(path, read_result(path)) for path in paths]
    heads = [(r.title or r.method) if isinstance(r, Estimates) else type(r).__name__ for _, r in found]
    out: dict[str, Any] = {}
    for (path, result), head in zip(found, heads, strict=True):
        if type(result).__name__ == "MeanEmbedding":
            raise InputError(
                f"{path} holds a MeanEmbedding, which turns people into vectors and has no page; name the embeddings it made, or "
                "estimates."
            )
        name = head if heads.count(head) == 1 else f"{head} ({path.stem})"
        while name in out:
            name = f"{name}, again"
        out[name] = result
    return out


def _labels(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(
            f"--labels {path} cannot be read as JSON ({error}); name a file with words for codes."
        ) from error


def read_result(path: Path) -> Any:
    """Read a saved result: Estimates, or a fitted model; or Estimates written as JSON."""
    if path.suffix.casefold() != ".json":
        return load(path)
    if not path.is_file():
        raise FileError(f"{path} does not exist; name a file of saved estimates.")
    try:
        return Estimates.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not JSON text ({error.reason}); name a file of saved estimates.") from error
