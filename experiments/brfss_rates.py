"""Rates by age from means of places are shrunk: how much do more places, more people or known national rates repair? Prints tables.

BRFSS 2016, eight answers hidden in turn, four columns of every person known. The people of every state are halved at random: means (and
national rates) are those of one half, people imputed and truth those of the other.

    51 states        the means of states, the default of CrossLevelImputer
    2 % of people    the same means, and a fiftieth of the people: the composition of places is then not exact
    strata           means of the 1,300 sampling strata, which are parts of states
    known by age     the means of states, and the nation's rate in each of six age groups (known_rates)

    CROSSLEVEL_DATA=... python experiments/brfss_rates.py --answers diabetes,stroke
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import COLUMNS, OUTCOMES, lay, read

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning

FloatArray = npt.NDArray[np.float64]
WAYS = ("51 states", "2 % of people", "strata", "known by age")


def means_by(table: pa.Table, by: str, hidden: str) -> pa.Table:
    """Mean of the hidden answer in each group."""
    return table.group_by(by).aggregate([(hidden, "mean")]).select([by, f"{hidden}_mean"]).rename_columns([by, hidden])


def ask(table: pa.Table, hidden: str, seed: int) -> dict[tuple[str, str], tuple[FloatArray, ...]]:
    """Estimate, truth and interval of the rate in every level of every column, by each way."""
    whole = table.select(["state", "stratum", *COLUMNS, hidden]).drop_null()
    rng = np.random.default_rng(seed)
    half = rng.random(whole.num_rows) < 0.5
    size = dict(zip(*np.unique(whole["stratum"].to_numpy(), return_counts=True), strict=True))
    large = np.array([size[s] >= 60 for s in whole["stratum"].to_numpy()])
    own, other = whole.filter(pa.array(half)), whole.filter(pa.array(~half))
    found = {}
    for way in WAYS:
        place = "stratum" if way == "strata" else "state"
        people = own.filter(pa.array(large[half])) if way == "strata" else own
        if way == "2 % of people":
            people = own.filter(pa.array(rng.random(own.num_rows) < 0.02))
        means = cl.Means(hidden, known_rates=means_by(other, "age_group", hidden) if way == "known by age" else None)
        known = cl.People(people, by=place, columns=COLUMNS)
        model = cl.CrossLevelImputer(random_state=seed).fit(
            known, cl.Places(means_by(other, place, hidden), by=place, means=means)
        )
        for column in COLUMNS:
            est = model.estimate(column)
            rates = dict(zip(*(v.to_pylist() for v in means_by(own, column, hidden).columns), strict=True))
            truth = np.array([rates[level] for level in est[column].tolist()])
            ends = (np.asarray(est[n], dtype=float) for n in ("estimate", "conf_low", "conf_high"))
            found[way, column] = (truth, *ends)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", default=",".join(OUTCOMES))
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    table = read(Path(folder))
    every = {h: ask(table, h, i) for i, h in enumerate(OUTCOMES) if h in args.answers.split(",")}
    rows = []
    for hidden, found in every.items():
        for way in WAYS:
            truth, estimate = found[way, "age_group"][:2]
            rows.append([hidden, way, f"{estimate[0]:.3f} to {estimate[-1]:.3f}", f"{truth[0]:.3f} to {truth[-1]:.3f}"])
    print(lay(["answer", "", "lowest to highest age group", "truth"], rows), end="\n\n")
    rows = []
    for way in WAYS:
        row = [way]
        for columns in (("age_group",), COLUMNS[1:]):
            own = [found[way, c] for found in every.values() for c in columns]
            off = np.concatenate([np.abs(e - t) for t, e, *_ in own])
            kept = np.median([e.std() / t.std() for t, e, *_ in own])
            held = np.concatenate([(lo <= t) & (t <= hi) for t, _, lo, hi in own])
            row += [f"{100 * off.mean():.1f}", f"{kept:.2f}", f"{100 * held.mean():.0f}"]
        rows.append(row)
    heading = [
        "",
        "by age: error, points",
        "spread kept",
        "held, %",
        "by other columns: error, points",
        "spread kept",
        "held, %",
    ]
    print(lay(heading, rows))


if __name__ == "__main__":
    main()
