"""All adult citizens of the 2024 American Community Survey, to 998 regions x 18 subgroups, in one pass.

Reads CROSSLEVEL_DATA/us2024/persons (2.6 million adult citizens). The state, PUMA and region columns name the place and
are no features; California and Texas lack the extras of the person file, which are therefore left out.

    CROSSLEVEL_DATA=... python experiments/us2024_embedding.py
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

from crosslevel import MeanEmbedding, People

CODES = ["female", "race", "hispanic", "citizenship", "schl", "disability", "tenure", "group_quarters"]
NUMBERS = ["age", "hh_income"]
SUBGROUPS = {
    "men": "female = 0",
    "women": "female = 1",
    "18-29": "age < 30",
    "30-44": "age >= 30 and age < 45",
    "45-64": "age >= 45 and age < 65",
    "65+": "age >= 65",
    **{name: f"eth5 = {k}" for k, name in enumerate(("white", "black", "hispanic", "asian", "other"), start=1)},
    **{
        name: f"educ6 = {k}"
        for k, name in enumerate(
            ("no diploma", "high school", "some college", "associate", "bachelor", "graduate"), start=1
        )
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--map", default="sorf")
    options = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    roles = {"by": "region", "columns": [*CODES, *NUMBERS], "weight": "weight", "categorical": CODES}
    people = People(Path(folder) / "us2024" / "persons", **roles, where="adult_citizen = 1")
    start = time.perf_counter()
    embedding = MeanEmbedding(options.features, options.map).fit(people)
    fitted = time.perf_counter()
    alone = embedding.transform(people)
    once = time.perf_counter()
    found = embedding.transform(people, subgroups=SUBGROUPS)
    done = time.perf_counter()
    everybody = found.select("subgroup = 'all'")
    rows = int(everybody.n_rows.sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rows:,} adult citizens, {embedding.n_inputs_} encoded columns, {options.features:,} features ({options.map})"
    )
    print(f"fit                                     {fitted - start:7.1f} s")
    print(f"{len(alone):6,} bags: regions                    {once - fitted:7.1f} s")
    print(
        f"{len(found):6,} bags: regions x 18 subgroups      {done - once:7.1f} s   ({(done - once) / (once - fitted):.2f} times)"
    )
    print(f"peak memory {peak:,.0f} MB, of which the answer {found.values.nbytes / 2**20:,.0f} MB")
    print(
        f"weight of everybody {everybody.weight.sum() / 1e6:.1f} M; of men and women {_weight(found, ('men', 'women')):.1f} M"
    )


def _weight(found: object, names: tuple[str, ...]) -> float:
    return sum(found.select(f"subgroup = '{n}'").weight.sum() for n in names) / 1e6  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
