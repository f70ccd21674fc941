"""A sealed folder: the exhibit in every format, exact results, hashes of the inputs, settings, versions, and what makes it again."""

from __future__ import annotations

import datetime
import glob
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

from crosslevel.ecological.court.study import PolarizationStudy
from crosslevel.errors import FileError, MissingExtraError
from crosslevel.reports.methods import SOFTWARE
from crosslevel.results import Estimates
from crosslevel.results.provenance import installed_version
from crosslevel.results.wide import Wide, latex_table, write_text

if TYPE_CHECKING:
    from crosslevel.reports.report import Exhibit

RESULTS, MANIFEST, COMMAND, INPUTS, CRATE = (
    "results",
    "manifest-sha256.txt",
    "command.json",
    "inputs.json",
    "ro-crate-metadata.json",
)
FORMATS = {
    ".html": "text/html",
    ".json": "application/json",
    ".tex": "application/x-tex",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
}
FORMATS[".docx"] = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def seal(
    exhibit: Exhibit,
    study: PolarizationStudy | None,
    tables: Mapping[str, Sequence[Estimates]],
    folder: str | os.PathLike[str],
    inputs: Sequence[str | os.PathLike[str]] = (),
    command: Sequence[str] = (),
) -> Path:
    """Write the folder; its results are the same bytes whenever the same call is made again.

    Parameters
    ----------
    exhibit : Exhibit
    study : PolarizationStudy, optional
    tables : mapping of heading to its tables
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
    hashed = [
        {"path": str(p), "sha256": _sha256(p), "bytes": p.stat().st_size}
        | ({} if Path(given) == p else {"of": str(given)})  # what stands in a folder, or fits a pattern
        for given in inputs
        for p in _files(given)
    ]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"bundle {out} cannot be made ({error.strerror}); name a folder you may write to.") from error
    write_formats(exhibit, out)
    found = dict(_results(study, tables))
    for name, estimates in found.items():
        path = out / RESULTS / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(replace(estimates, diagnostics=_timeless(estimates.diagnostics)).to_json(draws=False), path)
    first = next(iter(found.values()))
    settings = {} if study is None else study.settings
    calls = {name: e.provenance.as_dict() for name, e in found.items()}
    _write_json({"settings": settings, "seed": first.provenance.seed, "provenance": calls}, out / "settings.json")
    _write_json(_versions(), out / "versions.json")
    _write_json(hashed, out / INPUTS)
    _write_json(list(command), out / COMMAND)
    write_text(_readme(exhibit.page["title"], hashed, command), out / "README.txt")
    parts = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    _write_json(_crate(exhibit.page["title"], out, parts, hashed, command), out / CRATE)
    lines = [f"{_sha256(out / name)}  {name}\n" for name in sorted([*parts, CRATE])]
    write_text("".join(lines), out / MANIFEST)
    return out


def write_formats(exhibit: Exhibit, folder: Path) -> dict[str, Path]:
    """Write the exhibit as a page, for LaTeX and, where the extra is there, for Word; and its tables alone."""
    made = {
        "exhibit": exhibit.save(folder / "exhibit.html"),
        "exhibit (LaTeX)": exhibit.to_latex(folder / "exhibit.tex"),
    }
    tables = [latex_table(b) for b in exhibit.document.blocks if isinstance(b, Wide)]
    write_text("\n".join(tables), folder / "tables.tex")
    made["tables (LaTeX)"] = folder / "tables.tex"
    with suppress(MissingExtraError):  # the folder is whole without it, and the list of files says what is there
        made["exhibit (Word)"] = exhibit.to_docx(folder / "exhibit.docx")
    return made


def read_command(folder: Path) -> list[str]:
    """Read the arguments that make a sealed folder's results again; refuse a folder that was changed since."""
    changed = changed_files(folder)
    if changed:
        raise FileError(
            f"{folder} was changed since it was sealed ({', '.join(changed[:3])}); use the folder as it was written."
        )
    found = json.loads((folder / COMMAND).read_text(encoding="utf-8"))
    if not found:
        raise FileError(f"{folder} was not made by the command line; its settings.json has the calls.")
    return [str(word) for word in found]


def changed_files(folder: Path) -> list[str]:
    """Name the files of a sealed folder that are missing or differ from its manifest."""
    path = folder / MANIFEST
    if not path.is_file():
        raise FileError(f"{folder} has no {MANIFEST}; name a folder that --bundle wrote.")
    rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [name for digest, name in rows if not (folder / name).is_file() or _sha256(folder / name) != digest]


def changed_inputs(folder: Path) -> list[str]:
    """Name the inputs of a sealed folder that are missing, differ from those it was made from, or were added to a folder of them."""
    rows = json.loads((folder / INPUTS).read_text(encoding="utf-8"))
    differ = [r["path"] for r in rows if not Path(r["path"]).is_file() or _sha256(Path(r["path"])) != r["sha256"]]
    known, sealed = {r["path"] for r in rows}, folder.resolve()
    for given in dict.fromkeys(r["of"] for r in rows if "of" in r):
        here = _files(given) if Path(given).is_dir() or glob.glob(given) else []  # noqa: PTH207 a pattern may be absolute
        differ += [str(p) for p in here if str(p) not in known and sealed not in p.resolve().parents]
    return differ


def _files(given: str | os.PathLike[str]) -> list[Path]:
    """List the files of an input: itself, those in a folder, or those of a glob."""
    path = Path(given)
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file())
    found = [path] if path.is_file() else sorted(map(Path, glob.glob(str(given))))  # noqa: PTH207 a pattern may be absolute
    if not found:
        raise FileError(
            f"inputs has {str(given)!r}, which does not exist; name the files that the results were made from."
        )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _results(
    study: PolarizationStudy | None, tables: Mapping[str, Sequence[Estimates]]
) -> Iterator[tuple[str, Estimates]]:
    """Name every table of the results by the file it goes into."""
    for i, (heading, parts) in enumerate(tables.items(), 1):
        first = f"{i:02d}-" if study is None else ""
        yield from ((f"{first}{_stem(heading)}-{k}", part) for k, part in enumerate(parts, 1))
    if study is None:
        return
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
    lines = [title, "", "exhibit.html, exhibit.docx, exhibit.tex: the document. tables.tex: its tables alone.",
             "results/: every table to the last bit. inputs.json: hashes of the data. settings.json, versions.json: how it was made.",
             f"{MANIFEST}: hashes of all files here (sha256sum -c {MANIFEST}). {CRATE}: the same for machines (RO-Crate).", ""]  # fmt: skip
    lines += [f"Input: {i['path']} sha256:{i['sha256']}" for i in inputs]
    if command:
        lines += ["", "To make every number again and compare it bit for bit, with the inputs at their paths:",
                  "    crosslevel report --reproduce THIS_FOLDER", "which runs", f"    crosslevel {shlex.join(command)}"]  # fmt: skip
    else:
        lines += [
            "",
            "To make every number again: the calls in settings.json, in Python, with the versions in versions.json.",
        ]
    return "\n".join(lines) + "\n"


def _crate(
    title: str, folder: Path, parts: Sequence[str], inputs: Sequence[Mapping[str, Any]], command: Sequence[str]
) -> dict[str, Any]:
    """Describe the folder as an RO-Crate 1.1."""
    files = [
        {
            "@id": name,
            "@type": "File",
            "name": name,
            "contentSize": str((folder / name).stat().st_size),
            "sha256": _sha256(folder / name),
            "encodingFormat": FORMATS.get(Path(name).suffix, "application/octet-stream"),
        }
        for name in parts
    ]
    data = [{"@id": f"#input-{i}", "@type": "File", "name": row["path"], "contentSize": str(row["bytes"]), "sha256": row["sha256"]}
            for i, row in enumerate(inputs, 1)]  # fmt: skip
    refer = [{"@id": f["@id"]} for f in files]
    software = {
        "@id": "#crosslevel",
        "@type": "SoftwareApplication",
        "name": "crosslevel",
        "version": installed_version(),
    }
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": shlex.join(["crosslevel", *command]) if command else "crosslevel, called from Python",
        "instrument": {"@id": "#crosslevel"},
        "object": [{"@id": d["@id"]} for d in data],
        "result": refer,
    }
    root = {"@id": "./", "@type": "Dataset", "name": title, "description": f"{title}: exhibit, exact results and what makes them again.",
            "datePublished": datetime.datetime.now(datetime.UTC).date().isoformat(), "license": "not stated",
            "hasPart": refer, "mentions": {"@id": "#run"}}  # fmt: skip
    about = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    return {
        "@context": "https://w3id.org/ro/crate/1.1/context",
        "@graph": [about, root, *files, *data, software, action],
    }


def _write_json(value: Any, path: Path) -> None:
    write_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n", path)
