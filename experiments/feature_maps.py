"""Which feature map has the smallest error per microsecond? Prints the table and writes docs/guide/embedding-maps.md.

For every map, on Gaussian and on one-hot (census-like) data of 10, 100, 1,000 and 3,251 encoded columns: root mean square
error of phi(x) . phi(y) against the Gaussian kernel, and the time of the fused kernel per row on one core.

    python experiments/feature_maps.py            # about two minutes
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from census import census

from crosslevel import MeanEmbedding, People
from crosslevel.data.atomic import whole_file
from crosslevel.data.columns import Encoded
from crosslevel.numerics.features import FeatureMap, make_map, median_bandwidth
from crosslevel.numerics.fused import Scratch, embed_piece, make_plan

N_FEATURES = 4096
N_LANDMARKS = 512
N_ROWS = 2048
N_PAIRS = 200
SEEDS = 3
REPEATS = 8
SHAPES = {10: (3, 1), 100: (9, 2), 1000: (62, 7), 3251: (200, 23)}  # encoded columns -> coded and real ones
FOURIER = ("sorf", "fastfood", "rff")
OTHERS = ("nystrom", "landmarks", "linear")  # landmarks and linear approximate no kernel: they are timed only
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "embedding-maps.md"


@dataclass(frozen=True)
class Data:
    """Rows to embed, and pairs to compare kernels on.

    Attributes
    ----------
    rows : Encoded
    A, B : (n_pairs, d)
        Pairs of rows; the t-th of B shares a fraction t / n_pairs of its columns with A, so that distances run from
        typical down to none.
    landmarks : (n_landmarks, d)
    bandwidth : float
        Median distance.
    """

    kind: str
    rows: Encoded
    A: npt.NDArray[np.float64]
    B: npt.NDArray[np.float64]
    landmarks: npt.NDArray[np.float64]
    bandwidth: float


@dataclass(frozen=True)
class Result:
    kind: str
    d: int
    name: str
    n_features: int
    error: float
    error_near: float
    microseconds: float

    @property
    def per_microsecond(self) -> float:
        """Error at a budget of one microsecond: errors fall as one over the root of the number of features."""
        return self.error * self.microseconds**0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/embedding-maps.md)")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    results = []
    for draw in (draw_one_hot, draw_gaussian):
        for d in SHAPES:
            data = draw(d)
            for name in (*FOURIER, *OTHERS):
                results.append(measure(data, d, name))
                print(line(results[-1]), flush=True)
    with whole_file(args.out) as beside:
        beside.write_text(page(results, load), encoding="utf-8")


def draw_one_hot(d: int) -> Data:
    """Draw people with a few real and many coded columns, d positions in all."""
    n_categorical, n_real = SHAPES[d]
    plan = census(N_ROWS, n_regions=20, n_categorical=n_categorical, n_real=n_real, n_encoded=d, random_state=1)
    people = plan.table()
    model = MeanEmbedding(2).fit(People(people.drop_columns(["region", "weight"]), categorical=plan.categorical))
    assert model.n_inputs_ == d
    owner = np.repeat(np.arange(len(plan.widths)), plan.widths)
    return with_pairs("one-hot", model.encoder_.encode(people), owner)


def draw_gaussian(d: int) -> Data:
    """Draw independent standard normals."""
    values = np.random.default_rng(1).standard_normal((N_ROWS, d)).astype(np.float32)
    return with_pairs("Gaussian", Encoded(np.zeros((N_ROWS, 0), np.int32), values, np.arange(d)), np.arange(d))


def with_pairs(kind: str, rows: Encoded, owner: npt.NDArray[np.int64]) -> Data:
    rng = np.random.default_rng(2)
    X = rows.dense(len(owner))
    A, other = X[:N_PAIRS], X[N_PAIRS : 2 * N_PAIRS]
    shared = rng.random((N_PAIRS, owner[-1] + 1)) < np.linspace(0, 1, N_PAIRS)[:, None]
    spare = np.unique(X[2 * N_PAIRS :], axis=0)
    landmarks = spare[rng.permutation(len(spare))[:N_LANDMARKS]]
    return Data(kind, rows, A, np.where(shared[:, owner], A, other), landmarks, median_bandwidth(X, n_sample=500))


def measure(data: Data, d: int, name: str) -> Result:
    """Measure one map on one kind of data, at the median bandwidth and at half of it."""
    if name in FOURIER:
        maps = [make_map(name, d, N_FEATURES, data.bandwidth, seed) for seed in range(SEEDS)]
        # halving the bandwidth is doubling the rows
        errors = [rmse(maps, data, scale) for scale in (1, 2)]
    elif name == "nystrom":
        halves = [make_map(name, d, None, data.bandwidth, landmarks=scale * data.landmarks) for scale in (1, 2)]
        maps, errors = halves[:1], [rmse([half], data, scale) for half, scale in zip(halves, (1, 2), strict=True)]
    else:
        points = data.landmarks if name == "landmarks" else None
        maps, errors = [make_map(name, d, None, data.bandwidth, landmarks=points)], [float("nan")] * 2
    return Result(data.kind, d, name, maps[0].n_features, *errors, microseconds(maps[0], data.rows))


def rmse(maps: list[FeatureMap], data: Data, scale: int) -> float:
    """Give the root mean square error of phi(x) . phi(y) over the pairs, scaled, and the maps."""
    A, B = scale * data.A, scale * data.B
    truth = np.exp(-((A - B) ** 2).sum(axis=1) / (2 * data.bandwidth**2))
    found = [np.einsum("ij,ij->i", one.transform(A), one.transform(B)) for one in maps]
    return float(np.sqrt(np.mean((np.array(found) - truth) ** 2)))


def microseconds(feature_map: FeatureMap, rows: Encoded) -> float:
    """Give the shortest processor time per row of the fused kernel, one thread, one bag."""
    plan = make_plan(feature_map)
    scratch = Scratch(plan)
    n = len(rows.codes)
    weights, bags = np.ones(n), np.zeros((n, 1), dtype=np.int32)
    times = []
    for _ in range(REPEATS + 1):
        start = time.thread_time()
        embed_piece(plan, rows.codes, rows.reals, rows.real_columns, weights, bags, scratch)
        times.append(time.thread_time() - start)
    return min(times[1:]) / n * 1e6  # the first run compiles


def line(result: Result, best: bool = False) -> str:
    name = f"**{result.name}**" if best else result.name
    shown = [f"{e:.4f}" if np.isfinite(e) else "" for e in (result.error, result.error_near)]
    product = f"{1e3 * result.per_microsecond:.1f}" if result.name in FOURIER else ""
    cells = [
        result.kind,
        f"{result.d:,}",
        name,
        f"{result.n_features:,}",
        *shown,
        f"{result.microseconds:.1f}",
        product,
    ]
    return "| " + " | ".join(cells) + " |"


def table(results: Iterable[Result]) -> str:
    """Lay the results out, the smallest error per microsecond of each group in bold."""
    results = list(results)
    lines = []
    for result in results:
        group = [r for r in results if (r.kind, r.d) == (result.kind, result.d) and r.name in FOURIER]
        lines.append(line(result, best=result is min(group, key=lambda r: r.per_microsecond)))
    return "\n".join(lines)


def page(results: list[Result], load: float) -> str:
    return f"""# Which feature map

`MeanEmbedding(feature_map=...)` approximates the Gaussian kernel exp(−|x − y|² / 2b²) by phi(x) · phi(y). The maps differ in how close
they come and in what a person costs. **`sorf` is the default**: it has the smallest error per microsecond on narrow data and on wide.
`fastfood` is 11 to 22 % faster than `sorf`, and its error is 2.4 to 7 times that of `sorf` up to 1,000 columns and 1.6 to 1.8 times
at 3,251 (1.1 to 2.1 times at half the median bandwidth, where all Fourier maps come closer together).

| map | what it is | choose it |
|---|---|---|
| `sorf` | three Hadamard transforms with random signs, chi row norms | by default |
| `fastfood` | Le, Sarlós and Smola's S H G P H B | to follow the papers that use it; a little faster, less accurate |
| `rff` | dense, independent normals | for comparison |
| `nystrom` | kernels with sampled people, whitened | few columns, or people that form tight clusters |
| `landmarks` | kernels with sampled people as they are | for radial basis function networks |
| `linear` | the encoded columns themselves | when only the composition matters |

## Error and time

| data | encoded columns | map | features | RMSE, b = median | RMSE, b = median / 2 | µs per row | RMSE × √µs × 1,000 |
|---|---:|---|---:|---:|---:|---:|---:|
{table(results)}

The last column is the error at a budget of one microsecond per row: the error of a Fourier map falls as one over the square root of the
number of features and its time grows with that number, so the product hardly depends on how many features one takes. The smallest of
each group is bold. Nyström's error is no such power of its size, so it has none; `landmarks` and `linear` approximate no kernel.

## How it was measured
- *Data.* One-hot: `experiments/census.py` with {", ".join(f"{c} coded and {r} real" for c, r in SHAPES.values())}
  columns. Gaussian: independent standard normals. {N_ROWS:,} rows each.
- *Error.* {N_PAIRS} pairs that share between none and all of their columns, so that distances run from typical down to zero.
  {SEEDS} draws of each map, {N_FEATURES:,} features, half cosines and half sines; `nystrom` and `landmarks` {N_LANDMARKS} people,
  fewer where fewer are distinct. At the median bandwidth a typical pair has a kernel of .6, at half of it of .14.
- *Time.* Processor time of the fused kernel from codes to weighted sums, one thread, best of {REPEATS} runs. Other programs ran
  meanwhile (load {load:.1f} on {os.cpu_count()} cores), so compare the times with one another rather than with those of a quiet machine.
- Made by `python experiments/feature_maps.py`.

## Why the structured maps do not slow down
The Hadamard transform of a vector padded to D = 2ᵏ columns gives D frequencies for D log D additions, whatever the number of non-zero
columns. A dense map multiplies every non-zero column with every frequency: affordable for ten columns,
about ten times slower than `sorf` for a thousand real ones.

At 3,251 columns one block of 4,096 orthogonal rows has room for twice the 2,048 frequencies. That is the likely reason why
`sorf` gains less there than at 1,000 columns, where two blocks are filled.
"""


if __name__ == "__main__":
    main()
