"""Rates of whole places: those fitted, those held out, and new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crosslevel.data.people import People
from crosslevel.data.people_columns import warn_outside_fit
from crosslevel.data.place_cells import Pairs, count_people
from crosslevel.ecological.covariance import (
    Hyperparameters,
    Moments,
    Terms,
)
from crosslevel.ecological.persons.aggregate import AggregateFit, fit_aggregate, new_logits, predict_logits
from crosslevel.ecological.persons.fitting import design_of
from crosslevel.ecological.persons.model import Design, PersonsModel
from crosslevel.ecological.validation import check_inhabited
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference

N_DRAWS = 300


def fitted_rates(model: PersonsModel, stage: int) -> Moments:
    """Give mean and variance of the logit of every fitted place's rate."""
    fit, every = model.fits[stage], np.arange(model.terms.n_places)
    return predict_logits(fit, model.terms, every, fit.logit, fit.slopes, fit.context, every)


def held_out(
    design: Design,
    terms: Terms,
    counted: Binomial,
    folds: Iterable[IntArray],
    people: FloatArray,
    fixed: Hyperparameters | None = None,
) -> Moments:
    """Predict the logit of every place from those outside its fold, scales learned anew each time.

    Parameters
    ----------
    design, terms, counted
        Of all places.
    folds : iterable of (m,) int
    people : (q,)
        Weight of each place's people.
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
        fit = fit_aggregate(own, terms.take(train), likelihood, people[train], fixed)
        rest = replace(
            design,
            pairs=_pairs(design.pairs, test),
            context=None if design.context is None else design.context[test],
        )
        at = unseen(fit, terms, train, rest, test)
        mean[test], variance[test] = at.mean, at.variance
    return Moments(mean, variance)


def unseen(fit: AggregateFit, terms: Terms, seen: IntArray, design: Design, places: IntArray) -> Moments:
    """Predict the logit of the rate of places whose totals the fit has not seen.

    Parameters
    ----------
    fit : AggregateFit
    terms : Terms
        Over the places of the fit and the others.
    seen : (n,) int
        The places of the fit among them.
    design : Design
        Of the places asked for.
    places : (m,) int
        Their numbers among all.
    """
    logit, G = new_logits(fit, design)
    context = np.zeros((len(places), 0)) if design.context is None else design.context
    return predict_logits(fit, terms, seen, logit, G, context, places)


def new_places(
    fitted: EcologicalInference, terms: Terms, new: list[object], people: People, table: pa.Table
) -> Moments:
    """Predict the logit of new places' rates from their people; ``terms`` are over the fitted and the new, ``table`` holds the new."""
    model, q = fitted.model_, len(fitted.places_)
    warn_outside_fit(people, model.bins.encoder)
    cells = count_people(people, model.bins, new, counted=fitted.counted_)
    check_inhabited([key for key, total in zip(new, cells.total, strict=True) if not total > 0])
    columns = None if model.covariates is None else model.covariates.read(table)
    design = Design(model.effects.codes(cells.codes), model.effects.B, cells.pairs, columns)
    return unseen(model.fits[0], terms, np.arange(q), design, np.arange(q, q + len(new)))


def held_out_places(fitted: EcologicalInference, stage: int, folds: Iterable[IntArray]) -> Moments:
    """Predict the logit of every place from those outside its fold, as the model was fitted."""
    totals, cells = fitted.places_.totals, fitted.cells_
    return held_out(
        design_of(fitted.model_, cells, totals, stage),
        fitted.model_.terms,
        Binomial(totals.successes[stage], totals.trials[stage]),
        folds,
        cells.total,
        None if fitted.hyperparameters is None else fitted.model_.fits[stage].hyperparameters,
    )


def _pairs(pairs: Pairs, places: IntArray) -> Pairs:
    size = np.diff(pairs.start)[places]
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    rows = np.arange(start[-1]) + np.repeat(pairs.start[:-1][places] - start[:-1], size)
    return Pairs(start, pairs.cell[rows], pairs.weight[rows])
