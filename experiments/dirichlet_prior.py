"""Which gamma prior of alpha brings the Multinomial-Dirichlet model nearest to tables whose inner cells are known?

Prints one line per prior Gamma(lambda1, rate lambda2): the error, 50 sum|estimate - truth| / sum truth over the district's
cells, on each source, their mean, and the mean rank over sources. The priors and the tables were fixed before the first run, and
the precincts of south-east North Carolina (senc) are not among them, so that they can test the choice. Sources weigh
alike: a source is North Carolina (3x3, 5x3), registration in Southern counties (ei_matproii, eco_reg), nativity by illiteracy
(the first 300 counties of eco_forgnlit30c), and every 25th New Zealand district of all elections.

The chains are short: the error needs posterior means only. The last columns say how far these can be trusted: the
mean difference between two seeds, and the largest r-hat of any table.

    OMP_NUM_THREADS=1 python experiments/dirichlet_prior.py --data FOLDER
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ecological_data import NZ_YEARS, Known, new_zealand, north_carolina, two_by_two

from crosslevel.ecological.classical.dirichlet_sampler import Plan, sample_posterior
from crosslevel.ecological.classical.tables import unit_tables

FloatArray = npt.NDArray[np.float64]

PRIORS = ((1, 1), (2, 1), (4, 2), (8, 4), (16, 8), (8, 2), (16, 4), (4, 0.5))
SEEDS = (0, 1)
CHAINS, DRAWS, WARMUP = 2, 300, 200
FIRST_COUNTIES, EVERY_DISTRICT = 300, 25


def sources(folder: Path) -> dict[str, list[Known]]:
    """Give the tables, by what counts as one source."""
    literacy = two_by_two(folder / "eco_forgnlit30c.csv", ("X", "Y", None, "W1", "W2"), "eco_forgnlit30c")
    return {
        "North Carolina": [north_carolina(folder, five=False), north_carolina(folder, five=True)],
        "registration": [
            two_by_two(folder / "ei_matproii.csv", ("x", "t", "n", "tb", "tw"), "ei_matproii"),
            two_by_two(folder / "eco_reg.csv", ("X", "Y", "N", "W1", "W2"), "eco_reg"),
        ],
        "illiteracy": [first_counties(folder, literacy)],
        "New Zealand": [k for year in NZ_YEARS for k in new_zealand(folder, year)][::EVERY_DISTRICT],
    }
