"""A feature map laid out for the kernels, and the working memory of a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslevel.numerics.features import DenseFourier, FeatureMap, HadamardMap, Landmarks, Nystrom
from crosslevel.numerics.fused.butterfly import LANES
from crosslevel.numerics.fused.passes import CHUNK, PANEL
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
    if isinstance(f, HadamardMap):
        of = f.diagonals
        n_blocks, n_middle, width = of.middle.shape
        order = np.arange(width) if of.order is None else of.order[:, None]
        arrays = (
            np.ascontiguousarray(of.signs, dtype=np.float32),
            np.ascontiguousarray(np.broadcast_to(order, (n_blocks, n_middle, width)), dtype=np.int32),
            np.ascontiguousarray(of.middle, dtype=np.float32),
            np.ascontiguousarray(of.lengths.ravel()[: f.n_frequencies], dtype=np.float32),
        )
        return Plan(f, "structured", arrays)
    if isinstance(f, DenseFourier):
        return Plan(f, "fourier", (_panels(f.W).astype(np.float32), f.n_frequencies))
    if isinstance(f, Landmarks | Nystrom):
        centers = _panels((f.U**2).sum(axis=1, keepdims=True))
        return Plan(f, "gaussian", (_panels(f.U), centers, 1.0 / (2.0 * f.bandwidth**2)))
    return Plan(f, "linear", ())


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
        self._lists: tuple[Any, ...] = ()
        self._slot = np.empty(0, dtype=np.int64)
        self._float = np.float64 if plan.kind == "gaussian" else np.float32
        self._sums = (np.empty(LANES * max(CHUNK, PANEL)), np.empty(LANES), np.empty(LANES + 1, dtype=np.int64))
        if plan.kind == "structured":
            lines = plan.arrays[0].shape[1] * LANES
            tiles = (np.empty(lines, np.float32), np.empty(lines, np.float32))
            self._work: tuple[Any, ...] = (*tiles, np.empty((3, CHUNK * LANES), np.float32))
        else:
            self._work = (np.empty((3, PANEL * LANES), self._float),)

    def buffers(self, n_bags: int, n_codes: int, n_reals: int, n_memberships: int) -> tuple[Any, Any]:
        """Give the memory of the features and that of the tile's sums (see ``accumulate``), for pieces of this shape."""
        if len(self._slot) < n_bags:
            self._slot = np.full(n_bags, -1, dtype=np.int64)
        shape = (n_codes, n_reals, n_memberships)
        if shape != self._shape:
            pairs = LANES * max(n_memberships, 1)
            self._lists = (np.empty(pairs, np.int64), np.empty(pairs + 1, np.int64), np.empty(pairs, np.uint64))
            if self.plan.kind != "structured":
                row = (np.empty(n_codes, np.uint64), np.empty((4, n_reals + n_reals % 2), self._float))
                self._work = (self._work[0], *row)
            self._shape = shape
        return self._work, (*self._sums, self._slot, *self._lists)
