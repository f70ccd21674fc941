"""People of a stream counted by place and kind, in one pass at the memory of the distinct kinds.

How ecological inference uses it: ``learned = learn_people(stream, by=[place], ...)`` (:mod:`crosslevel.data.learning`);
``bins = learn_bins(learned.encoder, learned.encoded_sample(), n_bins)`` coarsens numbers to levels;
``count_people(stream, bins, place=..., keys=..., weight=...)`` counts equal people of every place in ``keys`` together, and with
``labels=Labels(by, subgroups, where)`` also by what is asked about them. People of weight 0 count for nothing; who lives in none of
the places is in ``elsewhere``. Rows of a matrix in memory are counted in :mod:`crosslevel.data.cells`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.batches import Batches
from crosslevel.data.clusters import ClusterRecords, Clusters
from crosslevel.data.columns import Category, Encoder, read_weights
from crosslevel.data.frames import group_rows
from crosslevel.data.progress import follow
from crosslevel.data.queries import Choice, Query
from crosslevel.errors import InputError, TooManyKindsError, listed
from crosslevel.typing import AnyArray, FloatArray, Int64Array, Progress

if TYPE_CHECKING:
    from crosslevel.data.engines import ClusterEngine

MOST_COMBINATIONS = 1 << 62
"""Combinations of levels that an int64 can number."""
MERGE_AT = 6_000_000
"""Counts held before equal ones are put together: about 300 MB."""
MOST_PAIRS = 8_000_000
"""Kinds of people of all places that are held once equal ones are together: about 400 MB, and under 2 GB while they are put together."""
BATCH_ROWS = 262_144
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
        Inner limits of the bins, in scaled units; a value at a limit falls in the bin above.
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
            limits = [column.mean + column.scale * e for e in self.edges[column.name]]
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

    def levels(self, batch: pa.RecordBatch, row: int) -> npt.NDArray[np.int32]:
        """Give the level of every person in every column, (n, n_columns)."""
        encoded = self.encoder.encode(batch, row)
        out = np.empty((batch.num_rows, len(self.encoder.columns)), dtype=np.int32)
        codes, reals = iter(encoded.codes.T), iter(encoded.reals.T)
        numbers = []
        for j, (column, offset) in enumerate(zip(self.encoder.columns, self.encoder.offsets, strict=False)):
            if isinstance(column, Category):
                out[:, j] = next(codes) - offset
            else:
                numbers.append((j, column))
        for j, column in numbers:
            edges = self.edges[column.name]
            out[:, j] = np.searchsorted(edges, next(reals), side="right")
            if column.has_null:  # marks of missing numbers come after the categories
                out[next(codes) >= 0, j] = len(edges) + 1
        return out


def learn_bins(encoder: Encoder, sample: FloatArray, n_bins: int) -> Bins:
    """Choose bins of numbers that hold about equal numbers of people.

    Parameters
    ----------
    encoder : Encoder
    sample : (n, n_inputs)
        Encoded people, drawn with their weights.
    n_bins : int
        The most bins of a number.
    """
    edges: dict[str, FloatArray] = {}
    for column, at in zip(encoder.columns, encoder.offsets, strict=False):
        if isinstance(column, Category):
            continue
        values = sample[:, at]
        if column.has_null:
            values = values[sample[:, at + 1] == 0.0]
        distinct = np.unique(values)
        if len(distinct) <= n_bins:
            found = 0.5 * (distinct[1:] + distinct[:-1])
        else:
            found = np.unique(np.quantile(values, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
            found = found[found > distinct[0]]
        edges[column.name] = found
    return Bins(encoder, edges)


@dataclass(frozen=True)
class Labels:
    """What else to tell people apart by: the values of columns, and which of several queries they match.

    Attributes
    ----------
    by : tuple of str
    subgroups : tuple of (name, Choice)
        Queries, as a rule.
    where : Query or None
        People who do not match are counted apart.
    """

    by: tuple[str, ...] = ()
    subgroups: tuple[tuple[str, Choice], ...] = ()
    where: Query | None = None

    @property
    def columns(self) -> list[str]:
        """Columns of people that are read."""
        asked = [c for _, q in self.subgroups for c in q.columns]
        return [*self.by, *asked, *(self.where.columns if self.where is not None else ())]


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
    n_rows : int
        People read.
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
    n_rows: int
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
    stream: Batches,
    bins: Bins,
    *,
    place: str,
    keys: Sequence[object],
    weight: str | None,
    labels: Labels | None = None,
    cluster: str | None = None,
    counted: bool = False,
    progress: Progress | None = None,
    engine: ClusterEngine | None = None,
) -> PlaceCells:
    """Count people by place, cell and label in one pass; places that are not among the keys are left out.

    Parameters
    ----------
    stream : Batches
    bins : Bins
    place : str
        Column that names the place.
    keys : sequence
        The places, in order.
    weight : str or None
    labels : Labels, optional
    cluster : str, optional
        Column that names people who were drawn together, such as the household; ``clusters`` is then set.
    counted : bool
        Whether weights are numbers of people, each of weight one.
    progress : bool or callable, optional
    engine : ClusterEngine, optional
        Where the pieces of the stream are counted; this process when not given.
    """
    work = _Counting(bins, place, tuple(keys), weight, labels or Labels(), cluster, counted)
    named = [name for name in (place, weight, cluster) if name is not None]
    columns = list(dict.fromkeys([*bins.names, *named, *work.labels.columns]))
    source = stream.select(columns, batch_size=BATCH_ROWS)
    with follow(progress, "Counting people") if progress is not None else nullcontext() as tell:
        if engine is None:
            found = _Counted(work)
            for batch in source:
                found.add(batch)
                if tell is not None:
                    tell(found.rows, source.num_rows)
        else:
            from crosslevel.data.engines import run_pass_on

            found, _ = run_pass_on(engine, source, work, _Counted.weight, tell)
    return found.finish()


@dataclass(frozen=True, eq=False)
class _Counting:
    """What is counted; called with the batches of a piece."""

    bins: Bins
    place: str
    keys: tuple[object, ...]
    weight: str | None
    labels: Labels
    cluster: str | None
    counted: bool

    def __call__(self, batches: Iterable[pa.RecordBatch], piece: int) -> _Counted:
        found = _Counted(self, piece)
        for batch in batches:
            found.add(batch)
        found.put_together()
        return found


class _Counted:
    """Some people counted."""

    def __init__(self, work: _Counting, piece: int = 0) -> None:
        self.work, self.rows, self.alone = work, 0, piece << 40
        self.number = {key: i for i, key in enumerate(work.keys)}
        self.strides = work.bins.strides()
        self.parts: list[tuple[AnyArray, ...]] = []  # place, cell, label, weight, people behind, squared weights
        self.held = 0
        self.known: dict[LabelKey, int] = {}
        self.elsewhere: Elsewhere = {}
        self.records = None if work.cluster is None else ClusterRecords(work.cluster)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch; weight 0 counts for nothing."""
        work, row = self.work, self.rows
        w = read_weights(batch, work.weight, row)
        where = group_rows(pa.Table.from_batches([batch.select([work.place])]), work.place, "by")
        here = where.keys[work.place].to_pylist()
        own = np.array([self.number.get(k, -1) for k in here], dtype=np.int64)[where.codes]
        for j in [j for j, k in enumerate(here) if k not in self.number]:
            mine = (where.codes == j) & (w > 0)
            self._outside(here[j], float(w[mine].sum()), int(mine.sum()))
        cell = work.bins.levels(batch, row).astype(np.int64) @ self.strides
        kept = (own >= 0) & (w > 0)
        v = w[kept]
        behind = (v, v) if work.counted else (np.ones(len(v)), v**2)
        self._hold(*_put_together(own[kept], cell[kept], _label(batch, work.labels, self.known)[kept], v, *behind))
        if self.records is not None:
            self.records.add(batch, row + self.alone, own, cell, w)
        self.rows += batch.num_rows

    def _outside(self, key: Any, weight: float, people: int) -> None:
        before = self.elsewhere.get(key, (0.0, 0))
        self.elsewhere[key] = (before[0] + weight, before[1] + people)

    def merge(self, other: _Counted) -> _Counted:
        """Count other people too; labels take the numbers they have here."""
        at = np.array([self.known.setdefault(key, len(self.known)) for key in other.known] or [0], dtype=np.int64)
        for place, cell, label, *amounts in other.parts:
            self._hold(place, cell, at[label], *amounts)
        for key, (weight, people) in other.elsewhere.items():
            self._outside(key, weight, people)
        if self.records is not None and other.records is not None:
            self.records.merge(other.records)
        self.rows += other.rows
        return self

    def weight(self) -> float:
        """Add up everybody's weight."""
        inside = math.fsum(float(part[3].sum()) for part in self.parts)
        return inside + math.fsum(weight for weight, _ in self.elsewhere.values())

    def _hold(self, *part: AnyArray) -> None:
        self.parts.append(part)
        self.held += len(part[0])
        # beside the first, which may hold all the others already
        if self.held - len(self.parts[0][0]) > MERGE_AT:
            self.put_together()

    def put_together(self) -> None:
        """Make one count of equal ones."""
        if not self.parts:
            return
        self.parts = [_put_together(*(np.concatenate(column) for column in zip(*self.parts, strict=True)))]
        self.held = len(self.parts[0][0])
        if self.held > MOST_PAIRS:
            raise TooManyKindsError(
                f"people are of more than {MOST_PAIRS:,} kinds (place, levels of all columns, and subgroups asked for), and no more are "
                f"held in memory; those of most levels are {self.work.bins.describe_cost()}. Leave such columns out of columns, merge "
                "their levels, or ask for fewer subgroups at a time."
            )

    def finish(self) -> PlaceCells:
        """Sort by place and give cells dense numbers."""
        self.put_together()
        if not self.held:
            here = f" ({self.work.place!r} is {listed(self.elsewhere, 3)} there, and {listed(self.work.keys, 3)} in places)"
            raise InputError(
                f"people has no rows of positive weight in any of the places{here if self.elsewhere else ''}; check the file, the "
                "keys and the where filter."
            )
        bins, known, n_places = self.work.bins, list(self.known), len(self.work.keys)
        place, cell, label, weight, behind, square = self.parts[0]
        distinct, dense = np.unique(cell, return_inverse=True)
        codes = (distinct[:, None] // self.strides % np.array(bins.sizes, dtype=np.int64)).astype(np.int32)
        total = np.asarray(np.bincount(place, weights=weight, minlength=n_places), dtype=np.float64)
        start = np.searchsorted(place, np.arange(n_places + 1)).astype(np.int64)
        at, size = place * len(known) + label, n_places * len(known)
        squares, count = (
            np.asarray(np.bincount(at, weights=v, minlength=size), dtype=np.float64).reshape(n_places, len(known))
            for v in (square, behind)
        )
        pairs = Pairs(start, dense.astype(np.int32), weight / total[place])
        people = (total, squares, count.astype(np.int64), self.rows, self.elsewhere)
        clusters = None if self.records is None else self.records.finish(distinct)
        return PlaceCells(codes, pairs, label.astype(np.int32), behind, square, known, *people, clusters)


def _label(batch: pa.RecordBatch, wanted: Labels, known: dict[LabelKey, int]) -> Int64Array:
    """Number the label of every person."""
    n = batch.num_rows
    code = np.zeros(n, dtype=np.int64)
    values: list[tuple[Any, ...]] = [()]
    outside = np.zeros(n, dtype=bool) if wanted.where is None else ~wanted.where.mask(batch)
    if wanted.by and not outside.all():
        # only those asked for must have a value
        inside = batch.select(list(wanted.by)).filter(pa.array(~outside))
        groups = group_rows(pa.Table.from_batches([inside]), wanted.by, "by")
        code[~outside] = groups.codes
        values = list(zip(*(groups.keys[c].to_pylist() for c in wanted.by), strict=True))
    bits = np.zeros((n, len(wanted.subgroups) // 62 + 1), dtype=np.int64)  # 62 subgroups to a number
    for j, (_, query) in enumerate(wanted.subgroups):
        bits[:, j // 62] |= query.mask(batch).astype(np.int64) << j % 62
    code = np.where(outside, -1, code)
    bits[outside] = 0
    both, inverse = np.unique(np.column_stack([code, bits]), axis=0, return_inverse=True)
    ids = np.empty(len(both), dtype=np.int64)
    for k, (c, *b) in enumerate(both.tolist()):
        matched = tuple(j for j in range(len(wanted.subgroups)) if b[j // 62] >> j % 62 & 1)
        ids[k] = known.setdefault((None if c < 0 else values[c], matched), len(known))
    return ids[inverse.reshape(-1)]


def _put_together(place: Int64Array, cell: Int64Array, label: Int64Array, *amounts: FloatArray) -> tuple[AnyArray, ...]:
    """Sum weights, numbers and squares of equal (place, cell, label), sorted by them."""
    distinct, dense = np.unique(cell, return_inverse=True)
    n_labels = int(label.max(initial=0)) + 1
    key = (place * len(distinct) + dense) * n_labels + label
    both, inverse = np.unique(key, return_inverse=True)
    summed = [np.asarray(np.bincount(inverse, weights=a, minlength=len(both)), dtype=np.float64) for a in amounts]
    rest = both // n_labels
    return rest // len(distinct), distinct[rest % len(distinct)], both % n_labels, *summed
