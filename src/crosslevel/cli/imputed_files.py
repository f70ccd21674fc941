"""What ``crosslevel impute`` writes: people with imputed columns, completed data sets, tables, the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crosslevel.cli.console import file_stem, make_folder, write_estimates
from crosslevel.data.atomic import whole_file
from crosslevel.data.batches import Batches
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.results import Estimates, save
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["draws_name", "imputed_name", "write_answer", "write_draws", "write_people"]

PEOPLE, DRAWS, MODEL = "imputed.parquet", "draws.parquet", "model.crosslevel"


def imputed_name(feature: str) -> str:
    """Name the column of expected values: people may have a column of the feature's own name.

    Examples
    --------
    >>> imputed_name("diabetes")
    'diabetes_imputed'
    """
    return f"{feature}_imputed"


def draws_name(feature: str, number: int, m: int) -> str:
    """Name the column of one completed data set.

    Examples
    --------
    >>> draws_name("diabetes", 0, 20)
    'diabetes_01'
    """
    return f"{feature}_{number + 1:0{len(str(m))}d}"


def write_answer(
    out: Path,
    model: CrossLevelImputer | CUDIA,
    stream: Batches,
    given: tuple[pa.Table, pa.Table, Any],
    answers: dict[str, Estimates],
    m: int,
    level: float,
    console: Console,
) -> dict[str, str]:
    """Write everything into a folder; give the name and path of each file.

    Parameters
    ----------
    out : path
    model : CrossLevelImputer or CUDIA
    stream : Batches
        The people with all their columns, gone over again.
    given : X, partition and weight of the same people
    answers : mapping of str to Estimates
    m : int
        Number of completed data sets.
    level : float
    console : Console
    """
    make_folder(out)
    X, partition, weight = given
    values = model.transform(X, partition, sample_weight=weight)
    write_people(out / PEOPLE, stream, values, model.hidden_names_)
    files = {"imputed": str(out / PEOPLE)}
    if m > 0 and _drawable(model):
        console.print(f"Drawing {m:,} completed data sets", markup=False)
        write_draws(out / DRAWS, model.sample(X, partition, m, weight), model.hidden_names_)
        files["draws"] = str(out / DRAWS)
    elif m > 0:
        console.print(
            "No completed data sets: how far a hidden number varies among people is not known; name it with --number "
            "feature=sd, or pass --se.",
            markup=False,
        )
    for name, found in (answers | _reports(model, level)).items():
        files |= write_estimates(found, out, file_stem(name))
    save(model, out / MODEL)
    return files | {"model": str(out / MODEL)}


def write_people(path: Path, stream: Batches, values: FloatArray, features: tuple[str, ...]) -> None:
    """Go over the people once more and write them, all their columns, with the expected hidden values behind."""
    fields = [pa.field(imputed_name(n), pa.float64()) for n in features]
    schema = pa.schema([*stream.schema, *fields])
    done = 0
    with whole_file(path) as beside, pq.ParquetWriter(beside, schema) as writer:
        for batch in stream:
            own = values[done : done + batch.num_rows]
            done += batch.num_rows
            writer.write_batch(pa.record_batch([*batch.columns, *(pa.array(v) for v in own.T)], schema=schema))


def write_draws(path: Path, draws: FloatArray, features: tuple[str, ...]) -> None:
    """Write completed data sets, a column each, rows as those of the people; yes and no as small whole numbers."""
    m = len(draws)
    columns = {}
    for j, name in enumerate(features):
        whole = bool(np.isin(draws[:, :, j], (0.0, 1.0)).all())
        for i in range(m):
            values = draws[i, :, j]
            columns[draws_name(name, i, m)] = pa.array(values.astype(np.int8) if whole else values)
    with whole_file(path) as beside:
        pq.write_table(pa.table(columns), beside)


def _reports(model: CrossLevelImputer | CUDIA, level: float) -> dict[str, Estimates]:
    """Say what the means taught, and how well each group's mean follows from the others."""
    if isinstance(model, CrossLevelImputer):
        return {"slopes": model.slopes(level), "groups": model.check_totals(level)}
    chosen = {} if model.selection_ is None else {"selection": model.selection_}
    return {"clusters": model.clusters(level), **chosen}


def _drawable(model: CrossLevelImputer | CUDIA) -> bool:
    return not isinstance(model, CrossLevelImputer) or all(h.binary or np.isfinite(h.unit) for h in model.hidden_)
