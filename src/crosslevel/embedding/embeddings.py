"""One vector per bag: what a pass over the people leaves, and how sums become means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.data.expressions import read_expression
from crosslevel.data.frames import keys_of
from crosslevel.data.sql import mask_of
from crosslevel.embedding.state import SMALL, BagSums
from crosslevel.errors import InputError, listed
from crosslevel.numerics.features import FeatureMap
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

BLOCK = 256
"""Bags finished at a time: by blocks and in place, since the answer may be most of the memory."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Mean embeddings of bags, in sorted order of their keys.

    Attributes
    ----------
    values : (n_bags, n_features) float64
        mu_i = sum_j w_ij phi(x_ij) / sum_j w_ij.
    key_table : pyarrow.Table
        One row per bag, a column per key.
    weight : (n_bags,)
        Sum of w.
    n_rows : (n_bags,) int64
        Number of people.
    effective_size : (n_bags,)
        Kish's effective number of people.
    warnings : tuple of str
    frame : kind of dataframe to answer with.
    """

    values: FloatArray
    key_table: pa.Table
    weight: FloatArray
    n_rows: npt.NDArray[np.int64]
    effective_size: FloatArray
    warnings: tuple[str, ...] = ()
    frame: frames.FrameKind = "pyarrow"

    @property
    def keys(self) -> npt.NDArray[Any]:
        """The bags' names: values of the key column, or tuples where there are several."""
        return keys_of(self.key_table)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags, number of features."""
        return self.values.shape[0], self.values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[FloatArray]:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def _report_tables(self) -> dict[str, Estimates]:
        """Give the table of a report: people and effective people of the bags; a vector is nothing to look at."""
        sizes = {"estimate": self.effective_size, "people": self.n_rows, "weight": self.weight}
        keys = {n if n not in sizes else f"{n}_": self.key_table[n] for n in self.key_table.column_names}
        found = Estimates.build(
            {**keys, **sizes},
            keys=list(keys),
            kind="bag_sizes",
            method=f"mean embedding of bags, {self.shape[1]:,} numbers each",
            level=None,
            interval="none",
            provenance=Provenance.of(call="MeanEmbedding(...).transform(...)"),
            warnings=self.warnings,
            title="Effective people in each bag",
        )
        return {"bags": found}

    def select(self, where: str) -> Embeddings:
        """Keep the bags whose keys meet a condition, such as ``"subgroup = 'women'"``."""
        kept = mask_of(self.key_table, read_expression(where, "where", self.key_table.schema))
        if not kept.any():
            raise InputError(f"where={where!r} matches none of the {len(self):,} bags; look at .key_table.")
        rows = {n: getattr(self, n)[kept] for n in ("values", "weight", "n_rows", "effective_size")}
        return replace(self, key_table=self.key_table.filter(pa.array(kept)), **rows)

    def to_frame(self, kind: frames.FrameKind | None = None) -> Any:
        """Give a table: keys, weight, n_rows, effective_size, then one column per feature."""
        columns = {n: self.key_table[n] for n in self.key_table.column_names}
        columns |= {"weight": self.weight, "n_rows": self.n_rows, "effective_size": self.effective_size}
        columns |= {f"phi{j}": self.values[:, j] for j in range(self.values.shape[1])}
        return frames.from_arrow(pa.table(columns), kind or self.frame)

    def __repr__(self) -> str:
        n, m = self.shape
        return (
            f"<Embeddings: {n:,} bags by {', '.join(self.key_table.column_names)}, {m:,} features; see .values, .keys>"
        )


def finish(state: BagSums, feature_map: FeatureMap, frame: frames.FrameKind = "pyarrow") -> Embeddings:
    """Divide the sums by the weights and sort the bags by their keys.

    Parameters
    ----------
    state : BagSums
    feature_map : FeatureMap
        The map of the pass, whose constant linear part is applied here.
    frame : kind of dataframe to answer with.
    """
    if not state.bags:
        raise InputError("people has no rows left to embed; check the file and the where filter.")
    keys, bags, small = state.key_table(), list(state.bags.values()), state.small()
    order = _order(keys, state.parts)
    empty = small[1, order] <= 0
    warnings: tuple[str, ...] = ()
    if empty.any():
        gone = keys_of(keys.take(pa.array(order[empty])))
        warnings = (f"{len(gone):,} bag(s) have a total weight of zero and were left out ({listed(gone)}).",)
        order = order[~empty]
    if not len(order):
        raise InputError("every bag has a total weight of zero; check the weight column.")
    count, weight, squares = small[:, order]
    values = np.empty((len(order), feature_map.n_features))
    for first in range(0, len(order), BLOCK):
        part = slice(first, first + BLOCK)
        for j, i in enumerate(order[part], start=first):
            np.divide(bags[i][SMALL:], weight[j], out=values[j])
        feature_map.finish(values[part], out=values[part])
    return Embeddings(
        values=values,
        key_table=keys.take(pa.array(order)),
        weight=weight,
        n_rows=count.astype(np.int64),
        effective_size=weight**2 / squares,
        warnings=warnings,
        frame=frame,
    )


def _order(keys: pa.Table, subgroups: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    names = keys.column_names
    if subgroups:
        rank = pc.index_in(keys[names[-1]], value_set=pa.array(subgroups))
        keys = keys.set_column(len(names) - 1, names[-1], rank)
    return np.asarray(pc.sort_indices(keys, sort_keys=[(n, "ascending") for n in names]).to_numpy(), dtype=np.int64)
