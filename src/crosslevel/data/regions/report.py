"""Say what merging and summing did."""

from __future__ import annotations

from dataclasses import dataclass

from crosslevel.errors import listed

__all__ = ["MergeReport"]


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
