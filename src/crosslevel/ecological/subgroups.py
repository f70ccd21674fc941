"""Which subgroups are asked for, where, and how: requests, questions and partitions of places, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks
from crosslevel.data.expressions import SUBGROUP, read_expression
from crosslevel.data.frames import as_names
from crosslevel.data.place_cells import Labels, PlaceCells
from crosslevel.data.places import PlaceTotals
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import AnyArray, BoolArray, FloatArray, IntArray

NEGLIGIBLE = 1e-9
"""Share of a place's people that is nobody."""
REST = -1
"""Level of the part that holds everybody not asked for."""
LEAST_DRAWS, MOST_DRAWS = 50, 1_000_000
SHARES_OF = ("voters", "people", "turnout")
TAKEN = (
    *("estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "neighborhood", "goodman"),
    *("population", "effective_size", "distance", "shift", "outcome", "against", "model_low", "model_high"),
)
"""Columns of the answer that a key must not be called: they would take its place."""


@dataclass(frozen=True)
class Request:
    """Which subgroups are asked for.

    Attributes
    ----------
    by : tuple of str
        Columns of people whose values are the subgroups.
    subgroups : mapping of name to expression
    where : str or None
        A filter on the people asked for.
    """

    by: tuple[str, ...]
    subgroups: Mapping[str, str]
    where: str | None


@dataclass(frozen=True, eq=False)
class Partition:
    """The people of every place cut in parts: the levels asked for, then the rests.

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
    """

    levels: pa.Table
    place: IntArray
    level: IntArray
    share: FloatArray
    weight: FloatArray
    effective: FloatArray

    @property
    def asked(self) -> BoolArray:
        """(m,) whether the part was asked for."""
        return self.level != REST


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


@dataclass(frozen=True)
class Rollup:
    """Where the answer is given: each place by itself, or places put together.

    Attributes
    ----------
    name : str or None
        Key column; None when there is one row for everywhere.
    labels : tuple
    member : (q,) int
        Label of each place.
    """

    name: str | None
    labels: tuple[object, ...]
    member: IntArray


@dataclass(frozen=True)
class Question:
    """What is asked, checked.

    Attributes
    ----------
    rollup : Rollup
    share_of : {"voters", "people", "turnout"}
    level : float
    n_draws : int
    seed : int
    interval : {"confounding", "model"}
        Whether intervals allow for confounding.
    """

    rollup: Rollup
    share_of: str
    level: float
    n_draws: int
    seed: int
    interval: str = "model"


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
            f"subgroups={subgroups!r} is no mapping of a name to a condition; pass subgroups={{'women over 65': 'sex = 2 and age >= 65'}}."
        )
    for name in subgroups or ():
        if not isinstance(name, str):
            raise InputError(f"subgroups has the name {name!r}, which is no text; write {str(name)!r}.")
    if not names and not subgroups and where is None:
        raise InputError(
            "nothing is asked for; pass by='column', subgroups={'name': 'condition'} or where='condition'."
        )
    return Request(names, dict(subgroups or {}), where)


def read_question(
    places: PlaceTotals,
    request: Request,
    *,
    rollup: str | Sequence[str] | None,
    share_of: str,
    level: float,
    n_draws: int,
    seed: int,
    interval: str = "model",
) -> Question:
    """Check what is asked about the subgroups."""
    if share_of not in SHARES_OF:
        raise unknown_name("share_of", share_of, SHARES_OF, "share")
    if share_of != "voters" and not places.totals.turnout:
        raise InputError(f"share_of={share_of!r} needs turnout; name the column of everybody, Places(population=...).")
    checks.check_whole(n_draws, "n_draws", LEAST_DRAWS, MOST_DRAWS)
    name = None if rollup is None else _one_name(rollup)
    if name is not None and name in request.by:
        raise InputError(f"rollup={name!r} is also in by; name it in one of them.")
    found = _rollup(places, name)
    for key in (*request.by, found.name):
        own = SUBGROUP in (key, found.name) and (request.subgroups or not request.by)
        if key in TAKEN or (own and key == SUBGROUP):
            raise InputError(f"the key {key!r} is called like a column of the answer; rename that column.")
    return Question(found, share_of, checks.check_level(level), int(n_draws), seed, interval)


def _one_name(rollup: object) -> str:
    """Read one name, by itself or as a list of one."""
    names = as_names(rollup, "rollup")  # type: ignore[arg-type]
    if len(names) > 1:
        raise InputError(
            f"rollup={list(names)!r} names {len(names)} columns of places, and answers roll up to one; make a column of them together, "
            "or ask for each."
        )
    return names[0]


def _rollup(places: PlaceTotals, name: str | None) -> Rollup:
    q = len(places)
    if name is None:
        return Rollup(places.by, tuple(places.keys), np.arange(q))
    if name == "all":
        return Rollup(None, (None,), np.zeros(q, dtype=np.intp))
    values = places.column(name, "rollup")
    kind = places.table.schema.field(name).type
    labels = sorted(set(values), key=str if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) else None)  # type: ignore[type-var,arg-type]
    number = {v: i for i, v in enumerate(labels)}
    return Rollup(name, tuple(labels), np.array([number[v] for v in values], dtype=np.intp))


def labels_of(request: Request, schema: pa.Schema) -> Labels:
    """Say what to tell people apart by; names and conditions are checked against their columns."""
    for name in request.by:
        if name not in schema.names:
            raise unknown_name("by", name, schema.names)
    where = None if request.where is None else read_expression(request.where, "where", schema)
    queries = tuple((n, read_expression(query, f"subgroups[{n!r}]", schema)) for n, query in request.subgroups.items())
    return Labels(request.by, queries, where)


def cut_places(
    cells: PlaceCells,
    request: Request,
    types: Mapping[str, pa.DataType],
    orders: Mapping[str, Sequence[Any]] | None = None,
) -> list[Parts]:
    """Cut places in the parts that are asked for: one partition for all levels of ``by``, or one for each named subgroup.

    Parameters
    ----------
    cells : PlaceCells
        Counted with the labels of the request.
    request : Request
    types : mapping of by column to its Arrow type
    orders : mapping of by column to its values in order, optional
        Where they have an order of their own.
    """
    names, q, place = list(request.subgroups), cells.pairs.n_places, cells.pairs.place
    positions = {n: {v: i for i, v in enumerate(order)} for n, order in (orders or {}).items()}

    def rank(values: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        return _sortable(tuple(positions.get(n, {}).get(v, v) for n, v in zip(request.by, values, strict=True)))

    out = []
    for k in range(max(len(names), 1)):
        own = [
            values if values is not None and (not names or k in matched) else None for values, matched in cells.labels
        ]
        values = sorted({v for v in own if v is not None}, key=rank)
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
