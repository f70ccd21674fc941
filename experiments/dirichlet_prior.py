"""Which gamma prior of alpha brings the Multinomial-Dirichlet model nearest to tables whose inner cells are known?

Prints one line per prior Gamma(lambda1, rate lambda2): the error, 50 sum|estimate - truth| / sum truth over the district's
cells, on each source, the mean over sources, and the mean rank. Priors and tables were fixed before the first run. The
precincts of south-east North Carolina (senc) are not among them, so that they can test the choice.

Sources weigh alike: North Carolina (3x3 and 5x3), registration in Southern counties (ei_matproii and eco_reg), nativity by
illiteracy (eco_forgnlit30c), and every 25th of New Zealand's districts, all elections in a row.

The chains are short and r-hat reaches 1.6, since the error needs posterior means only: chains four times as long and of
another seed, on six of the tables with three of the priors, moved the error of a table by 0.7 at most.

    OMP_NUM_THREADS=1 python experiments/dirichlet_prior.py --data FOLDER     # some minutes on two idle cores
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from ecological_data import NZ_YEARS, Known, new_zealand, north_carolina, two_by_two
from scipy.stats import rankdata

from crosslevel.ecological.classical.dirichlet_sampler import Plan, sample_posterior
from crosslevel.ecological.classical.tables import unit_tables

PRIORS = ((1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (8, 2), (16, 4), (4, 0.5))
CHAINS, DRAWS, WARMUP, SEED = 2, 300, 200, 0
EVERY_DISTRICT = 25


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


def error(known: Known, prior: tuple[float, float]) -> float:
    """Give the per cent of people whom the posterior mean puts in a wrong cell."""
    tables = unit_tables(*known.tables)
    found = sample_posterior(tables.X, tables.T, prior, Plan(CHAINS, DRAWS, WARMUP, DRAWS, SEED))
    return float(50 * np.abs(found.mean.sum(axis=0) - known.truth).sum() / known.truth.sum())


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
    columns = ["lambda1, lambda2", *by_source, "mean", "mean rank"]
    errors = np.empty((len(PRIORS), len(by_source)))
    for row, prior in zip(errors, PRIORS, strict=True):
        row[:] = [np.mean([error(known, prior) for known in tables]) for tables in by_source.values()]
        print(f"{prior}: {row.round(3).tolist()}", flush=True)
    ranks = rankdata(errors, axis=0).mean(axis=1)
    print(f"\n{line(columns)}\n{line(['---'] * len(columns))}")
    for prior, row, rank in zip(PRIORS, errors, ranks, strict=True):
        print(line([f"{prior[0]:g}, {prior[1]:g}", *(f"{value:.2f}" for value in (*row, row.mean(), rank))]))


if __name__ == "__main__":
    main()
