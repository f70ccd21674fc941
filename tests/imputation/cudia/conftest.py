"""The world of the paper's section 6.1, as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Problem, plain_block


def _two_gaussians(seed, groups=6, size=160):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet([1, 1], groups)
    z = np.concatenate([rng.choice(2, size, p=p) for p in pi])
    group = np.repeat(np.arange(groups), size)
    xu = np.array([-0.5, 0.5])[z][:, None] + rng.normal(size=(groups * size, 2)) * np.sqrt(0.07)
    return xu[:, 0], xu[:, 1], group, np.bincount(group, xu[:, 1]) / size, z, pi


def _as_problem(x, group, s, hidden="gaussian"):
    n = len(x)
    return Problem(
        x[:, None].copy(),
        (Gaussian("x", 0, float(x.mean()), float(x.var())),),
        np.arange(n),
        group.astype(np.int64),
        np.ones(n),
        np.ones(n, dtype=np.int64),
        int(group.max()) + 1,
        (plain_block(s[:, None], np.bincount(group)),),
        (hidden,),
    )


@pytest.fixture
def two_gaussians():
    """Draws x, u, group, published means, clusters and mixes."""
    return _two_gaussians


@pytest.fixture
def as_problem():
    """Makes a problem of one real column, one person per pair."""
    return _as_problem
