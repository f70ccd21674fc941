"""The penalized composite link model of Rizzi, Gampe & Eilers (2015), beside which counts in bins are scored.

totals ~ Poisson(C exp(X theta)), X cubic B-splines with a knot every two cells, a penalty on the squared second differences of theta,
chosen by AIC.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import interpolate, special

FloatArray = npt.NDArray[np.float64]
PENALTIES = np.logspace(5, -3, 33)


def composite_link(C: FloatArray, totals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the log density f of the cells, (A,), and its penalized covariance, (A, A); counts are weight exp(f), C (B, A)."""
    A = C.shape[1]
    step = A / max(A // 2, 1)
    knots = np.arange(-3, max(A // 2, 1) + 4) * step
    X = interpolate.BSpline.design_matrix(np.arange(A) + 0.5, knots, 3).toarray()
    D = np.diff(np.eye(X.shape[1]), 2, axis=0)
    theta = np.full(X.shape[1], np.log(max(float(totals.sum()), 0.5) / C.sum()))
    best, lowest = (theta, np.eye(len(theta))), np.inf
    for penalty in PENALTIES:
        theta, lam, covariance, effective = _fit(C, totals, X, penalty * D.T @ D, theta)
        aic = 2.0 * float(np.sum(special.xlogy(totals, totals / lam) - (totals - lam))) + 2.0 * effective
        if aic < lowest:
            best, lowest = (theta, covariance), aic
    return X @ best[0], X @ best[1] @ X.T


def _fit(
    C: FloatArray, totals: FloatArray, X: FloatArray, P: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Fit at one penalty by scoring with halved steps: theta, lambda, its covariance, effective parameters."""

    def height(t: FloatArray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            lam = C @ np.exp(X @ t)
            value = float(np.sum(special.xlogy(totals, lam) - lam)) - 0.5 * float(t @ P @ t)
        return value if np.isfinite(value) else -np.inf

    now = height(theta)
    for _ in range(200):
        e = np.exp(X @ theta)
        lam = C @ e
        Q = (C * e) @ X
        information = (Q.T / lam) @ Q
        # a hundred-millionth of the information: splines over empty cells stay put
        H = information + P + 1e-8 * np.trace(information) / len(theta) * np.eye(len(theta))
        step = np.linalg.solve(H, Q.T @ (totals / lam - 1.0) - P @ theta)
        length = 1.0
        while height(theta + length * step) < now - 1e-10 * (1 + abs(now)) and length > 1e-8:
            length *= 0.5
        theta = theta + length * step
        now = height(theta)
        if np.abs(length * step).max() < 1e-7:
            break
    covariance = np.linalg.inv(H)
    return theta, lam, covariance, float(np.trace(covariance @ information))
