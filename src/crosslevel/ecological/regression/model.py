"""Distribution regression, fitted: a Gaussian process per question, and what it says about parts of places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from crosslevel.ecological.covariance import Hyperparameters, Moments, Rows, Terms, divide_draws
from crosslevel.ecological.regression.evidence import Evidence
from crosslevel.ecological.regression.posterior import Draws, Point, draw, draw_product, latent, mixed_moments, points
from crosslevel.ecological.scales import Fit, fit_scales
from crosslevel.numerics.features.maps import EIGENVALUE_CUT
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray, IntArray

PEOPLE_PER_DIRECTION = 10
"""People behind each direction that is kept of how they vary; with one each, a direction could be traced to a person."""


@dataclass(frozen=True, eq=False)
class PeopleSpread:
    """How features vary between people: their leading directions, and the same variance in every other direction.

    Attributes
    ----------
    root : (k, p)
        Orthogonal directions, each as long as the standard deviation along it.
    rest : float
        Variance along each of the p - k directions that are left.
    """

    root: FloatArray
    rest: float

    def variance(self, w: FloatArray) -> FloatArray:
        """Give the variance of w . phi between people, (n_draws,), for the weights w (n_draws, p)."""
        along = np.square(w @ self.root.T)
        lengths = np.square(self.root).sum(axis=1)
        left = np.square(w).sum(axis=1) - (along / lengths).sum(axis=1)
        return np.asarray(along.sum(axis=1) + self.rest * left, dtype=np.float64)


def spread_of(features: FloatArray) -> PeopleSpread:
    """Summarize people's features (n_people, p) by at most one direction for every ten people.

    All directions of n people would tell them apart: features lie in their span for these people and for nobody else.

    Examples
    --------
    >>> features = np.repeat([[0.0, 0.0], [2.0, 0.0]], 10, axis=0)
    >>> spread_of(features).variance(np.array([[1.0, 5.0], [3.0, 0.0]]))
    array([1., 9.])
    """
    n, p = features.shape
    centered = features - features.mean(axis=0)
    if p <= n:
        values, vectors = np.linalg.eigh(centered.T @ centered / n)
        root = (np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1]
    else:
        values, vectors = np.linalg.eigh(centered @ centered.T / n)
        root = vectors.T[::-1] @ centered / np.sqrt(n)
    values = np.maximum(values[::-1], 0.0)
    k = min(int(np.count_nonzero(values > EIGENVALUE_CUT * values[0])), n // PEOPLE_PER_DIRECTION)
    return PeopleSpread(root[:k].copy(), float(values[k:].sum()) / max(p - k, 1))


@dataclass(frozen=True, eq=False)
class Sampling:
    """What the sampling of people does to a part's embedding.

    Attributes
    ----------
    between : (q,)
        Weight of each place in the variance between places, adding up to one.
    spread : float
        Mean squared distance of people's features from their place's mean.
    unit : bool
        Whether all features have length one, so that a part's own spread is 1 - |mu|^2.
    scatter : float
        What the sampling of people adds to the variance between places' means, as a share of that within: mean of 1 / n.
    people : PeopleSpread
        How the features of people vary; no person's own features.
    """

    between: FloatArray
    spread: float
    unit: bool = True
    scatter: float = 0.0
    people: PeopleSpread = field(default_factory=lambda: PeopleSpread(np.empty((0, 0)), 0.0))

    def variance(self, w: FloatArray, M: FloatArray) -> FloatArray:
        """Give the variance of w . phi between people of one place, (n_draws,); M (q, p) are the places' embeddings."""
        people = self.people.variance(w)
        places = w @ M.T
        mean = places @ self.between
        within = people - (places - mean[:, None]) ** 2 @ self.between
        return np.maximum(within / (1.0 - self.scatter), 0.05 * people)

    def spreads(self, M: FloatArray, effective: FloatArray) -> FloatArray:
        """Give the mean squared distance of people's features from the mean of their part, (m,).

        A mean of n people lies too near to them by 1 / n, and one person tells nothing: one of ordinary spread is added.

        Parameters
        ----------
        M : (m, p)
            Embeddings of the parts, not centered.
        effective : (m,)
        """
        if not self.unit:
            return np.full(len(M), self.spread)
        own = np.maximum(1.0 - np.einsum("ij,ij->i", M, M), 0.0)
        return own + self.spread / np.maximum(effective, 1.0)


def sampling_of(
    features: FloatArray, M: FloatArray, weight: FloatArray, effective: FloatArray | None = None
) -> Sampling:
    """Prepare the sampling error from people's features and the places' (uncentered) embeddings.

    Parameters
    ----------
    features : (n_people, p)
    M : (q, p)
    weight : (q,)
    effective : (q,), optional
        Kish's number of people behind each of M; taken as many when not given.
    """
    lengths = np.einsum("ij,ij->i", features, features)
    unit = bool(np.allclose(lengths, 1.0, atol=1e-3))
    between = weight / weight.sum()
    scatter = 0.0 if effective is None else min(float(between @ (1.0 / np.maximum(effective, 1.0))), 0.5)
    within = (1.0 if unit else float(lengths.mean())) - float(between @ np.einsum("ij,ij->i", M, M))
    return Sampling(between, max(within / (1.0 - scatter), 1e-12), unit, scatter, spread_of(features))


@dataclass(frozen=True, eq=False)
class Observed:
    """What was observed, for each question.

    Attributes
    ----------
    rows : tuple of Rows
        Places (and evidence) observed.
    observed : tuple of (n,) int
        Place of each row; -1 for evidence.
    likelihoods : tuple of Binomial
        What was counted.
    """

    rows: tuple[Rows, ...]
    observed: tuple[IntArray, ...]
    likelihoods: tuple[Binomial, ...]


@dataclass(frozen=True, eq=False)
class RegressionModel:
    """A fitted distribution regression.

    Attributes
    ----------
    embeddings : (q, p)
        Of the places, not centered.
    center : (p,)
        Their weighted mean.
    successes, trials : (n_stages, q)
        What was counted.
    evidence : Evidence or None
    terms : Terms
    fits : tuple of Fit
        One for each question of the chain.
    points : tuple of tuple of Point
        Hyperparameters that stand for their posterior, for each question.
    sampling : Sampling or None
    nearest : float
        Median distance of a place's embedding to the nearest other place's.
    seen : Observed
        Rows of every question; made from the above.
    """

    embeddings: FloatArray
    center: FloatArray
    successes: FloatArray
    trials: FloatArray
    evidence: Evidence | None
    terms: Terms
    fits: tuple[Fit, ...]
    points: tuple[tuple[Point, ...], ...]
    sampling: Sampling | None
    nearest: float
    seen: Observed | None = None

    _unsaved = ("seen",)

    def __post_init__(self) -> None:
        if self.seen is None:
            places = Rows.of(self.M)
            seen = observe(places, self.center, self.successes, self.trials, self.evidence)
            object.__setattr__(self, "seen", seen)

    @cached_property
    def M(self) -> FloatArray:
        """(q, p) centered embeddings of the places."""
        return self.embeddings - self.center

    @property
    def reference(self) -> FloatArray:
        """Centered embeddings from which those of parts have a distance."""
        return self.M

    @property
    def rows(self) -> tuple[Rows, ...]:
        """Places (and evidence) observed, for each question."""
        assert self.seen is not None
        return self.seen.rows

    def draws(self, stage: int, n_draws: int, seed: int) -> Draws | None:
        """Draw weights and place effects of one question; None where parts must be drawn together (product kernel)."""
        if self.terms.product:
            return None
        rng, rows = _generator(seed, 0, stage), self.rows[stage]
        w, u = np.empty((n_draws, self.M.shape[1])), np.empty((n_draws, self.terms.n_places))
        for point, some in self._shared(stage, n_draws):
            mode = point.whole_mode(rows, self.terms)
            one = draw(rows, self.terms, point.hyperparameters, mode, some.stop - some.start, rng)
            w[some], u[some] = one.w, one.u
        return Draws(w, u, None if self.sampling is None else self.sampling.variance(w, self.M))

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
        draws: Draws | None,
        M: FloatArray,
        place: IntArray,
        effective: FloatArray,
        n_draws: int,
        seed: Sequence[int],
    ) -> FloatArray:
        """Draw the logits of parts, (n_draws, m), with the sampling error of their embeddings.

        Without a product kernel they do not depend on which other places are asked for at the same time.

        Parameters
        ----------
        stage : int
        draws : Draws or None
            Of :meth:`draws`.
        M : (m, p)
            Embeddings, not centered.
        place : (m,) int
        effective : (m,)
            Kish's number of people behind each embedding.
        n_draws : int
        seed : (seed, number)
            Of the noise that belongs to these parts: the caller's seed, and a number of the partition.
        """
        centered = M - self.center
        if draws is None:
            f, rows = np.empty((n_draws, len(M))), self.rows[stage]
            rng = _generator(seed[0], 1, stage, *seed[1:])
            for point, some in self._shared(stage, n_draws):
                mode, n = point.whole_mode(rows, self.terms), some.stop - some.start
                f[some] = draw_product(rows, self.terms, point.hyperparameters, mode, centered, place, n, rng)
        else:
            f = latent(draws, centered, place)
        if self.sampling is None:
            return f
        each = np.sqrt(self._within(stage, draws, n_draws))
        size = np.sqrt(self.sampling.spreads(M, effective) / self.sampling.spread / np.maximum(effective, 1.0))
        order = np.argsort(place, kind="stable")
        for parts in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            rng = _generator(seed[0], 2, stage, *seed[1:], int(place[parts[0]]))
            f[:, parts] += (each[:, None] * size[parts]) * rng.standard_normal((n_draws, len(parts)))
        return f

    def _within(self, stage: int, draws: Draws | None, n_draws: int) -> FloatArray:
        """Give the variance of w . phi between people of one place in each draw, (n_draws,)."""
        if draws is not None and draws.within is not None:
            return draws.within
        within = np.empty(n_draws)  # what the prior expects, where weights have no draws
        for point, some in self._shared(stage, n_draws):
            within[some] = point.hyperparameters.effect_variance * (
                0.0 if self.sampling is None else self.sampling.spread
            )
        return within

    def moments(self, stage: int, M: FloatArray, place: IntArray) -> Moments:
        """Give mean and variance of the logits of parts, without sampling error."""
        return mixed_moments(self.rows[stage], self.terms, self.points[stage], M - self.center, place)

    def new_moments(self, stage: int, terms: Terms, M: FloatArray, place: IntArray) -> Moments:
        """Give mean and variance of the logits of places that were not observed.

        Parameters
        ----------
        terms : Terms
            Over the fitted places and the new ones.
        M : (m, p)
            Embeddings of the new, not centered.
        place : (m,) int
            Their numbers among all.
        """
        seen = self.rows[stage]
        if seen.A is None:
            seen = replace(seen, A=np.arange(len(self.embeddings)))
        elif seen.A.ndim == 2:
            seen = replace(seen, A=np.hstack([seen.A, np.zeros((len(seen.A), len(M)))]))
        return mixed_moments(seen, terms, self.points[stage], M - self.center, place)

    def held_out(self, stage: int, folds: Iterable[IntArray], fixed: Hyperparameters | None) -> Moments:
        """Predict the logit of every place from those outside its fold."""
        assert self.seen is not None
        counted, q = self.seen.likelihoods[stage], len(self.embeddings)
        mean, variance = np.zeros(q), np.zeros(q)
        for test in folds:
            kept = np.flatnonzero(~np.isin(self.seen.observed[stage], test))
            rows, likelihood = self.rows[stage].take(kept), Binomial(counted.successes[kept], counted.trials[kept])
            # from no start of the whole fit's: that one has seen the places left out
            found = fit_scales(rows, self.terms, likelihood, n_restarts=1, fixed=fixed)
            likely = points(rows, self.terms, likelihood, found)
            at = mixed_moments(rows, self.terms, likely, self.M[test], test)
            mean[test], variance[test] = at.mean, at.variance
        return Moments(mean, variance)

    def distance(self, M: FloatArray, effective: FloatArray) -> FloatArray:
        """Say how far each embedding lies from the nearest place's, in units of the median distance between neighbors.

        What the sampling of the part's people adds to a squared distance is taken off.
        """
        own = self.reference
        centered = M - self.center
        square = (
            np.einsum("ij,ij->i", centered, centered)[:, None]
            + np.einsum("ij,ij->i", own, own)[None, :]
            - 2.0 * centered @ own.T
        ).min(axis=1)
        if self.sampling is not None:
            square = square - self.sampling.spreads(M, effective) / np.maximum(effective, 1.0)
        return np.sqrt(np.maximum(square, 0.0)) / max(self.nearest, 1e-12)


def _generator(seed: int, *key: int) -> np.random.Generator:
    """Give a generator of its own for every use: seeds that differ by trailing zeros only would give one stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def fit_regression(
    M: FloatArray,
    weight: FloatArray,
    terms: Terms,
    successes: FloatArray,
    trials: FloatArray,
    *,
    sampling: Sampling | None = None,
    evidence: Evidence | None = None,
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
    successes, trials : (n_stages, q)
    sampling : Sampling, optional
    evidence : Evidence, optional
        Further rows: what is known of subgroups.
    n_restarts : int
        As in :func:`crosslevel.ecological.scales.fit_scales`.
    fixed : sequence of Hyperparameters, optional
        One for each question, taken as they are.
    """
    center = weight @ M / weight.sum()
    places = Rows.of(M - center)
    nearest = nearest_other(places.M, places.gram)
    seen = observe(places, center, successes, trials, evidence)
    given = [None] * len(trials) if fixed is None else fixed
    fits = tuple(
        fit_scales(rows, terms, likelihood, n_restarts=n_restarts, fixed=h)
        for rows, likelihood, h in zip(seen.rows, seen.likelihoods, given, strict=True)
    )
    likely = tuple(points(*one) for one in zip(seen.rows, [terms] * len(fits), seen.likelihoods, fits, strict=True))
    return RegressionModel(M, center, successes, trials, evidence, terms, fits, likely, sampling, nearest, seen)


def nearest_other(M: FloatArray, gram: FloatArray | None = None) -> float:
    """Give the median distance of a row of M, (n, p), to the nearest other one."""
    gram = M @ M.T if gram is None else gram
    own = np.diag(gram)
    square = own[:, None] + own[None, :] - 2.0 * gram
    np.fill_diagonal(square, np.inf)
    return float(np.median(np.sqrt(np.maximum(square.min(axis=1), 0.0)))) if len(M) > 1 else 0.0


def observe(
    places: Rows, center: FloatArray, successes: FloatArray, trials: FloatArray, evidence: Evidence | None
) -> Observed:
    """Put places and evidence together, and keep for every question those who were asked.

    Parameters
    ----------
    places : Rows
        Centered embeddings.
    center : (p,)
    successes, trials : (n_stages, q)
    evidence : Evidence or None
    """
    rows, k, n = places, successes, trials
    if evidence is not None:
        tied = np.vstack([np.eye(len(places.M)), evidence.A])
        rows = Rows.of(np.vstack([places.M, evidence.M - center]), tied)
        k, n = np.hstack([k, evidence.successes]), np.hstack([n, evidence.trials])
    owner = np.concatenate([np.arange(len(places.M)), np.full(len(rows.M) - len(places.M), -1)]).astype(np.intp)
    asked = [np.flatnonzero(some > 0) for some in n]
    return Observed(
        tuple(rows if len(i) == len(rows.M) else rows.take(i) for i in asked),
        tuple(owner[i] for i in asked),
        tuple(Binomial(k[stage][i], n[stage][i]) for stage, i in enumerate(asked)),
    )
