"""Merge two overlapping geographies into the finest regions that both can be summed to, and sum votes and people onto them.

Votes are counted by county, people are surveyed by area, and neither nests in the other. In the graph whose nodes
are the counties and the areas and whose edges are the rows of a crosswalk, the connected components are the
smallest regions that whole counties and whole areas tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crosslevel.data.frames import (
    Groups,
    as_names,
    check_columns,
    frame_kind,
    from_arrow,
    group_rows,
    kind_of,
    to_arrow,
)
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.typing import IntArray

__all__ = ["MergeReport", "Regions", "merge_regions"]

Key: TypeAlias = tuple[str | int, ...]
Node: TypeAlias = str | Key
"""A left place of the graph: a key, one value for each key column, or the label of collapsed keys."""
Names: TypeAlias = str | Sequence[str] | None
Unmatched: TypeAlias = Literal["error", "report"]


@checked
def merge_regions(
    crosswalk: object,
    left: str | Sequence[str] = "county",
    right: str | Sequence[str] = "puma",
    collapse: Mapping[str, object] | None = None,
    join: Sequence[tuple[object, object]] | None = None,
) -> Regions:
    """Which regions can both sides of a crosswalk be summed to?

    Parameters
    ----------
    crosswalk : dataframe
        One row per overlap of a left place and a right place. Repeated rows are harmless.
    left, right : str or list of str
        The key columns of each side, text or whole numbers; several when a code is unique only within another, as in
        ``right=["state", "puma"]``.
    collapse : mapping of label to rule, optional
        Left places to treat as one node. A rule is a key or pattern (``{"AK": "02*"}``; ``*`` stands for any
        text), or a list of these; with several left columns their values stand with a dash between (``"02-*"``). Rules
        hold beyond the crosswalk: a table's row whose key the crosswalk lacks (votes by district, an old code) lands on
        the node of the rule that matches it. Where a table reuses the crosswalk's codes for other places, only a
        collapse keeps its rows from landing on the wrong one.
    join : list of pairs, optional
        Left places, or labels of ``collapse``, to connect although no right place does.

    Returns
    -------
    Regions
        Regions in order of their smallest left key. A region of one left place is named after it; of several, after
        the smallest and how many more there are (``"01005+2"``). A collapsed node counts as one place, goes by its
        label and names its region first (``"AK"``). So the name of a region changes only when its members do.

    Examples
    --------
    >>> crosswalk = {"county": ["a", "a", "b", "c", "d"], "puma": [1, 2, 2, 3, 4]}
    >>> regions = merge_regions(crosswalk)
    >>> regions.labels
    ('a+1', 'c', 'd')
    >>> votes, report = regions.sum_left({"county": ["a", "b", "c", "d"], "dem": [10, 5, 7, 9]}, columns=["dem"])
    >>> votes["dem"].to_pylist()
    [15, 7, 9]
    >>> merge_regions(crosswalk, collapse={"C": ["c", "d"]}, join=[("C", "a")]).labels
    ('C+2',)
    """
    table = to_arrow(crosswalk, "crosswalk")
    if not table.num_rows:
        raise InputError("crosswalk has no rows; pass one row per overlap of a left and a right place.")
    sides = [Side(as_names(names, argument)) for names, argument in ((left, "left"), (right, "right"))]
    sides[0].rules.update({str(label): _patterns(rule) for label, rule in (collapse or {}).items()})
    (keys, codes), (others, other_codes) = (
        side.read(table, argument) for side, argument in zip(sides, ("left", "right"), strict=True)
    )
    of_key = [sides[0].node(key) for key in keys]
    nodes = list(dict.fromkeys(of_key))
    for label in sides[0].rules:
        if label not in nodes:
            raise InputError(
                f"collapse[{label!r}] matches no left key of the crosswalk; its keys are {listed(map(said, keys))}. A pattern needs a "
                "'*', as in '02*', and codes their leading zeros."
            )
    place = {node: i for i, node in enumerate(nodes)}
    pairs = [_joined(pair, sides[0], place) for pair in join or ()]

    rows = np.concatenate([np.array([place[node] for node in of_key])[codes], [a for a, _ in pairs]]).astype(np.int64)
    columns = np.concatenate([len(nodes) + other_codes, [b for _, b in pairs]]).astype(np.int64)
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(nodes) + len(others),) * 2)
    component = connected_components(graph, directed=False)[1].tolist()
    number = {c: region for region, c in enumerate(dict.fromkeys(component))}
    region = [number[c] for c in component]
    sides[0].region.update(zip(nodes, region, strict=False))
    sides[1].region.update(zip(others, region[len(nodes) :], strict=True))
    members: list[list[Node]] = [[] for _ in number]
    for node in sorted(nodes, key=lambda node: isinstance(node, tuple)):
        members[sides[0].region[node]].append(node)
    labels = tuple(said(m[0]) + (f"+{len(m) - 1}" if len(m) > 1 else "") for m in members)
    twice = [label for label in labels if labels.count(label) > 1] if len(set(labels)) < len(labels) else []
    if twice:
        raise InputError(
            f"two regions would both be named {twice[0]!r}; choose collapse labels that are not left keys."
        )
    return Regions(sides[0].table(keys, labels), sides[1].table(others, labels), labels, *sides)


def said(node: Node) -> str:
    """Write a place as text, the values of several columns joined by dashes.

    Examples
    --------
    >>> said(("01", 100)), said("AK")
    ('01-100', 'AK')
    """
    return node if isinstance(node, str) else "-".join(map(str, node))


def _key(value: object) -> Key:
    return tuple(value) if isinstance(value, tuple | list) else (value,)  # type: ignore[return-value]


def _patterns(rule: object) -> list[str]:
    return [said(_key(one)) for one in (rule if isinstance(rule, list | set | frozenset) else [rule])]


def _joined(pair: object, side: Side, place: Mapping[Node, int]) -> tuple[int, int]:
    """Find the two nodes that an entry of ``join`` names."""
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise InputError(f"join has the entry {pair!r}; each entry is a pair of left places, as in join=[(a, b)].")
    found = [place.get(value if value in side.rules else side.node(_key(value))) for value in pair]
    for value, node in zip(pair, found, strict=True):
        if node is None:
            raise unknown_name("join", value, [*side.rules, *(said(n) for n in place)], "left place")
    return found[0], found[1]  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the crosswalk: its key columns, the collapse rules, and the region of each node."""

    columns: tuple[str, ...]
    rules: dict[str, list[str]] = field(default_factory=dict)
    region: dict[Node, int] = field(default_factory=dict)
    keys: set[Key] = field(default_factory=set)

    def read(self, table: pa.Table, argument: str, by: Names = None) -> tuple[list[Key], IntArray]:
        """Give the distinct keys of a table, sorted, and the position in them of each row's key."""
        names = self.columns if by is None else as_names(by, "by")
        check_columns(table, names, argument)
        for name in names:
            kind = table[name].type
            if kind_of(kind) != "text" and not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
                raise InputError(
                    f"{argument}: the key column {name!r} holds {kind} values; keys are text or whole numbers."
                )
        groups: Groups = group_rows(table, names, argument)
        return list(zip(*(column.to_pylist() for column in groups.keys.columns), strict=True)), groups.codes

    def node(self, key: Key) -> Node:
        """Name the node of a key: the label of the rule that matches it, or the key itself."""
        text = said(key)
        labels = [
            label for label, rule in self.rules.items() if any(text == one or fnmatchcase(text, one) for one in rule)
        ]
        if len(labels) > 1:
            raise InputError(
                f"collapse puts the key {text!r} in {len(labels)} nodes ({listed(labels)}); each key matches one rule."
            )
        return labels[0] if labels else key

    def table(self, keys: Sequence[Key], labels: Sequence[str]) -> pa.Table:
        """Tabulate the region of every key of the crosswalk, sorted by key."""
        self.keys.update(keys)
        columns: dict[str, Any] = {name: [key[i] for key in keys] for i, name in enumerate(self.columns)}
        columns["merged_region" if "region" in columns else "region"] = [
            labels[self.region[self.node(key)]] for key in keys
        ]
        return pa.table(columns)

    def locate(self, table: pa.Table, by: Names) -> tuple[dict[Key, int], IntArray]:
        """Find the region of each key of a table and of each of its rows; -1 where there is none."""
        keys, codes = self.read(table, "by", by)
        found = {key: self.region.get(self.node(key), -1) for key in keys}
        return found, np.array([*found.values(), -1])[codes]

    def refuse(self, found: Mapping[Key, int], unmatched: str, totals: Mapping[str, float]) -> None:
        """Refuse keys that lie in no region, unless that is to be reported; none in any is always an error."""
        if unmatched not in ("error", "report"):
            raise unknown_name("unmatched", unmatched, ["error", "report"], "choice")
        missing = [key for key, region in found.items() if region < 0]
        if not missing or (unmatched == "report" and len(missing) < len(found)):
            return
        bare = {said(key).lstrip("0"): key for key in self.keys}
        twin = next((key for key in missing if said(key).lstrip("0") in bare), None)
        hint = (
            f" {said(twin)!r} would be {bare[said(twin).lstrip('0')]!r} in the crosswalk: read codes as text."
            if twin
            else ""
        )
        sums = f", with {', '.join(f'{name} {total:,}' for name, total in totals.items())}" if totals else ""
        raise InputError(
            f"by: {len(missing):,} of {len(found):,} keys lie in no region ({listed(map(said, missing))}){sums}.{hint} Map them with a "
            "collapse rule of merge_regions, such as {'AK': '02*'}, drop their rows, or pass unmatched='report' to leave them out."
        )


@dataclass(frozen=True, eq=False)
class MergeReport:
    """What summing did, to be read before the numbers are used; ``print`` it.

    Attributes
    ----------
    totals, unmatched_totals : dict of str to number
        Sum of each column over the whole table, and over its rows that lie in no region.
    collapsed : dict of str to tuple
        The keys of the table that each collapse rule placed although the crosswalk lacks them.
    unmatched : tuple
        The keys of the table that lie in no region.
    without_rows : tuple
        The places of the crosswalk that no row of the table speaks of.
    empty_regions : tuple of str
        The regions without any row; their sums are null.

    Examples
    --------
    >>> from crosslevel.data.regions import merge_regions
    >>> regions = merge_regions({"county": ["a", "a", "b", "c"], "puma": [1, 2, 2, 3]})
    >>> _, report = regions.sum_left({"county": ["a", "b", "x"], "dem": [3, 4, 5]}, columns=["dem"], unmatched="report")
    >>> print(report)
    dem: 12 in all, 5 unmatched.
    In no region: 1 ('x').
    In the crosswalk but without rows: 1 ('c').
    Regions without rows, whose sums are null: 1 ('c').
    """

    totals: dict[str, float]
    unmatched_totals: dict[str, float]
    collapsed: dict[str, tuple[str, ...]]
    unmatched: tuple[str, ...]
    without_rows: tuple[str, ...]
    empty_regions: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{n}: {total:,} in all, {self.unmatched_totals[n]:,} unmatched." for n, total in self.totals.items()]
        lists = {f"Collapsed to {label!r}, which the crosswalk lacks": keys for label, keys in self.collapsed.items()}
        lists |= {"In no region": self.unmatched, "In the crosswalk but without rows": self.without_rows}
        lists |= {"Regions without rows, whose sums are null": self.empty_regions}
        return "\n".join(
            [*lines, *(f"{what}: {len(keys):,} ({listed(keys)})." for what, keys in lists.items() if keys)]
        )


@dataclass(frozen=True, eq=False)
class Regions:
    """The merged regions, and the way of either side's rows to them; made by :func:`merge_regions`.

    Attributes
    ----------
    left, right : pyarrow.Table
        The region of every left key and of every right key of the crosswalk, sorted by key.
    labels : tuple of str
        The regions, in order of their smallest left key.

    Examples
    --------
    >>> from crosslevel.data.regions import merge_regions
    >>> regions = merge_regions({"county": ["a", "a", "b", "c"], "puma": [1, 2, 2, 3]})
    >>> regions
    <Regions: 2 from 3 left and 3 right places; sum tables with .sum_left and .sum_right>
    >>> regions.label_right({"puma": [3, 1], "age": [40, 50]})["region"].to_pylist()
    ['c', 'a+1']
    """

    left: pa.Table
    right: pa.Table
    labels: tuple[str, ...]
    _left: Side = field(repr=False)
    _right: Side = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"<Regions: {self.n_regions:,} from {self.left.num_rows:,} left and {self.right.num_rows:,} right places; "
            "sum tables with .sum_left and .sum_right>"
        )

    @property
    def n_regions(self) -> int:
        """How many regions there are."""
        return len(self.labels)

    def label_left(self, table: object, by: Names = None, unmatched: Unmatched = "error") -> Any:
        """Add a column ``region`` to a table keyed by left places; arguments as in :meth:`sum_left`."""
        return self._label(table, by, unmatched, self._left)

    def label_right(self, table: object, by: Names = None, unmatched: Unmatched = "error") -> Any:
        """Add a column ``region`` to a table keyed by right places; arguments as in :meth:`sum_left`."""
        return self._label(table, by, unmatched, self._right)

    def _label(self, frame: object, by: Names, unmatched: Unmatched, side: Side) -> Any:
        table = to_arrow(frame, "table")
        if "region" in table.column_names:
            raise InputError("table already has a column 'region'; rename or drop it first.")
        found, rows = side.locate(table, by)
        side.refuse(found, unmatched, {})
        index = pa.array(rows.astype(np.int32), mask=rows < 0)
        names = pa.DictionaryArray.from_arrays(index, pa.array(self.labels, pa.string()))
        return from_arrow(table.append_column("region", names), frame_kind(frame))

    def sum_left(
        self, table: object, by: Names = None, columns: Sequence[str] = (), unmatched: Unmatched = "error"
    ) -> tuple[Any, MergeReport]:
        """Sum a table keyed by left places (votes by county) onto the regions.

        Parameters
        ----------
        table : dataframe
            Any number of rows per key.
        by : str or list of str, optional
            Its key columns; by default those of the crosswalk's left side.
        columns : list of str
            What to sum. Integers are summed exactly, as int64; missing values, and sums that int64 cannot hold, are
            refused.
        unmatched : {"error", "report"}
            Whether rows that lie in no region are an error, or left out and told in the report.

        Returns
        -------
        table : dataframe of the kind passed in
            One row per region, in the order of ``labels``; null for a region without rows.
        report : MergeReport
        """
        return self._sum(table, by, columns, unmatched, self._left)

    def sum_right(
        self, table: object, by: Names = None, columns: Sequence[str] = (), unmatched: Unmatched = "error"
    ) -> tuple[Any, MergeReport]:
        """Sum a table keyed by right places (people by area) onto the regions; arguments as in :meth:`sum_left`."""
        return self._sum(table, by, columns, unmatched, self._right)

    def _sum(
        self, frame: object, by: Names, columns: Sequence[str], unmatched: Unmatched, side: Side
    ) -> tuple[Any, MergeReport]:
        table, names = to_arrow(frame, "table"), as_names(columns, "columns")
        if "region" in names:
            raise InputError("columns names 'region', which is what the answer calls its regions; rename that column.")
        check_columns(table, names, "columns")
        found, rows = side.locate(table, by)
        sums = {name: _sums(table[name], name, rows, self.n_regions) for name in names}
        outside = {name: own.pop() for name, own in sums.items()}
        side.refuse(found, unmatched, outside)
        empty = np.bincount(rows[rows >= 0], minlength=self.n_regions) == 0
        total = {name: outside[name] + sum(own) for name, own in sums.items()}
        answer = {"region": pa.array(self.labels, pa.string())}
        answer |= {name: pa.array(own, mask=empty) for name, own in sums.items()}
        spoken = {side.node(key) for key in found}
        collapsed: dict[str, list[str]] = {}
        for key in found:
            if (label := side.node(key)) in side.rules and key not in side.keys:
                collapsed.setdefault(str(label), []).append(said(key))
        report = MergeReport(
            totals=total,
            unmatched_totals=outside,
            collapsed={label: tuple(keys) for label, keys in collapsed.items()},
            unmatched=tuple(said(key) for key, region in found.items() if region < 0),
            without_rows=tuple(sorted(said(node) for node in side.region.keys() - spoken)),
            empty_regions=tuple(label for label, none in zip(self.labels, empty, strict=True) if none),
        )
        return from_arrow(pa.table(answer), frame_kind(frame)), report


def _sums(values: pa.ChunkedArray, name: str, region: IntArray, n: int) -> list[Any]:
    """Sum a column by region, whole numbers exactly; the last sum is that of rows in none."""
    kind = values.type
    if kind_of(kind) not in ("number", "boolean"):
        raise InputError(f"columns: {name!r} is a column of {kind}, not of numbers; convert it first.")
    floating = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    missing = int((~np.isfinite(numbers)).sum())
    if missing:
        raise InputError(
            f"columns: {name!r} is missing or infinite in {missing:,} row(s); fill in or drop these rows, for a sum would hide them."
        )
    if not floating:
        if np.abs(numbers).sum() >= 2.0**63:
            raise InputError(f"columns: {name!r} adds up to more than whole numbers hold; change its unit.")
        numbers = values.cast(pa.int64()).to_numpy()
    sums = np.zeros(n + 1, numbers.dtype)
    np.add.at(sums, region, numbers)
    return sums.tolist()
