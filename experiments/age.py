"""Ages of people from bags of pictures: loader, splits, and a simulated stand-in that proves the scale.

The published experiment (Law et al. 2018, section 5.2) has 19,545 bags (name and date of birth) of 1 to 796 pictures, each picture
4,096 features of a network's last hidden layer, and predicts the mean age. The features are not part of this repository; the
stand-in has their shape: ReLU-like float32 features of about 400,000 pictures that are written to disk chunk by chunk and read
block by block; at no time are they held whole. Its errors say nothing about the real data; time and memory do.

Format of a folder: ``features.npy`` (n_pictures, 4096) float32, ``offsets.npy`` (n_bags + 1,) and ``ages.npy`` (n_bags,).

Run: python experiments/age.py [--folder DIR] [--quick] [--split-seed 20]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from crosslevel import Bags, MeanShrinkage
from crosslevel.diagnostics.calibration import calibration_table, size_strata
from crosslevel.errors import FileError

BAGS, PICTURES, WIDTH, LARGEST = 19_545, 400_000, 4_096, 796
QUICK = {"bags": 400, "pictures": 6_000, "width": 64}
CHUNK = 4_096
"""Pictures simulated at once: 64 MiB of float32 features."""
TEST, VALIDATION, EARLY_STOP = 0.2, 0.1875, 0.2308
FACTORS = 12


@dataclass(frozen=True)
class Splits:
    """Which bags serve for what; the shares are those of the published splits."""

    train: np.ndarray
    early_stop: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def splits(n: int, seed: int) -> Splits:
    """Split bags at random: 20 % test, 18.75 % of the rest validation, 23.08 % of what remains for early stopping."""
    order = np.random.RandomState(seed).permutation(n)
    test, rest = np.split(order, [round(n * TEST)])
    validation, rest = np.split(rest, [round(len(rest) * VALIDATION)])
    early_stop, train = np.split(rest, [round(len(rest) * EARLY_STOP)])
    return Splits(*(np.sort(part) for part in (train, early_stop, validation, test)))


def bag_sizes(n: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """Draw sizes from 1 to 796 with a long tail that sum to ``total``."""
    raw = rng.lognormal(0.0, 1.35, n)
    low, high = 0.0, total
    for _ in range(100):
        middle = (low + high) / 2
        sizes = np.clip(np.round(raw * middle), 1, LARGEST).astype(np.int64)
        low, high = (middle, high) if sizes.sum() < total else (low, middle)
    sizes[np.argmax(raw)], sizes[np.argmin(raw)] = LARGEST, 1
    return sizes


def simulate(folder: Path, bags: int, pictures: int, width: int, seed: int = 0) -> None:
    """Write a stand-in: a picture's age scatters around its person's, and shows in a few directions of the features."""
    rng = np.random.default_rng(seed)
    sizes = bag_sizes(bags, pictures, rng)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    age = np.clip(rng.gamma(9.0, 4.2, bags), 5, 95)
    loading = rng.normal(size=(FACTORS, width)).astype(np.float32) / np.float32(np.sqrt(FACTORS))
    shift = rng.normal(-0.5, 0.5, width).astype(np.float32)
    owner = np.repeat(np.arange(bags), sizes)
    person = rng.normal(size=(bags, FACTORS - 2)).astype(np.float32)
    shown = np.zeros(bags)
    header = {"descr": "<f4", "fortran_order": False, "shape": (int(offsets[-1]), width)}
    with (folder / "features.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, header)
        for start in range(0, len(owner), CHUNK):
            who = owner[start : start + CHUNK]
            pictured = age[who] + rng.normal(0, 7, len(who))
            np.add.at(shown, who, pictured)
            t = ((pictured - 38) / 14).astype(np.float32)
            own = person[who] + rng.standard_normal((len(who), FACTORS - 2), dtype=np.float32)
            scores = np.column_stack([2 * t, 2 * np.tanh(t), own]).astype(np.float32)
            noise = rng.standard_normal((len(who), width), dtype=np.float32)
            np.maximum(scores @ loading + shift + noise, 0).tofile(out)
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "ages.npy", shown / sizes)


class FeatureFile:
    """Rows of a .npy file, read when asked for: unlike a memory map, what was read does not stay in the process's memory."""

    def __init__(self, path: Path) -> None:
        header = np.load(path, mmap_mode="r")
        self.shape, self.dtype, self.ndim = header.shape, header.dtype, header.ndim
        self._start, self._row = int(header.offset), int(header.strides[0])
        self._path = path

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: object) -> np.ndarray:
        rows = index if isinstance(index, np.ndarray) and index.dtype.kind == "i" else np.arange(len(self))[index]
        out = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        with self._path.open("rb") as file:
            for first, last in zip(np.append(0, breaks), np.append(breaks, len(rows)), strict=True):
                if last > first:
                    file.seek(self._start + int(rows[first]) * self._row)
                    file.readinto(memoryview(out[first:last]).cast("B"))
        return out


def load(folder: Path) -> tuple[Bags, np.ndarray]:
    """Open a folder without reading its features."""
    for name in ("features.npy", "offsets.npy", "ages.npy"):
        if not (folder / name).is_file():
            raise FileError(f"{folder / name} does not exist; a folder needs features.npy, offsets.npy and ages.npy.")
    features = FeatureFile(folder / "features.npy")
    return Bags(features, np.load(folder / "offsets.npy")), np.load(folder / "ages.npy")


def peak_gib() -> float:
    """Give the largest resident memory of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run(folder: Path, split_seed: int, quick: bool) -> dict[str, object]:
    """Fit on the training, early-stopping and validation bags (nothing needs the latter two), score on the test bags."""
    bags, ages = load(folder)
    parts = splits(len(bags), split_seed)
    known = np.sort(np.concatenate([parts.train, parts.early_stop, parts.validation]))
    model = MeanShrinkage(
        n_landmarks=16 if quick else 128, bandwidth_scale=1.0 if quick else [1.0, 1.5], n_restarts=0, random_state=0
    )
    begun = time.perf_counter(), time.process_time()
    model.fit(bags[known], ages[known])
    fitted = time.perf_counter() - begun[0], time.process_time() - begun[1]
    test = bags[parts.test]
    mean, sd = model.predict(test, return_std=True)
    table = calibration_table(ages[parts.test], mean, sd, size_strata(test.sizes, [2, 5, 20]))
    print(table.summary())
    constant = float(np.sqrt(np.mean((ages[parts.test] - ages[known].mean()) ** 2)))
    return {
        "bags": len(bags),
        "pictures": len(bags.values),
        "width": bags.shape[1],
        "fit_seconds": round(fitted[0], 1),
        "fit_cpu_seconds": round(fitted[1], 1),
        "peak_gib": round(peak_gib(), 2),
        "rmse": round(float(table["rmse"][0]), 3),
        "rmse_of_the_mean": round(constant, 3),
        "nll": round(float(table["nll"][0]), 3),
        "coverage": {s: round(float(c), 3) for s, c in zip(table["stratum"], table["estimate"], strict=True)},
        "landmarks": model.n_landmarks_,
        "converged": model.convergence_["converged"],
        "splits": {name: len(part) for name, part in asdict(parts).items()},
    }


def main(arguments: list[str] | None = None) -> dict[str, object]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="features.npy, offsets.npy and ages.npy; simulated when not given")
    parser.add_argument("--quick", action="store_true", help="a small stand-in, in seconds")
    parser.add_argument("--split-seed", type=int, default=20)
    given = parser.parse_args(arguments)
    if given.folder is not None:
        found = run(given.folder, given.split_seed, given.quick)
    else:
        shape = QUICK if given.quick else {"bags": BAGS, "pictures": PICTURES, "width": WIDTH}
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            simulate(Path(folder), **shape)
            made = time.perf_counter() - begun
            found = run(Path(folder), given.split_seed, given.quick) | {"simulate_seconds": round(made, 1)}
    print(json.dumps(found, indent=2))
    return found


if __name__ == "__main__":
    main()
