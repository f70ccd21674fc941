"""What is known of subgroups, as it was written: an exit poll, a survey by state, a published crosstab.

A row says how many of how many in a subgroup did it. The subgroup is a condition on people, the columns it shares with places say where it
holds. A poll with a design effect of 2 is entered with half its n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crosslevel.data.expressions import ALL, SUBGROUP, read_expression
from crosslevel.data.frames import fingerprint
from crosslevel.data.places import PlaceTotals, read_counts
from crosslevel.data.surveys import PublishedShares
from crosslevel.errors import InputError, listed, nearest
from crosslevel.typing import BoolArray, FloatArray

SOURCE = "source"
"""Column of evidence that says which survey a row is from."""


@dataclass(frozen=True, eq=False)
class Claims:
    """Evidence as it was written, checked.

    Attributes
    ----------
    subgroup : list of str
        Name of each row's query in ``queries``, or ALL.
    queries : dict of name to query
        The different ones.
    where : list of dict
        Column of places to the value it must have, for each row.
    parts : (n_outcomes, r)
    n : (r,)
    rows : list of int
        Row of each in the caller's table.
    fingerprint : str
    notes : tuple of str
    source : tuple of str
        Survey that each row is from.
    """

    subgroup: list[str]
    queries: dict[str, str]
    where: list[dict[str, object]]
    parts: FloatArray
    n: FloatArray
    rows: list[int]
    fingerprint: str
    notes: tuple[str, ...]
    source: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """The different surveys."""
        return sorted(set(self.source))

    def label(self, r: int) -> str:
        """Say which people a row is about."""
        who = self.queries.get(self.subgroup[r], "everybody")
        return ", ".join([repr(who) if who != "everybody" else who, *(f"{c}={v!r}" for c, v in self.where[r].items())])


def read_evidence(
    evidence: PublishedShares,
    places: PlaceTotals,
    people: pa.Schema,
    *,
    successes: str | None,
    trials: str | None,
    outcomes: Sequence[str] | None = None,
    population: str | None = None,
) -> Claims:
    """Check a table of published shares before anybody is counted; rows without trials are left out.

    Parameters
    ----------
    evidence : PublishedShares
        Who, any columns of places, and the counts.
    places : PlaceTotals
    people : pyarrow.Schema
        Columns that conditions may use.
    successes, trials, outcomes, population
        Names of columns, as in :class:`crosslevel.Places`.

    Examples
    --------
    >>> from crosslevel.data.places import read_places
    >>> towns = read_places({"town": ["a", "b"], "yes": [3, 5], "all": [9, 9]}, "town", "yes", "all")
    >>> poll = PublishedShares({"subgroup": ["sex = 2", None], "town": [None, "b"], "yes": [40, 2], "all": [60, 5]})
    >>> found = read_evidence(poll, towns, pa.schema({"sex": pa.int64()}), successes="yes", trials="all")
    >>> found.label(0), found.label(1), found.rows
    ("everybody, town='b'", "'sex = 2'", [1, 0])
    """
    table = evidence.table
    called = {evidence.subgroup: SUBGROUP, evidence.source: SOURCE}
    table = table.rename_columns([called.get(name, name) for name in table.column_names])
    try:
        _, parts, n = read_counts(table, None, successes, trials, outcomes)
    except InputError as error:
        raise InputError(f"published shares: {error}") from error
    counted = [c for c in (successes, trials, *(outcomes or ())) if c is not None]
    told = SOURCE in table.column_names
    where = _restrictions(table.drop_columns([SOURCE]) if told else table, places, counted, population)
    if places.totals.exhaustive and not np.allclose(parts.sum(axis=0), n, rtol=1e-9):
        i = int(np.argmax(np.abs(parts.sum(axis=0) - n)))
        raise InputError(
            f"evidence: the outcomes add up to the trials in every place, but to {parts[:, i].sum():g} of {n[i]:g} in row {i}; "
            "give every outcome, the others included."
        )
    texts = _texts(table)
    asked = np.flatnonzero(n > 0).tolist()
    queries: dict[str, str] = {}
    for i in asked:
        if texts[i] and texts[i] not in queries:
            read_expression(texts[i], f"evidence row {i}", people)
            queries[texts[i]] = f"evidence {len(queries)}"
    # by content, so that the order of the rows means nothing
    order = sorted(asked, key=lambda i: (texts[i], repr(where[i]), n[i], parts[:, i].tolist()))
    lost = len(n) - len(asked)
    seen: dict[str, int] = {}
    for i, row in enumerate(table.to_pylist()):
        if (first := seen.setdefault(repr(row), i)) < i and n[i] > 0:
            raise InputError(f"evidence rows {first} and {i} are the same, and would count twice; drop one of them.")
    names = table[SOURCE].to_pylist() if told else [None] * len(n)
    origin = ["evidence" if v is None else str(v).strip() for v in names]
    return Claims(
        subgroup=[queries.get(texts[i], ALL) for i in order],
        queries={name: text for text, name in queries.items()},
        where=[where[i] for i in order],
        parts=parts[:, order],
        n=n[order],
        rows=order,
        fingerprint=fingerprint(table),
        notes=(f"{lost:,} row(s) of evidence without any trials were left out.",) if lost else (),
        source=tuple(origin[i] for i in order),
    )


def places_of(claims: Claims, r: int, places: PlaceTotals) -> BoolArray:
    """Tell in which places a row holds, (q,)."""
    inside = np.ones(len(places), dtype=bool)
    for name, value in claims.where[r].items():
        inside &= np.array([v == value for v in places.table[name].to_pylist()], dtype=bool)
    if not inside.any():
        raise InputError(
            f"evidence row {claims.rows[r]}: no place of the fit has {_pairs(claims.where[r])}; correct or drop the row."
        )
    return inside


def _texts(table: pa.Table) -> list[str]:
    if SUBGROUP not in table.column_names:
        return [""] * table.num_rows
    values = table[SUBGROUP].to_pylist()
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, str) and value == value:
            raise InputError(
                f"published shares, row {i}: subgroup={value!r} is no condition; write text such as 'sex = 2', or nothing."
            )
    return [v.strip() if isinstance(v, str) else "" for v in values]


def _restrictions(
    table: pa.Table, places: PlaceTotals, counted: Sequence[str], population: str | None
) -> list[dict[str, object]]:
    """Say where each row holds: columns shared with places to values; those missing restrict nothing."""
    known = [c for c in places.table.column_names if c not in (*counted, population, *(places.coords_by or ()))]
    names = [c for c in table.column_names if c not in (SUBGROUP, *counted)]
    for name in names:
        if name not in known:
            raise InputError(
                f"evidence has the column {name!r}, which is neither 'subgroup' nor a count nor a column of places that says where "
                f"({listed(known, 12)}).{nearest(name, [SUBGROUP, *known])} Rename or drop it."
            )
    where: list[dict[str, object]] = [{} for _ in range(table.num_rows)]
    for name in names:
        choices = set(places.table[name].to_pylist())
        for i, value in enumerate(table[name].to_pylist()):
            if value is None or value != value:
                continue
            if value not in choices:
                raise InputError(
                    f"evidence row {i}: {name}={value!r} is the {name} of no place.{_hint(value, choices)}"
                )
            where[i][name] = value
    return where


def _hint(value: object, choices: set[object]) -> str:
    same = [c for c in choices if str(c) == str(value)]
    if same:
        return f" It is {type(same[0]).__name__} in places ({same[0]!r}); make it the same type."
    return nearest(value, choices) or f" Places have {listed(sorted(choices, key=str))}."


def _pairs(where: Mapping[str, object]) -> str:
    return " and ".join(f"{c}={v!r}" for c, v in where.items())
