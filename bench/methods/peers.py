"""Peers in Python, each run in an environment of its own; those in R are in ``peers.R``."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]
SAMPLING: dict[str, Any] = {
    "draws": 1000, "tune": 1000, "chains": 2, "cores": 1, "target_accept": 0.9, "random_seed": 0, "progressbar": False,
}  # fmt: skip


def _of_draws(draws: np.ndarray) -> Answer:
    low, high = np.quantile(draws, [0.025, 0.975], axis=1)
    return draws.mean(axis=1), low, high


def pyei_dirichlet(given: Arrays) -> Answer:
    """Answer tables by PyEI's multinomial-Dirichlet model."""
    from pyei.r_by_c import RowByColumnEI

    X, T = given["groups"], given["outcomes"]
    people = np.round(X.sum(axis=1)).astype(int)
    model = RowByColumnEI("multinomial-dirichlet")
    shares = (X / X.sum(axis=1, keepdims=True)).T, (T / T.sum(axis=1, keepdims=True)).T
    model.fit(*shares, people, **SAMPLING)
    draws = np.asarray(model.sampled_voting_prefs)  # (n_draws, R, C)
    return _of_draws(draws.reshape(len(draws), -1).T)


def gpy(given: Arrays) -> Answer:
    """Answer single years by GPy's Gaussian process of integrals."""
    import GPy

    edges, years = given["edges"].astype(float), np.arange(given["edges"][-1])
    kernel = GPy.kern.Integral_Limits(input_dim=2, variances=float(given["y"].var()), lengthscale=10.0)
    model = GPy.models.GPRegression(np.column_stack([edges[1:], edges[:-1]]), given["y"][:, None], kernel)
    model.optimize()
    points = np.arange(len(years)) + 0.5
    mean, _ = model.predict_noiseless(np.column_stack([points, points]))  # the density in the middle of the year
    return (mean[:, 0],)
