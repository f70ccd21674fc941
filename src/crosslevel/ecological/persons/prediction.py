"""Rates of whole places: those fitted, those held out, and new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import linalg, special

from crosslevel.data.batches import Batches
from crosslevel.data.cells import warn_new_people
from crosslevel.data.checks import count_jobs
from crosslevel.data.place_cells import Pairs, PlaceCells, count_people
from crosslevel.ecological.covariance import (
    Hyperparameters,
    Moments,
    Rows,
    Terms,
    factor_places,
    moments,
    place_covariance,
)
from crosslevel.ecological.persons.aggregate import AggregateFit, fit_aggregate, new_logits, predict_logits
from crosslevel.ecological.persons.exact import fit_question
from crosslevel.ecological.persons.fitting import design_of
from crosslevel.ecological.persons.model import Design, Linear, PersonsFit, PersonsModel, level_shares
from crosslevel.ecological.persons.subgroup_draws import draw_effects
from crosslevel.ecological.persons.sweeps import level_rates
from crosslevel.ecological.validation import check_inhabited
from crosslevel.numerics.laplace import Binomial, Mode
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

N_DRAWS = 300


def fitted_rates(model: PersonsModel, stage: int) -> Moments:
    """Give mean and variance of the logit of every fitted place's rate."""
    fit, q = model.fits[stage], model.terms.n_places
    if isinstance(fit, AggregateFit):
        every = np.arange(q)
        return predict_logits(fit, model.terms, every, fit.logit, fit.slopes, fit.context, every)
    rows = Rows.of(np.hstack([fit.linear.J, fit.context]))
    mode = linear_mode(rows, fit.linear, model.terms, fit.hyperparameters)
    at = moments(rows, model.terms, fit.hyperparameters, mode, rows.M, np.arange(q))
    return Moments(fit.linear.level + fit.linear.slope * (at.mean - mode.f), fit.linear.slope**2 * at.variance)


def linear_mode(rows: Rows, found: Linear, terms: Terms, h: Hyperparameters) -> Mode:
    """Write the linear model at the mode as the mode of a Gaussian process."""
    K = h.effect_variance * rows.gram + place_covariance(terms, h)
    L, root = factor_places(K, found.W), np.sqrt(found.W)
    alpha = root * linalg.cho_solve((L, True), root * found.z, check_finite=False)
    f = K @ alpha
    return Mode(f, alpha, found.W, np.zeros_like(f), L, np.nan, found.iterations, found.gradient)


def held_out(
    design: Design,
    terms: Terms,
    counted: Binomial,
    folds: Iterable[IntArray],
    people: FloatArray | None = None,
    *,
    fixed: Hyperparameters | None = None,
    seed: int = 0,
    n_jobs: int = 1,
) -> Moments:
    """Predict the logit of every place from those outside its fold, scales learned anew each time.

    Parameters
    ----------
    design, terms, counted
        Of all places.
    folds : iterable of (m,) int
    people : (q,), optional
        Weight of each place's people, for the aggregate form; the exact one when not given.
    fixed : Hyperparameters, optional
        Take these in every fold.
    """
    q = terms.n_places
    mean, variance = np.zeros(q), np.zeros(q)
    for test in folds:
        train = np.setdiff1d(np.arange(q), test)
        own = replace(
            design,
            pairs=_pairs(design.pairs, train),
            context=None if design.context is None else design.context[train],
        )
        likelihood = Binomial(counted.successes[train], counted.trials[train])
        fit: AggregateFit | PersonsFit
        if people is None:
            fit = fit_question(own, terms.take(train), likelihood, fixed=fixed, n_jobs=n_jobs)
        else:
            fit = fit_aggregate(own, terms.take(train), likelihood, people[train], fixed=fixed, n_jobs=n_jobs)
        rest = replace(
            design,
            pairs=_pairs(design.pairs, test),
            context=None if design.context is None else design.context[test],
        )
        at = unseen(fit, terms, train, rest, test, seed=seed, n_jobs=n_jobs)
        mean[test], variance[test] = at.mean, at.variance
    return Moments(mean, variance)


def unseen(
    fit: AggregateFit | PersonsFit,
    terms: Terms,
    seen: IntArray,
    design: Design,
    places: IntArray,
    *,
    seed: int = 0,
    n_jobs: int = 1,
) -> Moments:
    """Predict the logit of the rate of places whose totals the fit has not seen.

    Parameters
    ----------
    fit : AggregateFit or PersonsFit
    terms : Terms
        Over the places of the fit and the others.
    seen : (n,) int
        The places of the fit among them.
    design : Design
        Of the places asked for.
    places : (m,) int
        Their numbers among all.
    """
    if isinstance(fit, AggregateFit):
        logit_, G = new_logits(fit, design, n_jobs)
        context = np.zeros((len(places), 0)) if design.context is None else design.context
        return predict_logits(fit, terms, seen, logit_, G, context, places)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,)))
    drawn = draw_effects(fit, terms, N_DRAWS, rng, np.asarray(seen, dtype=np.intp))
    f = drawn.u[:, places]
    if design.context is not None:
        f = f + drawn.context @ design.context.T
    logit = np.empty((N_DRAWS, len(places)))
    for k in range(N_DRAWS):
        rate = level_rates(design.pairs, design.eta(drawn.beta[k]), f[k], design.codes, len(design.B), n_jobs).rate
        logit[k] = special.logit(np.clip(rate, 1e-12, 1.0 - 1e-12))
    return Moments(logit.mean(axis=0), logit.var(axis=0, ddof=1))


def new_design(model: PersonsModel, cells: PlaceCells, columns: FloatArray | None = None) -> Design:
    """Make the design of places that the fit has not seen; composition is centered as in the fit, ``columns`` are covariates."""
    codes, context = model.effects.codes(cells.codes), None
    if model.contextual_variance > 0:
        shares = level_shares(cells.pairs, codes, len(model.effects.B))
        context = np.sqrt(model.contextual_variance) * (shares - model.mean_shares) @ model.effects.B
    if columns is not None:
        context = columns if context is None else np.hstack([context, columns])
    return Design(codes, model.effects.B, cells.pairs, context)


def new_places(
    fitted: EcologicalInference, terms: Terms, new: list[object], people: Batches, table: pa.Table
) -> Moments:
    """Predict the logit of new places' rates from their people; ``terms`` are over the fitted and the new, ``table`` holds the new."""
    model, q, jobs = fitted.model_, len(fitted.places_), count_jobs(fitted.n_jobs)
    by, weight, counted = fitted.places_.by, fitted.weight_, fitted._counted
    warn_new_people(people, model.bins.encoder, 6)
    cells = count_people(people, model.bins, place=by, keys=new, weight=weight, counted=counted)
    check_inhabited([key for key, total in zip(new, cells.total, strict=True) if not total > 0])
    columns = None if model.covariates is None else model.covariates.read(table)
    design, places = new_design(model, cells, columns), np.arange(q, q + len(new))
    return unseen(model.fits[0], terms, np.arange(q), design, places, seed=fitted.seed_, n_jobs=jobs)


def held_out_places(fitted: EcologicalInference, stage: int, folds: Iterable[IntArray]) -> Moments:
    """Predict the logit of every place from those outside its fold, as the model was fitted."""
    totals, jobs, cells = fitted.places_.totals, count_jobs(fitted.n_jobs), fitted.cells_
    return held_out(
        design_of(fitted.model_, cells, totals, stage, jobs),
        fitted.model_.terms,
        Binomial(totals.successes[stage], totals.trials[stage]),
        folds,
        cells.total if fitted.likelihood == "aggregate" else None,
        fixed=None if fitted.hyperparameters is None else fitted.model_.fits[stage].hyperparameters,
        seed=fitted.seed_,
        n_jobs=jobs,
    )


def _pairs(pairs: Pairs, places: IntArray) -> Pairs:
    size = np.diff(pairs.start)[places]
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    rows = np.arange(start[-1]) + np.repeat(pairs.start[:-1][places] - start[:-1], size)
    return Pairs(start, pairs.cell[rows], pairs.weight[rows])
