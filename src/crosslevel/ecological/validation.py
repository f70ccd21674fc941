"""How well are places predicted from other places? Folds, scores, and predictions of new places."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import special, stats
from sklearn.model_selection import KFold, LeaveOneGroupOut

from crosslevel.data import frames
from crosslevel.data.batches import open_batches
from crosslevel.data.checks import count_jobs
from crosslevel.ecological.group.covariance import Terms
from crosslevel.ecological.group.fit import fit
from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.group.posterior import Moments
from crosslevel.ecological.group.scales import mixed_moments, points
from crosslevel.ecological.individual.collapse import collapse
from crosslevel.ecological.individual.link import IndividualModel, design_of, level_shares
from crosslevel.ecological.individual.model import Design
from crosslevel.ecological.individual.prediction import fitted_rates, held_out, unseen
from crosslevel.ecological.places import Totals, coordinates
from crosslevel.ecological.settings import check_degrees
from crosslevel.errors import InputError, listed
from crosslevel.numerics.kernels import distances
from crosslevel.numerics.laplace import Binomial
from crosslevel.numerics.quadrature import binomial_log_density, logistic_mean, logistic_variance, share_quantiles
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import coverage, rmse
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = ["cross_validate", "predict_places"]


def cross_validate(
    fitted: EcologicalInference, k: int, leave_out: str | None, level: float, random_state: int
) -> Estimates:
    """Predict the last question's share of every place from the other places."""
    model, places = fitted.model_, fitted.places_
    stage = len(model.fits) - 1
    successes, trials = places.totals.successes[stage], places.totals.trials[stage]
    folds = _folds(fitted, k, leave_out, random_state)
    at, fold = (_out_of_fold if isinstance(model, GroupModel) else _individuals_out_of_fold)(fitted, stage, folds)
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
            "std_error": _share_error(at.mean, at.variance, trials),
            "conf_low": limits[:, 0],
            "conf_high": limits[:, 1],
            "truth": share,
            "log_density": np.where(asked, log_density, np.nan),
            "fold": fold,
        },
        keys=[places.by],
        method=f"distribution regression, {fitted.link} link, cross-validated ({how})",
        level=level,
        interval="predictive quantiles of the observed share",
        provenance=Provenance.of(
            call=f"EcologicalInference(...).cross_validate(k={k!r}, leave_out={leave_out!r})",
            seed=random_state,
            data={"places": places.fingerprint},
        ),
        diagnostics=scores,
        warnings=["These scores are of places; they say nothing about subgroups."],
        frame=places.frame,
        title=f"Share of each place with {_question(places.totals)}, predicted from the other places",
    )


def _out_of_fold(
    fitted: EcologicalInference, stage: int, folds: list[npt.NDArray[np.intp]]
) -> tuple[Moments, npt.NDArray[np.int64]]:
    """Predict the logit of every place from those outside its fold, and number the folds: (q,) each."""
    model, q = cast("GroupModel", fitted.model_), len(fitted.places_)
    mean, variance, fold = np.zeros(q), np.zeros(q), np.zeros(q, dtype=np.int64)
    for number, test in enumerate(folds):
        kept = np.flatnonzero(~np.isin(model.observed[stage], test))
        rows, counted = model.rows[stage].take(kept), model.likelihoods[stage]
        likelihood = Binomial(counted.successes[kept], counted.trials[kept])
        found = fit(
            rows,
            model.terms,
            likelihood,
            # from no start of the whole fit's: that one has seen the places left out
            n_starts=1,
            fixed=None if fitted.hyperparameters is None else model.fits[stage].hyperparameters,
        )
        likely = points(rows, model.terms, likelihood, found)
        at = mixed_moments(rows, model.terms, likely, model.M[test], test)
        mean[test], variance[test], fold[test] = at.mean, at.variance, number
    return Moments(mean, variance), fold


def _individuals_out_of_fold(
    fitted: EcologicalInference, stage: int, folds: list[npt.NDArray[np.intp]]
) -> tuple[Moments, npt.NDArray[np.int64]]:
    """The same by the individual link."""
    model, totals = cast("IndividualModel", fitted.model_), fitted.places_.totals
    if fitted.cells_ is None:
        raise InputError("a loaded model does not hold its people; fit it again to cross-validate.")
    jobs = count_jobs(fitted.n_jobs)
    at = held_out(
        design_of(model, fitted.cells_, totals, stage, jobs),
        model.terms,
        Binomial(totals.successes[stage], totals.trials[stage]),
        folds,
        fixed=None if fitted.hyperparameters is None else model.fits[stage].hyperparameters,
        seed=int(fitted.random_state),
        n_jobs=jobs,
    )
    fold = np.zeros(len(fitted.places_), dtype=np.int64)
    for number, test in enumerate(folds):
        fold[test] = number
    return at, fold


def _question(totals: Totals) -> str:
    """Name the last question and whom it was asked of."""
    *before, last = totals.questions
    before = before[1:] if totals.turnout else before
    return f"{last}, of those without {' and '.join(before)}" if before else last


def predict_places(fitted: EcologicalInference, places: object, people: Any, level: float) -> Estimates:
    """Predict shares of places, fitted or new, by the fitted link."""
    model, known = fitted.model_, fitted.places_
    stage = len(model.fits) - 1
    if places is None:
        if isinstance(model, GroupModel):
            at = model.moments(stage, model.M + model.centre, np.arange(len(known)))
        else:
            at = fitted_rates(model, stage)
        return _predicted(fitted, known.keys, at, level)
    table = frames.to_arrow(places, "places")
    frames.check_columns(table, [known.by], "by")
    frames.check_unique(table, known.by, "places: by")
    keys = table[known.by].to_pylist()
    number = {key: i for i, key in enumerate(known.keys)}
    new = [key for key in keys if key not in number]
    source = fitted.people_ if people is None else people
    if new and source is None:
        raise InputError(
            "people is missing: a loaded model does not hold them; pass predict_places(places, people=people)."
        )
    number |= {key: len(known) + i for i, key in enumerate(new)}
    place = np.array([number[key] for key in keys], dtype=np.intp)
    fresh = table.filter(pa.array([key not in known.keys for key in keys]))
    terms = _extended(fitted, fresh) if new else model.terms
    if isinstance(model, GroupModel):
        return _predicted(fitted, keys, _group_moments(fitted, model, stage, terms, new, source, place), level)
    at = fitted_rates(model, stage)
    if new:
        more = _individual_moments(fitted, model, stage, terms, new, source)
        at = Moments(np.append(at.mean, more.mean), np.append(at.variance, more.variance))
    return _predicted(fitted, keys, Moments(at.mean[place], at.variance[place]), level)


def _group_moments(
    fitted: EcologicalInference,
    model: GroupModel,
    stage: int,
    terms: Terms,
    new: list[object],
    people: Any,
    place: npt.NDArray[np.intp],
) -> Moments:
    M, known = model.M, fitted.places_
    seen = model.rows[stage]
    if new:
        found = fitted.embedder_.transform(open_batches(people, where=fitted.where_), by=fitted.by_)
        rows = {key: i for i, key in enumerate(found.key_table[known.by].to_pylist())}
        _check_inhabited([key for key in new if key not in rows])
        M = np.vstack([M, found.values[[rows[key] for key in new]] - model.centre])
        if seen.A is None:
            seen = replace(seen, A=np.arange(len(known)))
        elif seen.A.ndim == 2:
            seen = replace(seen, A=np.hstack([seen.A, np.zeros((len(seen.A), len(new)))]))
    return mixed_moments(seen, terms, model.points(stage), M[place], place)


def _individual_moments(
    fitted: EcologicalInference, model: IndividualModel, stage: int, terms: Terms, new: list[object], people: Any
) -> Moments:
    if stage:
        raise InputError(
            "new places are predicted for one question only; leave out population and name one outcome in fit."
        )
    stream = open_batches(people, where=fitted.where_)
    found = collapse(stream, model.coarsening, place=fitted.by_, keys=new, weight=fitted.embedder_.weight_)
    _check_inhabited([key for key, total in zip(new, found.total, strict=True) if not total > 0])
    codes = model.effects.codes(found.codes)
    context = None
    if model.rho > 0:
        # centred as in the fit: what the places of the fit have on average is in whole_
        shares = level_shares(found.pairs, codes, len(model.effects.B))
        middle = fitted.whole_.weight @ fitted.whole_.values / fitted.whole_.weight.sum()
        if shares.shape[1] != len(middle):
            raise InputError("new places with rho and interactions cannot be predicted; fit without one of them.")
        context = np.sqrt(model.rho) * (shares - middle) @ model.effects.B
    design = Design(codes, model.effects.B, found.pairs, context)
    q = len(fitted.places_)
    return unseen(
        model.fits[stage],
        terms,
        np.arange(q),
        design,
        np.arange(q, q + len(new)),
        seed=int(fitted.random_state),
        n_jobs=count_jobs(fitted.n_jobs),
    )


def _check_inhabited(without: list[object]) -> None:
    if without:
        raise InputError(
            f"{len(without):,} place(s) have no people ({listed(without)}); pass people= with theirs, or leave them out."
        )


def _predicted(fitted: EcologicalInference, keys: list[object], at: Moments, level: float) -> Estimates:
    known = fitted.places_
    tail = 0.5 * (1.0 - level)
    deviate = stats.norm.ppf(1.0 - tail) * np.sqrt(at.variance)
    return Estimates.build(
        {
            known.by: keys,
            "estimate": logistic_mean(at.mean, at.variance),
            "std_error": _share_error(at.mean, at.variance),
            "conf_low": special.expit(at.mean - deviate),
            "conf_high": special.expit(at.mean + deviate),
        },
        keys=[known.by],
        method=f"distribution regression, {fitted.link} link",
        level=level,
        interval="posterior quantiles of the place's rate",
        provenance=Provenance.of(
            call="EcologicalInference(...).predict_places(places)",
            seed=int(fitted.random_state),
            data={"places": known.fingerprint},
        ),
        diagnostics=fitted.certificate(),
        frame=known.frame,
        title=f"Rate of {_question(known.totals)} in each place",
    )


def _extended(fitted: EcologicalInference, table: pa.Table) -> Terms:
    """Give the prior's terms over the fitted places and new ones."""
    known, terms = fitted.places_, fitted.model_.terms
    n = len(known) + table.num_rows
    distance, group = None, None
    if terms.distance is not None and known.coords is not None and known.coords_by is not None:
        keys = table[known.by].to_pylist()
        where = coordinates(table, known.coords_by, keys)
        if fitted.metric == "sphere":
            check_degrees(where, keys)
        both = np.vstack([known.coords, where])
        distance = distances(both, both, fitted.metric)
    if terms.group is not None and fitted.group is not None:
        frames.check_columns(table, [fitted.group], "group")
        values = table[fitted.group].to_pylist()
        number = dict(zip(known.column(fitted.group, "group"), terms.group.tolist(), strict=True))
        for value in values:
            number.setdefault(value, len(set(number.values())))
        group = np.concatenate([terms.group, [number[v] for v in values]]).astype(np.intp)
    return Terms(n, terms.kind, distance, terms.nugget, group, terms.product)


def _folds(fitted: EcologicalInference, k: int, leave_out: str | None, seed: int) -> list[npt.NDArray[np.intp]]:
    q = len(fitted.places_)
    if leave_out is not None:
        values = fitted.places_.column(leave_out, "leave_out")
        if len(set(values)) < 2:
            raise InputError(f"leave_out={leave_out!r} has one value in all places; name a column with several.")
        split = LeaveOneGroupOut().split(np.zeros(q), groups=np.array([str(v) for v in values]))
        return [test for _, test in split]
    if isinstance(k, bool) or not isinstance(k, Integral) or not 2 <= k <= q:
        raise InputError(f"k={k!r} is not a whole number between 2 and the {q:,} places.")
    return [test for _, test in KFold(int(k), shuffle=True, random_state=seed).split(np.zeros(q))]


def _share_error(mean: FloatArray, variance: FloatArray, trials: FloatArray | None = None) -> FloatArray:
    """Give the standard deviation of a rate with normal logit, or of the share counted of some trials."""
    spread = logistic_variance(mean, variance)
    if trials is not None:
        rate = logistic_mean(mean, variance)
        spread = spread + (rate * (1.0 - rate) - spread) / np.maximum(trials, 1.0)
    return np.asarray(np.sqrt(spread))
