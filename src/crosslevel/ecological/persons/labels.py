"""Which columns to hide to learn confounding, and which groups to compare them by."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csgraph

from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs, read_list
from crosslevel.data.place_cells import Bins, learn_bins
from crosslevel.data.progress import count_steps, follow
from crosslevel.data.queries import read_query
from crosslevel.ecological.confounding import SHIPPED, LearnedConfounding
from crosslevel.ecological.persons.fitting import learn_features
from crosslevel.ecological.persons.groups import allowance_of, count_again
from crosslevel.ecological.persons.hidden_labels import MOST_LEVELS, SHARES, SPLIT, Cut, Label, cuts_of, hide
from crosslevel.ecological.persons.learner import Halves, Learner, learn_confounding
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import Progress

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference
    from crosslevel.ecological.persons.survey_fit import Selection

MOST_LABELS = 20
ALIKE = 0.5
"""Labels of a larger correlation over people are one family."""


def hide_and_learn(
    model: EcologicalInference,
    stream: Batches,
    labels: Sequence[str] | Mapping[str, str] | str,
    by: Sequence[str] | None,
    hidden: Mapping[str, Sequence[str]] | None,
    families: Mapping[str, str] | None,
    level: float,
    progress: Progress | None,
    survey: bool = False,
) -> tuple[LearnedConfounding, list[str], Selection | None]:
    """Hide every label, learn the confounding from the errors, and give sentences about what was left out.

    With ``survey`` the selection of respondents comes too, measured on the labels that the survey of the fit has.
    """
    count_again(model, stream)
    wanted = read_labels(labels, hidden, stream, model)
    named = read_families(families, wanted)
    bins, cuts = comparison(model, stream, by)
    refused: list[str] | None = [] if isinstance(labels, str) else None
    found = hide_all(model, stream, bins, cuts, wanted, progress, refused=refused)
    kept = [halves[0].label for halves in found]
    together = named or alike(stream, [label for label in wanted if label.name in kept])
    shipped = allowance_of(model.model_, None).shrinkage
    with count_steps(True if progress is True else None, "Learning confounding", unit="fits") as step:
        learned = learn_confounding(Learner(found, together, SHIPPED, shipped, step), level)
    said = list(refused or ())
    if model.arguments_.get("cluster") is None:
        said.append(SPLIT)
    if not learned.confounding.n_labels:
        said.append(
            f"{len(found)} label(s) are too few to learn tau from; the shipped {learned.confounding.of_effects.tau} is kept. Hide at "
            "least three columns, better eight of four families."
        )
    if not survey:
        return learned, said, None
    from crosslevel.ecological.persons.learner import measure_selection

    return learned, said, measure_selection(model, found, wanted, learned)


def read_families(families: Mapping[str, str] | None, labels: Sequence[Label]) -> dict[str, str] | None:
    """Check the families of labels; a label that none is named for is its own."""
    if families is None:
        return None
    names = [label.name for label in labels]
    for name in families:
        if name not in names:
            raise unknown_name("families", name, names, "label")
    return {name: str(families.get(name, name)) for name in names}


def alike(stream: Batches, labels: Sequence[Label]) -> dict[str, str]:
    """Put labels in one family that are correlated over people by more than a half, directly or through others."""
    n = len(labels)
    both, has, have = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for batch in stream.select(list(dict.fromkeys(c for label in labels for c in label.query.columns))):
        known = np.ones((batch.num_rows, n))
        for j, label in enumerate(labels):
            for column in label.query.columns:
                known[:, j] *= pc.is_valid(batch.column(column)).to_numpy(zero_copy_only=False)
        yes = known * np.column_stack([label.query.mask(batch) for label in labels])
        both, has, have = both + known.T @ known, has + yes.T @ known, have + yes.T @ yes
    spread = np.sqrt(np.maximum(has * (both - has), 1e-300) * np.maximum(has.T * (both - has.T), 1e-300))
    correlated = np.abs(have * both - has * has.T) / spread > ALIKE
    _, family = csgraph.connected_components(correlated, directed=False)
    first = {int(f): labels[int(np.argmax(family == f))].name for f in family}
    return {label.name: first[int(f)] for label, f in zip(labels, family, strict=True)}


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
        query = read_query(text, f"labels[{name!r}]", stream.schema)
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
    by = None if by is None else read_list(by, "by")
    extra = [name for name in by or () if name not in fitted.names]
    for name in extra:
        if name not in stream.schema.names:
            raise unknown_name("by", name, stream.schema.names)
    if extra:
        place, weight, columns = model.places_.by, model.weight_, [*fitted.names, *extra]
        learned = learn_features(model, stream, place, columns, weight, codes=extra)
        wide = [c.name for c in learned.encoder.columns if c.name in extra and c.width > MOST_LEVELS]
        numbers = [name for name in wide if _is_number(stream.schema.field(name).type)]
        if numbers:  # ages, not codes of a few kinds
            codes = [name for name in extra if name not in numbers]
            learned = learn_features(model, stream, place, columns, weight, codes=codes)
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
    progress: Progress | None = None,
    shares: tuple[float, float] = SHARES,
    refused: list[str] | None = None,
) -> list[Halves]:
    """Hide every label, several at a time, and learn each from its totals.

    Labels that cannot be learned are an error, unless there is a list to say why they were left out.
    """
    jobs = count_jobs(model.n_jobs)
    at_once = max(1, min(jobs, len(labels)))
    each = max(1, jobs // at_once)
    found: list[Halves] = []
    with ThreadPoolExecutor(at_once) as pool, follow(progress, "Hiding columns", "columns") as tell:
        waiting = [pool.submit(hide, model, stream, bins, cuts, label, each, shares) for label in labels]
        try:
            for done, halves in enumerate(waiting, 1):
                try:
                    found.append(halves.result())
                except InputError as error:
                    if refused is None or (done == len(labels) and not found):
                        raise
                    refused.append(str(error))
                if tell is not None:
                    tell(done, len(labels))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # who stops it does not wait for labels not begun
            raise
    return found
