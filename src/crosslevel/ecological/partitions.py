"""Subgroups of places, and what is left of each place: parts that add up to the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from crosslevel.data.frames import as_names
from crosslevel.data.queries import SUBGROUP
from crosslevel.embedding.embeddings import Embeddings
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, IntArray

__all__ = ["REST", "Partition", "Request", "cut", "read_request"]


REST = -1
"""Level of the part that holds everybody not asked for."""
NEGLIGIBLE = 1e-9
"""Share of a place below which a rest is rounding."""


@dataclass(frozen=True)
class Request:
    """Which subgroups are asked for.

    Attributes
    ----------
    by : tuple of str
        Columns of people whose values are the subgroups.
    subgroups : mapping of name to query
    where : str or None
        A filter on the people asked for.
    """

    by: tuple[str, ...]
    subgroups: Mapping[str, str]
    where: str | None


@dataclass(frozen=True, eq=False)
class Partition:
    """The people of every place cut in parts: the levels asked for, then the rests.

    Embeddings are not copied: they are most of the memory, and are asked for a few at a time with :meth:`vectors`.

    Attributes
    ----------
    levels : pyarrow.Table
        One row per level asked for.
    place : (m,) int
        Place of each part.
    level : (m,) int
        Its level, or REST.
    share : (m,)
        Its share of the place's people.
    weight : (m,)
        Its people, by survey weights.
    effective : (m,)
        Kish's effective number of people.
    bags : (n_bags, p)
        Embeddings, among them those of the parts asked for; without columns where a link needs none.
    rows : (n_asked,) int
        Their rows in ``bags``.
    whole : (q, p)
        Embeddings of the places.
    """

    levels: pa.Table
    place: IntArray
    level: IntArray
    share: FloatArray
    weight: FloatArray
    effective: FloatArray
    bags: FloatArray
    rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    whole: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def asked(self) -> npt.NDArray[np.bool_]:
        """(m,) whether the part was asked for."""
        return self.level != REST

    @property
    def M(self) -> FloatArray:
        """(m, p) mean embeddings, not centred: all at once."""
        return self.vectors(np.arange(len(self.place)))

    def vectors(self, parts: IntArray) -> FloatArray:
        """Give the mean embeddings of some parts, not centred, (len(parts), p)."""
        M = np.empty((len(parts), self.bags.shape[1]))
        if not M.size:
            return M
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


def read_request(by: object, subgroups: Mapping[str, str] | None, where: str | None, place: str) -> Request:
    """Check what is asked for."""
    names = () if by is None else as_names(by, "by")  # type: ignore[arg-type]
    if place in names:
        raise InputError(
            f"by names {place!r}, which is the place itself; every answer is by place unless rollup says so."
        )
    if SUBGROUP in names:
        raise InputError(f"by names {SUBGROUP!r}, which is the key of named subgroups; rename that column of people.")
    if subgroups is not None and not isinstance(subgroups, Mapping):
        raise InputError(
            f"subgroups={subgroups!r} is no mapping of a name to a query; pass subgroups={{'women over 65': 'sex == 2 and age >= 65'}}."
        )
    for name in subgroups or ():
        if not isinstance(name, str):
            raise InputError(f"subgroups has the name {name!r}, which is no text; write {str(name)!r}.")
    if not names and not subgroups and where is None:
        raise InputError("nothing is asked for; pass by='column', subgroups={'name': 'query'} or where='query'.")
    return Request(names, dict(subgroups or {}), where)


def cut(found: Embeddings, request: Request, whole: Embeddings, keys: Sequence[object]) -> list[Partition]:
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
) -> Partition:
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
    return Partition(
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
