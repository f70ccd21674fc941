"""A stream of record batches, read as the deterministic algorithm takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.batches import open_batches
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.columns import Column
from crosslevel.imputation.cudia.encoding import Reading
from crosslevel.imputation.cudia.fitting import Choices, Fitted
from crosslevel.imputation.cudia.hidden import eta_prior
from crosslevel.imputation.cudia.proportions import MixPrior
from crosslevel.imputation.cudia.setup import Layout, hidden_families, split_families
from crosslevel.imputation.cudia.stages import identify
from crosslevel.imputation.cudia.stream import fit_stream
from crosslevel.imputation.inputs import Inputs, Partition, People, Schema, read_fit
from crosslevel.typing import FloatArray

__all__ = ["fit_batches"]


def fit_batches(
    people: Any,
    partition: str,
    aggregates: Any,
    columns: Sequence[str] | None,
    choices: Choices,
    families: Any,
    rng: np.random.Generator,
) -> tuple[Schema, Layout, Fitted, dict[str, str], Any]:
    """Fit a stream; see `CUDIA.fit_stream`."""
    stream = open_batches(people)
    if stream.one_shot:
        raise InputError(
            "people can be read only once, and the algorithm makes several passes; pass a file or a function."
        )
    names = stream.schema.names
    if partition not in names:
        raise unknown_name("partition", partition, names)
    chosen = [n for n in names if n != partition] if columns is None else list(columns)
    stream = open_batches(stream, columns=[*chosen, partition])
    labels = _labels(stream, partition)
    given = _published(labels, partition, aggregates, chosen)
    own, hidden_chosen = split_families(families, given.hidden)
    if not (own == "auto" or own == "gaussian" or all(v == "gaussian" for v in dict(own).values())):
        raise InputError("a stream is fitted with gaussian columns only; pass families='auto', or fit in memory.")
    kinds = hidden_families(given, hidden_chosen)
    known = pa.array(labels)

    def batches() -> Iterator[tuple[FloatArray, npt.NDArray[np.int64]]]:
        for batch in stream:
            table = pa.Table.from_batches([batch])
            X = np.column_stack([frames.column(table, n, "people") for n in chosen])
            values = table[partition]
            if pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            yield X, pc.index_in(values.cast(known.type), value_set=known).to_numpy().astype(np.int64)

    S = np.column_stack([p.mean for p in given.published])
    fit = fit_stream(
        batches,
        S,
        int(choices.n_clusters),
        tuple(chosen),
        kinds,
        rng,
        ridge=float(choices.ridge),
        target=choices.target,
        kind=choices.kind,
        beta=choices.beta,
        n_restarts=choices.n_restarts,
    )
    schema = Schema(tuple(Column(n) for n in chosen), (Partition(partition, tuple(labels)),), partition)
    problem = fit.problem
    reading = Reading(problem.families, tuple(None for _ in chosen))
    layout = Layout(
        problem,
        reading,
        np.arange(len(labels))[:, None],
        given.hidden,
        tuple((0, p.mean) for p in given.published),
        problem.blocks[0].size,
    )
    prior = eta_prior(problem, float(choices.ridge), choices.target, choices.kind, choices.logit_sd)
    shares = fit.people / fit.people.sum(axis=1, keepdims=True)
    order = np.argsort(-fit.people.sum(axis=0), kind="stable")
    at, shares = fit.parameters.reordered(order), np.ascontiguousarray(shares[:, order])
    convergence = {
        "converged": fit.converged,
        "steps": len(fit.path),
        "objective": [float(v) for v in fit.path[-5:]],
        "people": fit.n,
    }
    report = identify(problem, at, shares, prior, "count")
    fitted = Fitted(
        at, prior, MixPrior.dirichlet(np.ones(at.n_clusters)), shares, report, convergence,
        chosen=(at.n_clusters, float(choices.ridge), choices.target),
    )  # fmt: skip
    return schema, layout, fitted, {"aggregates": given.data["partition"]}, "pyarrow"


def _labels(stream: Any, partition: str) -> list[Any]:
    seen: set[Any] = set()
    for batch in open_batches(stream, columns=[partition]):
        values = batch.column(0)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values.null_count:
            raise InputError(
                f"people: {values.null_count:,} person(s) have no {partition!r}; drop them or give them a group."
            )
        seen.update(pc.unique(values).to_pylist())
    return sorted(seen)


def _published(labels: list[Any], partition: str, aggregates: Any, chosen: Sequence[str]) -> Inputs:
    """Read the published means as a fit in memory does, on one stand-in person per group."""
    stand_in = {"stand-in": np.arange(len(labels), dtype=np.float64)}
    given = read_fit(stand_in, pa.table({partition: labels}), aggregates)
    for p in given.published:
        if p.name in chosen:
            raise InputError(
                f"aggregates has the mean of {p.name!r}, which is also a column of people; name other columns."
            )
    people = People(np.zeros((0, len(chosen))), np.zeros((0, 1), dtype=np.intp), None, "pyarrow")
    return Inputs(people, given.schema, given.published, given.data, given.notes)
