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

import numpy as np

from crosslevel.krls.covariance import SHARE_OF_PENALTY, Linear, effect_weights, residuals, robust
from crosslevel.krls.effects import Effect, Functionals, linear_parts, pointwise_effects
from crosslevel.krls.inference import sigma_squared, spectrum_of
from crosslevel.krls.model import Fit
from crosslevel.krls.spectrum import GaussianKernel
from crosslevel.typing import FloatArray

POINTS_AT_ONCE = 512
MOST_ENTRIES = 2**26
"""Of the kernel between points and distinct rows, held at once."""


def predict_std(fit: Fit, X: FloatArray, inference: str) -> FloatArray:
    """Give the standard error of the predicted mean at rows in the units of the data, (n,).

    "debiased" gives the posterior standard deviation of the Gaussian process whose posterior mean the fit is; "krls" and
    "bigkrls" what the packages print; "hc3" the error of the plug-in fit around its own mean.
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
    variance = sigma_squared(fit) * spectrum.inverse_norms(root * V, penalty, power=2)
    if inference == "bigkrls":  # it corrects the variance by the factor meant for the standard error
        variance = variance * np.sqrt(cells.N / (cells.N - fit.solution.edf))
    return variance


def posterior_variance(fit: Fit) -> float:
    """Estimate tau^2, the prior variance of the function, on the standardized scale."""
    return fit.solution.rss / max(fit.cells.N - fit.solution.edf - 1.0, 1e-8) / fit.penalty


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


def effect_band(fit: Fit, effect: Effect, Z: FloatArray, allowance: float) -> tuple[FloatArray, FloatArray]:
    """Give mean and standard deviation of the posterior of one effect at standardized rows, on the standardized scale.

    Parameters
    ----------
    fit : Fit
    effect : Effect
    Z : (n, P)
    allowance : float
        Its entry of `bias_allowance`, which is added to every variance.

    Returns
    -------
    mean, sd : (n,)
    """
    spectrum, cells = spectrum_of(fit), fit.cells
    root = np.sqrt(cells.m)
    linear = Linear.at(spectrum, cells.m, fit.kernel.Z, fit.penalty)
    ell = linear_parts([effect], Z.shape[1])
    target = root * cells.mean
    mean, left = np.empty(len(Z)), np.empty(len(Z))
    step = _points_at_once(fit)
    for start in range(0, len(Z), step):
        rows = slice(start, start + step)
        V = root[:, None] * _functions(fit.kernel, effect, Z[rows])
        Giv = spectrum.solve(V, fit.penalty)
        r = ell - linear.H.T @ Giv
        mean[rows] = (Giv + linear.GiH @ (linear.M @ r)).T @ target
        explained = np.einsum("ij,ij->j", V, Giv) - np.einsum("ij,ij->j", r, linear.M @ r)
        left[rows] = _kappa(effect, fit.kernel.s) - explained
    return mean, np.sqrt(posterior_variance(fit) * np.maximum(left, 0.0) + allowance)


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
