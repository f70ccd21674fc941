"""A feature map on a device, and the pieces that stream through it."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from crosslevel.numerics.features import FeatureMap, FourierMap, Landmarks, Nystrom
from crosslevel.numerics.fused_jax.layout import Packed
from crosslevel.numerics.fused_jax.tiles import Spec, sum_tiles
from crosslevel.numerics.nuts import double_precision
from crosslevel.typing import FloatArray

Arrays = dict[str, Any]

TILE = {"cpu": 2048}
"""Rows whose features exist at a time, a power of two, by platform."""

ACCELERATOR_TILE = 16_384


class DeviceMap:
    """A feature map laid out on a device.

    Parameters
    ----------
    feature_map : FeatureMap
    owners : (n_inputs,) int
        For each encoded column, the column of codes that may point to it; -1 for none.
    real_columns : (n_reals,) int
        Positions of the reals among the encoded columns.
    device : jax.Device, optional
        Default: the first one of jax.
    halves : bool, optional
        Whether Fourier features are made of half-precision parts; by default on everything but a processor.

    Attributes
    ----------
    spec : Spec
    tile : int
        Rows of a tile for ``pack``.
    arrays : dict of arrays on the device

    Examples
    --------
    >>> from crosslevel.numerics.features import make_map
    >>> from crosslevel.numerics.fused_jax import pack
    >>> on_device = DeviceMap(make_map("linear", n_inputs=3), owners=np.array([0, 0, -1]), real_columns=np.array([2]))
    >>> packed = pack(np.array([[0], [1]]), np.array([[0.5], [1.0]]), np.ones(2), np.array([[4], [4]]), 2, 3)
    >>> on_device.collect(packed, on_device.start(packed))
    array([[1. , 1. , 1.5]])
    """

    def __init__(
        self,
        feature_map: FeatureMap,
        owners: npt.NDArray[np.integer[Any]],
        real_columns: npt.NDArray[np.integer[Any]],
        device: Any = None,
        halves: bool | None = None,
    ) -> None:
        self.device = jax.devices()[0] if device is None else device
        self.tile = TILE.get(self.device.platform, ACCELERATOR_TILE)
        halves = self.device.platform != "cpu" if halves is None else halves
        self.spec, width, arrays = _lay_out(feature_map, real_columns, halves)
        arrays |= _positions(owners, real_columns, width)
        with self._precision():
            self.arrays: Arrays = jax.device_put(arrays, self.device)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """Allow float64 in this thread, for this call, where the map needs it: whitening multiplies errors by up to 3e4."""
        return double_precision() if self.spec.kind == "gaussian" else contextlib.nullcontext()

    def put(self, packed: Packed) -> tuple[Any, ...]:
        """Send a piece to the device."""
        kind = np.float64 if self.spec.kind == "gaussian" else np.float32
        host = (packed.codes, packed.reals, packed.weights.astype(kind), packed.members, packed.slots)
        with self._precision():
            return (*jax.device_put(host, self.device), np.int32(packed.used))

    def run(self, n_bags: int, rows: tuple[Any, ...]) -> Any:
        """Start the sums of rows that are on the device; the answer, (n_bags, n_features), comes when it is read."""
        with self._precision():
            return sum_tiles(self.spec, n_bags, self.arrays, *rows)

    def start(self, packed: Packed) -> Any:
        """Send a piece and start its sums."""
        return self.run(packed.n_bags, self.put(packed))

    def collect(self, packed: Packed, sums: Any) -> FloatArray:
        """Wait for the sums of a piece: (n_local, n_features) in float64, in the order of ``packed.totals``."""
        return np.asarray(sums)[: len(packed.totals.bags)].astype(np.float64) * packed.scale


def sum_packs(on_device: DeviceMap, packs: Iterable[Packed], depth: int = 2) -> Iterator[tuple[Packed, FloatArray]]:
    """Give the sums of each piece, in order, while up to ``depth`` further ones are on their way."""
    waiting: deque[tuple[Packed, Any]] = deque()
    for packed in packs:
        waiting.append((packed, on_device.start(packed)))
        if len(waiting) > depth:
            first, sums = waiting.popleft()
            yield first, on_device.collect(first, sums)
    while waiting:
        first, sums = waiting.popleft()
        yield first, on_device.collect(first, sums)


def _positions(owners: npt.NDArray[Any], real_columns: npt.NDArray[Any], width: int) -> Arrays:
    """Say for each of ``width`` positions which column to look at, and what to look for."""
    d = len(owners)
    owner, target, real = np.zeros(width, np.int32), np.full(width, -2, np.int32), np.full(width, -1, np.int32)
    owner[:d] = np.maximum(owners, 0)
    target[:d] = np.where(owners >= 0, np.arange(d), -2)
    real[real_columns] = np.arange(len(real_columns))
    return {"owner": owner, "target": target, "real": real}


def _lay_out(f: FeatureMap, real_columns: npt.NDArray[Any], halves: bool) -> tuple[Spec, int, Arrays]:
    """Choose the program, the number of positions a row is written out to, and the arrays it reads."""
    if isinstance(f, FourierMap):
        arrays = explicit(f.frequencies(), real_columns, halves)
        return Spec("fourier", halves, f.n_frequencies), arrays["parts"][0].shape[1], arrays
    if isinstance(f, Landmarks | Nystrom):
        gamma = np.float64(1.0 / (2.0 * f.bandwidth**2))
        arrays = {"U": f.U, "centers": (f.U**2).sum(axis=1), "gamma": gamma}
        return Spec("gaussian", halves, f.n_features), f.n_inputs, arrays
    return Spec("linear", halves, f.n_features), f.n_inputs, {}


def explicit(W: FloatArray, real_columns: npt.NDArray[Any], halves: bool) -> Arrays:
    """Lay the frequencies W (m, d) out as W / scale in float32, or as two float16 parts that add up to it (22 bits).

    The largest entry is brought near 2^14, so that even the second part (12 bits further down) of an entry 2^14 times
    smaller is a normal number. The frequencies of the reals are kept whole.
    """
    m, d = W.shape
    largest = float(np.abs(W).max(initial=0.0))
    scale = 2.0 ** (np.ceil(np.log2(largest)) - 14) if largest > 0 and halves else 1.0
    of_reals = np.zeros((m, max(len(real_columns), 1)), dtype=np.float32)
    of_reals[:, : len(real_columns)] = W[:, real_columns] / scale
    rest, parts = np.zeros((m, _aligned(d))), []
    rest[:, :d] = W / scale
    for kind in (np.float16, np.float16) if halves else (np.float32,):
        parts.append(rest.astype(kind))
        rest = rest - parts[-1].astype(np.float64)
    return {"parts": tuple(parts), "scale": np.float32(scale), "of_reals": of_reals}


def _aligned(d: int) -> int:
    """Round up to what the matrix units like to read."""
    return -(-d // 64) * 64
