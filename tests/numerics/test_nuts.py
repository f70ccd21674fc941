"""The one runner of NUTS: draws have the moments of their density, rounds go on until they suffice."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.numerics.nuts import sample_nuts


def potential(at, data):
    z = (at["x"] - data["mean"]) / data["sd"]
    return 0.5 * (z * z).sum()


DATA = {"mean": np.array([1.0, -2.0]), "sd": np.array([0.5, 3.0])}


@pytest.fixture(scope="module")
def two_rounds():
    start = {"x": np.random.default_rng(0).standard_normal((4, 2))}
    asked = []

    def enough(draws):
        asked.append(draws.values["x"].shape)
        return draws.values["x"].shape[1] >= 1000

    drawn = sample_nuts(
        potential, DATA, start, n_warmup=200, n_draws=500, seed=1, target=0.8, max_rounds=5, enough=enough
    )
    return drawn, asked


def test_moments_are_those_of_the_density(two_rounds):
    x = two_rounds[0].values["x"].reshape(-1, 2)
    assert x.dtype == np.float64
    np.testing.assert_allclose((x.mean(axis=0) - DATA["mean"]) / DATA["sd"], 0.0, atol=0.1)
    np.testing.assert_allclose(x.std(axis=0) / DATA["sd"], 1.0, atol=0.1)


def test_rounds_go_on_until_they_suffice(two_rounds):
    drawn, asked = two_rounds
    assert asked == [(4, 500, 2), (4, 1000, 2)]
    assert drawn.values["x"].shape == (4, 1000, 2)
    assert drawn.diverging.shape == drawn.n_steps.shape == drawn.energy.shape == (4, 1000)
    assert drawn.n_divergent == 0
    halves = drawn.values["x"][:, :500], drawn.values["x"][:, 500:]
    assert not np.array_equal(*halves)  # the second round goes on, it does not repeat the first


def test_lengths_and_seed_reach_the_sampler():
    start = {"x": np.random.default_rng(0).standard_normal((1, 2))}

    def draw(**other):
        told = {"n_warmup": 8, "n_draws": 5, "seed": 1, "target": 0.8} | other
        return sample_nuts(potential, DATA, start, **told).values["x"]

    first = draw()
    assert np.array_equal(first, draw())
    for other in ({"n_warmup": 16}, {"seed": 2}):
        assert not np.array_equal(first, draw(**other)), other
