"""Laplace approximation of a Gaussian process seen through counts.

f ~ N(0, K), counts | f ~ binomial or Poisson. The mode of f, the evidence, and the evidence's exact gradient by K. Works on
B = I + W^1/2 K W^1/2 (Rasmussen & Williams 2006, algorithms 3.1 and 5.1), so K may be singular and W of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import linalg, special

from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

STEPS = 200
HALVINGS = 40
TOLERANCE = 1e-8
"""Largest gradient at the mode, relative to the counts, that passes."""
ROUNDING = 1e-15
"""Error of a log likelihood relative to the counts it adds up: a billion trials leave it no digits below a millionth."""


@dataclass(frozen=True)
class Slopes:
    """Log likelihood and its derivatives by f, one entry per observation.

    Attributes
    ----------
    value : float
        Sum of the log probabilities.
    first, curvature, third : (n,)
        d/df, -d2/df2 (never negative) and d3/df3.
    scale : (n,)
        Size of the numbers whose difference ``first`` is; its rounding error is relative to them.
    """

    value: float
    first: FloatArray
    curvature: FloatArray
    third: FloatArray
    scale: FloatArray


class Likelihood(Protocol):
    """Independent observations, each of one latent value."""

    def slopes(self, f: FloatArray) -> Slopes:
        """Give the log likelihood at f with three derivatives."""
        ...

    def start(self) -> FloatArray:
        """Give a finite first guess of f, (n,)."""
        ...


@dataclass(frozen=True)
class Binomial:
    """k of n with probability 1 / (1 + exp(-f)).

    Attributes
    ----------
    successes, trials : (n,)
        Counts, or weighted counts.
    """

    successes: FloatArray
    trials: FloatArray

    def slopes(self, f: FloatArray) -> Slopes:
        """Give the log likelihood at f with three derivatives."""
        k, n = self.successes, self.trials
        p, q = special.expit(f), special.expit(-f)
        # measured from the observed share, so that a billion trials leave digits for the difference of two heights
        share = np.log(np.where(k > 0, k, 1.0) / n), np.log(np.where(k < n, n - k, 1.0) / n)
        value = k * (special.log_expit(f) - share[0]) + (n - k) * (special.log_expit(-f) - share[1])
        W = n * p * q
        # k q - (n - k) p, not k - n p: exact where p is near 0 or 1
        yes, no = k * q, (n - k) * p
        return Slopes(float((value + binomial_peak(k, n)).sum()), yes - no, W, W * (p - q), yes + no)

    def start(self) -> FloatArray:
        """Give the smoothed logit of the share."""
        return np.log((self.successes + 0.5) / (self.trials - self.successes + 0.5))


def binomial_peak(successes: FloatArray, trials: FloatArray) -> FloatArray:
    """Give the log probability of k of n when the rate is k / n itself, with digits left at a billion trials.

    Differences of log factorials lose them; Stirling's remainders do not (Loader 2000, "Fast and accurate computation of
    binomial probabilities").

    Examples
    --------
    >>> binomial_peak(np.array([1.0, 0.0]), np.array([2.0, 9.0])).round(12)
    array([-0.69314718, 0.        ])
    """
    k, n = successes, trials
    inner = (k > 0) & (k < n)
    a, b = np.where(inner, k, 1.0), np.where(inner, n - k, 1.0)
    peak = _stirling(a + b) - _stirling(a) - _stirling(b) - 0.5 * np.log(2.0 * np.pi * a * (b / (a + b)))
    return np.where(inner, peak, 0.0)


def _stirling(x: FloatArray) -> FloatArray:
    """Give log gamma(x + 1) less Stirling's formula."""
    safe = np.maximum(x, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / safe**2) / safe**2) / safe**2) / safe
    direct = special.gammaln(x + 1) - (x + 0.5) * np.log(x) + x - 0.5 * np.log(2.0 * np.pi)
    return np.where(x < 16.0, direct, series)


@dataclass(frozen=True)
class Poisson:
    """A count with mean exposure x exp(f).

    Attributes
    ----------
    counts, exposure : (n,)
    """

    counts: FloatArray
    exposure: FloatArray

    def slopes(self, f: FloatArray) -> Slopes:
        """Give the log likelihood at f with three derivatives."""
        with np.errstate(over="ignore"):  # a step too long: infinite mean, refused by the line search
            mean = self.exposure * np.exp(f)
        constant = special.xlogy(self.counts, self.exposure) - special.gammaln(self.counts + 1)
        value = float((self.counts * f - mean + constant).sum())
        return Slopes(value, self.counts - mean, mean, -mean, np.maximum(self.counts, mean))

    def start(self) -> FloatArray:
        """Give the log of the smoothed rate."""
        return np.log((self.counts + 0.5) / self.exposure)


@dataclass(frozen=True)
class Mode:
    """The mode of f and what the approximation needs of it.

    Attributes
    ----------
    f : (n,)
    alpha : (n,)
        K^-1 f, which equals the likelihood's gradient at the mode.
    curvature : (n,)
        W, minus the second derivative of the log likelihood.
    third : (n,)
        Third derivative.
    L : (n, n)
        Lower Cholesky factor of B = I + W^1/2 K W^1/2.
    log_evidence : float
        Laplace's approximation of log p(counts).
    iterations : int
    gradient : float
        Largest gradient of the posterior at f relative to the counts.
    """

    f: FloatArray
    alpha: FloatArray
    curvature: FloatArray
    third: FloatArray
    L: FloatArray
    log_evidence: float
    iterations: int
    gradient: float


def find_mode(K: FloatArray, likelihood: Likelihood, start: FloatArray | None = None) -> Mode:
    """Find the mode of f given the counts by damped Newton steps.

    Parameters
    ----------
    K : (n, n)
        Prior covariance.
    likelihood : Likelihood
    start : (n,), optional
        f of a nearby problem.

    Raises
    ------
    ConvergenceError
        When the gradient does not vanish, or K is not positive semidefinite.

    Examples
    --------
    >>> mode = find_mode(np.eye(1), Binomial(np.array([9.0]), np.array([10.0])))
    >>> bool(abs(9 - 10 / (1 + np.exp(-mode.f[0])) - mode.f[0]) < 1e-9)
    True
    """
    n = len(K)
    # the posterior mean of a Gaussian look-alike at f: near the mode wherever f is near the data, whatever K
    guess = likelihood.start() if start is None else start
    here = likelihood.slopes(guess)
    if not np.isfinite(here.value):
        guess = likelihood.start()
        here = likelihood.slopes(guess)
    root = np.sqrt(here.curvature)
    L = _factor(K, root)
    b = here.curvature * guess + here.first
    alpha = b - root * linalg.cho_solve((L, True), root * (K @ b), check_finite=False)
    f = K @ alpha
    now = likelihood.slopes(f)
    height = now.value - 0.5 * alpha @ f
    if not np.isfinite(height):
        alpha, f = np.zeros(n), np.zeros(n)
        now = likelihood.slopes(f)
        height = now.value
    relative = _relative(now, alpha)
    step = 0
    while step < STEPS:
        step += 1
        root = np.sqrt(now.curvature)
        L = _factor(K, root)
        gradient = now.first - alpha
        # (I + W K)^-1 gradient: errors are relative to the gradient, whatever the size of W
        alpha_step = gradient - root * linalg.cho_solve((L, True), root * (K @ gradient), check_finite=False)
        f_step = K @ alpha_step
        promised = float(gradient @ f_step)  # twice the gain that a quadratic would give
        # so close that the height no longer tells: whole steps while they lessen the gradient
        close = promised <= 1e-10 * (1.0 + abs(height)) + ROUNDING * float(now.scale.sum())
        length = 1.0
        for _ in range(HALVINGS):
            f_new, alpha_new = f + length * f_step, alpha + length * alpha_step
            new = likelihood.slopes(f_new)
            height_new = float(new.value - 0.5 * alpha_new @ f_new)
            if close or height_new >= height + 1e-4 * length * promised:
                break
            length *= 0.5
        else:
            break
        relative_new = _relative(new, alpha_new)
        if close and not relative_new < 0.5 * relative:
            break
        f, alpha, now, height, relative = f_new, alpha_new, new, height_new, relative_new
    if step == STEPS:  # ended after a step, so the factor is of the point before
        L = _factor(K, np.sqrt(now.curvature))
    if not relative < TOLERANCE:
        raise ConvergenceError(
            f"the Laplace approximation did not reach its mode in {step} steps (relative gradient {relative:.1e}, allowed "
            f"{TOLERANCE:.0e}); check the counts for errors, or let the model have a nugget."
        )
    evidence = height - float(np.log(np.diag(L)).sum())
    return Mode(f, alpha, now.curvature, now.third, L, evidence, step, relative)


def refactor(mode: Mode, K: FloatArray) -> Mode:
    """Give a mode the factor of B again, when only its vectors were kept."""
    return replace(mode, L=_factor(K, np.sqrt(mode.curvature)))


def evidence_gradient(mode: Mode, K: FloatArray) -> FloatArray:
    """Give G, (n, n), such that the evidence changes by sum(G * dK) when K changes by a symmetric dK.

    Includes the change of the mode itself (Rasmussen & Williams 2006, section 5.5.1, with the sign of equation 5.23 corrected).

    Examples
    --------
    >>> like, K = Binomial(np.array([9.0]), np.array([10.0])), np.eye(1)
    >>> G = evidence_gradient(find_mode(K, like), K)
    >>> up, down = (find_mode(K * (1 + h), like).log_evidence for h in (1e-5, -1e-5))
    >>> bool(abs((up - down) / 2e-5 - G[0, 0]) < 1e-6)
    True
    """
    root = np.sqrt(mode.curvature)
    C = linalg.solve_triangular(mode.L, np.diag(root), lower=True, check_finite=False)
    R = C.T @ C  # (K + W^-1)^-1
    s = 0.5 * posterior_variance(mode, K, R) * mode.third
    u = s - R @ (K @ s)
    a = mode.alpha
    both = np.outer(0.5 * a + u, a)
    return 0.5 * (both + both.T - R)


def posterior_variance(mode: Mode, K: FloatArray, R: FloatArray | None = None) -> FloatArray:
    """Give the variance of each f given the counts, (n,): the diagonal of (K^-1 + W)^-1.

    Parameters
    ----------
    R : (n, n), optional
        (K + W^-1)^-1 where it is at hand.
    """
    W = mode.curvature
    if R is None:
        V = linalg.solve_triangular(mode.L, np.sqrt(W)[:, None] * K, lower=True, check_finite=False)
        removed, inverse = np.einsum("ij,ij->j", V, V), None
    else:
        removed, inverse = np.einsum("ij,ij->j", R @ K, K), np.diag(R)
    plain = np.maximum(np.diag(K) - removed, 0.0)
    if inverse is None:
        C = linalg.solve_triangular(mode.L, np.diag(np.sqrt(W)), lower=True, check_finite=False)
        inverse = np.einsum("ij,ij->j", C, C)
    # two forms of one number: K - K R K loses digits where data are many, (1 - R / W) / W where they are few
    many = np.diag(K) * W > 1.0
    safe = np.where(many, W, 1.0)
    return np.where(many, np.maximum(1.0 - inverse / safe, 0.0) / safe, plain)


def _relative(now: Slopes, alpha: FloatArray) -> float:
    return float(np.max(np.abs(now.first - alpha) / (1.0 + now.scale)))


def _factor(K: FloatArray, root: FloatArray) -> FloatArray:
    B = root[:, None] * K * root[None, :]
    B[np.diag_indices_from(B)] += 1.0
    try:
        return np.asarray(linalg.cholesky(B, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError as error:
        raise ConvergenceError(
            "the prior covariance is not positive semidefinite, so there is no mode; check the kernel and the coordinates."
        ) from error
