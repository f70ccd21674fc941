"""A small world with known truth, shared by the tests of the room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """People, their group, a hidden answer with known probability, and its group means."""

    X: pa.Table
    group: npt.NDArray[np.intp]
    y: FloatArray
    p: FloatArray
    means: FloatArray

    @property
    def frame(self) -> pa.Table:
        """The published table, its groups in another order."""
        order = np.random.default_rng(5).permutation(len(self.means))
        return pa.table({"place": [f"g{i:02d}" for i in order], "ill": self.means[order]})

    @property
    def place(self) -> pa.Table:
        return pa.table({"place": [f"g{i:02d}" for i in self.group]})


def make_world(P: int = 30, size: int = 300, seed: int = 0, slopes: tuple[float, float] = (0.8, -0.5)) -> World:
    """Groups differ in age and schooling; the answer depends on both, and on nothing else."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(P), size)
    tilt = rng.normal(size=(P, 2))
    age = rng.binomial(4, 1 / (1 + np.exp(-0.8 * tilt[group, 0])))
    school = rng.binomial(3, 1 / (1 + np.exp(-0.8 * tilt[group, 1])))
    f = -1.0 + slopes[0] * (age - 2) + slopes[1] * (school - 1.5)
    p = 1 / (1 + np.exp(-f))
    y = (rng.random(len(p)) < p).astype(float)
    means = np.bincount(group, y) / size
    return World(pa.table({"age": age, "school": school}), group, y, p, means)


@pytest.fixture(scope="session")
def world() -> World:
    return make_world()
