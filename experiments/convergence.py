"""Does every fit converge? Hidden labels in random subsets of states and columns.

A subset is one to eight states (of all but California and Texas, whose files lack most labels) and three to eight of the columns of
``hidden_labels.py``, with a quarter of the households. One label is hidden in each, so that each of 25 is met four times in a hundred; it
is fitted to both halves of the households, and the vote of 2024 to everybody. A fit fails where it raises, or where its scales still
move when its rounds are over.

    OMP_NUM_THREADS=1 python experiments/convergence.py --data FOLDER                            # 100 subsets
    OMP_NUM_THREADS=1 python experiments/convergence.py --data FOLDER --first 0 --subsets 25     # a quarter of them
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hidden_labels_data import CATEGORICAL, LABELS, LACKING, NESTED, write_people
from us2024_data import read_regions

import crosslevel as cl
from crosslevel.ecological.persons import aggregate, hidden_labels
from crosslevel.ecological.persons.labels import comparison, read_labels
from crosslevel.errors import ConvergenceError, CrosslevelWarning, InputError

FEWEST_PLACES = 12
TOGETHER = 1
"""Labels of a subset."""


class Fits:
    """Stand in for the fit of one question, and write down how every fit ended."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.rounds: list[int] = []
        self.restless: list[float] = []

    def __call__(self, *given: Any, **options: Any) -> aggregate.AggregateFit:
        begun = time.perf_counter()
        found = aggregate.fit_aggregate(*given, **options)
        self.seconds.append(time.perf_counter() - begun)
        self.rounds.append(found.search.rounds)
        if found.search.change > aggregate.CLOSE:
            self.restless.append(found.search.change)
        return found


def subset(people: pa.Table, regions: pa.Table, states: Sequence[str], rng: np.random.Generator) -> tuple[Any, ...]:
    """Draw states with enough regions, and columns."""
    while True:
        chosen = rng.choice(states, size=int(rng.integers(1, 9)), replace=False).tolist()
        places = regions.filter(pc.is_in(regions["st"], pa.array(chosen)))
        if len(places) >= FEWEST_PLACES:
            break
    columns = rng.choice(NESTED, size=int(rng.integers(3, len(NESTED) + 1)), replace=False).tolist()
    own = people.filter(pc.is_in(people["st"], pa.array(chosen)))
    return own, places, columns, chosen


def hide_some(own: pa.Table, places: pa.Table, columns: list[str], labels: Sequence[str]) -> Counter:
    """Hide labels in one subset; count how they ended."""
    categorical = [c for c in CATEGORICAL if c in columns]
    people = cl.People(own, "region", "weight", "household", columns, categorical)
    totals = cl.Places(places, by="region", successes="votes_dem_2024", trials="votes", coords=("lon", "lat"))
    model = cl.EcologicalInference(n_bins=8)
    ended: Counter = Counter()
    try:
        model.fit(people, totals, unmatched="drop")
    except ConvergenceError as error:
        return Counter({f"vote: {error}": 1})
    ended["converged"] += 1
    for name in labels:
        try:
            told = [c for c in LABELS[name].hidden if c in columns]
            bins, cuts = comparison(model, people, [c for c in columns if c not in told][:2])
            (label,) = read_labels({name: f"{name} = 1"}, {name: told}, people, model)
            hidden_labels.hide(model, people, bins, cuts, label, (0.0, 1.0))
            ended["converged"] += 2
        except ConvergenceError as error:
            ended[f"{name}: {error}"] += 1
        except InputError as error:  # nothing to learn it from in this subset: refused, not failed
            ended["refused"] += 1
            print(f"refused: {error}", flush=True)
    return ended


def main() -> None:
    """Print how fits ended and how long they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--subsets", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.25, help="of households that are read")
    asked = parser.parse_args()
    regions, fits = read_regions(asked.data), Fits()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        states = [f.stem.removeprefix("p_") for f in sorted((asked.data / "us2024" / "persons").glob("p_*.parquet"))]
        write_people(asked.data / "us2024" / "persons", path, [s for s in states if s not in LACKING])
        people = pq.read_table(path)
    houses = people["household"].combine_chunks().dictionary_encode()
    kept = np.random.default_rng(0).random(len(houses.dictionary)) < asked.share
    people = people.filter(pa.array(kept[houses.indices.to_numpy()]))
    people = people.append_column("st", pc.utf8_slice_codeunits(people["region"], 0, 2))
    named = sorted(set(people["st"].unique().to_pylist()))
    hidden_labels.fit_aggregate = fits  # type: ignore[attr-defined]
    ended: Counter = Counter()
    begun = time.perf_counter()
    warnings.simplefilter("ignore", CrosslevelWarning)
    for number in range(asked.first, asked.first + asked.subsets):
        labels = [list(LABELS)[(TOGETHER * number + k) % len(LABELS)] for k in range(TOGETHER)]
        own, places, columns, chosen = subset(people, regions, named, np.random.default_rng(number))
        own = own.select(["region", "household", "weight", *columns, *labels])
        ended += hide_some(own, places, columns, labels)
        print(
            f"{number}: {len(chosen)} states, {len(places)} regions, {len(columns)} columns, {', '.join(labels)}: "
            f"{dict(ended)}, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
    print(f"{asked.subsets} subsets: {dict(ended)}; scales still moving: {len(fits.restless)}")
    q = np.quantile(fits.seconds, [0.5, 0.95, 1.0])
    print(f"fits of labels: {len(fits.seconds)}, median {q[0]:.2f} s, 95 % within {q[1]:.2f} s, longest {q[2]:.2f} s")
    print(f"rounds: median {np.median(fits.rounds):.0f}, most {max(fits.rounds)} of {aggregate.ROUNDS}")


if __name__ == "__main__":
    main()
