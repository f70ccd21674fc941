"""King's (1997) model of 2 x 2 tables: the likelihood of T given X, its derivatives and the posterior.

In unit i the shares (b_i, w_i) of the two groups with the outcome are drawn from a bivariate normal cut to the unit
square. Only T_i = X_i b_i + (1 - X_i) w_i is seen, so (b_i, w_i) lies on a line through the square (the tomography line),
and the density of T_i is that of the uncut normal, times the probability of the line's part inside the square, over the
probability of the square (King 1997, appendix D):

    f(T | X) = N(T; mu, s^2) P(low < c < high | T) / P(square).

On the line one coordinate tells the other. Here it is that of the unit's smaller group (c, of share p <= 1/2), from
which the larger follows without loss of digits; X = 0 and X = 1 then need no case of their own. Where T is 0 or 1 the
line is a corner of the square, and the density is that of the corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crosslevel.numerics.bivariate_normal import log_rectangle, log_rectangle_slopes
from crosslevel.numerics.truncated_normal import LOG_ROOT_TWO_PI, log_interval
from crosslevel.typing import BoolArray, FloatArray

AT_ONCE = 1 << 16  # numbers worked on at a time: they stay in the cache
CHEBYSHEV = (14.0, 5.0)
"""Points of interpolation of log P(square): some, and more per sd of half the range; the error stays below 1e-7."""


@dataclass(frozen=True)
class Lines:
    """The tomography line of every unit.

    Attributes
    ----------
    X, T : (n_units,)
        Share of the first group, share with the first outcome.
    first : (n_units,) bool
        Whether the coordinate is the first group's share with the outcome (where X <= 1/2) or the second's.
    p : (n_units,)
        Share of the coordinate's group, at most 1/2.
    low, high : (n_units,)
        The part of the line inside the square, by that coordinate.
    corner : (n_units,) bool
        Whether that part is one point.
    """

    X: FloatArray
    T: FloatArray
    first: BoolArray
    p: FloatArray
    low: FloatArray
    high: FloatArray
    corner: BoolArray


class Normal(NamedTuple):
    """Parameters of the bivariate normal before it is cut; each broadcasts to (n_draws, n_units)."""

    mb: FloatArray
    mw: FloatArray
    sb: FloatArray
    sw: FloatArray
    rho: FloatArray


@dataclass(frozen=True)
class Prior:
    """King's priors, on the scale of estimation; 0 leaves one out.

    Attributes
    ----------
    erho : sd of the normal prior of phi5 = atanh(rho).
    esigma : sd of the half-normal prior of each standard deviation.
    ebeta : sd of the prior of each mean outside [0, 1]; inside it is flat.
    """

    erho: float
    esigma: float
    ebeta: float


@dataclass(frozen=True)
class Problem:
    """What the posterior is of.

    Attributes
    ----------
    lines : Lines
    Zb, Zw : (n_units, k_b), (n_units, k_w)
        Covariates of the two means, centered.
    prior : Prior
    """

    lines: Lines
    Zb: FloatArray
    Zw: FloatArray
    prior: Prior

    @property
    def n_parameters(self) -> int:
        """5 and the coefficients."""
        return 5 + self.Zb.shape[1] + self.Zw.shape[1]


class _Segment(NamedTuple):
    """The uncut normal of T and of the coordinate given T; each (n_draws, n_units)."""

    s2: FloatArray
    residual: FloatArray
    omega: FloatArray
    mean: FloatArray
    sd: FloatArray


def tomography_lines(X: FloatArray, T: FloatArray) -> Lines:
    """Find the part of every unit's line that lies inside the unit square.

    Parameters
    ----------
    X, T : (n_units,)
        Shares in [0, 1].

    Examples
    --------
    >>> lines = tomography_lines(np.array([0.25, 0.8]), np.array([0.1, 0.1]))
    >>> lines.low.round(3).tolist(), lines.high.round(3).tolist(), lines.first.tolist()
    ([0.0, 0.0], [0.4, 0.5], [True, False])
    """
    first = X <= 0.5
    p = np.where(first, X, 1.0 - X)
    mixed = p > 0
    safe = np.where(mixed, p, 1.0)
    high = np.where(mixed, np.minimum(1.0, T / safe), 1.0)
    low = np.where(mixed, np.clip((T - (1.0 - p)) / safe, 0.0, high), 0.0)
    return Lines(X=X, T=T, first=first, p=p, low=low, high=high, corner=mixed & ((T <= 0) | (T >= 1)))


def untruncated(phi: FloatArray, problem: Problem) -> Normal:
    """Turn King's parameters of estimation into the uncut normal.

    mean_b = phi1 (sd_b^2 + 1/4) + 1/2 + Zb alpha_b, sd_b = exp(phi3), rho = tanh(phi5), and so for w.

    Parameters
    ----------
    phi : (n_draws, n_parameters)
    problem : Problem

    Returns
    -------
    Normal
        Means (n_draws, 1), or (n_draws, n_units) with covariates; the others (n_draws, 1).
    """
    sb, sw, rho = np.exp(phi[:, 2:3]), np.exp(phi[:, 3:4]), np.tanh(phi[:, 4:5])
    mb, mw = phi[:, 0:1] * (sb**2 + 0.25) + 0.5, phi[:, 1:2] * (sw**2 + 0.25) + 0.5
    k = problem.Zb.shape[1]
    if k:
        mb = mb + phi[:, 5 : 5 + k] @ problem.Zb.T
    if problem.Zw.shape[1]:
        mw = mw + phi[:, 5 + k :] @ problem.Zw.T
    return Normal(mb, mw, sb, sw, rho)


def coordinate(lines: Lines, normal: Normal) -> tuple[FloatArray, FloatArray]:
    """Give mean and sd of every unit's coordinate given its T, before the cut: two (n_draws, n_units)."""
    found = _segment(lines, *_roles(lines, normal))
    return found.mean, found.sd


def log_posterior(phi: FloatArray, problem: Problem) -> FloatArray:
    """Give the log posterior at each row of phi, up to a constant; -inf where it cannot be computed.

    Parameters
    ----------
    phi : (n_draws, n_parameters)
    problem : Problem

    Returns
    -------
    (n_draws,)
    """
    found = np.empty(len(phi))
    n = len(problem.lines.X)
    rows = max(1, AT_ONCE // n)
    for start in range(0, len(phi), rows):
        part = phi[start : start + rows]
        normal = untruncated(part, problem)
        found[start : start + rows] = _log_likelihood(problem.lines, normal) + _log_prior(part, normal, problem.prior)
    return np.where(np.isfinite(found), found, -np.inf)


def log_posterior_slope(phi: FloatArray, problem: Problem) -> tuple[float, FloatArray]:
    """Give the log posterior at one phi and its gradient, both exact.

    Parameters
    ----------
    phi : (n_parameters,)
    problem : Problem

    Returns
    -------
    value : float
    gradient : (n_parameters,)
    """
    normal = untruncated(phi[None, :], problem)
    value, by = _likelihood_slopes(problem.lines, normal)
    prior_value = float(_log_prior(phi[None, :], normal, problem.prior)[0])
    mb, mw, (sb, sw, rho) = normal.mb[0], normal.mw[0], (float(v[0, 0]) for v in normal[2:])
    Gb, Gw = by.mb + _flat_slope(mb, problem), by.mw + _flat_slope(mw, problem)
    esigma, erho = problem.prior.esigma, problem.prior.erho
    shrink = 1.0 / esigma**2 if esigma > 0 else 0.0
    gradient = np.concatenate(
        [
            [Gb.sum() * (sb**2 + 0.25), Gw.sum() * (sw**2 + 0.25)],
            [Gb.sum() * phi[0] * 2.0 * sb**2 + by.sb.sum() * sb - shrink * sb**2],
            [Gw.sum() * phi[1] * 2.0 * sw**2 + by.sw.sum() * sw - shrink * sw**2],
            [by.rho.sum() * (1.0 - rho**2) - (phi[4] / erho**2 if erho > 0 else 0.0)],
            Gb @ problem.Zb,
            Gw @ problem.Zw,
        ]
    )
    return value + prior_value, gradient


def _roles(lines: Lines, normal: Normal) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Give mean and sd of the coordinate, of the other group, and rho."""
    mb, mw, sb, sw, rho = normal
    if lines.first.all():
        return mb, sb, mw, sw, rho
    f = lines.first
    return np.where(f, mb, mw), np.where(f, sb, sw), np.where(f, mw, mb), np.where(f, sw, sb), rho


def _segment(lines: Lines, mc: FloatArray, sc: FloatArray, mo: FloatArray, so: FloatArray, rho: FloatArray) -> _Segment:
    p, q = lines.p, 1.0 - lines.p
    pc, qo = p * sc, q * so
    s2 = (pc - qo) ** 2 + 2.0 * (1.0 + rho) * pc * qo
    residual = lines.T - p * mc - q * mo
    omega = sc * (pc + rho * qo)
    sd = sc * qo * np.sqrt((1.0 - rho) * (1.0 + rho) / s2)
    return _Segment(s2=s2, residual=residual, omega=omega, mean=mc + omega / s2 * residual, sd=sd)


def _log_square(normal: Normal) -> FloatArray:
    mb, mw, sb, sw, rho = normal
    return log_rectangle(-mb / sb, (1.0 - mb) / sb, -mw / sw, (1.0 - mw) / sw, rho)


def _log_squares(normal: Normal) -> FloatArray:
    """Give log P(square) at every unit's means, (n_draws, 1) or (n_draws, n_units).

    With covariates and many units it is interpolated, in each draw, on Chebyshev points of the range of the means: a
    smooth function of one or two numbers.
    """
    m = len(normal.rho)
    n = max(normal.mb.shape[1], normal.mw.shape[1])
    given_other = np.sqrt((1.0 - normal.rho) * (1.0 + normal.rho))  # log P bends on the scale of the conditional sd
    axes = [_chebyshev(normal.mb, normal.sb * given_other), _chebyshev(normal.mw, normal.sw * given_other)]
    kb, kw = (axis[0].shape[1] for axis in axes)
    if 2 * kb * kw > n:
        return _log_square(normal)
    (xb, Lb), (xw, Lw) = axes
    grid = [np.repeat(xb, kw, axis=1), np.tile(xw, (1, kb)), normal.sb, normal.sw, normal.rho]
    values = _log_square(Normal(*grid)).reshape(m, kb, kw)
    # (n_draws, n_units or 1, kb) (n_draws, kb, kw), then along kw
    return np.einsum("mnk,mnk->mn", np.broadcast_to(Lb @ values, (m, n, kw)), np.broadcast_to(Lw, (m, n, kw)))


def _chebyshev(mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give Chebyshev points over each draw's range of means, (n_draws, k), and the interpolation to the means, (n_draws, n, k).

    As many as the widest range needs, in units of sd.
    """
    m, n = mean.shape
    if n == 1:
        return mean, np.ones((m, 1, 1))
    low, high = mean.min(axis=1, keepdims=True), mean.max(axis=1, keepdims=True)
    half, center = np.maximum(0.5 * (high - low), 1e-9), 0.5 * (high + low)
    k = int(np.ceil(CHEBYSHEV[0] + CHEBYSHEV[1] * float((half / sd).max())))
    t = np.cos(np.pi * np.arange(k) / (k - 1))
    weight = np.where(np.arange(k) % 2, -1.0, 1.0)
    weight[[0, -1]] *= 0.5
    if 2 * k > n:
        return center + half * t, np.empty((m, 0, k))  # too many to be of use
    away = ((mean - center) / half)[:, :, None] - t
    away[away == 0] = 1e-300  # a mean at a point takes its value
    ratio = weight / away
    return center + half * t, ratio / ratio.sum(axis=2, keepdims=True)


def _log_likelihood(lines: Lines, normal: Normal) -> FloatArray:
    """(n_draws,)"""
    roles = _roles(lines, normal)
    at = _segment(lines, *roles)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = log_interval((lines.low - at.mean) / at.sd, (lines.high - at.mean) / at.sd)
        each = inside - 0.5 * np.log(at.s2) - 0.5 * at.residual**2 / at.s2 - LOG_ROOT_TWO_PI
    if lines.corner.any():
        each = np.where(lines.corner, _corner_density(lines, *roles), each)
    return (each - np.broadcast_to(_log_squares(normal), each.shape)).sum(axis=1)


def _corner_density(
    lines: Lines, mc: FloatArray, sc: FloatArray, mo: FloatArray, so: FloatArray, rho: FloatArray
) -> FloatArray:
    u, v = (lines.T - mc) / sc, (lines.T - mo) / so
    c2 = 1.0 - rho * rho
    return (
        -((u - v) ** 2 + 2.0 * (1.0 - rho) * u * v) / (2.0 * c2) - np.log(sc * so * np.sqrt(c2)) - 2 * LOG_ROOT_TWO_PI
    )


def _log_prior(phi: FloatArray, normal: Normal, prior: Prior) -> FloatArray:
    """(n_draws,)"""
    found = np.zeros(len(phi))
    if prior.erho > 0:
        found = found - 0.5 * (phi[:, 4] / prior.erho) ** 2
    if prior.esigma > 0:
        found = found - 0.5 * (normal.sb[:, 0] ** 2 + normal.sw[:, 0] ** 2) / prior.esigma**2
    if prior.ebeta > 0:
        for mean in (normal.mb.mean(axis=1), normal.mw.mean(axis=1)):
            found = found - 0.5 * ((mean - np.clip(mean, 0.0, 1.0)) / prior.ebeta) ** 2
    return found


def _flat_slope(mean: FloatArray, problem: Problem) -> FloatArray:
    """Differentiate the prior of a mean by every unit's mean; it looks at their average."""
    if problem.prior.ebeta <= 0:
        return np.zeros(len(problem.lines.X))
    average = float(mean.mean())
    n = len(problem.lines.X)
    return np.full(n, -(average - min(max(average, 0.0), 1.0)) / problem.prior.ebeta**2 / n)


def _likelihood_slopes(lines: Lines, normal: Normal) -> tuple[float, Normal]:
    """Give the log likelihood at one set of parameters, and its derivatives by each unit's: five (n_units,)."""
    n = len(lines.X)
    mb, mw, sb, sw, rho = (np.broadcast_to(v[0], (n,)) for v in normal)
    roles = _roles(lines, Normal(mb, mw, sb, sw, rho))
    value, by = _line_slopes(lines, *roles)
    if lines.corner.any():
        there, by_corner = _corner_slopes(lines, *roles)
        value = np.where(lines.corner, there, value)
        by = tuple(np.where(lines.corner, c, v) for c, v in zip(by_corner, by, strict=True))
    f = lines.first
    mc, mo, sc, so, r = by
    a1, b1 = (-normal.mb / normal.sb)[0], ((1.0 - normal.mb) / normal.sb)[0]
    a2, b2 = (-normal.mw / normal.sw)[0], ((1.0 - normal.mw) / normal.sw)[0]
    log_p = log_rectangle(a1, b1, a2, b2, normal.rho[0])
    sq = log_rectangle_slopes(a1, b1, a2, b2, normal.rho[0], log_p)
    found = Normal(
        mb=np.where(f, mc, mo) + (sq.a1 + sq.b1) / sb,
        mw=np.where(f, mo, mc) + (sq.a2 + sq.b2) / sw,
        sb=np.where(f, sc, so) + (sq.a1 * a1 + sq.b1 * b1) / sb,
        sw=np.where(f, so, sc) + (sq.a2 * a2 + sq.b2 * b2) / sw,
        rho=r - sq.rho,
    )
    return float((value - log_p).sum()), found


def _line_slopes(
    lines: Lines, mc: FloatArray, sc: FloatArray, mo: FloatArray, so: FloatArray, rho: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Differentiate log N(T) + log P(inside | T) by mc, mo, sc, so and rho, in this order."""
    p, q = lines.p, 1.0 - lines.p
    s2, res, omega, mean, sd = _segment(lines, mc, sc, mo, so, rho)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        a, b = (lines.low - mean) / sd, (lines.high - mean) / sd
        inside = log_interval(a, b)
        value = inside - 0.5 * np.log(s2) - 0.5 * res**2 / s2 - LOG_ROOT_TWO_PI
        ga = -np.exp(-0.5 * a * a - LOG_ROOT_TWO_PI - inside)
        gb = np.exp(-0.5 * b * b - LOG_ROOT_TWO_PI - inside)
        by_mean, by_sd = -(ga + gb) / sd, -(a * ga + b * gb) / sd
        by_mu = res / s2
        # along s2: the density of T, the mean of the coordinate, its sd
        by_s2 = -0.5 / s2 + 0.5 * (res / s2) ** 2 - by_mean * omega * res / s2**2 - by_sd * sd / (2.0 * s2)
        by_omega = by_mean * res / s2
        spread_score = by_mean * omega / s2
        by = (
            by_mu * p + by_mean - spread_score * p,
            by_mu * q - spread_score * q,
            by_s2 * 2.0 * p * (p * sc + q * rho * so) + by_omega * (2.0 * p * sc + q * rho * so) + by_sd * sd / sc,
            by_s2 * 2.0 * q * (q * so + p * rho * sc) + by_omega * q * rho * sc + by_sd * sd / so,
            by_s2 * 2.0 * p * q * sc * so + by_omega * q * sc * so - by_sd * sd * rho / (1.0 - rho * rho),
        )
    return value, by


def _corner_slopes(
    lines: Lines, mc: FloatArray, sc: FloatArray, mo: FloatArray, so: FloatArray, rho: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Differentiate the density at a corner, in the same order."""
    u, v = (lines.T - mc) / sc, (lines.T - mo) / so
    c2 = 1.0 - rho * rho
    left, right = (u - rho * v) / c2, (v - rho * u) / c2
    form = (u * u - 2.0 * rho * u * v + v * v) / c2
    by = (left / sc, right / so, (u * left - 1.0) / sc, (v * right - 1.0) / so, (rho + u * v - rho * form) / c2)
    return _corner_density(lines, mc, sc, mo, so, rho), by
