"""Subgroups of places as embeddings, and draws of their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy import sparse

from crosslevel.data.expressions import SUBGROUP
from crosslevel.ecological.answers import Drawn
from crosslevel.ecological.regression.model import Draws, RegressionModel
from crosslevel.ecological.subgroups import REST, Partition, Request
from crosslevel.embedding import Embeddings
from crosslevel.typing import FloatArray, IntArray

NEGLIGIBLE = 1e-9
"""Share of a place below which a rest is rounding."""


@dataclass(frozen=True, eq=False)
class EmbeddedPartition(Partition):
    """A partition whose parts have mean embeddings.

    They are not copied, since they are most of the memory, and are asked for a few at a time with :meth:`vectors`.

    Attributes
    ----------
    bags : (n_bags, p)
        Embeddings, among them those of the parts asked for.
    rows : (n_asked,) int
        Their rows in ``bags``.
    whole : (q, p)
        Embeddings of the places.
    """

    bags: FloatArray
    rows: IntArray
    whole: FloatArray

    def vectors(self, parts: IntArray) -> FloatArray:
        """Give the mean embeddings of some parts, not centered, (len(parts), p)."""
        M = np.empty((len(parts), self.bags.shape[1]))
        asked = self.level[parts] != REST
        M[asked] = self.bags[self.rows[parts[asked]]]
        if asked.all():
            return M
        place = self.place[parts[~asked]]
        # what is left of the place's sum when the parts asked for are taken out
        used = np.flatnonzero(np.isin(self.place[: len(self.rows)], place))
        number = np.full(len(self.whole), -1, dtype=np.intp)
        number[place] = np.arange(len(place))
        taken = sparse.csr_array(
            (self.share[used], (number[self.place[used]], np.arange(len(used)))), shape=(len(place), len(used))
        )
        rest = self.whole[place] - taken @ self.bags[self.rows[used]]
        M[~asked] = rest / self.share[parts[~asked], None]
        return M


def cut(found: Embeddings, request: Request, whole: Embeddings, keys: Sequence[object]) -> list[EmbeddedPartition]:
    """Turn embeddings of subgroups into partitions: one for all levels of ``by``, or one for each named subgroup.

    Parameters
    ----------
    found : Embeddings
        Keys: place, the by columns, and ``subgroup`` when subgroups are named.
    request : Request
    whole : Embeddings
        Of the places, in the order of ``keys``.
    keys : sequence
        Places.
    """
    number = {key: i for i, key in enumerate(keys)}
    names = found.key_table.column_names
    place = np.array([number.get(k, -1) for k in found.key_table[names[0]].to_pylist()], dtype=np.intp)
    inside = place >= 0
    if not request.subgroups:
        return [_partition(found, np.flatnonzero(inside), place, list(request.by), request, whole)]
    which = np.array(found.key_table[SUBGROUP].to_pylist(), dtype=object)
    partitions = []
    for name in request.subgroups:
        rows = np.flatnonzero(inside & (which == name))
        partitions.append(_partition(found, rows, place, [*request.by, SUBGROUP], request, whole, name))
    return partitions


def _partition(
    found: Embeddings,
    rows: IntArray,
    place: IntArray,
    names: list[str],
    request: Request,
    whole: Embeddings,
    name: str | None = None,
) -> EmbeddedPartition:
    if not names:
        label = str(request.where)
        levels = pa.table({SUBGROUP: [label]})
        level = np.zeros(len(rows), dtype=np.intp)
    else:
        seen = found.key_table.select(names).take(pa.array(rows))
        distinct: dict[tuple[object, ...], int] = {}
        each = list(zip(*(seen[n].to_pylist() for n in names), strict=True))
        for key in sorted(set(each), key=_sortable):
            distinct[key] = len(distinct)
        level = np.array([distinct[k] for k in each], dtype=np.intp)
        columns = list(zip(*distinct, strict=True)) if distinct else [() for _ in names]
        levels = pa.table({n: pa.array(c, seen.schema.field(n).type) for n, c in zip(names, columns, strict=True)})
        if name is not None and names == [SUBGROUP]:
            levels = pa.table({SUBGROUP: pa.array([name], seen.schema.field(SUBGROUP).type)})
    here = place[rows]
    weight = found.weight[rows]
    q = len(whole)
    taken = np.bincount(here, weights=weight, minlength=q)
    rest = whole.weight - taken
    r = np.flatnonzero(rest > NEGLIGIBLE * whole.weight)
    # Kish sizes of disjoint parts: sums of squared weights add up
    squares = whole.weight**2 / whole.effective_size - np.bincount(
        here, weights=weight**2 / found.effective_size[rows], minlength=q
    )
    kish = rest[r] ** 2 / np.maximum(squares[r], 1e-12 * rest[r] ** 2)
    place_all = np.concatenate([here, r])
    weight_all = np.concatenate([weight, rest[r]])
    return EmbeddedPartition(
        levels,
        place_all,
        np.concatenate([level, np.full(len(r), REST, dtype=np.intp)]),
        weight_all / np.bincount(place_all, weights=weight_all, minlength=q)[place_all],
        weight_all,
        np.concatenate([found.effective_size[rows], kish]),
        found.values,
        rows,
        whole.values,
    )


def _sortable(key: tuple[object, ...]) -> tuple[tuple[str, object], ...]:
    return tuple((type(k).__name__ if not isinstance(k, int | float) else "", k) for k in key)


class RegressionSource:
    """Parts of places, and draws of their logits.

    Parameters
    ----------
    model : RegressionModel
    partitions : list of EmbeddedPartition
    n_draws, seed : int
    """

    block = 1_000_000
    """Logits drawn at a time: 8 MB for each of the few copies the way takes, beside their embeddings."""

    def __init__(self, model: RegressionModel, partitions: list[EmbeddedPartition], n_draws: int, seed: int) -> None:
        self.model, self.partitions, self.n_draws, self.seed = model, partitions, n_draws, seed
        self.drawn: dict[int, Draws] = {}

    def draw(self, number: int, places: slice, parts: IntArray, n_stages: int) -> Drawn:
        """Draw the first questions of parts of places; nothing is known of confounding here."""
        part, logits = self.partitions[number], []
        M, place, effective = part.vectors(parts), part.place[parts], part.effective[parts]
        for stage in range(n_stages):
            if stage not in self.drawn:
                self.drawn[stage] = self.model.draws(stage, self.n_draws, self.seed)
            logits.append(self.model.logits(stage, self.drawn[stage], M, place, effective, (self.seed, number)))
        asked, distance = part.asked[parts], np.zeros(len(parts))
        distance[asked] = self.model.distance(M[asked], effective[asked])
        return Drawn(logits, None, distance)
