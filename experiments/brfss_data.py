"""BRFSS 2016 for ``brfss.py``: complete cases of the four columns and one outcome, and the outcomes that are hidden in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

FloatArray = npt.NDArray[np.float64]

COLUMNS = ("age_group", "bmi_cat", "education", "income")
OUTCOMES = (
    "diabetes",
    "heart_disease",
    "stroke",
    "arthritis",
    "kidney_disease",
    "diff_walk",
    "poor_health",
    "smoker",
)
LEVELS = ("state", "division")
MASKED = ("heart_disease", "arthritis")
SEEN = ("age_group", "bmi_cat")


@dataclass(frozen=True, eq=False)
class Hidden:
    """People with everything known, of which one column will be hidden.

    Attributes
    ----------
    X : pyarrow.Table
        What is known of each person.
    partition : pyarrow.Table
        One column of labels.
    y : (n,)
        The truth.
    """

    X: pa.Table
    partition: pa.Table
    y: FloatArray

    @property
    def means(self) -> pa.Table:
        """The group means, which are all that is published."""
        name = self.partition.column_names[0]
        both = self.partition.append_column("hidden", pa.array(self.y))
        return both.group_by(name).aggregate([("hidden", "mean")]).rename_columns([name, "hidden"])


def read(folder: Path) -> pa.Table:
    """Read the extract."""
    table = pq.read_table(folder / "brfss2016" / "brfss2016_division.parquet")
    whole = {
        n: v.cast(pa.int64()) if pa.types.is_integer(v.type) else v
        for n, v in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(whole | {"state": table["state"].cast(pa.string())})


def hidden(table: pa.Table, outcome: str, level: str) -> Hidden:
    """Take the complete cases of the four columns and the outcome."""
    whole = table.select([level, *COLUMNS, outcome]).drop_null()
    return Hidden(whole.select(list(COLUMNS)), whole.select([level]), whole[outcome].to_numpy().astype(np.float64))


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
