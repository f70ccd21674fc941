"""How each answer moves with the contextual variance, which totals cannot tell."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from crosslevel.data import checks
from crosslevel.data.people import People
from crosslevel.data.place_columns import GroupCounts
from crosslevel.data.places import Places
from crosslevel.data.progress import count_steps
from crosslevel.ecological.persons.survey_fit import fuse_again
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.results import Estimates
from crosslevel.typing import Progress

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

KEY = "contextual_variance"


def vary_context(
    model: EcologicalInference,
    by: str | Sequence[str] | None,
    subgroups: Mapping[str, str] | None,
    contextual_variance: Sequence[float],
    people: Any,
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> Estimates:
    """Ask the same under several contextual variances, each with a fit of its own."""
    values = np.unique(checks.as_numbers(list(contextual_variance), KEY, 1)).tolist()
    if len(values) < 2 or values[0] < 0 or not np.isfinite(values[-1]):
        raise InputError(
            f"contextual_variance={list(contextual_variance)!r} must be at least two different numbers >= 0."
        )
    source = model._open_people(people)
    answers = []
    with count_steps(progress, "Varying the context", 2 * len(values), "fits and answers") as step:
        for value in values:
            other = refit(model, source, value)
            if step is not None:
                step()
            answers.append(other.estimate(by, subgroups, people=None if model.counted_ else source, **options))
            if step is not None:
                step()
    return stack_answers(answers, values)


def refit(model: EcologicalInference, people: People, contextual_variance: float) -> EcologicalInference:
    """Fit the same question with another contextual variance; the scales of places stay, since an assumption is varied, not learned."""
    if contextual_variance == 0.0:
        return model
    if model.survey_ is not None and not hasattr(model, "surveys_"):
        raise InputError("a loaded model does not hold its survey; fit it again to vary the contextual variance.")
    other = cast("EcologicalInference", clone(model))
    other.set_params(random_state=model.seed_, hyperparameters=list(model.hyperparameters_))
    other._contextual_variance = contextual_variance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)  # said by the first fit
        given = [*getattr(model, "surveys_", ()), getattr(model, "shares_", None)]
        surveys = [one for one in given if one is not None]
        groups, roles = model.arguments_["groups"], model.arguments_["places"]
        places = Places(model.places_.table, margins=model.margins_, **roles)
        other.fit(GroupCounts(**groups) if groups else people, places, surveys or None, unmatched="drop")
    other.confounding_ = model.confounding_
    if model.survey_ is not None:
        fuse_again(other, model.survey_.selection)
    return other


def stack_answers(answers: Sequence[Estimates], values: Sequence[float]) -> Estimates:
    """Put the answers under several contextual variances into one table, and mark those that change sides."""
    tables = []
    away = np.column_stack([a["estimate"] - a["neighborhood"] for a in answers])
    changes = (away.min(axis=1) < 0) & (away.max(axis=1) > 0)
    for found, value in zip(answers, values, strict=True):
        table = found.to_frame("pyarrow")
        table = table.append_column("changes_sign", pa.array(changes))
        tables.append(table.add_column(0, KEY, pa.array([value] * table.num_rows)))
    first = answers[0]
    said = list(first.warnings)
    if changes.any():
        keys = first.to_frame("pyarrow").select(list(first.keys)).to_pylist()
        shown = [", ".join(str(v) for v in keys[i].values()) for i in np.flatnonzero(changes)]
        said.append(
            f"{len(shown):,} subgroup(s) lie above their neighborhood for some contextual variances and below it for others: "
            f"{listed(shown)}."
        )
    both = pa.concat_tables(tables)
    return Estimates.build(
        {name: both[name] for name in both.column_names},
        keys=(KEY, *first.keys),
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=replace(first.provenance, call=first.provenance.call.replace(".estimate(", ".sensitivity(", 1)),
        diagnostics={KEY: [float(v) for v in values], "subgroups_that_change_sign": int(changes.sum())},
        warnings=said,
        frame=first.frame,
        title=f"{first.title}, by how far composition acts on everybody (contextual variance)",
        kind="contextual_variance",
    )
