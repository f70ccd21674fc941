"""``crosslevel embed``: people to one vector per bag, in a pass that can be stopped and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from crosslevel.cli.job import FILE_HELP, OUTPUT, Job
from crosslevel.cli.options import Given, Option, from_signature, read_pairs
from crosslevel.data.atomic import whole_file
from crosslevel.data.people import People
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelError
from crosslevel.results import load

EXAMPLES = (
    "crosslevel embed people.parquet --by region --weight w --out embeddings/",
    "crosslevel embed 'people/*.parquet' --by region --by sex --where 'age >= 18' --subgroup 'old=age >= 65' --categorical occupation",
)
OPTIONS = [
    Option("people", "file", FILE_HELP, required=True, argument=True),
    Option("by", help="Column that names the group; repeat for several.", several=True, required=True),
    Option("subgroup", help="'name=condition', for example 'women=sex = 2'; repeat. All in one pass.", several=True),
    *from_signature(
        People, "People", skip=("by", "data", "cluster"), columns=dict.fromkeys(("weight", "columns"), "people")
    ),
    *from_signature(MeanEmbedding, "Model"),
    Option("checkpoint", "file", "File to resume from. Default: in the output folder.", panel="Output"),
    Option("resume", "flag", "Resume an interrupted pass; --no-resume starts over.", panel="Output"),
    *OUTPUT,
]
ANSWER, MODEL, BAGS, STATE, STARTED = (
    "embeddings.crosslevel", "embedding.crosslevel", "bags.csv", "checkpoint.state", "started.json",
)  # fmt: skip


def run(given: Given, job: Job) -> None:
    """Learn, embed, write the answer, say what was found."""
    subgroups = read_pairs(given.get("subgroup", ()), "--subgroup", "name=condition")
    people = People(job.open("people"), by=given["by"], **given.of("People"))
    job.check_columns(people=people.schema.names)
    job.out = job.out or Path("embeddings")
    out = job.folder() or job.out
    state = given.get("checkpoint", out / STATE)
    if not given.get("resume", True):
        state.unlink(missing_ok=True)
    fitted = _fitted(given, job, people, out, state)
    try:
        with job.progress("Embedding") as bar:
            found = fitted.transform(people, subgroups=subgroups, checkpoint=state, progress=bar)
    except KeyboardInterrupt:
        job.say(f"Stopped. Run the same command again to resume ({state}).")
        raise
    job.keep("embeddings", found, ANSWER)
    job.files["model"] = str(out / MODEL)
    with whole_file(out / BAGS) as beside:
        pacsv.write_csv(_bags(found), beside)
    job.files["bags"] = str(out / BAGS)
    job.write_answers({}, pages={f"Bags by {', '.join(given['by'])}": found})
    (out / STARTED).unlink(missing_ok=True)
    _print(job, fitted, found)


def _fitted(given: Given, job: Job, people: People, out: Path, state: Path) -> MeanEmbedding:
    """Learn the encoding, or take the one that a stopped run of the same command has learned."""
    started, model = out / STARTED, out / MODEL
    files = [(str(path), path.stat().st_mtime_ns) for path in people.table.parts]
    told = {"model": given.of("Model", skip=("engine",)), "people": people.roles(), "files": files}
    asked = json.loads(json.dumps(told, default=str))
    parameters = given.of("Model")
    if given.get("resume", True) and state.exists() and _read(started) == asked:
        try:
            fitted: MeanEmbedding = load(model)
        except CrosslevelError:
            pass
        else:
            job.say(f"Resuming from {state}.")
            return fitted.set_params(engine=parameters.get("engine", "local"))
    with job.progress("Learning levels and scales") as bar:
        fitted = MeanEmbedding(**parameters).fit(people, progress=bar)
    job.keep("model", fitted, MODEL)
    with whole_file(started) as beside:
        beside.write_text(json.dumps(asked), encoding="utf-8")
    return fitted


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _bags(found: Embeddings) -> pa.Table:
    sizes = {"weight": found.weight, "n_rows": found.n_rows, "effective_size": found.effective_size}
    return pa.table({**{n: found.key_table[n] for n in found.key_table.column_names}, **sizes})


def _print(job: Job, fitted: MeanEmbedding, found: Embeddings) -> None:
    linear = fitted.feature_map_.name == "linear"
    fit = {
        "bags": len(found),
        "people": int(fitted.n_rows_),
        "columns": len(fitted.columns_),
        "encoded_columns": fitted.n_inputs_,
        "features": found.shape[1],
        "feature_map": fitted.feature_map_.name,
        "bandwidth": None if linear else float(fitted.bandwidth_),
    }
    width = "" if linear else f", bandwidth {fit['bandwidth']:.4g}"
    text = (
        f"{fit['people']:,} people in {len(found):,} bags by {', '.join(found.key_table.column_names)}\n{fit['columns']:,} columns, "
        f"{fit['encoded_columns']:,} encoded, {fit['features']:,} features ({fit['feature_map']}{width})\neffective people per bag: "
        f"{found.effective_size.min():,.0f} to {found.effective_size.max():,.0f}; {job.seconds:,.1f} s"
    )
    job.print(
        {}, fit=fit, warnings=[*fitted.warnings_, *found.warnings], text=text, keys=list(found.key_table.column_names)
    )
