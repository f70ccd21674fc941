"""How far are the answers to be trusted? Calibration on hidden columns, and sensitivity to what totals cannot tell."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs
from crosslevel.data.queries import parse
from crosslevel.ecological.calibration import Calibration, learn_calibration
from crosslevel.ecological.hidden import MOST_LEVELS, SHARES, Cut, Label, Task, cuts_of, hide
from crosslevel.ecological.individual.collapse import Coarsening, coarsen
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.settings import open_people
from crosslevel.embedding import MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError, listed, unknown_name
from crosslevel.results import Estimates

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = ["RHO", "Trust", "comparison", "hide_all", "read_labels", "written"]

RHO = (0.0, 0.03, 0.1, 0.3)
"""Contextual effects that a sensitivity analysis tries."""
MOST_LABELS = 20


class Trust:
    """Calibration and sensitivity; :class:`EcologicalInference` adds the fit."""

    link: str
    random_state: int
    n_jobs: int | None
    calibration_: Calibration | None

    def calibrate(
        self,
        people: Any = None,
        labels: Sequence[str] | Mapping[str, str] | str = "auto",
        *,
        by: Sequence[str] | None = None,
        hidden: Mapping[str, Sequence[str]] | None = None,
        draws: int = 60,
        level: float = 0.95,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Learn how far subgroups are off, by hiding known columns one after another and learning them back from their totals.

        Every label is hidden, summed to the places, learnt by the individual link from its sums, and compared with the truth. One
        standard deviation tau (omega more within places) then widens every interval of :meth:`estimate`; groups of columns that are
        mostly overstated are pulled towards the rates of their places.

        Parameters
        ----------
        people : path, frame or stream, optional
            Those of :meth:`fit` when not given.
        labels : sequence of str, mapping of name to query, or "auto"
            What to hide: columns of 0 and 1 (or of true and false), or queries (``"tenure == 1"``), true of 5 to 95 % of people and
            not the same for all people of a place. "auto" takes every column of two values and the most common level of every other
            category, at most twenty, and warns of those it had to leave out. Eight or more are advised; with fewer than three the
            shipped tau is kept.
        by : sequence of str, optional
            Columns to compare groups by; all features of few levels, and numbers in four bands, when not given.
        hidden : mapping of label to columns, optional
            Columns that must leave the features together with a label, because they tell it (income for poverty).
        draws : int, default 60
            Posterior draws of each label.
        level : float, default 0.95
            Level of the intervals whose leave-one-out coverage is reported.
        progress : callable, optional
            Called with the labels done and the labels in all.

        Returns
        -------
        self
            With ``calibration_``, which has a table by label.
        """
        check_is_fitted(self, "model_")
        model = cast("EcologicalInference", self)
        if not isinstance(model.model_, IndividualModel):
            raise InputError(
                "calibrate refits the individual link, and this model has link='group'; use link='individual'."
            )
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 20:
            raise InputError(f"draws={draws!r} is not a whole number of at least 20.")
        checks.check_level(level)
        stream = open_people(model.people_ if people is None else people, model.where_)
        wanted = read_labels(labels, hidden, stream, model)
        coarsening, cuts = comparison(model, stream, by)
        refused: list[str] | None = [] if isinstance(labels, str) else None
        tasks = hide_all(model, stream, coarsening, cuts, wanted, draws, progress, refused=refused)
        for text in refused or ():
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        found = learn_calibration(tasks, level)
        if not found.confounding.n_labels:
            text = (
                f"{len(tasks)} label(s) are too few to learn tau from; the shipped {found.confounding.tau} is kept. Hide at least three "
                "columns, better eight."
            )
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        self.calibration_ = found
        return self

    def sensitivity(
        self,
        by: str | Sequence[str] | None = None,
        subgroups: Mapping[str, str] | None = None,
        *,
        rho: Sequence[float] = RHO,
        people: Any = None,
        **options: Any,
    ) -> Estimates:
        """Show how each answer moves when the composition of a place acts on everybody who lives there.

        Totals cannot tell whether people of a kind behave so, or whether their places make everybody do it. rho is the variance of
        the second in units of the first; every value means a fit of its own.

        Parameters
        ----------
        by, subgroups, options
            As in :meth:`estimate`.
        rho : sequence of float, default (0, .03, .1, .3)
        people : path, frame or stream, optional

        Returns
        -------
        Estimates
            The answers for every rho, with the key ``rho``. ``changes_sign`` marks subgroups whose difference from their
            neighborhood is not of one sign for all rho; the warnings name them.
        """
        check_is_fitted(self, "model_")
        model = cast("EcologicalInference", self)
        if not isinstance(model.model_, IndividualModel):
            raise InputError("sensitivity varies rho of the individual link, and this model has link='group'.")
        values = sorted({float(r) for r in rho})
        if len(values) < 2 or values[0] < 0 or not np.isfinite(values[-1]):
            raise InputError(f"rho={list(rho)!r} must be at least two different numbers >= 0.")
        source = model.people_ if people is None else people
        answers = [_refitted(model, source, r).estimate(by, subgroups, people=source, **options) for r in values]
        return _stacked(answers, values)


def _refitted(model: EcologicalInference, people: Any, rho: float) -> EcologicalInference:
    """Fit the same question with another rho."""
    if rho == float(model.rho):
        return model
    other = clone(model).set_params(rho=rho)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)  # said by the first fit
        other.fit(people, model.places_.table, unmatched="drop", **model.asked_)
    other.calibration_ = model.calibration_
    return cast("EcologicalInference", other)


def _stacked(answers: Sequence[Estimates], values: Sequence[float]) -> Estimates:
    tables = []
    away = np.column_stack([a["estimate"] - a["neighborhood"] for a in answers])
    changes = (away.min(axis=1) < 0) & (away.max(axis=1) > 0)
    for found, r in zip(answers, values, strict=True):
        table = found.to_frame("pyarrow")
        table = table.append_column("changes_sign", pa.array(changes))
        tables.append(table.add_column(0, "rho", pa.array([r] * table.num_rows)))
    first = answers[0]
    said = list(first.warnings)
    if changes.any():
        keys = first.to_frame("pyarrow").select(list(first.keys)).to_pylist()
        shown = [", ".join(str(v) for v in keys[i].values()) for i in np.flatnonzero(changes)]
        said.append(
            f"{len(shown):,} subgroup(s) lie above their neighborhood for some rho and below it for others: {listed(shown)}."
        )
    both = pa.concat_tables(tables)
    return Estimates.build(
        {name: both[name] for name in both.column_names},
        keys=("rho", *first.keys),
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=replace(first.provenance, call=first.provenance.call.replace(".estimate(", ".sensitivity(", 1)),
        diagnostics={"rho": [float(r) for r in values], "subgroups_that_change_sign": int(changes.sum())},
        warnings=said,
        frame=first.frame,
        title=f"{first.title}, by how far composition acts on everybody (rho)",
    )


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
        queries = {str(label): written(label, stream.schema) if label in names else str(label) for label in labels}
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
        if model.by_ in query.columns:
            raise InputError(f"labels: {name!r} asks for the place {model.by_!r} itself; a label is about people.")
        read.append(Label(name, query, tuple(dict.fromkeys([*query.columns, *more.get(name, ())]))))
    return read


def _automatic(stream: Batches, model: EcologicalInference) -> dict[str, str]:
    """Take every column of two values, and the most common level of other categories, as far as their shares allow."""
    embedder = model.embedder_
    columns = [c for c in stream.schema.names if c not in (model.by_, embedder.weight_)]
    found: dict[str, str] = {}
    counted: dict[str, dict[Any, float]] = {c: {} for c in columns}
    for batch in stream.select([*columns, *([embedder.weight_] if embedder.weight_ else [])]):
        weight = None if embedder.weight_ is None else pc.cast(batch.column(embedder.weight_), pa.float64())
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
            found[c] = written(c, stream.schema, value)
    return found


def written(column: str, schema: pa.Schema, value: object = 1) -> str:
    """Write the query for the people with a value in a column.

    Examples
    --------
    >>> schema = pa.schema({"hours worked": pa.int64(), "owner": pa.bool_()})
    >>> written("hours worked", schema), written("owner", schema)
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


def comparison(model: EcologicalInference, stream: Batches, by: Sequence[str] | None) -> tuple[Coarsening, list[Cut]]:
    """Coarsen the features and the columns to compare by, which need not be features."""
    fitted = cast("IndividualModel", model.model_).coarsening
    if isinstance(by, str):
        raise InputError(f"by={by!r} is one name; pass a list, by=[{by!r}].")
    extra = [name for name in by or () if name not in fitted.names]
    for name in extra:
        if name not in stream.schema.names:
            raise unknown_name("by", name, stream.schema.names)
    if extra:
        embedder = _read_with(model, stream, fitted.names, extra, extra)
        wide = [c.name for c in embedder.encoder_.columns if c.name in extra and c.width > MOST_LEVELS]
        numbers = [name for name in wide if _is_number(stream.schema.field(name).type)]
        if numbers:  # ages, not codes of a few kinds
            embedder = _read_with(model, stream, fitted.names, extra, [name for name in extra if name not in numbers])
        fresh = coarsen(embedder.encoder_, embedder.sample_, int(model.n_bins))
        fitted = Coarsening(fresh.encoder, {**fresh.edges, **fitted.edges})
    cuts = cuts_of(fitted, by)
    if not cuts:
        raise InputError("by is missing: no feature has few levels; name columns of people to compare groups by.")
    return fitted, cuts


def _read_with(
    model: EcologicalInference, stream: Batches, names: Sequence[str], extra: Sequence[str], codes: Sequence[str]
) -> MeanEmbedding:
    """Learn how the features and further columns are read, some of these as codes."""
    embedder = MeanEmbedding(
        feature_map="linear",
        categorical=[*(model.categorical or ()), *codes],
        random_state=model.random_state,
        n_jobs=model.n_jobs,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        embedder.fit(stream, by=model.by_, columns=[*names, *extra], weight=model.embedder_.weight_)
    return embedder


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def hide_all(
    model: EcologicalInference,
    stream: Batches,
    coarsening: Coarsening,
    cuts: Sequence[Cut],
    labels: Sequence[Label],
    draws: int,
    progress: Callable[[int, int], None] | None = None,
    shares: tuple[float, float] = SHARES,
    refused: list[str] | None = None,
) -> list[Task]:
    """Hide every label, several at a time, and learn each from its totals.

    Labels that cannot be learnt are an error, unless there is a list to say why they were left out.
    """
    fitted = cast("IndividualModel", model.model_)
    jobs = count_jobs(model.n_jobs)
    at_once = max(1, min(jobs, len(labels)))

    def one(label: Label) -> Task:
        return hide(
            stream,
            coarsening,
            fitted.coarsening.names,
            cuts,
            label,
            place=model.by_,
            keys=model.places_.keys,
            weight=model.embedder_.weight_,
            terms=fitted.terms,
            trials=model.places_.totals.trials[0],
            start=None if model.hyperparameters is not None else fitted.fits[-1].hyperparameters,
            n_draws=draws,
            seed=int(model.random_state),
            n_jobs=max(1, jobs // at_once),
            shares=shares,
            interactions=model.interactions,
            rho=float(model.rho),
        )

    tasks: list[Task] = []
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(one, label) for label in labels]
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
