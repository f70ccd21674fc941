"""The individual link of ecological inference as a method of ``brfss.py``: cells of people in places, read as each person's chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import Hidden

from crosslevel.ecological.estimator import EcologicalInference

FloatArray = npt.NDArray[np.float64]

NAME = "EcologicalInference"
DRAWS = 50
"""Only the means of cells are asked for."""


class Cells:
    """Imputes the rate of a person's cell in the person's group; the means become counts of the group's people."""

    def fit(self, X: pa.Table, partition: pa.Table, means: pa.Table) -> Cells:
        place = partition.column_names[0]
        people = partition.append_column("one", pa.array(np.ones(len(partition))))
        for name in X.column_names:
            people = people.append_column(name, X[name])
        counts = people.group_by(place).aggregate([("one", "sum")])
        both = means.join(counts, keys=place)
        n = both["one_sum"].to_numpy()
        places = pa.table({place: both[place], "yes": both["hidden"].to_numpy() * n, "n": n})
        self.columns, self.place, self.people = list(X.column_names), place, people.drop_columns(["one"])
        self.model = EcologicalInference(categorical=self.columns, spatial=None, sampling_error=False, random_state=0)
        self.model.fit(self.people, places, by=place, successes="yes", trials="n", columns=self.columns)
        return self

    def transform(self, X: pa.Table, partition: pa.Table) -> FloatArray:
        found = self.model.estimate(by=self.columns, interval="model", draws=DRAWS).to_frame("pyarrow")
        keys = [self.place, *self.columns]
        rates = found.select([*keys, "estimate"])
        asked = partition.append_column("row", pa.array(np.arange(len(partition))))
        for name in X.column_names:
            asked = asked.append_column(name, X[name])
        for name in keys:
            asked = asked.set_column(asked.column_names.index(name), name, asked[name].cast(rates[name].type))
        joined = asked.join(rates, keys=keys).sort_by("row")
        return np.asarray(joined["estimate"].to_numpy(), dtype=np.float64)[:, None]


def cells(data: Hidden | None) -> Cells:
    """Make one; it needs no people to be made."""
    return Cells()
