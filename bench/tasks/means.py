"""A hidden answer of people, whose means by state are all that is published: eight answers of a health survey.

The respondents of every place are halved at random: people and truth are those of one half, the means those of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bench.cases import Case

FILE = "brfss2016/brfss2016_division.parquet"
COLUMNS = ("age_group", "bmi_cat", "education", "income")
OUTCOMES = ("diabetes", "heart_disease", "stroke", "arthritis", "kidney_disease", "diff_walk", "poor_health", "smoker")
FEWEST = 100
"""People of a cell of all four columns that is asked."""


def health(data: Path, whole: bool) -> Iterator[Case]:
    """Hide the answers one after another, by state and by division."""
    table = pd.read_parquet(data / FILE)
    for number, outcome in enumerate(OUTCOMES):
        for level in ("state", "division"):
            rows = table[[level, *COLUMNS, outcome]].dropna()
            rng = np.random.default_rng([16, number])
            half = rng.permutation(len(rows)) < len(rows) // 2
            own, other = rows[half], rows[~half]
            if not whole:
                own = own.iloc[::4]
            means = other.groupby(level, observed=True)[outcome].mean()
            cells = own.groupby(list(COLUMNS), observed=True)[outcome].agg(["mean", "size"])
            cells = cells[cells["size"] >= FEWEST]
            asked = [[k, v] for k, c in enumerate(COLUMNS) for v in sorted(own[c].unique())]
            levels = [own.loc[own[COLUMNS[k]] == v, outcome].mean() for k, v in asked]
            yield Case(
                outcome,
                {
                    "X": own[list(COLUMNS)].to_numpy(float),
                    "place": np.searchsorted(means.index, own[level].astype(means.index.dtype)),
                    "mean": means.to_numpy(float),
                    "asked": np.array(asked),
                    "cells": np.array(cells.index.tolist(), dtype=float),
                },
                np.array([*levels, *cells["mean"]], dtype=float),
                100 / (len(levels) + len(cells)),
            )
