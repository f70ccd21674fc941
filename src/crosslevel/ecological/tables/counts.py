"""``Counts``: who lives in each unit and what they did there, counted; who did what is the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.data.audit import Sheet
from crosslevel.data.checks import check_counts, read_list
from crosslevel.data.people import People
from crosslevel.data.places import read_table
from crosslevel.ecological.tables.margins import (
    Repairs,
    UnitTables,
    balanced,
    read_repairs,
    refuse_totals,
    unrepeated,
    without_excess,
    without_missing,
)
from crosslevel.ecological.tables.memberships import MembershipCounts
from crosslevel.ecological.tables.shares import Side, by_total, refuse_shares
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray, IntArray

Columns = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Options: columns of these names, or name to the column or columns that are summed."""
NAME_MARKS = ("/", "|", ";")
"""What may stand between the parts of a unit's name."""


def read_columns(given: Any, argument: str) -> dict[str, tuple[str, ...]]:
    """Read which columns count which option.

    Examples
    --------
    >>> read_columns({"white": "vap_white", "other": ["asian", "native"]}, "groups")
    {'white': ('vap_white',), 'other': ('asian', 'native')}
    """
    if not isinstance(given, Mapping) and (isinstance(given, str) or not isinstance(given, Sequence)):
        raise InputError(
            f"{argument}={given!r} is no list of columns; pass {argument}=['a', 'b'], or names of their own: {{'A': 'a'}}."
        )
    named = given if isinstance(given, Mapping) else {name: name for name in given}
    if not named:
        raise InputError(f"{argument} names no columns; pass at least two that together hold everybody.")
    found = {name: frames.as_names(parts, f"{argument}[{name!r}]") for name, parts in named.items()}
    used = [name for parts in found.values() for name in parts]
    if not all(isinstance(name, str) for name in found) or len(set(used)) < len(used) or (len(found) < len(given)):
        raise InputError(
            f"{argument} names {listed(used)}: options are texts, and each column counts once; correct it."
        )
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Units with how many people of each group there are, and how many with each outcome: one row for each.

    Parameters
    ----------
    data : dataframe or path
    unit : str or sequence of str, optional
        Column that names the unit (precinct, county), or those that name it together; rows are numbered when not given.
    groups : sequence of str, or mapping of name to column(s)
        Columns with the people of each group; a mapping names the groups, and sums several columns. Also sums of membership
        probabilities, as :func:`crosslevel.ecological.group_counts` makes them, which are matched by the unit's name.
    outcomes : sequence of str, or mapping of name to column(s), optional
        Columns with the people of each outcome. :func:`crosslevel.ecological.rpv` takes contests in their place.
    total_groups, total_outcomes : str, optional
        Columns of everybody of whom groups (outcomes) are counts, shares up to 1 or percentages. People in none of the groups become the
        group "other", those with none of the outcomes the outcome "others".
    covariates : sequence of str, optional
        Columns with what else is known of the units: numbers, or text.
    repair : "error" or mapping, default "error"
        What to do with data that are not whole, all of which is refused when not asked for. ``balance="scale"`` scales
        outcomes that do not add up to the groups, ``rest="did not vote"`` makes the difference an option of that name;
        ``excess="raise"`` or ``"drop"`` treats units of more outcomes than people, ``missing="zero"`` or ``"drop"`` missing numbers,
        ``duplicates="drop_identical"`` or ``"sum"`` units named more than once. What was changed is said in every answer.

    See Also
    --------
    crosslevel.ecological.rxc : which share of each group has each outcome.
    crosslevel.ecological.bounds : what the counts imply with certainty.

    Examples
    --------
    >>> precincts = {"name": ["A", "B"], "young": [30, 10], "old": [70, 40], "yes": [50, 20], "no": [30, 30]}
    >>> counts = Counts(
    ...     precincts, unit="name", groups=["young", "old"], outcomes=["yes", "no"], repair={"rest": "did not vote"}
    ... )
    >>> counts
    Counts(2 rows by 'name': groups 'young', 'old'; outcomes 'yes', 'no'; repair={'rest': 'did not vote'})
    >>> print(counts.summary())
    2 units by 'name', 150 people
    groups                        people   share
      young                           40   26.7 %
      old                            110   73.3 %
    outcomes                      people   share
      yes                             70   46.7 %
      no                              60   40.0 %
      did not vote                    20   13.3 %
    Outcomes fell short in 1 of 2 units; the outcome 'did not vote' takes the difference: 20 people, 13 % of all ('A').
    """

    data: Any
    _: KW_ONLY
    groups: Any
    outcomes: Any = None
    unit: str | Sequence[str] | None = None
    total_groups: str | None = None
    total_outcomes: str | None = None
    covariates: Sequence[str] = ()
    repair: Mapping[str, str] | str = "error"
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", read_table(self.data, "counts"))
        if not isinstance(self.groups, MembershipCounts):
            object.__setattr__(self, "groups", read_columns(self.groups, "groups"))
        if self.outcomes is not None:
            object.__setattr__(self, "outcomes", read_columns(self.outcomes, "outcomes"))
        object.__setattr__(self, "covariates", tuple(read_list(self.covariates or (), "covariates")))
        for argument in ("total_groups", "total_outcomes"):
            name = getattr(self, argument)
            if name is not None and not isinstance(name, str):
                raise InputError(
                    f"{argument}={name!r} is not a column name; pass one of {listed(self.table.column_names, 12)}."
                )
        roles = self.columns
        for argument, names in roles.items():
            frames.check_columns(self.table, names, argument)
        owner: dict[str, str] = {}
        for argument in ("groups", "outcomes", "unit", "total_groups", "total_outcomes"):
            for name in roles[argument]:
                other = owner.setdefault(name, argument)
                if other != argument and {other, argument} != {"total_groups", "total_outcomes"}:
                    raise InputError(f"{argument} names {name!r}, which {other} names too; a column has one role.")
        if self.keys == () and isinstance(self.groups, MembershipCounts):
            raise InputError("groups are sums by unit, matched by its name; name its column: unit='precinct'.")
        self.repairs  # noqa: B018

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Columns of the data by their role."""
        found: dict[str, list[str]] = {}
        for argument in ("groups", "outcomes"):
            side = getattr(self, argument)
            found[argument] = [name for parts in side.values() for name in parts] if isinstance(side, Mapping) else []
        for argument in ("total_groups", "total_outcomes"):
            name = getattr(self, argument)
            found[argument] = [] if name is None else [name]
        return found | {"unit": list(self.keys), "covariates": list(self.covariates)}

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Columns that name the unit."""
        return () if self.unit is None else frames.as_names(self.unit, "unit")

    @cached_property
    def repairs(self) -> Repairs:
        """What is repaired."""
        return read_repairs(self.repair)

    @property
    def frame(self) -> frames.FrameKind:
        """The kind of dataframe to answer with."""
        return frames.frame_kind(self.data) if frames.is_frame(self.data) else "pyarrow"

    @cached_property
    def names(self) -> tuple[object, ...]:
        """The unit of every row of the data; a name may repeat."""
        return unit_names(self.table, self.keys)

    @cached_property
    def tables(self) -> UnitTables:
        """The margins of every unit with people, checked and repaired."""
        if self.outcomes is None:
            raise InputError("counts have no outcomes; pass crosslevel.Counts(data, groups=..., outcomes=[...]).")
        n = self.table.num_rows
        if n == 0:
            raise InputError("counts have no rows; pass at least one unit.")
        repairs, names = self.repairs, self.names
        totals = {a: self._total(a) for a in ("total_groups", "total_outcomes") if getattr(self, a) is not None}
        X, of_groups, holes = self._side("groups", self.groups)
        T, of_outcomes, more = self._side("outcomes", self.outcomes)
        used = dict.fromkeys(
            name for argument, columns in self.columns.items() if argument != "covariates" for name in columns
        )
        start = UnitTables(
            X,
            T,
            of_groups,
            of_outcomes,
            names,
            np.arange(n),
            self.frame,
            {"counts": frames.fingerprint(self.table.select(list(used)))},
        )
        m = without_missing(start, totals, repairs.missing, holes + more)
        m = self._in_counts(m, totals)
        m = unrepeated(m, repairs.duplicates, named=bool(self.keys))
        refuse_totals(m)
        m = balanced(without_excess(m, repairs.excess), repairs)
        keep = m.X.sum(axis=1) > 0
        if not keep.any():
            raise InputError("groups are zero in every unit; at least one unit needs people.")
        if not keep.all():
            m = m.kept(keep, f"{int((~keep).sum()):,} unit(s) without people were left out ({m.named(~keep)}).")
        for argument, options in (("groups", m.groups), ("outcomes", m.outcomes)):
            if len(options) < 2:
                raise InputError(
                    f"{argument} has {len(options)} column(s); it needs at least two that together hold everybody. Add the rest "
                    "(for example 'other') as a column of its own."
                )
        return self._with_covariance(m) if isinstance(self.groups, MembershipCounts) else m

    def _total(self, argument: str) -> FloatArray:
        name = getattr(self, argument)
        values = frames.column(self.table, name, argument)
        check_counts(np.nan_to_num(values, nan=0.0, posinf=np.inf), f"{argument}={name!r}", 1, self.names)
        return values

    def _side(self, argument: str, columns: Any) -> tuple[FloatArray, tuple[str, ...], IntArray]:
        """Read one margin (n, k), names of its options and how many values each row misses, here zero."""
        if isinstance(columns, MembershipCounts):
            return (
                columns.values[self._rows_of(columns)],
                tuple(columns.counts.column_names),
                np.zeros(len(self.names), dtype=np.intp),
            )
        made, holes = [], np.zeros(self.table.num_rows, dtype=np.intp)
        for parts in columns.values():
            total = np.zeros(self.table.num_rows)
            for name in parts:
                values = frames.column(self.table, name, argument)
                gone = np.isnan(values)
                check_counts(np.where(gone, 0.0, values), f"{argument} column {name!r}", 1, self.names)
                holes += gone
                total += np.where(gone, 0.0, values)
            made.append(total)
        return np.column_stack(made), tuple(columns), holes

    def _in_counts(self, m: UnitTables, totals: Mapping[str, FloatArray]) -> UnitTables:
        """Bring shares to counts, and add what is missing to the totals."""
        sides = Side("groups", m.groups, m.X, m.units), Side("outcomes", m.outcomes, m.T, m.units)
        refuse_shares([s for s in sides if f"total_{s.argument}" not in totals], not totals and not m.off_balance.any())
        # what is missing to the people of the groups themselves are those without an outcome
        later = bool(self.repairs.rest) and self.total_groups == self.total_outcomes
        x, t = (
            by_total(side, totals[f"total_{side.argument}"][m.rows], later and side.argument == "outcomes")
            if f"total_{side.argument}" in totals
            else side
            for side in sides
        )
        notes = tuple(side.note for side in (x, t) if side.note)
        return replace(m, X=x.values, T=t.values, groups=x.names, outcomes=t.names, notes=(*m.notes, *notes))

    def _rows_of(self, sums: MembershipCounts) -> IntArray:
        """Find the row of every unit in sums by unit."""
        where = {name: i for i, name in enumerate(sums.keys)}
        lacking = [name for name in self.names if name not in where]
        if lacking:
            raise InputError(
                f"groups have no sums for {len(lacking):,} unit(s) ({listed(lacking)}) among {listed(sums.keys, 3)}; add their people, "
                "or drop these units. Names must have the same type in both."
            )
        return np.array([where[name] for name in self.names], dtype=np.intp)

    def _with_covariance(self, m: UnitTables) -> UnitTables:
        """Give the covariance of the groups' counts, scaled as their counts were; zero for a group added."""
        sums = self.groups
        if sums.covariance is None:
            return m
        if self.repairs.duplicates == "sum":
            raise InputError(
                "repair={'duplicates': 'sum'} has no place with membership probabilities; name each unit once."
            )
        rows = self._rows_of(sums)[m.rows]
        before, R = sums.values[rows].sum(axis=1), sums.covariance.shape[2]
        factor = np.divide(m.X[:, :R].sum(axis=1), before, out=np.ones(len(rows)), where=before > 0)
        full = np.zeros((2, len(rows), m.X.shape[1], m.X.shape[1]))
        full[:, :, :R, :R] = sums.covariance[:, rows] * factor[:, None, None] ** 2
        return m.noted(sums.note, membership=full)

    def by_unit(self, columns: Sequence[str], argument: str) -> pa.Table:
        """Give columns of the data, a row for every unit with people."""
        frames.check_columns(self.table, columns, argument)
        tables = self.tables
        if self.repairs.duplicates == "sum":
            first = dict(zip(tables.units, tables.rows.tolist(), strict=True))
            for name in columns:
                values = self.table[name].to_pylist()
                for unit, value in zip(self.names, values, strict=True):
                    if unit in first and values[first[unit]] != value:
                        raise InputError(
                            f"{argument}: {name!r} has two values in the unit {unit!r}, whose rows were summed; give it one."
                        )
        return self.table.select(list(columns)).take(pa.array(tables.rows))

    def roles(self) -> dict[str, Any]:
        """Give what each column means, all that is not data."""
        named = {"unit": list(self.keys), "groups": self.groups, "outcomes": self.outcomes}
        for argument in ("groups", "outcomes"):
            if isinstance(named[argument], Mapping):
                named[argument] = {n: p[0] if len(p) == 1 else list(p) for n, p in named[argument].items()}
        if isinstance(self.groups, MembershipCounts):
            named["groups"] = list(self.groups.counts.column_names)
        named |= {a: getattr(self, a) for a in ("total_groups", "total_outcomes")}
        repairs = {n: v for n, v in asdict(self.repairs).items() if v not in ("error", "")}
        named |= {"covariates": list(self.covariates), "repair": repairs or None}
        return {n: v for n, v in named.items() if v is not None and v != []}

    def describe(self) -> str:
        """Write this as a call, for a provenance."""
        return f"crosslevel.Counts(counts, {', '.join(f'{n}={v!r}' for n, v in self.roles().items())})"

    def sheets(self) -> list[Sheet]:
        """Say what an audit looks at: both margins, each with its total."""
        units = People(self.table, by=self.unit, columns=self.covariates)
        totals = {"groups": self.total_groups, "outcomes": self.total_outcomes}
        return [
            Sheet(f"counts of {side}", units, (tuple(self.columns[side]),), whole, shared=whole is not None)
            for side, whole in totals.items()
            if self.columns[side]
        ]

    def summary(self) -> str:
        """Write units, groups, outcomes and totals on one screen."""
        m = self.tables
        by = f" by {listed(self.keys)}" if self.keys else ""
        lines = [f"{len(m.units):,} units{by}, {m.N.sum():,.10g} people"]
        for side, names, values in (("groups", m.groups, m.X), ("outcomes", m.outcomes, m.T)):
            sums = values.sum(axis=0)
            lines.append(f"{side:<22}{'people':>14}   share")
            lines += [
                f"  {n[:20]:<20}{k:>14,.10g}{100 * k / sums.sum():>7.1f} %" for n, k in zip(names, sums, strict=True)
            ]
        return "\n".join([*lines, *m.notes])

    def __repr__(self) -> str:
        by = f" by {listed(self.keys)}" if self.keys else ""
        sides = [
            ("groups", self.groups.counts.column_names if isinstance(self.groups, MembershipCounts) else self.groups)
        ]
        sides += [("outcomes", self.outcomes)] if self.outcomes is not None else []
        said = [f"{side} {listed(list(names), 8)}" for side, names in sides]
        said += [f"{n}={v!r}" for n, v in self.roles().items() if n not in ("unit", "groups", "outcomes")]
        return f"Counts({self.table.num_rows:,} rows{by}: {'; '.join(said)})"


def unit_names(table: pa.Table, parts: Sequence[str]) -> tuple[object, ...]:
    """Name every row by one column, or by several joined with a mark that none of their values holds; by number without any.

    Examples
    --------
    >>> unit_names(pa.table({"county": ["n", "s"], "precinct": [1, 1]}), ["county", "precinct"])
    ('n/1', 's/1')
    """
    if not parts:
        return tuple(range(table.num_rows))
    rows = list(zip(*(table[part].to_pylist() for part in parts), strict=True))
    gone = [i for i, row in enumerate(rows) if any(v is None or v != v for v in row)]
    if gone:
        raise InputError(f"unit has {len(gone):,} missing name(s), the first in row {gone[0]:,}; name each unit.")
    if len(parts) == 1:
        return tuple(row[0] for row in rows)
    texts = [tuple(map(str, row)) for row in rows]
    for mark in NAME_MARKS:
        if not any(mark in text for row in texts for text in row):
            return tuple(mark.join(row) for row in texts)
    raise InputError(
        f"unit={list(parts)!r}: their names hold each of {listed(NAME_MARKS)}, so they cannot be joined to one; rename them."
    )
