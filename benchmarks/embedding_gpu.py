"""How many people per second does a device embed, and how far from the local engine?

    python benchmarks/embedding_gpu.py                            # on a machine with a GPU: a minute
    python benchmarks/embedding_gpu.py --rows 4096 --chunks 3     # a try on a processor

Simulated people in the census layout: 200 categorical and 23 real columns, 3,251 encoded columns to 4,096 features
(2,048 frequencies), sorted by region. Chunks are encoded already and held in memory; reading and encoding are not part
of the times. Needs numpy, scipy and jax; with numba the local engine is run too. Only ``crosslevel.numerics`` is imported.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from crosslevel.numerics.features import FourierMap, make_map, median_bandwidth
from crosslevel.numerics.fused_jax import DeviceMap, Packed, pack, sum_packs

N_CATEGORICAL, N_REALS, N_INPUTS = 200, 23, 3251
PEOPLE = 10_787_907
"""The people of KDD-2015's census."""
DISTINCT = 4
"""Chunks of different people; cycled, so that none is still in a cache when its turn comes."""


@dataclass(frozen=True, eq=False)
class Census:
    """The layout of the encoded columns: categorical ones first, then the reals."""

    widths: np.ndarray
    offsets: np.ndarray
    owners: np.ndarray
    real_columns: np.ndarray


@dataclass(frozen=True, eq=False)
class Rows:
    """An encoded chunk."""

    codes: np.ndarray
    reals: np.ndarray
    weights: np.ndarray
    bags: np.ndarray


def make_census(seed: int = 0) -> Census:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(N_CATEGORICAL, 0.8))
    widths = 2 + rng.multinomial(N_INPUTS - N_REALS - 2 * N_CATEGORICAL, shares)
    offsets = np.concatenate([[0], np.cumsum(widths)[:-1]])
    owners = np.full(N_INPUTS, -1)
    owners[: widths.sum()] = np.repeat(np.arange(N_CATEGORICAL), widths)
    return Census(widths, offsets, owners, np.arange(widths.sum(), N_INPUTS))


def make_rows(census: Census, n: int, n_regions: int, memberships: int, seed: int) -> Rows:
    """Draw people sorted by region whose regions differ; with ``memberships`` > 1, subgroups of about a fifth each."""
    rng = np.random.default_rng(seed)
    region = np.sort(rng.integers(0, n_regions, n))
    tilt = rng.uniform(1.5, 4.0, n_regions)[region]
    codes = np.empty((n, N_CATEGORICAL), dtype=np.int32)
    for j, (offset, width) in enumerate(zip(census.offsets, census.widths, strict=True)):
        codes[:, j] = offset + (width * rng.random(n) ** tilt).astype(np.int32)
    bags = np.full((n, memberships), -1, dtype=np.int32)
    bags[:, 0] = region * memberships
    for j in range(1, memberships):
        bags[:, j] = np.where(rng.random(n) < 0.2, bags[:, 0] + j, -1)
    reals = rng.standard_normal((n, N_REALS)).astype(np.float32)
    return Rows(codes, reals, rng.lognormal(3, 0.6, n), bags)


def dense(census: Census, rows: Rows, part: slice) -> np.ndarray:
    codes = rows.codes[part]
    X = np.zeros((len(codes), N_INPUTS))
    X[np.arange(len(codes))[:, None], codes] = 1.0
    X[:, census.real_columns] = rows.reals[part]
    return X


def exact_sums(census: Census, rows: Rows, W: np.ndarray, bags: np.ndarray) -> np.ndarray:
    """Sums of raw features in float64."""
    total = np.zeros((len(bags), 2 * len(W)))
    for start in range(0, len(rows.weights), 4096):
        part = slice(start, start + 4096)
        z = dense(census, rows, part) @ W.T
        held = (rows.bags[part][:, None, :] == bags[:, None]).sum(axis=2).T * rows.weights[part]
        total += held @ np.hstack([np.cos(z), np.sin(z)])
    return total


def local_sums(census: Census, rows: Rows, feature_map: FourierMap) -> tuple[np.ndarray | None, float]:
    """Sums of the local engine's kernel and its seconds on one core, or None without numba."""
    try:
        from crosslevel.numerics.fused import embed_piece, make_plan
    except ImportError:
        return None, float("nan")
    plan = make_plan(feature_map)
    arguments = (plan, rows.codes, rows.reals, census.real_columns, rows.weights, rows.bags)
    embed_piece(
        plan, *(a[:64] for a in (rows.codes, rows.reals)), census.real_columns, rows.weights[:64], rows.bags[:64]
    )
    start = time.perf_counter()
    sums = embed_piece(*arguments).sums
    return sums, time.perf_counter() - start


def largest_difference(found: np.ndarray, expected: np.ndarray | None) -> float:
    """Largest difference relative to the largest entry of its bag."""
    if expected is None:
        return float("nan")
    return float((np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)).max())


def seconds_of(call: Any) -> float:
    """Median seconds of a call whose answer is waited for, after one to compile."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def packed(rows: Rows, on_device: DeviceMap) -> Packed:
    return pack(rows.codes, rows.reals, rows.weights, rows.bags, on_device.tile, N_INPUTS)


def kernel_seconds(on_device: DeviceMap, packs: list[Packed], chunks: int) -> float:
    """Seconds per chunk with the rows on the device already."""
    held = [(p.n_bags, on_device.put(p)) for p in packs]
    return seconds_of(lambda: [on_device.run(*held[i % len(held)]) for i in range(chunks)]) / chunks


def measure(name: str, options: argparse.Namespace, census: Census) -> None:
    """Time one map: in the kernel, with the way there and back, and with packing by host threads; compare its sums."""
    chunks = [make_rows(census, options.rows, options.regions, 1, seed) for seed in range(DISTINCT)]
    bandwidth = median_bandwidth(dense(census, chunks[0], slice(0, None, max(options.rows // 500, 1))))
    feature_map = make_map(name, N_INPUTS, options.features, bandwidth, 0)
    assert isinstance(feature_map, FourierMap)
    on_device = DeviceMap(feature_map, census.owners, census.real_columns)
    packs = [packed(rows, on_device) for rows in chunks]
    found = on_device.collect(packs[0], on_device.start(packs[0]))
    exact = exact_sums(census, chunks[0], feature_map.frequencies(), np.unique(chunks[0].bags))
    local, seconds = local_sums(census, chunks[0], feature_map)
    rate = options.rows / kernel_seconds(on_device, packs, options.chunks) / 1e6
    start = time.perf_counter()
    for _ in sum_packs(on_device, itertools.islice(itertools.cycle(packs), options.chunks)):
        pass
    sent = options.chunks * options.rows / (time.perf_counter() - start) / 1e6
    print(
        f"{name}: {rate:.2f} M rows/s in the kernel, {sent:.2f} sent too; one core {options.rows / seconds / 1e6:.2f}"
    )
    print(
        f"   off by {largest_difference(found, exact):.1e} from float64, {largest_difference(found, local):.1e} from local"
    )
    for threads in sorted({1, 2, os.cpu_count() or 1}):
        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            ahead = pool.map(lambda r: packed(r, on_device), itertools.islice(itertools.cycle(chunks), options.chunks))
            done = sum(1 for _ in sum_packs(on_device, ahead))
        rate = done * options.rows / (time.perf_counter() - start)
        print(f"   packed by {threads} thread(s): {rate / 1e6:.2f} M rows/s, {PEOPLE / rate:.2f} s for {PEOPLE:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65_536, help="rows of a chunk")
    parser.add_argument("--chunks", type=int, default=40, help="chunks of a measurement")
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--regions", type=int, default=15, help="regions a chunk holds")
    parser.add_argument("--maps", nargs="+", default=["fastfood", "sorf"], choices=["fastfood", "sorf", "rff"])
    options = parser.parse_args()
    device, census = jax.devices()[0], make_census()
    print(f"{device.device_kind} ({device.platform}), jax {jax.__version__}, {options.chunks} x {options.rows:,} rows")
    for name in options.maps:
        measure(name, options, census)


if __name__ == "__main__":
    main()
