"""Groups known only as probabilities, against a register in which they are known.

North Carolina's register of 2025 gives party by race in every county. Each world takes some counties, draws registered people from
each in proportion to its cells, and hides their race: a person has one of six classes of surnames, drawn given race, and Bayes' rule
with the county's composition turns the class into membership probabilities. The composition used is off by ``MISPLACED`` in the log of
each race's share, by county: log odds between two races are off by sqrt(2) times that. Answers to "which share of each race is
registered with each party" are scored against the people drawn:

- people weighted by their probabilities, with the standard error of a weighted mean;
- rxc on the summed probabilities, as if they were counts;
- rxc on the same sums with their error carried;
- rxc on the true counts of each race, which nobody has.

Run: ``CROSSLEVEL_DATA=... python experiments/membership.py [worlds [size ...]]``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from crosslevel import Counts
from crosslevel.ecological import group_counts, rxc

RACES, PARTIES = ("white", "black", "other"), ("DEM", "REP", "UNA")
FILE = "truth/nc_2025_registration_turnout_county_party_race_eth_sex_age.parquet"
MISPLACED = 0.3
SURNAMES = np.array(
    [[0.45, 0.25, 0.15, 0.08, 0.04, 0.03], [0.20, 0.18, 0.17, 0.20, 0.20, 0.05], [0.08, 0.07, 0.05, 0.10, 0.15, 0.55]]
)
"""Classes of surnames given race: some tell much, most tell little. Invented; real tables of names are not shipped."""


def register(folder: Path) -> np.ndarray:
    """Registered people by county, race and party, (100, 3, 3); race unknown and small parties left out."""
    table = pq.read_table(folder / FILE).to_pandas()
    table = table[(table["race_code"] != "U") & table["party_cd"].isin(PARTIES)]
    race = table["race_code"].map({"W": 0, "B": 1}).fillna(2).astype(int)
    party = table["party_cd"].map({p: i for i, p in enumerate(PARTIES)})
    county = table["county_desc"].astype("category").cat.codes.to_numpy()
    cells = np.zeros((county.max() + 1, 3, 3))
    np.add.at(cells, (county, race.to_numpy(), party.to_numpy()), table["registered_count"].to_numpy())
    return cells


def world(cells: np.ndarray, rng: np.random.Generator, size: int, counties: int) -> dict[str, np.ndarray]:
    """Draw people of some counties: county, race, party and membership probabilities."""
    chosen = cells[rng.choice(len(cells), counties, replace=False)]
    drawn = np.array([rng.multinomial(int(size * rng.uniform(0.5, 2.0)), (c / c.sum()).ravel()) for c in chosen])
    county, cell = np.nonzero(drawn)
    county, cell = (np.repeat(v, drawn[county, cell]) for v in (county, cell))
    race, party = cell // 3, cell % 3
    u = rng.random(len(race))
    surname = (u[:, None] > np.cumsum(SURNAMES, axis=1)[race]).sum(axis=1).clip(0, 5)
    shares = chosen.sum(axis=2) / chosen.sum(axis=(1, 2))[:, None]
    prior = shares * np.exp(rng.normal(0, MISPLACED, shares.shape))
    p = prior[county] * SURNAMES[:, surname].T
    return {"county": county, "race": race, "party": party, "p": p / p.sum(axis=1, keepdims=True)}


def answers(w: dict[str, np.ndarray], calibration_sd: float) -> dict[str, tuple[np.ndarray, ...]]:
    """Estimate, low and high of every race's share with every party, (3, 3) each, by method."""
    n = int(w["county"].max()) + 1
    party = np.eye(3)[w["party"]]
    p = w["p"]
    mean = (p.T @ party) / p.sum(axis=0)[:, None]
    se = (
        np.sqrt(np.stack([(p[:, r, None] ** 2 * (party - mean[r]) ** 2).sum(axis=0) for r in range(3)]))
        / p.sum(axis=0)[:, None]
    )
    found = {"people weighted by probability": (mean, mean - 1.96 * se, mean + 1.96 * se)}
    people = {"county": w["county"], **{race: p[:, r] for r, race in enumerate(RACES)}}
    votes = {name: np.bincount(w["county"], party[:, c], n) for c, name in enumerate(PARTIES)}
    truly = {race: np.bincount(w["county"], w["race"] == r, n) for r, race in enumerate(RACES)}
    data = {"county": np.arange(n), **truly, **votes}
    of = {"unit": "county", "outcomes": list(PARTIES)}
    fit = rxc(Counts(data, groups=list(RACES), **of))
    found["true counts"] = tuple(fit[c].reshape(3, 3) for c in ("estimate", "conf_low", "conf_high"))
    for name, sd in (("sums taken for counts", None), ("sums with their error", calibration_sd)):
        sums = group_counts(
            people, by="county", probabilities=RACES, places={"county": np.arange(n)}, calibration_sd=sd or 0.0
        )
        fit = rxc(Counts(data, groups=replace(sums, covariance=None) if sd is None else sums, **of))
        found[name] = tuple(fit[c].reshape(3, 3) for c in ("estimate", "conf_low", "conf_high"))
    return found


def main(worlds: int = 60, *sizes: int) -> None:
    """Print error and coverage of the three answers, by size of the units."""
    cells = register(Path(os.environ["CROSSLEVEL_DATA"]))
    print(
        "| people of a unit | answer | mean error of a share | 95 % coverage | mean width |\n| --- | --- | --- | --- | --- |"
    )
    for size in sizes or (100, 400, 2000):
        rng = np.random.default_rng(size)
        scores: dict[str, list[tuple[float, float, float]]] = {}
        for _ in range(worlds):
            w = world(cells, rng, size, 60)
            truth = np.array([[((w["race"] == r) & (w["party"] == c)).sum() for c in range(3)] for r in range(3)])
            truth = truth / truth.sum(axis=1, keepdims=True)
            for name, (mean, low, high) in answers(w, np.sqrt(2) * MISPLACED).items():
                covered = ((low <= truth) & (truth <= high)).mean()
                scores.setdefault(name, []).append(
                    (float(np.abs(mean - truth).mean()), float(covered), float((high - low).mean()))
                )
        for name, rows in scores.items():
            error, covered, width = np.mean(rows, axis=0)
            print(f"| {size} | {name} | {error:.3f} | {covered:.3f} | {width:.3f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
