"""Training the paper's regression on exit polls (Flaxman, Wang and Smola, KDD 2015): what a survey adds to totals, in simulated nations.

Survey results are further rows: the mean embedding of those asked about, the share of them who live in each place, their counts.

    python studies/exit_poll_evidence/evidence.py [--nations 12] [--regions 60]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import crosslevel as cl
from crosslevel.data.simulate import Nation, nation
from crosslevel.numerics.logit_shift import shift_to_total

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "product_kernel"))
from process import Process

SIZES, DRAWS = (0, 50, 500, 5000), 1000


def score(world: Nation, size: int, rng: np.random.Generator) -> np.ndarray:
    """Give errors in points of both sexes by region and by state, and the neighborhood's, of a survey of ``size`` of each by state."""
    embedder = cl.MeanEmbedding(256, categorical=["sex"], random_state=0)
    named = {"weight": "weight", "columns": [c for c in world.people.column_names if c not in ("region", "weight")]}
    whole = embedder.fit(world.people, by="region", **named).transform(world.people)
    parts = embedder.transform(world.people, by=["region", "sex"])
    keys = whole.key_table["region"].to_pylist()
    place = np.array([keys.index(key) for key in parts.key_table["region"].to_pylist()])
    sex, W = np.asarray(parts.key_table["sex"]), np.eye(len(keys))
    rows = [world.places["region"].to_pylist().index(key) for key in keys]
    state = np.array(world.places["state"].to_pylist())[rows]
    k, n = (np.asarray(world.places[name], dtype=float)[rows] for name in ("dem", "votes"))
    center = whole.weight @ whole.values / whole.weight.sum()
    M, A, counts = [whole.values - center], [W], [np.stack([k, n])]
    for row in world.true_rates(by="sex", rollup="state").to_pylist() if size else []:
        at = (sex == row["sex"]) & (state[place] == row["state"])
        share = parts.weight[at] / parts.weight[at].sum()
        M.append((share @ parts.values[at] - center)[None])
        A.append((share @ W[place[at]])[None])
        counts.append(np.array([[rng.binomial(size, row["rate"])], [size]], dtype=float))
    coords = np.column_stack([np.asarray(world.places[c])[rows] for c in ("lon", "lat")])
    process = Process(np.vstack(M), np.vstack(A), coords, *np.hstack(counts)).fit()
    mean, K = process.predict(parts.values - center, W[place])
    values, vectors = np.linalg.eigh(K)
    f = mean + rng.standard_normal((DRAWS, len(mean))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    found = shift_to_total(f, parts.weight / whole.weight[place], place, k / n).rate.mean(axis=0)
    truth = {(row["region"], row["sex"]): row["rate"] for row in world.true_rates(by="sex").to_pylist()}
    true = np.array([truth[keys[i], s] for i, s in zip(place, sex, strict=True)])
    off = found - true
    of_state = [
        np.average(off[at], weights=parts.weight[at])
        for s in np.unique(state)
        for at in ((state[place] == s) & (sex == 1), (state[place] == s) & (sex == 2))
    ]
    return 100 * np.sqrt([np.mean(off**2), np.mean(np.square(of_state)), np.mean(((k / n)[place] - true) ** 2)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nations", type=int, default=12)
    parser.add_argument("--regions", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore", cl.errors.CrosslevelWarning)
    worlds = [nation(options.regions, 200, n_states=6, random_state=seed) for seed in range(options.nations)]
    print("| asked in every state, of each sex | error by region, points | by state |\n|---|---|---|")
    for size in SIZES:
        each = [score(world, size, np.random.default_rng(seed)) for seed, world in enumerate(worlds)]
        region, by_state, neighborhood = np.mean(each, axis=0)
        print(f"| {size:,} | {region:.1f} | {by_state:.1f} |", flush=True)
    print(f"\nEverybody like their region: {neighborhood:.1f}.")


if __name__ == "__main__":
    main()
