"""How good are predictions of labels? Scores of the gamma experiments, in all and by size of the bag."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gamma_data import SIZES, Labeled, optimum

from crosslevel.distribution.predictive import Predictive

FloatArray = npt.NDArray[np.float64]

LEVEL = 0.95


@dataclass(frozen=True)
class Score:
    """How good the predictions of 1,000 test bags are.

    Attributes
    ----------
    mse, nll, cover : float
    seconds : float
        Of one processor.
    by_size : mapping of size to (coverage, nll, number of bags)
    evidence : float
        Log evidence of the training bags, for models that have one.
    mean, std : (n,) or None
        The predictions themselves, where they are drawn.
    """

    mse: float
    nll: float
    cover: float = np.nan
    seconds: float = 0.0
    by_size: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    evidence: float = np.nan
    mean: FloatArray | None = None
    std: FloatArray | None = None


Scores = dict[str, Score]


def score(found: Any, data: Labeled, seconds: float = 0.0, keep: bool = False) -> Score:
    """Score predictive distributions of the test bags."""
    error, density = found.mean - data.y, found.log_density(data.y)
    low, high = found.interval(LEVEL)
    inside = (low <= data.y) & (data.y <= high)
    sizes = np.asarray(data.bags.sizes)
    by_size = {
        s: (float(inside[sizes == s].mean()), float(-density[sizes == s].mean()), int((sizes == s).sum()))
        for s in SIZES
        if s in sizes
    }
    kept = {"mean": found.mean, "std": found.std} if keep else {}
    return Score(float(np.mean(error**2)), float(-density.mean()), float(inside.mean()), seconds, by_size, **kept)


def best_possible(data: Labeled, noise: float, whole_ends: bool) -> Score:
    start = time.process_time()
    mean, density = optimum(data, noise, whole_ends=whole_ends)
    return Score(float(np.mean((mean - data.y) ** 2)), float(-density.mean()), seconds=time.process_time() - start)


def constant(train: FloatArray, data: Labeled) -> Score:
    """Score the prediction that knows the training labels' mean and variance only."""
    n = len(data.y)
    return score(Predictive.normal(np.full(n, train.mean()), np.full(n, train.var())), data)
