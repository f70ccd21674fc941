"""Does the study of trips know its truth, and does the integral kernel do better where lengthscales are short?"""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned import Boxes


@pytest.fixture
def bicycles(experiment):
    return experiment("bicycles")


def test_expected_trips_are_integrals(bicycles):
    """Parts add up to wholes, nearly everybody is in the city, and simulated trips fall where they are expected."""
    city = bicycles.make_city(3)
    low, high = bicycles.cut_zones(7, 3)
    assert len(low) == 7
    assert np.prod(high - low, axis=1).sum() == pytest.approx(bicycles.SIDE**2)
    whole = Boxes(np.zeros((1, 4)), np.full((1, 4), bicycles.SIDE))
    parts = city.expected(bicycles.pair_up(low, high))
    assert parts.sum() == pytest.approx(city.expected(whole)[0], rel=1e-12)
    assert 0.75 * bicycles.TRIPS < parts.sum() < bicycles.TRIPS
    rng = np.random.default_rng(0)
    n = rng.poisson(city.flow)
    start, end = np.repeat(np.indices(n.shape).reshape(2, -1), n.ravel(), axis=1)
    trips = np.hstack([city.center[k] + city.spread[k, None] * rng.normal(size=(len(k), 2)) for k in (start, end)])
    box = Boxes([[1.0, 2, 3, 1]], [[5.0, 6, 7, 5]])
    counted = ((trips >= box.lower) & (trips < box.upper)).all(axis=1).sum()
    assert counted == pytest.approx(city.expected(box)[0], abs=4 * np.sqrt(counted))


def test_reduced_study(bicycles):
    found = bicycles.study(8, 2, (1.0, 2.0), width=2.0)
    assert np.mean(found["integral kernel"][0]) < np.mean(found["box centers"][0])
    assert np.mean(found["integral kernel"][1]) < np.mean(found["spread evenly"][1])
