"""Adult citizens of the 2024 American Community Survey with the features of ``us2024_people.py`` and households.

The files have no household number; people next to one another in a file with the same region, household income and tenure are taken for one
household (1.8 adults each), everybody in group quarters for their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from us2024_data import LEAST_INCOME, NATURALISED

__all__ = ["CATEGORICAL", "FEATURES", "write_people"]

FEATURES = ("age", "log_income", "female", "eth5", "educ6", "tenure", "naturalised", "disability")
CATEGORICAL = ("female", "eth5", "educ6", "tenure", "naturalised", "disability")
READ = (
    *("region", "weight", "age", "female", "eth5", "educ6", "tenure", "citizenship", "disability", "hh_income"),
    *("group_quarters", "adult_citizen"),
)


def write_people(source: Path, target: Path, states: Sequence[str] | None = None) -> int:
    """Write the adult citizens to one parquet file, of all states or of those whose codes are given; give their number."""
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
    out["educ5"] = _whole(np.array([0, 1, 2, 2, 3, 4], dtype=float)[raw["educ6"].astype(int) - 1])
    return pa.RecordBatch.from_pydict(out)


def _whole(values: np.ndarray) -> pa.Array:
    """Give whole numbers as int16, null where there are none."""
    missing = np.isnan(values)
    return pa.array(np.where(missing, 0, values).astype(np.int16), mask=missing)
