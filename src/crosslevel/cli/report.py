"""``crosslevel report``: saved estimates and models to one HTML page, or a folder of pages shown on this machine."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslevel.cli.job import OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option
from crosslevel.data.codebook import KINDS, read_labels
from crosslevel.errors import FileError, InputError
from crosslevel.reports import report
from crosslevel.results import Estimates, load

__all__ = ["EXAMPLES", "OPTIONS", "named_results", "read_result", "run"]

EXAMPLES = (
    "crosslevel report run/sex-by-region.crosslevel --out report.html --map regions.geojson --title 'Men and women'",
    "crosslevel report --serve reports/ --port 8350",
)
PAGE = ("results", "out", "title", "map", "labels")
OPTIONS = [
    Option("results", "file", "Estimates (.crosslevel or .json) and models saved by crosslevel.", True, argument=True),
    Option("out", "file", "The HTML file to write; default: report.html."),
    Option("title", help="Heading of the page."),
    Option("map", "file", "GeoJSON or TopoJSON of the places."),
    Option(
        "labels",
        "file",
        'Labels for codes: JSON, {"eth5": {"1": "white"}}; a table with columns variable, code and label; or an SPSS or Stata file.',
    ),
    Option("serve", "file", "Show the reports of this folder in a browser on this machine.", excludes=PAGE),
    Option(
        "reproduce",
        "file",
        "A folder that --bundle wrote: make its results again and compare every byte.",
        excludes=(*PAGE, "serve"),
    ),
    Option("port", "whole", "Port of --serve; 0 takes any free port.", needs=("serve",)),
    *(option for option in OUTPUT if option.name == "as_json"),
]


def run(given: Given, job: Job) -> None:
    """Write the page and say where; or show a folder of pages until Ctrl-C."""
    results, page = given.get("results", ()), given.get("out", Path("report.html"))
    if "serve" in given:
        from crosslevel.cli.serving import DEFAULT_PORT, serve_folder

        serve_folder(given["serve"], given.get("port", DEFAULT_PORT), job.as_json)
        return
    if "reproduce" in given:
        _reproduce(given["reproduce"], job)
        return
    if not results:
        raise InputError("name at least one file of saved results, or --serve a folder of reports.")
    polygons = job.read_map("map") if "map" in given else None
    with quiet():
        labels = _labels(given["labels"], job) if "labels" in given else None
        report(named_results(results), page, title=given.get("title"), polygons=polygons, labels=labels)
    print(json.dumps({"report": str(page)}) if job.as_json else f"Report: {page}")


def _reproduce(folder: Path, job: Job) -> None:
    """Run a sealed folder's command on the same inputs, and compare the bytes of all results."""
    from crosslevel.cli.app import run as run_verb
    from crosslevel.reports.sealed import RESULTS, changed_inputs, read_command

    command, changed = read_command(folder), changed_inputs(folder)
    if changed:
        raise FileError(
            f"--reproduce {folder}: {changed[0]} is missing or is not a file the results were made from; put the inputs back."
        )
    with tempfile.TemporaryDirectory(prefix="crosslevel-") as place, contextlib.redirect_stdout(io.StringIO()):
        run_verb([*command, "--bundle", str(Path(place) / "again")])
        again = Path(place) / "again" / RESULTS
        names = {p.relative_to(root) for root in (folder / RESULTS, again) for p in root.rglob("*.json")}
        differ = sorted(str(n) for n in names if not _same_bytes(folder / RESULTS / n, again / n))
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


def _same_bytes(left: Path, right: Path) -> bool:
    return left.is_file() and right.is_file() and left.read_bytes() == right.read_bytes()


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


def _labels(path: Path, job: Job) -> Any:
    """Read words for codes from JSON, from the labels of a statistics package, or from a codebook."""
    kind = path.suffix.casefold()
    if kind != ".json":
        return read_labels(path if kind in KINDS else job.read("labels"))
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
