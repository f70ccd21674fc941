"""BRFSS 2016 for ``brfss.py``: complete cases of the four columns and one outcome, and the outcomes that are hidden in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import crosslevel as cl

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
    def level(self) -> str:
        """The column that names the group."""
        return str(self.partition.column_names[0])

    @property
    def table(self) -> pa.Table:
        """What is known of each person, and the group."""
        return self.X.append_column(self.level, self.partition[self.level])

    @property
    def people(self) -> cl.People:
        """These people."""
        return cl.People(self.table, by=self.level, columns=self.X.column_names)

    @property
    def places(self) -> cl.Places:
        """The group means, which are all that is published."""
        both = self.partition.append_column("hidden", pa.array(self.y))
        means = both.group_by(self.level).aggregate([("hidden", "mean")]).rename_columns([self.level, "hidden"])
        return cl.Places(means, by=self.level, means=["hidden"])


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
