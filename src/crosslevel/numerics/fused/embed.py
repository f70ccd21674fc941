"""The way into the fused kernels: sum the features of a piece of rows over their bags.

Determinism. A *piece* is a fixed set of rows: the caller cuts the stream by row number, never by batch or thread.
Within a piece the rows are put in order of their bags (stable) and taken 64 at a time; a row's features are float32 and
do not depend on its place in the tile, every sum of them is float64 and is made in that fixed order. So a piece has
one answer, to the bit, whichever thread computes it; pieces added in stream order give the same bits for any number
of threads and any batch size, and other cuts of the same stream agree to float64 rounding.

A feature map laid out for the kernels, and the working memory of a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.numerics.features import DenseFourier, FeatureMap, HadamardMap, Landmarks, Nystrom, check_piece
from crosslevel.numerics.fused.accumulate import mark_bags, tally
from crosslevel.numerics.fused.butterfly import LANES
from crosslevel.numerics.fused.passes import CHUNK, PANEL, embed_fourier, embed_gaussian, embed_linear, embed_structured
from crosslevel.typing import AnyIntArray, FloatArray


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


@dataclass(frozen=True, eq=False)
class PieceSums:
    """What a piece adds to the state of each bag it touches.

    Attributes
    ----------
    bags : array (n_local,) of int64
        Numbers of the bags touched, ascending.
    count : array (n_local,) of int64
        Rows.
    weight, weight_squared : arrays (n_local,)
        Sums of w and of w^2.
    sums : array (n_local, n_features)
        Sums of w times the raw features; ``Plan.finish`` turns them into sums of w phi.
    """

    bags: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    weight: FloatArray
    weight_squared: FloatArray
    sums: FloatArray


def embed_piece(
    plan: Plan,
    codes: AnyIntArray,
    reals: npt.NDArray[np.floating[Any]],
    real_columns: AnyIntArray,
    weights: FloatArray,
    bags: AnyIntArray,
    scratch: Scratch | None = None,
    out: FloatArray | None = None,
) -> PieceSums:
    """Sum the features of a piece of rows over the bags it touches.

    Parameters
    ----------
    plan : Plan
    codes : array (n, n_categorical) of int32
        Column position (offset + code) that holds a 1; -1 for none.
    reals : array (n, n_real) of float32
        Scaled values.
    real_columns : array (n_real,)
        Their column positions.
    weights : array (n,)
    bags : array (n, n_memberships) of int32
        Bags each row belongs to, any number of them; -1 for none. The same bag twice counts twice. Put the widest
        grouping first: rows are sorted by these columns from left to right.
    scratch : Scratch, optional
        The thread's working memory.
    out : array (at least as many rows as bags touched, n_features) of float64, optional
        Overwritten and returned (its first rows) as ``PieceSums.sums``: spares the allocation when bags are many.

    Returns
    -------
    PieceSums

    Examples
    --------
    >>> from crosslevel.numerics.features import make_map
    >>> from crosslevel.numerics.fused import make_plan
    >>> plan = make_plan(make_map("linear", n_inputs=3))
    >>> codes = np.array([[0], [1], [1]], dtype=np.int32)
    >>> reals = np.array([[0.5], [1.0], [2.0]], dtype=np.float32)
    >>> bags = np.array([[0, 1], [0, -1], [2, 1]], dtype=np.int32)
    >>> piece = embed_piece(plan, codes, reals, np.array([2]), np.array([1.0, 2.0, 1.0]), bags)
    >>> piece.bags, piece.weight
    (array([0, 1, 2]), array([3., 2., 1.]))
    >>> plan.finish(piece.sums)
    array([[1. , 2. , 2.5],
           [1. , 1. , 2.5],
           [0. , 1. , 2. ]])
    """
    bags = np.ascontiguousarray(bags, dtype=np.int32)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if bags.ndim != 2 or weights.shape != (len(bags),):
        raise InputError(
            f"bags has shape {bags.shape} and weights {weights.shape}; pass one row of bags and one weight per person."
        )
    present = np.zeros(int(bags.max(initial=-1)) + 1, dtype=bool)
    mark_bags(bags, present)
    ids = np.flatnonzero(present).astype(np.int64)
    n = len(ids)
    local = np.empty_like(bags)
    count, weight, weight_squared = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n)
    lookup = np.cumsum(present, dtype=np.int64) - 1
    tally(bags, weights, lookup, local, count, weight, weight_squared)
    sums = np.zeros((n, plan.n_features)) if out is None else _cleared(out, n, plan.n_features)
    embed_rows(plan, codes, reals, real_columns, weights, local, sums, scratch)
    return PieceSums(ids, count, weight, weight_squared, sums)


def _cleared(out: FloatArray, n: int, n_features: int) -> FloatArray:
    if out.ndim != 2 or len(out) < n or out.shape[1] != n_features:
        raise InputError(f"out has shape {out.shape}; this piece touches {n:,} bags of {n_features:,} features.")
    out[:n] = 0.0
    return out[:n]


def embed_rows(
    plan: Plan,
    codes: AnyIntArray,
    reals: npt.NDArray[np.floating[Any]],
    real_columns: AnyIntArray,
    weights: FloatArray,
    bags: AnyIntArray,
    sums: FloatArray,
    scratch: Scratch | None = None,
) -> None:
    """Add the raw features of a piece of rows into ``sums`` (n_bags, n_features), in place; see ``embed_piece``.

    The interpreter lock is released meanwhile.
    """
    codes = np.ascontiguousarray(codes, dtype=np.int32)
    reals = np.ascontiguousarray(reals, dtype=np.float32)
    columns = np.ascontiguousarray(real_columns, dtype=np.int64)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    bags = np.ascontiguousarray(bags, dtype=np.int32)
    if sums.dtype != np.float64 or sums.ndim != 2 or sums.shape[1] != plan.n_features or not sums.flags.c_contiguous:
        raise InputError(
            f"sums must be a contiguous float64 array of {plan.n_features:,} columns; got shape {sums.shape}."
        )
    check_piece(codes, reals, weights, bags, plan.n_inputs, len(sums))
    if columns.shape != (reals.shape[1],) or not ((columns >= 0) & (columns < plan.n_inputs)).all():
        raise InputError(
            f"real_columns={columns.tolist()} do not place {reals.shape[1]} real column(s); pass one position each, from 0 to "
            f"{plan.n_inputs - 1:,}."
        )
    order = row_order(bags)
    # The dense kernels take real columns in pairs: an odd one is followed by a column of zeros.
    pairs = np.append(columns, 0) if len(columns) % 2 else columns
    piece = (codes, reals, pairs, weights, bags, order)
    if plan.kind == "linear":
        embed_linear(piece, sums)
        return
    scratch = Scratch(plan) if scratch is None else scratch
    if scratch.plan is not plan:
        raise InputError("scratch was made for another plan; make one with Scratch(plan) per thread.")
    kernel = {"structured": embed_structured, "fourier": embed_fourier, "gaussian": embed_gaussian}[plan.kind]
    kernel(piece, plan.arrays, sums, *scratch.buffers(len(sums), codes.shape[1], reals.shape[1], bags.shape[1]))


def row_order(bags: AnyIntArray) -> npt.NDArray[np.int64]:
    """Order the rows that belong to any bag so that equal memberships come together, equal ones by row number.

    Examples
    --------
    >>> row_order(np.array([[1, 0], [0, 2], [-1, -1], [0, -1], [0, 2]]))
    array([3, 1, 4, 0])
    """
    if not bags.shape[1]:
        return np.zeros(0, dtype=np.int64)
    member = np.flatnonzero(bags.max(axis=1) >= 0)
    rest = bags.shape[1] - 1
    if rest > 31:
        return member[np.lexsort(bags[member].T[::-1])].astype(np.int64)
    # One sort instead of one per column: the first bag, then a bit for each other that the row belongs to. Rows of other
    # memberships may share a key; the kernels compare memberships themselves, so that costs a little speed at most.
    bits = (bags[member, 1:] >= 0) @ (1 << np.arange(rest - 1, -1, -1, dtype=np.int64))
    key = ((bags[member, 0].astype(np.int64) + 1) << rest) + bits
    return member[np.argsort(key, kind="stable")].astype(np.int64)
