"""How long does a Gaussian process behind bins take, beside GPy's integral kernel?

    python benchmarks/binned.py                 # n = 100, 500: a minute on two cores
    python benchmarks/binned.py --sizes 100 500 1000   # GPy alone takes two minutes at 1,000
    python benchmarks/binned.py --large         # n = 2,000 exact, n = 100,000 by features, 167 polygons; without GPy

Contiguous bins of equal width, the squared exponential, one objective (log marginal likelihood) with its gradient in variance,
lengthscale and noise. Both programs run one after the other, with the same hyperparameters; the first call of
each is left out (compilation), and the numbers they give are compared. GPy's gradient check is part of its own tests; its objective
includes a jitter of 1e-8. GPy wants an older numpy than most environments have: name the Python of an environment of its own
(`pip install "numpy<2" GPy matplotlib`) in CROSSLEVEL_GPY_PYTHON and it runs there. Without GPy our own seconds stand alone.

crosslevel   shared edges, exact integrals to 1e-10 relative, one Cholesky factorization
GPy          GPy.kern.Integral_Limits, pure Python loops over pairs of bins
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402 - the number of threads is read at import

VARIANCE, LENGTH, NOISE = 2.0, 10.0, 0.01


def make_world(n: int, noise: float = NOISE) -> tuple[np.ndarray, np.ndarray]:
    """Give edges of n bins on [0, 100] and noisy totals of a smooth curve."""
    edges = np.linspace(0.0, 100.0, n + 1)
    total = 2.0 * np.diff(edges) - 5.0 * np.diff(np.cos(edges / 5.0))
    return edges, total + np.random.default_rng(0).normal(0.0, np.sqrt(noise), n)


def ours(n: int, repeats: int = 5) -> dict[str, float]:
    from crosslevel.binned import Intervals
    from crosslevel.binned.gaussian.covariances import read_kernel
    from crosslevel.binned.gaussian.dense import DenseSolver
    from crosslevel.binned.gaussian.model import make_problem

    edges, y = make_world(n)
    solver = DenseSolver(make_problem(Intervals.from_edges(edges), y, "total", mean=0.0), read_kernel("eq", 1))
    logs = np.log([VARIANCE, LENGTH / np.sqrt(2.0)])
    seconds, cpu = [], []
    for _ in range(repeats + 1):
        start, used = time.perf_counter(), time.process_time()
        found = solver.objective(logs, NOISE)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    by = found.by_kernel / np.exp(logs)
    return {
        "seconds": median(seconds[1:]),
        "cpu": median(cpu[1:]),
        "value": found.value,
        "by_variance": by[0],
        "by_length": by[1] / np.sqrt(2.0),
    }


GPY = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import GPy, numpy as np

def once(edges, y, variance, length, noise):
    kernel = GPy.kern.Integral_Limits(input_dim=2, variances=variance, lengthscale=length)
    start, used = time.perf_counter(), time.process_time()
    model = GPy.models.GPRegression(np.column_stack([edges[1:], edges[:-1]]), y[:, None], kernel, noise_var=noise)
    return {  # the constructor computes objective and gradient once
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - used,
        "value": float(model.log_likelihood()),
        "by_variance": float(kernel.variances.gradient[0]),
        "by_length": float(kernel.lengthscale.gradient[0]),
    }

world = json.load(sys.stdin)
edges, y, rest = np.array(world["edges"]), np.array(world["y"]), world["rest"]
once(edges[:6], y[:5], *rest)
print(json.dumps(once(edges, y, *rest)))
"""


def gpy(n: int) -> dict[str, float] | None:
    """Time GPy in its own environment, or give None where it cannot be imported."""
    edges, y = make_world(n)
    world = json.dumps({"edges": edges.tolist(), "y": y.tolist(), "rest": [VARIANCE, LENGTH, NOISE]})
    python = os.environ.get("CROSSLEVEL_GPY_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", GPY], input=world, capture_output=True, text=True, check=False)
    if done.returncode and "No module named 'GPy'" in done.stderr:
        return None
    if done.returncode:
        raise RuntimeError(f"GPy failed under {python}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(sizes: list[int]) -> list[dict[str, float]]:
    rows = []
    for n in sizes:
        a, b = ours(n), gpy(n)
        if b is None:
            rows.append({"n": n, "crosslevel": a["seconds"]})
            print(
                f"n = {n:>5,}   crosslevel {a['seconds']:8.3f} s (cpu {a['cpu']:.3f})   GPy is not installed",
                flush=True,
            )
            continue
        apart = max(abs(a[k] / b[k] - 1.0) for k in ("value", "by_variance", "by_length"))
        ratio, of_cpu = b["seconds"] / a["seconds"], b["cpu"] / a["cpu"]
        rows.append(
            {
                "n": n,
                "crosslevel": a["seconds"],
                "GPy": b["seconds"],
                "ratio": ratio,
                "cpu_ratio": of_cpu,
                "apart": apart,
            }
        )
        print(
            f"n = {n:>5,}   crosslevel {a['seconds']:8.3f} s (cpu {a['cpu']:.3f})   GPy {b['seconds']:8.2f} s (cpu {b['cpu']:.2f})   "
            f"{ratio:7.0f} x (cpu {of_cpu:.0f} x)   largest relative difference {apart:.1e}",
            flush=True,
        )
    return rows


def large() -> list[dict[str, object]]:
    from crosslevel.binned import BinnedGP, Intervals

    exact = ours(2000, repeats=2)
    print(f"n = 2,000 exact, objective and gradient   {exact['seconds']:.2f} s (cpu {exact['cpu']:.2f})", flush=True)
    rows: list[dict[str, object]] = [{"n": 2000, "seconds": exact["seconds"], "cpu": exact["cpu"]}]
    for n in (10_000, 100_000):
        edges, y = make_world(n, noise=NOISE * 100.0 / n)  # as much information in all, whatever the number of bins
        start, used = time.perf_counter(), time.process_time()
        gp = BinnedGP().fit(Intervals.from_edges(edges), y, quantity="total")
        mean, _ = gp.predict(np.linspace(1.0, 99.0, 500), return_std=True)
        seconds, cpu = time.perf_counter() - start, time.process_time() - used
        truth = 2.0 + np.sin(np.linspace(1.0, 99.0, 500) / 5.0)
        rmse = float(np.sqrt(np.mean((mean - truth) ** 2)))
        rows.append({"n": n, "seconds": seconds, "cpu": cpu, "solver": gp.solver_, "rmse": rmse})
        print(
            f"n = {n:,}, search and 500 predictions   {seconds:.2f} s (cpu {cpu:.2f})   {gp.solver_}; rmse {rmse:.3f}",
            flush=True,
        )
    return [*rows, polygons()]


def polygons(n: int = 167, corners: int = 53, axis: tuple[int, int] = (25, 24)) -> dict[str, object]:
    """Time exact integrals of 600 features over polygons as many and as jagged as the areas of a borough, and the posterior in them."""
    from crosslevel.binned import Polygons
    from crosslevel.binned.gaussian.covariances import read_kernel
    from crosslevel.binned.gaussian.features import FeatureSolver
    from crosslevel.binned.gaussian.model import make_problem
    from crosslevel.binned.regions.base import SineBasis

    rng = np.random.default_rng(0)
    angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, (n, corners)), axis=1)
    radius = rng.uniform(0.5, 1.0, (n, corners))
    middle = rng.uniform(0.0, 15.0, (n, 1, 2))
    regions = Polygons(list(middle + radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)))
    index = np.stack(np.meshgrid(*(np.arange(1, m + 1) for m in axis), indexing="ij"), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.full(2, 7.5), np.full(2, 12.0), index)
    regions.sine_integrals(basis)
    start, used = time.perf_counter(), time.process_time()
    regions.sine_integrals(basis)
    sums = time.perf_counter() - start
    problem = make_problem(regions, rng.normal(size=n), "mean")
    solver = FeatureSolver(problem, read_kernel("eq", 2), basis)
    solver.objective(np.log([1.0, 4.0, 4.0]), 0.1)
    solver.condition(np.log([1.0, 4.0, 4.0]), 0.1).predict(regions, problem.scale, covariance=True)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    print(
        f"{n} polygons of {corners} corners, {len(basis)} features: edge sums {sums:.2f} s; with objective, gradient and a joint "
        f"prediction {seconds:.2f} s (cpu {cpu:.2f})",
        flush=True,
    )
    return {"polygons": n, "features": len(basis), "edge_sums": sums, "seconds": seconds, "cpu": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows = large() if args.large else compare(args.sizes)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
