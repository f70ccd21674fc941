"""How do time, memory and error of KRLS grow with the number of rows, and what do landmarks cost?

    python experiments/krls_scaling.py                 # to 16,000 rows: some minutes
    python experiments/krls_scaling.py --most 1000000  # with the million

Two questions, a table each. *Rows*: every way to the numbers at growing N, with the largest distance of an average effect from
the truth in standard errors. *Landmarks*: Nystrom beside the exact fit at one N, the distance of its average effects and standard
errors from the exact ones, in exact standard errors, against the trace that is lost.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from crosslevel.krls import KRLS

ROWS = (1_000, 2_000, 4_000, 8_000, 16_000, 100_000, 1_000_000)
MOST = {"exact": 8_000, "partial": 16_000, "nystrom": 10**9}
RANKS = (25, 50, 100, 200, 400, 800)


def make_world(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw three normal and two binary columns, a curved outcome, and the true average effects over the rows."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 2))])
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 3] + 0.3 * X[:, 2] ** 2 + 0.4 * X[:, 4]
    truth = [np.cos(X[:, 0]).mean(), 0.5 * X[:, 3].mean(), 0.6 * X[:, 2].mean(), 0.5 * X[:, 1].mean(), 0.4]
    return X, f + rng.normal(size=n), np.array(truth)


def one(n: int, method: str) -> None:
    X, y, truth = make_world(n)
    start = time.process_time()
    model = KRLS(method=method).fit(X, y)
    found = model.effects()
    seconds = time.process_time() - start
    off = np.abs((found["estimate"] - truth) / found["std_error"]).max()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"{n:>9,}  {method:<8} {seconds:8.1f} CPU s  {peak:7,.0f} MB  {off:4.1f} SE from the truth  {model.path_}")


def landmarks(n: int) -> None:
    X, y, _ = make_world(n)
    exact = KRLS().fit(X, y).effects()
    print(f"\nLandmarks, N = {n:,}: distance from the exact fit, in its standard errors")
    for rank in RANKS:
        model = KRLS(method="nystrom", rank=rank).fit(X, y)
        near = model.effects()
        far = [np.abs((near[c] - exact[c]) / exact["std_error"]).max() for c in ("estimate", "plug_in", "std_error")]
        print(
            f"{rank:>9,}  lost trace {model._model.lost:.1e}  estimate {far[0]:.1e}  plug-in {far[1]:.1e}  standard error "
            f"{far[2]:.1e}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=16_000, help="rows of the largest fit")
    parser.add_argument("--at", type=int, default=2_000, help="rows at which landmarks are compared with the exact fit")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        one(int(options.one[0]), options.one[1])
        return
    print("Rows, each fit in a process of its own")
    for n in (n for n in ROWS if n <= options.most):
        for method in (m for m, most in MOST.items() if n <= most):
            subprocess.run([sys.executable, __file__, "--one", str(n), method], check=True)
    landmarks(options.at)


if __name__ == "__main__":
    main()
