"""``crosslevel rpv``: precincts in, a study of racially polarized voting over all contests out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crosslevel.cli.job import FILE_HELP, INPUT, OUTPUT, Job, quiet
from crosslevel.cli.options import Given, Option, from_signature
from crosslevel.cli.table import COLUMNS, GROUPS_HELP, named_columns, read_counts
from crosslevel.ecological import PolarizationStudy, rpv
from crosslevel.ecological.court.rpv import METHODS, NAMED
from crosslevel.ecological.tables.counts import Counts
from crosslevel.errors import FileError, InputError, unknown_name
from crosslevel.results import Estimates

EXAMPLES = (
    "crosslevel rpv precincts.csv --unit county --unit precinct --group Black=vap_black --group white=vap_white --total-groups vap "
    "--contest 'Governor 2018: Abrams=gov18_d, Kemp=gov18_r, total=gov18' --repair excess=raise --out run/ --report",
    "crosslevel rpv precincts.parquet --unit GEOID20 --group Black --group white --contests contests.json --methods goodman --methods rxc",
)
CONTEST_HELP = "'NAME: CANDIDATE=COLUMN, CANDIDATE=COLUMN, total=COLUMN' (total: all votes); repeat."
FILE_OF_CONTESTS = 'JSON file of contests: {"NAME": {"CANDIDATE": "COLUMN", "total": "COLUMN"}}.'
OPTIONS = [
    Option("table", "file", f"Counts, a row for each precinct: {FILE_HELP}", required=True, argument=True),
    Option("groups", help=GROUPS_HELP, several=True, required=True, panel="Counts"),
    *from_signature(Counts, "Counts", skip=("data", "groups", "outcomes"), kinds={"repair": "pairs"}, columns=COLUMNS),
    Option("contest", help=CONTEST_HELP, several=True, panel="Data"),
    Option("contests", "file", FILE_OF_CONTESTS, panel="Data", excludes=("contest",)),
    Option("methods", help=f"A method; repeat. One of {', '.join(NAMED)}. Default: the first {len(METHODS)}.", several=True, panel="Study"),
    Option(
        "district", help="Column of proposed districts.", panel="Districts", column_of="table", needs=("district_group", "unit")
    ),
    Option("district_group", help="Group whose candidates are asked for in the districts.", panel="Districts", needs=("district",)),
    *from_signature(rpv, "Study", skip=("counts", "contests", "methods", "progress")),
    *INPUT,
    *OUTPUT,
    Option("exhibit", "switch", "Write exhibit.html and exhibit.docx into the folder.", panel="Output", needs=("out",)),
    Option("bundle", "file", "New folder for the exhibit, exact results, hashes, settings and versions; report --reproduce checks it.",
           panel="Output"),
]  # fmt: skip


def run(given: Given, job: Job) -> None:
    """Study every contest, write what was asked for, print the findings."""
    study, answers = study_of(given, job)
    write(study, answers, job, given)


def study_of(given: Given, job: Job) -> tuple[PolarizationStudy, dict[str, Estimates]]:
    """Read the precincts, study every contest; nothing is written."""
    contests = _contests(given)
    with quiet():
        data = job.read("table")
        job.check_columns(table=data.column_names)
        counts = read_counts(data, given.of("Counts"))
    job.folder()
    with job.progress("rpv", "fits") as advance, quiet():
        study = rpv(counts, contests, **given.of("Study"), progress=advance)
    answers = {"summary": study.summary, "tally": study.tally, "comparison": study.comparison}
    if "district" in given:
        answers["districts"] = study.performance(_districts(counts, given["district"]), given["district_group"])
    return study, answers


def beside_study(answers: dict[str, Estimates]) -> dict[str, Estimates]:
    """Give the tables that an exhibit has beside its study, by heading."""
    return {"Proposed districts": answers["districts"]} if "districts" in answers else {}


def _districts(counts: Counts, column: str) -> dict[str, list[object]]:
    """Give the precincts of each proposed district; those without one belong to none."""
    found: dict[str, list[object]] = {}
    for name, district in zip(counts.names, counts.table[column].to_pylist(), strict=True):
        if district is not None and district == district and district != "":  # None, not a number, or empty
            found.setdefault(str(district), []).append(name)
    return found


def write(study: PolarizationStudy, answers: dict[str, Estimates], job: Job, given: Given) -> None:
    """Write the study and its tables, and print the findings."""
    job.keep("study", study, "study.crosslevel")
    pages = {**answers, **{f"turnout, {n}": c.turnout for n, c in study.contests.items() if c.turnout is not None}}
    job.write_answers(answers, pages=pages, title=f"Racially polarized voting: {given['table'].name}")
    write_exhibit(study, answers, job, given)
    said = [study.lead_reason, *study.data_notes, *study.warnings]
    findings = (*study.sentences(), *(answers["districts"].diagnostics["findings"] if "districts" in answers else ()))
    job.print(
        answers,
        fit={"contests": len(study.contests), "methods": len(study.methods), "leading method": study.lead},
        warnings=said,
        text="\n".join(f"{i}. {text}" for i, text in enumerate(findings, 1)),
        findings=list(findings),
    )


def write_exhibit(study: PolarizationStudy, answers: dict[str, Estimates], job: Job, given: Given) -> None:
    """Write the exhibit in every format, and the sealed folder, where they are asked for."""
    if "exhibit" not in given and "bundle" not in given:
        return
    from crosslevel.reports import Exhibit, report
    from crosslevel.reports.sealed import seal, write_formats

    with quiet(), job.console.status("Writing the exhibit ..."):
        more = beside_study(answers)
        made = report(
            [study, *more.items()], title=f"Racially polarized voting: {given['table'].name}", template="exhibit"
        )
        assert isinstance(made, Exhibit)
        if "exhibit" in given and job.out is not None:
            job.files |= {name: str(path) for name, path in write_formats(made, job.out).items()}
        if "bundle" in given:
            again = job.command(("out", "report", "as_json", "exhibit", "bundle"))
            seal(made, study, more, given["bundle"], job.inputs(("out", "bundle")), again)
            job.files["bundle"] = str(given["bundle"])


def _contests(given: Given) -> dict[str, Any]:
    """Read the contests, written out or in a file: candidates by contest."""
    if "contests" in given:
        found = _read_file(given["contests"])
    else:
        found = {}
        for text in given.get("contest", ()):
            name, mark, rest = text.partition(":")
            if not mark or not name.strip():
                raise InputError(
                    f"--contest {text!r} is not 'NAME: CANDIDATE=COLUMN, ...'; write the name and ':' first."
                )
            parts = [part.strip() for part in rest.split(",") if part.strip()]
            if name.strip() in found:
                raise InputError(f"--contest names {name.strip()!r} twice; name each contest once.")
            found[name.strip()] = named_columns(parts, "--contest")
    if not found:
        raise InputError("no contest is named; pass --contest 'NAME: CANDIDATE=COLUMN, ...' or --contests FILE.")
    return found


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Read an object of JSON, of whose equal names the last would silently win."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise KeyError(name)
        found[name] = value
    return found


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        raise FileError(f"--contests {path} does not exist; name a JSON file.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise FileError(f"--contests {path} is not JSON ({error}).") from error
    except KeyError as again:
        raise FileError(
            f"--contests {path} names {again} twice in one place; name each contest and candidate once."
        ) from None
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise FileError(f'--contests {path} is not {{"NAME": {{"CANDIDATE": "COLUMN"}}}}; correct it.')
    for name, columns in found.items():
        for candidate, column in columns.items():
            if not (isinstance(column, str) or (isinstance(column, list) and all(isinstance(c, str) for c in column))):
                raise unknown_name(f"--contests {path}: {name}", candidate, list(columns), "candidate with a column")
    return found
