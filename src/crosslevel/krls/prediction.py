"""How sure is a prediction, and how sure is the effect at one point?

Predictions come with the standard error of the chosen inference. Effects at points get the posterior of a Gaussian process
with the same kernel whose linear part is unpenalized: with b = v at one point, at the penalty of the fit,

    mean = (G^-1 v + G^-1 H M r)' u,    variance = tau^2 (kappa - v'G^-1 v + r'M r),    r = ell - H'G^-1 v,

kappa = L L' k, M = (H'G^-1 H)^-1, tau^2 = sigma^2 / penalty. Such a band holds its level on average over the curve, not at
each point, when its variance is on average the mean squared error of its center, bias included (Nychka, JASA 1988). The
posterior includes the bias of functions as smooth as the kernel. Kinks and bumps narrower than the kernel have more, so the
variance is raised, at every point alike, by the mean square over the rows of what the center moves by when a tenth of the
penalty is taken, the share that debiases the averages. The classical pointwise band (.72 to .85 where .95 is meant) is not
offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crosslevel.krls.covariance import SHARE_OF_PENALTY, Linear, effect_weights, residuals, robust
from crosslevel.krls.effects import Effect, Functionals, linear_parts, pointwise_effects
from crosslevel.krls.inference import sigma_squared, spectrum_of
from crosslevel.krls.model import Fit
from crosslevel.krls.spectrum import GaussianKernel
from crosslevel.typing import FloatArray

POINTS_AT_ONCE = 512
MOST_ENTRIES = 2**26
"""Of the kernel between points and distinct rows, held at once."""
JITTER = 1e-10


def predict_std(fit: Fit, X: FloatArray, inference: str) -> FloatArray:
    """Give the standard error of the predicted mean at rows in the units of the data, (n,).

    "debiased" gives the posterior standard deviation of the Gaussian process whose posterior mean the fit is; "krls" and
    "bigkrls" what the packages print; "classical" and "hc3" the error of the plug-in fit around its own mean.
    """
    spectrum_of(fit)
    Z = fit.scaling.apply(X)
    out = np.empty(len(Z))
    step = _points_at_once(fit)
    for start in range(0, len(Z), step):
        at = Z[start : start + step]
        V = fit.kernel.lift(fit.kernel.centers.between(at).T)
        out[start : start + step] = _variance(fit, V, inference)
    return np.sqrt(out) * fit.y_sd


def _points_at_once(fit: Fit) -> int:
    return max(1, min(POINTS_AT_ONCE, MOST_ENTRIES // len(fit.cells.m)))


def _variance(fit: Fit, V: FloatArray, inference: str) -> FloatArray:
    spectrum, cells, penalty = spectrum_of(fit), fit.cells, fit.penalty
    root = np.sqrt(cells.m)[:, None]
    if inference == "debiased":
        left = 1.0 - spectrum.inverse_norms(root * V, penalty, power=1)
        return posterior_variance(fit) * np.maximum(left, 0.0)
    if inference == "hc3":
        weights = effect_weights(spectrum, cells, Functionals(V, np.empty((0, 0))), penalty)
        return np.diag(robust(spectrum, cells, residuals(spectrum, cells, penalty), weights).matrix)
    variance = sigma_squared(fit, inference) * spectrum.inverse_norms(root * V, penalty, power=2)
    if inference == "bigkrls":  # it corrects the variance by the factor meant for the standard error
        variance = variance * np.sqrt(cells.N / (cells.N - fit.solution.edf))
    return variance


def posterior_variance(fit: Fit) -> float:
    """Estimate tau^2, the prior variance of the function, on the standardized scale."""
    return fit.solution.rss / max(fit.cells.N - fit.solution.edf - 1.0, 1e-8) / fit.penalty


@dataclass(frozen=True)
class Band:
    """Effects at points.

    Attributes
    ----------
    mean, sd : (n,)
        Posterior mean, and the root of posterior variance and allowance for bias, on the standardized scale.
    allowance : float
        The part of the variance that stands for bias.
    critical : float or None
        Multiple of sd that covers all points at once, where asked for.
    """

    mean: FloatArray
    sd: FloatArray
    allowance: float
    critical: float | None = None


def bias_allowance(fit: Fit, effects: Sequence[Effect]) -> FloatArray:
    """Measure the squared bias of effects at the rows, on average over the rows, on the standardized scale: (E,).

    It is the mean square of the difference between the effects of the fits, with unpenalized linear part, at the penalty and
    at a tenth of it.
    """
    spectrum, cells = spectrum_of(fit), fit.cells
    root = np.sqrt(cells.m)
    target = (root * cells.mean)[:, None]
    coef, slopes = np.zeros(len(root)), np.zeros(fit.kernel.Z.shape[1] + 1)
    for sign, penalty in ((1.0, SHARE_OF_PENALTY * fit.penalty), (-1.0, fit.penalty)):
        linear = Linear.at(spectrum, cells.m, fit.kernel.Z, penalty)
        Giu = spectrum.solve(target, penalty)
        coef += sign * root * linear.without(Giu)[:, 0]
        slopes += sign * (linear.M @ (linear.H.T @ Giu))[:, 0]
    moved = pointwise_effects(fit.kernel, effects, coef) + slopes @ linear_parts(effects, fit.kernel.Z.shape[1])
    return cells.m @ np.square(moved) / cells.N


def effect_band(
    fit: Fit,
    effect: Effect,
    Z: FloatArray,
    level: float | None = None,
    draws: int = 400,
    seed: int = 0,
    allowance: float | None = None,
) -> Band:
    """Find the posterior of one effect at standardized rows, with a simultaneous band when a level is given.

    Parameters
    ----------
    fit : Fit
    effect : Effect
    Z : (n, P)
    level : float, optional
        Level of the simultaneous band; its memory is that of an (n, n) matrix.
    draws, seed : int
        Simulations of the joint posterior.
    allowance : float, optional
        Its entry of `bias_allowance`; made when not given.
    """
    if allowance is None:
        allowance = float(bias_allowance(fit, [effect])[0])
    spectrum, cells = spectrum_of(fit), fit.cells
    root = np.sqrt(cells.m)
    linear = Linear.at(spectrum, cells.m, fit.kernel.Z, fit.penalty)
    ell = linear_parts([effect], Z.shape[1])
    target = root * cells.mean
    step = len(Z) if level is not None else _points_at_once(fit)
    mean, left = np.empty(len(Z)), np.empty(len(Z))
    critical = None
    for start in range(0, len(Z), max(step, 1)):
        at = Z[start : start + step]
        V = root[:, None] * _functions(fit.kernel, effect, at)
        Giv = spectrum.solve(V, fit.penalty)
        r = ell - linear.H.T @ Giv
        mean[start : start + step] = (Giv + linear.GiH @ (linear.M @ r)).T @ target
        left[start : start + step] = (
            _kappa(effect, fit.kernel.s) - np.einsum("ij,ij->j", V, Giv) + np.einsum("ij,ij->j", r, linear.M @ r)
        )
        if level is not None:
            joint = _joint_kappa(fit.kernel, effect, at) - V.T @ Giv + r.T @ linear.M @ r
            critical = _simultaneous(joint, level, draws, seed)
    sd = np.sqrt(posterior_variance(fit) * np.maximum(left, 0.0) + allowance)
    return Band(mean, sd, allowance, critical)


def _functions(kernel: GaussianKernel, effect: Effect, at: FloatArray) -> FloatArray:
    """Give v for the effect at each point, (U, n)."""
    s, centers = kernel.s, kernel.centers
    if effect.switch is None:
        p = effect.column
        return kernel.lift(((-2.0 / s) * (at[:, p, None] - centers.Z[:, p]) * centers.between(at)).T)
    columns = effect.switch.columns
    K = centers.without(columns).between(np.delete(at, columns, axis=1))
    E = effect.switch.kernel(effect.switch.points[[effect.high, effect.low]], s)
    return kernel.lift((K * (E[0] - E[1])[effect.switch.levels(centers.Z)]).T)


def _kappa(effect: Effect, s: float) -> float:
    """Give L L' k of the effect at one point: 2/s for a derivative, twice one minus the kernel of the switch."""
    if effect.switch is None:
        return 2.0 / s
    points = effect.switch.points
    gap = np.square(points[effect.high] - points[effect.low]).sum()
    return float(2.0 * -np.expm1(-gap / s))


def _joint_kappa(kernel: GaussianKernel, effect: Effect, at: FloatArray) -> FloatArray:
    """Give L L' k between the effects at all pairs of points, (n, n)."""
    if effect.switch is None:
        K = GaussianKernel(at, kernel.s).matrix()
        gap = at[:, effect.column, None] - at[:, effect.column]
        return (2.0 / kernel.s) * (1.0 - (2.0 / kernel.s) * gap**2) * K
    rest = np.delete(at, effect.switch.columns, axis=1)
    return _kappa(effect, kernel.s) * GaussianKernel(rest, kernel.s).matrix()


def _simultaneous(joint: FloatArray, level: float, draws: int, seed: int) -> float:
    """Simulate the largest standardized deviation over the points and take its quantile."""
    sd = np.sqrt(np.maximum(np.diag(joint), 0.0))
    keep = sd > 1e-7 * sd.max()
    correlation = joint[np.ix_(keep, keep)] / sd[keep, None] / sd[keep]
    values, vectors = scipy.linalg.eigh((correlation + correlation.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0) + JITTER)) @ vectors.T  # the same whatever signs the vectors have
    normal = np.random.default_rng(seed).standard_normal((root.shape[1], draws))
    return float(np.quantile(np.abs(root @ normal).max(axis=0), level))
