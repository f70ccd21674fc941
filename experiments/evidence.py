"""What does a survey add to totals? Simulated nations with surveys of growing size; prints the table of the guide.

python experiments/evidence.py
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from crosslevel.data.simulate import Nation, nation
from crosslevel.ecological import DistributionRegression
from crosslevel.errors import CrosslevelWarning
from crosslevel.results.scores import coverage, rmse

SIZES = (0, 50, 500, 5000)
SETTINGS: dict[str, Any] = {
    "by": "region",
    "weight": "weight",
    "successes": "dem",
    "trials": "votes",
    "coords": ("lon", "lat"),
}


def survey(world: Nation, size: int, rng: np.random.Generator) -> dict[str, list[Any]] | None:
    """Ask so many of each sex in every state."""
    if not size:
        return None
    asked = world.true_rates(by="sex", rollup="state").to_pylist()
    return {
        "subgroup": [f"sex == {row['sex']}" for row in asked],
        "state": [row["state"] for row in asked],
        "dem": [int(rng.binomial(size, row["rate"])) for row in asked],
        "votes": [size] * len(asked),
    }


def scores(world: Nation, size: int, rng: np.random.Generator) -> list[float]:
    """Give error in points and coverage by region, both by state, and neighborhood's error by region."""
    model = DistributionRegression(n_features=256, categorical=["sex"])
    model.fit(world.people, world.places, evidence=survey(world, size, rng), **SETTINGS)
    found = [model.estimate(by="sex", rollup=rollup) for rollup in (None, "state")]
    truths = [world.true_rates(by="sex"), world.true_rates(by="sex", rollup="state")]
    both = [e.with_truth(t, "rate") for e, t in zip(found, truths, strict=True)]
    told = [(100 * rmse(e["estimate"], e["truth"]), coverage(e["conf_low"], e["conf_high"], e["truth"])) for e in both]
    return [*told[0], *told[1], 100 * rmse(both[0]["neighborhood"], both[0]["truth"])]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nations", type=int, default=12)
    parser.add_argument("--regions", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    worlds = [nation(options.regions, 200, n_states=6, random_state=seed) for seed in range(options.nations)]
    print("| asked in every state, of each sex | error, points | 95 % intervals hold | by state: error | hold |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        each = np.array([scores(world, size, np.random.default_rng(seed)) for seed, world in enumerate(worlds)])
        mean, worst = each.mean(axis=0), each.min(axis=0)
        held = [f"{mean[i]:.2f}, at worst {worst[i]:.2f}" for i in (1, 3)]
        print(f"| {f'{size:,}' if size else 'nobody'} | {mean[0]:.1f} | {held[0]} | {mean[2]:.1f} | {held[1]} |")
    print(f"\nneighborhood is wrong by {mean[4]:.1f}.")


if __name__ == "__main__":
    main()
