"""Small problems as arrays: blocks of means published for every atom, and the world of the paper's section 6.1."""

from __future__ import annotations

import numpy as np

from crosslevel.imputation.cudia.families import Gaussian
from crosslevel.imputation.cudia.model import Block, Problem


def plain_block(S, sizes, se=None, features=None):
    """Means published for every atom."""
    S = np.asarray(S, dtype=float)
    se = np.full(S.shape, np.nan) if se is None else np.asarray(se, dtype=float)
    features = np.arange(S.shape[1]) if features is None else np.asarray(features)
    own = np.zeros(S.shape[1], dtype=bool)
    return Block(0, features, np.arange(len(S)), np.ones(len(S)), S, np.asarray(sizes, dtype=float), se, own)


def gaussian(name="x", column=0, center=0.0, variance=1.0):
    return Gaussian(name, (column,), np.array([4.0, 0.01, 0.0, 0.4 * variance]), center)


def make_problem(blocks, binary, X=None, atom=None, weight=None, families=None, likelihood="cudia"):
    """Everything of a problem; without X there is nobody."""
    X = np.zeros((0, 1)) if X is None else X
    atom = np.zeros(0, dtype=np.int64) if atom is None else np.asarray(atom)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    A = len(blocks[0].group)
    count = np.maximum(weight.round().astype(np.int64), 1)
    size = np.bincount(atom, weight, A) if len(atom) else blocks[0].gather(np.ones(A)) * blocks[0].size
    return Problem(
        X=X,
        families=(gaussian(),) if families is None else families,
        cell=np.arange(len(atom)) % max(len(X), 1),
        atom=atom,
        weight=weight,
        count=count,
        size=size,
        places=np.arange(A)[:, None],
        blocks=tuple(blocks),
        binary=np.array(binary),
        likelihood=likelihood,
    )


def two_gaussians(seed, groups=6, size=160):
    """Draw x, u, group, published means, clusters and mixes."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet([1, 1], groups)
    z = np.concatenate([rng.choice(2, size, p=p) for p in pi])
    group = np.repeat(np.arange(groups), size)
    xu = np.array([-0.5, 0.5])[z][:, None] + rng.normal(size=(groups * size, 2)) * np.sqrt(0.07)
    return xu[:, 0], xu[:, 1], group, np.bincount(group, xu[:, 1]) / size, z, pi


def as_problem(x, group, s, likelihood="cudia"):
    """One real column, one person per pair, one hidden number."""
    family = gaussian(center=float(x.mean()), variance=float(x.var()))
    block = plain_block(s[:, None], np.bincount(group))
    return make_problem([block], [False], x[:, None].copy(), group, families=(family,), likelihood=likelihood)
