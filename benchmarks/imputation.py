"""How long does CUDIA take on many people, and how much memory?

    python benchmarks/imputation.py                     # 400,000 people, four categorical columns, K = 9: a minute
    python benchmarks/imputation.py --stream            # and 10 million people with two real columns, from a stream: minutes

People with the same categories in the same group are one row with a count, so that `map` and `mcem` cost what the distinct rows cost. The
stream is a Parquet file that is read again at every pass; memory is the largest resident set of the process, less what it was before.
Seconds of the wall and of the processor: on a shared machine the second says more. The first fit (compilation) is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read at import
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from crosslevel.errors import CrosslevelWarning  # noqa: E402
from crosslevel.imputation.cudia.estimator import CUDIA  # noqa: E402

GROUPS, CLUSTERS, LEVELS = 51, 9, (6, 4, 4, 5)
BATCH = 250_000


def categorical_people(n: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Draw people of nine clusters with four categorical columns, their groups, and the means of a yes-or-no feature."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(CLUSTERS, 2.0), GROUPS)
    group = rng.integers(0, GROUPS, n)
    z = (rng.random(n)[:, None] > np.cumsum(pi, axis=1)[group]).sum(axis=1).clip(0, CLUSTERS - 1)
    X = {}
    for j, levels in enumerate(LEVELS):
        theta = rng.dirichlet(np.full(levels, 0.7), CLUSTERS)
        X[f"x{j}"] = (rng.random(n)[:, None] > np.cumsum(theta, axis=1)[z]).sum(axis=1).clip(0, levels - 1)
    u = rng.random(n) < rng.uniform(0.02, 0.5, CLUSTERS)[z]
    return X, group, np.bincount(group, u) / np.bincount(group)


def in_memory(n: int) -> None:
    warm = categorical_people(5000)
    X, group, s = categorical_people(n)
    rows = len(np.unique(np.column_stack([*X.values(), group]), axis=0))
    print(f"{n:,} people, {len(X)} categorical columns, {GROUPS} groups, {rows:,} distinct rows, K = {CLUSTERS}")
    for method in ("two_stage", "map", "mcem", "hard"):
        model = CUDIA(CLUSTERS, method=method, allow_unconverged=True)
        model.fit(*warm)
        start, used = time.perf_counter(), time.process_time()
        model.fit(X, group, s)
        wall, cpu = time.perf_counter() - start, time.process_time() - used
        print(
            f"  {method:10} {wall:6.1f} s, processor {cpu:6.1f} s, converged {model.convergence_['converged']}",
            flush=True,
        )


def write_people(path: Path, n: int, clusters: int = 3) -> np.ndarray:
    """Write people with two real columns, a batch at a time, and give the means of a hidden number."""
    rng = np.random.default_rng(0)
    pi = rng.dirichlet(np.full(clusters, 2.0), GROUPS)
    center, eta = 1.5 * rng.normal(size=(clusters, 2)), np.arange(clusters) - 1.0
    total, people = np.zeros(GROUPS), np.zeros(GROUPS)
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("place", pa.int64())])
    with pq.ParquetWriter(path, schema) as file:
        for first in range(0, n, BATCH):
            m = min(BATCH, n - first)
            group = rng.integers(0, GROUPS, m)
            z = (rng.random(m)[:, None] > np.cumsum(pi, axis=1)[group]).sum(axis=1).clip(0, clusters - 1)
            x = center[z] + 0.5 * rng.normal(size=(m, 2))
            total += np.bincount(group, eta[z] + 0.3 * rng.normal(size=m), GROUPS)
            people += np.bincount(group, minlength=GROUPS)
            file.write_batch(pa.record_batch([x[:, 0], x[:, 1], group], schema=schema))
    return total / people


def resident() -> float:
    """Largest resident set so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def streamed(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        for size in (BATCH, n):  # the first compiles, and takes what memory a batch takes
            s = write_people(path, size)
            before, start, used = resident(), time.perf_counter(), time.process_time()
            model = CUDIA(3, method="hard", ridge=1.0).fit_stream(path, "place", {"place": np.arange(GROUPS), "u": s})
            wall, cpu = time.perf_counter() - start, time.process_time() - used
            print(
                f"{size:,} people with two real columns, from a stream: {wall:.1f} s, processor {cpu:.1f} s, "
                f"{resident() - before:+.0f} MiB, eta {np.sort(model.parameters_.H[:, 0]).round(2).tolist()}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=400_000)
    parser.add_argument("--stream", action="store_true", help="also 10 million people from a file")
    parser.add_argument("--stream-people", type=int, default=10_000_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    in_memory(args.people)
    if args.stream:
        streamed(args.stream_people)


if __name__ == "__main__":
    main()
