"""``crosslevel embed``: people to one vector per bag, in a pass that can be stopped and gone on with."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv

from crosslevel.cli.console import make_folder, people_bar, quietly
from crosslevel.data.atomic import whole_file
from crosslevel.data.batches import Batches, open_batches
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelError, InputError
from crosslevel.results import load, save

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Settings", "parse_subgroups", "run"]

ANSWER, MODEL, BAGS = "embeddings.crosslevel", "embedding.crosslevel", "bags.csv"
STATE, STARTED, REPORT = "checkpoint.state", "started.json", "report.html"


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    people: Path
    by: list[str]
    weight: str | None
    out: Path
    columns: list[str] | None
    categorical: list[str] | None
    where: str | None
    subgroups: list[str]
    feature_map: str
    n_features: int
    bandwidth: str
    unknown: str
    seed: int
    engine: str
    n_jobs: int | None
    checkpoint: Path | None
    resume: bool
    report: bool = False

    @property
    def state(self) -> Path:
        """The file to go on from."""
        return self.checkpoint or self.out / STATE

    def fingerprint(self, people: Batches) -> dict[str, Any]:
        """Give all that the fitted model depends on, as plain values."""
        left_out = ("out", "checkpoint", "resume", "n_jobs", "engine", "subgroups", "report")
        said = {k: v for k, v in asdict(self).items() if k not in left_out}
        return json.loads(json.dumps({**said, "people": people.stamps()}, default=str))


def parse_subgroups(texts: list[str]) -> dict[str, str]:
    """Read ``name=query`` pairs; the first ``=`` ends the name.

    Examples
    --------
    >>> parse_subgroups(["women over 65=sex == 2 and age >= 65"])
    {'women over 65': 'sex == 2 and age >= 65'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, mark, query = (part.strip() for part in text.partition("="))
        if not mark or not name or not query or query.startswith("="):
            raise InputError(f"--subgroup {text!r} is not name=query; write for example --subgroup 'women=sex == 2'.")
        if name in found:
            raise InputError(f"--subgroup names {name!r} twice; give each subgroup its own name.")
        found[name] = query
    return found


def run(settings: Settings, as_json: bool) -> None:
    """Learn, embed, write the answer, say what was found."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    subgroups = parse_subgroups(settings.subgroups)
    people = open_batches(settings.people)
    make_folder(settings.out)
    if not settings.resume:
        settings.state.unlink(missing_ok=True)
    began = time.monotonic()
    fitted = _fitted(settings, people, console)
    where = settings.where
    console.print(f"Expected: {fitted.cost(people, where=where, subgroups=subgroups)}")
    try:
        with people_bar(console, "Embedding") as progress:
            found = quietly(
                lambda: fitted.transform(
                    people, where=where, subgroups=subgroups, checkpoint=settings.state, progress=progress
                )
            )
    except KeyboardInterrupt:
        console.print(f"Stopped. Run the same command again to go on ({settings.state}).")
        raise
    _write(found, settings.out)
    if settings.report:
        _write_page(found, settings)
    (settings.out / STARTED).unlink(missing_ok=True)
    notes = [*fitted.warnings_, *found.warnings]
    for note in notes:
        console.print(f"Note: {note}", markup=False)
    _say(fitted, found, settings, notes, time.monotonic() - began, as_json)


def _fitted(settings: Settings, people: Batches, console: Console) -> MeanEmbedding:
    """Learn the encoding, or take the one that a stopped run of the same command has learnt."""
    started, model = settings.out / STARTED, settings.out / MODEL
    asked = settings.fingerprint(people)
    if settings.resume and settings.state.exists() and _read(started) == asked:
        try:
            fitted: MeanEmbedding = load(model)
        except CrosslevelError:
            pass
        else:
            console.print(f"Going on from {settings.state}.")
            fitted.set_params(engine=settings.engine, n_jobs=settings.n_jobs)
            return fitted
    embedding = MeanEmbedding(
        settings.n_features,
        settings.feature_map,
        settings.bandwidth if settings.bandwidth == "median" else _number(settings.bandwidth),
        categorical=settings.categorical,
        unknown=settings.unknown,
        random_state=settings.seed,
        engine=settings.engine,
        n_jobs=settings.n_jobs,
    )
    with people_bar(console, "Learning levels and scales") as progress:
        fitted = quietly(
            lambda: embedding.fit(
                people,
                by=settings.by,
                columns=settings.columns,
                weight=settings.weight,
                where=settings.where,
                progress=progress,
            )
        )
    save(fitted, model)
    with whole_file(started) as beside:
        beside.write_text(json.dumps(asked), encoding="utf-8")
    return fitted


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--bandwidth {text!r} is neither 'median' nor a number.") from None


def _write(found: Embeddings, out: Path) -> None:
    save(found, out / ANSWER)
    with whole_file(out / BAGS) as beside:
        pacsv.write_csv(_bags(found), beside)


def _bags(found: Embeddings) -> pa.Table:
    sizes = {"weight": found.weight, "n_rows": found.n_rows, "effective_size": found.effective_size}
    return pa.table({**{n: found.key_table[n] for n in found.key_table.column_names}, **sizes})


def _write_page(found: Embeddings, s: Settings) -> None:
    """Write the page of the bags; what draws it is loaded only when it is asked for."""
    from crosslevel.reports import report

    report({f"Bags by {', '.join(s.by)}": found}, s.out / REPORT)


def _say(
    fitted: MeanEmbedding, found: Embeddings, s: Settings, notes: list[str], seconds: float, as_json: bool
) -> None:
    out = s.out
    files = {"embeddings": str(out / ANSWER), "model": str(out / MODEL), "bags": str(out / BAGS)}
    files |= {"report": str(out / REPORT)} if s.report else {}
    facts: Mapping[str, Any] = {
        "bags": len(found),
        "keys": found.key_table.column_names,
        "people": int(fitted.n_rows_),
        "columns": len(fitted.columns_),
        "encoded_columns": fitted.n_inputs_,
        "features": found.shape[1],
        "map": fitted.feature_map,
        "bandwidth": None if fitted.feature_map == "linear" else fitted.bandwidth_,
        "seconds": round(seconds, 3),
        "warnings": notes,
        "files": files,
    }
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    width = "" if facts["bandwidth"] is None else f", bandwidth {facts['bandwidth']:.4g}"
    print(f"{facts['people']:,} people in {len(found):,} bags by {', '.join(facts['keys'])}")
    print(
        f"{facts['columns']:,} columns, {facts['encoded_columns']:,} encoded, {facts['features']:,} features ({fitted.feature_map}{width})"
    )
    print(
        f"effective people per bag: {found.effective_size.min():,.0f} to {found.effective_size.max():,.0f}; "
        f"{seconds:,.1f} s"
    )
    for name, path in files.items():
        print(f"{name:<11} {path}")
