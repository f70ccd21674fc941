"""How far respondents of a group differ from its people, measured on columns that survey and people both have.

A known column t is hidden and learned back from totals and from the survey's own answers to it, selection taken as nil. Over the groups g
of all such columns, with e_tg = logit(truth) - logit(estimate),

    K_tg = (G_g D) R (G_g D)',   D = d theta / d delta,    V_tg = G_g S G_g',    mean_t mean_g e_tg^2 / (V_tg + selection^2 K_tg) = 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import optimize, special, stats

from crosslevel.data.columns import Encoder
from crosslevel.data.place_cells import Bins
from crosslevel.ecological.confounding import LearnedConfounding
from crosslevel.ecological.persons.hidden_errors import HiddenLabel
from crosslevel.ecological.persons.hidden_labels import Label
from crosslevel.ecological.persons.learner import FEW, MANY_FAMILIES, Halves
from crosslevel.ecological.persons.respondents import count_respondents, open_surveys, spread_rows
from crosslevel.ecological.persons.survey import SELECTION, Likelihood, effect_prior, fuse, pairs_of
from crosslevel.ecological.persons.survey_fit import Selection, columns_of
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

__all__ = ["measure_selection", "solve_selection"]

LEAST_RESPONDENTS = 1_000
"""Fewer respondents tell less of their selection than the default does."""
MOST = 2.0
LEAST_FACTOR = 1e-4


def measure_selection(
    model: EcologicalInference, found: Sequence[Halves], labels: Sequence[Label], learned: LearnedConfounding
) -> Selection:
    """Measure selection on the hidden columns that the survey has too; the default where they are too few.

    Parameters
    ----------
    model : EcologicalInference
        Fitted with a survey.
    found : sequence of pairs of HiddenLabel
    labels : sequence of Label
        What was hidden.
    learned : LearnedConfounding
        The confounding that the prior allows for.
    """
    given = model.survey_given_["survey"]
    surveys = open_surveys(given, model.arguments_.get("survey_name"), model.arguments_["where"])
    shared = [label for label in labels if all(set(label.query.columns) <= set(t.column_names) for _, t in surveys)]
    halves = {pair[0].label: pair for pair in found}
    shared = [label for label in shared if label.name in halves]
    n = sum(table.num_rows for _, table in surveys)
    if len(shared) < FEW or n < LEAST_RESPONDENTS:
        what = f"{len(shared)} hidden column(s) are in the survey, and at least {FEW} are needed"
        if len(shared) >= FEW:
            what = f"{n:,} respondents are too few to measure it, {LEAST_RESPONDENTS:,} are needed"
        return Selection(SELECTION, f"the default; {what}")
    rows, parts = [], []
    for label in shared:
        both = [_errors(model, half, label, surveys, learned) for half in halves[label.name]]
        e, V, K = (np.concatenate(values) for values in zip(*both, strict=True))
        parts.append((e, V, K))
        rows.append({"label": label.name, "groups": len(e), "selection": solve_selection([(e, V, K)])})
    sd = solve_selection(parts)
    if len(shared) < MANY_FAMILIES:
        sd *= float(stats.t.ppf(0.975, len(shared) + 1) / stats.norm.ppf(0.975))
    names = f"{len(shared)} columns that survey and people both have"
    return Selection(sd, f"measured on {names}", pa.Table.from_pylist(rows))


def solve_selection(parts: Sequence[tuple[FloatArray, FloatArray, FloatArray]]) -> float:
    """Find the selection at which squared errors are as large as they should be, each label counting alike; 0 if they are not larger.

    Parameters
    ----------
    parts : sequence of (error, variance, factor), (m,) each
        The groups of every label: e, V and K.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> V, K = np.full(4000, 0.01), np.full(4000, 1.0)
    >>> e = rng.normal(size=4000) * np.sqrt(V + 0.2**2 * K)
    >>> round(solve_selection([(e, V, K)]), 1)
    0.2
    """

    def excess(sd: float) -> float:
        return float(np.mean([np.mean(e**2 / (V + sd**2 * K)) for e, V, K in parts])) - 1.0

    if excess(0.0) <= 0.0:
        return 0.0
    return MOST if excess(MOST) >= 0.0 else float(optimize.brentq(excess, 0.0, MOST, xtol=1e-4))


def _errors(
    model: EcologicalInference,
    half: HiddenLabel,
    label: Label,
    surveys: Sequence[tuple[str, pa.Table]],
    learned: LearnedConfounding,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Learn a hidden column from its totals and from the survey, and give e, V and K of its groups."""
    bins, effects = model.model_.bins, half.structure
    read = {column.name: column for column in bins.encoder.columns}
    kept = Bins(Encoder(tuple(read[name] for name in half.columns), bins.encoder.unknown), bins.edges)
    levels = half.codes[:, : len(effects.sizes)] - effects.first[: len(effects.sizes)]
    places = model.places_.take(half.places)
    columns = columns_of({**model.arguments_, "survey_outcome": ""})
    asked = count_respondents(surveys, columns, kept, places, places.totals, "drop", label.query)
    rows = spread_rows(asked, 0, half.pairs, levels, half.people, kept)
    if rows is None:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    pairs = pairs_of(effects)
    amounts = [learned.shrinkage.get(name, 0.0) for name in half.columns]
    amounts += [max(amounts[a], amounts[b]) for a, b in effects.pairs]
    keep = 1.0 - np.repeat(amounts, effects.widths)
    prior = effect_prior(effects, half.effects, half.covariance, keep, learned.confounding, pairs)
    posterior = fuse(effects, pairs, prior, half.pairs, levels, half.total, rows, 0.0)
    problem = Likelihood(effects, pairs, half.pairs, levels, half.total, rows)
    at = problem.at(np.concatenate([posterior.theta, np.zeros(problem.n_levels + problem.n_surveys)]))
    out = []
    for groups in half.dimensions:
        found = problem.groups(at, half.people, groups.group, len(groups.names))
        weight, yes = groups.weight.sum(axis=0), groups.yes.sum(axis=0)
        T = np.clip((yes + 0.5) / (weight + 1.0), 1e-9, 1.0 - 1e-9)
        bias, before = (found.G @ root for root in (posterior.by_delta @ prior.selection, prior.root))
        telling = (weight > 0) & ((before**2).sum(axis=1) > LEAST_FACTOR)
        e = special.logit(T) - special.logit(found.rate)
        V, K = found.spread(posterior.covariance) ** 2, (bias**2).sum(axis=1)
        out.append((e[telling], V[telling], K[telling]))
    e, V, K = (np.concatenate(values) for values in zip(*out, strict=True))
    return e, V, K
