"""``crosslevel report``: saved estimates to one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from crosslevel.errors import FileError, InputError
from crosslevel.explorer import report
from crosslevel.results import Estimates, load

__all__ = ["read_estimates", "run"]


def read_estimates(path: Path) -> Estimates:
    """Read estimates from a saved file or from JSON."""
    if path.suffix.casefold() == ".json":
        if not path.is_file():
            raise FileError(f"{path} does not exist; name a file of saved estimates.")
        try:
            return Estimates.from_json(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise FileError(f"{path} is not JSON text ({error.reason}); name a file of saved estimates.") from error
    found = load(path)
    if not isinstance(found, Estimates):
        raise InputError(
            f"{path} holds a {type(found).__name__}; a report needs Estimates. Save the result of its estimate()."
        )
    return found


def run(results: Path, out: Path, title: str | None, as_json: bool) -> None:
    """Write the page and say where."""
    report(read_estimates(results), out, title=title)
    print(json.dumps({"report": str(out)}) if as_json else f"Report: {out}")
