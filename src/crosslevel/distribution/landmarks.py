"""Where should the landmarks lie? At k-means centers or at random people; all seeded.

Landmarks, the bandwidth and the columns' scales are learned from a sample of people, drawn by weight.

A second kernel between bags, exp(-|mu_i - mu_j|^2 / (2 t^2)) in the RKHS, lets labels depend on means nonlinearly: the bags'
embeddings become its inputs, with bags as landmarks (Szabo et al. 2016), and what follows is linear in its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.data import checks
from crosslevel.data.bags import Bags
from crosslevel.distribution.features import BagFeatures, LandmarkMap, kernel_values, squared_distances
from crosslevel.errors import InputError, unknown_name
from crosslevel.numerics.features import median_bandwidth
from crosslevel.typing import FloatArray

RULES = ("kmeans", "random", "paper")
COUNTS = (30, 60, 90)
SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Numbers of landmarks and multiples of the median bandwidth that "auto" tries: those of Law et al. (2018)."""
SAMPLE, SAMPLE_VALUES = 60_000, 2**25
"""People that landmarks, bandwidth and scales are learned from, and numbers they may have together: a quarter of a gigabyte."""
PAPER_SEED = 1
LEVELS = ("linear", "rbf")
SECOND_COUNT = 100
"""Bags that serve as landmarks of the second kernel, at most."""
LONE = 1.0 + 1e-9
"""Effective size below which a bag is one person."""
SECOND_SCALES = (1.0, 2.0, 4.0)
"""Multiples of the median distance between bags that are tried; the wider, the closer to the linear model."""


@dataclass(frozen=True)
class FeatureSettings:
    """How the features are learned; the parameters every bag estimator shares.

    Attributes
    ----------
    n_landmarks : "auto", int or sequence of int
        Candidates; "auto" is 30, 60 and 90 (at most as many as there are different people), or all that an array holds.
    landmarks : {"kmeans", "random", "paper"} or array (d, n_columns)
        "paper" takes the people that ``RandomState(1).choice`` picks, as the published experiment does. Of "random", "paper" and
        an array, fewer landmarks are the first of more.
    bandwidth : "median" or float
        "median" is the root of half the median squared distance between two people.
    bandwidth_scale : "auto", float or sequence of float
        Candidates, multiples of the bandwidth; "auto" is .5, .75, 1, 1.25 and 1.5.
    standardize : bool
        Divide each column by its standard deviation.
    random_state : int
    """

    n_landmarks: Any = "auto"
    landmarks: Any = "kmeans"
    bandwidth: Any = "median"
    bandwidth_scale: Any = "auto"
    standardize: bool = True
    random_state: int = 0

    def counts(self) -> tuple[int, ...]:
        """Read ``n_landmarks``."""
        if isinstance(self.n_landmarks, str):
            if self.n_landmarks != "auto":
                raise unknown_name("n_landmarks", self.n_landmarks, ["auto"], "choice")
            return COUNTS
        given = np.atleast_1d(np.asarray(self.n_landmarks))
        if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu" or (given < 1).any():
            raise InputError(
                f"n_landmarks={self.n_landmarks!r} is not 'auto', a positive whole number or a list of them."
            )
        return tuple(sorted({int(g) for g in given}))

    def scales(self) -> tuple[float, ...]:
        """Read ``bandwidth_scale``."""
        if isinstance(self.bandwidth_scale, str):
            if self.bandwidth_scale != "auto":
                raise unknown_name("bandwidth_scale", self.bandwidth_scale, ["auto"], "choice")
            return SCALES
        given = np.atleast_1d(checks.as_numbers(self.bandwidth_scale, "bandwidth_scale"))
        if given.ndim != 1 or not len(given) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(
                f"bandwidth_scale={self.bandwidth_scale!r} is not 'auto', a positive number or a list of them."
            )
        return tuple(sorted({checks.check_positive(float(g), "bandwidth_scale") for g in given}))


def sample_people(bags: Bags, most: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw people by weight, all of them if they are few: values (m, n_columns) and weights (m,)."""
    n = int(bags.offsets[-1])
    if n <= most:
        positive = np.flatnonzero(bags.weights)
        return checks.check_finite(bags.values[:], "X")[positive], np.asarray(bags.weights)[positive]
    # sorted, so that people on disk are read in one direction; once each unless the weights are very uneven
    reach = np.cumsum(bags.weights)
    places = (np.arange(most) + rng.uniform(size=most)) / most * reach[-1]
    rows = np.unique(np.minimum(np.searchsorted(reach, places, side="right"), n - 1))
    return checks.check_finite(bags.values[rows], "X"), np.ones(len(rows))


def median_scale(rows: FloatArray, weights: FloatArray, seed: int) -> float:
    """Compute the root of half the median squared distance between two people; 1 if all coincide."""
    if len(rows) < 2 or not (rows != rows[0]).any():
        return 1.0
    return float(median_bandwidth(rows, weights, random_state=seed) / np.sqrt(2.0))


def choose_landmarks(rule: str, rows: FloatArray, weights: FloatArray, count: int, seed: int) -> FloatArray:
    """Choose at most ``count`` landmarks for people, (d, n_columns).

    Parameters
    ----------
    rule : {"kmeans", "random"}
    rows, weights : (m, n_columns) and (m,)
    count : int
        With fewer different people, those are the landmarks.
    seed : int

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> np.sort(choose_landmarks("kmeans", rows, np.ones(4), 2, 0).ravel()).round(0).tolist()
    [0.0, 5.0]
    """
    if rule not in RULES:
        raise unknown_name("landmarks", rule, RULES, "choice")
    rng = np.random.default_rng(seed)
    if len(rows) <= 4 * count or rule == "random":
        distinct, place = np.unique(rows, axis=0, return_index=True)
        if len(distinct) <= count:
            return rows[np.sort(place)]
    if rule == "kmeans":
        return _kmeans(rows, weights, count, rng)
    # a permutation's beginning, so that few landmarks are the first of many
    order = rng.permutation(len(rows))
    _, first = np.unique(rows[order], axis=0, return_index=True)
    return rows[order[np.sort(first)[:count]]]


def _kmeans(rows: FloatArray, weights: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    from sklearn.cluster import MiniBatchKMeans

    seed = int(rng.integers(2**31 - 1))
    model = MiniBatchKMeans(count, random_state=seed, batch_size=4096, n_init=3, max_iter=100)
    centers = model.fit(rows, sample_weight=weights / weights.mean()).cluster_centers_
    return np.unique(np.asarray(centers, dtype=np.float64), axis=0)


def candidate_maps(bags: Bags, settings: FeatureSettings) -> list[LandmarkMap]:
    """Learn the maps that a model chooses from: every number of landmarks with every bandwidth."""
    seed = settings.random_state
    rng = np.random.default_rng(seed)
    rows, weights = sample_people(bags, max(min(SAMPLE, SAMPLE_VALUES // bags.values.shape[1]), 2), rng)
    weights = weights / weights.max()  # products of weights may overflow
    scale = _column_scale(rows, weights) if settings.standardize else np.ones(rows.shape[1])
    if not settings.standardize:
        _check_spread(rows)
    rows = rows / scale
    bandwidth = _bandwidth(settings.bandwidth, rows, weights, seed)
    sets = _landmark_sets(bags, settings, rows, weights, scale)
    known = {row.tobytes() for row in _rounded(rows)}
    chosen_blindly = (
        isinstance(settings.landmarks, str) and settings.landmarks == "paper"
    )  # from people beyond the sample
    people = [len(U) if chosen_blindly else sum(u.tobytes() in known for u in _rounded(U)) for U in sets]
    return [
        LandmarkMap(U, bandwidth * s, scale, n) for U, n in zip(sets, people, strict=True) for s in settings.scales()
    ]


def _rounded(rows: FloatArray) -> FloatArray:
    """Round to what two ways to the same row share: the center of a cluster of one person is that person."""
    return np.round(rows, 9) + 0.0


def _landmark_sets(
    bags: Bags, settings: FeatureSettings, rows: FloatArray, weights: FloatArray, scale: FloatArray
) -> list[FloatArray]:
    counts: Sequence[int] = settings.counts()
    if not isinstance(settings.landmarks, str):
        given = checks.check_finite(settings.landmarks, "landmarks", 2)
        if given.shape[1] != rows.shape[1] or not len(given):
            raise InputError(
                f"landmarks has shape {given.shape}; pass one row of {rows.shape[1]:,} columns per landmark."
            )
        chosen = [len(given)] if isinstance(settings.n_landmarks, str) else counts
        return _prefixes(given / scale, chosen)
    if settings.landmarks == "random":
        return _prefixes(choose_landmarks("random", rows, weights, max(counts), settings.random_state), counts)
    if settings.landmarks == "paper":
        n = int(bags.offsets[-1])
        picked = np.random.RandomState(PAPER_SEED).choice(n, min(max(counts), n), replace=False)
        return _prefixes(checks.check_finite(bags.values[picked], "X") / scale, counts)
    found = [choose_landmarks(settings.landmarks, rows, weights, c, settings.random_state) for c in counts]
    different: dict[bytes, FloatArray] = {U.tobytes(): U for U in found}
    return list(different.values())


def _prefixes(U: FloatArray, counts: Sequence[int]) -> list[FloatArray]:
    return [np.ascontiguousarray(U[:c]) for c in sorted({min(c, len(U)) for c in counts})]


def _column_scale(rows: FloatArray, weights: FloatArray) -> FloatArray:
    share = weights / weights.sum()
    center = share @ rows
    away = rows - center
    unit = np.abs(away).max(axis=0)
    plain = (unit > 1e-140) & (unit < 1e140)
    unit = np.where(plain | (unit == 0), 1.0, unit)  # the squares of very large and very small columns cannot be held
    sd = unit * np.sqrt(share @ (away / unit) ** 2)
    # a constant column tells people apart as little as one that is left alone
    constant = sd <= 1e-12 * np.maximum(np.abs(center), 1e-300)
    return np.where(constant, np.where(np.abs(center) > 1e100, np.abs(center), 1.0), sd)


def _check_spread(rows: FloatArray) -> None:
    """Refuse columns that are not divided by their standard deviation and whose squares cannot be held."""
    spread = np.ptp(rows / 2.0, axis=0)
    largest = np.abs(rows).max(axis=0)
    bad = ((spread > 0) & (spread < 1e-140)) | (largest > 1e140)
    if bad.any():
        column = int(np.argmax(bad))
        what = "large" if largest[column] > 1 else "small"
        raise InputError(
            f"X: column {column} is too {what} for its squares to be held (largest value {largest[column]:.3g}); change its unit, or pass "
            "standardize=True."
        )


def _bandwidth(given: Any, rows: FloatArray, weights: FloatArray, seed: int) -> float:
    if isinstance(given, str):
        if given != "median":
            raise unknown_name("bandwidth", given, ["median"], "choice")
        return median_scale(rows, weights, seed)
    value = checks.as_numbers(given, "bandwidth")
    if value.size != 1 or not 0 < value.item() < np.inf:
        raise InputError(f"bandwidth={given!r} is not 'median' or a positive number.")
    return checks.check_positive(float(value.item()), "bandwidth")


@dataclass(frozen=True, eq=False)
class SecondLevel:
    """The second kernel's map.

    Attributes
    ----------
    A : (d, r)
        Whitening of the first kernel: ``mu @ A`` has the RKHS's distances.
    V : (q, r)
        Landmarks, whitened embeddings of bags.
    bandwidth : float
        t.
    people : int
        How many of these bags hold one person, whom the embedding gives away.
    """

    A: FloatArray
    V: FloatArray
    bandwidth: float
    people: int = 0

    def _rows_of_people(self) -> dict[str, int]:
        return {"V": self.people}

    def apply(self, features: BagFeatures) -> BagFeatures:
        """Give the second kernel's values in place of the first's means."""
        mu = kernel_values(squared_distances(features.mu @ self.A, self.V), self.bandwidth)
        K = kernel_values(squared_distances(self.V, self.V), self.bandwidth)
        return BagFeatures(mu, features.sizes, K, None, mu.mean(axis=0), features.map, second=self)


def second_levels(candidates: Sequence[BagFeatures], kind: str, seed: int) -> list[BagFeatures]:
    """Put a second kernel on each candidate, of several widths; ``kind="linear"`` leaves them as they are."""
    if kind not in LEVELS:
        raise unknown_name("second_level", kind, LEVELS, "choice")
    if kind == "linear":
        return list(candidates)
    out: list[BagFeatures] = []
    for one in candidates:
        points = one.mu @ one.whiten
        equal = np.ones(len(points))
        width = median_scale(points, equal, seed)
        V = choose_landmarks("random", points, equal, SECOND_COUNT, seed)
        lone = {row.tobytes() for row in points[one.sizes < LONE]}
        people = sum(v.tobytes() in lone for v in V)
        out += [SecondLevel(one.whiten, V, width * scale, people).apply(one) for scale in SECOND_SCALES]
    return out
