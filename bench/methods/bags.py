"""Labels of bags: ``train_values``, ``train_offsets``, ``train_y``, ``test_values``, ``test_offsets`` in; a label for each test bag out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def _ours(given: Arrays, name: str) -> Answer:
    import crosslevel as cl

    train, test = (cl.Bags(given[f"{s}_values"], given[f"{s}_offsets"]) for s in ("train", "test"))
    model = getattr(cl, name, None) or getattr(cl.distribution, name)
    fit = model(standardize=False).fit(train, given["train_y"])
    if not hasattr(fit, "predict_interval"):
        return (fit.predict(test),)
    return fit.predict(test), *fit.predict_interval(test).T


def mean_shrinkage(given: Arrays) -> Answer:
    """Answer by regression that knows how small a bag is."""
    return _ours(given, "MeanShrinkage")


def bayesian_linear(given: Arrays) -> Answer:
    """Answer by Bayesian linear regression on mean embeddings."""
    return _ours(given, "BayesianLinear")


def rbf_network(given: Arrays) -> Answer:
    """Answer by ridge regression on mean embeddings."""
    return _ours(given, "RBFNetwork")


def frequentist_shrinkage(given: Arrays) -> Answer:
    """Answer by ridge regression on shrunken mean embeddings."""
    return _ours(given, "FrequentistShrinkage")


def full_bayes(given: Arrays) -> Answer:
    """Answer with everything sampled."""
    return _ours(given, "FullBayes")


def moments(given: Arrays, side: str) -> np.ndarray:
    """Give means, standard deviations and third powers of every bag's columns."""
    bags = [given[f"{side}_values"][a:b] for a, b in pairwise(given[f"{side}_offsets"])]
    return np.stack([np.concatenate([b.mean(axis=0), b.std(axis=0), np.cbrt((b**3).mean(axis=0))]) for b in bags])


def boosting(given: Arrays) -> Answer:
    """Answer by gradient boosting on moments of bags (scikit-learn)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    fit = HistGradientBoostingRegressor(random_state=0).fit(moments(given, "train"), given["train_y"])
    return (fit.predict(moments(given, "test")),)


def mean_label(given: Arrays) -> Answer:
    """Give every bag the mean label, and 1.96 standard deviations around it."""
    n, y = len(given["test_offsets"]) - 1, given["train_y"]
    return tuple(np.full(n, y.mean() + k * 1.96 * y.std()) for k in (0, -1, 1))


def optimum(given: Arrays) -> Answer:
    """Give the posterior of the label when the family is known: the best that any method can do."""
    from scipy import signal, special

    grid, noise, width = np.linspace(4.0, 8.0, 201), float(given["noise"]), 0.004
    values = given["test_values"]
    reach = 9.0 * np.sqrt(noise)
    start = np.floor(min(values.min(), 0.0) - reach)
    edges = start + width * np.arange(int(np.ceil((values.max() + 2 * reach + 1 - start) / width)) + 1)
    table = np.empty((len(edges) - 1, len(grid)))  # log probability of a bin of values, given the label
    steps = width * np.arange(-int(reach / width), int(reach / width) + 1)
    kernel = np.exp(-0.5 * steps**2 / noise) if noise else np.ones(1)
    for j, k in enumerate(grid):
        mass = np.diff(special.gammainc(k / 2, np.maximum(edges, 0) * k / 2))
        table[:, j] = np.log(np.maximum(signal.fftconvolve(mass, kernel / kernel.sum(), mode="same"), 1e-300))
    out = []
    for a, b in pairwise(given["test_offsets"]):
        bins, count = np.unique(((values[a:b].ravel() - start) / width).astype(int), return_counts=True)
        log_p = count @ table[bins]
        p = np.exp(log_p - log_p.max())
        below = np.cumsum(p / p.sum())
        out.append([p @ grid / p.sum(), *np.interp([0.025, 0.975], below, grid)])
    return tuple(np.array(out).T)
