"""A feature map laid out for the kernels, and the working memory of a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslevel.numerics.features import (
    DenseFourier,
    FastFood,
    FeatureMap,
    FourierMap,
    Landmarks,
    Nystrom,
    StructuredOrthogonal,
)
from crosslevel.numerics.fused.butterfly import LANES
from crosslevel.numerics.fused.dense import PANEL
from crosslevel.numerics.fused.structured import CHUNK
from crosslevel.typing import FloatArray

__all__ = ["Plan", "Scratch", "make_plan"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A feature map laid out for the kernels (float32, landmarks float64); threads share it.

    Attributes
    ----------
    feature_map : FeatureMap
    kind : str
        ``structured``, ``fourier``, ``gaussian`` or ``linear``: which kernel runs.
    arrays : tuple of arrays
        What that kernel reads.
    """

    feature_map: FeatureMap
    kind: str
    arrays: tuple[Any, ...] = field(repr=False)

    @property
    def n_features(self) -> int:
        """Columns of the sums."""
        return self.feature_map.n_features

    @property
    def n_inputs(self) -> int:
        """Encoded columns: positions run from 0 to ``n_inputs - 1``."""
        return self.feature_map.n_inputs

    def finish(self, sums: FloatArray) -> FloatArray:
        """Turn accumulated sums into sums of ``w phi(x)``: the constant linear part of the map, applied once.

        Fourier maps are divided by sqrt(m), Nyström sums are whitened. States are merged *before* this step.
        """
        return self.feature_map.finish(sums)


def make_plan(feature_map: FeatureMap) -> Plan:
    """Lay a feature map out for the kernels.

    Examples
    --------
    >>> from crosslevel.numerics.features import make_map
    >>> make_plan(make_map("sorf", n_inputs=5, n_features=8, bandwidth=1.0)).kind
    'structured'
    """
    f = feature_map
    if isinstance(f, FastFood):
        width = f.B.shape[1]
        scale = f.S / (f.bandwidth * np.sqrt(width))
        return Plan(f, "structured", _structured(f, f.B, f.P[:, None], f.G[:, None], scale))
    if isinstance(f, StructuredOrthogonal):
        n_blocks, _, width = f.signs.shape
        same = np.broadcast_to(np.arange(width), (n_blocks, 2, width))
        scale = f.lengths / (f.bandwidth * width**1.5)
        return Plan(f, "structured", _structured(f, f.signs[:, 2], same, f.signs[:, 1::-1], scale))
    if isinstance(f, DenseFourier):
        return Plan(f, "fourier", (_panels(f.W).astype(np.float32), f.n_frequencies))
    if isinstance(f, Landmarks | Nystrom):
        centers = _panels((f.U**2).sum(axis=1, keepdims=True))
        return Plan(f, "gaussian", (_panels(f.U), centers, 1.0 / (2.0 * f.bandwidth**2)))
    return Plan(f, "linear", ())


def _structured(f: FourierMap, signs: Any, perms: Any, scales: Any, lengths: FloatArray) -> tuple[Any, ...]:
    return (
        np.ascontiguousarray(signs, dtype=np.float32),
        np.ascontiguousarray(perms, dtype=np.int32),
        np.ascontiguousarray(scales, dtype=np.float32),
        np.ascontiguousarray(lengths.ravel()[: f.n_frequencies], dtype=np.float32),
    )


def _panels(W: FloatArray) -> FloatArray:
    """Cut the rows of W (m, d) into panels of 64, each stored column by column: (n_panels, d * 64)."""
    m, d = W.shape
    n_panels = -(-m // PANEL)
    padded = np.zeros((n_panels * PANEL, d))
    padded[:m] = W
    return np.ascontiguousarray(padded.reshape(n_panels, PANEL, d).transpose(0, 2, 1)).reshape(n_panels, d * PANEL)


class Scratch:
    """The working memory of one thread for one plan (about 2 MB at 4,096 columns); reused from piece to piece."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._shape = (-1, -1, -1)
        self._by_shape: tuple[Any, ...] = ()
        self._slot = np.empty(0, dtype=np.int64)
        self._float = np.float64 if plan.kind == "gaussian" else np.float32
        sums = (np.empty(LANES * max(CHUNK, PANEL)), np.empty(LANES), np.empty(LANES + 1, dtype=np.int64))
        if plan.kind == "structured":
            lines = plan.arrays[0].shape[1] * LANES
            tiles = (np.empty(lines, np.float32), np.empty(lines, np.float32))
            self._fixed: tuple[Any, ...] = (*tiles, np.empty((3, CHUNK * LANES), np.float32), *sums)
        else:
            self._fixed = (np.empty((3, PANEL * LANES), self._float), *sums)

    def buffers(self, n_bags: int, n_codes: int, n_reals: int, n_memberships: int) -> tuple[Any, ...]:
        """Give the buffers in the kernels' order, for pieces of this shape."""
        if len(self._slot) < n_bags:
            self._slot = np.full(n_bags, -1, dtype=np.int64)
        shape = (n_codes, n_reals, n_memberships)
        if shape != self._shape:
            pairs = LANES * max(n_memberships, 1)
            lists = (np.empty(pairs, np.int64), np.empty(pairs + 1, np.int64), np.empty(pairs, np.uint64))
            row = (np.empty(n_codes, np.uint64), np.empty((4, n_reals + n_reals % 2), self._float))
            self._by_shape = lists if self.plan.kind == "structured" else (*lists, *row)
            self._shape = shape
        return (*self._fixed, self._slot, *self._by_shape)
