"""Which columns to hide to learn confounding, and which groups to compare them by."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs
from crosslevel.data.place_cells import Bins, learn_bins
from crosslevel.data.queries import parse
from crosslevel.ecological.confounding import LearnedConfounding
from crosslevel.ecological.hidden_errors import Task, learn_confounding
from crosslevel.ecological.persons.hidden_labels import MOST_LEVELS, SHARES, Cut, Label, cuts_of, hide
from crosslevel.errors import InputError, unknown_name

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

__all__ = ["comparison", "hide_all", "hide_and_learn", "read_labels", "value_query"]

MOST_LABELS = 20


def hide_and_learn(
    model: EcologicalInference,
    stream: Batches,
    labels: Sequence[str] | Mapping[str, str] | str,
    by: Sequence[str] | None,
    hidden: Mapping[str, Sequence[str]] | None,
    n_draws: int,
    level: float,
    progress: Callable[[int, int], None] | None,
) -> tuple[LearnedConfounding, list[str]]:
    """Hide every label, learn the confounding from the errors, and give sentences about what was left out."""
    wanted = read_labels(labels, hidden, stream, model)
    bins, cuts = comparison(model, stream, by)
    refused: list[str] | None = [] if isinstance(labels, str) else None
    tasks = hide_all(model, stream, bins, cuts, wanted, n_draws, progress, refused=refused)
    found = learn_confounding(tasks, level)
    said = list(refused or ())
    if not found.confounding.n_labels:
        said.append(
            f"{len(tasks)} label(s) are too few to learn tau from; the shipped {found.confounding.tau} is kept. Hide at least three "
            "columns, better eight."
        )
    return found, said


def read_labels(
    labels: Sequence[str] | Mapping[str, str] | str,
    hidden: Mapping[str, Sequence[str]] | None,
    stream: Batches,
    model: EcologicalInference,
) -> list[Label]:
    """Check what is to be hidden."""
    names = stream.schema.names
    if isinstance(labels, str) and labels == "auto":
        queries = _automatic(stream, model)
    elif isinstance(labels, str):
        raise InputError(f"labels={labels!r} is one label; pass a list of columns or queries, or 'auto'.")
    elif isinstance(labels, Mapping):
        queries = {str(name): str(query) for name, query in labels.items()}
    else:
        queries = {str(label): value_query(label, stream.schema) if label in names else str(label) for label in labels}
    if not queries:
        raise InputError("labels is empty; name columns of 0 and 1, or queries such as 'tenure == 1'.")
    more = hidden or {}
    strange = [name for name in more if name not in queries]
    if strange:
        raise unknown_name("hidden", strange[0], list(queries), "label")
    read = []
    for name, text in queries.items():
        query = parse(text)
        query.check(stream.schema)
        for column in more.get(name, ()):
            if column not in names:
                raise unknown_name("hidden", column, names)
        if model.places_.by in query.columns:
            raise InputError(
                f"labels: {name!r} asks for the place {model.places_.by!r} itself; a label is about people."
            )
        read.append(Label(name, query, tuple(dict.fromkeys([*query.columns, *more.get(name, ())]))))
    return read


def _automatic(stream: Batches, model: EcologicalInference) -> dict[str, str]:
    """Take every column of two values, and the most common level of other categories, as far as their shares allow."""
    weighted = model.weight_
    columns = [c for c in stream.schema.names if c not in (model.places_.by, weighted)]
    found: dict[str, str] = {}
    counted: dict[str, dict[Any, float]] = {c: {} for c in columns}
    for batch in stream.select([*columns, *([weighted] if weighted else [])]):
        weight = None if weighted is None else pc.cast(batch.column(weighted), pa.float64())
        for c in [c for c in columns if counted[c] is not None]:
            values = batch.column(c)
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            table = pa.table({"v": values, "w": pa.array(np.ones(len(values))) if weight is None else weight})
            for row in table.group_by("v").aggregate([("w", "sum")]).to_pylist():
                if row["v"] is not None and row["v"] == row["v"]:
                    counted[c][row["v"]] = counted[c].get(row["v"], 0.0) + row["w_sum"]
            if len(counted[c]) > MOST_LABELS:
                counted[c] = {}
                columns = [n for n in columns if n != c]
    for c in columns:
        total = sum(counted[c].values())
        usable = {v: w for v, w in counted[c].items() if total and SHARES[0] <= w / total <= SHARES[1]}
        if usable and len(found) < MOST_LABELS:
            value = 1 if set(counted[c]) == {0, 1} else max(usable, key=lambda v: usable[v])
            found[c] = value_query(c, stream.schema, value)
    return found


def value_query(column: str, schema: pa.Schema, value: object = 1) -> str:
    """Write the query for the people with a value in a column.

    Examples
    --------
    >>> schema = pa.schema({"hours worked": pa.int64(), "owner": pa.bool_()})
    >>> value_query("hours worked", schema), value_query("owner", schema)
    ('`hours worked` == 1', '`owner` == true')
    """
    if pa.types.is_boolean(schema.field(column).type):
        text = str(bool(value)).lower()
    elif isinstance(value, str | datetime.date):
        escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
        text = f"'{escaped}'"
    else:
        text = str(value)
    return f"`{column}` == {text}"


def comparison(model: EcologicalInference, stream: Batches, by: Sequence[str] | None) -> tuple[Bins, list[Cut]]:
    """Bin the features and the columns to compare by, which need not be features."""
    fitted = model.model_.bins
    if isinstance(by, str):
        raise InputError(f"by={by!r} is one name; pass a list, by=[{by!r}].")
    extra = [name for name in by or () if name not in fitted.names]
    for name in extra:
        if name not in stream.schema.names:
            raise unknown_name("by", name, stream.schema.names)
    if extra:
        place, weight, columns = model.places_.by, model.weight_, [*fitted.names, *extra]
        learned = model._learn(stream, place, columns, weight, extra)
        wide = [c.name for c in learned.encoder.columns if c.name in extra and c.width > MOST_LEVELS]
        numbers = [name for name in wide if _is_number(stream.schema.field(name).type)]
        if numbers:  # ages, not codes of a few kinds
            codes = [name for name in extra if name not in numbers]
            learned = model._learn(stream, place, columns, weight, codes)
        fresh = learn_bins(learned.encoder, learned.encoded_sample(), int(model.n_bins))
        fitted = Bins(fresh.encoder, {**fresh.edges, **fitted.edges})
    cuts = cuts_of(fitted, by)
    if not cuts:
        raise InputError("by is missing: no feature has few levels; name columns of people to compare groups by.")
    return fitted, cuts


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def hide_all(
    model: EcologicalInference,
    stream: Batches,
    bins: Bins,
    cuts: Sequence[Cut],
    labels: Sequence[Label],
    n_draws: int,
    progress: Callable[[int, int], None] | None = None,
    shares: tuple[float, float] = SHARES,
    refused: list[str] | None = None,
) -> list[Task]:
    """Hide every label, several at a time, and learn each from its totals.

    Labels that cannot be learned are an error, unless there is a list to say why they were left out.
    """
    jobs = count_jobs(model.n_jobs)
    at_once = max(1, min(jobs, len(labels)))
    each = max(1, jobs // at_once)
    tasks: list[Task] = []
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(hide, model, stream, bins, cuts, label, n_draws, each, shares) for label in labels]
        try:
            for done, task in enumerate(waiting, 1):
                try:
                    tasks.append(task.result())
                except InputError as error:
                    if refused is None or (done == len(labels) and not tasks):
                        raise
                    refused.append(str(error))
                if progress is not None:
                    progress(done, len(labels))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # who stops it does not wait for labels not begun
            raise
    return tasks
