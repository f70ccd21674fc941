"""Single years behind bins: ``edges``, ``y`` and ``quantity`` ("count" or "expected") in; the count of every year out."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]
PENALTIES = np.logspace(5, -3, 33)


def counts(given: Arrays) -> Answer:
    """Answer with the default for counts."""
    import crosslevel as cl

    edges = given["edges"]
    fit = cl.BinnedCountGP().fit(cl.Intervals(edges[:-1], edges[1:]), given["y"])
    years = np.arange(edges[-1])
    found = fit.estimate(cl.Intervals(years, years + 1), quantity=str(given["quantity"]))
    return found["estimate"], found["conf_low"], found["conf_high"]


def gaussian(given: Arrays) -> Answer:
    """Answer with the paper's Gaussian process."""
    import crosslevel as cl

    edges = given["edges"]
    fit = cl.BinnedGP().fit(cl.Intervals(edges[:-1], edges[1:]), given["y"], quantity="total")
    years = np.arange(edges[-1])
    mean, std = fit.predict(cl.Intervals(years, years + 1), quantity="total", return_std=True)
    return mean, mean - 1.96 * std, mean + 1.96 * std


def uniform(given: Arrays) -> Answer:
    """Spread every bin evenly."""
    width = np.diff(given["edges"])
    return (np.repeat(given["y"] / width, width),)


def monotone_spline(given: Arrays) -> Answer:
    """Interpolate the cumulative counts by a monotone cubic (scipy)."""
    from scipy.interpolate import PchipInterpolator

    curve = PchipInterpolator(given["edges"], np.append(0, np.cumsum(given["y"])))
    return (np.diff(curve(np.arange(given["edges"][-1] + 1))),)


def composite_link(given: Arrays) -> Answer:
    """Answer by the penalized composite link model of Rizzi, Gampe and Eilers (2015), written anew.

    Totals are Poisson with mean C exp(X theta); X are cubic B-splines with a knot every two years; the penalty on second differences is
    chosen by AIC. Intervals are those of the log counts.
    """
    from scipy import interpolate, special

    width, y = np.diff(given["edges"]), given["y"]
    n = int(width.sum())
    C = np.repeat(np.eye(len(width)), width, axis=1)
    knots = np.arange(-3, n // 2 + 4) * (n / (n // 2))
    X = interpolate.BSpline.design_matrix(np.arange(n) + 0.5, knots, 3).toarray()
    D = np.diff(np.eye(X.shape[1]), 2, axis=0)
    theta = np.full(X.shape[1], np.log(max(y.sum(), 0.5) / n))
    best, lowest = (theta, np.eye(len(theta))), np.inf
    for penalty in PENALTIES:
        P = penalty * D.T @ D
        for _ in range(200):
            e = np.exp(X @ theta)
            mean = C @ e
            Q = (C * e) @ X
            information = (Q.T / mean) @ Q
            H = information + P + 1e-8 * np.trace(information) / len(theta) * np.eye(len(theta))
            step = np.linalg.solve(H, Q.T @ (y / mean - 1.0) - P @ theta)
            theta = theta + step / max(1.0, np.abs(step).max())
            if np.abs(step).max() < 1e-7:
                break
        aic = 2 * np.sum(special.xlogy(y, y / mean) - (y - mean)) + 2 * np.trace(np.linalg.solve(H, information))
        if aic < lowest:
            best, lowest = (theta, np.linalg.inv(H)), aic
    log, half = X @ best[0], 1.96 * np.sqrt(np.einsum("ij,jk,ik->i", X, best[1], X))
    return np.exp(log), np.exp(log - half), np.exp(log + half)
