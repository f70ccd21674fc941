"""How long does exact KRLS take on a GPU, and does it agree with the processor?

    python benchmarks/krls_gpu.py                              # on a machine with a GPU: about three minutes
    python benchmarks/krls_gpu.py --check 500 --sizes 800      # a try on a processor

Penalty by converged leave-one-out, pointwise and average effects, debiased intervals with HC3; P = 5 with two binaries. The
first run at every size compiles and is timed apart. Needs numpy, scipy and jax; only the modules on arrays are imported.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from crosslevel.krls.effects import Effect, Switch, pointwise_effects, scales
from crosslevel.krls.inference import Inference, infer
from crosslevel.krls.model import Fit, fit


def make_world(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 2))])
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 3] + 0.3 * X[:, 2] ** 2 + 0.4 * X[:, 4]
    return X, f + rng.normal(size=n)


def effects_of(found: Fit) -> list[Effect]:
    out = [Effect(f"x{p}", "derivative", "dy/dx", p) for p in range(3)]
    for p in (3, 4):
        points = ((np.array([0.0, 1.0]) - found.scaling.mean[p]) / found.scaling.sd[p])[:, None]
        out.append(Effect(f"x{p}", "first difference", "1 - 0", p, Switch(np.array([p]), points)))
    return out


def run(X: np.ndarray, y: np.ndarray, backend: str) -> tuple[Fit, np.ndarray, Inference, dict[str, float]]:
    start = time.perf_counter()
    found = fit(X, y, method="exact", backend=backend)
    fitted = time.perf_counter()
    effects = effects_of(found)
    pointwise = pointwise_effects(found.kernel, effects, found.solution.coef) * scales(found, effects)
    inference = infer(found, effects, "debiased")
    return found, pointwise, inference, {"fit": fitted - start, "all": time.perf_counter() - start}


def peak_gib() -> str:
    stats = jax.devices()[0].memory_stats() or {}
    device = stats.get("peak_bytes_in_use")
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"peak so far: host {host:.1f} GiB" + ("" if device is None else f", device {device / 2**30:.1f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=4000, help="rows at which the processor does the same")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000])
    parser.add_argument(
        "--once", type=int, default=20_000, help="rows from which a size is run once, compiling included"
    )
    options = parser.parse_args()
    if jax.devices()[0].platform == "cpu" and len(sys.argv) == 1:
        print("No accelerator here: a small try on the processor, to see that it runs.")
        options = parser.parse_args(["--check", "400", "--sizes", "600"])
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}", flush=True)

    X, y = make_world(options.check)
    here, there = run(X, y, "numpy"), run(X, y, "jax")
    print(f"N = {options.check:,}: processor {here[3]['all']:.2f} s, device (compiling) {there[3]['all']:.2f} s")
    pairs = {
        "penalty": (here[0].penalty, there[0].penalty),
        "fitted values": (here[0].solution.fitted, there[0].solution.fitted),
        "pointwise effects": (here[1], there[1]),
        "estimates": (here[2].estimate, there[2].estimate),
        "standard errors": (np.diag(here[2].covariance) ** 0.5, np.diag(there[2].covariance) ** 0.5),
    }
    for name, (a, b) in pairs.items():
        print(
            f"  {name}: largest difference {np.abs(np.subtract(b, a)).max() / np.abs(a).max():.1e} of the largest value"
        )

    for n in options.sizes:
        X, y = make_world(n)
        for turn in ["with compiling"] if n >= options.once else ["with compiling", "warm"]:
            found, _, inference, seconds = run(X, y, "jax")
            print(
                f"N = {n:,} ({turn}): fit {seconds['fit']:.2f} s, with effects and intervals {seconds['all']:.2f} s",
                flush=True,
            )
        print(
            f"  penalty {found.penalty:.5g}, AME {np.round(inference.estimate, 4).tolist()}; {peak_gib()}",
            flush=True,
        )
        del found


if __name__ == "__main__":
    main()
