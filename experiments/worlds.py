"""Do intervals hold in simulated worlds? Two kinds of them, in four sizes; prints the table of the guide.

Worlds of the *stated* kind are drawn from what intervals say they allow for: apparent effects with the model's prior variance, of which
people's own effects keep (1 - shrinkage), with the shipped uncertainty about contextual effects and the shipped tau, both multiplied by the
heavy-tailed scale of their column, and omega and effects of pairs. Truths of a group are drawn given the totals, thirty for each world.
*Plain* worlds are a stress test of a normal law: effects vary by .25 rather than .2 squared logits, and are people's own altogether, so
that shrinking them is wrong; groups are moved by the tau of a normal law, and by omega.

    OMP_NUM_THREADS=1 python experiments/worlds.py                           # 40 places
    OMP_NUM_THREADS=1 python experiments/worlds.py --seeds 24 --places 300
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import special
from us2024_data import lay

import crosslevel as cl
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons.aggregate import EFFECT_VARIANCE
from crosslevel.ecological.persons.groups import allowance_of
from crosslevel.errors import CrosslevelWarning
from crosslevel.numerics.logit_shift import shift_to_total

FloatArray = npt.NDArray[np.float64]
TAIL = SHIPPED.of_effects
POPULATION = 20_000
SIZES = {"race": 3, "sex": 2, "school": 4}
SPREADS = {"race": 1.0, "sex": 0.1, "school": 0.5}
"""Levels of each column, and how much places differ in it (standard deviation of log shares)."""
LARGER = 0.25
"""Variance of effects in the plain worlds."""
KINDS = ("stated", "plain")
TRUTHS = 30
"""Truths that are drawn for a world, given its totals."""
CODES = np.array(list(itertools.product(*(range(n) for n in SIZES.values()))))


@dataclass(frozen=True)
class World:
    """People who were sampled, totals of everybody, and who everybody is.

    Attributes
    ----------
    people, places : pyarrow.Table
    count : (n_places, n_cells)
        Everybody.
    total : (n_places,)
        Share of yes.
    effects : list of (n_levels,)
        As they appear in totals.
    scale : list of float
        Of each column, with heavy tails; 1 in plain worlds.
    """

    people: pa.Table
    places: pa.Table
    count: FloatArray
    total: FloatArray
    effects: list[FloatArray]
    scale: list[float]


def make(kind: str, n_places: int, sampled: int, rng: np.random.Generator, place_sd: float = 0.2) -> World:
    """Draw a world: composition, apparent effects, totals, and a sample of its people."""
    log_share = np.zeros((n_places, len(CODES)))
    for j, (name, size) in enumerate(SIZES.items()):
        log_share += SPREADS[name] * rng.normal(size=(n_places, size))[:, CODES[:, j]]
    count = np.array([rng.multinomial(POPULATION, share) for share in special.softmax(log_share, axis=1)])
    variance, degrees = (EFFECT_VARIANCE, TAIL.degrees) if kind == "stated" else (LARGER, np.inf)
    scale = [1.0 if np.isinf(degrees) else float(np.sqrt(degrees / rng.chisquare(degrees))) for _ in SIZES]
    effects = [np.sqrt(variance) * rng.normal(size=size) for size in SIZES.values()]
    eta = np.asarray(sum(e[CODES[:, j]] for j, e in enumerate(effects))) + rng.normal(0.0, 0.5)
    share = count / POPULATION
    away = rng.normal(0.0, place_sd, n_places)
    if kind == "stated":  # the aggregate form: place effects act on the logit of the total
        chance = special.expit(special.logit(share @ special.expit(eta)) + away)
    else:
        chance = (share * special.expit(eta + away[:, None])).sum(axis=1)
    yes = rng.binomial(POPULATION, chance)
    sample = np.array([rng.multivariate_hypergeometric(row, sampled) for row in count])
    place, cell = np.nonzero(sample)
    each = sample[place, cell]
    names = np.array([f"p{i:03d}" for i in range(n_places)])
    levels = {name: np.repeat(CODES[cell, j], each) for j, name in enumerate(SIZES)}
    people = pa.table({"place": np.repeat(names[place], each)} | levels)
    places = pa.table({"place": names, "yes": yes, "all": np.full(n_places, POPULATION)})
    return World(people, places, count.astype(float), yes / POPULATION, effects, scale)


def rates(world: World, kind: str, column: int, shrinkage: dict[str, float], rng: np.random.Generator) -> FloatArray:
    """Draw what the groups of a column did, given the totals: their rates over all places."""
    q, given = len(world.count), SHIPPED
    theta, tau = [], TAIL.tau if kind == "stated" else given.tau
    for e, name, scale in zip(world.effects, SIZES, world.scale, strict=True):
        if kind == "stated":
            e = (1.0 - shrinkage[name]) * e * (1.0 + scale * TAIL.distance * rng.normal())
        theta.append(e + scale * tau * rng.normal(size=len(e)))
    eta = np.asarray(sum(e[CODES[:, j]] for j, e in enumerate(theta)))
    for other, size in enumerate(SIZES.values()):
        if other != column:
            levels = list(SIZES.values())[column]
            pairs = np.sqrt(given.pairs) * tau * rng.normal(size=(levels, size))
            eta = eta + pairs[CODES[:, column], CODES[:, other]]
    group = CODES[:, column]
    local = given.omega * rng.normal(size=(q, group.max() + 1))
    f = eta + local[:, group]
    share = world.count / POPULATION
    inside = np.clip(world.total, 0.5 / POPULATION, 1.0 - 0.5 / POPULATION)
    moved = shift_to_total(f.reshape(1, -1), share.ravel(), np.repeat(np.arange(q), len(CODES)), inside)
    yes = moved.rate.reshape(q, -1) * world.count
    levels = group[:, None] == np.arange(group.max() + 1)
    return np.asarray((yes @ levels).sum(axis=0) / (world.count @ levels).sum(axis=0))


def answers(kind: str, n_places: int, sampled: int, seed: int, **settings: object) -> dict[str, FloatArray]:
    """Give how often intervals held in one world, group by group, how wide they were and how far answers were off."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    world = make(kind, n_places, sampled, rng)
    model = cl.EcologicalInference(spatial=None, **settings)
    held, width, error, near = [], [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        people = cl.People(world.people, by="place", categorical=list(SIZES))
        model.fit(people, cl.Places(world.places, by="place", successes="yes", trials="all"))
        shrinkage = dict(allowance_of(model.model_, None).shrinkage)
        for column, name in enumerate(SIZES):
            truth = np.array([rates(world, kind, column, shrinkage, rng) for _ in range(TRUTHS)])
            found = model.estimate(by=name, rollup="all")
            low, high = found["conf_low"], found["conf_high"]
            held.append(((low <= truth) & (truth <= high)).mean(axis=0))
            width.append(high - low)
            error.append(np.abs(found["estimate"] - truth).mean(axis=0))
            near.append(np.abs(found["neighborhood"] - truth).mean(axis=0))
    parts = {"held": held, "width": width, "error": error, "near": near}
    return {key: np.concatenate(values).astype(float) for key, values in parts.items()}


def study(kind: str, n_places: int, sampled: int, seeds: range, **settings: object) -> dict[str, float]:
    """Average over worlds; groups of a world depend on one another, so that standard errors are those of worlds."""
    begun = time.perf_counter()
    worlds = [answers(kind, n_places, sampled, seed, **settings) for seed in seeds]
    table = {key: np.array([w[key] for w in worlds]) for key in worlds[0]}
    each = table["held"].mean(axis=1)
    ends = np.cumsum([0, *SIZES.values()])
    by_column = {
        n: float(table["held"][:, a:b].mean()) for n, (a, b) in zip(SIZES, itertools.pairwise(ends), strict=True)
    }
    return {
        "coverage": float(each.mean()),
        "se": float(each.std(ddof=1) / np.sqrt(len(each))),
        **{key: float(table[key].mean()) for key in ("width", "error", "near")},
        **by_column,
        "seconds": time.perf_counter() - begun,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--places", type=int, nargs="+", default=[40])
    parser.add_argument("--people", type=int, nargs="+", default=[400, 2600])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    asked = parser.parse_args()
    rows = []
    for kind, n_places, sampled in itertools.product(asked.kinds, asked.places, asked.people):
        found = study(kind, n_places, sampled, range(asked.first, asked.first + asked.seeds))
        print(kind, n_places, sampled, {k: round(v, 3) for k, v in found.items()}, flush=True)
        rows.append(
            [
                *(kind, f"{n_places}", f"{sampled:,}", f"{asked.seeds}"),
                f"{found['coverage']:.3f} ± {found['se']:.3f}",
                *(f"{100 * found[key]:.1f}" for key in ("width", "error", "near")),
            ]
        )
    heading = ["worlds", "places", "people sampled in each", "worlds drawn", "coverage", "width", "error"]
    print(lay([*heading, "neighborhood's"], rows))


if __name__ == "__main__":
    main()
