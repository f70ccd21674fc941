"""The invented country is a map: polygons share borders to the bit, leave no gap and do not overlap."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from crosslevel.data.simulate.map import Country, feature_collection, invent_country


def directed_edges(country: Country) -> Counter[tuple[tuple[float, ...], tuple[float, ...]]]:
    return Counter(
        (tuple(a), tuple(b))
        for ring in country.rings
        for a, b in zip(ring[:-1].tolist(), ring[1:].tolist(), strict=True)
    )


def area(ring: np.ndarray) -> float:
    x, y = ring.T
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)


def coasts(country: Country) -> list[np.ndarray]:
    """Chain the edges that no neighbor walks the other way."""
    edges = directed_edges(country)
    onward: dict[tuple[float, ...], list[tuple[float, ...]]] = {}
    for a, b in edges:
        if (b, a) not in edges:
            onward.setdefault(a, []).append(b)
    rings = []
    while onward:
        start = next(iter(onward))
        ring = [start]
        while True:
            nexts = onward[ring[-1]]
            ring.append(nexts.pop())
            if not nexts:
                del onward[ring[-2]]
            if ring[-1] == start:
                break
        rings.append(np.array(ring))
    return rings


@pytest.mark.parametrize(("n", "seed"), [(1, 0), (2, 0), (7, 3), (60, 1), (300, 0), (1200, 2)])
def test_polygons_tile_the_land(n, seed):
    country = invent_country(n, min(n, 5), np.random.default_rng(seed))
    assert len(country.rings) == n
    assert all(area(ring) > 0 for ring in country.rings)  # counterclockwise
    assert all((ring[0] == ring[-1]).all() for ring in country.rings)
    assert max(directed_edges(country).values()) == 1  # an edge walked twice the same way would be an overlap
    outer = coasts(country)
    assert all(area(ring) > 0 for ring in outer)  # a clockwise coast would be a hole
    assert len(outer) <= 2  # the mainland and the island
    assert sum(map(area, country.rings)) == pytest.approx(sum(map(area, outer)), rel=1e-12)


def test_geojson_follows_the_standard():
    country = invent_country(3, 1, np.random.default_rng(0))
    collection = feature_collection(country, ["a", "b", "c"], ["S", "S", "S"])
    assert collection["type"] == "FeatureCollection"
    assert [f["properties"] for f in collection["features"]] == [{"region": r, "state": "S"} for r in "abc"]
    ring = collection["features"][0]["geometry"]["coordinates"][0]
    assert ring[0] == ring[-1]
    assert all(isinstance(value, float) for point in ring for value in point)
