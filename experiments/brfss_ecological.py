"""`EcologicalInference` of ecological inference as a method of ``brfss.py``: cells of people in places, read as each person's chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import COLUMNS, LEVELS, OUTCOMES, Hidden, hidden, lay

from crosslevel.ecological import EcologicalInference
from crosslevel.ecological.confounding import SHIPPED

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
        found = self.model.estimate(by=self.columns, interval="model", n_draws=DRAWS).to_frame("pyarrow")
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


def single_columns(table: pa.Table) -> str:
    """Ask what this model is made for: the rate of each level of one column over the nation, intervals allowing for confounding."""
    rows = []
    for level in LEVELS:
        found = [_one(hidden(table, outcome, level)) for outcome in OUTCOMES]
        error, near, covered, model, width = np.mean(found, axis=0)
        worst = int(np.argmin([f[2] for f in found]))
        rows.append(
            [
                f"by {level}",
                *(f"{100 * error:.1f}", f"{100 * near:.1f}", f"{100 * covered:.1f}"),
                f"{100 * found[worst][2]:.0f} ({OUTCOMES[worst].replace('_', ' ')})",
                *(f"{100 * width:.0f}", f"{100 * model:.1f}"),
            ]
        )
    heading = ["", "error", "neighborhood's", "covered, %", "worst outcome", "mean width", "covered by the model's, %"]
    return "\n".join(
        [
            "## Groups instead of persons: `EcologicalInference`",
            "",
            "The question that model is made for: the rate of each of the 19 levels of single columns over the nation, mean over "
            "the eight outcomes, in points. Who lives where comes from one half of the respondents, totals from the other half, the "
            "truth from everybody; then the other way round. Its intervals allow for the confounding measured on United States "
            f"census columns (tau = {SHIPPED.tau}), nothing of this survey; 95 %. The figures of earlier versions (errors 4.0 and 4.1, "
            "coverage 96 and 98 %) had totals and composition from the same people and are withdrawn. Version 0.1.0 on the same halves: "
            "errors 4.2 and 3.9, coverage 97.0 and 96.4 %, interval score 26.5 and 31.5 points; now the scores are 20.4 and 30.6. Nine "
            "divisions are few, effects of age on illness are large, and the variance of effects is held: there intervals hold too "
            "little.",
            "",
            lay(heading, rows),
        ]
    )


def _one(data: Hidden) -> tuple[float, ...]:
    """Error, the neighborhood's, coverage of intervals that allow for confounding and of the model's, and width, for one outcome."""
    first = np.random.default_rng(0).random(len(data.y)) < 0.5
    parts = []
    for side in (first, ~first):
        here, there = (Hidden(data.X.filter(w), data.partition.filter(w), data.y[w]) for w in (side, ~side))
        model = Cells().fit(here.X, here.partition, there.means).model
        for column in COLUMNS:
            found = model.estimate(by=column, rollup="all", n_draws=200)
            x = data.X[column].to_numpy()
            truth = np.array([data.y[x == v].mean() for v in found[column]])
            low, high = found["conf_low"], found["conf_high"]
            ends = ((low, high), (found["model_low"], found["model_high"]))
            held, plain = ((a <= truth) & (truth <= b) for a, b in ends)
            off = (np.abs(found[name] - truth) for name in ("estimate", "neighborhood"))
            parts.append(np.array([*off, held, plain, high - low], dtype=np.float64))
    return tuple(np.hstack(parts).mean(axis=1))
