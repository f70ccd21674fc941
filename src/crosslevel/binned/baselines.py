"""Baselines of any model of bins: uniform spreading, area weighting, and a penalized composite link model (PCLM)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import interpolate, special

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import Intervals
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.data.checks import as_numbers, check_counts, check_whole
from crosslevel.data.shapes import as_shapely, import_shapely
from crosslevel.errors import ConvergenceError, InputError, MissingExtraError
from crosslevel.numerics.integrals.correlations import White
from crosslevel.typing import FloatArray

PENALTIES = np.logspace(-3, 5, 33)
STEPS = 200
MOST_COMPARED = 3000
"""Regions beyond which boxes are not compared pair by pair."""


def uniform_spread(C: FloatArray, totals: FloatArray) -> FloatArray:
    """Spread every total evenly over its bin, by the weights of its cells.

    Parameters
    ----------
    C : (B, A)
        Weight of each cell in each bin.
    totals : (B,)

    Returns
    -------
    (A,)
        Expected counts; a cell of several bins gets the mean of their densities.

    Examples
    --------
    >>> uniform_spread(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([6.0, 1.0]))
    array([3., 3., 1.])
    """
    shares = C / C.sum(axis=1, keepdims=True)
    return np.asarray((totals @ shares) / np.maximum((C > 0).sum(axis=0), 1))


def area_weighting(overlap: FloatArray, area: FloatArray, totals: FloatArray) -> FloatArray:
    """Give every target the part of each source's total that its overlap is of the source's area.

    Parameters
    ----------
    overlap : (targets, sources)
        Area in common.
    area : (sources,)
    totals : (sources,)

    Examples
    --------
    >>> area_weighting(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([2.0, 2.0]), np.array([10.0, 4.0]))
    array([5., 9.])
    """
    return np.asarray((overlap / area) @ totals)


def shared_volumes(a: Regions, b: Regions) -> FloatArray | None:
    """Measure the volume that each region of a shares with each of b, (n, m); None unless all are single boxes, or all polygons.

    A point of ``a`` counts 1 where it lies in a box of ``b``, borders included on the lower side.
    """
    if isinstance(a, Polygons) and isinstance(b, Polygons):
        return _shared_areas(a, b)
    p, q = a.pieces(), b.pieces()
    if p is None or q is None or not (p.simple and q.simple):
        return None
    out = np.ones((p.n, q.n))
    for d in range(a.dimension):
        s, t, u, v = p.lower[:, d], p.upper[:, d], q.lower[:, d], q.upper[:, d]
        shared = White().covariance((s, t), (u, v), 1.0)[0]
        at = (s == t)[:, None]
        inside = (s[:, None] >= u) & ((s[:, None] < v) | ((u == v) & (s[:, None] == u)))
        out *= np.where(at, inside, shared)
    return out


def overlap(regions: Regions) -> bool | None:
    """Tell whether any two regions share volume; None when that is not known, or too many to compare."""
    if isinstance(regions, Intervals):
        return bool(regions.overlaps())
    if len(regions) > MOST_COMPARED:
        return None
    shared = shared_volumes(regions, regions)
    return None if shared is None else bool((np.triu(shared, 1) > slack(regions) * np.diag(shared)).any())


def slack(regions: Regions) -> float:
    """Give the share of a region that is nothing: limits of boxes are exact, borders of polygons were drawn twice."""
    return 1e-4 if isinstance(regions, Polygons) else 1e-9


def _shared_areas(a: Polygons, b: Polygons) -> FloatArray | None:
    try:
        shapely = import_shapely()
    except MissingExtraError:  # a saved model may be read where polygons cannot be cut
        return None
    given, others = as_shapely(a.shapes), as_shapely(b.shapes)
    i, j = shapely.STRtree(others).query(given, predicate="intersects")
    out = np.zeros((len(given), len(others)))
    out[i, j] = shapely.area(shapely.intersection(given[i], others[j]))
    return out


@dataclass(frozen=True)
class CompositeLink:
    """A penalized composite link fit.

    Attributes
    ----------
    f : (A,)
        Log density of the cells: their expected counts are weight exp(f).
    covariance : (A, A)
        Penalized (Bayesian) covariance of f.
    penalty, aic, effective : float
        Chosen penalty, its AIC and the effective number of parameters.
    """

    f: FloatArray
    covariance: FloatArray
    penalty: float
    aic: float
    effective: float


def composite_link(
    C: FloatArray, totals: FloatArray, penalties: FloatArray = PENALTIES, knot_ratio: int = 2, order: int = 2
) -> CompositeLink:
    """Fit counts in bins by a penalized composite link model, the penalty chosen by AIC.

    totals ~ Poisson(C exp(X theta)), X cubic B-splines with a knot every ``knot_ratio`` cells, penalty x the squared differences of
    theta of this order: Rizzi, Gampe & Eilers (2015), "Efficient estimation of smooth distributions from coarsely grouped data".

    Parameters
    ----------
    C : (B, A)
        Weights of the cells, in order along one axis of equal cells.
    totals : (B,)
    penalties : values to choose from

    Raises
    ------
    ConvergenceError
        When no penalty converges.

    Examples
    --------
    A geometric decline is log-linear, so the stiffest penalty fits it and keeps the totals:

    >>> truth = 100 * 0.8 ** np.arange(12)
    >>> C = np.kron(np.eye(4), np.ones(3))
    >>> fit = composite_link(C, C @ truth)
    >>> bool(np.abs(np.exp(fit.f) / truth - 1).max() < 1e-3)
    True
    """
    C, totals = as_numbers(C, "C", 2), check_counts(totals, "totals", 1)
    if C.shape[0] != len(totals):
        raise InputError(f"C has {C.shape[0]:,} rows for {len(totals):,} totals; pass a row for each total.")
    knot_ratio, order = check_whole(knot_ratio, "knot_ratio", 1), check_whole(order, "order", 0)
    penalties = as_numbers(penalties, "penalties", 1).tolist()
    A = C.shape[1]
    X = _splines(A, max(A // knot_ratio, 1))
    D = np.diff(np.eye(X.shape[1]), order, axis=0)
    best: CompositeLink | None = None
    theta: FloatArray | None = None
    for penalty in sorted(penalties, reverse=True):
        found = _fit(C, totals, X, penalty * D.T @ D, theta)
        if found is None:
            continue
        theta, lam, covariance, effective = found
        deviance = 2.0 * float(np.sum(special.xlogy(totals, totals / lam) - (totals - lam)))
        aic = deviance + 2.0 * effective
        if best is None or aic < best.aic:
            best = CompositeLink(X @ theta, X @ covariance @ X.T, float(penalty), aic, effective)
    if best is None:
        raise ConvergenceError(
            "the composite link model did not converge for any penalty; check the totals for errors."
        )
    return best


def _splines(cells: int, intervals: int, degree: int = 3) -> FloatArray:
    """Evaluate equally spaced B-splines at the middles of the cells, (A, intervals + degree)."""
    step = cells / intervals
    knots = np.arange(-degree, intervals + degree + 1) * step
    return np.asarray(interpolate.BSpline.design_matrix(np.arange(cells) + 0.5, knots, degree).toarray())


def _fit(
    C: FloatArray, totals: FloatArray, X: FloatArray, P: FloatArray, theta: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, float] | None:
    """Fit at one penalty by scoring with halved steps: theta, lambda, its covariance, effective parameters."""
    if theta is None:
        theta = np.full(X.shape[1], np.log(max(float(totals.sum()), 0.5) / C.sum()))

    def height(t: FloatArray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            lam = C @ np.exp(X @ t)
            value = float(np.sum(special.xlogy(totals, lam) - lam)) - 0.5 * float(t @ P @ t)
        return value if np.isfinite(value) else -np.inf

    now = height(theta)
    for _ in range(STEPS):
        e = np.exp(X @ theta)
        lam = C @ e
        Q = (C * e) @ X
        information = (Q.T / lam) @ Q
        # a hundred-millionth of the information: splines over empty cells stay put
        ridge = 1e-8 * np.trace(information) / len(theta) * np.eye(len(theta))
        H = information + P + ridge
        step = np.linalg.solve(H, Q.T @ (totals / lam - 1.0) - P @ theta)
        length = 1.0
        while height(theta + length * step) < now - 1e-10 * (1 + abs(now)) and length > 1e-8:
            length *= 0.5
        theta = theta + length * step
        now = height(theta)
        if np.abs(length * step).max() < 1e-7:
            covariance = np.linalg.inv(H)
            return theta, lam, covariance, float(np.trace(covariance @ information))
    return None
