"""Binary outcomes: the same smooth function on the scale of log odds, fitted by penalized likelihood.

f = b + K c minimizes sum_u m_u [log(1 + exp f_u) - mean_u f_u] + penalty/2 c'Kc, b unpenalized, by Newton's method. At the
minimum the fit is that of weighted least squares to the working outcome z = f + (mean - p) / q with weights m q, q = p (1 - p), so
everything the linear fit knows about weights, leave-one-out residuals and clusters holds with M = diag(m q):

* leaving out one observation of a row moves f to f - h/(1 - h) (y - p)/q, h its leverage: the approximate leave-one-out log loss
  (ALO) that chooses the penalty;
* effects are of the probability: p (1 - p) f' for derivatives, p(high) - p(low) for steps. Their averages are not linear in f; the
  functional that inference uses is their derivative by f (the delta method);
* debiased averages are the plug-in plus the debiased weights times the working residuals: one Newton step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar
from scipy.special import expit

from crosslevel.errors import ConvergenceError
from crosslevel.krls.covariance import SHARE_OF_PENALTY, effect_weights, residuals, robust
from crosslevel.krls.effects import Effect, Functionals, average_functionals, pointwise_effects
from crosslevel.krls.inference import Inference, spectrum_of, stacked
from crosslevel.krls.model import Cells, Fit, Solution, bandwidth_of, collapse
from crosslevel.krls.paths import describe_rows
from crosslevel.krls.penalty import Choice, given_penalty
from crosslevel.krls.spectrum import GaussianKernel, check_memory, decompose, standardize
from crosslevel.numerics.newton import newton
from crosslevel.typing import FloatArray, IntArray, Step

MOST_STEPS = 60
TOLERANCE = 1e-9
"""Of the stationarity conditions, relative to the largest weight of a row."""
LEAST_SPREAD = 1e-10
"""p (1 - p) is not taken for smaller: the working outcome would overflow."""
LOWEST, HIGHEST = 1e-6, 1e2
"""Limits of the search, times N / 4, which bounds the eigenvalues."""
N_GRID = 13
SCALE_WARNING = "logistic loss: effects are of the probability; loo is the approximate leave-one-out log loss."


@dataclass(frozen=True)
class LogisticFit(Fit):
    """A fit on the scale of log odds; ``cells``, ``solution.fitted`` and ``rss`` are of the standardized outcome.

    Attributes
    ----------
    offset : float
        The unpenalized constant b.
    steps : int
        Newton steps at the chosen penalty.
    """

    offset: float = 0.0
    steps: int = 0

    @property
    def p(self) -> FloatArray:
        """Fitted probabilities of the distinct rows, (U,)."""
        return self.solution.fitted * self.y_sd + self.y_mean

    def log_odds(self, Z: FloatArray) -> FloatArray:
        """Give f at standardized rows."""
        return self.offset + self.kernel.apply(self.solution.coef[:, None], Z)[:, 0]

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict probabilities at rows in the units of the data."""
        return expit(self.log_odds(self.scaling.apply(X)))

    def effects(self, effects: Sequence[Effect], Z: FloatArray | None = None) -> FloatArray:
        """Evaluate effects on the probability at the distinct rows, or at standardized rows, in the units of the data: (n, E)."""
        at = self.kernel.Z if Z is None else Z
        p = expit(self.log_odds(at))
        out = (p * (1 - p))[:, None] * pointwise_effects(self.kernel, effects, self.solution.coef, at)
        for e, effect in enumerate(effects):
            if effect.switch is not None:
                high, low = (self.log_odds(_switched(effect, at, k)) for k in (effect.high, effect.low))
                out[:, e] = expit(high) - expit(low)
        return out / _units(self, effects)

    def row_coefficients(self, y: FloatArray) -> FloatArray:
        """Give the coefficient of each row of the data, (n,)."""
        return (y - self.p[self.cells.row]) / self.penalty


@dataclass(frozen=True)
class Mode:
    """The minimum at one penalty.

    Attributes
    ----------
    coef : (U,)
    offset : float
    f : (U,)
    keep : (U,)
        penalty [P]_uu: the share of a working residual that a row keeps.
    steps : int
        Newton steps taken.
    """

    coef: FloatArray
    offset: float
    f: FloatArray
    keep: FloatArray
    steps: int


def find_mode(
    K: FloatArray, m: FloatArray, mean: FloatArray, penalty: float, start: tuple[FloatArray, float] | None = None
) -> Mode:
    """Minimize the penalized likelihood by Newton's method.

    Parameters
    ----------
    K : (U, U)
    m, mean : (U,)
        Number of observations and share of ones of each distinct row.
    penalty : float
    start : (coef, offset), optional
        Where to begin.

    Examples
    --------
    >>> K = np.exp(-np.square(np.subtract.outer(np.arange(4.0), np.arange(4.0))))
    >>> found = find_mode(K, np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]), penalty=0.5)
    >>> bool(np.allclose(0.5 * found.coef, np.array([0.0, 1.0, 0.0, 1.0]) - expit(found.f)))
    True
    """
    U = len(m)
    share = np.clip(m @ mean / m.sum(), 1e-12, 1 - 1e-12)
    coef, offset = (np.zeros(U), float(np.log(share / (1 - share)))) if start is None else start
    keep = np.empty(0)

    # a point is (coef, offset, K coef): steps are linear in all three, and K coef need not be multiplied anew
    def value(point: FloatArray) -> float:
        coef, offset, Kc = point[:U], point[U], point[U + 1 :]
        f = offset + Kc
        return -float(m @ (np.logaddexp(0.0, f) - mean * f) + 0.5 * penalty * coef @ Kc)

    def direction(point: FloatArray) -> FloatArray | None:
        nonlocal keep
        coef, f = point[:U], point[U] + point[U + 1 :]
        p = expit(f)
        gap = m * (mean - p)
        q = np.maximum(p * (1 - p), LEAST_SPREAD)
        root = np.sqrt(m * q)
        factor = _factor(K, root, penalty)
        if max(np.abs(penalty * coef - gap).max(), abs(gap.sum()) / U) < TOLERANCE * m.max():
            keep = _keep(factor, root, penalty)
            return None
        right = np.column_stack([root * (f + (mean - p) / q), root])
        a, s = scipy.linalg.cho_solve(factor, right, check_finite=False).T
        b = float(root @ a / (root @ s))
        new = root * (a - b * s)
        return np.concatenate([new, [b], K @ new]) - point

    first = np.concatenate([coef, [offset], K @ coef])
    found = newton(first, value, direction, max_steps=MOST_STEPS, slack=1e-12)
    if not found.converged:
        raise ConvergenceError(
            f"the logistic fit at penalty={penalty:.3g} did not converge in {MOST_STEPS} Newton steps; pass a larger penalty=."
        )
    return Mode(found.x[:U], float(found.x[U]), found.x[U] + found.x[U + 1 :], keep, found.steps)


def _factor(K: FloatArray, root: FloatArray, penalty: float) -> tuple[FloatArray, bool]:
    B = root[:, None] * K * root
    B[np.diag_indices(len(B))] += penalty
    factor: tuple[FloatArray, bool] = scipy.linalg.cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
    return factor


def _keep(factor: tuple[FloatArray, bool], root: FloatArray, penalty: float) -> FloatArray:
    """Give penalty times the diagonal of P = B^-1 - B^-1 s s'B^-1 / s'B^-1 s."""
    L = np.tril(factor[0])
    Li = scipy.linalg.solve_triangular(L, np.eye(len(L)), lower=True, overwrite_b=True, check_finite=False)
    s = scipy.linalg.cho_solve(factor, root, check_finite=False)
    return penalty * (np.einsum("ij,ij->j", Li, Li) - s**2 / (root @ s))


def alo_loss(found: Mode, m: FloatArray, mean: FloatArray) -> float:
    """Give the approximate leave-one-out log loss, summed over observations."""
    p = expit(found.f)
    q = np.maximum(p * (1 - p), LEAST_SPREAD)
    kept = 1.0 - (1.0 - found.keep) / m  # what an observation keeps of its own residual
    move = (1.0 - kept) / kept / q
    one, zero = found.f - move * (1.0 - p), found.f + move * p
    return float(m @ (mean * np.logaddexp(0.0, -one) + (1.0 - mean) * np.logaddexp(0.0, zero)))


def fit_logistic(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray | None = None,
    cluster: IntArray | None = None,
    *,
    penalty: float | None = None,
    bandwidth: str | float = "n_columns",
    step: Step | None = None,
) -> LogisticFit:
    """Fit a binary outcome by penalized likelihood, with the penalty by approximate leave-one-out unless given.

    Parameters
    ----------
    X : (n, P)
    y : (n,)
        Zeros and ones.
    weights : (n,), optional
        Counts.
    cluster : (n,), optional
    penalty, bandwidth
        See `crosslevel.krls.model.fit`.
    step : callable, optional
        Called after every penalty at which the likelihood was maximized.
    """
    cells = collapse(X, y, weights, cluster)
    check_memory(len(cells.m), len(y))
    scaling = standardize(cells.X, cells.m)
    Z = scaling.apply(cells.X)
    kernel = GaussianKernel(Z, bandwidth_of(bandwidth, Z, cells.m))
    K = kernel.matrix()
    choice = _choose(K, cells, step) if penalty is None else given_penalty(penalty, cells.N / 4)
    found = find_mode(K, cells.m, cells.mean, choice.penalty)
    if step is not None:
        step()
    p = expit(found.f)
    N = cells.N
    y_mean = float(cells.m @ cells.mean / N)
    y_sd = float(np.sqrt(y_mean * (1 - y_mean) * N / (N - 1.0)))
    standard = cells.rescaled(y_mean, y_sd)
    rss = float(standard.ss.sum() + cells.m @ np.square((cells.mean - p) / y_sd))
    return LogisticFit(
        cells=standard,
        scaling=scaling,
        y_mean=y_mean,
        y_sd=y_sd,
        kernel=kernel,
        spectrum=decompose(kernel, cells.m * np.maximum(p * (1 - p), LEAST_SPREAD)),
        choice=replace(choice, curve=choice.curve / [1.0, y_sd**2]),
        solution=Solution(
            coef=found.coef,
            fitted=(p - y_mean) / y_sd,
            rss=rss,
            edf=float(np.sum(1.0 - found.keep)),
            loo=alo_loss(found, cells.m, cells.mean) / y_sd**2,  # so that loo_ is the mean log loss
        ),
        path=f"exact, logistic, {describe_rows(len(y), len(cells.m))}",
        offset=found.offset,
        steps=found.steps,
    )


def _choose(K: FloatArray, cells: Cells, step: Step | None) -> Choice:
    """Minimize the approximate leave-one-out log loss over the log penalty, from smooth to rough."""
    m, mean = cells.m, cells.mean
    tried: dict[float, tuple[float, Mode]] = {}

    def loss(log_penalty: float) -> float:
        near = min(tried, key=lambda t: abs(t - log_penalty), default=None)
        start = None if near is None else (tried[near][1].coef, tried[near][1].offset)
        found = find_mode(K, m, mean, float(np.exp(log_penalty)), start)
        tried[log_penalty] = (alo_loss(found, m, mean), found)
        if step is not None:
            step()
        return tried[log_penalty][0]

    grid = np.log(np.geomspace(HIGHEST, LOWEST, N_GRID) * cells.N / 4)
    values: list[float] = []
    for g in grid:
        values.append(loss(float(g)))
        if len(values) > 3 and values[-1] > values[-2] > values[-3] > min(values):
            break
    best = int(np.argmin(values))
    bound = {0: "upper", N_GRID - 1: "lower"}.get(best)
    at = float(grid[best])
    if bound is None:
        around = (float(grid[best + 1]), float(grid[best - 1]))
        at = float(minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-3}).x)
    curve = np.array(sorted((float(np.exp(t)), v[0]) for t, v in tried.items()))
    return Choice(float(np.exp(at)), curve, bound)


def _switched(effect: Effect, Z: FloatArray, point: int) -> FloatArray:
    assert effect.switch is not None
    out = Z.copy()
    out[:, effect.switch.columns] = effect.switch.points[point]
    return out


def _units(fit: Fit, effects: Sequence[Effect]) -> FloatArray:
    """Give what effects on the standardized scale of x are divided by, (E,)."""
    return np.array([fit.scaling.sd[e.column] if e.switch is None else e.unit for e in effects])


def _functionals(fit: LogisticFit, effects: Sequence[Effect], rho: FloatArray) -> Functionals:
    """Give the derivatives by f of the effects on the probability averaged with weights rho."""
    Z, kernel = fit.kernel.Z, fit.kernel
    p = fit.p
    q = p * (1 - p)
    made = average_functionals(kernel, effects, rho * q)
    V, ell = made.V.copy(), made.ell.copy()
    slopes = [e for e, effect in enumerate(effects) if effect.switch is None]
    D = pointwise_effects(kernel, [effects[e] for e in slopes], fit.solution.coef) if slopes else np.empty((len(Z), 0))
    turn = (rho * q * (1 - 2 * p))[:, None] * D
    V[:, slopes] += kernel.apply(turn)
    ell[:, slopes] += np.column_stack([np.ones(len(Z)), Z]).T @ turn
    for e, effect in enumerate(effects):
        if effect.switch is None:
            continue
        V[:, e], ell[:, e] = 0.0, 0.0
        for point, sign in ((effect.high, 1.0), (effect.low, -1.0)):
            at = _switched(effect, Z, point)
            r = expit(fit.log_odds(at))
            weight = sign * rho * r * (1 - r)
            for rows, block in kernel.blocks(at):
                V[:, e] += block.T @ weight[rows]
            ell[:, e] += np.column_stack([np.ones(len(Z)), at]).T @ weight
    return Functionals(V, ell)


def _working(fit: LogisticFit) -> tuple[Cells, FloatArray]:
    """Give the rows with working weights and outcomes, and the working residuals."""
    cells, p = fit.cells, fit.p
    q = np.maximum(p * (1 - p), LEAST_SPREAD)
    mean = cells.mean * fit.y_sd + fit.y_mean
    f = fit.log_odds(fit.kernel.Z)
    residual = (mean - p) / q
    clusters = cells.clusters
    if clusters is not None:
        u = clusters.cell
        own = clusters.mean * fit.y_sd + fit.y_mean
        clusters = replace(clusters, n=clusters.n * q[u], mean=f[u] + (own - p[u]) / q[u])
    u = cells.stratum
    work = replace(
        cells,
        m=cells.m * q,
        mean=f + residual,
        step=cells.step * q[u],
        weight=cells.weight * q[u],
        stratum_mean=f[u] + (cells.stratum_mean * fit.y_sd + fit.y_mean - p[u]) / q[u],
        ss=cells.ss * fit.y_sd**2 / q[u],
        clusters=clusters,
    )
    return work, residual


def infer_logistic(
    fit: LogisticFit, effects: Sequence[Effect], pointwise: FloatArray, rho: FloatArray | None = None
) -> Inference:
    """Estimate average effects on the probability and their joint covariance; as `infer`, debiased.

    Parameters
    ----------
    fit : LogisticFit
    effects : sequence of Effect
    pointwise : (U, E)
        Effects on the probability at the distinct rows.
    rho : (U, G), optional
    """
    spectrum, cells, Z = spectrum_of(fit), fit.cells, fit.kernel.Z
    rho = (cells.m / cells.N)[:, None] if rho is None else rho
    functionals = stacked([_functionals(fit, effects, r) for r in rho.T])
    work, residual = _working(fit)
    weights = effect_weights(spectrum, replace(work, mean=residual), functionals, SHARE_OF_PENALTY * fit.penalty, Z)
    found = robust(spectrum, work, residuals(spectrum, work, fit.penalty, Z), weights)
    scale = np.repeat(1.0 / _units(fit, effects), rho.shape[1])
    plug_in = (rho.T @ pointwise).T.reshape(-1)
    return Inference(
        estimate=plug_in + scale * weights.estimate,
        plug_in=plug_in,
        covariance=scale[:, None] * found.matrix * scale,
        dof=found.dof,
        interval=f"debiased, delta method, {found.kind}",
        warnings=(SCALE_WARNING, *found.warnings),
    )
