"""Rates of whole places by the individual link: those fitted, those held out, and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from crosslevel.ecological.group.covariance import Hyperparameters, Terms
from crosslevel.ecological.group.posterior import Moments, moments
from crosslevel.ecological.individual.fit import IndividualFit, fit_individual
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.individual.model import Design
from crosslevel.ecological.individual.posterior import draw_effects
from crosslevel.ecological.individual.sweeps import Pairs, level_rates
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import IntArray

__all__ = ["fitted_rates", "held_out", "unseen"]


N_DRAWS = 300


def fitted_rates(model: IndividualModel, stage: int) -> Moments:
    """Give mean and variance of the logit of every fitted place's rate."""
    fit = model.fits[stage]
    q = model.terms.n_places
    at = moments(fit.rows, model.terms, fit.hyperparameters, fit.mode, fit.rows.M, np.arange(q))
    return Moments(fit.linear.level + fit.linear.slope * (at.mean - fit.mode.f), fit.linear.slope**2 * at.variance)


def held_out(
    design: Design,
    terms: Terms,
    counted: Binomial,
    folds: Sequence[IntArray],
    *,
    fixed: Hyperparameters | None = None,
    seed: int = 0,
    n_jobs: int = 1,
) -> Moments:
    """Predict the logit of every place from those outside its fold, scales learnt anew each time.

    Parameters
    ----------
    design, terms, counted
        Of all places.
    folds : sequence of (m,) int
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
        fit = fit_individual(own, terms.take(train), likelihood, fixed=fixed, n_jobs=n_jobs)
        rest = replace(
            design,
            pairs=_pairs(design.pairs, test),
            context=None if design.context is None else design.context[test],
        )
        at = unseen(fit, terms, train, rest, test, seed=seed, n_jobs=n_jobs)
        mean[test], variance[test] = at.mean, at.variance
    return Moments(mean, variance)


def unseen(
    fit: IndividualFit,
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
    fit : IndividualFit
    terms : Terms
        Over the places of the fit and the others.
    seen : (n,) int
        The places of the fit among them.
    design : Design
        Of the places asked for.
    places : (m,) int
        Their numbers among all.
    """
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


def _pairs(pairs: Pairs, places: IntArray) -> Pairs:
    rows = np.concatenate([np.arange(pairs.start[i], pairs.start[i + 1]) for i in places])
    start = np.concatenate([[0], np.cumsum(np.diff(pairs.start)[places])]).astype(np.int64)
    return Pairs(start, pairs.cell[rows], pairs.weight[rows])
