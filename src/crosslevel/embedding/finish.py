"""From sums to means: the last step of a pass."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.frames import FrameKind, keys_of
from crosslevel.embedding.embeddings import Embeddings
from crosslevel.embedding.state import BagSums
from crosslevel.errors import InputError, listed
from crosslevel.numerics.features import FeatureMap

__all__ = ["finish"]

BLOCK = 256
"""Bags finished at a time: by blocks and in place, since the answer may be most of the memory."""


def finish(state: BagSums, feature_map: FeatureMap, frame: FrameKind = "pyarrow") -> Embeddings:
    """Divide the sums by the weights and sort the bags by their keys.

    Parameters
    ----------
    state : BagSums
    feature_map : FeatureMap
        The map of the pass, whose constant linear part is applied here.
    frame : kind of dataframe to answer with.
    """
    if not len(state):
        raise InputError("people has no rows left to embed; check the file and the where filter.")
    keys = state.key_table()
    order = _order(keys, state.subgroups)
    empty = state.weight[order] <= 0
    warnings: tuple[str, ...] = ()
    if empty.any():
        gone = keys_of(keys.take(pa.array(order[empty])))
        warnings = (f"{len(gone):,} bag(s) have a total weight of zero and were left out ({listed(gone)}).",)
        order = order[~empty]
    if not len(order):
        raise InputError("every bag has a total weight of zero; check the weight column.")
    weight = state.weight[order]
    values = np.empty((len(order), state.n_features))
    for first in range(0, len(order), BLOCK):
        part = slice(first, first + BLOCK)
        for j, i in enumerate(order[part]):
            np.divide(state.row(int(i)), weight[first + j], out=values[first + j])
        feature_map.finish(values[part], out=values[part])
    return Embeddings(
        values=values,
        key_table=keys.take(pa.array(order)),
        weight=weight,
        n_rows=state.count[order],
        effective_size=weight**2 / state.weight_squared[order],
        warnings=warnings,
        frame=frame,
    )


def _order(keys: pa.Table, subgroups: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    names = keys.column_names
    if subgroups:
        rank = pc.index_in(keys[names[-1]], value_set=pa.array(subgroups))
        keys = keys.set_column(len(names) - 1, names[-1], rank)
    return np.asarray(pc.sort_indices(keys, sort_keys=[(n, "ascending") for n in names]).to_numpy(), dtype=np.int64)
