"""Distribution regression, fitted: a Gaussian process per question, and what it says about parts of places.

f = X w + r, X the centered embeddings of places, of up to ``EXACT_PLACES`` places with all their features, of more along the leading
directions in which they vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from crosslevel.data.places import Totals
from crosslevel.ecological.collapsed import Approximation, measure_approximation
from crosslevel.ecological.covariance import Hyperparameters, Moments, Terms
from crosslevel.ecological.distance import Seen, seen_places, some_of
from crosslevel.ecological.regression.question import Design, Point, Question
from crosslevel.ecological.regression.sampling import Sampling
from crosslevel.ecological.regression.scales import Fit, fit_scales, points
from crosslevel.typing import FloatArray, Int64Array, IntArray

EXACT_PLACES = 3_000
"""Places whose weights stand on all features, and whose learned scales are uncertain."""
DIRECTIONS = 300
"""Directions of the features that carry the weights of more places."""
LEARNED, COMPARED = 20_000, 1_000
"""Places from which directions are learned, and on which they are compared with all features."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Joint draws from the posterior.

    Attributes
    ----------
    w : (n_draws, p)
        Weights of the centered features.
    u : (n_draws, q)
        What belongs to the places: bias, field, group effect, nugget.
    within : (n_draws,) or None
        Variance of w . phi between people of one place, where the sampling of people counts.
    """

    w: FloatArray
    u: FloatArray
    within: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class RegressionModel:
    """A fitted distribution regression.

    Attributes
    ----------
    embeddings : (q, p)
        Of the places, not centered.
    center : (p,)
        Their weighted mean.
    totals : Totals
    terms : Terms
    fits : tuple of Fit
        One for each question of the chain.
    points : tuple of tuple of Point
        Hyperparameters that stand for their posterior, for each question.
    sampling : Sampling or None
    directions : (p, k) or None
        Orthogonal directions on which weights stand; None where they stand on all features.
    field_error, feature_error : tuple of Approximation or None
        How far the field on points is from the exact one, and weights of directions from those of all features, by question.
    """

    embeddings: FloatArray
    center: FloatArray
    totals: Totals
    terms: Terms
    fits: tuple[Fit, ...]
    points: tuple[tuple[Point, ...], ...]
    sampling: Sampling | None
    directions: FloatArray | None = None
    field_error: tuple[Approximation | None, ...] = ()
    feature_error: tuple[Approximation | None, ...] = ()

    @cached_property
    def design(self) -> Design:
        """Places as questions are asked in them."""
        return Design(self.along(self.embeddings), self.terms)

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """What was asked, each question where anybody was left to answer it."""
        asked = zip(self.totals.successes, self.totals.trials, strict=True)
        return tuple(Question(self.design, np.flatnonzero(n > 0), k, n) for k, n in asked)

    def along(self, M: FloatArray) -> FloatArray:
        """Center embeddings and give them along the directions."""
        if self.directions is None:
            return M - self.center
        return np.asarray(M @ self.directions - self.center @ self.directions)

    def draws(self, stage: int, n_draws: int, seed: int) -> Draws:
        """Draw weights and place effects of one question."""
        rng, question = _generator(seed, 0, stage), self.questions[stage]
        w, u = np.empty((n_draws, self.embeddings.shape[1])), np.empty((n_draws, self.terms.n_places))
        for point, some in self._shared(stage, n_draws):
            b, u[some] = question.draw(point, some.stop - some.start, rng)
            if self.directions is not None:  # of the other directions totals say nothing
                free = np.sqrt(point.hyperparameters.effect_variance) * rng.standard_normal((len(b), w.shape[1]))
                b = (b - free @ self.directions) @ self.directions.T + free
            w[some] = b
        return Draws(w, u, None if self.sampling is None else self.sampling.variance(w, self.embeddings))

    def _shared(self, stage: int, n_draws: int) -> Iterator[tuple[Point, slice]]:
        """Say which draws belong to which point."""
        found = self.points[stage]
        first = 0
        for point, n in zip(found, divide_draws(np.array([p.weight for p in found]), n_draws).tolist(), strict=True):
            if n:
                yield point, slice(first, first + n)
            first += n

    def logits(
        self,
        stage: int,
        draws: Draws,
        M: FloatArray,
        place: IntArray,
        effective: FloatArray,
        seed: Sequence[int],
    ) -> FloatArray:
        """Draw the logits of parts, (n_draws, m), with the sampling error of their embeddings.

        They do not depend on which other places are asked for at the same time.

        Parameters
        ----------
        stage : int
        draws : Draws
            Of :meth:`draws`.
        M : (m, p)
            Embeddings, not centered.
        place : (m,) int
        effective : (m,)
            Kish's number of people behind each embedding.
        seed : (seed, number)
            Of the noise that belongs to these parts: the caller's seed, and a number of the partition.
        """
        f = draws.w @ (M - self.center).T + draws.u[:, place]
        if self.sampling is None or draws.within is None:
            return f
        each = np.sqrt(draws.within)
        size = np.sqrt(self.sampling.spreads(M, effective) / self.sampling.spread / np.maximum(effective, 1.0))
        order = np.argsort(place, kind="stable")
        for parts in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            rng = _generator(seed[0], 2, stage, *seed[1:], int(place[parts[0]]))
            f[:, parts] += (each[:, None] * size[parts]) * rng.standard_normal((len(f), len(parts)))
        return f

    def moments(self, stage: int, M: FloatArray, place: IntArray, terms: Terms | None = None) -> Moments:
        """Give mean and variance of the logits of parts, without sampling error.

        Parameters
        ----------
        M : (m, p)
            Embeddings, not centered.
        place : (m,) int
        terms : Terms, optional
            Over the fitted places and new ones, where parts are of these too.
        """
        return self.questions[stage].predict(self.points[stage], self.along(M), place, terms)

    def held_out(self, stage: int, folds: Iterable[IntArray], fixed: Hyperparameters | None) -> Moments:
        """Predict the logit of every place from those outside its fold."""
        q, asked = len(self.embeddings), self.questions[stage].places
        mean, variance = np.zeros(q), np.zeros(q)
        for test in folds:
            kept = Question(
                self.design, np.setdiff1d(asked, test), self.totals.successes[stage], self.totals.trials[stage]
            )
            # from no start of the whole fit's: that one has seen the places left out
            found = fit_scales(kept, n_restarts=1, fixed=fixed)
            at = kept.predict(_points(kept, found, fixed), self.design.X[test], test)
            mean[test], variance[test] = at.mean, at.variance
        return Moments(mean, variance)

    @cached_property
    def seen(self) -> Seen:
        """The places, from which distances are taken."""
        return seen_places(self.embeddings - self.center)

    def distance(self, M: FloatArray, effective: FloatArray) -> FloatArray:
        """Say how far each embedding lies from the nearest place's, in units of the median distance between neighbors.

        Of many places, from some. What the sampling of the part's people adds to a squared distance is taken off.
        """
        sampled = np.zeros(len(M))
        if self.sampling is not None:
            sampled = self.sampling.spreads(M, effective) / np.maximum(effective, 1.0)
        return self.seen.distance(M - self.center, sampled)


def _generator(seed: int, *key: int) -> np.random.Generator:
    """Give a generator of its own for every use: seeds that differ by trailing zeros only would give one stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def divide_draws(weights: FloatArray, n: int) -> Int64Array:
    """Divide n draws among points by their weights, n in all.

    Examples
    --------
    >>> divide_draws(np.array([0.5, 0.2, 0.3]), 7).tolist()
    [4, 1, 2]
    """
    ends = np.floor(np.cumsum(weights) * n + 0.5).astype(np.int64)
    ends[-1] = n
    return np.diff(ends, prepend=0)


def fit_regression(
    M: FloatArray,
    weight: FloatArray,
    terms: Terms,
    totals: Totals,
    *,
    rank: int | None = None,
    sampling: Sampling | None = None,
    n_restarts: int = 2,
    fixed: Sequence[Hyperparameters] | None = None,
) -> RegressionModel:
    """Fit a process to every question of the chain.

    Parameters
    ----------
    M : (q, p)
        Embeddings of the places.
    weight : (q,)
        Their people.
    terms : Terms
    totals : Totals
    rank : int, optional
        Leading directions of the features that carry the weights; all features where they are no fewer.
    sampling : Sampling, optional
    n_restarts : int
        As in :func:`crosslevel.ecological.regression.scales.fit_scales`.
    fixed : sequence of Hyperparameters, optional
        One for each question, taken as they are.
    """
    center, p = weight @ M / weight.sum(), M.shape[1]
    k = min(p, rank or (p if len(M) <= EXACT_PLACES else DIRECTIONS))
    directions = None
    if k < p:
        some = M[some_of(len(M), LEARNED)] - center
        leading = linalg.eigh(some.T @ some, subset_by_index=(p - k, p - 1), check_finite=False)[1]
        directions = leading[:, ::-1].copy()
    model = RegressionModel(M, center, totals, terms, (), (), sampling, directions)
    asked, given = model.questions, [None] * len(totals.trials) if fixed is None else fixed
    fits = tuple(fit_scales(one, n_restarts=n_restarts, fixed=h) for one, h in zip(asked, given, strict=True))
    both = list(zip(asked, fits, strict=True))
    found = replace(
        model,
        fits=fits,
        points=tuple(_points(*one, h) for one, h in zip(both, given, strict=True)),
        field_error=tuple(_field_error(*one) for one in both),
        feature_error=tuple(None if directions is None else _feature_error(model, *one) for one in both),
    )
    vars(found).update(design=model.design, questions=asked)  # made once
    return found


def _points(question: Question, found: Fit, fixed: Hyperparameters | None) -> tuple[Point, ...]:
    """Let learned scales be uncertain, but those of many places."""
    if fixed is not None or len(question.design.X) > EXACT_PLACES:
        return (Point(found.hyperparameters, found.mode, 1.0),)
    return points(question, found)


def _field_error(one: Question, found: Fit) -> Approximation | None:
    """Compare the field on points with the exact one, where it stands on points."""
    if one.cells.points is None:
        return None
    mode, own = found.mode, one.terms.take(one.places)
    zero = np.zeros(len(one.places))
    return measure_approximation(own, one.cells, found.hyperparameters, mode.noise, one.X, mode.seen, zero)


def _feature_error(model: RegressionModel, one: Question, found: Fit) -> Approximation:
    """Compare posteriors of some places, given their own totals only, with those of all features and the exact field."""
    some = some_of(len(one.places), COMPARED)
    h, every, seen = found.hyperparameters, np.arange(len(some)), one.places[some]
    terms = replace(model.terms.take(seen), inducing_points=None)
    counted, at = (one.likelihood.successes[some], one.likelihood.trials[some]), []
    for X in (one.X[some], model.embeddings[seen] - model.center):
        few = Question(Design(X, terms), every, *counted)
        at.append(few.predict((Point(h, few.mode(h, found.mode.f[some]), 1.0),), X, every))
    rates = [1.0 / (1.0 + np.exp(-m.mean)) for m in at]
    error = np.sqrt(np.mean((np.sqrt(at[0].variance / at[1].variance) - 1.0) ** 2))
    sizes = (len(one.places), one.X.shape[1], len(some))
    return Approximation(*sizes, 100.0 * float(np.sqrt(np.mean((rates[0] - rates[1]) ** 2))), float(error))


def describe_directions(model: RegressionModel, questions: Sequence[str]) -> list[str]:
    """Say on how many directions the weights stand and on how many points the field, and what that changes."""
    said = []
    for name, off, field_off in zip(questions, model.feature_error, model.field_error, strict=True):
        text = []
        if off is not None:
            text.append(
                f"Weights of {model.embeddings.shape[1]:,} features stand on {off.points:,} directions ({name}): on {off.places:,} of "
                f"{off.locations:,} places it moves posterior means by {off.mean:.2g} percentage points and standard errors by "
                f"{off.std_error:.1%} (root mean square, against all features and the matrix of these places). rank sets their number."
            )
        if field_off is not None:
            text.append(
                f"The field stands on {field_off.points:,} points, which moves posterior means by {field_off.mean:.2g} percentage points "
                f"and standard errors by {field_off.std_error:.1%}."
            )
        said += [" ".join(text)] if text else []
    return said
