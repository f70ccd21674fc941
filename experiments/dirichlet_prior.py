"""Which gamma prior of alpha brings the Multinomial-Dirichlet model nearest to tables whose inner cells are known?

All of this was declared before the first run:

* Candidates: Gamma(shape, rate shape / mean) for every shape of 1, 2, 4, 8, 16, 32 and mean of 1, 2, 4, 8, 16, 32, eiPack's (4, 2) among
  them; and a prior whose shape and mean are learned, log-normal around eiPack's with a spread of 1 and of 2.
* Tables, sources weighing alike: North Carolina (3x3 and 5x3), registration in Southern counties (ei_matproii and eco_reg), nativity by
  illiteracy (every fifth county of eco_forgnlit30c), and every 25th of New Zealand's districts, all elections in a row, but for those of
  more than 100 units, which take too long. The precincts of south-east North Carolina (senc) are not among them, so that they can test
  the choice.
* Error: 50 sum|estimate - truth| / sum truth over the district's cells, in percent of people, at the posterior mean.
* Criterion: the mean error over sources; the mean rank over sources is shown beside it and breaks ties (means within 0.05).
* First all candidates with short chains. Then the three of lowest mean error, eiPack's, and the better of the learned ones, with the
  chains of the library: four, doubled up to 8,000 draws each until r-hat is below 1.01 and the effective sample size above 400 (1,000 draws
  were not enough for the first table tried). How many tables a candidate converged on is printed beside it. The winner is the best of
  these finalists by the criterion.
* A winner on the edge of the grid is said to be there.
* senc last, for the winner and for eiPack's.

Results of chains already run are kept in a file (--kept), so that a stopped run goes on.

    OMP_NUM_THREADS=1 python experiments/dirichlet_prior.py --data FOLDER --short   # about 12 minutes on one idle core
    OMP_NUM_THREADS=1 python experiments/dirichlet_prior.py --data FOLDER           # and some hours for the finalists and senc
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from ecological_data import NZ_YEARS, Known, new_zealand, north_carolina, senc, two_by_two
from scipy.stats import rankdata

from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.sampler import Hyperprior, Plan, sample_posterior
from crosslevel.ecological.tables.unit_tables import unit_tables

SHAPES = MEANS = (1, 2, 4, 8, 16, 32)
SPREADS = (1, 2)
DEFAULT = "4, 2"
SHORT, LONG = Plan(2, 90, 60, 90, 0), Plan(4, 1000, 200, 8000, 0)
FINALISTS, TIE = 3, 0.05
EVERY_DISTRICT, MOST_UNITS, EVERY_COUNTY = 25, 100, 5

Prior = tuple[float, float] | Hyperprior


def candidates() -> dict[str, Prior]:
    """Give the priors by their names, which are shape and rate."""
    fixed: dict[str, Prior] = {f"{a:g}, {a / m:g}": (float(a), a / m) for a in SHAPES for m in MEANS}
    return fixed | {f"learned, spread {s}": Hyperprior(4.0, 2.0, float(s)) for s in SPREADS}


def at_the_edge(prior: Prior) -> bool:
    """Tell whether a better one might lie beyond the grid."""
    ends = (SHAPES[0], SHAPES[-1])
    return not isinstance(prior, Hyperprior) and (prior[0] in ends or round(prior[0] / prior[1]) in ends)


def sources(folder: Path) -> dict[str, list[Known]]:
    """Give the tables, by what counts as one source."""
    illiteracy = two_by_two(folder / "eco_forgnlit30c.csv", ("X", "Y", None, "W1", "W2"), "eco_forgnlit30c")
    elections = [known for year in NZ_YEARS for known in new_zealand(folder, year)][::EVERY_DISTRICT]
    return {
        "North Carolina": [north_carolina(folder, five=False), north_carolina(folder, five=True)],
        "registration": [
            two_by_two(folder / "ei_matproii.csv", ("x", "t", "n", "tb", "tw"), "ei_matproii"),
            two_by_two(folder / "eco_reg.csv", ("X", "Y", "N", "W1", "W2"), "eco_reg"),
        ],
        "illiteracy": [thinned(illiteracy, folder / "eco_forgnlit30c.csv")],
        "New Zealand": [known for known in elections if len(known.X) <= MOST_UNITS],
    }


def thinned(known: Known, path: Path) -> Known:
    """Keep every fifth county, and the truth of these."""
    import pyarrow.csv as pv

    data = pv.read_csv(path)
    kept = slice(None, None, EVERY_COUNTY)
    X, T = known.X[kept], known.T[kept]
    yes = np.array([np.sum(X[:, r] * data[w].to_numpy()[kept]) for r, w in enumerate(("W1", "W2"))])
    return Known(known.name, known.groups, known.outcomes, X, T, np.column_stack([yes, X.sum(axis=0) - yes]))


def measure(known: Known, prior: Prior, plan: Plan) -> dict[str, Any]:
    """Give the percent of people whom the posterior mean puts in a wrong cell, and whether the chains met."""
    tables = unit_tables(*known.tables)
    found = sample_posterior(tables.X, tables.T, prior, plan, ContextualEffect(np.zeros(tables.T.shape), 0.0, 0.0))
    said = found.diagnostics
    return {
        "error": float(50 * np.abs(found.mean.sum(axis=0) - known.truth).sum() / known.truth.sum()),
        "converged": said.converged,
        "max_rhat": said.max_rhat,
        "min_ess": min(said.min_ess_bulk, said.min_ess_tail),
        "draws": said.draws,
        "seconds": found.seconds,
        "prior": np.exp(np.log(found.prior).mean(axis=(0, 1))).tolist(),
    }


class Kept:
    """Results already found, in a file of lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = {tuple(row.pop("key")): row for row in map(json.loads, lines)}

    def __call__(self, stage: str, name: str, known: Known, prior: Prior, plan: Plan) -> dict[str, Any]:
        """Look a result up, or measure it and note it."""
        key = (stage, name, known.name)
        if key not in self.found:
            self.found[key] = measure(known, prior, plan)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key} | self.found[key]) + "\n")
        return self.found[key]


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def stage(
    kept: Kept, title: str, priors: dict[str, Prior], by_source: dict[str, list[Known]], plan: Plan
) -> dict[str, tuple[float, float]]:
    """Measure the priors on all tables, print them, and give mean error and mean rank of each."""
    for known in (known for tables in by_source.values() for known in tables):
        for name, prior in priors.items():  # table by table, so that a stopped run has compared all priors on some
            kept(title, name, known, prior, plan)
    rows = {
        name: [[kept(title, name, known, prior, plan) for known in tables] for tables in by_source.values()]
        for name, prior in priors.items()
    }
    errors = np.array([[np.mean([cell["error"] for cell in cells]) for cells in row] for row in rows.values()])
    ranks = rankdata(errors, axis=0).mean(axis=1)
    columns = ["shape, rate", *by_source, "mean", "mean rank", "converged", "max r-hat"]
    print(f"\n{title}\n\n{line(columns)}\n{line(['---'] * len(columns))}")
    for (name, row), values, rank in zip(rows.items(), errors, ranks, strict=True):
        flat = [cell for cells in row for cell in cells]
        met = f"{sum(cell['converged'] for cell in flat)} of {len(flat)}"
        worst = f"{max(cell['max_rhat'] for cell in flat):.3f}"
        print(line([name, *(f"{value:.2f}" for value in (*values, values.mean(), rank)), met, worst]), flush=True)
    return {name: (float(row.mean()), float(rank)) for name, row, rank in zip(rows, errors, ranks, strict=True)}


def best(scores: dict[str, tuple[float, float]]) -> str:
    """Give the name of lowest mean error; of those within TIE of it, the one of lowest mean rank."""
    lowest = min(mean for mean, _ in scores.values())
    return min((name for name in scores if scores[name][0] <= lowest + TIE), key=lambda name: scores[name][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    parser.add_argument(
        "--kept", type=Path, default=Path("dirichlet_prior.jsonl"), help="file of results already found"
    )
    parser.add_argument("--short", action="store_true", help="stop after the short chains")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    by_source, kept, priors = sources(args.data / "truth"), Kept(args.kept), candidates()
    screened = stage(kept, "short chains", priors, by_source, SHORT)
    if args.short:
        return
    order = sorted(screened, key=lambda name: screened[name])
    learned = next(name for name in order if isinstance(priors[name], Hyperprior))
    chosen = list(dict.fromkeys([*order[:FINALISTS], DEFAULT, learned]))
    winner = best(stage(kept, "finalists", {name: priors[name] for name in chosen}, by_source, LONG))
    print(f"\nwinner: {winner}{' (on the edge of the grid)' if at_the_edge(priors[winner]) else ''}", flush=True)
    for name in dict.fromkeys([winner, DEFAULT]):
        found = kept("senc", name, senc(args.data / "truth"), priors[name], LONG)
        print(f"senc, {name}: {found}", flush=True)


if __name__ == "__main__":
    main()
