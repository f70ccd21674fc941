"""The aggregate form of the likelihood: place effects act on the logit of the total.

z_i = logit y_i = g_i(beta) + r_i,   g_i(beta) = logit sum_c W_ic sigmoid(x_c . B beta + a),   r ~ N(0, K + diag(1 / (n y (1 - y)))),
beta ~ N(0, effect_variance I), a the mean logit of the places. Nothing changes variables, so no Jacobian is needed and no scale can run
away. At given scales beta minimizes one sum of squares (Gauss-Newton with step halving); the scales of K maximize Laplace's evidence
with beta at its minimum, and a step of theirs is taken only where that evidence rises. The variance of effects is held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, special

from crosslevel.ecological.collapsed import Approximation, Spread, collapse, measure_approximation
from crosslevel.ecological.covariance import RATIO_SD, UNSEEN_RATIO, Hyperparameters, Moments, Terms
from crosslevel.ecological.persons.model import Design
from crosslevel.ecological.persons.sweeps import hessian, level_rates
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.evidence import LogNormal, maximize
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray, IntArray

EFFECT_VARIANCE = 0.2
"""Prior variance of an effect, in squared logits. Learned, it runs away on real totals."""
SMALL = LogNormal(0.03, 2.0)
SCALES = {"spatial": LogNormal(0.1, 2.0), "nugget": SMALL, "group": SMALL, "second_group": SMALL}
"""Priors of the variances of places, in squared logits."""
RATIO = LogNormal(1.0, RATIO_SD)
MOST_RATIO = 100.0
"""Prior and limit of the nugget of a level in units of that of all."""
LENGTH, LENGTH_SD = 0.2, 1.5
"""Prior median of the length scale, in units of the usual distance between places, and the standard deviation of its logarithm."""
SMALLEST, LARGEST = 1e-6, 1e3
"""Limits of variances, in units of the variance of the places' logits."""
STEPS, HALVINGS, DECREMENT = 100, 40, 1e-9
"""Newton steps, halvings of one, and the gain in log posterior that a further one may promise at the end."""
ROUNDS, CLOSE = 20, 0.01
"""Rounds of effects and scales, and the largest change of a log scale that ends them."""
UNCOUNTED = 1e8
"""Variance of the logit of a place where nobody was asked."""
PENALTIES = np.geomspace(1e-3, 1e3, 25)


@dataclass(frozen=True)
class Search:
    """How a search of effects and scales ended.

    Attributes
    ----------
    steps, rounds : int
        Gauss-Newton steps in all; rounds of effects and scales.
    decrement, change : float
        Gain that a further step promises; last change of a log scale.
    at_limit : tuple of str
    cells : int
        Places that differ in location or groups.
    """

    steps: int
    rounds: int
    decrement: float
    change: float
    at_limit: tuple[str, ...]
    cells: int


@dataclass(frozen=True, eq=False)
class AggregateFit:
    """A fitted question: z = logit + G (b - beta) + r near the effects found.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    beta : (p,)
        Coefficients of the effects at the minimum.
    covariance : (p, p)
        Of their posterior.
    slopes : (q, p)
        G, derivative of the logits of places by the coefficients.
    level : float
        a, the logit about which people are averaged.
    logit, z, noise : (q,)
        g, the logit that effects give each place; the one observed; and the variance of counting in it.
    context : (q, p')
        Composition of the places, where it acts on everybody; p' is 0 where it does not.
    log_evidence : float
    search : Search
    approximation : Approximation or None
        How far the field is from the exact one, where it stands on a few points.
    """

    hyperparameters: Hyperparameters
    beta: FloatArray
    covariance: FloatArray
    slopes: FloatArray
    level: float
    logit: FloatArray
    z: FloatArray
    noise: FloatArray
    context: FloatArray
    log_evidence: float
    search: Search
    approximation: Approximation | None = None

    @property
    def at_limit(self) -> tuple[str, ...]:
        """Scales at the limit of their range."""
        return self.search.at_limit

    def describe(self) -> dict[str, Any]:
        """Say how the search ended."""
        off, search = self.approximation, self.search
        near = {} if off is None else {"approximated_mean": off.mean, "approximated_std_error": off.std_error}
        return near | {
            "cells_of_places": search.cells,
            "log_evidence": self.log_evidence,
            "newton_steps": search.steps,
            "decrement_at_mode": search.decrement,
            "rounds": search.rounds,
            "last_change_of_log_scales": search.change,
        }


@dataclass(frozen=True, eq=False)
class _Mode:
    """Effects at given scales, with what was needed to find them."""

    beta: FloatArray
    logit: FloatArray
    G: FloatArray
    H: FloatArray
    log_evidence: float
    steps: int
    decrement: float


def fit_aggregate(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    people: FloatArray,
    fixed: Hyperparameters | None = None,
) -> AggregateFit:
    """Fit one question to the totals of places.

    Parameters
    ----------
    design : Design
        Who lives where.
    terms : Terms
    likelihood : Binomial
        Counts of the places.
    people : (q,)
        Weight of each place's people, by which the mean logit is taken.
    fixed : Hyperparameters, optional
        Take these as they are.

    Raises
    ------
    ConvergenceError
        When a further step still promises something.
    """
    k, n = likelihood.successes, likelihood.trials
    rate = (k + 0.5) / (n + 1.0)
    z = special.logit(rate)
    noise = np.where(n > 0, 1.0 / np.maximum(n * rate * (1.0 - rate), 1e-12), UNCOUNTED)
    weight = np.where(n > 0, people, 0.0)
    level = float(np.average(z, weights=weight if weight.sum() > 0 else None))
    problem = _Problem(design, terms, z, noise, level)
    h = fixed or _first_guess(terms, problem.priors)
    if fixed is None:
        h = problem.scales(terms.pack(h)[1:])
    held = fixed is not None or len(terms.names) == 1  # nothing but the variance of effects, which is not learned
    found, change, rounds = problem.mode(h, np.zeros(design.B.shape[1])), 0.0 if held else np.inf, 0
    limit: tuple[str, ...] = ()
    steps = found.steps
    while change > CLOSE and rounds < ROUNDS:
        rounds += 1
        proposed, limit = problem.better_scales(found, h)
        new, change = problem.mode(proposed, found.beta), problem.distance(h, proposed)
        steps += new.steps
        while new.log_evidence < found.log_evidence - 1e-6 and change > CLOSE:
            proposed = problem.halfway(h, proposed)
            new, change = problem.mode(proposed, found.beta), problem.distance(h, proposed)
            steps += new.steps
        if new.log_evidence >= found.log_evidence - 1e-6:
            found, h = new, proposed
    if not found.decrement <= 1e-4:
        raise ConvergenceError(
            f"the effects did not come to rest in {STEPS} steps (a further one promises {found.decrement:.1e}, allowed 1e-4); fewer "
            "or coarser columns may help."
        )
    covariance = linalg.inv(found.H)
    if fixed is None and terms.nugget_level is not None:  # a level of which nothing was seen is new
        here = np.bincount(terms.nugget_level, n > 0, len(h.nugget_ratios)) > 0
        h = replace(h, nugget_ratios=tuple(np.where(here, h.nugget_ratios, UNSEEN_RATIO).tolist()))
    return AggregateFit(
        h,
        found.beta,
        0.5 * (covariance + covariance.T),
        found.G,
        level,
        found.logit,
        z,
        noise,
        problem.context,
        found.log_evidence,
        Search(steps, rounds, found.decrement, change, limit, problem.cells.terms.n_places),
        problem.approximation(found, h),
    )


class _Problem:
    """One question, with the objective of its effects and of its scales."""

    def __init__(self, design: Design, terms: Terms, z: FloatArray, noise: FloatArray, level: float) -> None:
        self.design, self.terms, self.z, self.noise = design, terms, z, noise
        self.at = np.full(len(z), level)
        self.context = np.zeros((len(z), 0)) if design.context is None else design.context
        self.cells = collapse(terms)
        usual = LogNormal(LENGTH * terms.typical_distance, LENGTH_SD)
        self.priors = {name: usual if name == "length" else SCALES[name] for name in terms.names[1:]}
        self.priors |= {f"nugget:{k}": RATIO for k in range(len(terms.nugget_levels))}

    def logits(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give g(beta), (q,), and its slopes, (q, p)."""
        design = self.design
        found = level_rates(design.pairs, design.eta(beta), self.at, design.codes, len(design.B))
        P = np.clip(found.rate, 1e-12, 1.0 - 1e-12)
        return special.logit(P), (found.by_level / (P * (1.0 - P))[:, None]) @ design.B

    def mode(self, h: Hyperparameters, beta: FloatArray) -> _Mode:
        """Minimize (z - g)' C^-1 (z - g) + beta' beta / effect_variance by Gauss-Newton steps, each halved until it gains."""
        spread = Spread(self.cells, h, self.noise, self.context)

        def loss(r: FloatArray, b: FloatArray) -> float:
            return 0.5 * float(spread.gram(r[:, None])[0, 0] + b @ b / h.effect_variance)

        logit, G = self.logits(beta)
        r = self.z - logit
        now, step = loss(r, beta), 0
        while step < STEPS:
            step += 1
            known = spread.gram(np.column_stack([G, r]))
            H = known[:-1, :-1] + np.eye(len(beta)) / h.effect_variance
            slope = known[:-1, -1] - beta / h.effect_variance
            curved = H - self._bend(beta, logit, G, spread.solve(r[:, None])[:, 0])
            move = _solve(curved, H, slope)
            promised = 0.5 * float(slope @ move)
            if promised <= DECREMENT * max(1.0, 1e-3 * now):
                break
            length = 1.0
            for _ in range(HALVINGS):
                new = beta + length * move
                new_logit, new_G = self.logits(new)
                new_r = self.z - new_logit
                value = loss(new_r, new)
                if value <= now - 1e-4 * length * promised:
                    break
                length *= 0.5
            else:  # rounding: no length gains
                break
            beta, logit, G, r, now = new, new_logit, new_G, new_r, value
        seen = np.linalg.slogdet(h.effect_variance * H)[1]
        evidence = -now - spread.half_log_det - 0.5 * float(seen) - self._against(h)
        return _Mode(beta, logit, G, H, evidence, step, promised)

    def _bend(self, beta: FloatArray, logit: FloatArray, G: FloatArray, force: FloatArray) -> FloatArray:
        """Give sum_i force_i d2 g_i / d beta2, (p, p): what Gauss-Newton leaves out of the curvature."""
        design, P = self.design, special.expit(logit)
        factor = force / (P * (1.0 - P))
        bent = hessian(design.pairs, design.eta(beta), self.at, design.codes, len(design.B), factor)
        return np.asarray(design.B.T @ bent @ design.B - (G.T * (force * (1.0 - 2.0 * P))) @ G)

    def better_scales(self, found: _Mode, h: Hyperparameters) -> tuple[Hyperparameters, tuple[str, ...]]:
        """Maximize the evidence of the linear model at the effects found."""
        names = list(self.priors)
        X, seen = self._linear(found)

        def evidence(x: FloatArray) -> tuple[float, FloatArray]:
            value, slope = Spread(self.cells, self.scales(x), self.noise).evidence(X, seen)
            return value, np.array([slope[name] for name in names])

        low, high = self._limits()
        start = self.terms.pack(h)[1:]
        best = maximize(evidence, [start], low, high, names, list(self.priors.values()), rounds=2)
        return self.scales(best.theta), tuple(n for n in best.convergence.at_bounds if n in self.terms.names)

    def _linear(self, found: _Mode) -> tuple[FloatArray, FloatArray]:
        """Give slopes and context of the places, and what is seen of the linear model at the effects found."""
        return np.hstack([found.G, self.context]), self.z - found.logit + found.G @ found.beta

    def approximation(self, found: _Mode, h: Hyperparameters) -> Approximation | None:
        """Measure how far the field is from the exact one, where it is approximated."""
        if self.cells.points is None:
            return None
        X, seen = self._linear(found)
        return measure_approximation(self.terms, self.cells, h, self.noise, X, seen, self.z - seen)

    def scales(self, x: FloatArray) -> Hyperparameters:
        """Give hyperparameters from the logarithms of all but the variance of effects, which is held."""
        return self.terms.unpack(np.append(np.log(EFFECT_VARIANCE), x))

    def distance(self, one: Hyperparameters, two: Hyperparameters) -> float:
        """Give the largest change of a log scale."""
        return float(np.abs(self.terms.pack(one) - self.terms.pack(two)).max())

    def halfway(self, one: Hyperparameters, two: Hyperparameters) -> Hyperparameters:
        """Give the scales half way, on the logarithm."""
        return self.terms.unpack(0.5 * (self.terms.pack(one) + self.terms.pack(two)))

    def _against(self, h: Hyperparameters) -> float:
        """Give the negative log prior of the scales."""
        logs = self.terms.pack(h)[1:].tolist()
        return -sum(prior.log_density(at)[0] for prior, at in zip(self.priors.values(), logs, strict=True))

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        counted = self.noise < UNCOUNTED
        spread = max(float(np.var(self.z[counted])) if counted.any() else 0.0, 1e-2)
        apart = self.terms.apart if "length" in self.terms.names else np.ones(1)
        usual = dict.fromkeys(self.terms.names[1:], (SMALLEST * spread, LARGEST * spread))
        limits = dict.fromkeys(self.priors, (1.0 / MOST_RATIO, MOST_RATIO)) | usual
        if "length" in limits:
            limits["length"] = (0.1 * float(np.quantile(apart, 0.001)), 3.0 * float(apart.max()))
        low, high = np.log(list(limits.values())).T
        return low, high


def _solve(curved: FloatArray, H: FloatArray, slope: FloatArray) -> FloatArray:
    """Solve with the whole curvature where it is positive, otherwise with that of Gauss-Newton, which always is."""
    try:
        return np.asarray(linalg.solve(curved, slope, assume_a="pos", check_finite=False))
    except linalg.LinAlgError:
        return np.asarray(linalg.solve(H, slope, assume_a="pos", check_finite=False))


def _first_guess(terms: Terms, priors: dict[str, LogNormal]) -> Hyperparameters:
    return terms.unpack(np.log([EFFECT_VARIANCE, *(prior.median for prior in priors.values())]))


def predict_logits(
    fit: AggregateFit,
    terms: Terms,
    seen: IntArray,
    logit: FloatArray,
    G: FloatArray,
    context: FloatArray,
    places: IntArray,
) -> Moments:
    """Give mean and variance of the logit of the rate of places, whether the fit has seen their totals or not.

    Parameters
    ----------
    fit : AggregateFit
    terms : Terms
        Over the places of the fit and others.
    seen : (q,) int
        The places of the fit among them.
    logit, G, context : (m,), (m, p), (m, p')
        Of the places asked for, at the effects of the fit.
    places : (m,) int
        Their numbers among all.
    """
    cells, row = collapse(terms), np.full(terms.n_places, -1)
    row[seen] = np.arange(len(seen))
    spread = Spread(cells.observed(seen), fit.hyperparameters, fit.noise)
    X, own = np.hstack([fit.slopes, fit.context]), np.hstack([G, context])
    shown = fit.z - fit.logit + fit.slopes @ fit.beta
    level = None if terms.nugget_level is None else terms.nugget_level[places]
    at = spread.predict(X, shown, own, cells.index[places], row[places], level)
    return Moments(logit - G @ fit.beta + at.mean, at.variance)


def new_logits(fit: AggregateFit, design: Design) -> tuple[FloatArray, FloatArray]:
    """Give the logits that the effects of a fit give other places, (m,), and their slopes, (m, p)."""
    n = design.pairs.n_places
    terms = Terms(n, None, None, "plane", True, None)
    return _Problem(design, terms, np.zeros(n), np.ones(n), fit.level).logits(fit.beta)


def prior_left(fit: AggregateFit, B: FloatArray, mean_shares: FloatArray, columns: list[tuple[int, int]]) -> FloatArray:
    """Give the share of the prior variance of each column's effects that the totals leave, (n_columns,).

    Effects count relative to the mean over the column's levels, since what they have in common is the level of the places.

    Parameters
    ----------
    fit : AggregateFit
    B : (n_effects, p)
    mean_shares : (n_effects,)
    columns : list of (start, stop)
    """
    left = []
    for start, stop in columns:
        share = mean_shares[start:stop] / max(float(mean_shares[start:stop].sum()), 1e-300)
        own = B[start:stop] - share @ B[start:stop]
        prior = fit.hyperparameters.effect_variance * np.einsum("ij,ij->i", own, own)
        now = np.einsum("ij,jk,ik->i", own, fit.covariance, own)
        left.append(float(share @ now) / max(float(share @ prior), 1e-300))
    return np.array(left)


def explained_variance(z: FloatArray, shares: FloatArray) -> float:
    """Give the R2 of the places' logits on their composition, by ridge regression with generalized cross-validation.

    Parameters
    ----------
    z : (q,)
    shares : (q, p)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shares = rng.dirichlet([2.0, 2.0], 200)
    >>> bool(explained_variance(3.0 * shares[:, 0], shares) > 0.99), bool(explained_variance(rng.normal(size=200), shares) < 0.05)
    (True, True)
    """
    away, X = z - z.mean(), shares - shares.mean(axis=0)
    U, d, _ = linalg.svd(X, full_matrices=False)
    kept = d**2 / (d**2 + PENALTIES[:, None])  # (penalties, rank)
    along = U.T @ away
    residual = float(away @ away) - (along**2 * (1.0 - (1.0 - kept) ** 2)).sum(axis=1)
    free = np.maximum(1.0 - (1.0 + kept.sum(axis=1)) / len(z), 1e-3)
    score = residual / len(z) / free**2
    return float(1.0 - score.min() / max(float(np.var(away)), 1e-300))
