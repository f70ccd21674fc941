"""A sealed folder: the exhibit, exact results, hashes of the inputs, settings, versions, and what makes it again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosslevel.data.sql import matching
from crosslevel.ecological.court.study import PolarizationStudy
from crosslevel.errors import FileError, MissingExtraError
from crosslevel.reports.methods import SOFTWARE
from crosslevel.results import Estimates
from crosslevel.results.provenance import installed_version
from crosslevel.results.wide import write_text

if TYPE_CHECKING:
    from crosslevel.reports.report import Exhibit

RESULTS, MANIFEST, COMMAND, INPUTS = "results", "manifest-sha256.txt", "command.json", "inputs.json"


def seal(
    exhibit: Exhibit,
    study: PolarizationStudy,
    districts: Mapping[str, Estimates],
    folder: str | os.PathLike[str],
    inputs: Sequence[str | os.PathLike[str]] = (),
    command: Sequence[str] = (),
) -> Path:
    """Write the folder; its results are the same bytes whenever the same call is made again.

    Parameters
    ----------
    exhibit : Exhibit
    study : PolarizationStudy
    districts : mapping of heading to Estimates
    folder : path
        New, or empty.
    inputs : sequence of path
        Files (or folders, or globs of files) that the results were made from; their hashes are kept, not the files.
    command : sequence of str
        Arguments of the command line that makes the results again, less those that name where they go.
    """
    out = Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileError(f"bundle {out} is there already and not an empty folder; name a new one.")
    hashed = [_hashed(path, given) for given in inputs for path in _files(given)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"bundle {out} cannot be made ({error.strerror}); name a folder you may write to.") from error
    write_formats(exhibit, out)
    found = dict(_results(study, districts))
    for name, text in result_texts(study, districts).items():
        path = out / RESULTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(text, path)
    calls = {name: e.provenance.as_dict() for name, e in found.items()}
    seed = study.provenance.seed
    _write_json({"settings": study.settings, "seed": seed, "provenance": calls}, out / "settings.json")
    _write_json(_versions(), out / "versions.json")
    _write_json(hashed, out / INPUTS)
    _write_json(list(command), out / COMMAND)
    write_text(_readme(exhibit.page["title"], hashed, command), out / "README.txt")
    parts = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    write_text("".join(f"{_sha256(out / name)}  {name}\n" for name in parts), out / MANIFEST)
    return out


def write_formats(exhibit: Exhibit, folder: Path) -> dict[str, Path]:
    """Write the exhibit as a page and, where the extra is there, for Word."""
    made = {"exhibit": exhibit.save(folder / "exhibit.html")}
    with suppress(MissingExtraError):  # the folder is whole without it, and the list of files says what is there
        made["exhibit (Word)"] = exhibit.to_docx(folder / "exhibit.docx")
    return made


def result_texts(study: PolarizationStudy, districts: Mapping[str, Estimates]) -> dict[str, str]:
    """Give the exact text of every result by the name of its file, without draws and without seconds."""
    return {
        f"{name}.json": replace(table, diagnostics=_timeless(table.diagnostics)).to_json(draws=False)
        for name, table in _results(study, districts)
    }


def read_command(folder: Path) -> list[str]:
    """Read the arguments that make a sealed folder's results again; refuse a folder that was changed since."""
    changed = changed_files(folder)
    if changed:
        raise FileError(
            f"{folder} was changed since it was sealed ({', '.join(changed[:3])}); use the folder as it was written."
        )
    command = _read_json(folder / COMMAND)
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise FileError(f"{folder / COMMAND} is no list of words; use the folder as it was written.")
    if not command:
        raise FileError(f"{folder} was not made by the command line; its settings.json has the calls.")
    return command


def sealed_results(folder: Path) -> dict[str, bytes]:
    """Read the results of a sealed folder by the names of their files."""
    here = folder / RESULTS
    return {p.relative_to(here).as_posix(): p.read_bytes() for p in here.rglob("*.json") if p.is_file()}


def changed_files(folder: Path) -> list[str]:
    """Name the files of a sealed folder that are missing, differ from its manifest, or are needed and not in it."""
    hashes = _manifest(folder)
    needed = [COMMAND, INPUTS, *(f"{RESULTS}/{name}" for name in sealed_results(folder))]
    differ = [n for n, digest in hashes.items() if not (folder / n).is_file() or _sha256(folder / n) != digest]
    return differ + [name for name in needed if name not in hashes]


def _manifest(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    if not path.is_file():
        raise FileError(f"{folder} has no {MANIFEST}; name a folder that --bundle wrote.")
    try:
        rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        hashes = {name: digest for digest, name in rows}
        inside = all((folder / name).resolve().is_relative_to(folder.resolve()) for name in hashes)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"{path} is damaged ({error}); use the folder as it was written.") from error
    if not inside:
        raise FileError(f"{path} names a file outside the folder; use the folder as it was written.")
    return hashes


def sealed_inputs(folder: Path) -> list[str]:
    """Give the inputs as they were named when the folder was sealed: files, folders of them, or globs."""
    return list(dict.fromkeys(row.get("of", row["path"]) for row in _input_rows(folder)))


def changed_input(folder: Path) -> str | None:
    """Name an input of a sealed folder that is missing, differs from what it was, or was added to a folder of them."""
    rows, sealed = _input_rows(folder), folder.resolve()
    for row in rows:
        path = Path(row["path"])
        if not path.is_file() or _sha256(path) != row["sha256"]:
            return row["path"]
    known = {row["path"] for row in rows}
    for given in dict.fromkeys(row["of"] for row in rows if "of" in row):
        try:
            more = (str(p) for p in _files_of(given) if str(p) not in known and sealed not in p.resolve().parents)
            added = next(more, None)
        except (OSError, RuntimeError) as error:
            raise FileError(f"{given}, of the inputs of {folder}, cannot be listed ({error}).") from error
        if added is not None:
            return added
    return None


def _input_rows(folder: Path) -> list[dict[str, str]]:
    rows = _read_json(folder / INPUTS)
    whole = isinstance(rows, list) and all(
        isinstance(row, dict) and all(isinstance(row.get(key, ""), str) for key in ("path", "sha256", "of"))
        and {"path", "sha256"} <= set(row)
        for row in rows
    )  # fmt: skip
    if not whole:
        raise FileError(f"{folder / INPUTS} is no list of files and hashes; use the folder as it was written.")
    return rows


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} is no JSON ({error}); use the folder as it was written.") from error


def _hashed(path: Path, given: str | os.PathLike[str]) -> dict[str, Any]:
    row = {"path": str(path), "sha256": _sha256(path), "bytes": path.stat().st_size}
    return row if Path(given) == path else {**row, "of": str(given)}  # what stands in a folder, or fits a pattern


def _files_of(given: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the files in a folder, or those of a glob, one by one."""
    path = Path(given)
    if path.is_dir():
        return (p for p in path.rglob("*") if p.is_file())
    return iter(matching(str(path)) or [path] * path.is_file())


def _files(given: str | os.PathLike[str]) -> list[Path]:
    """List the files of an input: itself, those in a folder, or those of a glob."""
    path = Path(given)
    found = [path] if path.is_file() else sorted(_files_of(given))
    if not found and not path.is_dir():
        raise FileError(
            f"inputs has {str(given)!r}, which does not exist; name the files that the results were made from."
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _results(study: PolarizationStudy, districts: Mapping[str, Estimates]) -> Iterator[tuple[str, Estimates]]:
    """Name every table of the results by the file it goes into."""
    yield from (
        (f"districts-{i:02d}-{_stem(heading)}", found) for i, (heading, found) in enumerate(districts.items(), 1)
    )
    yield from (("summary", study.summary), ("tally", study.tally))
    for i, (heading, contest) in enumerate(study.contests.items(), 1):
        here = f"{i:02d}-{_stem(heading)}"
        for kind in ("answers", "voters", "choice"):
            yield from ((f"{here}/{kind}-{_stem(m)}", found) for m, found in getattr(contest, kind).items())
        yield from (
            (f"{here}/polarization-{k:02d}-{_stem(g)}", p) for k, (g, p) in enumerate(contest.polarization.items(), 1)
        )
        yield f"{here}/margin", contest.margin
        if contest.turnout is not None:
            yield f"{here}/turnout", contest.turnout


def _stem(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-")[:40] or "x"


def _timeless(value: Any) -> Any:
    """Leave out how long things took, which no rerun repeats."""
    if isinstance(value, Mapping):
        return {k: _timeless(v) for k, v in value.items() if k != "seconds"}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def _versions() -> dict[str, str]:
    found = {"crosslevel": installed_version(), "python": platform.python_version(), "machine": platform.machine()}
    return found | {name: metadata.version(name) for name in SOFTWARE}


def _readme(title: str, inputs: Sequence[Mapping[str, Any]], command: Sequence[str]) -> str:
    lines = [
        title,
        "",
        "exhibit.html, exhibit.docx: the document. results/: every table to the last bit.",
        "inputs.json: hashes of the data. settings.json, versions.json: how it was made.",
        f"{MANIFEST}: hashes of all files here (sha256sum -c {MANIFEST}).",
        "",
        *(f"Input: {i['path']} sha256:{i['sha256']}" for i in inputs),
        "",
    ]
    if command:
        lines += [
            "To make every number again and compare it bit for bit, with the inputs at their paths:",
            "    crosslevel report --reproduce THIS_FOLDER",
            "which computes again what this command did, and writes nothing:",
            f"    crosslevel {shlex.join(command)}",
        ]
    else:
        lines.append("To make every number again: the calls in settings.json, with the versions in versions.json.")
    return "\n".join(lines) + "\n"


def _write_json(value: Any, path: Path) -> None:
    write_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n", path)
