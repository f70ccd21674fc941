"""Which gamma prior of alpha brings the Multinomial-Dirichlet model nearest to tables whose inner cells are known?

All of this was declared before the first run:

* Candidates: Gamma(shape, rate shape / mean) for every shape of 1, 2, 4, 8, 16, 32 and mean of 1, 2, 4, 8, 16, 32, eiPack's (4, 2) among
  them. A prior whose shape and mean are learned is in ``studies/king_ei``.
* Tables, sources weighing alike: North Carolina (3x3 and 5x3), registration in Southern counties (ei_matproii and eco_reg), nativity by
  illiteracy (every fifth county of eco_forgnlit30c), and every 25th of New Zealand's districts, all elections in a row, but for those of
  more than 100 units, which take too long. The precincts of south-east North Carolina (senc) are not among them.
* Error: 50 sum|estimate - truth| / sum truth over the district's cells, in percent of people, at the posterior mean of short chains.
* Criterion: the mean error over sources; the mean rank over sources is shown beside it.

    OMP_NUM_THREADS=1 CROSSLEVEL_DATA=FOLDER python experiments/dirichlet_prior.py   # about 12 minutes on one idle core
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
from ecological_data import NZ_YEARS, Known, new_zealand, north_carolina, two_by_two
from scipy.stats import rankdata

from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.sampler import Plan, sample_posterior

SHAPES = MEANS = (1, 2, 4, 8, 16, 32)
PLAN = Plan(2, 90, 60, 90, 0)
EVERY_DISTRICT, MOST_UNITS, EVERY_COUNTY = 25, 100, 5


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
    data = pv.read_csv(path)
    kept = slice(None, None, EVERY_COUNTY)
    X, T = known.X[kept], known.T[kept]
    yes = np.array([np.sum(X[:, r] * data[w].to_numpy()[kept]) for r, w in enumerate(("W1", "W2"))])
    return Known(known.name, known.groups, known.outcomes, X, T, np.column_stack([yes, X.sum(axis=0) - yes]))


def measure(known: Known, prior: tuple[float, float]) -> float:
    """Give the percent of people whom the posterior mean puts in a wrong cell."""
    tables = known.counts.tables
    found = sample_posterior(tables.X, tables.T, prior, PLAN, ContextualEffect(np.zeros(tables.T.shape), 0.0, 0.0))
    return float(50 * np.abs(found.mean.sum(axis=0) - known.truth).sum() / known.truth.sum())


def main() -> None:
    by_source = sources(Path(os.environ["CROSSLEVEL_DATA"]) / "truth")
    priors = [(float(shape), shape / mean) for shape in SHAPES for mean in MEANS]
    errors = np.array(
        [[np.mean([measure(known, prior) for known in tables]) for tables in by_source.values()] for prior in priors]
    )
    columns = ["shape, rate", *by_source, "mean", "mean rank"]
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for (shape, rate), row, rank in zip(priors, errors, rankdata(errors, axis=0).mean(axis=1), strict=True):
        print(f"| {shape:g}, {rate:g} | {' | '.join(f'{value:.2f}' for value in (*row, row.mean(), rank))} |")


if __name__ == "__main__":
    main()
