"""Which columns to hide to learn confounding, and which groups to compare them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.sparse import csgraph

from crosslevel.data.checks import count_jobs, read_list
from crosslevel.data.people import People
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import Bins
from crosslevel.data.progress import count_steps, follow
from crosslevel.data.sql import is_value, quoted
from crosslevel.ecological.confounding import SHIPPED, LearnedConfounding
from crosslevel.ecological.persons.groups import allowance_of, count_again
from crosslevel.ecological.persons.hidden_labels import MOST_LEVELS, SHARES, SPLIT, Cut, Label, cuts_of, hide
from crosslevel.ecological.persons.learner import Halves, Learner, learn_confounding, measure_selection
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import Progress

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference
    from crosslevel.ecological.persons.survey_fit import Selection

MOST_LABELS = 20
ALIKE = 0.5
"""Labels of a larger correlation over people are one family."""


@dataclass(frozen=True)
class Hiding:
    """What is hidden and compared, as :meth:`crosslevel.EcologicalInference.learn_confounding` was asked.

    Attributes
    ----------
    labels, by, hidden, families, level, survey
        Its arguments.
    """

    labels: Sequence[str] | Mapping[str, str] | str
    by: Sequence[str] | None
    hidden: Mapping[str, Sequence[str]] | None
    families: Mapping[str, str] | None
    level: float
    survey: bool


def hide_and_learn(
    model: EcologicalInference, people: People, asked: Hiding, progress: Progress | None
) -> tuple[LearnedConfounding, list[str], Selection | None]:
    """Hide every label, learn the confounding from the errors, and give sentences about what was left out.

    With ``survey`` the selection of respondents comes too, measured on the labels that the survey of the fit has.
    """
    count_again(model, people)
    wanted = read_labels(asked.labels, asked.hidden, people, model)
    named = read_families(asked.families, wanted)
    bins, cuts = comparison(model, people, asked.by)
    refused: list[str] | None = [] if isinstance(asked.labels, str) else None
    found = hide_all(model, people, bins, cuts, wanted, progress, refused=refused)
    kept = [halves[0].label for halves in found]
    together = named or alike(people, [label for label in wanted if label.name in kept])
    shipped = allowance_of(model.model_, None).shrinkage
    with count_steps(True if progress is True else None, "Learning confounding", unit="fits") as step:
        learned = learn_confounding(Learner(found, together, SHIPPED, shipped, step), asked.level)
    said = list(refused or ())
    if people.cluster is None:
        said.append(SPLIT)
    if not learned.confounding.n_labels:
        said.append(
            f"{len(found)} label(s) are too few to learn tau from; the shipped {learned.confounding.of_effects.tau} is kept. Hide at "
            "least three columns, better eight of four families."
        )
    return learned, said, measure_selection(model, found, wanted, learned) if asked.survey else None


def read_families(families: Mapping[str, str] | None, labels: Sequence[Label]) -> dict[str, str] | None:
    """Check the families of labels; a label that none is named for is its own."""
    if families is None:
        return None
    names = [label.name for label in labels]
    for name in families:
        if name not in names:
            raise unknown_name("families", name, names, "label")
    return {name: str(families.get(name, name)) for name in names}


def alike(people: People, labels: Sequence[Label]) -> dict[str, str]:
    """Put labels in one family that are correlated over people by more than a half, directly or through others."""
    n, asked = len(labels), []
    known = [" and ".join(f"{quoted(c)} is not null" for c in label.query.columns) or "true" for label in labels]
    yes = [f"{there} and ({label.query.sql})" for label, there in zip(labels, known, strict=True)]
    for i in range(n):
        for j in range(n):
            for name, one, two in (("both", known[i], known[j]), ("has", yes[i], known[j]), ("have", yes[i], yes[j])):
                asked.append(f"count(case when {one} and {two} then 1 end) as {name}_{i}_{j}")
    row = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    both, has, have = (
        np.array([[row[f"{name}_{i}_{j}"] for j in range(n)] for i in range(n)], dtype=np.float64)
        for name in ("both", "has", "have")
    )
    spread = np.sqrt(np.maximum(has * (both - has), 1e-300) * np.maximum(has.T * (both - has.T), 1e-300))
    correlated = np.abs(have * both - has * has.T) / spread > ALIKE
    _, family = csgraph.connected_components(correlated, directed=False)
    first = {int(f): labels[int(np.argmax(family == f))].name for f in family}
    return {label.name: first[int(f)] for label, f in zip(labels, family, strict=True)}


def read_labels(
    labels: Sequence[str] | Mapping[str, str] | str,
    hidden: Mapping[str, Sequence[str]] | None,
    people: People,
    model: EcologicalInference,
) -> list[Label]:
    """Check what is to be hidden."""
    names = people.schema.names
    if isinstance(labels, str) and labels == "auto":
        queries = _automatic(people)
    elif isinstance(labels, str):
        raise InputError(f"labels={labels!r} is one label; pass a list of columns or queries, or 'auto'.")
    elif isinstance(labels, Mapping):
        queries = {str(name): str(query) for name, query in labels.items()}
    else:
        queries = {str(label): _yes(people, label) if label in names else str(label) for label in labels}
    if not queries:
        raise InputError("labels is empty; name columns of 0 and 1, or conditions such as 'tenure = 1'.")
    more = hidden or {}
    strange = [name for name in more if name not in queries]
    if strange:
        raise unknown_name("hidden", strange[0], list(queries), "label")
    read = []
    for name, text in queries.items():
        query = people.expression(text, f"labels[{name!r}]")
        for column in more.get(name, ()):
            if column not in names:
                raise unknown_name("hidden", column, names)
        if people.place in query.columns:
            raise InputError(f"labels: {name!r} asks for the place {people.place!r} itself; a label is about people.")
        read.append(Label(name, query, tuple(dict.fromkeys([*query.columns, *more.get(name, ())]))))
    return read


def _yes(people: People, column: str) -> str:
    """Write the condition that a column of 0 and 1, or of true and false, says yes."""
    return is_value(column, True if pa.types.is_boolean(people.schema.field(column).type) else 1)


def _automatic(people: People) -> dict[str, str]:
    """Take every column of two values, and the most common level of other categories, as far as their shares allow."""
    found: dict[str, str] = {}
    w = people.weight_sql
    for name in people.schema.names:
        if name in (*people.keys, people.weight) or len(found) == MOST_LABELS:
            continue
        c = quoted(name)
        counted = people.answer(
            f"select {c} as v, sum({w}) as w from people where {c} is not null group by 1 limit {MOST_LABELS + 1}"
        )
        weights = dict(zip(counted["v"].to_pylist(), counted["w"].to_pylist(), strict=True))
        total = sum(weights.values())
        if len(weights) > MOST_LABELS or not total:
            continue
        usable = {v: w for v, w in weights.items() if SHARES[0] <= w / total <= SHARES[1]}
        if usable:
            found[name] = is_value(
                name, max(weights) if set(weights) == {0, 1} else max(sorted(usable), key=lambda v: usable[v])
            )
    return found


def comparison(model: EcologicalInference, people: People, by: Sequence[str] | None) -> tuple[Bins, list[Cut]]:
    """Bin the features and the columns to compare by, which need not be features."""
    fitted = model.model_.bins
    by = None if by is None else read_list(by, "by")
    extra = [name for name in by or () if name not in fitted.names]
    for name in extra:
        if name not in people.schema.names:
            raise unknown_name("by", name, people.schema.names)
    if extra:
        n_bins, columns = int(model.n_bins), [*fitted.names, *extra]
        fresh = learn_columns(people, n_bins, columns, extra).bins
        wide = [c.name for c in fresh.encoder.columns if c.name in extra and c.width > MOST_LEVELS]
        numbers = [name for name in wide if _is_number(people.schema.field(name).type)]
        if numbers:  # ages, not codes of a few kinds
            fresh = learn_columns(people, n_bins, columns, [name for name in extra if name not in numbers]).bins
        fitted = Bins(fresh.encoder, {**fresh.edges, **fitted.edges})
    cuts = cuts_of(fitted, by)
    if not cuts:
        raise InputError("by is missing: no feature has few levels; name columns of people to compare groups by.")
    return fitted, cuts


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def hide_all(
    model: EcologicalInference,
    people: People,
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
    at_once = max(1, min(count_jobs(None), len(labels)))
    found: list[Halves] = []
    with ThreadPoolExecutor(at_once) as pool, follow(progress, "Hiding columns", "columns") as tell:
        waiting = [pool.submit(hide, model, people, bins, cuts, label, shares) for label in labels]
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
