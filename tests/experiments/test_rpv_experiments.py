"""The scripts behind the guide on polarized voting, on little."""

from __future__ import annotations

import numpy as np


def test_worlds_hide_race_behind_probabilities_that_tell_something(experiment):
    membership = experiment("membership")
    rng = np.random.default_rng(0)
    cells = rng.integers(50, 500, (12, 3, 3)).astype(float)
    world = membership.world(cells, rng, 200, 8)
    p, race = world["p"], world["race"]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert set(world["county"]) == set(range(8))
    assert p[np.arange(len(race)), race].mean() > p[np.arange(len(race)), (race + 1) % 3].mean() + 0.1
    found = membership.answers(world, 0.3)
    assert list(found) == [
        "people weighted by probability",
        "true counts",
        "sums taken for counts",
        "sums with their error",
    ]
    for mean, low, high in found.values():
        assert ((low <= mean + 1e-12) & (mean <= high + 1e-12)).all()
