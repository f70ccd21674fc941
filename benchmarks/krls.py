"""How long does KRLS take, and how much memory, beside scikit-learn's kernel ridge and the algorithm of the R packages?

    python benchmarks/krls.py             # N = 1,000, 2,000, 4,000: ten minutes on two cores
    python benchmarks/krls.py --large     # N = 10,000 (to rounding, and dense) and 1,000,000 (Nystrom); --threads 2 for both cores

P = 5 with two binaries. Every figure is a process of its own, the median of three; seconds exclude the start of Python and the
making of the data; memory is the peak of the whole process. What is compared:

crosslevel       penalty by converged leave-one-out, pointwise and average effects, debiased intervals
scikit-learn     KernelRidge, 5-fold grid search over 12 penalties; predictions only
as R             a transcription of the steps of KRLS: an N x N inverse at every penalty of the golden section, N x N covariances
                 of coefficients and fitted values, an N x N product per derivative; from 2,000 rows on once
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from statistics import median

import numpy as np


def make_world(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows and outcomes; give the true average effects over these rows too."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 2))])
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 3] + 0.3 * X[:, 2] ** 2 + 0.4 * X[:, 4]
    truth = [np.cos(X[:, 0]).mean(), 0.5 * X[:, 3].mean(), 0.6 * X[:, 2].mean(), 0.5 * X[:, 1].mean(), 0.4]
    return X, f + rng.normal(size=n), np.array(truth)


def crosslevel(n: int, method: str = "auto") -> dict[str, object]:
    import warnings

    from crosslevel.krls import KRLS

    warnings.simplefilter("ignore")
    X, y, truth = make_world(n)
    start, cpu = time.perf_counter(), time.process_time()
    model = KRLS(method=method).fit(X, y)
    found = model.effects()
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    off = (found["estimate"] - truth) / found["std_error"]
    return {
        "seconds": seconds,
        "cpu": used,
        "path": model.path_,
        "off": np.abs(off).max(),
        "ame": found["estimate"].tolist(),
    }


def sklearn(n: int) -> dict[str, object]:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    X, y, _ = make_world(n)
    start, cpu = time.perf_counter(), time.process_time()
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    search = GridSearchCV(KernelRidge(kernel="rbf", gamma=1 / 5), {"alpha": np.geomspace(1e-3, 1e2, 12)})
    search.fit(Z, y - y.mean())
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}


def as_r(n: int) -> dict[str, object]:
    X, y, _ = make_world(n)
    start, cpu = time.perf_counter(), time.process_time()
    mean, sd = X.mean(axis=0), X.std(axis=0, ddof=1)
    Z, u = (X - mean) / sd, (y - y.mean()) / y.std(ddof=1)
    s = 5.0
    K = np.exp(-np.square(Z[:, None] - Z).sum(axis=2) / s)
    w, V = np.linalg.eigh(K)

    def solve(penalty: float) -> tuple[np.ndarray, float]:
        inverse = (V / (w + penalty)) @ V.T
        c = inverse @ u
        return c, float(np.sum((c / np.diag(inverse)) ** 2))

    high = float(n)
    while np.sum(w / (w + high)) < 1:
        high -= 1
    q = int(np.argmin(np.abs(w[::-1] - w.max() / 1000))) + 1
    low = 2.220446e-16
    while np.sum(w / (w + low)) > q:
        low += 0.05
    x1, x2 = low + 0.381966 * (high - low), high - 0.381966 * (high - low)
    s1, s2 = solve(x1)[1], solve(x2)[1]
    while abs(s1 - s2) > n / 1000:
        if s1 < s2:
            high, x2 = x2, x1
            x1 = low + 0.381966 * (high - low)
            s2, s1 = s1, solve(x1)[1]
        else:
            low, x1 = x1, x2
            x2 = high - 0.381966 * (high - low)
            s1, s2 = s2, solve(x2)[1]
    penalty = x1 if s1 < s2 else x2
    c = solve(penalty)[0]
    sigma2 = np.mean((u - K @ c) ** 2)
    covariance = sigma2 * (V / (w + penalty) ** 2) @ V.T
    fitted_covariance = K.T @ covariance @ K
    ame, variance = np.empty(5), np.empty(5)
    for p in range(3):
        L = (-2 / s) * (Z[:, p, None] - Z[:, p]) * K
        ame[p] = np.mean(L @ c) / sd[p]
        variance[p] = np.sum(L @ covariance @ L.T) / n**2
    for p in (3, 4):
        ends = np.concatenate([np.where(np.arange(5) == p, e, Z) for e in (Z[:, p].max(), Z[:, p].min())])
        new = np.exp(-np.square(ends[:, None] - Z).sum(axis=2) / s)
        h = np.repeat([1 / n, -1 / n], n)
        ame[p] = h @ (new @ c)
        variance[p] = 2 * h @ (new @ covariance @ new.T) @ h
    se = np.sqrt(np.diag(fitted_covariance))
    assert np.isfinite(se).all()
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "ame": (ame * y.std(ddof=1)).tolist(),
    }


def eigh(n: int) -> dict[str, object]:
    import scipy.linalg

    X, _, _ = make_world(n)
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 5)
    start, cpu = time.perf_counter(), time.process_time()
    scipy.linalg.eigh(K, driver="evd")
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}


JOBS = {"crosslevel": crosslevel, "scikit-learn": sklearn, "as R": as_r, "scipy eigh": eigh}


def measure(job: str, n: int, repeats: int, threads: int, *more: str) -> None:
    runs = []
    environment = dict(os.environ) | {f"{name}_NUM_THREADS": str(threads) for name in ("OPENBLAS", "OMP", "MKL")}
    for _ in range(repeats):
        command = [sys.executable, __file__, "--job", job, "--rows", str(n), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    seconds, cpu, peak = (median(r[k] for r in runs) for k in ("seconds", "cpu", "peak"))
    extra = "".join(f"; {runs[0][k]}" for k in ("path",) if k in runs[0])
    if "off" in runs[0] and n >= 10_000:
        extra += f"; AMEs within {runs[0]['off']:.1f} SE of the truth"
    print(f"{n:>9,}  {job:<13} {seconds:8.2f} s  {cpu:8.2f} CPU s  {peak:7,.0f} MB{extra}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of the BLAS; with more than one, a busy machine spins")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--method", default="auto", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        found = JOBS[options.job](options.rows, *([options.method] if options.job == "crosslevel" else []))
        found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(json.dumps(found))
        return
    print(
        f"{options.threads} thread(s) of the BLAS, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    if options.large:
        measure("crosslevel", 10_000, 1, options.threads)
        measure("crosslevel", 10_000, 1, options.threads, "--method", "exact")
        measure("crosslevel", 1_000_000, 1, options.threads)
        return
    for n in (1_000, 2_000, 4_000):
        measure("crosslevel", n, options.repeats, options.threads)
        measure("scikit-learn", n, options.repeats, options.threads)
        measure("as R", n, options.repeats if n == 1_000 else 1, options.threads)
    measure("scipy eigh", 2_000, options.repeats, options.threads)


if __name__ == "__main__":
    main()
