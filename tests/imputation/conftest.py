"""A small world with known truth, shared by the tests of the room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from tests.imputation.nouns import people_of, places_of

import crosslevel as cl

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
    def place(self) -> npt.NDArray[np.str_]:
        return np.array([f"g{i:02d}" for i in self.group])

    @property
    def people(self) -> cl.People:
        return people_of(self.X, self.place)

    @property
    def places(self) -> cl.Places:
        """The published table, its groups in another order."""
        order = np.random.default_rng(5).permutation(len(self.means))
        return places_of(self.means[order], labels=[f"g{i:02d}" for i in order])

    def kept(self, keep: npt.NDArray[np.bool_]) -> cl.People:
        """Some of the people."""
        return people_of(self.X.filter(pa.array(keep)), self.place[keep])


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
