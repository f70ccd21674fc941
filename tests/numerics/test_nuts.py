"""The one runner of NUTS: draws have the moments of their density."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.numerics.nuts import sample_nuts


def potential(at, data):
    z = (at["x"] - data["mean"]) / data["sd"]
    return 0.5 * (z * z).sum()


DATA = {"mean": np.array([1.0, -2.0]), "sd": np.array([0.5, 3.0])}


@pytest.fixture(scope="module")
def drawn():
    start = {"x": np.random.default_rng(0).standard_normal((4, 2))}
    return sample_nuts(potential, DATA, start, n_warmup=200, n_draws=1000, seed=1, target=0.8)


def test_moments_are_those_of_the_density(drawn):
    assert drawn.values["x"].shape == (4, 1000, 2)
    assert drawn.diverging.shape == drawn.n_steps.shape == drawn.energy.shape == (4, 1000)
    assert drawn.n_divergent == 0
    x = drawn.values["x"].reshape(-1, 2)
    assert x.dtype == np.float64
    np.testing.assert_allclose((x.mean(axis=0) - DATA["mean"]) / DATA["sd"], 0.0, atol=0.1)
    np.testing.assert_allclose(x.std(axis=0) / DATA["sd"], 1.0, atol=0.1)


def test_telling_counts_every_iteration_and_moves_no_draw(drawn):
    start, heard = {"x": np.random.default_rng(0).standard_normal((4, 2))}, []
    given = {"n_warmup": 200, "n_draws": 1000, "seed": 1, "target": 0.8}
    told = sample_nuts(potential, DATA, start, **given, tell=lambda *at: heard.append(at))
    np.testing.assert_array_equal(told.values["x"], drawn.values["x"])
    for name in ("diverging", "n_steps", "energy", "acceptance"):
        np.testing.assert_array_equal(getattr(told, name), getattr(drawn, name))
    assert heard == [(0, None), *((i, 1200) for i in range(1, 1201))]


def test_what_the_told_function_raises_stops_the_run():
    heard = []

    def stop(done, of):
        heard.append(done)
        if done == 5:
            raise ZeroDivisionError

    start = {"x": np.random.default_rng(0).standard_normal((4, 2))}
    with pytest.raises(ZeroDivisionError):
        sample_nuts(potential, DATA, start, n_warmup=200, n_draws=500, seed=1, target=0.8, tell=stop)
    assert heard == [0, 1, 2, 3, 4, 5]
    again = sample_nuts(potential, DATA, start, n_warmup=8, n_draws=5, seed=1)
    assert again.values["x"].shape == (4, 5, 2)
