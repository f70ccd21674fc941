"""Cut the people of every place in the parts that are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.queries import SUBGROUP
from crosslevel.ecological.subgroups import REST, Partition, Request
from crosslevel.typing import AnyArray, IntArray

__all__ = ["Parts", "cut_places"]

NEGLIGIBLE = 1e-9
"""Share of a place's people that is nobody."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A partition of the people of every place, and who belongs where.

    Attributes
    ----------
    partition : Partition
    level : (n_labels,) int
        Level of the people of each label, or REST.
    number : (q, n_levels + 1) int
        Part of each level of each place, the rest last; -1 where there is none.
    """

    partition: Partition
    level: IntArray
    number: IntArray

    def of(self, place: AnyArray, label: AnyArray) -> IntArray:
        """Give the part of people, by their place and label."""
        return np.asarray(self.number[place, self.level[label]])


def cut_places(cells: PlaceCells, request: Request, types: Mapping[str, pa.DataType]) -> list[Parts]:
    """Cut places in the parts that are asked for: one partition for all levels of ``by``, or one for each named subgroup.

    Parameters
    ----------
    cells : PlaceCells
        Counted with the labels of the request.
    request : Request
    types : mapping of by column to its Arrow type
    """
    names, q, place = list(request.subgroups), cells.pairs.n_places, cells.pairs.place
    out = []
    for k in range(max(len(names), 1)):
        own = [
            values if values is not None and (not names or k in matched) else None for values, matched in cells.labels
        ]
        values = sorted({v for v in own if v is not None}, key=_sortable)
        position = {v: j for j, v in enumerate(values)}
        level = np.array([REST if v is None else position[v] for v in own], dtype=np.intp)
        columns: dict[str, pa.Array] = {n: pa.array([v[j] for v in values], types[n]) for j, n in enumerate(request.by)}
        if names or not request.by:
            columns[SUBGROUP] = pa.array([names[k] if names else str(request.where)] * len(values), pa.string())
        n = len(values) + 1
        at, size = place * n + level[cells.label] % n, q * n
        sums = [np.bincount(at, v, size).reshape(q, n) for v in (cells.pairs.weight, cells.square)]
        share, square = (np.asarray(v, dtype=np.float64) for v in sums)
        share[:, -1] = np.where(share[:, -1] > NEGLIGIBLE, share[:, -1], 0.0)
        # parts asked for first, then the rests
        asked, rest = np.nonzero(share[:, :-1] > 0), np.flatnonzero(share[:, -1] > 0)
        where = np.concatenate([asked[0], rest]).astype(np.intp)
        which = np.concatenate([asked[1], np.full(len(rest), REST)]).astype(np.intp)
        part = share[where, which] / np.bincount(where, share[where, which], q)[where]
        weight = part * cells.total[where]
        effective = weight**2 / np.maximum(square[where, which], 1e-12 * weight**2)
        number = np.full((q, n), -1, dtype=np.intp)
        number[where, which] = np.arange(len(where))
        out.append(Parts(Partition(pa.table(columns), where, which, part, weight, effective), level, number))
    return out


def _sortable(values: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(type(v).__name__), v) if isinstance(v, str) else ("", v) for v in values)
