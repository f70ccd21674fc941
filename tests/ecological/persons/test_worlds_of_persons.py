"""Nations whose people decide one by one, as the individual link says: are answers unbiased, and do intervals hold the truth?

Truth is what the whole population did; the model sees a sample of it and the totals. Confounding is added as nobody can see it in totals:
the people of a group are moved together, everywhere, and everybody in a place is moved back until its total is as before.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

import crosslevel as cl
from crosslevel.ecological.confounding import SHIPPED, Confounding
from crosslevel.errors import CrosslevelWarning
from crosslevel.numerics.logit_shift import shift_to_total

PLACES, POPULATION, SAMPLED = 40, 20_000, 400
SIZES = {"race": 3, "sex": 2, "school": 4}


@dataclass(frozen=True)
class World:
    people: pa.Table
    places: pa.Table
    count: np.ndarray  # (places, cells) everybody
    yes: np.ndarray  # (places, cells) of them
    codes: np.ndarray  # (cells, columns)


def make(seed: int, n_places: int = PLACES, sampled: int = SAMPLED) -> World:
    rng = np.random.default_rng(seed)
    codes = np.stack(np.meshgrid(*(np.arange(n) for n in SIZES.values()), indexing="ij"), axis=-1).reshape(
        -1, len(SIZES)
    )
    log_share = np.zeros((n_places, len(codes)))
    for column, (size, spread) in enumerate(zip(SIZES.values(), (1.0, 0.1, 0.5), strict=True)):
        log_share += spread * rng.normal(size=(n_places, size))[:, codes[:, column]]
    count = np.array([rng.multinomial(POPULATION, share) for share in special.softmax(log_share, axis=1)])
    effects = [0.5 * rng.normal(size=size) for size in SIZES.values()]
    eta = sum(e[codes[:, j]] for j, e in enumerate(effects)) + rng.normal(0.0, 0.5)
    yes = rng.binomial(count, special.expit(eta + rng.normal(0.0, 0.2, (n_places, 1))))
    sample = np.array([rng.multivariate_hypergeometric(row, sampled) for row in count])
    place, cell = np.nonzero(sample)
    each = sample[place, cell]
    names = np.array([f"p{i:03d}" for i in range(n_places)])
    levels = {name: np.repeat(codes[cell, j], each) for j, name in enumerate(SIZES)}
    people = pa.table({"place": np.repeat(names[place], each)} | levels)
    places = pa.table({"place": names, "yes": yes.sum(axis=1), "all": count.sum(axis=1)})
    return World(people, places, count, yes, codes)


def summed(world: World, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Give everybody and yes by place and level, (places, levels)."""
    levels = np.arange(list(SIZES.values())[column]) == world.codes[:, column, None]
    return world.count @ levels, world.yes @ levels


def confounded(world: World, column: int, by: Confounding, rng: np.random.Generator) -> np.ndarray:
    """Move the groups of a column, and everybody back to the totals: their rates in the nation."""
    everybody, yes = summed(world, column)
    q, n = everybody.shape
    f = special.logit((yes + 0.5) / (everybody + 1.0)) + rng.normal(0.0, by.tau, n) + rng.normal(0.0, by.omega, (q, n))
    share, total = everybody / everybody.sum(axis=1, keepdims=True), yes.sum(axis=1) / everybody.sum(axis=1)
    rate = shift_to_total(f.reshape(1, -1), share.ravel(), np.repeat(np.arange(q), n), total).rate.reshape(q, n)
    return (rate * everybody).sum(axis=0) / everybody.sum(axis=0)


def answers(seed: int, n_places: int, sampled: int) -> list[dict[str, float]]:
    """Give a row for every group of the nation: estimate, intervals and truths."""
    world = make(seed, n_places, sampled)
    people = cl.People(world.people, by="place", categorical=list(SIZES))
    model = cl.EcologicalInference(spatial=None)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.fit(people, cl.Places(world.places, by="place", successes="yes", trials="all"))
        rng = np.random.default_rng([seed, 1])
        for column, name in enumerate(SIZES):
            plain, wide = (
                model.estimate(by=name, rollup="all", interval=i, n_draws=400) for i in ("model", "confounding")
            )
            everybody, yes = summed(world, column)
            truth, moved = yes.sum(axis=0) / everybody.sum(axis=0), confounded(world, column, SHIPPED, rng)
            for g in range(len(truth)):
                rows.append(
                    {
                        "error": plain["estimate"][g] - truth[g],
                        "far": plain["estimate"][g] - plain["neighborhood"][g],
                        "sd": plain["std_error"][g],
                        "held": plain["conf_low"][g] <= truth[g] <= plain["conf_high"][g],
                        "confounded": wide["conf_low"][g] <= moved[g] <= wide["conf_high"][g],
                        "confounded, model": plain["conf_low"][g] <= moved[g] <= plain["conf_high"][g],
                    }
                )
    return rows


def study(seeds, n_places=PLACES, sampled=SAMPLED):
    """Give coverages and biases over worlds; groups of a world are dependent, so standard errors are those of worlds.

    ``overstated`` is by how much the distance of answers from the rates of places is too large, as a share of it.
    """
    worlds = [answers(seed, n_places, sampled) for seed in seeds]
    table = {key: np.array([[row[key] for row in world] for world in worlds], dtype=float) for key in worlds[0][0]}
    z = table["error"] / table["sd"]
    over = (table["error"] * table["far"]).sum(axis=1) / (table["far"] ** 2).sum()
    return {
        "held": table["held"].mean(),
        "confounded": table["confounded"].mean(),
        "confounded, model": table["confounded, model"].mean(),
        "bias": (z.mean(axis=1).mean(), z.mean(axis=1).std(ddof=1) / np.sqrt(len(z))),
        "overstated": (over.sum(), over.std(ddof=1) * np.sqrt(len(over))),
        "spread": z.std(),
    }


def within(found: tuple[float, float], errors: float = 3.0) -> bool:
    return abs(found[0]) <= errors * found[1]


def test_answers_of_a_few_worlds_hold_the_truth():
    found = study(range(6))
    n = 6 * sum(SIZES.values())
    # fewer than this would be chance once in ten thousand, were groups of a world independent; they are nearly
    assert found["held"] * n >= stats.binom.ppf(1e-4, n, 0.95)
    assert found["confounded"] * n >= stats.binom.ppf(1e-4, n, 0.93)
    assert found["confounded, model"] < found["confounded"]
    assert within(found["bias"], 4.0)
    assert within(found["overstated"], 4.0)


@pytest.mark.slow
def test_intervals_cover():
    """The scales are taken as known and effects have a variance of .2, not .25: the model's own intervals are a little thin.

    Those that allow for confounding, which are the default, are not; answers are a tenth nearer to their places than the truth.
    """
    found = study(range(50))
    print(found)
    assert 0.89 <= found["held"] <= 0.98
    assert 0.93 <= found["confounded"] <= 0.98
    assert found["confounded, model"] < 0.8
    assert within(found["bias"])
    assert -0.2 < found["overstated"][0] < 0.05
