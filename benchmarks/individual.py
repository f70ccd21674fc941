"""How long does the individual link take on a nation's survey, and how much memory?

    python benchmarks/individual.py                                  # 2.6 million simulated people in 998 regions
    python benchmarks/individual.py --people 200000 --regions 200

Prints the seconds of each step (people read and collapsed to kinds; fit; twenty subgroups in every region with 200 draws), the largest
resident set, and beside them the seconds of scipy.linalg.eigh at N = 2,000, by which machines can be compared.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from scipy import linalg

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning

DRAWS = 200
AGES = ((18, 30), (30, 45), (45, 65), (65, 120))


def eigh_seconds() -> float:
    """Time an eigendecomposition, best of three."""
    A = np.random.default_rng(0).normal(size=(2000, 2000))
    A, best = A @ A.T, np.inf
    for _ in range(3):
        begun = time.perf_counter()
        linalg.eigh(A)
        best = min(best, time.perf_counter() - begun)
    return float(best)


def subgroups() -> dict[str, str]:
    """Name twenty: sex, four ages, and sex within seven bands of age."""
    out = {"men": "sex = 1", "women": "sex = 2"}
    out |= {f"{a} to {b}": f"age >= {a} and age < {b}" for a, b in AGES}
    edges = (18, 25, 35, 45, 55, 65, 75, 120)
    for sex in (1, 2):
        for a, b in itertools.pairwise(edges):
            out[f"sex {sex}, {a} to {b}"] = f"sex == {sex} and age >= {a} and age < {b}"
    return out


def write(folder: str, regions: int, people: int) -> None:
    """Write a simulated nation in a process of its own, so that its memory is not counted."""
    code = """import sys
import pyarrow.parquet as pq
from crosslevel.data.simulate import nation
folder, regions, people = sys.argv[1:]
world = nation(int(regions), int(people))
pq.write_table(world.people, f"{folder}/people.parquet", row_group_size=65536)
pq.write_table(world.places, f"{folder}/places.parquet")
"""
    subprocess.run([sys.executable, "-c", code, folder, str(regions), str(people)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=2_600_000)
    parser.add_argument("--regions", type=int, default=998)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    print(f"eigh, N = 2,000: {eigh_seconds():.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        write(folder, asked.regions, asked.people // asked.regions)
        model = cl.EcologicalInference()
        begun = time.perf_counter()
        people = cl.People(f"{folder}/people.parquet", by="region", weight="weight", categorical=["sex"])
        model.fit(
            people,
            cl.Places(f"{folder}/places.parquet", by="region", successes="dem", trials="votes", coords=("lon", "lat")),
        )
        fitted = time.perf_counter()
        found = model.estimate(subgroups=subgroups(), n_draws=DRAWS)
        done = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in model.seconds_.items())
    print(f"{asked.people:,} people, {asked.regions} regions: {parts}; all of fit {fitted - begun:.1f} s")
    print(
        f"{len(found):,} answers with {DRAWS} draws: {done - fitted:.1f} s; together {done - begun:.1f} s, {memory:.2f} GiB at most"
    )


if __name__ == "__main__":
    main()
