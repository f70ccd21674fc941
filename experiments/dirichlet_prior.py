"""Which gamma prior of alpha brings the Multinomial-Dirichlet model nearest to tables whose inner cells are known?

Prints one line per prior Gamma(lambda1, rate lambda2): the error, 50 sum|estimate - truth| / sum truth over the district's
cells, on each source, the mean over sources, and the mean rank. Priors and tables were fixed before the first run. The
precincts of south-east North Carolina (senc) are not among them, so that they can test the choice.

Sources weigh alike: North Carolina (3x3 and 5x3), registration in Southern counties (ei_matproii and eco_reg), nativity by
illiteracy (eco_forgnlit30c), and every 25th of New Zealand's districts, all elections in a row.

The chains are short, since the error needs posterior means only. Every error is the mean of two seeds; the last columns tell
how far they are apart (the largest difference on any source), and the largest r-hat of any table.

    OMP_NUM_THREADS=1 python experiments/dirichlet_prior.py --data FOLDER     # a quarter of an hour on two cores
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ecological_data import NZ_YEARS, Known, new_zealand, north_carolina, two_by_two
from scipy.stats import rankdata

from crosslevel.ecological.classical.dirichlet_sampler import Plan, sample_posterior
from crosslevel.ecological.classical.tables import unit_tables

FloatArray = npt.NDArray[np.float64]

PRIORS = ((1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (8, 2), (16, 4), (4, 0.5))
SEEDS = (0, 1)
CHAINS, DRAWS, WARMUP = 2, 300, 200
EVERY_DISTRICT = 25


@dataclass(frozen=True)
class Tried:
    """One prior: its error on each source by seed (n_seeds, n_sources), and the largest r-hat of any run."""

    errors: FloatArray
    max_rhat: float


def sources(folder: Path) -> dict[str, list[Known]]:
    """Give the tables, by what counts as one source."""
    return {
        "North Carolina": [north_carolina(folder, five=False), north_carolina(folder, five=True)],
        "registration": [
            two_by_two(folder / "ei_matproii.csv", ("x", "t", "n", "tb", "tw"), "ei_matproii"),
            two_by_two(folder / "eco_reg.csv", ("X", "Y", "N", "W1", "W2"), "eco_reg"),
        ],
        "illiteracy": [two_by_two(folder / "eco_forgnlit30c.csv", ("X", "Y", None, "W1", "W2"), "eco_forgnlit30c")],
        "New Zealand": [known for year in NZ_YEARS for known in new_zealand(folder, year)][::EVERY_DISTRICT],
    }


def error(known: Known, prior: tuple[float, float], seed: int) -> tuple[float, float]:
    """Give the per cent of people whom the posterior mean puts in a wrong cell, and r-hat."""
    tables = unit_tables(*known.tables)
    found = sample_posterior(tables.X, tables.T, prior, Plan(CHAINS, DRAWS, WARMUP, DRAWS, seed))
    cells = found.mean.sum(axis=0)
    return float(50 * np.abs(cells - known.truth).sum() / known.truth.sum()), found.diagnostics.max_rhat


def try_prior(by_source: dict[str, list[Known]], prior: tuple[float, float]) -> Tried:
    """Run every table with every seed."""
    runs = [[[error(k, prior, seed) for k in tables] for tables in by_source.values()] for seed in SEEDS]
    return Tried(
        errors=np.array([[np.mean([e for e, _ in tables]) for tables in by_seed] for by_seed in runs]),
        max_rhat=max(rhat for by_seed in runs for tables in by_seed for _, rhat in tables),
    )


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    by_source = sources(args.data / "truth")
    tried = []
    for prior in PRIORS:
        tried.append(try_prior(by_source, prior))
        print(f"{prior}: {tried[-1].errors.round(3).tolist()}", flush=True)
    errors = np.array([t.errors.mean(axis=0) for t in tried])
    ranks = rankdata(errors, axis=0).mean(axis=1)
    columns = ["lambda1, lambda2", *by_source, "mean", "mean rank", "between seeds", "r-hat"]
    print(f"\n{line(columns)}\n{line(['---'] * len(columns))}")
    for prior, row, rank, t in zip(PRIORS, errors, ranks, tried, strict=True):
        shown = [f"{e:.2f}" for e in (*row, row.mean(), rank, np.ptp(t.errors, axis=0).max())]
        print(line([f"{prior[0]:g}, {prior[1]:g}", *shown, f"{t.max_rhat:.2f}"]))


if __name__ == "__main__":
    main()
