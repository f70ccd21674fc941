"""How fast are millions of people turned into one vector per region, and in how much memory?

Simulated people as wide as a census (200 coded and 23 real columns, 3,251 encoded, 340 regions) become 4,096 features
per region: by ``MeanEmbedding``, by scikit-learn (OneHotEncoder, RBFSampler, weighted group means, in batches) and by a
plain numpy FastFood. Every figure is taken in a process of its own, reading from parquet included; times are medians of
three passes after one that is not counted. The peers are slow and get fewer rows of the same file.

    python benchmarks/embedding.py                # about two minutes
    python benchmarks/embedding.py --full         # streams 10.8 million people; needs 1.3 GB of disk
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))  # the simulated census

N_FEATURES = 4096
FULL = 10_787_907  # as many people as Flaxman, Wang and Smola (KDD 2015) embedded
SMALLER = 4  # the memory is taken again at a quarter of the rows
REPEATS = 3


def main() -> None:
    args = arguments()
    if args.one:
        print(json.dumps(MEASURES[args.one](args)))
        return
    load = os.getloadavg()[0]
    print(f"{cores()} cores, load {load:.1f}; {platform_name()}")
    if load > 0.5:
        print("Other programs are running: compare processor time (CPU), and read times of the clock as upper bounds.")
    if args.full:
        run_full(args)
    else:
        run_comparison(args)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=800_000, help="people for MeanEmbedding (default 800,000)")
    parser.add_argument("--peer-rows", type=int, default=12_000, help="people for the peers (default 12,000)")
    parser.add_argument("--map", default="sorf", choices=["sorf", "fastfood"], help="feature map (default sorf)")
    parser.add_argument("--full", action="store_true", help=f"stream {FULL:,} people (or --rows) from parquet")
    parser.add_argument("--folder", type=Path, help="where the people of --full are written and kept")
    parser.add_argument("--one", choices=sorted(MEASURES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.full and "--rows" not in " ".join(sys.argv):
        args.rows = FULL
    return args


def run_comparison(args: argparse.Namespace) -> None:
    """Print rows per second, memory and the ratios to the peers."""
    with tempfile.TemporaryDirectory() as name:
        many, fewer, few = (Path(name) / kind for kind in ("many", "fewer", "few"))
        for folder, rows in ((many, args.rows), (fewer, args.rows // SMALLER), (few, args.peer_rows)):
            write(folder, rows)
        print(f"{args.rows:,} people; the peers {args.peer_rows:,}\n")
        ours = apart("ours", many, args)
        rows = [("MeanEmbedding, " + args.map, ours)]
        rows += [(TITLES[kind], apart(kind, few, args)) for kind in ("sklearn_sparse", "sklearn_dense", "numpy")]
        print(f"{'':42} {'rows/s':>8} {'us/row':>7} {'CPU us':>7} {'peak RSS':>9} {'ratio':>6} {'CPU ratio':>9}")
        for title, found in rows:
            print(
                f"{title:42} {1e6 / found['us']:8,.0f} {found['us']:7.1f} {found['cpu']:7.1f} {found['rss']:6.0f} MB "
                f"{found['us'] / ours['us']:5.1f}x {found['cpu'] / ours['cpu']:8.1f}x"
            )
        sklearn = min(found["us"] for title, found in rows if title.startswith("scikit"))
        small = apart("ours", fewer, args)
        groups = apart("subgroups", many, args)
    print(f"\nagainst the faster scikit-learn   {sklearn / ours['us']:.0f}x (target 30x)")
    print(
        f"microseconds per row and core     {ours['us'] * cores():.1f} by the clock, {ours['cpu']:.1f} of the processor (target 25)"
    )
    print(
        f"peak RSS                          {small['rss']:.0f} MB at {args.rows // SMALLER:,} people, {ours['rss']:.0f} MB at "
        f"{args.rows:,} (target 800)"
    )
    print(f"learning the encoding (fit)       {ours['fit']:.2f} us/row, once, reading included")
    print(
        f"{groups['queries']:.0f} subgroups in the same pass     {groups['ratio']:.2f} times one bag per region by the clock, "
        f"{groups['cpu_ratio']:.2f} of the processor (target 1.5)"
    )
    eigh = apart("eigh", Path(), args)["seconds"]
    print(f"scipy.linalg.eigh at N = 2,000    {eigh:.2f} s: as long as embedding {eigh / ours['us'] * 1e6:,.0f} people")


def run_full(args: argparse.Namespace) -> None:
    """Stream everybody from parquet and print the wall times."""
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name) / "people"
        if not (folder.is_dir() and any(folder.iterdir())):
            start = time.perf_counter()
            write(folder, args.rows)
            print(
                f"written      {args.rows:,} people, {size(folder) / 1e9:.2f} GB, {time.perf_counter() - start:.0f} s"
            )
        found = apart("full", folder, args)
    rows = found["rows"]
    for what in ("fit", "transform"):
        seconds, cpu = found[what], found[f"{what}_cpu"]
        print(
            f"{what:12} {rows:,} people, {seconds:.1f} s wall, reading included: {rows / seconds:,.0f} rows/s, "
            f"{seconds / rows * 1e6 * cores():.1f} us per row and core ({cpu / seconds:.1f} cores busy)"
        )
    print(f"together     {found['fit'] + found['transform']:.1f} s (aim: under 180), peak RSS {found['rss']:.0f} MB")
    print(f"answer       {found['bags']} bags x {N_FEATURES:,} features, map {args.map}")


# ---- one measurement, in a process of its own


def measure_ours(args: argparse.Namespace) -> dict[str, float]:
    model, people, fit, _ = fitted(args)
    wall, cpu = timed(lambda: model.transform(people))
    return {
        "us": wall / model.n_rows_ * 1e6,
        "cpu": cpu / model.n_rows_ * 1e6,
        "fit": fit / model.n_rows_ * 1e6,
        "rss": rss(),
    }


def measure_subgroups(args: argparse.Namespace) -> dict[str, float]:
    """Time a pass with twenty more bags in every region: five amounts, each cut into quarters."""
    from crosslevel.data.columns import Number

    model, people, _, _ = fitted(args)
    queries = {}
    for column in [c for c in model.encoder_.columns if isinstance(c, Number)][:5]:
        cuts = [column.mean + z * column.scale for z in (-0.67, 0.0, 0.67)]
        parts = ["{n} < {0}", "{n} >= {0} and {n} < {1}", "{n} >= {1} and {n} < {2}", "{n} >= {2}"]
        queries |= {f"{column.name} {k}": part.format(*cuts, n=column.name) for k, part in enumerate(parts, start=1)}
    alone, alone_cpu = timed(lambda: model.transform(people))
    wall, cpu = timed(lambda: model.transform(people, subgroups=queries))
    return {"ratio": wall / alone, "cpu_ratio": cpu / alone_cpu, "queries": len(queries)}


def measure_full(args: argparse.Namespace) -> dict[str, float]:
    model, people, fit, fit_cpu = fitted(args)
    start, cpu = time.perf_counter(), time.process_time()
    answer = model.transform(people)
    return {
        "rows": int(answer.n_rows.sum()),
        "bags": len(answer.values),
        "fit": fit,
        "fit_cpu": fit_cpu,
        "transform": time.perf_counter() - start,
        "transform_cpu": time.process_time() - cpu,
        "rss": rss(),
    }


def fitted(args: argparse.Namespace) -> tuple[Any, Any, float, float]:
    """Fit, after a small fit and transform that compile (or load) the kernels."""
    from census import census

    from crosslevel import MeanEmbedding, People

    small = census(2_000)
    roles = {"by": "region", "weight": "weight", "categorical": small.categorical}
    MeanEmbedding(N_FEATURES, args.map).fit_transform(People(small.table(), **roles))
    start, cpu = time.perf_counter(), time.process_time()
    people = People(args.folder, **roles)
    model = MeanEmbedding(N_FEATURES, args.map).fit(people)
    return model, people, time.perf_counter() - start, time.process_time() - cpu


def measure_sklearn(args: argparse.Namespace, sparse: bool) -> dict[str, float]:
    """Time scikit-learn's own way: one-hot, RBFSampler, then group means by a sparse product, 1,000 rows at a time."""
    from scipy import sparse as sp
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import OneHotEncoder

    everybody = [np.concatenate(parts) for parts in zip(*people(args.folder, 65_536), strict=True)]
    encoder = OneHotEncoder(sparse_output=sparse, dtype=np.float32).fit(everybody[0])
    center, scale = everybody[1].mean(axis=0), everybody[1].std(axis=0)
    n_encoded = sum(len(c) for c in encoder.categories_) + everybody[1].shape[1]
    sampler = RBFSampler(gamma=1 / (2 * 18.0**2), n_components=N_FEATURES, random_state=0)
    sampler.fit(np.zeros((1, n_encoded), dtype=np.float32))
    n_bags = int(everybody[2].max()) + 1
    join = sp.hstack if sparse else np.hstack

    def embed() -> Any:
        sums = np.zeros((n_bags, N_FEATURES))
        for codes, reals, region, weight in people(args.folder, 1_000):
            scaled = ((reals - center) / scale).astype(np.float32)
            X = join([encoder.transform(codes), sp.csr_matrix(scaled) if sparse else scaled])
            phi = sampler.transform(sp.csr_matrix(X) if sparse else X)
            sums += sp.csr_matrix((weight, (region, np.arange(len(weight)))), shape=(n_bags, len(weight))) @ phi
        return sums

    return peer(embed, len(everybody[2]))


def measure_numpy(args: argparse.Namespace) -> dict[str, float]:
    """Time FastFood as the paper writes it, in numpy: S H G P H B x on blocks of rows in single precision."""
    from scipy import sparse as sp

    everybody = [np.concatenate(parts) for parts in zip(*people(args.folder, 65_536), strict=True)]
    levels = everybody[0].max(axis=0) + 1
    offsets = np.concatenate([[0], np.cumsum(levels)[:-1]])
    center, scale = everybody[1].mean(axis=0), everybody[1].std(axis=0)
    D, m, n_bags = 4096, N_FEATURES // 2, int(everybody[2].max()) + 1
    rng = np.random.default_rng(0)
    B, P = rng.choice(np.array([-1, 1], dtype=np.float32), D), rng.permutation(D)
    G = rng.standard_normal(D).astype(np.float32)
    S = (np.sqrt(rng.chisquare(D, D)) / np.linalg.norm(G) / (18.0 * np.sqrt(D))).astype(np.float32)

    def embed() -> Any:
        sums = np.zeros((n_bags, N_FEATURES))
        for codes, reals, region, weight in people(args.folder, 256):
            n = len(weight)
            X = np.zeros((n, D), dtype=np.float32)
            X[np.arange(n)[:, None], codes + offsets] = 1
            X[:, levels.sum() : levels.sum() + reals.shape[1]] = (reals - center) / scale
            Z = (hadamard(hadamard(X * B)[:, P] * G) * S)[:, :m]
            phi = np.hstack([np.cos(Z), np.sin(Z)])
            sums += sp.csr_matrix((weight, (region, np.arange(n))), shape=(n_bags, n)) @ phi
        return sums

    return peer(embed, len(everybody[2]))


def hadamard(X: Any) -> Any:
    """Transform each row: log2 D passes of sums and differences over the whole block."""
    n, D = X.shape
    h = 1
    while h < D:
        X = X.reshape(n, D // (2 * h), 2, h)
        X = np.stack([X[:, :, 0] + X[:, :, 1], X[:, :, 0] - X[:, :, 1]], axis=2)
        h *= 2
    return X.reshape(n, D)


def measure_eigh(args: argparse.Namespace) -> dict[str, float]:
    from scipy.linalg import eigh

    A = np.random.default_rng(0).standard_normal((2000, 2000))
    return {"seconds": timed(lambda: eigh(A @ A.T))[0]}


def people(folder: Path, rows: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Read codes (counted from 1, 0 is missing), amounts (missing is 0), regions and weights, some rows at a time."""
    import pyarrow.parquet as pq

    for path in sorted(folder.iterdir()):
        for batch in pq.ParquetFile(path).iter_batches(rows):
            names = batch.schema.names
            codes = np.column_stack([batch[n].fill_null(-1).to_numpy() for n in names if n.startswith("c")]) + 1
            reals = np.column_stack([batch[n].fill_null(0).to_numpy() for n in names if n.startswith("x")])
            yield codes, reals, batch["region"].to_numpy(), batch["weight"].to_numpy()


def peer(embed: Callable[[], Any], rows: int) -> dict[str, float]:
    wall, cpu = timed(embed)
    return {"us": wall / rows * 1e6, "cpu": cpu / rows * 1e6, "rss": rss()}


def timed(job: Callable[[], object]) -> tuple[float, float]:
    """Give the median wall and processor seconds of three runs, after one that is not counted."""
    job()
    walls, cpus = [], []
    for _ in range(REPEATS):
        start, cpu = time.perf_counter(), time.process_time()
        job()
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


MEASURES: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "ours": measure_ours,
    "full": measure_full,
    "subgroups": measure_subgroups,
    "sklearn_sparse": lambda args: measure_sklearn(args, sparse=True),
    "sklearn_dense": lambda args: measure_sklearn(args, sparse=False),
    "numpy": measure_numpy,
    "eigh": measure_eigh,
}
TITLES = {
    "sklearn_sparse": "scikit-learn, one-hot sparse + RBFSampler",
    "sklearn_dense": "scikit-learn, one-hot dense + RBFSampler",
    "numpy": "numpy FastFood",
}


def apart(kind: str, folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """Measure in a new process, so that its peak memory is its own."""
    command = [sys.executable, __file__, "--one", kind, "--folder", str(folder), "--map", args.map]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def write(folder: Path, rows: int) -> None:
    """Write simulated people in a process of its own."""
    code = "import sys; from census_files import write_census as w; w(sys.argv[1], int(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", code, str(folder.resolve()), str(rows)], check=True, cwd=EXPERIMENTS)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def rss() -> float:
    """Peak memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def platform_name() -> str:
    import platform

    return f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}"


if __name__ == "__main__":
    main()
