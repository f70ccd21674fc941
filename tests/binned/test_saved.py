"""A saved model answers as it did."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crosslevel.binned import BinnedGP, Boxes, Intervals, kernels, stack
from crosslevel.errors import InputError


def again(gp):
    meta, arrays = gp.to_payload()
    return BinnedGP.from_payload(json.loads(json.dumps(meta)), arrays)


def models():
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 20, 41)
    y = 2 + np.sin(edges[1:]) + rng.normal(size=40) * 0.05
    bins = Intervals.from_edges(edges)
    yield BinnedGP().fit(bins, y, kind="mean", sizes=rng.integers(1, 5, 40)), stack([3.0], Intervals([1], [4]))
    yield BinnedGP(solver="features").fit(bins, y, kind="total"), stack([3.0], Intervals([1], [4]))
    low = np.stack(np.meshgrid(np.arange(4.0), np.arange(5.0), indexing="ij"), axis=-1).reshape(-1, 2)
    kernel = kernels.eq(0, lengthscale=2.0) * kernels.matern32(1, variance=2.0, lengthscale=1.0)
    grid = BinnedGP(kernel, noise=0.1, solver="kronecker").fit(Boxes(low, low + 1), rng.normal(size=20), kind="total")
    yield grid, Boxes([[0.5, 0.5]], [[2.0, 3.0]])
    yield (
        BinnedGP(kernel + kernels.white(variance=0.1), noise=0.1).fit(
            Boxes(low, low + 1), rng.normal(size=20), kind="total"
        ),
        [[1.0, 2]],
    )


def test_the_same_answers():
    for gp, target in models():
        other = again(gp)
        np.testing.assert_array_equal(gp.predict(target, return_std=True), other.predict(target, return_std=True))
        assert other.hyperparameters_ == gp.hyperparameters_
        assert other.path_ == gp.path_
        assert other.notes_ == gp.notes_
        assert other.estimates(target).equals(gp.estimates(target))


def test_code_is_not_saved():
    gp = BinnedGP(kernels.own(lambda r: r + np.exp(-r), variance=1.0, lengthscale=1.0), noise=0.1).fit(
        [0.0, 1.0], [1.0, 2.0], kind="mean"
    )
    with pytest.raises(InputError, match="cannot be saved: it is code"):
        gp.to_payload()
