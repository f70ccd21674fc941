"""Groups of people known only as probabilities, summed to units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.typing import FloatArray


@dataclass(frozen=True)
class MembershipCounts:
    """Expected people of each group in each unit, and the covariance of the true counts around them; goes where groups go in ``Counts``.

    Attributes
    ----------
    counts : pyarrow.Table
        A column for each group.
    keys : tuple
        Names of the units, in the order of the rows.
    by : str
        What these names are called.
    frame : kind of dataframe to answer with.
    covariance : (2, n_units, n_groups, n_groups) or None
        Of the counts around the sums, and of the sums around the counts; None where everybody's group is known.
    note : str
        What every answer from these sums says.
    """

    counts: pa.Table
    keys: tuple[object, ...]
    by: str
    frame: frames.FrameKind
    covariance: FloatArray | None = None
    note: str = ""

    def to_frame(self) -> Any:
        """Give the names of the units and the counts as a dataframe of the caller's kind."""
        table = self.counts.add_column(0, self.by, pa.array(list(self.keys)))
        return frames.from_arrow(table, self.frame)

    @property
    def values(self) -> FloatArray:
        """(n_units, n_groups) counts."""
        return np.column_stack([self.counts[name].to_numpy() for name in self.counts.column_names])
