"""How long does CUDIA take on many people?

    python benchmarks/imputation.py                     # 400,000 people, four categorical columns, K = 9: a minute

People with the same categories in the same group are one row with a count, so that `map` and `mcem` cost what the distinct rows cost.
Seconds of the wall and of the processor: on a shared machine the second says more. The first fit (compilation) is left out.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read at import

import crosslevel as cl  # noqa: E402
from crosslevel.errors import CrosslevelWarning  # noqa: E402
from crosslevel.imputation.cudia.estimator import CUDIA  # noqa: E402

GROUPS, CLUSTERS, LEVELS = 51, 9, (6, 4, 4, 5)


def categorical_people(n: int, seed: int = 0) -> tuple[cl.People, cl.Places]:
    """Draw people of nine clusters with four categorical columns in groups, and the means of a yes-or-no feature."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(CLUSTERS, 2.0), GROUPS)
    group = rng.integers(0, GROUPS, n)
    z = (rng.random(n)[:, None] > np.cumsum(pi, axis=1)[group]).sum(axis=1).clip(0, CLUSTERS - 1)
    X = {}
    for j, levels in enumerate(LEVELS):
        theta = rng.dirichlet(np.full(levels, 0.7), CLUSTERS)
        X[f"x{j}"] = (rng.random(n)[:, None] > np.cumsum(theta, axis=1)[z]).sum(axis=1).clip(0, levels - 1)
    u = rng.random(n) < rng.uniform(0.02, 0.5, CLUSTERS)[z]
    means = {"group": np.arange(GROUPS), "u": np.bincount(group, u) / np.bincount(group)}
    return cl.People({**X, "group": group}, by="group"), cl.Places(means, by="group", means=["u"])


def in_memory(n: int) -> None:
    warm = categorical_people(5000)
    given = categorical_people(n)
    rows = len(np.unique(np.column_stack(list(given[0].data.values())), axis=0))
    print(f"{n:,} people, {len(LEVELS)} categorical columns, {GROUPS} groups, {rows:,} distinct rows, K = {CLUSTERS}")
    for method in ("two_stage", "map", "mcem", "hard"):
        model = CUDIA(CLUSTERS, method=method, allow_unconverged=True)
        model.fit(*warm)
        start, used = time.perf_counter(), time.process_time()
        model.fit(*given)
        wall, cpu = time.perf_counter() - start, time.process_time() - used
        print(
            f"  {method:10} {wall:6.1f} s, processor {cpu:6.1f} s, converged {model.convergence_['converged']}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=400_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    in_memory(args.people)


if __name__ == "__main__":
    main()
