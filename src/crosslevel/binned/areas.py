"""Share counts of large areas out to the small areas inside them, whose populations are known: areal interpolation.

y_b of the N_b people of parent area b belong to a group. The log odds of child area a are

    f_a = mean + s g_a + t e_a,

g_a the mean of a Gaussian process over the polygon of a, e_a white. The chance of a parent is the population-weighted mean of
expit(f_a) over its children, and y_b ~ Binomial(N_b, that). Kernel, s, lengthscale and t are averaged over a grid by evidence
times prior; they are never chosen. Where parents show no smooth pattern the white part takes over, and the answer tends to the
nested rate. Totals are facts: the logits of a parent's children are shifted together until they add up, in every draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import special

from crosslevel.binned.counts.candidates import prior_nodes
from crosslevel.binned.counts.likelihoods import BinomialBins, check_size
from crosslevel.binned.counts.modes import find_modes, posterior_covariance
from crosslevel.binned.regions.base import Regions, align_to_regions
from crosslevel.binned.regions.basis import correlations_by_points, region_correlations
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import holders
from crosslevel.data.checks import (
    as_numbers,
    check_counts,
    check_kind,
    check_length,
    check_level,
    check_successes,
    check_whole,
    read_seed,
)
from crosslevel.data.frames import fingerprint
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray, Int64Array, RandomState

__all__ = ["AreaCorrelations", "SharedOut", "area_correlations", "nested_rate", "share_out", "shared_estimates"]


KERNELS = ("matern12", "matern32", "eq")
SCALE = (np.log(0.3), 0.7)
"""Prior of log s and of log t: mean and standard deviation, on the scale of log odds."""
LENGTH = (np.log(0.2), 0.5)
"""Prior of the log of the lengthscale in units of the extent of the areas."""
REACH = 2.0
LEVEL = 4.0
"""Prior variance of the common log odds about that of all areas together."""
KEPT = 1e-4
"""Candidates with less posterior weight are left out of the average."""


@dataclass(frozen=True, eq=False)
class AreaCorrelations:
    """Correlations of small areas' means under every kernel and lengthscale to be averaged over.

    Attributes
    ----------
    R : (r, A, A)
    kernel : r names
    length, log_prior : (r,)
    error : float
        Largest relative error of the features they were made with.
    """

    R: FloatArray
    kernel: tuple[str, ...]
    length: FloatArray
    log_prior: FloatArray
    error: float


@dataclass(frozen=True, eq=False)
class SharedOut:
    """Counts of small areas.

    Attributes
    ----------
    draws : (n_draws, A)
        Expected counts, adding up to every parent's total in every draw.
    population : (A,)
    parent : (A,)
    weights : (n,)
        Posterior weight of every candidate.
    candidates : tuple of (kernel, s, lengthscale, t)
    basis_error : float
        Largest relative error of the features.
    """

    draws: FloatArray
    population: FloatArray
    parent: Int64Array
    weights: FloatArray
    candidates: tuple[tuple[str, float, float, float], ...]
    basis_error: float

    @property
    def mean(self) -> FloatArray:
        """Expected counts, (A,)."""
        return self.draws.mean(axis=0)

    @property
    def monte_carlo_error(self) -> FloatArray:
        """Standard error of ``mean`` by the number of draws, (A,), as if they were independent; mirrored ones do better."""
        return np.asarray(self.draws.std(axis=0, ddof=1) / np.sqrt(len(self.draws)))

    @property
    def spread(self) -> FloatArray:
        """Variance of a count given its expectation and the parent's total, (n_draws, A).

        Binomial counts with variances v given their sum: v (1 - v / sum of v over the parent's children).
        """
        people = np.where(self.population > 0, self.population, 1.0)  # a park has neither people nor counts
        v = self.draws * (1.0 - self.draws / people)
        member = np.eye(int(self.parent.max()) + 1)[self.parent]
        whole = np.maximum((v @ member)[:, self.parent], 1e-300)
        return v * np.maximum(1.0 - v / whole, 0.0)

    def quantiles(self, probabilities: Sequence[float], random_state: RandomState = 0) -> FloatArray:
        """Give quantiles of the counts themselves, (n_probabilities, A)."""
        noise = np.random.default_rng(read_seed(random_state)).standard_normal((8, *self.draws.shape))
        counts = np.rint(self.draws + np.sqrt(self.spread) * noise).reshape(-1, self.draws.shape[1])
        clipped = np.clip(counts, 0.0, np.floor(self.population))
        return np.quantile(clipped, probabilities, axis=0, method="inverted_cdf")

    def log_score(self, counts: npt.ArrayLike) -> FloatArray:
        """Give the log probability of true counts, (A,): a mixture over the draws of normals, each cut to whole numbers."""
        y = np.asarray(counts, dtype=np.float64)
        sd = np.sqrt(np.maximum(self.spread, 1e-12))
        # counted from the nearer tail, where a difference of distribution functions keeps its digits
        z = -np.abs(y - self.draws) / sd
        half = 0.5 / sd
        p = special.ndtr(z + half) - special.ndtr(z - half)
        return np.asarray(np.log(np.maximum(p.mean(axis=0), 1e-300)))


def nested_rate(totals: npt.ArrayLike, population: npt.ArrayLike, parent: npt.ArrayLike) -> FloatArray:
    """Give every child its parent's rate times its own population: the baseline.

    Examples
    --------
    >>> nested_rate([30.0], [100.0, 200.0], [0, 0])
    array([10., 20.])
    """
    y, people = check_counts(totals, "totals", 1), check_counts(population, "population", 1)
    own = _parents(parent, len(people), len(y))
    return people * (y / np.bincount(own, people, minlength=len(y)))[own]


@checked
def area_correlations(
    regions: Regions, kernels: Sequence[str] = KERNELS, nodes: int = 5, tolerance: float = 1e-3
) -> AreaCorrelations:
    """Integrate the kernels over the small areas, once for all groups that will be shared out.

    Parameters
    ----------
    regions : Regions
    kernels : of "eq", "matern12", "matern32", "matern52"
        Functions of the distance.
    nodes : int
        Lengthscales per kernel, about a fifth of the extent of the areas.
    tolerance : float
        Relative error of the features; "matern12" is summed over points, its error in ``error``.

    Examples
    --------
    >>> squares = Polygons([[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(6)])
    >>> area_correlations(squares, ["eq"], nodes=3).R.shape
    (3, 6, 6)
    """
    check_kind(regions, Regions, "regions", "pass Polygons, Boxes or Intervals")
    nodes = check_whole(nodes, "nodes", 1)
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        raise InputError(f"kernels={kernels!r} is no list; pass names of kernels, such as ['eq'].")
    low, high = regions.bounds()
    extent = float(np.max(high.max(axis=0) - low.min(axis=0)))
    lengths, prior = prior_nodes(LENGTH, nodes, REACH)
    R, names, used, priors, error = [], [], [], [], 0.0
    for kernel, (length, p) in product(kernels, zip(lengths * extent, prior, strict=True)):
        if kernel == "matern12":
            found, off = correlations_by_points(regions, kernel, float(length))
        else:
            found, off = region_correlations(regions, kernel, float(length), tolerance)
        R.append(found)
        names.append(kernel)
        used.append(float(length))
        priors.append(float(p))
        error = max(error, off)
    return AreaCorrelations(np.stack(R), tuple(names), np.array(used), np.array(priors), error)


@checked
def share_out(
    regions: Regions,
    totals: npt.ArrayLike,
    population: npt.ArrayLike,
    parent: npt.ArrayLike,
    *,
    correlations: AreaCorrelations | None = None,
    nodes: int = 5,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> SharedOut:
    """Share the counts of parents out among their children.

    Parameters
    ----------
    regions : Regions
        The A children: polygons, or points.
    totals : (B,)
        Count of the group in each parent.
    population : (A,)
        Everybody in each child.
    parent : (A,)
        Row number of each child's parent.
    correlations : AreaCorrelations, optional
        Of `area_correlations`, to make them once for several groups; kernels are equally probable beforehand.
    nodes : int
        Values of each scale.
    n_draws : int
        Each with its mirror image. The error this leaves in the mean is `SharedOut.monte_carlo_error`: with 2,000 draws below
        2.3 % of the standard deviation of the expectation. Log scores far in a tail need more.
    random_state : int, None, Generator or RandomState

    Returns
    -------
    SharedOut

    Examples
    --------
    >>> squares = Polygons([[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(6)])
    >>> smooth = area_correlations(squares, ["eq"], nodes=3)
    >>> found = share_out(squares, [30, 60, 90], [100.0] * 6, [0, 0, 1, 1, 2, 2], correlations=smooth, n_draws=200)
    >>> bool(np.allclose(np.bincount([0, 0, 1, 1, 2, 2], found.mean), [30, 60, 90]))
    True
    >>> bool((np.diff(found.mean[1:5]) > 0).all())
    True
    """
    n_draws = check_whole(n_draws, "n_draws", 2)
    if correlations is not None:
        check_kind(correlations, AreaCorrelations, "correlations", "pass what area_correlations gave")
    people, own, y, trials = _inputs(regions, totals, population, parent)
    A = len(people)
    C = np.zeros((len(y), A))
    C[own, np.arange(A)] = people / trials[own]
    made = area_correlations(regions, nodes=nodes) if correlations is None else correlations
    if made.R.shape[1] != A:
        raise InputError(f"correlations is of {made.R.shape[1]:,} areas, regions has {A:,}; make it of these regions.")
    scales, scale_prior = prior_nodes(SCALE, nodes, REACH)
    mean = np.full(A, _logit((y.sum() + 0.5) / (trials.sum() + 1.0)))
    grid = list(product(range(len(made.R)), range(nodes), range(nodes)))
    K = np.stack([scales[i] ** 2 * made.R[r] + scales[j] ** 2 * np.eye(A) + LEVEL for r, i, j in grid])
    likelihood = BinomialBins(y[None, :], trials[None, :])
    modes = find_modes(K, C, likelihood, mean)
    log_weight = modes.log_evidence + np.array(
        [made.log_prior[r] + scale_prior[i] + scale_prior[j] for r, i, j in grid]
    )
    weights = np.exp(log_weight - log_weight.max())
    weights = np.where(weights >= KEPT * weights.max(), weights, 0.0)
    weights /= weights.sum()
    rng = np.random.default_rng(read_seed(random_state))
    parts = []
    for row, count in enumerate(_allot(weights, n_draws, rng)):
        if count:
            V = posterior_covariance(modes, K[row], row)
            root = np.linalg.cholesky(V + 1e-10 * np.eye(A))
            half = rng.standard_normal(((count + 1) // 2, A))
            # a draw and its mirror image: what is odd in them leaves the mean
            parts.append(modes.f[row] + np.concatenate([half, -half])[:count] @ root.T)
    shifted = shift_to_total(np.concatenate(parts), people, own.astype(np.intp), y / trials)
    chosen = tuple((made.kernel[r], float(scales[i]), float(made.length[r]), float(scales[j])) for r, i, j in grid)
    return SharedOut(shifted.rate * people, people, own, weights, chosen, made.error)


@checked
def shared_estimates(
    large: Polygons,
    totals: npt.ArrayLike,
    small: Polygons,
    population: npt.ArrayLike,
    *,
    level: float = 0.95,
    nodes: int = 5,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> Estimates:
    """Estimate the counts of small areas inside large ones: the table of :func:`share_out`.

    The diagnostic ``monte_carlo_share`` is the largest error that the number of draws leaves in an estimate, over its ``std_error``.

    Parameters
    ----------
    large : Polygons
    totals : (B,)
        Counts of the large areas, which are kept.
    small : Polygons
        Each inside one of the large.
    population : (A,)
        Everybody in each small area.
    level : float
    nodes, n_draws, random_state
        As in :func:`share_out`.

    Examples
    --------
    >>> def squares(n, w):
    ...     return Polygons([[[i * w, 0], [i * w + w, 0], [i * w + w, 1], [i * w, 1]] for i in range(n)])
    >>> found = shared_estimates(squares(2, 2), [40, 10], squares(4, 1), [100, 100, 50, 50], nodes=3, n_draws=200)
    >>> found.table.column_names[-2:], round(float(found["estimate"][:2].sum()), 6)
    (['nested_rate', 'population'], 40.0)
    """
    check_level(level)
    for name, value in (("large", large), ("small", small)):
        check_kind(value, Polygons, name, "pass Polygons")
    parent = holders(small, large)
    (key, names), *_ = small.labels().items()
    outside = [names[i] for i in np.flatnonzero(parent < 0)]
    if outside:
        raise InputError(
            f"{len(outside):,} small area(s) lie in none of the large ones ({listed(outside)}); leave them out, or check that both files "
            "cover the same ground."
        )
    seed = read_seed(random_state)
    (totals,) = align_to_regions(large, totals, argument="totals")
    (population,) = align_to_regions(small, population, argument="population")
    shared = share_out(small, totals, population, parent, nodes=nodes, n_draws=n_draws, random_state=seed)
    half = 0.5 * (1.0 - level)
    std_error = np.sqrt(shared.draws.var(axis=0, ddof=1) + shared.spread.mean(axis=0))
    low, high = shared.quantiles([half, 1.0 - half], seed)
    # a fraction of a person is expected where nobody is most likely
    low, high = np.minimum(low, np.floor(shared.mean)), np.maximum(high, np.ceil(shared.mean))
    columns = {
        key: names,
        "estimate": shared.mean,
        "std_error": std_error,
        "conf_low": low,
        "conf_high": high,
        "nested_rate": nested_rate(totals, population, parent),
        "population": np.asarray(population, dtype=np.float64),
    }
    data = {
        "totals": fingerprint({"y": np.asarray(totals, dtype=np.float64)}),
        "population": fingerprint({"n": shared.population}),
    }
    return Estimates.build(
        columns,
        keys=[key],
        kind="binned",
        method="counts of large areas shared out to small ones by population and neighborhood",
        level=level,
        interval="predictive quantile of the count",
        provenance=Provenance.of(
            call=f"shared_estimates({len(large)} areas, {len(small)} areas)", seed=seed, data=data
        ),
        diagnostics={
            "converged": True,
            "basis_error": shared.basis_error,
            "candidates": _weights(shared),
            "monte_carlo_share": float((shared.monte_carlo_error / np.maximum(std_error, 1e-300)).max()),
        },
        title="Small areas from large ones",
    )


def _inputs(
    regions: Regions, totals: npt.ArrayLike, population: npt.ArrayLike, parent: npt.ArrayLike
) -> tuple[FloatArray, Int64Array, FloatArray, FloatArray]:
    population, parent = align_to_regions(regions, population, argument="population", parent=parent)
    people = check_counts(population, "population", 1)
    check_size(people, "population")
    y = check_counts(totals, "totals", 1)
    check_length(people, "population", len(regions), "regions")
    own = _parents(parent, len(people), len(y))
    trials = np.asarray(np.bincount(own, people, minlength=len(y)), dtype=np.float64)
    childless = np.flatnonzero(trials <= 0)
    if len(childless):
        raise InputError(
            f"{len(childless):,} row(s) of totals have no small area with people ({listed(childless)}); drop them."
        )
    check_successes(y, trials)
    return people, own, y, trials


def _parents(parent: npt.ArrayLike, n: int, rows: int) -> Int64Array:
    """Read the row of totals that holds each of n small areas."""
    own = as_numbers(parent, "parent", 1)
    check_length(own, "parent", n, "small areas")
    if not np.isin(own, np.arange(rows)).all():
        raise InputError(f"parent must hold whole numbers from 0 to {rows - 1} (rows of totals); see holders().")
    return own.astype(np.int64)


def _allot(weights: FloatArray, number: int, rng: np.random.Generator) -> Int64Array:
    """Share draws out among candidates: their weights times the number, rounded up or down by one common chance."""
    ends = np.floor(np.append(0.0, np.cumsum(weights) / weights.sum()) * number + rng.uniform())
    return np.diff(ends).astype(np.int64)


def _logit(p: float) -> float:
    return float(np.log(p) - np.log1p(-p))


def _weights(shared: SharedOut) -> dict[str, float]:
    kernels = np.array([c[0] for c in shared.candidates])
    return {str(k): float(shared.weights[kernels == k].sum()) for k in dict.fromkeys(kernels.tolist())}
