"""Fit one model of persons to the proportions of labels in bags.

    m_b = sum_i w_bi p_i,   logit p_i = a + z_i'beta,   beta_k ~ N(0, v of its block)             w_bi: share of person i in bag b
    maximize  sum_b (n_b / phi_b) (s_b log m_b + (1 - s_b) log(1 - m_b)) - sum_k beta_k^2 / (2 v_k)

s_b is the published proportion and n_b the effective number of people. phi_b is what the variance of a proportion,
sum_i w_bi^2 p_i (1 - p_i) + tau^2 (sum_i w_bi p_i (1 - p_i))^2, is to that of a binomial, m_b (1 - m_b) / n_b: less where persons differ,
more by tau where bags do.
With bags of one person this is logistic regression with a ridge. Scores z are in three blocks: what is linear (and the levels of
categories), what bends, and random features of a Gaussian kernel, for interactions.

Bags drawn at random differ by chance, and chance is not confounded: the variances v are those of the largest evidence. Places differ for
reasons that are not in X, which evidence cannot see; there v is fixed at that of CrossLevelImputer, and those reasons may follow the
composition of a place (contextual slopes gamma, of variance CONTEXT v):

    logit m_b = logit(sum_i w_bi p_i) + kappa_b zbar_b'gamma,    kappa_b = sum_i w_bi p_i (1 - p_i) / (m_b (1 - m_b)), held during a round
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse, special

from crosslevel.data.cells import sums
from crosslevel.data.columns import Category, Number
from crosslevel.errors import ConvergenceError
from crosslevel.imputation.design import MOST_LEVELS, Design, Feature, polynomials
from crosslevel.imputation.persons.model import Settings
from crosslevel.typing import FloatArray, IntArray, Step

USUAL = np.array([0.3, 0.03, 0.5])
"""Variances of the three blocks as they were found in other tasks than those of the guide; worth ``PSEUDO`` slopes each."""
PSEUDO = 4.0
PLACES = np.array([1.0, 0.09, 1.0])
"""Variances of the blocks where bags are places, in squares of the prior sd of a slope."""
CONTEXT = 0.3
"""Variance of a contextual slope of places to that of the slope; chosen on five labels that are not those of the guide."""
INTERCEPT_PRECISION = 1e-4
MOST_DEGREE = 6
FARTHEST = 3.0
"""Scores beyond this many sds are cut where they enter the kernel."""
LEAST_PHI = 0.2
MOST_ROUNDS = 40
MOST_STEPS = 50
"""Steps of one round; the first rounds need no exact optimum."""
CLOSE = 1e-6
NEAR = 0.01
"""Gradient, in posterior sds, at which a round stops, and the largest one at the end."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Scores of persons, in three blocks.

    Attributes
    ----------
    design : Design
        Linear scores, levels of categories and what bends.
    frequency : (U, M)
        Of the random features; the kernel's length is the square root of the number of columns.
    phase, center : (M,)
    """

    design: Design
    frequency: FloatArray
    phase: FloatArray
    center: FloatArray

    @property
    def block(self) -> IntArray:
        """Give the block of every score, (K,): 0 linear and levels, 1 what bends, 2 the kernel."""
        bends = (self.design.reach < 1.0).astype(np.intp)
        return np.concatenate([bends, np.full(len(self.phase), 2)]).astype(np.intp)

    def matrix(self, X: FloatArray) -> FloatArray:
        """Give a one and the scores of rows, (n, 1 + K)."""
        Z = self.design.matrix(X)
        parts = [np.ones((len(X), 1)), Z]
        if len(self.phase):
            parts.append(_waves(Z[:, self.block[: Z.shape[1]] == 0], self.frequency, self.phase) - self.center)
        return np.hstack(parts)


def learn_basis(
    X: FloatArray, weight: FloatArray, columns: Sequence[Category | Number], n_features: int, seed: int
) -> Basis:
    """Learn the scores from distinct rows and how many people each stands for.

    Examples
    --------
    >>> basis = learn_basis(np.array([[1.0], [2.0], [3.0]]), np.ones(3), [Number("age")], 2, 0)
    >>> basis.matrix(np.array([[1.0], [3.0]])).shape, basis.block.tolist()
    ((2, 5), [0, 1, 2, 2])
    """
    design = Design(tuple(_feature(X[:, j], weight, c) for j, c in enumerate(columns)))
    straight = design.matrix(X)[:, design.reach >= 1.0]
    rng = np.random.default_rng(seed)
    frequency = rng.standard_normal((straight.shape[1], n_features)) / np.sqrt(len(columns))
    phase = rng.uniform(0.0, 2.0 * np.pi, n_features)
    waves = _waves(straight, frequency, phase) if n_features else np.empty((len(X), 0))
    return Basis(design, frequency, phase, np.average(waves, axis=0, weights=weight))


def _waves(Z: FloatArray, frequency: FloatArray, phase: FloatArray) -> FloatArray:
    return np.sqrt(2.0 / len(phase)) * np.cos(np.clip(Z, -FARTHEST, FARTHEST) @ frequency + phase)


def _feature(values: FloatArray, weight: FloatArray, column: Category | Number) -> Feature:
    """Score one column: a centered dummy per level, or orthogonal polynomials between quantiles."""
    known = ~np.isnan(values)
    values, weight = values[known], weight[known] / weight[known].sum()
    at = np.unique(values)
    if isinstance(column, Category):
        share = sums(np.searchsorted(at, values), weight, len(at))
        terms = tuple(str(column.labels[int(code)]) for code in at)
        return Feature(column.name, "unordered", at, np.eye(len(at)) - share, terms, np.ones(len(at)))
    if len(at) > MOST_LEVELS:
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weight[order]) - 0.5 * weight[order]
        at = np.unique(np.interp(np.linspace(0.0, 1.0, MOST_LEVELS + 1), reached, values[order]))
    share = sums(np.searchsorted(0.5 * (at[1:] + at[:-1]), values), weight, len(at))
    at, share = at[share > 0], share[share > 0]
    score = polynomials(at, share, min(len(at) - 1, MOST_DEGREE))
    terms = ("linear", *(f"degree {k}" for k in range(2, score.shape[1] + 1)))
    return Feature(column.name, "ordered", at, score, terms, np.array([1.0, *[0.3] * (score.shape[1] - 1)]))


@dataclass(frozen=True, eq=False)
class Proportions:
    """What is known of the bags.

    Attributes
    ----------
    W : (B, C) sparse
        Share of each distinct row in each bag.
    squares : (B, C) sparse
        Sum of squared shares of its people.
    n : (B,)
        Effective people.
    """

    W: sparse.csr_array
    squares: sparse.csr_array
    n: FloatArray


def place_share(A: FloatArray, block: IntArray, weight: FloatArray, bags: Proportions, n_columns: int) -> float:
    """Give the share of the differences between bags that is not chance, 0 where they may be random bags.

    Examples
    --------
    >>> W = sparse.csr_array(np.eye(2))
    >>> far = Proportions(W, W / 50, np.full(2, 50.0))
    >>> place_share(np.array([[1.0, -1.0], [1.0, 1.0]]), np.zeros(1, dtype=int), np.ones(2), far, 1)
    0.98
    """
    Z = A[:, 1:][:, block == 0]
    center = np.average(Z, axis=0, weights=weight)
    spread = np.average((Z - center) ** 2, axis=0, weights=weight)
    between = bags.n @ (bags.W @ (Z - center)) ** 2 / len(bags.n)
    ratio = float(np.mean(between / np.maximum(spread, 1e-300)))
    chance = 1.0 + 4.0 * float(np.sqrt(2.0 / (len(bags.n) * n_columns)))
    return 0.0 if ratio <= chance else 1.0 - 1.0 / ratio


@dataclass(frozen=True, eq=False)
class Classified:
    """The model of one class.

    Attributes
    ----------
    theta : (1 + K,)
        Intercept and slopes.
    Sigma : (1 + K, 1 + K)
        Their posterior covariance.
    variance : (3,)
        v of each block.
    bag_sd : float
        tau, by which bags differ beside chance, in logits.
    steps : int
    gradient : float
        Largest entry at the optimum, in posterior sds.
    """

    theta: FloatArray
    Sigma: FloatArray
    variance: FloatArray
    bag_sd: float
    steps: int
    gradient: float

    def probabilities(self, A: FloatArray) -> FloatArray:
        """Give the posterior mean of the probability of each row (MacKay 1992), (n,)."""
        spread = np.einsum("ij,ij->i", A @ self.Sigma, A)
        return np.asarray(special.expit(A @ self.theta / np.sqrt(1.0 + np.pi * spread / 8.0)))


def fit_proportions(
    A: FloatArray, block: IntArray, bags: Proportions, s: FloatArray, *, places: bool, step: Step | None = None
) -> Classified:
    """Fit one class.

    Parameters
    ----------
    A : (C, 1 + K)
        A one and the scores of the distinct rows.
    block : (K,)
    bags : Proportions
    s : (B,)
        Published proportions.
    places : bool
        Whether bags are places, and variances fixed.
    step : callable, optional
        Called after each round.

    Examples
    --------
    >>> x = np.repeat([-1.0, 1.0], 40)
    >>> one = sparse.csr_array(np.eye(80))
    >>> y = np.concatenate([np.arange(40) < 8, np.arange(40) < 32]).astype(float)
    >>> A, bags = np.column_stack([np.ones(80), x]), Proportions(one, one, np.ones(80))
    >>> fit = fit_proportions(A, np.zeros(1, dtype=int), bags, y, places=False)
    >>> bool(1.2 < fit.theta[1] < 1.4)
    True
    """
    variance = Settings().slope_sd ** 2 * PLACES if places else USUAL.copy()
    theta = np.zeros(A.shape[1])
    theta[0] = special.logit(np.clip(np.average(s, weights=bags.n), 1e-4, 1.0 - 1e-4))
    phi, tau2, steps, K = np.ones(len(s)), 0.0, 0, A.shape[1]
    center = bags.W @ A[:, 1:] if places else np.empty((len(s), 0))
    theta = np.concatenate([theta, np.zeros(center.shape[1])])
    for _ in range(MOST_ROUNDS):
        precision = 1.0 / variance[block]
        prior = np.concatenate([[INTERCEPT_PRECISION], precision, precision[: center.shape[1]] / CONTEXT])
        p, m = _means(A, bags, theta[:K])
        context = ((bags.W @ (p * (1.0 - p))) / (m * (1.0 - m)))[:, None] * center
        theta, Sigma, gradient, more = _descend(A, bags, s, phi, prior, theta, context)
        steps += more
        if step is not None:
            step()
        p, m = _means(A, bags, theta[:K])
        slope, m = bags.W @ (p * (1.0 - p)), _shifted(m, context, theta[K:])
        used = 1.0 - prior * np.diag(Sigma)
        if (bags.n > 1.0).any():
            chance = bags.squares @ (p * (1.0 - p))
            tau2 = _bag_variance(s - m, chance, slope**2, max(len(s) - float(used.sum()), 1.0))
            now = np.maximum((chance + tau2 * slope**2) * bags.n / (m * (1.0 - m)), LEAST_PHI)
        else:
            now = phi
        before = np.concatenate([variance, phi])
        if not places:
            squares, counts = (np.bincount(block, v, 3) for v in (theta[1:] ** 2, np.maximum(used[1:], 0.0)))
            variance = (squares + PSEUDO * USUAL) / (counts + PSEUDO)
        phi = now
        if gradient < NEAR and np.abs(np.log(np.concatenate([variance, phi]) / before)).max() < 0.03:
            return Classified(theta[:K], Sigma[:K, :K], variance, float(np.sqrt(tau2)), steps, gradient)
    raise ConvergenceError(
        f"slopes and their variances did not settle in {MOST_ROUNDS} rounds (gradient {gradient:.2g}); check the proportions, or ask for "
        "fewer n_features."
    )


def _bag_variance(error: FloatArray, chance: FloatArray, slope2: FloatArray, df: float) -> float:
    """Find tau^2, the variance between bags at which squared errors are as large as they should be: sum e^2 / V = df."""
    low, high = 0.0, 16.0
    with np.errstate(divide="ignore"):
        if float((error**2 / np.maximum(chance, 1e-300)).sum()) <= df:
            return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = float((error**2 / np.maximum(chance + middle * slope2, 1e-300)).sum()) > df
        low, high = (middle, high) if over else (low, middle)
    return 0.5 * (low + high)


def _means(A: FloatArray, bags: Proportions, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the probabilities of rows, (C,), and their means in bags, (B,)."""
    p = special.expit(A @ theta)
    return p, np.clip(bags.W @ p, 1e-9, 1.0 - 1e-9)


def _shifted(m: FloatArray, context: FloatArray, gamma: FloatArray) -> FloatArray:
    """Shift means of bags by what follows their composition."""
    return np.clip(special.expit(special.logit(m) + context @ gamma), 1e-9, 1.0 - 1e-9) if len(gamma) else m


def _descend(
    A: FloatArray,
    bags: Proportions,
    s: FloatArray,
    phi: FloatArray,
    prior: FloatArray,
    theta: FloatArray,
    context: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, float, int]:
    """Go down by damped Fisher scoring; give the mode, the inverse information there, the gradient and the steps."""
    damping, n, K = 1e-4, bags.n / phi, A.shape[1]
    context = np.empty((len(s), 0)) if context is None else context

    def objective(at: FloatArray) -> float:
        m = _shifted(_means(A, bags, at[:K])[1], context, at[K:])
        return float(0.5 * prior @ at**2 - n @ (special.xlogy(s, m) + special.xlogy(1.0 - s, 1.0 - m)))

    value = objective(theta)
    for step in range(1, MOST_STEPS + 1):
        p, own = _means(A, bags, theta[:K])
        m = _shifted(own, context, theta[K:])
        spread = m * (1.0 - m)
        J = (spread / (own * (1.0 - own)))[:, None] * (bags.W @ ((p * (1.0 - p))[:, None] * A))
        J = np.hstack([J, spread[:, None] * context])
        w = n / spread
        slope = prior * theta - J.T @ (w * (s - m))
        H = (J.T * w) @ J + np.diag(prior)
        scale = np.sqrt(np.diag(H))
        size = float(np.abs(slope / scale).max())
        while size >= CLOSE:
            new = theta - linalg.solve(H + damping * np.diag(scale**2), slope, assume_a="pos")
            after = objective(new)
            if after <= value + 1e-12 * max(abs(value), 1.0):
                break
            damping = max(8.0 * damping, 1e-3)
            if damping > 1e10:  # rounding decides; this is the optimum as far as numbers go
                size, after, new = 0.0, value, theta
        if size < CLOSE or value - after < 1e-9 * max(abs(value), 1.0):
            return theta, linalg.inv(H), float(np.abs(slope / scale).max()), step
        theta, value, damping = new, after, 0.1 * damping
    return theta, linalg.inv(H), size, MOST_STEPS
