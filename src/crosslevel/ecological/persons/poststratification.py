"""What a survey says without the totals, and shifted to them: multilevel regression and post-stratification (MRP).

Row r of the survey has n_r people of a kind, of whom k_r said yes; x_r are its levels and pairs of levels, a_r its areas:

    k_r ~ Binomial(n_r, sigmoid(mu + x_r . theta + a_r . u)),   u ~ N(0, s_area^2 I)
    theta = (e, h):   e_col ~ N(0, s_col^2 R_col),   h ~ N(0, s_pairs^2 I)

The scales s are those of the largest evidence (Laplace, a weak prior on every scale), by MacKay's turns. *MRP* sums the rates of kinds
of people over who lives where, area effects with them. *Calibrated MRP* drops mu and u and shifts every place to its total. Both are what
a joint model is to be compared with: neither allows for who answers.

References
----------
Gelman and Little (1997), Poststratification into many categories using hierarchical logistic regression, Survey Methodology 23.
MacKay (1992), Bayesian interpolation, Neural Computation 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse, special

from crosslevel.ecological.persons.model import Kinds, parts_at, rates_over, symmetric_root
from crosslevel.ecological.persons.survey import SurveyRows, onehot
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray, IntArray

INTERCEPT_SD = 3.0
USUAL_SD, USUAL_DF, MOST_SD = 0.3, 1.0, 3.0
"""Scales of effects: their prior (scaled inverse chi square of so many degrees of freedom: it keeps them from zero), and the largest."""
TURNS, AT_REST = 40, 0.03
"""Turns of the scales, and the change of the log of each at which they rest."""
STEPS, HALVINGS, DECREMENT = 50, 30, 1e-8
CLIPPED = 1e-9


@dataclass(frozen=True, eq=False)
class Regression:
    """A multilevel logistic regression of the answers of a survey.

    Attributes
    ----------
    phi : (1 + n_theta + n_areas,)
        Intercept, effects of levels and of pairs of levels, effects of areas, at the mode.
    covariance : (1 + n_theta + n_areas, 1 + n_theta + n_areas)
    n_theta : int
    sds : (n_columns + 1 + n_groupings,)
        Scales: of every column, of pairs, and of areas.
    turns : int
        Turns until the scales came to rest.
    """

    phi: FloatArray
    covariance: FloatArray
    n_theta: int
    sds: FloatArray
    turns: int

    @property
    def theta(self) -> FloatArray:
        """Effects of levels and of pairs of levels."""
        return self.phi[1 : 1 + self.n_theta]

    @property
    def theta_covariance(self) -> FloatArray:
        """Their covariance."""
        return self.covariance[1 : 1 + self.n_theta, 1 : 1 + self.n_theta]


def direct_rates(
    successes: FloatArray, trials: FloatArray, group: IntArray, n: int, z: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give the share of respondents of every group who said yes, with Wilson's interval; not a number where nobody answered.

    Where all agree the interval still has a width: 12 of 12 is between 0.76 and 1.

    Parameters
    ----------
    successes, trials : (m,)
        Weighted respondents count as many as their effective number.
    group : (m,) int
    n : int
        Number of groups.
    z : float
        Quantile of the normal distribution: 1.96 for 95 %.

    References
    ----------
    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Examples
    --------
    >>> rate, low, high = direct_rates(np.array([3.0, 9.0]), np.array([3.0, 9.0]), np.array([0, 0]), 2, 1.96)
    >>> rate.round(2), low.round(2), high.round(2)
    (array([ 1., nan]), array([0.76,  nan]), array([ 1., nan]))
    """
    k, asked = (np.bincount(group, v, n) for v in (successes, trials))
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(asked > 0, k / asked, np.nan)
        middle = (k + 0.5 * z**2) / (asked + z**2)
        half = z * np.sqrt(asked * rate * (1.0 - rate) + 0.25 * z**2) / (asked + z**2)
    return rate, np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def regress(kinds: Kinds, rows: SurveyRows, areas: Sequence[IntArray]) -> Regression:
    """Fit the answers of a survey by who answers and where they live, scales learned.

    Parameters
    ----------
    kinds : Kinds
        Which effects there are.
    rows : SurveyRows
    areas : sequence of (q,) int
        Groupings of places that have effects: the areas that respondents name, states.

    Raises
    ------
    ConvergenceError
        When the mode is not found.
    """
    effects, codes, n_theta = kinds.effects, kinds.numbered(rows.levels), kinds.n_effects
    sizes = [int(a.max()) + 1 for a in areas]
    m, q = len(rows), 1 + int(rows.place.max(initial=0))
    of_kind = sparse.csr_array((rows.share, rows.kind, rows.start), shape=(m, len(rows.levels)))
    of_place = sparse.csr_array((rows.share, rows.place, rows.start), shape=(m, q))
    parts = [sparse.csr_array(np.ones((m, 1))), of_kind @ onehot(codes, n_theta)]
    parts += [of_place @ onehot(a[:q, None], size) for a, size in zip(areas, sizes, strict=True)]
    roots = [symmetric_root(effects.correlation(j)) for j in range(len(effects.sizes))]
    n_levels = sum(effects.sizes)
    blocks = [sparse.eye_array(1), *(sparse.csr_array(R) for R in roots)]
    blocks += [sparse.eye_array(n) for n in (n_theta - n_levels, *sizes) if n]
    widths = [1, *effects.sizes, *(n for n in (n_theta - n_levels, *sizes) if n)]
    T = sparse.block_diag(blocks, format="csr")
    D = sparse.csr_array(sparse.hstack(parts) @ T)
    sds = np.append(INTERCEPT_SD, np.full(len(widths) - 1, USUAL_SD))
    ends = np.cumsum([0, *widths])
    z = np.zeros(ends[-1])
    for turn in range(1, TURNS + 1):
        scale = np.repeat(sds, widths)
        z, inverse = _mode(D, scale, rows, z)
        free = widths - np.array([np.trace(inverse[a:b, a:b]) for a, b in itertools.pairwise(ends)])
        size = np.array([z[a:b] @ z[a:b] for a, b in itertools.pairwise(ends)])
        new = np.sqrt((sds**2 * size + USUAL_DF * USUAL_SD**2) / (np.maximum(free, 0.0) + USUAL_DF))
        new = np.append(INTERCEPT_SD, np.minimum(new[1:], MOST_SD))
        moved = float(np.abs(np.log(new / sds)).max())
        if moved < AT_REST or turn == TURNS:
            break
        z, sds = z * np.repeat(sds / new, widths), new
    S = T @ (scale[:, None] * inverse * scale) @ T.T
    return Regression(T @ (scale * z), 0.5 * (S + S.T), n_theta, sds[1:], turn)


def _mode(D: sparse.csr_array, scale: FloatArray, rows: SurveyRows, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the mode of standardized effects by Newton's steps, each halved until it gains, and the inverse of the information."""
    k, n = rows.successes, rows.trials

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        zeta = D @ (scale * z)
        return float(k @ zeta - n @ np.logaddexp(0.0, zeta) - 0.5 * z @ z), zeta

    now, zeta = value(z)
    for _ in range(STEPS):
        p = special.expit(zeta)
        gradient = scale * (D.T @ (k - n * p)) - z
        weighted = D.multiply((n * p * (1.0 - p))[:, None]).tocsr()
        H = scale[:, None] * (D.T @ weighted).toarray() * scale
        H[np.diag_indices_from(H)] += 1.0
        root = linalg.cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
        move = linalg.cho_solve(root, gradient, check_finite=False)
        promised, length = 0.5 * float(gradient @ move), 1.0
        for _ in range(HALVINGS if promised > DECREMENT else 0):
            tried, at = value(z + length * move)
            if tried >= now + 1e-4 * length * promised:
                z, now, zeta = z + length * move, tried, at
                break
            length *= 0.5
        else:  # nothing to gain, or nothing but rounding
            inverse = linalg.lapack.dpotri(root[0], lower=1)[0]
            return z, np.tril(inverse) + np.tril(inverse, -1).T
    raise ConvergenceError(
        f"the regression of the survey did not come to rest in {STEPS} steps (a further one promises {promised:.1e}); pass compare=False, "
        "or leave out columns of many levels."
    )


def mrp_rates(
    found: Regression, kinds: Kinds, people: FloatArray, areas: Sequence[IntArray], group: IntArray, n: int
) -> tuple[FloatArray, FloatArray]:
    """Sum what the regression says of kinds of people over who lives where: rates of groups, and the sd of their logits.

    Parameters
    ----------
    found : Regression
    kinds : Kinds
        Who lives where.
    people : (q,)
        Weight of each place.
    areas
        As in :func:`regress`.
    group : (n_pairs,) int
        Group of the people of each pair.
    n : int
        Number of groups.
    """
    pairs = kinds.pairs
    place, size, codes = pairs.place, len(found.phi), 1 + kinds.codes
    terms = [np.zeros(len(place), dtype=np.intp), *(codes[pairs.cell, t] for t in range(codes.shape[1]))]
    first = 1 + found.n_theta
    for area in areas:
        terms.append(first + area[place])
        first += int(area.max()) + 1
    p = special.expit(np.sum([found.phi[term] for term in terms], axis=0))
    weight = people[place] * pairs.weight
    whole, yes, v = np.bincount(group, weight, n), np.bincount(group, weight * p, n), weight * p * (1.0 - p)
    P = np.clip(yes / np.maximum(whole, 1e-300), CLIPPED, 1.0 - CLIPPED)
    G = np.sum([np.bincount(group * size + term, v, n * size) for term in terms], axis=0).reshape(n, size)
    G /= np.maximum(whole * P * (1.0 - P), 1e-300)[:, None]
    return P, np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", G, found.covariance, G), 0.0))


def calibrated_rates(
    found: Regression, kinds: Kinds, rate: FloatArray, people: FloatArray, group: IntArray, n: int
) -> tuple[FloatArray, FloatArray]:
    """Shift what the regression says of kinds of people to the total of every place, and sum it to groups, as in :func:`mrp_rates`.

    Parameters
    ----------
    rate : (q,)
        Rates that were counted.
    """
    eta, f = kinds.at(found.theta, np.clip(rate, CLIPPED, 1.0 - CLIPPED))
    groups = rates_over(parts_at(kinds, eta, f, group, n), people, n)
    return groups.rate, groups.spread(found.theta_covariance)
