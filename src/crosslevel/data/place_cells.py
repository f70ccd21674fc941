"""People counted by place and kind, by SQL where they are.

``learn_columns(people).bins`` (:mod:`crosslevel.data.people_columns`) says how a person becomes a tuple of levels;
``count_people(people, bins, keys)`` counts equal people of every place in ``keys`` together, and with
``labels=Labels(by, subgroups, where)`` also by what is asked about them. People of weight 0 count for nothing; who lives in none of the
places is in ``elsewhere``. Rows of a matrix in memory are counted in :mod:`crosslevel.data.cells`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.columns import MISSING, UNKNOWN, Category, Encoder, Number, as_floats, plain_array
from crosslevel.data.expressions import Expression
from crosslevel.data.people import People
from crosslevel.data.sql import constant, quoted
from crosslevel.errors import InputError, TooManyKindsError, listed
from crosslevel.typing import AnyArray, FloatArray, Int64Array

MOST_COMBINATIONS = 1 << 54
"""Combinations of levels that an int64 can number."""
MOST_PAIRS = 8_000_000
"""Kinds of people of all places that are held: about 400 MB, and under 2 GB while they are put in order."""
BATCH_ROWS = 262_144
MOST_CLUSTERED = 8_000_000
"""People held by cluster: 256 MB. Of more, a part of the clusters is left out, by the hash of their names."""
MOST_NAMED = 40
"""Levels of a category that SQL numbers one by one."""
LOST = -(1 << 60)
"""Added to the number of a cell by a level that the fit has not seen."""
UNDRAWN = -1
"""Stands among the subgroups of people whose half of the clusters is drawn one by one."""
CELL = "cell"
"""First letters of the columns that tell kinds of people."""
Elsewhere: TypeAlias = dict[Any, tuple[float, int]]
LabelKey: TypeAlias = tuple[tuple[Any, ...] | None, tuple[int, ...]]
"""Values of ``by``, None outside ``where``, and the numbers of the subgroups that match."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The cells of every place and their weights, sorted by place.

    Attributes
    ----------
    start : (q + 1,) int64
        Pairs of place i are start[i] .. start[i + 1].
    cell : (n,) int32
    weight : (n,)
        Share of the place's people; adds up to one within a place.
    """

    start: Int64Array
    cell: npt.NDArray[np.int32]
    weight: FloatArray

    @property
    def n_places(self) -> int:
        """Number of places q."""
        return len(self.start) - 1

    @property
    def place(self) -> Int64Array:
        """(n,) place of each pair."""
        return np.repeat(np.arange(self.n_places), np.diff(self.start))

    def take(self, places: slice) -> Pairs:
        """Keep the pairs of neighboring places."""
        start = self.start[places.start : places.stop + 1]
        some = slice(int(start[0]), int(start[-1]))
        return Pairs(start - start[0], self.cell[some], self.weight[some])


@dataclass(frozen=True, eq=False)
class Bins:
    """How a person becomes a tuple of levels.

    Attributes
    ----------
    encoder : Encoder
        How columns are read.
    edges : mapping of number column to (n_bins - 1,)
        Inner limits of the bins; a value at a limit falls in the bin above.
    """

    encoder: Encoder
    edges: Mapping[str, FloatArray]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each column, missing included."""
        return tuple(
            c.width if isinstance(c, Category) else len(self.edges[c.name]) + 1 + c.has_null
            for c in self.encoder.columns
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.encoder.names

    def describe(self) -> dict[str, list[str]]:
        """Name the levels of every column; numbers by their bins."""
        out: dict[str, list[str]] = {}
        for column in self.encoder.columns:
            if isinstance(column, Category):
                out[column.name] = [name.split("=", 1)[1] for name in column.names()]
                continue
            limits = list(self.edges[column.name])
            shown = [f"< {limits[0]:.4g}"] if limits else ["any"]
            shown += [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(limits)]
            shown += [f">= {limits[-1]:.4g}"] if limits else []
            out[column.name] = shown + ["missing"] * column.has_null
        return out

    def describe_bins(self) -> str:
        """Say in how many bins each column of numbers was put.

        Examples
        --------
        >>> from crosslevel.data.columns import Number
        >>> Bins(Encoder((Number("age", 40.0, 15.0),)), {"age": np.array([-1.0, 0.0, 1.0])}).describe_bins()
        'age 4'
        """
        said = [f"{name} {len(self.edges[name]) + 1}" for name in self.names if name in self.edges]
        return ", ".join(said) or "none"

    def describe_cost(self) -> str:
        """Name the columns of most levels, whose combinations cost most.

        Examples
        --------
        >>> from crosslevel.data.columns import Number
        >>> Bins(Encoder((Number("age", 40.0, 15.0),)), {"age": np.array([-1.0, 0.0, 1.0])}).describe_cost()
        "'age' (4 levels)"
        """
        dear = sorted(zip(self.sizes, self.names, strict=True), key=lambda column: -column[0])[:5]
        return ", ".join(f"{name!r} ({size:,} levels)" for size, name in dear)

    def strides(self) -> Int64Array:
        """Give the factor of each column's level in the number of a cell; refuse more combinations than can be numbered."""
        total = math.prod(self.sizes)
        if total >= MOST_COMBINATIONS:
            kept, combinations = set(), 1
            for size, name in sorted(zip(self.sizes, self.names, strict=True)):
                combinations *= size
                if combinations < MOST_COMBINATIONS:
                    kept.add(name)
            raise InputError(
                f"the {len(self.names)} columns have {float(total):.2g} combinations of levels, more than can be numbered; those that "
                f"cost most are {self.describe_cost()}. Leave out what does not matter for the outcome, or merge levels; these "
                f"{len(kept)} can be used together: columns={[name for name in self.names if name in kept]}."
            )
        return np.array([math.prod(self.sizes[j + 1 :]) for j in range(len(self.sizes))], dtype=np.int64)

    def sql(self) -> list[str]:
        """Write what tells people apart: the number of the cell, and beside it columns of many levels as they are."""
        terms, wide = ["cast(0 as bigint)"], []
        for j, (column, stride) in enumerate(zip(self.encoder.columns, self.strides().tolist(), strict=True)):
            c, last = quoted(column.name), (self.sizes[j] - 1) * stride
            gap = f"when {c} is null then {last if column.has_null else LOST}"
            if isinstance(column, Number):
                above = " + ".join(f"cast({c} >= {edge!r} as bigint)" for edge in self.edges[column.name].tolist())
                terms.append(f"case {gap} else ({above or '0'}) * {stride} end")
            elif len(column.levels) > MOST_NAMED:
                wide.append(f"{c} as {CELL}{j}")
            elif column.labels:
                known = " ".join(f"when {constant(v)} then {i * stride}" for i, v in enumerate(column.labels))
                terms.append(f"case {gap} else case {c} {known} else {LOST} end end")
        return [f"{' + '.join(terms)} as {CELL}", *wide]

    def cells(self, people: People, batch: pa.RecordBatch) -> Int64Array:
        """Number the cells of what :meth:`sql` told; refuse levels that the fit has not seen."""
        cell = batch[CELL].to_numpy().astype(np.int64)
        for j, stride in enumerate(self.strides().tolist()):
            if f"{CELL}{j}" in batch.schema.names:
                cell += self._level(j, batch[f"{CELL}{j}"], "people") * stride
        if (cell < 0).any():
            self.levels(people.answer(f"select distinct {', '.join(map(quoted, self.names))} from people"))
        return cell

    def levels(self, table: pa.Table | pa.RecordBatch, argument: str = "people") -> npt.NDArray[np.int32]:
        """Give the level of every row in every column, (n, n_columns).

        Parameters
        ----------
        table : pyarrow.Table
        argument : str
            The caller's name for it, used in messages.
        """
        out = np.empty((table.num_rows, len(self.encoder.columns)), dtype=np.int32)
        for j, name in enumerate(self.names):
            out[:, j] = self._level(j, plain_array(table, name, argument), argument)
        return out

    def _level(self, j: int, values: pa.Array, argument: str) -> Int64Array:
        column, last = self.encoder.columns[j], self.sizes[j] - 1
        if isinstance(column, Category):
            found = column.codes(values)
            bad = (found == UNKNOWN) | ((found == MISSING) & (not column.has_null))
            if bad.any():
                column.refuse(values, bad, 0, argument, "recode it, leave these people out, or fit with them")
            return np.where(found == MISSING, last, found).astype(np.int64)
        numbers = as_floats(values, column.name)
        gaps = np.isnan(numbers)
        if gaps.any() and not column.has_null:
            raise InputError(
                f"{argument}: the column {column.name!r} is missing for {int(gaps.sum()):,} row(s), and never was in fit; fill it, "
                "leave these rows out, or fit with such people."
            )
        return np.where(gaps, last, np.searchsorted(self.edges[column.name], numbers, side="right"))


@dataclass(frozen=True)
class Labels:
    """What else to tell people apart by: the values of columns, and which of several conditions hold for them.

    Attributes
    ----------
    by : tuple of str
    subgroups : tuple of (name, Expression)
    where : Expression or None
        People for whom it does not hold are counted apart.
    half : int or None
        A seed: tell by a further subgroup, the last, who is in the first half of the clusters, which are drawn by their names; people
        without one are drawn one by one.
    """

    by: tuple[str, ...] = ()
    subgroups: tuple[tuple[str, Expression], ...] = ()
    where: Expression | None = None
    half: int | None = None


@dataclass(frozen=True, eq=False)
class Clusters:
    """People by cluster, such as the household: those of one cluster are neighbors.

    Attributes
    ----------
    place, cell : (n,) int
    cluster : (n,) int
        Number of each person's cluster; none stands in two places.
    weight : (n,)
    kept : float
        Share of the clusters that are here; the others were left out by chance, to save memory.
    """

    place: Int64Array
    cell: npt.NDArray[np.int32]
    cluster: Int64Array
    weight: FloatArray
    kept: float = 1.0


@dataclass(frozen=True, eq=False)
class PlaceCells:
    """People counted by place, cell and label.

    Attributes
    ----------
    codes : (n_cells, n_columns) int32
        Levels of each cell.
    pairs : Pairs
        Weights are shares of the place's people.
    label : (n,) int32
        Label of each pair.
    behind, square : (n,)
        People behind each pair, and the sum of their squared weights.
    labels : list of (by values or None, tuple of matched subgroups)
        None marks people outside ``where``.
    total : (q,)
        Weight of each place.
    squares, count : (q, n_labels)
        Sum of squared weights, and number of people.
    elsewhere : dict of key to (weight, number of people)
        Those who live in none of the places.
    clusters : Clusters or None
        The same people by cluster, where a column names those.
    """

    codes: npt.NDArray[np.int32]
    pairs: Pairs
    label: npt.NDArray[np.int32]
    behind: FloatArray
    square: FloatArray
    labels: list[LabelKey]
    total: FloatArray
    squares: FloatArray
    count: Int64Array
    elsewhere: Elsewhere
    clusters: Clusters | None = None

    def by_cluster(self) -> Clusters:
        """Give people by cluster; where none was named, everybody is a cluster of one."""
        if self.clusters is not None:
            return self.clusters
        # the squares of people of one kind add up as those of clusters do
        return Clusters(self.pairs.place, self.pairs.cell, np.arange(len(self.square)), np.sqrt(self.square))

    def inhabited(self) -> PlaceCells:
        """Leave out the places where nobody lives."""
        kept = self.total > 0
        if kept.all():
            return self
        pairs = replace(self.pairs, start=np.append(self.pairs.start[:-1][kept], self.pairs.start[-1]))
        clusters = self.clusters
        if clusters is not None:
            clusters = replace(clusters, place=(np.cumsum(kept) - 1)[clusters.place])
        left: dict[str, Any] = {"total": self.total[kept], "squares": self.squares[kept], "count": self.count[kept]}
        return replace(self, pairs=pairs, clusters=clusters, **left)


def count_people(
    people: People,
    bins: Bins,
    keys: Sequence[object],
    labels: Labels | None = None,
    *,
    only: Expression | None = None,
    clusters: bool = False,
    counted: bool = False,
) -> PlaceCells:
    """Count people by place, cell and label; weight 0 counts for nothing, places that are not among the keys are left out.

    Parameters
    ----------
    people : People
    bins : Bins
    keys : sequence
        The places, in order.
    labels : Labels, optional
    only : Expression, optional
        Count these people only.
    clusters : bool
        Whether to count by cluster too.
    counted : bool
        Whether weights are numbers of people, each of weight one.

    Examples
    --------
    >>> from crosslevel.data.people_columns import learn_columns
    >>> people = People({"town": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "f"]}, by="town")
    >>> found = count_people(people, learn_columns(people).bins, ["a", "b"])
    >>> found.codes.tolist(), found.pairs.cell.tolist(), found.pairs.weight.tolist()
    ([[0], [1]], [0, 1, 0], [0.5, 0.5, 1.0])
    """
    wanted, strides, w = labels or Labels(), bins.strides(), people.weight_sql
    group = [f"{quoted(people.place)} as place", *bins.sql(), *_label_sql(people, wanted)]
    numbered = ", ".join(str(i + 1) for i in range(len(group)))
    people_and_squares = (f"sum({w})", f"sum({w})") if counted else ("count(*)", f"sum({w} * {w})")
    sql = (
        f"select {', '.join(group)}, sum({w}) as weight, {people_and_squares[0]} as people, {people_and_squares[1]} as squares "
        f"from people where {w} > 0 group by {numbered} order by {numbered} limit {MOST_PAIRS + 1}"
    )
    number = {key: i for i, key in enumerate(keys)}
    parts: list[tuple[AnyArray, ...]] = []
    known: dict[LabelKey, int] = {}
    elsewhere: Elsewhere = {}
    held = 0
    for batch in people.batches(sql, BATCH_ROWS, only):
        held += batch.num_rows
        place = _places(batch, number, elsewhere)
        cell = bins.cells(people, batch)
        label = _labels(batch, wanted, known)
        amounts = [batch[name].to_numpy().astype(np.float64) for name in ("weight", "people", "squares")]
        inside = place >= 0
        parts.append(tuple(v[inside] for v in (place, cell, label, *amounts)))
    if held > MOST_PAIRS:
        raise TooManyKindsError(
            f"people are of more than {MOST_PAIRS:,} kinds (place, levels of all columns, and subgroups asked for), and no more are held "
            f"in memory; those of most levels are {bins.describe_cost()}. Leave such columns out of columns, merge their levels, or ask "
            "for fewer subgroups at a time."
        )
    rows = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    if not rows or not len(rows[0]):
        here = f" ({people.place!r} is {listed(elsewhere, 3)} there, and {listed(keys, 3)} in places)"
        raise InputError(
            f"people has no rows of positive weight in any of the places{here if elsewhere else ''}; check the file, the keys and the "
            "where filter."
        )
    names = list(known)
    if wanted.half is not None:
        rows, names = _halved(rows, names, len(wanted.subgroups), wanted.half)
    place, cell, label, weight, behind, square = rows
    distinct, dense = np.unique(cell, return_inverse=True)
    n_places, n_labels = len(keys), len(names)
    key = (place * len(distinct) + dense) * n_labels + label
    if (np.diff(key) < 0).any():
        order = np.argsort(key)
        place, dense, label, weight, behind, square = (v[order] for v in (place, dense, label, weight, behind, square))
    total = np.bincount(place, weight, n_places).astype(np.float64)
    at, size = place * n_labels + label, n_places * n_labels
    squares, count = (np.bincount(at, v, size).reshape(n_places, n_labels).astype(np.float64) for v in (square, behind))
    start = np.searchsorted(place, np.arange(n_places + 1)).astype(np.int64)
    codes = (distinct[:, None] // strides % np.array(bins.sizes, dtype=np.int64)).astype(np.int32)
    pairs = Pairs(start, dense.astype(np.int32), weight / total[place])
    people_by_label = (total, squares, np.rint(count).astype(np.int64), dict(sorted(elsewhere.items())))
    by_cluster = _count_clusters(people, bins, number, distinct) if clusters else None
    return PlaceCells(codes, pairs, label.astype(np.int32), behind, square, names, *people_by_label, by_cluster)


def _places(batch: pa.RecordBatch, number: Mapping[object, int], elsewhere: Elsewhere | None = None) -> Int64Array:
    """Number the place of every row, -1 for none of the keys, and gather who lives there."""
    encoded = batch["place"].dictionary_encode()
    here = encoded.dictionary.to_pylist()
    own = np.array([number.get(key, -1) for key in here], dtype=np.int64)
    at = encoded.indices.to_numpy(zero_copy_only=False)
    if elsewhere is not None and (own < 0).any():
        weight, people = (np.bincount(at, batch[n].to_numpy(), len(here)) for n in ("weight", "people"))
        for i in np.flatnonzero(own < 0).tolist():
            before = elsewhere.get(here[i], (0.0, 0))
            elsewhere[here[i]] = (before[0] + float(weight[i]), before[1] + int(people[i]))
    return own[at]


def _label_sql(people: People, wanted: Labels) -> list[str]:
    """Write the columns that labels are made of; people outside ``where`` are alike in all but that."""
    asked = "true" if wanted.where is None else f"coalesce({wanted.where.sql}, false)"
    said = [f"{asked} as asked"]
    said += [f"case when {asked} then {quoted(name)} end as by{i}" for i, name in enumerate(wanted.by)]
    said += [f"{asked} and coalesce({one.sql}, false) as subgroup{i}" for i, (_, one) in enumerate(wanted.subgroups)]
    if wanted.half is not None:
        coin, own = "cast(null as boolean)", people.weight_sql
        if people.cluster is not None:
            c = quoted(people.cluster)
            coin = f"case when {c} is not null then md5('{wanted.half}:' || cast({c} as varchar)) < '8' end"
            own = f"case when {c} is null then {own} end"
        said += [f"{coin} as half", f"{own} as alone"]
    return said


def _labels(batch: pa.RecordBatch, wanted: Labels, known: dict[LabelKey, int]) -> Int64Array:
    """Number the labels of rows; one whose half is still to be drawn has UNDRAWN among its subgroups."""
    names = ["asked", *(f"by{i}" for i in range(len(wanted.by)))]
    names += [f"subgroup{i}" for i in range(len(wanted.subgroups))] + ["half"] * (wanted.half is not None)
    code, parts, meanings = np.zeros(batch.num_rows, dtype=np.int64), [], []
    for name in names:
        encoded = batch[name].dictionary_encode("encode")
        parts.append(encoded.indices.to_numpy(zero_copy_only=False))
        meanings.append(encoded.dictionary.to_pylist())
        if len(meanings[-1]) > 1:
            code = np.unique(code * len(meanings[-1]) + parts[-1], return_inverse=True)[1].reshape(-1)
    first, end = np.unique(code, return_index=True)[1], 1 + len(wanted.by)
    ids = np.empty(len(first), dtype=np.int64)
    for k, row in enumerate(first.tolist()):
        asked, *values = (meaning[part[row]] for part, meaning in zip(parts, meanings, strict=True))
        own = tuple(values[: end - 1])
        if asked and None in own:
            name = wanted.by[own.index(None)]
            raise InputError(
                f"by={name!r} is missing for some of the people asked for; a group must be known. Leave them out with "
                f"where='{name} is not null'."
            )
        matched = tuple(j if held else UNDRAWN for j, held in enumerate(values[end - 1 :]) if held is not False)
        ids[k] = known.setdefault((own if asked else None, matched), len(known))
    return ids[code]


def _halved(
    rows: tuple[AnyArray, ...], known: list[LabelKey], last: int, seed: int
) -> tuple[tuple[AnyArray, ...], list[LabelKey]]:
    """Draw the half of people without a cluster, alike in weight, one by one."""
    place, cell, label, weight, behind, square = rows
    order = np.lexsort((weight / behind, label, cell, place))
    place, cell, label, weight, behind, square = (v[order] for v in rows)
    undrawn = np.array([UNDRAWN in matched for _, matched in known])
    final: dict[LabelKey, int] = {}
    numbers: tuple[list[int], list[int]] = ([], [])  # in the second half, in the first
    for by, matched in known:
        outside = tuple(j for j in matched if j not in (UNDRAWN, last))
        for half, own in enumerate((outside, (*outside, last))):
            numbers[half].append(final.setdefault((by, own), len(final)))
    drawn = np.random.default_rng(seed).binomial(np.rint(behind).astype(np.int64), 0.5) / behind
    fixed = np.array([float(last in matched) for _, matched in known])[label]
    first = np.where(undrawn[label], drawn, fixed)
    out = []
    for half, share in enumerate((1.0 - first, first)):
        some = share > 0
        label_of = np.array(numbers[half], dtype=np.int64)[label[some]]
        out.append((place[some], cell[some], label_of, *(v[some] * share[some] for v in (weight, behind, square))))
    merged = tuple(np.concatenate(column) for column in zip(*out, strict=True))
    key = np.lexsort(merged[2::-1])
    merged = tuple(v[key] for v in merged)
    new = np.append(True, np.any([np.diff(v) != 0 for v in merged[:3]], axis=0)).nonzero()[0]
    return (*(v[new] for v in merged[:3]), *(np.add.reduceat(v, new) for v in merged[3:])), list(final)


def _count_clusters(people: People, bins: Bins, number: Mapping[object, int], cells: Int64Array) -> Clusters:
    """Gather people by cluster; those without one are each their own."""
    assert people.cluster is not None
    c, w, kept = quoted(people.cluster), people.weight_sql, 1.0
    named, n = (
        people.answer(f"select count({c}) as named, count(*) as n from people").column(i)[0].as_py() for i in (0, 1)
    )
    if not named:
        raise InputError(
            f"cluster={people.cluster!r} is missing for everybody; name the column of households, or leave it out."
        )
    while n * kept > MOST_CLUSTERED:
        kept *= 0.5
    some = (
        ""
        if kept == 1.0
        else f"and md5(cast(coalesce({c}, {quoted(people.place)}) as varchar)) < '{int(kept * 2**32):08x}'"
    )
    group = [f"{quoted(people.place)} as place", *bins.sql()]
    numbers = ", ".join(str(i + 2) for i in range(len(group)))
    found = people.answer(
        f"select cast({c} as varchar) as own, {', '.join(group)}, sum({w}) as weight, count(*) as people from people "
        f"where {w} > 0 and {c} is not null {some} group by 1, {numbers} "
        f"union all select null as own, {', '.join(group)}, {w} as weight, 1 as people from people "
        f"where {w} > 0 and {c} is null {some}"
    ).combine_chunks()
    batch = found.to_batches()[0]
    place = _places(batch, number)
    encoded = batch["own"].dictionary_encode()
    rank = pc.rank(encoded.dictionary, sort_keys="ascending", tiebreaker="first").to_numpy().astype(np.int64) - 1
    alone = encoded.is_null().to_numpy(zero_copy_only=False)
    own = np.empty(found.num_rows, dtype=np.int64)
    own[~alone] = rank[encoded.indices.drop_null().to_numpy()]
    own[alone] = len(rank) + np.arange(int(alone.sum()))
    cell = np.searchsorted(cells, bins.cells(people, batch))
    inside = place >= 0
    place, own, cell, weight = (v[inside] for v in (place, own, cell, found["weight"].to_numpy()))
    order = np.lexsort((weight, cell, own, place))
    place, own = place[order], own[order]
    new = np.append(False, (np.diff(place) != 0) | (np.diff(own) != 0))
    return Clusters(
        place, cell[order].astype(np.int32), np.cumsum(new), np.asarray(weight[order], dtype=np.float64), kept
    )
