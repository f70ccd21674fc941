"""Twenty-five columns of the 2024 American Community Survey whose truth is known, for ``hidden_labels.py``.

The column military is in none of them: it stays a fresh test. Families of columns (home, income, ..., life cycle, language) are
left out together when constants are learned. The files have no household number; people next to one another in a file with the
same region, household income and tenure are taken for one household (1.8 adults each), everybody in group quarters for their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from us2024_data import LEAST_INCOME, NATURALISED

__all__ = [
    "DEVELOPMENT",
    "DIMENSIONS",
    "FAMILIES",
    "FEATURES",
    "FIFTEEN",
    "FIVE",
    "LABELS",
    "LACKING",
    "NESTED",
    "Hidden",
    "write_people",
]

FEATURES = ("age", "log_income", "female", "eth5", "educ6", "tenure", "naturalised", "disability")
NESTED = ("age8", *FEATURES[1:])
"""The same with age in eight bins, two in each of the four bands that groups are compared by."""
CATEGORICAL = ("female", "eth5", "educ6", "tenure", "naturalised", "disability")
DIMENSIONS = {"female": "sex", "age4": "age", "eth5": "race", "educ5": "education"}
"""Columns that groups are compared by, and what they are called."""
FIVE = ("own", "inc100", "ba", "dis", "unins")


@dataclass(frozen=True)
class Hidden:
    """A label: its family, and the columns that leave the features with it."""

    family: str
    hidden: tuple[str, ...] = ()


LABELS = {
    "own": Hidden("home", ("tenure",)),
    "free": Hidden("home", ("tenure",)),
    "inc100": Hidden("income", ("log_income",)),
    "ba": Hidden("education", ("educ6", "educ5")),
    "dis": Hidden("health", ("disability",)),
    "nat": Hidden("birth", ("naturalised",)),
    "gq": Hidden("quarters", ("tenure", "log_income")),
    "unins": Hidden("health"),
    "emp": Hidden("work"),
    "unemp": Hidden("work"),
    "gov": Hidden("employer"),
    "self": Hidden("employer"),
    "h40": Hidden("work"),
    "pov150": Hidden("income", ("log_income",)),
    "pinc50": Hidden("income", ("log_income",)),
    "manuf": Hidden("industry"),
    "edhealth": Hidden("industry"),
    "profin": Hidden("industry"),
    "hisp": Hidden("origin", ("eth5",)),
    "black": Hidden("origin", ("eth5",)),
    "married": Hidden("life cycle"),
    "never": Hidden("life cycle"),
    "divsep": Hidden("life cycle"),
    "widowed": Hidden("life cycle"),
    "otherlang": Hidden("language"),
}
"""Owner, owner without mortgage, household income of 100,000 and more, bachelor, disability, naturalized, group quarters, uninsured,
employed, unemployed (of the labor force), government and self-employed (of workers), more than 40 hours, below 1.5 times the poverty line,
personal income of 50,000 and more, manufacturing, education and health, professions and finance (of workers), Hispanic, black, married,
never married, divorced or separated, widowed, another language than English at home."""
DEVELOPMENT = (
    *("own", "free", "inc100", "pov150", "pinc50", "ba", "dis", "unins", "emp", "h40", "gov", "self"),
    *("manuf", "edhealth", "profin", "black"),
)
"""The sixteen labels on which the form of the model was chosen; the others were opened later."""
FIFTEEN = ("13", "37", "39", "42", "18", "51", "26", "22", "45", "53", "04", "08", "35", "32", "34")
"""States of the smaller study: GA NC OH PA IN VA MI LA SC WA AZ CO NM NV NJ."""
LACKING = ("06", "48")
"""States whose files lack most labels: CA, TX."""
FAMILIES = tuple(dict.fromkeys(h.family for h in LABELS.values()))

READ = (
    *("region", "weight", "age", "female", "eth5", "educ6", "tenure", "citizenship", "disability", "hh_income"),
    *("hispanic", "group_quarters", "health_ins", "employment", "class_worker", "hours", "poverty_pct", "income"),
    *("industry", "marital", "lang_not_english", "adult_citizen"),
)


def write_people(source: Path, target: Path, states: Sequence[str] | None = None) -> int:
    """Write the adult citizens with features, dimensions, labels and households to one parquet file; give their number.

    Labels are 0, 1 or null where a person has none: workers' labels for people who do not work, all of them but home, income and
    descent in California and Texas, whose files lack them.

    Parameters
    ----------
    source : Path
        Folder of the persons' files, one per state.
    target : Path
    states : sequence of str, optional
        Codes of the states to take; all when not given.
    """
    n = 0
    writer = None
    files = sorted(source.glob("p_*.parquet")) if source.is_dir() else [source]
    for file in [f for f in files if states is None or f.stem.removeprefix("p_") in states]:
        households = 0
        stored = pq.ParquetFile(file)
        for group in range(stored.num_row_groups):
            batch = stored.read_row_group(group, list(READ)).combine_chunks().to_batches()[0]
            raw = _raw(batch)  # a household cut by a row group counts as two
            household = households + np.cumsum(_begins(batch, raw))
            households = int(household[-1]) if len(household) else households
            kept = raw["adult_citizen"] == 1
            made = _columns(batch.filter(pa.array(kept)), {name: v[kept] for name, v in raw.items()}, household[kept])
            writer = writer or pq.ParquetWriter(target, made.schema, compression="zstd")
            writer.write_batch(made)
            n += made.num_rows
    if writer is not None:
        writer.close()
    return n


def _raw(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    return {name: batch[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in READ if name != "region"}


def _begins(batch: pa.RecordBatch, raw: dict[str, np.ndarray]) -> np.ndarray:
    """Tell of every person whether a new household begins with them."""
    region = np.unique(np.array(_regions(batch).to_pylist()), return_inverse=True)[1]
    told = np.stack([region, np.nan_to_num(raw["hh_income"], nan=-9e9), np.nan_to_num(raw["tenure"], nan=-1.0)])
    new = np.append(True, (told[:, 1:] != told[:, :-1]).any(axis=0))[: batch.num_rows]
    return new | np.isnan(raw["tenure"]) | (raw["group_quarters"] == 1)


def _regions(batch: pa.RecordBatch) -> pa.Array:
    return batch["region"].cast(pa.dictionary(pa.int8(), pa.string())).dictionary_decode()


def _columns(batch: pa.RecordBatch, raw: dict[str, np.ndarray], household: np.ndarray) -> pa.RecordBatch:
    region = _regions(batch)
    out: dict[str, pa.Array] = {"region": region}
    # a region lies in one state: region and number name a household in all files
    numbered = pc.cast(pa.array(household), pa.string())
    out["household"] = pc.binary_join_element_wise(region, numbered, "-")
    out["weight"] = pa.array(raw["weight"].astype(np.float32))
    for name in ("age", "female", "eth5", "educ6", "tenure", "disability"):
        out[name] = _whole(raw[name])
    income = np.log(np.maximum(raw["hh_income"], LEAST_INCOME))
    out["log_income"] = pc.if_else(pa.array(np.isnan(income)), None, pa.array(income.astype(np.float32)))
    out["naturalised"] = _whole((raw["citizenship"] == NATURALISED).astype(float))
    out["age4"] = _whole(np.digitize(raw["age"], [30, 45, 65]).astype(float))
    out["age8"] = _whole(np.digitize(raw["age"], [24, 30, 37, 45, 55, 65, 75]).astype(float))
    out["educ5"] = _whole(np.array([0, 1, 2, 2, 3, 4], dtype=float)[raw["educ6"].astype(int) - 1])
    out |= {name: _whole(values) for name, values in _labels(raw).items()}
    return pa.RecordBatch.from_pydict(out)


def _labels(raw: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    def of(yes: np.ndarray, known: np.ndarray) -> np.ndarray:
        return np.where(known, yes.astype(float), np.nan)

    there = {name: ~np.isnan(values) for name, values in raw.items()}
    work, industry, job = raw["class_worker"], raw["industry"], raw["employment"]
    worker = there["class_worker"] & (work <= 8)
    employed = there["industry"] & worker
    return {
        "own": of(raw["tenure"] <= 2, there["tenure"]),
        "free": of(raw["tenure"] == 2, there["tenure"]),
        "inc100": of(raw["hh_income"] >= 1e5, there["hh_income"]),
        "ba": of(raw["educ6"] >= 5, there["educ6"]),
        "dis": of(raw["disability"] == 1, there["disability"]),
        "nat": of(raw["citizenship"] == NATURALISED, there["citizenship"]),
        "gq": of(raw["group_quarters"] == 1, there["group_quarters"]),
        "unins": of(raw["health_ins"] == 2, there["health_ins"]),
        "emp": of(np.isin(job, [1, 2, 4, 5]), there["employment"]),
        "unemp": of(job == 3, there["employment"] & (job != 6)),
        "gov": of(np.isin(work, [3, 4, 5]), worker),
        "self": of(np.isin(work, [6, 7]), worker),
        "h40": of(raw["hours"] > 40, there["hours"]),
        "pov150": of(raw["poverty_pct"] < 150, there["poverty_pct"]),
        "pinc50": of(raw["income"] >= 5e4, there["income"]),
        "manuf": of((industry >= 1070) & (industry <= 3990), employed),
        "edhealth": of((industry >= 7860) & (industry <= 8470), employed),
        "profin": of((industry >= 6870) & (industry <= 7790), employed),
        "hisp": of(raw["eth5"] == 3, there["eth5"]),
        "black": of(raw["eth5"] == 2, there["eth5"]),
        "married": of(raw["marital"] == 1, there["marital"]),
        "never": of(raw["marital"] == 5, there["marital"]),
        "divsep": of(np.isin(raw["marital"], [3, 4]), there["marital"]),
        "widowed": of(raw["marital"] == 2, there["marital"]),
        "otherlang": of(raw["lang_not_english"] == 1, there["lang_not_english"]),
    }


def _whole(values: np.ndarray) -> pa.Array:
    """Give whole numbers as int16, null where there are none."""
    missing = np.isnan(values)
    return pa.array(np.where(missing, 0, values).astype(np.int16), mask=missing)
