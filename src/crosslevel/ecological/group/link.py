"""The group link, fitted: a process per question, and what it says about parts of places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from crosslevel.ecological.group.covariance import Hyperparameters, Rows, Terms
from crosslevel.ecological.group.fit import Fit, fit
from crosslevel.ecological.group.posterior import Draws, Moments, draw, draw_product, latent
from crosslevel.ecological.group.scales import Point, divide, mixed_moments, points
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray, IntArray

__all__ = ["GroupModel", "Observed", "Sampling", "fit_group", "observe", "sampling_of"]

Extra = tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None


@dataclass(frozen=True, eq=False)
class Sampling:
    """What the sampling of people does to a part's embedding.

    Attributes
    ----------
    features : (n_people, p)
        Features of a weighted sample of people, for the variance of w . phi between people.
    between : (q,)
        Weight of each place in the variance between places, adding up to one.
    spread : float
        Mean squared distance of people's features from their place's mean.
    unit : bool
        Whether all features have length one, so that a part's own spread is 1 - |mu|^2.
    scatter : float
        What the sampling of people adds to the variance between places' means, as a share of that within: mean of 1 / n.
    """

    features: FloatArray
    between: FloatArray
    spread: float
    unit: bool = True
    scatter: float = 0.0

    def variance(self, w: FloatArray, M: FloatArray) -> FloatArray:
        """Give the variance of w . phi between people of one place, (n_draws,); M (q, p) are the places' embeddings."""
        people = (w @ self.features.T).var(axis=1)
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
            Embeddings of the parts, not centred.
        effective : (m,)
        """
        if not self.unit:
            return np.full(len(M), self.spread)
        own = np.maximum(1.0 - np.einsum("ij,ij->i", M, M), 0.0)
        return own + self.spread / np.maximum(effective, 1.0)


def sampling_of(
    features: FloatArray, M: FloatArray, weight: FloatArray, effective: FloatArray | None = None
) -> Sampling:
    """Prepare the sampling error from people's features and the places' (uncentred) embeddings.

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
    return Sampling(features, between, max(within / (1.0 - scatter), 1e-12), unit, scatter)


@dataclass(frozen=True, eq=False)
class GroupModel:
    """A fitted group link.

    Attributes
    ----------
    centre : (p,)
        Weighted mean of the places' embeddings.
    M : (q, p)
        Centred embeddings of the places.
    rows : tuple of Rows
        Places (and evidence) observed, for each question of the chain.
    observed : tuple of (n,) int
        Place of each row; -1 for evidence.
    likelihoods : tuple of Binomial
        What was counted.
    terms : Terms
    fits : tuple of Fit
        One for each question of the chain.
    sampling : Sampling or None
    nearest : float
        Median distance of a place's embedding to the nearest other place's.
    kept : dict
        Points of the hyperparameters' posterior by question, once they were asked for.
    """

    centre: FloatArray
    M: FloatArray
    rows: tuple[Rows, ...]
    observed: tuple[IntArray, ...]
    likelihoods: tuple[Binomial, ...]
    terms: Terms
    fits: tuple[Fit, ...]
    sampling: Sampling | None
    nearest: float
    kept: dict[int, tuple[Point, ...]] = field(default_factory=dict, repr=False)

    def points(self, stage: int) -> tuple[Point, ...]:
        """Give the points that stand for the hyperparameters' posterior."""
        if stage not in self.kept:
            self.kept[stage] = points(self.rows[stage], self.terms, self.likelihoods[stage], self.fits[stage])
        return self.kept[stage]

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
        found = self.points(stage)
        first = 0
        for point, n in zip(found, divide(np.array([p.weight for p in found]), n_draws).tolist(), strict=True):
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
            Embeddings, not centred.
        place : (m,) int
        effective : (m,)
            Kish's number of people behind each embedding.
        n_draws : int
        seed : (seed, number)
            Of the noise that belongs to these parts: the caller's seed, and a number of the partition.
        """
        centred, rows = M - self.centre, self.rows[stage]
        if draws is None:
            f = np.empty((n_draws, len(M)))
            rng = _generator(seed[0], 1, stage, *seed[1:])
            for point, some in self._shared(stage, n_draws):
                mode, n = point.whole_mode(rows, self.terms), some.stop - some.start
                f[some] = draw_product(rows, self.terms, point.hyperparameters, mode, centred, place, n, rng)
        else:
            f = latent(draws, centred, place)
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
            within[some] = point.hyperparameters.embedding * (0.0 if self.sampling is None else self.sampling.spread)
        return within

    def moments(self, stage: int, M: FloatArray, place: IntArray) -> Moments:
        """Give mean and variance of the logits of parts, without sampling error."""
        return mixed_moments(self.rows[stage], self.terms, self.points(stage), M - self.centre, place)

    def distance(self, M: FloatArray, effective: FloatArray) -> FloatArray:
        """Say how far each embedding lies from the nearest place's, in units of the median distance between neighbours.

        What the sampling of the part's people adds to a squared distance is taken off.
        """
        own = self.M
        centred = M - self.centre
        square = (
            np.einsum("ij,ij->i", centred, centred)[:, None]
            + np.einsum("ij,ij->i", own, own)[None, :]
            - 2.0 * centred @ own.T
        ).min(axis=1)
        if self.sampling is not None:
            square = square - self.sampling.spreads(M, effective) / np.maximum(effective, 1.0)
        return np.sqrt(np.maximum(square, 0.0)) / max(self.nearest, 1e-12)


def _generator(seed: int, *key: int) -> np.random.Generator:
    """Give a generator of its own for every use: seeds that differ by trailing zeros only would give one stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def fit_group(
    M: FloatArray,
    weight: FloatArray,
    terms: Terms,
    successes: FloatArray,
    trials: FloatArray,
    *,
    sampling: Sampling | None = None,
    extra: Extra = None,
    n_starts: int = 2,
    fixed: Sequence[Hyperparameters] | None = None,
) -> GroupModel:
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
    extra : (M, A, successes, trials), optional
        Further rows (r, p), (r, q), (n_stages, r), (n_stages, r): what is known of subgroups.
    n_starts : int
        As in :func:`crosslevel.ecological.group.fit.fit`.
    fixed : sequence of Hyperparameters, optional
        One for each question, taken as they are.
    """
    centre = weight @ M / weight.sum()
    places = Rows.of(M - centre)
    own = np.diag(places.gram)
    square = own[:, None] + own[None, :] - 2.0 * places.gram
    np.fill_diagonal(square, np.inf)
    nearest = float(np.median(np.sqrt(np.maximum(square.min(axis=1), 0.0)))) if len(M) > 1 else 0.0
    seen = observe(places, centre, successes, trials, extra)
    given = [None] * len(trials) if fixed is None else fixed
    fits = tuple(
        fit(rows, terms, likelihood, n_starts=n_starts, fixed=h)
        for rows, likelihood, h in zip(seen.rows, seen.likelihoods, given, strict=True)
    )
    return GroupModel(centre, places.M, seen.rows, seen.observed, seen.likelihoods, terms, fits, sampling, nearest)


@dataclass(frozen=True, eq=False)
class Observed:
    """What was observed, for each question: see the attributes of :class:`GroupModel`."""

    rows: tuple[Rows, ...]
    observed: tuple[IntArray, ...]
    likelihoods: tuple[Binomial, ...]


def observe(places: Rows, centre: FloatArray, successes: FloatArray, trials: FloatArray, extra: Extra) -> Observed:
    """Put places and evidence together, and keep for every question those who were asked.

    Parameters
    ----------
    places : Rows
        Centred embeddings.
    centre : (p,)
    successes, trials : (n_stages, q)
    extra
        As in :func:`fit_group`.
    """
    rows, k, n = places, successes, trials
    if extra is not None:
        rows = Rows.of(np.vstack([places.M, extra[0] - centre]), np.vstack([np.eye(len(places.M)), extra[1]]))
        k, n = np.hstack([k, extra[2]]), np.hstack([n, extra[3]])
    owner = np.concatenate([np.arange(len(places.M)), np.full(len(rows.M) - len(places.M), -1)]).astype(np.intp)
    asked = [np.flatnonzero(some > 0) for some in n]
    return Observed(
        tuple(rows if len(i) == len(rows.M) else rows.take(i) for i in asked),
        tuple(owner[i] for i in asked),
        tuple(Binomial(k[stage][i], n[stage][i]) for stage, i in enumerate(asked)),
    )
