"""Cross-validation over places, and predictions of fitted and new places, for both models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special, stats
from sklearn.model_selection import KFold, LeaveOneGroupOut

from crosslevel.data import checks, frames
from crosslevel.data.places import Totals, coordinates
from crosslevel.data.progress import count_steps
from crosslevel.ecological.covariance import Moments, Terms, check_degrees
from crosslevel.ecological.estimate import PlaceEstimator, as_groups
from crosslevel.errors import InputError, listed
from crosslevel.numerics.quadrature import binomial_log_density, logistic_mean, logistic_variance, share_quantiles
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import coverage, rmse
from crosslevel.typing import FloatArray, IntArray, Progress, Step


def cross_validate(
    fitted: PlaceEstimator, k: int, leave_out: str | None, level: float, seed: int, progress: Progress | None = None
) -> Estimates:
    """Predict the last question's share of every place from the other places."""
    places = fitted.places_
    stage = len(fitted.model_.fits) - 1
    successes, trials = places.totals.successes[stage], places.totals.trials[stage]
    folds = _folds(fitted, k, leave_out, seed)
    with count_steps(progress, "Predicting places left out", len(folds), "folds") as step:
        at = fitted._held_out_moments(stage, _counted(folds, step))
    fold = np.zeros(len(places), dtype=np.int64)
    for number, test in enumerate(folds):
        fold[test] = number
    asked, counted = trials > 0, np.maximum(trials, 1.0)
    share = np.divide(successes, trials, out=np.full(len(places), np.nan), where=asked)
    tail = 0.5 * (1.0 - level)
    limits = share_quantiles(counted, at.mean, at.variance, [tail, 1.0 - tail])
    log_density = binomial_log_density(successes, counted, at.mean, at.variance) + np.log(counted)
    estimate = logistic_mean(at.mean, at.variance)
    scores = {
        "rmse": rmse(estimate, share),
        "mean_log_density": float(log_density[asked].mean()),
        "coverage": coverage(limits[:, 0], limits[:, 1], share),
        "rmse_national_mean": rmse(np.full(len(places), successes.sum() / trials.sum()), share),
    }
    how = f"{k} folds" if leave_out is None else f"one {leave_out} left out at a time"
    return Estimates.build(
        {
            places.by: places.keys,
            "estimate": estimate,
            "std_error": _share_error(at, trials),
            "conf_low": limits[:, 0],
            "conf_high": limits[:, 1],
            "truth": share,
            "log_density": np.where(asked, log_density, np.nan),
            "fold": fold,
        },
        keys=[places.by],
        method=f"{fitted._method}, cross-validated ({how})",
        level=level,
        interval="predictive quantiles of the observed share",
        provenance=Provenance.of(call="cross_validate", seed=seed),
        diagnostics=scores,
        warnings=["These scores are of places; they say nothing about subgroups."],
        frame=places.frame,
        title=f"Share of each place with {_describe_question(places.totals)}, predicted from the other places",
        kind="held_out",
    )


def _describe_question(totals: Totals) -> str:
    """Name the last question and whom it was asked of."""
    *before, last = totals.questions
    before = before[1:] if totals.turnout else before
    return f"{last}, of those without {' and '.join(before)}" if before else last


def predict_places(fitted: PlaceEstimator, places: object, people: Any, level: float) -> Estimates:
    """Predict shares of places, fitted or new."""
    known = fitted.places_
    stage = len(fitted.model_.fits) - 1
    at, keys, new = fitted._fitted_moments(stage), known.keys, []
    if places is not None:
        table = frames.to_arrow(places, "places")
        frames.check_columns(table, [known.by], "places")
        checks.check_unique(table, known.by, "places: by")
        keys = table[known.by].to_pylist()
        number = {key: i for i, key in enumerate(known.keys)}
        new = [key for key in keys if key not in number]
        if new:
            fresh = table.filter(pa.array([key not in number for key in keys]))
            stream = fitted._open_people(people, fresh)
            more = fitted._new_moments(stage, _extended(fitted, fresh), new, stream, fresh)
            at = Moments(np.append(at.mean, more.mean), np.append(at.variance, more.variance))
            number |= {key: len(known) + i for i, key in enumerate(new)}
        place = np.array([number[key] for key in keys], dtype=np.intp)
        at = Moments(at.mean[place], at.variance[place])
    if not new:
        given = {"people": people}
        checks.refuse_idle_arguments(
            PlaceEstimator.predict_places, given, "where no place is new; name new ones in places"
        )
    deviate = stats.norm.ppf(0.5 * (1.0 + level)) * np.sqrt(at.variance)
    return Estimates.build(
        {
            known.by: keys,
            "estimate": logistic_mean(at.mean, at.variance),
            "std_error": _share_error(at),
            "conf_low": special.expit(at.mean - deviate),
            "conf_high": special.expit(at.mean + deviate),
        },
        keys=[known.by],
        method=fitted._method,
        level=level,
        interval="posterior quantiles of the place's rate",
        provenance=Provenance.of(call="predict_places", seed=fitted.seed_),
        diagnostics=fitted.convergence_,
        frame=known.frame,
        title=f"Rate of {_describe_question(known.totals)} in each place",
        kind="places",
    )


def check_inhabited(without: list[object]) -> None:
    """Refuse new places without people."""
    if without:
        raise InputError(
            f"places has {len(without):,} without people ({listed(without)}); pass people= with theirs, or leave them out."
        )


def _extended(fitted: PlaceEstimator, table: pa.Table) -> Terms:
    """Give the prior's terms over the fitted places and new ones."""
    known, terms = fitted.places_, fitted.model_.terms
    coords = terms.coords
    if coords is not None and known.coords_by is not None:
        keys = table[known.by].to_pylist()
        where = coordinates(table, known.coords_by, keys)
        if terms.metric == "sphere":
            check_degrees(where, keys)
        coords = np.vstack([coords, where])
    groups: dict[str, IntArray] = {}
    for column, (name, group) in zip(as_groups(fitted.group), terms.groupings, strict=True):
        frames.check_columns(table, [column], "group")
        values = replace(known, table=table).column(column, "group")
        numbers = dict(zip(known.column(column, "group"), group.tolist(), strict=True))
        if not {isinstance(v, str) for v in values} & {isinstance(v, str) for v in numbers}:
            raise InputError(
                f"group={column!r} is {values[0]!r} in the new places and {next(iter(numbers))!r} in those of fit; make it one type."
            )
        for value in values:
            numbers.setdefault(value, len(set(numbers.values())))
        groups[name] = np.concatenate([group, [numbers[v] for v in values]]).astype(np.intp)
    by = fitted.nugget_by
    if by is not None and terms.nugget_level is not None:
        frames.check_columns(table, [by], "nugget_by")
        number = {level: i for i, level in enumerate(terms.nugget_levels)}
        more = [number.get(str(v), len(number)) for v in table[by].to_pylist()]
        groups["nugget_level"] = np.concatenate([terms.nugget_level, more]).astype(np.intp)
    return replace(terms, n_places=len(known) + table.num_rows, coords=coords, **groups)


def _counted(folds: list[IntArray], step: Step | None) -> Iterator[IntArray]:
    """Give the folds one after another, counting each when the next is asked for."""
    for test in folds:
        yield test
        if step is not None:
            step()


def _folds(fitted: PlaceEstimator, k: int, leave_out: str | None, seed: int) -> list[IntArray]:
    q = len(fitted.places_)
    if leave_out is not None:
        values = fitted.places_.column(leave_out, "leave_out")
        if len(set(values)) < 2:
            raise InputError(f"leave_out={leave_out!r} has one value in all places; name a column with several.")
        split = LeaveOneGroupOut().split(np.zeros(q), groups=np.array([str(v) for v in values]))
        return [test for _, test in split]
    return [
        test for _, test in KFold(checks.check_whole(k, "k", 2, q), shuffle=True, random_state=seed).split(np.zeros(q))
    ]


def _share_error(at: Moments, trials: FloatArray | None = None) -> FloatArray:
    """Give the standard deviation of a rate with normal logit, or of the share counted of some trials."""
    spread = logistic_variance(at.mean, at.variance)
    if trials is not None:
        rate = logistic_mean(at.mean, at.variance)
        spread = spread + (rate * (1.0 - rate) - spread) / np.maximum(trials, 1.0)
    return np.asarray(np.sqrt(spread))
