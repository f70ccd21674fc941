"""Single years behind bins: people of a borough by year of age, and expected counts of thinned states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bench.cases import Case, FloatArray

SMALL, LARGE, STATES = (
    "ages/trafford_lsoa_mid2024_age1.csv",
    "ages/trafford_msoa_mid2024_age1.csv",
    "ages/us_state_age1.csv",
)
WIDTHS = (5, 10, 20)
BORDERS = ("ages/trafford_msoa21.geojson", "ages/trafford_lsoa21.geojson")
AGES = ((0, 5), (5, 16), (16, 20), (20, 30), (30, 45), (45, 65), (65, 80), (80, 91))


def _case(unit: str, years: FloatArray, counts: FloatArray, width: int, quantity: str) -> Case:
    edges = np.append(np.arange(0, len(years), width), len(years))
    scale = 100 / years.mean()
    given = {"edges": edges, "y": np.add.reduceat(counts, edges[:-1]), "quantity": np.array(quantity)}
    return Case(unit, given, years, scale / len(years), scale)


def years_of_age(data: Path, whole: bool) -> Iterator[Case]:
    """Count people of each year 0-89 in small and large areas, in bins of three widths."""
    for file in (LARGE, SMALL):
        rows = pd.read_csv(data / file)
        rows = rows[rows["sex"] == "Persons"]
        years = rows[[str(a) for a in range(90)]].to_numpy(float)
        for name, own in list(zip(rows["area_code"], years, strict=True))[:: 1 if whole else 6]:
            for width in WIDTHS:
                yield _case(name, own, own, width, "count")


def expected_counts(data: Path, whole: bool) -> Iterator[Case]:
    """Draw a few people from the ages of states anew: what is expected of every year is known."""
    rows = pd.read_csv(data / STATES)
    rows = rows[(rows["SEX"] == 0) & (rows["STATE"] > 0) & (rows["AGE"] < 85)].sort_values(["STATE", "AGE"])
    for year in ("2010", "2022"):
        shares = rows[f"POPEST{year}_CIV"].to_numpy(float).reshape(-1, 85)
        for number, state in list(enumerate(rows["STATE"].unique()))[:: 2 if whole else 8]:
            own = shares[number] / shares[number].sum()
            for width in WIDTHS:
                rng = np.random.default_rng([int(year), int(state), width])
                counts = rng.multinomial(8_600, own).astype(float)
                yield _case(f"{state} {year}", 8_600 * own, counts, width, "expected")


def areas(data: Path, whole: bool, known: bool) -> Iterator[Case]:
    """Count age groups in large areas and ask them in small ones, of which everybody's number is known or the borders alone."""
    rows = pd.read_csv(data / SMALL)
    rows = rows[rows["sex"] == "Persons"].sort_values("area_code")
    codes, parent = np.unique(rows["msoa21cd"].to_numpy(str), return_inverse=True)
    years = rows[[str(a) for a in range(91)]].to_numpy(float)
    given = {"source_file": np.array(str(data / BORDERS[0])), "target_file": np.array(str(data / BORDERS[1]))}
    given |= {"source_codes": codes, "target_codes": rows["area_code"].to_numpy(str), "parent": parent}
    if known:
        given |= {"population": years.sum(axis=1)}
    for low, high in AGES:
        counts = years[:, low:high].sum(axis=1)
        scale = 100 / counts.mean()
        own = given | {"y": np.bincount(parent, counts)}
        yield Case(f"{low} to {high - 1}", own, counts, scale / len(counts), scale)
