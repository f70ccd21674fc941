"""Distribution regression of many places: weights of a few directions, places collapsed to cells, no matrix of all places.

f = X w + r, X = (M - center) P for the k leading directions P in which embeddings of places vary, w ~ N(0, effect_variance I), and r of
:class:`crosslevel.ecological.collapsed.Spread`. At the mode of the binomial posterior z = f + (successes - trials p) / W is seen with the
variance 1 / W, W = trials p (1 - p), so that the evidence is that of a linear model and Laplace's is

    log p(z) + sum W (z - f)^2 / 2 - sum log(W) / 2 + log p(successes | f).

The scales maximize the first term with its slopes, z and W held; a step is taken only where the whole rises. O(q k^2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from crosslevel.ecological.collapsed import Approximation, Cells, Spread, collapse, measure_approximation
from crosslevel.ecological.covariance import Hyperparameters, Moments, Rows, Terms, covariance, moments
from crosslevel.ecological.regression.model import RegressionModel, Sampling, nearest_other
from crosslevel.ecological.regression.posterior import Draws, Point
from crosslevel.ecological.scales import LARGEST, SMALLEST, Fit
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.evidence import Objective, maximize
from crosslevel.numerics.laplace import Binomial, Mode, find_mode
from crosslevel.typing import FloatArray, IntArray

EXACT_PLACES = 3_000
"""Places whose covariance is held as a matrix."""
DIRECTIONS = 300
"""Directions of the features that carry the weights of more places."""
LEARNED, COMPARED = 20_000, 1_000
"""Places from which directions are learned, and on which they are compared with all features."""
STEPS, ROUNDS, CLOSE, TOLERANCE = 50, 20, 0.01, 1e-7
"""Newton steps; rounds of mode and scales; the change of a log scale that ends them; the gradient at the mode relative to the counts."""
LENGTHS = (0.2, 0.05, 0.8)
"""Lengths that searches begin with, in units of the usual distance between places."""
LEAST_CURVATURE = 1e-10


@dataclass(frozen=True, eq=False)
class ManyPlaces(RegressionModel):
    """A distribution regression whose weights stand on a few directions.

    Attributes
    ----------
    directions : (p, k)
        P.
    field_error, feature_error : tuple of Approximation or None
        How far the field on points is from the exact one, and weights of directions from those of all features, by question.
    """

    directions: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    field_error: tuple[Approximation | None, ...] = ()
    feature_error: tuple[Approximation, ...] = ()

    def __post_init__(self) -> None:
        """Make no rows: their Gram matrix is one of all places."""

    @cached_property
    def X(self) -> FloatArray:
        """(q, k) embeddings of the places along the directions."""
        return self.along(self.embeddings)

    @cached_property
    def cells(self) -> Cells:
        """Places of the same location and groups."""
        return collapse(self.terms)

    @property
    def reference(self) -> FloatArray:
        """Centered embeddings of some places, from which those of parts have a distance."""
        return np.asarray(self.embeddings[_some(len(self.embeddings), EXACT_PLACES)] - self.center)

    def along(self, M: FloatArray) -> FloatArray:
        """Give embeddings, not centered, along the directions."""
        return np.asarray(M @ self.directions - self.center @ self.directions)

    def _spread(self, stage: int, cells: Cells) -> tuple[Spread, FloatArray, FloatArray, IntArray]:
        """Give the covariance of what was seen, X and z there, and the row of every place."""
        mode, seen = self.fits[stage].mode, np.flatnonzero(self.trials[stage] > 0)
        row = np.full(len(cells.index), -1)
        row[seen] = np.arange(len(seen))
        spread = Spread(cells.observed(seen), self.fits[stage].hyperparameters, 1.0 / mode.curvature)
        return spread, self.X[seen], mode.f + mode.alpha / mode.curvature, row

    def moments(self, stage: int, M: FloatArray, place: IntArray) -> Moments:
        """Give mean and variance of the logits of parts, without sampling error."""
        return self.new_moments(stage, self.terms, M, place)

    def new_moments(self, stage: int, terms: Terms, M: FloatArray, place: IntArray) -> Moments:
        """Give mean and variance of the logits of places; ``terms`` are over the fitted and new ones."""
        cells = self.cells if terms is self.terms else collapse(terms)
        spread, X, z, row = self._spread(stage, cells)
        return spread.predict(X, z, self.along(M), cells.index[place], row[place])

    def held_out(self, stage: int, folds: Iterable[IntArray], fixed: Hyperparameters | None) -> Moments:
        """Predict the logit of every place from those outside its fold."""
        q, asked = len(self.embeddings), self.trials[stage] > 0
        mean, variance = np.zeros(q), np.zeros(q)
        for test in folds:
            kept = np.setdiff1d(np.flatnonzero(asked), test)
            counted = Binomial(self.successes[stage][kept], self.trials[stage][kept])
            one = _Question(self.X[kept], self.cells.observed(kept), self.terms, counted)
            found = one.fit(1, fixed)
            spread = Spread(one.cells, found.hyperparameters, 1.0 / found.mode.curvature)
            z = found.mode.f + found.mode.alpha / found.mode.curvature
            at = spread.predict(one.X, z, self.X[test], self.cells.index[test])
            mean[test], variance[test] = at.mean, at.variance
        return Moments(mean, variance)

    def draws(self, stage: int, n_draws: int, seed: int) -> Draws:
        """Draw weights and place effects of one question."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, stage)))
        spread, X, z, row = self._spread(stage, self.cells)
        b, u = spread.draw(X, z, self.cells.index, row, n_draws, rng)
        free = np.sqrt(spread.h.effect_variance) * rng.standard_normal((n_draws, len(self.directions)))
        w = (b - free @ self.directions) @ self.directions.T + free  # of the other directions totals say nothing
        return Draws(w, u, None if self.sampling is None else self.sampling.variance(w, self.embeddings))


class _Question:
    """One question: places observed, the mode at given scales, and the search for them."""

    def __init__(self, X: FloatArray, cells: Cells, terms: Terms, likelihood: Binomial) -> None:
        self.X, self.cells, self.terms, self.likelihood, self.evaluations = X, cells, terms, likelihood, 0
        spread = max(float(np.var(likelihood.start())), 1e-2)
        own = max(float(np.einsum("ij,ij->", X, X)) / len(X), 1e-12)
        self.first = dict.fromkeys(terms.names, spread) | {"effect_variance": spread / own}
        limits = {name: (SMALLEST * v, LARGEST * v) for name, v in self.first.items()}
        if "length" in limits:
            limits["length"] = (0.1 * float(np.quantile(terms.apart, 0.001)), 3.0 * float(terms.apart.max()))
        self.low, self.high = np.log([limits[name] for name in terms.names]).T

    def fit(self, n_restarts: int, fixed: Hyperparameters | None) -> Fit:
        """Find scales and mode, from several lengths; the one of the highest evidence is kept."""
        if fixed is not None:
            mode = self.mode(fixed, self.likelihood.start())
            return Fit(fixed, mode, 0.0, (), (mode.log_evidence,), 1)
        starts = LENGTHS[:n_restarts] if "length" in self.terms.names else LENGTHS[:1]
        found = [self._search(length) for length in starts]
        best = max(found, key=lambda one: one.mode.log_evidence)
        return replace(best, evidences=tuple(one.mode.log_evidence for one in found), evaluations=self.evaluations)

    def mode(self, h: Hyperparameters, f: FloatArray) -> Mode:
        """Find the mode of f by damped Newton steps, beginning at ``f``."""
        every, alpha, height = np.arange(len(f)), np.zeros_like(f), -np.inf
        for step in range(STEPS):
            told = self.likelihood.slopes(f)
            W = np.maximum(told.curvature, LEAST_CURVATURE)
            off = float((np.abs(told.first - alpha) / (told.scale + 1.0)).max())
            z, spread = f + told.first / W, Spread(self.cells, h, 1.0 / W)
            if step and off < TOLERANCE:
                gaussian = spread.regression(self.X, z)[2]
                value = gaussian + 0.5 * float(W @ (z - f) ** 2) - 0.5 * float(np.log(W).sum()) + told.value
                return Mode(f, told.first, W, told.third, np.empty((0, 0)), value, step, off)
            new = spread.predict(self.X, z, self.X, self.cells.index, every).mean
            new_alpha, length = W * (z - new), 1.0
            while True:
                at, a = f + length * (new - f), alpha + length * (new_alpha - alpha)
                value = self.likelihood.slopes(at).value - 0.5 * float(a @ at)
                if not step or value >= height - 1e-9 * abs(height) or length < 1e-6:
                    break
                length *= 0.5
            f, alpha, height = at, a, value
        raise ConvergenceError(
            f"the mode of {len(f):,} places was not found in {STEPS} steps (gradient {off:.1e} of the counts, allowed {TOLERANCE:.0e}); "
            "fix hyperparameters."
        )

    def _search(self, length: float) -> Fit:
        part = {"effect_variance": 0.3, "spatial": 0.3, "nugget": 0.05, "group": 0.1, "second_group": 0.1}
        start = {name: part[name] * self.first[name] for name in self.terms.names if name != "length"}
        if "length" in self.terms.names:
            start["length"] = length * self.terms.typical_distance
        x = np.clip(np.log([start[name] for name in self.terms.names]), self.low, self.high)
        mode, change, rounds = self.mode(self.terms.unpack(x), self.likelihood.start()), np.inf, 0
        limit: tuple[str, ...] = ()
        slope = np.inf
        while change > CLOSE and rounds < ROUNDS:
            rounds += 1
            best = maximize(self._linear(mode), [x], self.low, self.high, self.terms.names, rounds=2)
            limit, slope = best.convergence.at_bounds, best.convergence.slope
            proposed = best.theta
            new, change = self.mode(self.terms.unpack(proposed), mode.f), float(np.abs(proposed - x).max())
            while new.log_evidence < mode.log_evidence - 1e-6 and change > CLOSE:
                proposed = 0.5 * (x + proposed)
                new, change = self.mode(self.terms.unpack(proposed), mode.f), float(np.abs(proposed - x).max())
            if new.log_evidence >= mode.log_evidence - 1e-6:
                mode, x = new, proposed
        return Fit(self.terms.unpack(x), mode, slope, limit, (), 0)

    def _linear(self, mode: Mode) -> Objective:
        """Give the evidence of the linear model at a mode, with its slopes."""
        z, noise = mode.f + mode.alpha / mode.curvature, 1.0 / mode.curvature

        def evidence(x: FloatArray) -> tuple[float, FloatArray]:
            self.evaluations += 1
            value, slope = Spread(self.cells, self.terms.unpack(x), noise).evidence(self.X, z)
            return value, np.array([slope[name] for name in self.terms.names])

        return evidence


def _some(n: int, most: int) -> IntArray:
    """Number some of n, evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def fit_weights(
    M: FloatArray,
    weight: FloatArray,
    terms: Terms,
    successes: FloatArray,
    trials: FloatArray,
    *,
    rank: int | None = None,
    sampling: Sampling | None = None,
    n_restarts: int = 2,
    fixed: Sequence[Hyperparameters] | None = None,
) -> ManyPlaces:
    """Fit every question of the chain; arguments are those of :func:`crosslevel.ecological.regression.model.fit_regression`.

    Parameters
    ----------
    rank : int, optional
        Directions.
    """
    center = weight @ M / weight.sum()
    some = M[_some(len(M), LEARNED)] - center
    k, p = min(rank or DIRECTIONS, M.shape[1]), M.shape[1]
    P = linalg.eigh(some.T @ some, subset_by_index=(p - k, p - 1), check_finite=False)[1][:, ::-1]
    near = nearest_other(M[_some(len(M), EXACT_PLACES)] - center)
    empty = ManyPlaces(M, center, successes, trials, None, terms, (), (), sampling, near, directions=P.copy())
    given = [None] * len(trials) if fixed is None else fixed
    fits, features_off = [], []
    field_off: list[Approximation | None] = []
    for k_, n_, h in zip(successes, trials, given, strict=True):
        seen = np.flatnonzero(n_ > 0)
        one = _Question(empty.X[seen], empty.cells.observed(seen), terms, Binomial(k_[seen], n_[seen]))
        found = one.fit(n_restarts, h)
        fits.append(found)
        features_off.append(_compare(empty, one, found, seen))
        field_off.append(None)
        if empty.cells.points is not None:
            noise, z = 1.0 / found.mode.curvature, found.mode.f + found.mode.alpha / found.mode.curvature
            own, zero = terms.take(seen), np.zeros(len(seen))
            field_off[-1] = measure_approximation(own, one.cells, found.hyperparameters, noise, one.X, z, zero)
    points = tuple((Point(one.hyperparameters, one.mode, 1.0),) for one in fits)
    return replace(
        empty, fits=tuple(fits), points=points, field_error=tuple(field_off), feature_error=tuple(features_off)
    )


def _compare(model: ManyPlaces, one: _Question, found: Fit, seen: IntArray) -> Approximation:
    """Compare posteriors of some places, given their own totals only, with those of all features and the matrix of these places."""
    some = _some(len(seen), COMPARED)
    h, terms, every = found.hyperparameters, model.terms.take(seen[some]), np.arange(len(some))
    counted = Binomial(one.likelihood.successes[some], one.likelihood.trials[some])
    few = _Question(one.X[some], collapse(replace(terms, inducing_points=None)), terms, counted)
    mode = few.mode(h, found.mode.f[some])
    spread = Spread(few.cells, h, 1.0 / mode.curvature)
    at = spread.predict(few.X, mode.f + mode.alpha / mode.curvature, few.X, few.cells.index, every)
    rows = Rows.of(model.embeddings[seen[some]] - model.center)
    exact = moments(rows, terms, h, find_mode(covariance(rows, terms, h), counted), rows.M, every)
    rates = [1.0 / (1.0 + np.exp(-m)) for m in (at.mean, exact.mean)]
    error = np.sqrt(np.mean((np.sqrt(at.variance / exact.variance) - 1.0) ** 2))
    sizes = (len(seen), model.directions.shape[1], len(some))
    return Approximation(*sizes, 100.0 * float(np.sqrt(np.mean((rates[0] - rates[1]) ** 2))), float(error))


def describe_directions(model: ManyPlaces, questions: Sequence[str]) -> list[str]:
    """Say on how many directions the weights stand, and what that changes."""
    said = []
    for name, off, field_off in zip(questions, model.feature_error, model.field_error, strict=True):
        text = (
            f"Weights of {model.embeddings.shape[1]:,} features stand on {off.points:,} directions ({name}): on {off.places:,} of "
            f"{off.locations:,} places it moves posterior means by {off.mean:.2g} percentage points and standard errors by "
            f"{off.std_error:.1%} (root mean square, against all features and the matrix of these places). rank sets their number."
        )
        if field_off is not None:
            text += (
                f" The field stands on {field_off.points:,} points, which moves them by {field_off.mean:.2g} points and "
                f"{field_off.std_error:.1%}."
            )
        said.append(text)
    return said
