"""How sure is the mean of any group of persons?

With q = g'(f), zbar_p the q-weighted mean of z in group p, and P_g the estimate for the persons g, of total weight n_g:

    J_g = sum_{p, c in g} N_pc q_pc (z_c - zbar_p) / (n_g D_g),      var(link P_g) = J_g' Sigma J_g + chance
    D_g = P_g (1 - P_g), or 1 for a number

The centring by zbar_p is the shift to the published mean. *Chance* is by how much these very persons' mean differs from the mean of
their probabilities, given that every group's total is known: it vanishes for whole groups. In a group without a published mean
nothing is centered, and t_b^2 is added.

A published mean with a standard error e_p moves the shift of its group by e_p / (mean of q in p), independently of the slopes; *published*
is what that adds. Other people than those whose means were published have the shifts of those: zbar_p and the mean of q are then of the
people of the fit, and chance is that of independent people.

In intervals the logit of the probability is normal. A share of yes among few persons is not: it can be none. Its law is a
binomial whose logit is normal, and the interval holds the values this mixture does not find too small or too large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from crosslevel.imputation.persons.model import Fit
from crosslevel.results.intervals import critical_value
from crosslevel.typing import FloatArray, IntArray

NODES = 24
ROUNDING = 1e-12
"""A deviation below this is none: the mean of whole groups is an average of published ones."""
FEW = 60.0
"""With this many expected of yes and of no, the logit of a share is normal enough."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """By what the shift of each group moves: of the people whose mean was published.

    Attributes
    ----------
    center : (P, 1 + K)
        Mean of 1 and z, weighted by q; 0 where no mean is published.
    lever : (P,)
        Move of the shift with the published mean, 1 / (mean of q); 0 where none is published, or where nobody or everybody is yes.
    """

    center: FloatArray
    lever: FloatArray


@dataclass(frozen=True, eq=False)
class Members:
    """Persons, or people who are alike and of one group.

    Attributes
    ----------
    Z : (M, K)
    group : (M,) int
    weight, weight_squared : (M,)
        Sums over the people each stands for.
    value : (M,)
        Their probability, shifted; or expected number.
    known : (P,) bool
        Whether the group's mean is published.
    noise : float
        Variance of one person's value around the expected one; NaN for a binary feature, whose variance is p (1 - p).
    error : (P,), optional
        Standard error of each published mean; 0 where none is.
    anchors : Anchors, optional
        Of the people of the fit, where these are others; of these people when not given.
    """

    Z: FloatArray
    group: IntArray
    weight: FloatArray
    weight_squared: FloatArray
    value: FloatArray
    known: npt.NDArray[np.bool_]
    noise: float = np.nan
    error: FloatArray | None = None
    anchors: Anchors | None = None

    @property
    def slope(self) -> FloatArray:
        """q, what a member's value moves by with its score, (M,)."""
        return self.value * (1.0 - self.value) if np.isnan(self.noise) else np.ones(len(self.value))


@dataclass(frozen=True, eq=False)
class Spread:
    """Means of groups of persons.

    Attributes
    ----------
    mean : (G,)
    people : (G,)
        Sum of weights.
    model : (G,)
        J' Sigma J, on the scale of the link.
    published : (G,)
        From the standard errors of the published means, on the scale of the link.
    chance : (G,)
        On the scale of the link.
    """

    mean: FloatArray
    people: FloatArray
    model: FloatArray
    published: FloatArray
    chance: FloatArray


def anchors_of(members: Members) -> Anchors:
    """Find by what the shifts of groups move, of members whose means were published.

    Examples
    --------
    >>> members = Members(np.array([[-1.0], [1.0]]), np.zeros(2, int), np.full(2, 50.0), np.full(2, 50.0), np.full(2, 0.5),
    ...                   np.array([True]))
    >>> found = anchors_of(members)
    >>> found.center.tolist(), found.lever.tolist()
    ([[1.0, 0.0]], [4.0])
    """
    P, M = len(members.known), len(members.value)
    A = members.weight * members.slope
    by_group = sparse.csr_array((np.ones(M), (members.group, np.arange(M))), shape=(P, M))
    whole, people = by_group @ A, by_group @ members.weight
    center = (by_group @ (A[:, None] * np.column_stack([np.ones(M), members.Z]))) / np.maximum(whole, 1e-300)[:, None]
    center[~members.known] = 0.0
    moves = members.known & (whole > ROUNDING * people)
    return Anchors(center, np.where(moves, people / np.where(moves, whole, 1.0), 0.0))


def mean_spread(members: Members, cut: IntArray, n_cuts: int, fit: Fit) -> Spread:
    """Give the mean of each group of persons and its variances.

    Parameters
    ----------
    members : Members
    cut : (M,) int
        Group of persons each member is in, 0 .. n_cuts - 1.
    n_cuts : int
    fit : Fit

    Examples
    --------
    >>> members = Members(np.array([[-1.0], [1.0]]), np.zeros(2, int), np.full(2, 50.0), np.full(2, 50.0), np.full(2, 0.5),
    ...                   np.array([True]))
    >>> fit = Fit(np.zeros(1), 0.0, np.diag([1.0, 0.04]), 0.3, 0.0, 0.0, 1, 0.0)
    >>> found = mean_spread(members, np.array([0, 1]), 2, fit)
    >>> found.model.round(3), found.chance.round(3)
    (array([0.04, 0.04]), array([0.04, 0.04]))
    """
    binary = bool(np.isnan(members.noise))
    P, M = len(members.known), len(members.value)
    q = members.slope
    by_cut = sparse.csr_array((np.ones(M), (cut, np.arange(M))), shape=(n_cuts, M))
    by_group = sparse.csr_array((np.ones(M), (members.group, np.arange(M))), shape=(P, M))
    people = by_cut @ members.weight
    mean = (by_cut @ (members.weight * members.value)) / np.maximum(people, 1e-300)
    scale = np.maximum(people * (mean * (1.0 - mean) if binary else 1.0), 1e-300)

    A = members.weight * q
    design = np.column_stack([np.ones(M), members.Z])
    anchors = anchors_of(members) if members.anchors is None else members.anchors
    J = (by_cut @ (A[:, None] * (design - anchors.center[members.group]))) / scale[:, None]
    model = np.einsum("gi,ij,gj->g", J, fit.Sigma, J)

    each = members.weight_squared * (q if binary else members.noise)
    own, part = (sparse.csr_array((v, (cut, members.group)), shape=(n_cuts, P)) for v in (A, each))
    squares, error = own.power(2), np.zeros(P) if members.error is None else members.error
    model += fit.t_b**2 * (squares @ (~members.known).astype(np.float64)) / scale**2
    published = squares @ (anchors.lever * error) ** 2 / scale**2

    closed = members.known & (members.anchors is None)
    share = np.where(closed, 1.0 / np.maximum(by_group @ each, 1e-300), 0.0)
    left = part.data - part.data**2 * share[part.indices]
    part.data = np.where(left < ROUNDING * part.data, 0.0, left)
    chance = part.sum(axis=1) / scale**2
    return Spread(mean, people, np.where(model < ROUNDING**2, 0.0, model), published, chance)


def mean_interval(
    center: FloatArray, sd: FloatArray, level: float, *, binary: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Give the interval of an expected mean, symmetric on the scale of the link.

    Parameters
    ----------
    center, sd : (G,)
        Mean, and its sd on the scale of the link.
    level : float
    binary : bool

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.5]), np.array([1.0]), 0.95)
    >>> low.round(3), high.round(3)
    (array([0.123]), array([0.877]))
    """
    half = critical_value(level) * sd
    if not binary:
        return center - half, center + half
    inside = np.clip(center, 1e-300, 1.0 - 1e-16)
    f = np.log(inside) - np.log1p(-inside)
    # a mean of none or all, of people whose total is known, is sure
    sure = (center <= 0.0) | (center >= 1.0)
    return np.where(sure, center, special.expit(f - half)), np.where(sure, center, special.expit(f + half))


def share_interval(
    center: FloatArray, model: FloatArray, chance: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Give the interval of the share of yes among persons.

    Parameters
    ----------
    center : (G,)
        Probability.
    model : (G,)
        Variance of its logit.
    chance : (G,)
        Variance of the logit of the share, given the probability: 1 / (n P (1 - P)) for n independent persons.
    level : float
    df : float

    Examples
    --------
    >>> low, high = share_interval(np.array([0.02]), np.array([0.0]), np.array([1 / (100 * 0.02 * 0.98)]), 0.95)
    >>> low.round(3), high.round(3)  # none to five of a hundred
    (array([0.]), array([0.051]))
    """
    low, high = mean_interval(center, np.sqrt(model + chance), level)
    D = center * (1.0 - center)
    n = 1.0 / np.maximum(chance * D, 1e-300)
    few = (n * D < FEW) & (D > 0.0) & (chance > 1e-12)
    if few.any():
        low[few], high[few] = _mixture(center[few], model[few], n[few], level)
    return low, high


def _mixture(center: FloatArray, model: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Find the ends of the interval of a share, of n persons (which need not be whole), by halving."""
    u, weight = np.polynomial.legendre.leggauss(NODES)
    t = special.ndtri(0.5 * (u + 1.0))
    f = (np.log(center) - np.log1p(-center))[:, None] + np.sqrt(model)[:, None] * t
    p, weight = special.expit(f), 0.5 * weight

    def below(k: FloatArray) -> FloatArray:
        """Probability of at most k."""
        return np.asarray(_binomial_cdf(k[:, None], n[:, None], p) @ weight)

    ends = []
    for target in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        a, b = np.full(len(n), -1.0), n.copy()
        for _ in range(30):
            middle = 0.5 * (a + b)
            small = below(middle) < target
            a, b = np.where(small, middle, a), np.where(small, b, middle)
        ends.append(0.5 * (a + b))
    # mid-p: of the probability of y itself one half counts as below it. With all of it intervals of rare features hold too much
    return np.clip((ends[0] + 0.5) / n, 0.0, 1.0), np.clip((ends[1] + 0.5) / n, 0.0, 1.0)


def _binomial_cdf(k: FloatArray, n: FloatArray, p: FloatArray) -> FloatArray:
    """Give the probability of at most k of n, to about 0.005: Camp and Paulson's cube root, at a hundredth of the cost.

    Between whole k it interpolates smoothly, from 0 at k = -1 to 1 at k = n.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        a, b = 1.0 / (9.0 * (n - k)), 1.0 / (9.0 * (k + 1.0))
        root = np.cbrt((k + 1.0) * (1.0 - p) / ((n - k) * p))
        z = ((1.0 - b) * root - (1.0 - a)) / np.sqrt(b * root**2 + a)
    return np.where(k <= -1.0, 0.0, np.where(k >= n, 1.0, special.ndtr(z)))
