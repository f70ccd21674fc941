"""A small world of people who decide one by one."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.people import People
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import Bins, PlaceCells, count_people
from crosslevel.ecological.covariance import Terms


@dataclass(frozen=True)
class World:
    people: People
    keys: list[str]
    bins: Bins
    cells: PlaceCells
    terms: Terms
    successes: np.ndarray
    trials: np.ndarray
    chance: np.ndarray  # of every person


def make_world(q=40, people=250, seed=0, effect=(0.0, 1.2, -0.8), slope=0.6, field=0.3, votes=20_000) -> World:
    rng = np.random.default_rng(seed)
    n = q * people
    place = np.repeat(np.arange(q), people)
    place_logit = rng.normal(size=(q, 3))
    odds = np.exp(place_logit)
    race = np.array([rng.choice(3, p=o / o.sum()) for o in odds[place]])
    age = np.clip(rng.normal(45 + 6 * rng.normal(size=q)[place], 15), 18, 90).round()
    table = pa.table(
        {
            "town": [f"t{i:02d}" for i in place],
            "race": [("a", "b", "c")[r] for r in race],
            "age": age,
            "sex": rng.integers(0, 2, n),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )
    local = field * rng.normal(size=q)
    chance = 1 / (1 + np.exp(-(np.array(effect)[race] + slope * (age - 45) / 15 + local[place])))
    w = table["w"].to_numpy()
    rate = np.bincount(place, weights=w * chance) / np.bincount(place, weights=w)
    trials = np.full(q, float(votes))
    successes = rng.binomial(votes, rate).astype(float)
    keys = [f"t{i:02d}" for i in range(q)]
    people_ = People(table, by="town", weight="w", columns=["race", "age", "sex"], categorical=["sex"])
    bins = learn_columns(people_, 8).bins
    cells = count_people(people_, bins, keys)
    xy = rng.uniform(0, 5, (q, 2))
    terms = Terms(q, "matern32", xy, "plane", True, None)
    return World(people_, keys, bins, cells, terms, successes, trials, chance)


@pytest.fixture(scope="session")
def world() -> World:
    return make_world()


@pytest.fixture(scope="session", name="make_world")
def world_maker():
    return make_world
