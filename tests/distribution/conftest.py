"""A small world of weighted bags whose label is the spread of their people."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.data.bags import Bags


def make_world(n: int, seed: int, low: int = 1, high: int = 60, weighted: bool = True) -> tuple[Bags, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.uniform(1.0, 3.0, n)
    sizes = rng.integers(low, high, n)
    values = rng.normal(size=(sizes.sum(), 2)) * np.repeat(y, sizes)[:, None]
    weights = rng.uniform(0.2, 2.0, sizes.sum()) if weighted else None
    return Bags(values, np.concatenate([[0], np.cumsum(sizes)]), weights=weights), y


@pytest.fixture(scope="session")
def world() -> tuple[Bags, np.ndarray]:
    return make_world(70, 0)


@pytest.fixture(scope="session")
def fresh_world() -> tuple[Bags, np.ndarray]:
    return make_world(200, 1)
