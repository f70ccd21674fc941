"""Labels of bags of people: the synthetic bags of Law et al. (2018), drawn as the published experiments drew them.

A bag has a label y ~ U(4, 8) and people of five coordinates chi2_y / y + N(0, v). NumPy's legacy generator, whose streams are frozen, makes
the labels of the seed equal the published ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.cases import Case, FloatArray

SIZES, COLUMNS = (5, 20, 100, 1000), 5
SETS = {"train": 1000, "early": 500, "validation": 500, "test": 1000}


def draw(seed: int, n: int, fractions: Sequence[float], noise: float) -> tuple[FloatArray, np.ndarray, FloatArray]:
    """Draw people, offsets of bags and labels; ``fractions`` are the shares of bags of 5, 20 and 100 people."""
    rs = np.random.RandomState(seed)
    few = [np.repeat(size, int(n * f)) for size, f in zip(SIZES, fractions, strict=False)]
    sizes = np.concatenate([*few, np.repeat(SIZES[-1], n - sum(map(len, few)))])
    rs.shuffle(sizes)
    y = rs.uniform(4.0, 8.0, n)
    values = np.empty((int(sizes.sum()), COLUMNS))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for label, start, stop in zip(y, offsets[:-1], offsets[1:], strict=True):
        shape = (stop - start, COLUMNS)  # a normal is drawn also at scale zero: the next bag's numbers depend on it
        values[start:stop] = rs.chisquare(label, shape) / label + rs.normal(0, np.sqrt(noise), shape)
    return values, offsets, y


def bags(_: Path, whole: bool, fractions: Sequence[float], noise: float) -> Iterator[Case]:
    """Draw training and test bags; ``fractions`` are the shares of bags of 5, 20 and 100 people."""
    for seed in range(23, 33) if whole else (23, 24):
        seeds = np.random.RandomState(seed).randint(2**32, size=4, dtype=np.int64)
        given = {"noise": np.array(noise)}
        for name, own in zip(SETS, seeds, strict=True):
            if name in ("train", "test"):
                values, offsets, y = draw(int(own), SETS[name] // (1 if whole else 4), fractions, noise)
                given |= {f"{name}_values": values, f"{name}_offsets": offsets, f"{name}_y": y}
        truth = given.pop("test_y")
        yield Case(f"draw {seed}", given, truth, 100 / len(truth), power=2.0)
