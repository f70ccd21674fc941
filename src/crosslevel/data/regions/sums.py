"""The merged regions, and the sums of either side's tables onto them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.frames import as_names, check_columns, frame_kind, from_arrow, to_arrow
from crosslevel.data.regions.keys import (
    Key,
    KeyColumns,
    Rule,
    as_key,
    node_of,
    plain,
    read_keys,
    zero_padding,
)
from crosslevel.errors import InputError, listed, unknown_name

Unmatched = Literal["error", "report"]
MOST = 9e18  # a little below 2**63, so that the rounding of a float cannot hide an overflow


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the crosswalk: its key columns and the region of each key."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    region: dict[Key, int]
    rules: tuple[Rule, ...] = ()
    rule_region: dict[str, int] = field(default_factory=dict)

    def table(self, labels: Sequence[str]) -> pa.Table:
        """Tabulate the region of every key, sorted by key."""
        rows = sorted(self.region.items(), key=lambda item: item[0])
        columns = {name: [key[i] for key, _ in rows] for i, name in enumerate(self.columns)}
        return pa.table(columns | {_free("region", self.columns): [labels[r] for _, r in rows]})

    def locate(self, keys: Sequence[Key]) -> npt.NDArray[np.int64]:
        """Find the region of each key, by the crosswalk and else by the collapse rules; -1 where there is none."""
        return np.array([self._locate(key) for key in keys], np.int64)

    def _locate(self, key: Key) -> int:
        if key in self.region:
            return self.region[key]
        node = node_of(key, self.rules)
        return self.rule_region[node] if isinstance(node, str) else -1

    def check_kinds(self, kinds: Sequence[str], keys: Sequence[Key], columns: Sequence[str]) -> None:
        """Refuse keys of another number of columns or another kind than the crosswalk's, which could never match."""
        if len(kinds) != len(self.kinds):
            raise InputError(
                f"by={list(columns)!r} names {len(kinds)} column(s); the {self.name} side of the crosswalk has "
                f"{len(self.kinds)} ({listed(self.columns)}). Pass as many, in the same order."
            )
        for mine, theirs, name, ours in zip(self.kinds, kinds, columns, self.columns, strict=True):
            if mine != theirs and keys:
                raise InputError(
                    f"by={name!r} holds {theirs} where {ours!r} of the crosswalk holds {mine}, so no key can match."
                    f"{zero_padding(keys, self.region) or ' Read both files with the codes as text.'}"
                )


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"merged_{name}"
    return name


@dataclass(frozen=True, eq=False)
class MergeReport:
    """What merging and summing did, to be read before the numbers are used; ``print`` it.

    Attributes
    ----------
    columns : tuple of str
        The summed columns.
    totals, unmatched_totals : dict of str to number
        Sum of each column over the whole table, and over its rows that lie in no region.
    merged : dict of str to tuple
        The regions of several left nodes, with these nodes.
    joins : tuple of pairs
        The joins applied.
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
    2 regions, 1 of them of several places.
    dem: 12 in all, 5 unmatched.
    In no region: 1 key(s) ('x').
    In the crosswalk but without rows: 1 ('c').
    Regions without rows: 1 ('c'); sums are null.
    """

    columns: tuple[str, ...]
    totals: dict[str, float | int]
    unmatched_totals: dict[str, float | int]
    n_regions: int
    merged: dict[str, tuple[object, ...]]
    joins: tuple[tuple[object, object], ...]
    collapsed: dict[str, tuple[object, ...]]
    unmatched: tuple[object, ...]
    without_rows: tuple[object, ...]
    empty_regions: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.n_regions:,} regions, {len(self.merged):,} of them of several places."]
        lines += [f"Joined: {a!r} and {b!r}." for a, b in self.joins]
        for label, keys in self.collapsed.items():
            lines.append(f"Collapsed to {label!r}: {len(keys):,} key(s) the crosswalk lacks ({listed(keys, 3)}).")
        lines += [f"{n}: {self.totals[n]:,} in all, {self.unmatched_totals[n]:,} unmatched." for n in self.columns]
        if self.unmatched:
            lines.append(f"In no region: {len(self.unmatched):,} key(s) ({listed(self.unmatched)}).")
        if self.without_rows:
            lines.append(
                f"In the crosswalk but without rows: {len(self.without_rows):,} ({listed(self.without_rows)})."
            )
        if self.empty_regions:
            lines.append(
                f"Regions without rows: {len(self.empty_regions):,} ({listed(self.empty_regions)}); sums are null."
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Regions:
    """The merged regions, and the way of either side's rows to them; made by :func:`merge_regions`.

    Attributes
    ----------
    left, right : pyarrow.Table
        The region of every left key and of every right key of the crosswalk, sorted by key.
    labels : tuple of str
        The regions, in order of their smallest left key.
    members : tuple of tuple
        The left nodes of each region: labels of collapsed nodes and keys (tuples).
    joins : tuple of pairs
        The joins applied.

    Examples
    --------
    >>> from crosslevel.data.regions import merge_regions
    >>> regions = merge_regions({"county": ["a", "a", "b", "c"], "puma": [1, 2, 2, 3]})
    >>> regions
    <Regions: 2 from 3 left and 3 right places; sum tables with .sum_left and .sum_right>
    >>> regions.region_of_left(["b", "c"]), regions.region_of_right([1])
    (['a+1', 'c'], ['a+1'])
    >>> regions.label_right({"puma": [3, 1], "age": [40, 50]})["region"].to_pylist()
    ['c', 'a+1']
    """

    left: pa.Table
    right: pa.Table
    labels: tuple[str, ...]
    members: tuple[tuple[str | Key, ...], ...]
    joins: tuple[tuple[str | Key, str | Key], ...]
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

    def region_of_left(self, keys: Sequence[object], unmatched: Unmatched = "error") -> list[str | None]:
        """Name the region of each left key; with ``unmatched="report"``, None where there is none."""
        return self._regions_of(keys, self._left, unmatched)

    def region_of_right(self, keys: Sequence[object], unmatched: Unmatched = "error") -> list[str | None]:
        """Name the region of each right key; with ``unmatched="report"``, None where there is none."""
        return self._regions_of(keys, self._right, unmatched)

    def _regions_of(self, keys: Sequence[object], side: Side, unmatched: Unmatched) -> list[str | None]:
        refuse = _may_refuse(unmatched)
        wanted = [as_key(key) for key in keys]
        found = side.locate(wanted)
        missing = [key for key, region in zip(wanted, found, strict=True) if region < 0]
        if missing and refuse:
            raise _unmatched_error("keys", missing, len(wanted), {}, side)
        return [self.labels[region] if region >= 0 else None for region in found]

    def label_left(self, table: object, by: str | Sequence[str] | None = None, unmatched: Unmatched = "error") -> Any:
        """Add a column ``region`` to a table keyed by left places; arguments as in :meth:`sum_left`."""
        return self._label(table, by, unmatched, self._left)

    def label_right(self, table: object, by: str | Sequence[str] | None = None, unmatched: Unmatched = "error") -> Any:
        """Add a column ``region`` to a table keyed by right places; arguments as in :meth:`sum_left`."""
        return self._label(table, by, unmatched, self._right)

    def _label(self, frame: object, by: str | Sequence[str] | None, unmatched: Unmatched, side: Side) -> Any:
        refuse = _may_refuse(unmatched)
        table = to_arrow(frame, "table")
        if "region" in table.column_names:
            raise InputError("table already has a column 'region'; rename or drop it first.")
        found, region = _locate_rows(table, by, side)
        missing = [key for key, r in zip(found.keys, region, strict=True) if r < 0]
        if missing and refuse:
            raise _unmatched_error(f"by={_by_said(by, side)}", missing, len(found.keys), {}, side)
        codes = region[found.codes]
        index = pa.array(np.where(codes < 0, 0, codes).astype(np.int32), mask=codes < 0)
        names = pa.DictionaryArray.from_arrays(index, pa.array(self.labels, pa.string()))
        return from_arrow(table.append_column("region", names), frame_kind(frame))

    def sum_left(
        self,
        table: object,
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] = (),
        unmatched: Unmatched = "error",
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
        self,
        table: object,
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] = (),
        unmatched: Unmatched = "error",
    ) -> tuple[Any, MergeReport]:
        """Sum a table keyed by right places (people by area) onto the regions; arguments as in :meth:`sum_left`."""
        return self._sum(table, by, columns, unmatched, self._right)

    def _sum(
        self, frame: object, by: str | Sequence[str] | None, columns: Sequence[str], unmatched: Unmatched, side: Side
    ) -> tuple[Any, MergeReport]:
        refuse = _may_refuse(unmatched)
        table = to_arrow(frame, "table")
        names = as_names(columns, "columns")
        if "region" in names:
            raise InputError("columns names 'region', which is what the answer calls its regions; rename that column.")
        check_columns(table, names, "columns")
        found, region = _locate_rows(table, by, side)
        values = {name: _addends(table[name], name) for name in names}
        rows = region[found.codes]
        report = self._report(found, region, {n: (v.sum(), v[rows < 0].sum()) for n, v in values.items()}, side)
        if report.unmatched and refuse:
            missing = [key for key, r in zip(found.keys, region, strict=True) if r < 0]
            raise _unmatched_error(f"by={_by_said(by, side)}", missing, len(found.keys), report.unmatched_totals, side)
        empty = np.bincount(region[region >= 0], minlength=self.n_regions) == 0
        sums: dict[str, pa.Array] = {"region": pa.array(self.labels, pa.string())}
        for name, addends in values.items():
            total = np.zeros(self.n_regions, addends.dtype)
            np.add.at(total, rows[rows >= 0], addends[rows >= 0])
            sums[name] = pa.array(total, mask=empty)
        return from_arrow(pa.table(sums), frame_kind(frame)), report

    def _report(
        self, found: KeyColumns, region: npt.NDArray[np.int64], totals: dict[str, tuple[Any, Any]], side: Side
    ) -> MergeReport:
        collapsed: dict[str, list[object]] = {}
        spoken: set[str | Key] = set()
        for key, r in zip(found.keys, region, strict=True):
            node = node_of(key, side.rules)
            spoken.add(node)
            if isinstance(node, str) and r >= 0 and key not in side.region:
                collapsed.setdefault(node, []).append(plain(key))
        silent = {node for key in side.region if (node := node_of(key, side.rules)) not in spoken}
        seen = set(region.tolist())
        return MergeReport(
            columns=tuple(totals),
            totals={n: t.item() for n, (t, _) in totals.items()},
            unmatched_totals={n: u.item() for n, (_, u) in totals.items()},
            n_regions=self.n_regions,
            merged={
                label: tuple(shown(n) for n in nodes)
                for label, nodes in zip(self.labels, self.members, strict=True)
                if len(nodes) > 1
            },
            joins=tuple((shown(a), shown(b)) for a, b in self.joins),
            collapsed={label: tuple(sorted(keys, key=str)) for label, keys in collapsed.items()},
            unmatched=tuple(sorted((plain(k) for k, r in zip(found.keys, region, strict=True) if r < 0), key=str)),
            without_rows=tuple(sorted((shown(node) for node in silent), key=str)),
            empty_regions=tuple(label for i, label in enumerate(self.labels) if i not in seen),
        )


def shown(node: str | Key) -> object:
    """Show a node as the caller writes it: the label of a collapse, or a key."""
    return node if isinstance(node, str) else plain(node)


def _by_said(by: str | Sequence[str] | None, side: Side) -> str:
    names = side.columns if by is None else as_names(by, "by")
    return repr(names[0]) if len(names) == 1 else repr(list(names))


def _may_refuse(unmatched: str) -> bool:
    if unmatched not in ("error", "report"):
        raise unknown_name("unmatched", unmatched, ["error", "report"], "choice")
    return unmatched == "error"


def _locate_rows(
    table: pa.Table, by: str | Sequence[str] | None, side: Side
) -> tuple[KeyColumns, npt.NDArray[np.int64]]:
    columns = side.columns if by is None else as_names(by, "by")
    found = read_keys(table, columns, "by")
    side.check_kinds(found.kinds, found.keys, columns)
    return found, side.locate(found.keys)


def _addends(values: pa.ChunkedArray, name: str) -> npt.NDArray[Any]:
    """Read a column to be summed: int64 when it holds integers, else float64."""
    kind = values.type
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not (whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"columns: {name!r} is a column of {kind}, not of numbers; convert it to numbers first.")
    floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    bad = ~np.isfinite(floats)
    if bad.any():
        raise InputError(
            f"columns: {name!r} is missing or infinite in {int(bad.sum()):,} row(s), first in row {int(np.argmax(bad)):,}; "
            "fill in or drop these rows, for a sum would hide them."
        )
    if whole and np.abs(floats).sum() > MOST:
        raise InputError(
            f"columns: {name!r} adds up to about {np.abs(floats).sum():.2g}, more than integers of 64 bits hold; convert it to "
            "floats first."
        )
    return np.asarray(values.cast(pa.int64()).to_numpy()) if whole else floats


def _unmatched_error(
    argument: str, missing: Sequence[Key], of: int, totals: Mapping[str, float | int], side: Side
) -> InputError:
    shown = listed(sorted((plain(key) for key in missing), key=str))
    sums = f", with {', '.join(f'{name} {total:,}' for name, total in totals.items())}" if totals else ""
    repair = (
        " Map them with a collapse rule of merge_regions (for example {'AK': '02*'}),"
        if side.name == "left"
        else " Correct them,"
    )
    return InputError(
        f"{argument}: {len(missing):,} of {of:,} keys lie in no region ({shown}){sums}."
        f"{zero_padding(missing, side.region)}{repair} drop their rows, or pass unmatched='report' to leave them out."
    )
