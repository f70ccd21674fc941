"""Worlds of the comparison with other packages: what both sides are given, and the truth that scores them.

A world is a dict of arrays. ``truth`` is what answers are scored against; a world of tables by unit has the true ``cells`` (R, C) in
counts, and its truth is the share of every cell in its group, group after group. Two worlds are real tables whose cells were
counted, read from ``CROSSLEVEL_DATA``.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np

World = dict[str, np.ndarray]


def world_features() -> World:
    """100,000 people in 20 groups; the truth is the exact kernel between the means of groups, on some of the people."""
    rng = np.random.default_rng(0)
    group = np.sort(rng.integers(0, 20, 100_000))
    x = rng.normal(size=(100_000, 5)) + rng.normal(0, 0.5, (20, 5))[group]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    few = np.concatenate([np.flatnonzero(group == g)[:300] for g in range(20)])
    z = x[few].reshape(20, 300, 5)
    truth = np.empty((20, 20))
    for a in range(20):
        for b in range(a + 1):
            square = ((z[a][:, None] - z[b][None]) ** 2).sum(-1)
            truth[a, b] = truth[b, a] = np.exp(-square / (2 * 4.0)).mean()
    return {"x": x[few], "group": group[few], "all_x": x, "all_group": group, "truth": truth}


def world_curve() -> World:
    """1,500 rows of a smooth function of three covariates; the truth is the function at 500 new rows."""
    rng = np.random.default_rng(1)
    x, new = rng.normal(size=(1500, 3)), rng.normal(size=(500, 3))

    def f(x: np.ndarray) -> np.ndarray:
        return np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]

    return {"x": x, "y": f(x) + rng.normal(0, 0.5, 1500), "new": new, "truth": f(new)}


def world_means() -> World:
    """6,000 people of 60 places: age in six bands and schooling known, illness as the share of each place; truth by band."""
    rng = np.random.default_rng(2)
    place = np.repeat(np.arange(60), 100)
    tilt = rng.normal(0, 0.8, 60)[place]
    age = np.clip(np.round(2.5 + tilt + rng.normal(0, 1.5, 6000)), 0, 5)
    school = np.clip(np.round(1.5 - 0.3 * tilt + rng.normal(0, 1, 6000)), 0, 3)
    logit = -3 + 0.6 * age - 0.4 * school + rng.normal(0, 0.3, 60)[place]
    ill = (rng.random(6000) < 1 / (1 + np.exp(-logit))).astype(float)
    share = np.bincount(place, ill) / 100
    truth = np.array([ill[age == a].mean() for a in range(6)])
    return {"age": age, "school": school, "place": place, "share": share, "truth": truth}


def world_bins() -> World:
    """60 bins of a smooth density with normal noise; the truth is the density at 200 points."""
    rng = np.random.default_rng(3)
    edges = np.linspace(0, 100, 61)
    total = 2 * np.diff(edges) - 5 * np.diff(np.cos(edges / 5))
    points = np.linspace(1, 99, 200)
    return {"edges": edges, "y": total + rng.normal(0, 0.1, 60), "points": points, "truth": 2 + np.sin(points / 5)}


def world_votes() -> World:
    """100 precincts, two groups, two candidates; a group's rates vary by chance, as King's model has it. Truth: rate of each group."""
    rng = np.random.default_rng(4)
    share, people = rng.beta(1.2, 1.2, 100), rng.integers(200, 1500, 100)
    first = rng.binomial(people, share)
    groups = np.column_stack([first, people - first])
    rates = np.column_stack([rng.beta(16, 4, 100), rng.beta(6, 14, 100)])
    votes = np.column_stack([rng.binomial(groups[:, g], rates[:, g]) for g in range(2)])
    cells = np.stack([votes, groups - votes], axis=2).sum(axis=0)
    yes = votes.sum(axis=1)
    return {"groups": groups, "outcomes": np.column_stack([yes, people - yes]), **_of_cells(cells)}


def _of_cells(cells: np.ndarray) -> World:
    return {"cells": cells, "truth": (cells / cells.sum(axis=1, keepdims=True)).ravel()}


def _truth_table(name: str) -> np.ndarray:
    """Read a table whose cells were counted."""
    folder = os.environ.get("CROSSLEVEL_DATA")
    if folder is None:
        raise FileNotFoundError("CROSSLEVEL_DATA is not set; it names the folder of the real tables")
    return np.genfromtxt(Path(folder) / "truth" / name, delimiter=",", names=True, dtype=None, encoding="utf-8")


def world_senc() -> World:
    """senc, the example data of eiPack: race by party registration in 212 precincts of south-east North Carolina."""
    data = _truth_table("senc_se_north_carolina.csv")
    races, parties = ("white", "black", "natam"), ("dem", "rep", "non")
    cells = np.array([[data[r + p].sum() for p in parties] for r in ("wh", "bl", "natam")], dtype=float)
    groups, outcomes = (np.column_stack([data[c] for c in names]) for names in (races, parties))
    return {"groups": groups, "outcomes": outcomes, **_of_cells(cells)}


def world_matproii() -> World:
    """matproii, the example data of ei: registration by race in 268 Southern counties."""
    data = _truth_table("ei_matproii.csv")
    people = data["n"].astype(float)
    first, yes = np.round(people * data["x"]), np.round(people * data["t"])
    groups = np.column_stack([first, people - first])
    rates = np.column_stack([data["tb"], data["tw"]])
    registered = (groups * rates).sum(axis=0)
    cells = np.column_stack([registered, groups.sum(axis=0) - registered])
    return {"groups": groups, "outcomes": np.column_stack([yes, people - yes]), **_of_cells(cells)}


COLUMNS = ("age_group", "race", "education", "sex")


def world_survey() -> World:
    """Votes of 80 regions, a sample of their people, and 2,000 respondents, one side of whom answered more readily; truth by level."""
    from crosslevel.data.simulate import nation

    made = nation(n_regions=80, people_per_region=500, n_states=8, contextual=0.15, spatial=0.12, random_state=1)
    people, asked, places = (
        t.to_pandas() for t in (made.people, made.survey(2000, shift=0.3, random_state=2), made.places)
    )
    truth = [
        rate
        for c in COLUMNS
        for _, rate in sorted((str(r[c]), r["rate"]) for r in made.true_rates(by=c, rollup="all").to_pylist())
    ]
    world = {f"people_{c}": people[c].astype(str).to_numpy(str) for c in (*COLUMNS, "region")}
    world |= {f"asked_{c}": asked[c].astype(str).to_numpy(str) for c in (*COLUMNS, "region", "state")}
    world |= {f"place_{c}": places[c].astype(str).to_numpy(str) for c in ("region", "state")}
    world |= {c: places[c].to_numpy() for c in ("dem", "votes", "lon", "lat")}
    return world | {
        "people_weight": people["weight"].to_numpy(),
        "asked_y": asked["voted_dem"].to_numpy(),
        "truth": np.array(truth),
    }


def world_areas() -> World:
    """Counts of 100 squares, asked for 64 squares of another grid; people follow a smooth surface with three towns."""
    rng = np.random.default_rng(5)
    people = np.concatenate(
        [rng.normal(c, s, (n, 2)) for c, s, n in (((30, 30), 14, 20000), ((70, 60), 9, 15000), ((45, 80), 5, 6000))]
    )
    people = np.concatenate([people, rng.uniform(0, 100, (9000, 2))])
    people = people[((people > 0) & (people < 100)).all(axis=1)]
    source, target = np.linspace(0, 100, 11), np.linspace(0, 100, 9)
    return {
        "source": source,
        "target": target,
        "y": np.histogram2d(people[:, 0], people[:, 1], [source, source])[0].ravel(),
        "truth": np.histogram2d(people[:, 0], people[:, 1], [target, target])[0].ravel(),
    }


def squares(edges: np.ndarray) -> list[list[list[float]]]:
    """Corners of the squares of a grid."""
    e = edges.tolist()
    return [[[a, c], [b, c], [b, d], [a, d]] for a, b in pairwise(e) for c, d in pairwise(e)]
