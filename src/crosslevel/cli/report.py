"""``crosslevel report``: saved estimates and models to one HTML page, or a folder of pages shown on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslevel.errors import FileError, InputError
from crosslevel.reports import report
from crosslevel.results import Estimates, load

__all__ = ["named_results", "read_map", "read_result", "run"]


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


def named_results(paths: Sequence[Path]) -> dict[str, Any]:
    """Read results and give each a heading: its title or kind, with the file's name where two are alike."""
    found = [(path, read_result(path)) for path in paths]
    heads = [_heading(result) for _, result in found]
    out: dict[str, Any] = {}
    for (path, result), head in zip(found, heads, strict=True):
        name = head if heads.count(head) == 1 else f"{head} ({path.stem})"
        while name in out:
            name = f"{name}, again"
        if type(result).__name__ == "MeanEmbedding":
            raise InputError(
                f"{path} holds a MeanEmbedding, which turns people into vectors and has no page; name the embeddings it made, or "
                "estimates."
            )
        out[name] = result
    return out


def _heading(result: Any) -> str:
    return (result.title or result.method) if isinstance(result, Estimates) else type(result).__name__


def read_map(path: Path, option: str = "--map") -> dict[str, Any]:
    """Read a map: GeoJSON or TopoJSON."""
    if not path.is_file():
        raise FileError(f"{option} {path} does not exist; name a GeoJSON or TopoJSON file.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{option} {path} is not JSON ({error}); name a GeoJSON or TopoJSON file.") from error
    if not isinstance(found, dict) or not (found.get("features") or found.get("objects")):
        raise FileError(
            f"{option} {path} is neither a GeoJSON FeatureCollection nor TopoJSON; name a map of the places."
        )
    return found


def run(
    results: Sequence[Path],
    out: Path | None,
    title: str | None,
    places: Path | None,
    serve: Path | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Write the page and say where; or show a folder of pages until Ctrl-C."""
    if serve is not None:
        if results or out is not None or title is not None or places is not None:
            raise InputError("--serve shows the pages of a folder; write pages first, without it.")
        from crosslevel.cli.serving import DEFAULT_PORT, serve_folder

        serve_folder(serve, DEFAULT_PORT if port is None else port, as_json)
        return
    if port is not None:
        raise InputError("--port belongs to --serve, which is missing.")
    if not results:
        raise InputError("name at least one file of saved results, or --serve a folder of reports.")
    out = Path("report.html") if out is None else out
    polygons = None if places is None else read_map(places)
    report(named_results(results), out, title=title, polygons=polygons)
    print(json.dumps({"report": str(out)}) if as_json else f"Report: {out}")
