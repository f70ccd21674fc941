"""The host's share: rows cut into tiles of a fixed size, bags numbered within them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.numerics.features import check_piece
from crosslevel.numerics.features.maps import next_power_of_two
from crosslevel.typing import AnyIntArray, FloatArray

MIN_BAGS, MIN_SLOTS = 64, 16
"""Sizes are rounded up to powers of two from here on, so that few programs are ever compiled; 16 is also the least
number of rows the matrix units work on."""


@dataclass(frozen=True, eq=False)
class BagTotals:
    """What can be said of a piece's bags without features.

    Attributes
    ----------
    bags : (n_local,) int64
        Numbers of the bags touched, ascending.
    count : (n_local,) int64
    weight, weight_squared : (n_local,)
    """

    bags: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    weight: FloatArray
    weight_squared: FloatArray


def bag_totals(bags: AnyIntArray, weights: FloatArray) -> tuple[BagTotals, npt.NDArray[np.int32]]:
    """Count and weigh the bags of a piece, and renumber the memberships by the bags touched (-1 stays -1).

    Examples
    --------
    >>> totals, local = bag_totals(np.array([[7], [3], [7], [-1]]), np.array([1.0, 2.0, 3.0, 9.0]))
    >>> totals.bags, totals.weight, local.ravel()
    (array([3, 7]), array([2., 4.]), array([ 1,  0,  1, -1], dtype=int32))
    """
    present = np.zeros(int(bags.max(initial=-1)) + 1, dtype=bool)
    present[bags[bags >= 0]] = True
    ids = np.flatnonzero(present)
    # The extra entry at the end is what -1 looks up.
    lookup = np.append(np.cumsum(present, dtype=np.int32) - 1, -1).astype(np.int32)
    local = lookup[bags]
    rows, columns = np.nonzero(local >= 0)
    flat, w, n = local[rows, columns], np.asarray(weights, dtype=np.float64)[rows], len(ids)
    totals = BagTotals(
        ids.astype(np.int64),
        np.bincount(flat, minlength=n).astype(np.int64),
        np.asarray(np.bincount(flat, weights=w, minlength=n), dtype=np.float64),
        np.asarray(np.bincount(flat, weights=w * w, minlength=n), dtype=np.float64),
    )
    return totals, local


@dataclass(frozen=True, eq=False)
class Packed:
    """A piece of rows in the shapes a device is programmed for.

    Attributes
    ----------
    codes : (n_tiles, tile, n_codes) int16 or int32
        Column position that holds a 1; -1 for none. Rows beyond the last have weight 0.
    reals : (n_tiles, tile, n_reals) float32
    weights : (n_tiles, tile) float64
        Divided by ``scale``, a power of two: at most 1.
    members : (n_tiles, tile, n_memberships) int32
        Slot of each bag a row belongs to, within its tile; -1 for none.
    slots : (n_tiles, n_slots) int32
        The piece's bag in each slot; ``n_bags`` for none.
    used : int
        Tiles that hold rows.
    n_bags : int
        Rows of the sums: the bags of the piece, rounded up.
    scale : float
    totals : BagTotals
    """

    codes: AnyIntArray
    reals: npt.NDArray[np.float32]
    weights: FloatArray
    members: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    used: int
    n_bags: int
    scale: float
    totals: BagTotals


def pack(
    codes: AnyIntArray,
    reals: npt.NDArray[np.floating[Any]],
    weights: FloatArray,
    bags: AnyIntArray,
    tile: int,
    n_inputs: int,
) -> Packed:
    """Cut a piece of rows into tiles.

    Parameters
    ----------
    codes : (n, n_codes)
        Column position that holds a 1; -1 for none.
    reals : (n, n_reals)
    weights : (n,)
    bags : (n, n_memberships)
        Bags each row belongs to; -1 for none.
    tile : int
    n_inputs : int
        Encoded columns; up to 32,767 codes travel as int16.

    Examples
    --------
    >>> codes, bags = np.array([[0], [1], [1]]), np.array([[5], [5], [8]])
    >>> packed = pack(codes, np.zeros((3, 0)), np.ones(3), bags, tile=2, n_inputs=2)
    >>> packed.codes.shape, packed.members[1, 0], packed.slots[1, 0], packed.totals.bags
    ((2, 2, 1), array([0], dtype=int32), np.int32(1), array([5, 8]))
    """
    check_piece(codes, reals, weights, bags, n_inputs)
    totals, local = bag_totals(bags, weights)
    n = len(weights)
    # A tile of one bag after another touches few of them; people mostly arrive sorted by place.
    if n > tile and local.shape[1] and (np.diff(local[:, 0]) < 0).any():
        order = np.argsort(local[:, 0], kind="stable")
        codes, reals, weights, local = codes[order], reals[order], weights[order], local[order]
    used = -(-n // tile)
    n_tiles = next_power_of_two(max(used, 1))
    n_bags = max(next_power_of_two(max(len(totals.bags), 1)), MIN_BAGS)
    members, slots = _slots(local, tile, n_tiles, n_bags)
    largest = float(np.max(weights, initial=0.0))
    scale = 2.0 ** np.ceil(np.log2(largest)) if largest > 0 else 1.0
    small = np.int16 if n_inputs <= np.iinfo(np.int16).max else np.int32
    return Packed(
        codes=_tiles(codes, n_tiles, tile, small, -1),
        reals=_tiles(reals, n_tiles, tile, np.float32, 0),
        weights=_tiles(weights[:, None] / scale, n_tiles, tile, np.float64, 0)[:, :, 0],
        members=members,
        slots=slots,
        used=used,
        n_bags=n_bags,
        scale=float(scale),
        totals=totals,
    )


def _slots(
    local: npt.NDArray[np.int32], tile: int, n_tiles: int, n_bags: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Number the bags within each tile: (members, slots)."""
    members = _tiles(local, n_tiles, tile, np.int32, -1)
    touched = []
    for t in range(n_tiles):
        seen = np.unique(members[t])
        touched.append(seen[seen >= 0])
        lookup = np.full(n_bags + 1, -1, dtype=np.int32)
        lookup[touched[t]] = np.arange(len(touched[t]))
        members[t] = lookup[members[t]]
    width = max(next_power_of_two(max(1, *(len(b) for b in touched))), MIN_SLOTS)
    slots = np.full((n_tiles, width), n_bags, dtype=np.int32)
    for t, found in enumerate(touched):
        slots[t, : len(found)] = found
    return members, slots


def _tiles(rows: npt.NDArray[Any], n_tiles: int, tile: int, kind: Any, filler: int) -> npt.NDArray[Any]:
    """Lay rows (n, k) out as (n_tiles, tile, k); a piece without columns gets one of fillers."""
    out = np.full((n_tiles * tile, max(rows.shape[1], 1)), filler, dtype=kind)
    out[: len(rows), : rows.shape[1]] = rows
    return out.reshape(n_tiles, tile, -1)
