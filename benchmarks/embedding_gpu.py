"""How many people per second does a device embed, in which of several ways, and how far from the local engine?

    python benchmarks/embedding_gpu.py                                  # on a machine with a GPU: some minutes
    python benchmarks/embedding_gpu.py --rows 4096 --chunks 3 --tile 1024 --only hadamard   # a try on a processor

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from crosslevel.numerics.features import FourierMap, make_map, median_bandwidth
from crosslevel.numerics.fused_jax import DeviceMap, Packed, Variant, default_variant, pack, sum_packs
from crosslevel.numerics.fused_jax import tiles as k

N_CATEGORICAL, N_REALS, N_INPUTS = 200, 23, 3251
PEOPLE = 10_787_907
"""The people of KDD-2015's census."""
SMALL = ["--rows", "2048", "--chunks", "2", "--tile", "1024", "--maps", "sorf", "--only", "highest", "--seconds", "60"]
"""Options of a try on a processor."""
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


def variants(tile: int) -> list[Variant]:
    """The ways to compare, the likely winners first."""
    explicit = Variant("explicit", "float16x2", sums="bfloat16x3", tile=tile)
    transform = Variant("hadamard", "bfloat16x3", "float16", "bfloat16x3", tile)
    plain = Variant("hadamard", "highest", tile=tile)
    others = [
        replace(explicit, sums="float32"),
        replace(explicit, sums="bfloat16x2"),
        replace(transform, sums="float32"),
        replace(transform, first="float32"),
        replace(transform, product="bfloat16x2"),
        replace(transform, product="highest"),
        replace(plain, first="float16"),
    ]
    tiles = [replace(v, tile=t) for v in (explicit, transform) for t in (2048, 4096, 16_384, 65_536) if t != tile]
    presets = ("high", "TF32_TF32_F32_X3", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6")
    precise = [replace(plain, product=p) for p in presets] + [replace(plain, tile=65_536)]
    written = [replace(explicit, product=p) for p in ("bfloat16x2", "bfloat16x3", "float32")]
    return list(dict.fromkeys([explicit, transform, plain, *others, *tiles, *precise, *written]))


def timed(call: Any, repeat: int = 5) -> float:
    """Median seconds of a call whose answer is waited for, after one to compile."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > 2:
            break
    return float(np.median(seconds))


def kernel_seconds(on_device: DeviceMap, packs: list[Packed], chunks: int) -> float:
    """Seconds per chunk with the rows on the device already."""
    held = [(p.n_bags, on_device.put(p)) for p in packs]

    def run() -> list[Any]:
        return [on_device.run(*held[i % len(held)]) for i in range(chunks)]

    return timed(run, repeat=3) / chunks


def stream_seconds(on_device: DeviceMap, packs: list[Packed], chunks: int) -> float:
    """Seconds per chunk with the way there and back included, as the engine does it."""
    start = time.perf_counter()
    for _ in sum_packs(on_device, itertools.islice(itertools.cycle(packs), chunks)):
        pass
    return (time.perf_counter() - start) / chunks


def stages(on_device: DeviceMap, packed: Packed) -> dict[str, float]:
    """Seconds per chunk up to each stage (each ends with its result in memory), and of the parts of a transform."""
    spec, arrays = on_device.spec, on_device.arrays
    codes, reals, weights, members, slots, _ = on_device.put(packed)
    tile = (jax.device_put(codes[0].T), jax.device_put(reals[0].T))
    n_slots, n_tiles = slots.shape[1], packed.used

    def per_chunk(function: Any, *arguments: Any) -> float:
        compiled = jax.jit(function)
        times = 1 if on_device.device.platform == "cpu" else 8
        return timed(lambda: [compiled(*arguments) for _ in range(times)]) / times * n_tiles

    def summed(a: Any, c: Any, r: Any) -> Any:
        return k.sum_features(k.features(spec, a, c, r), weights[0], members[0], n_slots, spec.variant.sums)

    narrow = spec.variant.first == "float16" if spec.kind == "structured" else split_type(arrays)
    half = jnp.float16 if narrow else jnp.float32
    found = {
        "encode": per_chunk(lambda a, c, r: k.encode(a, c, None if narrow else r, half), arrays, *tile),
        "to angles": per_chunk(lambda a, c, r: k.project(spec, a, c, r), arrays, *tile),
        "to features": per_chunk(lambda a, c, r: k.features(spec, a, c, r), arrays, *tile),
        "to sums": per_chunk(summed, arrays, *tile),
    }
    if spec.kind == "structured":
        x = jnp.ones((*arrays["signs"].shape, tile[0].shape[1]), half)
        first = "float16" if narrow else spec.variant.product
        found["(first H)"] = per_chunk(lambda v: k.hadamard(v, first).astype(v.dtype), x)
        if "order" in arrays:
            found["(permutation)"] = per_chunk(k.permute, x, arrays["order"])
        found["(last H)"] = per_chunk(lambda v: k.hadamard(v, spec.variant.product, spec.m), x.astype(jnp.float32))
    return found


def split_type(arrays: dict[str, Any]) -> bool:
    return bool(arrays["parts"][0].dtype != jnp.float32)


def label(variant: Variant) -> str:
    first = f" first {variant.first}" if variant.projection == "hadamard" else ""
    return f"{variant.projection} {variant.product}{first} sums {variant.sums} tile {variant.tile}"


def measure(name: str, options: argparse.Namespace, census: Census, deadline: float) -> None:
    chunks = [make_rows(census, options.rows, options.regions, 1, seed) for seed in range(DISTINCT)]
    bandwidth = median_bandwidth(dense(census, chunks[0], slice(0, None, max(options.rows // 500, 1))))
    feature_map = make_map(name, N_INPUTS, options.features, bandwidth, 0)
    assert isinstance(feature_map, FourierMap)
    exact = exact_sums(census, chunks[0], feature_map.frequencies(), np.unique(chunks[0].bags))
    local, seconds = local_sums(census, chunks[0], feature_map)
    print(f"\n{name}: bandwidth {bandwidth:.2f}, {len(exact)} bags in the first chunk of {options.rows:,} rows")
    if local is not None:
        rate = options.rows / seconds
        print(f"local engine, one core: {rate:,.0f} rows/s, {largest_difference(local, exact):.1e} from float64")
    print(
        f"{'variant':<84}{'ms/chunk':>9}{'M rows/s':>9}{'sent too':>9}{'10.8M, s':>9}{'to f64':>9}{'to local':>9}{'compile':>9}"
    )
    for variant in variants(options.tile):
        if options.only not in label(variant) or variant.tile > options.rows:
            continue
        if time.perf_counter() > deadline:
            print("(out of time: the remaining variants were not run)")
            return
        try:
            print(line(variant, options, census, chunks, feature_map, exact, local), flush=True)
        except Exception as error:  # a preset that this device does not know must not end the table
            print(f"{label(variant):<84}  {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)


def line(
    variant: Variant,
    options: argparse.Namespace,
    census: Census,
    chunks: list[Rows],
    feature_map: FourierMap,
    exact: np.ndarray,
    local: np.ndarray | None,
) -> str:
    packs = [pack(r.codes, r.reals, r.weights, r.bags, variant.tile, N_INPUTS) for r in chunks]
    on_device = DeviceMap(feature_map, census.owners, census.real_columns, variant)
    start = time.perf_counter()
    found = on_device.collect(packs[0], on_device.start(packs[0]))
    compiling = time.perf_counter() - start
    kernel = kernel_seconds(on_device, packs, options.chunks)
    sent = stream_seconds(on_device, packs, options.chunks)
    rows = options.rows
    return (
        f"{label(variant):<84}{1e3 * kernel:9.2f}{rows / kernel / 1e6:9.2f}{rows / sent / 1e6:9.2f}{PEOPLE * sent / rows:9.2f}"
        f"{largest_difference(found, exact):9.1e}{largest_difference(found, local):9.1e}{compiling:9.1f}"
    )


def print_stages(name: str, options: argparse.Namespace, census: Census) -> None:
    rows = make_rows(census, options.rows, options.regions, 1, 0)
    feature_map = make_map(name, N_INPUTS, options.features, 15.0, 0)
    for variant in variants(options.tile)[:3]:
        if options.only not in label(variant) or variant.tile > options.rows:
            continue
        packed = pack(rows.codes, rows.reals, rows.weights, rows.bags, variant.tile, N_INPUTS)
        found = stages(DeviceMap(feature_map, census.owners, census.real_columns, variant), packed)
        print(f"{name} {label(variant)}\n   ms/chunk: " + ", ".join(f"{s} {1e3 * t:.2f}" for s, t in found.items()))


def print_subgroups(options: argparse.Namespace, census: Census, variant: Variant) -> None:
    """One membership against 21, on the device and in the host's packing."""
    feature_map = make_map("fastfood", N_INPUTS, options.features, 15.0, 0)
    on_device = DeviceMap(feature_map, census.owners, census.real_columns, variant)
    for memberships in (1, 21):
        rows = make_rows(census, options.rows, options.regions, memberships, 0)
        start = time.perf_counter()
        packed = pack(rows.codes, rows.reals, rows.weights, rows.bags, variant.tile, N_INPUTS)
        packing = time.perf_counter() - start
        seconds = kernel_seconds(on_device, [packed], max(options.chunks // 4, 1))
        print(
            f"{memberships} memberships a row, {len(packed.totals.bags)} bags a chunk: device {1e3 * seconds:.2f} ms a chunk, "
            f"packing {1e3 * packing:.1f} ms on one host core"
        )


def print_pipeline(name: str, options: argparse.Namespace, census: Census, variant: Variant) -> None:
    """Rows per second when host threads pack encoded chunks while the device works: all but reading and encoding."""
    feature_map = make_map(name, N_INPUTS, options.features, 15.0, 0)
    on_device = DeviceMap(feature_map, census.owners, census.real_columns, variant)
    chunks = [make_rows(census, options.rows, options.regions, 1, seed) for seed in range(DISTINCT)]

    def packed(rows: Rows) -> Packed:
        return pack(rows.codes, rows.reals, rows.weights, rows.bags, variant.tile, N_INPUTS)

    on_device.collect(packed(chunks[0]), on_device.start(packed(chunks[0])))
    for threads in sorted({1, 2, os.cpu_count() or 1}):
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            with ThreadPoolExecutor(threads) as pool:
                ahead = pool.map(packed, itertools.islice(itertools.cycle(chunks), options.chunks))
                done = sum(1 for _ in sum_packs(on_device, ahead))
            best = min(best, time.perf_counter() - start)
        rate = done * options.rows / best
        said = f"{rate / 1e6:.2f} M rows/s, {PEOPLE / rate:.2f} s for 10.8 M"
        print(f"{name}: packed by {threads} host thread(s) while the device works: {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65_536, help="rows of a chunk")
    parser.add_argument("--chunks", type=int, default=40, help="chunks of a measurement")
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--regions", type=int, default=15, help="regions a chunk holds")
    parser.add_argument("--tile", type=int, default=8192)
    parser.add_argument("--maps", nargs="+", default=["fastfood", "sorf"], choices=["fastfood", "sorf"])
    parser.add_argument("--only", default="", help="run the variants whose label contains this")
    parser.add_argument("--seconds", type=float, default=480.0, help="start no further variant after this long")
    options = parser.parse_args()
    begin = time.perf_counter()
    device = jax.devices()[0]
    if device.platform == "cpu" and len(sys.argv) == 1:
        print("No accelerator here: a small try on the processor, to see that it runs.")
        options = parser.parse_args(SMALL)
    print(
        f"{device.device_kind} ({device.platform}), jax {jax.__version__}, {options.chunks} chunks of {options.rows:,} rows"
    )
    census = make_census()
    chosen = replace(default_variant(device.platform, N_INPUTS), tile=min(options.tile, options.rows))
    print_subgroups(options, census, chosen)
    for name in options.maps:
        print_pipeline(name, options, census, chosen)
    for name in options.maps:
        print_stages(name, options, census)
    for i, name in enumerate(options.maps, start=1):
        measure(name, options, census, begin + options.seconds * i / len(options.maps))


if __name__ == "__main__":
    main()
