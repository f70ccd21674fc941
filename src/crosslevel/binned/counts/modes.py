"""Laplace's approximation of a latent curve seen through sums over its cells.

y_b ~ p(y | lambda_b), lambda = C g(f), f ~ N(mean, K). All algebra is B x B (B bins, A cells): with J = C diag(g'(f)) and the
variance function v, S = J K J' + diag(v), and the Fisher curvature W = J' diag(1/v) J is never formed. Many problems are solved
at once, either one histogram under n covariances or n histograms under one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.binned.counts.likelihoods import BinLikelihood, Slopes
from crosslevel.errors import ConvergenceError
from crosslevel.typing import FloatArray

SCORING_STEPS = 40
STEPS = 200
HALVINGS = 40
TOLERANCE = 1e-8
"""Largest change of f in a whole step at which a mode is accepted."""
STALLED = 1e-12
"""Squared distance to the mode, in posterior standard deviations, at which steps that no longer shrink are rounding: with tens of
millions of people the gradient has no more digits."""


@dataclass(frozen=True)
class Modes:
    """The modes of n problems and what the approximation needs of them.

    Attributes
    ----------
    f : (n, A)
        Mode of the latent curve.
    beta : (n, A)
        K^-1 (f - mean), which equals the likelihood's gradient by f at the mode.
    lam : (n, B)
        C g(f).
    J, JK : (n, B, A)
        d lambda / df, and J K.
    S : (n, B, B)
        J K J' + diag(v).
    log_evidence : (n,)
        psi(f) - log|S| / 2 + sum(log v) / 2.
    """

    f: FloatArray
    beta: FloatArray
    lam: FloatArray
    J: FloatArray
    JK: FloatArray
    S: FloatArray
    log_evidence: FloatArray


def _times(J: FloatArray, K: FloatArray) -> FloatArray:
    """Multiply every J (n, B, A) by K, (A, A) for all or (n, A, A)."""
    if K.ndim == 2:
        n, B, A = J.shape
        return np.asarray((J.reshape(n * B, A) @ K).reshape(n, B, A))
    return np.asarray(J @ K)


def find_modes(
    K: FloatArray, C: FloatArray, likelihood: BinLikelihood, mean: FloatArray, start: FloatArray | None = None
) -> Modes:
    """Find the mode of f given the bins, for n problems at once, by Fisher scoring with halved steps.

    Parameters
    ----------
    K : (A, A) or (n, A, A)
        Prior covariance, one for all or one each.
    C : (B, A)
        Nonnegative weights; bins may overlap or leave cells out.
    likelihood : BinLikelihood
        Of n histograms, or of one.
    mean : (A,) or (n, A)
        Prior mean of f.
    start : (n, A), optional
        f of a nearby problem.

    Raises
    ------
    ConvergenceError
        When a mode is not reached.

    Examples
    --------
    Two cells under one bin: only their sum is known.

    >>> from crosslevel.binned.counts.likelihoods import PoissonBins
    >>> modes = find_modes(np.eye(2), np.ones((1, 2)), PoissonBins(np.array([[10.0]])), np.log([5.0, 5.0]))
    >>> np.exp(modes.f).round(6)
    array([[5., 5.]])
    """
    try:
        with np.errstate(all="ignore"):  # a step too long gives an infinite mean, which the line search refuses
            found = _climb(K, C, likelihood, mean, start)
    except np.linalg.LinAlgError:
        found = None
    if found is None or not np.isfinite(found.log_evidence).all():
        raise ConvergenceError(
            "the mode of the counts was not reached: they, or the regions, differ by too many orders of magnitude. Check both for errors, "
            "or fit the large and the small ones apart."
        )
    return found


def _climb(
    K: FloatArray, C: FloatArray, likelihood: BinLikelihood, mean: FloatArray, start: FloatArray | None
) -> Modes:
    n = max(len(K) if K.ndim == 3 else 1, len(likelihood.totals))
    A = C.shape[1]
    mean = np.broadcast_to(mean, (n, A))
    f = np.array(np.broadcast_to(_start(C, likelihood, mean) if start is None else start, (n, A)))
    beta, height = np.zeros((n, A)), np.full(n, -np.inf)
    before = np.full(n, np.inf)
    active, steps = np.arange(n), 0
    K_now, like, mean_now = K, likelihood, mean
    while len(active) and steps < SCORING_STEPS:
        steps += 1
        there = _score(K_now, C, like, mean_now, f[active], beta[active], height[active], first=steps == 1)
        f[active], beta[active], height[active], far, promised = there
        stalled = (promised < STALLED) & (promised >= 0.5 * before[active])
        before[active] = promised
        left = (far >= TOLERANCE * (1.0 + np.abs(f[active]).max(axis=1))) & ~stalled
        if not left.all():
            active = active[left]
            K_now = K if K.ndim == 2 else K[active]
            like, mean_now = _rows(likelihood, active), mean[active]
    for i in active:  # scoring creeps where a bin's mass may lie anywhere in it; the true curvature does not
        f[i], beta[i], height[i] = _newton(
            K if K.ndim == 2 else K[i], C, _rows(likelihood, np.array([i])), mean[i], f[i], beta[i], height[i]
        )
    local = _assemble(K, C, likelihood, f)
    evidence = height - 0.5 * np.linalg.slogdet(local.S)[1] + 0.5 * np.log(local.slopes.variance).sum(axis=-1)
    return Modes(f, beta, local.lam, local.J, local.JK, local.S, np.asarray(evidence))


@dataclass(frozen=True)
class _Local:
    """The likelihood around f: lambda, its derivatives, J, J K and S."""

    lam: FloatArray
    slopes: Slopes
    J: FloatArray
    JK: FloatArray
    S: FloatArray


def _rows(likelihood: BinLikelihood, rows: npt.NDArray[np.intp]) -> BinLikelihood:
    return likelihood if len(likelihood.totals) == 1 else likelihood.take(rows)


def _assemble(K: FloatArray, C: FloatArray, likelihood: BinLikelihood, f: FloatArray) -> _Local:
    g, slope, _ = likelihood.link(f)
    lam = g @ C.T
    slopes = likelihood.slopes(lam)
    J = C * slope[:, None, :]
    if not likelihood.seen.all():
        J *= likelihood.seen[:, :, None]
    JK = _times(J, K)
    S = JK @ J.transpose(0, 2, 1)
    S[:, np.arange(len(C)), np.arange(len(C))] += slopes.variance
    return _Local(lam, slopes, J, JK, S)


def _score(
    K: FloatArray,
    C: FloatArray,
    likelihood: BinLikelihood,
    mean: FloatArray,
    f: FloatArray,
    beta: FloatArray,
    height: FloatArray,
    first: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Take one step of Fisher scoring, halved until psi does not fall.

    Gives f, beta, psi, the length of the whole step, and twice the gain it promised.
    """
    at = _assemble(K, C, likelihood, f)
    if first:
        z = (at.J @ (f - mean)[:, :, None])[:, :, 0] + at.slopes.variance * at.slopes.first
        x = np.linalg.solve(at.S, z[:, :, None])
        step_beta = (at.J.transpose(0, 2, 1) @ x)[:, :, 0]
        step_f = mean + _times(step_beta[:, None, :], K)[:, 0, :] - f
        promised = np.full(len(f), np.inf)
    else:
        # the same step from the gradient, (I + W K)^-1 g: its errors are relative to g, however many the counts
        g = (at.slopes.first[:, None, :] @ at.J)[:, 0, :] - beta
        x = np.linalg.solve(at.S, at.JK @ g[:, :, None])
        step_f = (_times(g[:, None, :], K) - x.transpose(0, 2, 1) @ at.JK)[:, 0, :]
        step_beta = g - (x.transpose(0, 2, 1) @ at.J)[:, 0, :]
        promised = np.abs((g * step_f).sum(axis=1))
    far = np.abs(step_f).max(axis=1)
    length = np.ones(len(f))
    for _ in range(HALVINGS):
        t = length[:, None]
        f_new, beta_new = f + t * step_f, beta + t * step_beta
        height_new = _height(likelihood, C, f_new, mean, beta_new)
        worse = ~(height_new >= height - _slack(likelihood, height))
        if first or not worse.any():  # the first f need not lie in the range of K, so it has no psi to compare with
            break
        length[worse] *= 0.5
    if first:
        lost = ~np.isfinite(height_new)
        if lost.any():  # a wild first step: begin at the prior mean instead
            f_new, beta_new = np.where(lost[:, None], mean, f_new), np.where(lost[:, None], 0.0, beta_new)
            height_new = np.where(lost, _height(likelihood, C, mean, mean, 0.0 * mean), height_new)
            far = np.where(lost, np.inf, far)
    # f carries the rounding of every beta on the way, which from a far start are huge; K beta only that of the last
    return mean + _times(beta_new[:, None, :], K)[:, 0, :], beta_new, height_new, far, promised


def _newton(
    K: FloatArray,
    C: FloatArray,
    likelihood: BinLikelihood,
    mean: FloatArray,
    f: FloatArray,
    beta: FloatArray,
    height: float,
) -> tuple[FloatArray, FloatArray, float]:
    """Climb to the mode of one problem by the true curvature, damped where it is not that of a peak."""
    damping, before = 0.0, np.inf
    for _ in range(STEPS):
        at = _assemble(K, C, likelihood, f[None, :])
        J, now = at.J[0], at.slopes
        second = likelihood.link(f)[2]
        W = (J.T * now.observed[0]) @ J - np.diag(second * (now.first[0] @ C))
        fisher = (J.T / now.variance[0]) @ J
        gradient = now.first[0] @ J - beta
        mixed = (1.0 - damping) * W + damping * fisher
        # (K^-1 + W)^-1 gradient = K (I + W K)^-1 gradient
        step_beta = np.linalg.solve(np.eye(len(f)) + mixed @ K, gradient)
        step_f = K @ step_beta
        far = float(np.abs(step_f).max())
        promised = float(gradient @ step_f)
        small = far < TOLERANCE * (1.0 + float(np.abs(f).max()))
        if (small or 0.5 * before <= abs(promised) < STALLED) and damping < 0.5:
            return f, beta, height
        uphill, before = promised > 0, abs(promised)
        length = 1.0
        for _ in range(HALVINGS if uphill else 0):
            f_new, beta_new = f + length * step_f, beta + length * step_beta
            height_new = float(_height(likelihood, C, f_new[None, :], mean[None, :], beta_new[None, :])[0])
            if height_new >= height - float(_slack(likelihood, np.array(height))[0]):
                f, beta, height = mean + K @ beta_new, beta_new, height_new
                damping = 0.5 * damping if damping > 1e-3 else 0.0
                break
            length *= 0.5
        else:
            if damping == 1.0:
                break
            damping = min(1.0, damping + 0.25)
    raise ConvergenceError(
        f"the mode of the counts was not reached (last step {far:.1e}, allowed {TOLERANCE:.0e}); check the totals for errors, or fit "
        "regions and counts of very different sizes apart."
    )


def _start(C: FloatArray, likelihood: BinLikelihood, mean: FloatArray) -> FloatArray:
    """Spread the first guess of each bin over its cells, (n, A); cells of no bin start at the mean."""
    of_bins = likelihood.guess(C.sum(axis=1))
    member = C / np.maximum(C.sum(axis=0), 1e-300)
    return np.where(C.sum(axis=0) > 0, of_bins @ member, mean)


def _slack(likelihood: BinLikelihood, height: FloatArray) -> FloatArray:
    """Give the rounding error of psi, (n,): that of the counts it adds up."""
    return np.asarray(1e-11 * (1.0 + np.abs(height)) + 1e-15 * np.nansum(likelihood.totals, axis=1))


def _height(likelihood: BinLikelihood, C: FloatArray, f: FloatArray, mean: FloatArray, beta: FloatArray) -> FloatArray:
    """Give psi, the log posterior up to a constant, (n,)."""
    value = likelihood.slopes(likelihood.link(f)[0] @ C.T).value
    height = value - 0.5 * (beta * (f - mean)).sum(axis=1)
    return np.where(np.isnan(height), -np.inf, height)


def posterior_covariance(modes: Modes, K: FloatArray, row: int = 0) -> FloatArray:
    """Give V = K - K J' S^-1 J K of one problem, (A, A).

    Parameters
    ----------
    K : (A, A)
        Its prior covariance.

    Examples
    --------
    >>> from crosslevel.binned.counts.likelihoods import PoissonBins
    >>> modes = find_modes(np.eye(2), np.ones((1, 2)), PoissonBins(np.array([[10.0]])), np.log([5.0, 5.0]))
    >>> V = posterior_covariance(modes, np.eye(2))
    >>> (V @ [1, -1]).round(6)
    array([ 1., -1.])
    """
    JK = modes.JK[row]
    L = np.linalg.cholesky(modes.S[row])
    half = np.linalg.solve(L, JK)
    return np.asarray(K - half.T @ half)
