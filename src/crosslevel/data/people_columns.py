"""Learn the columns of people by SQL: levels of categories, ranges and bins of numbers, exactly and whatever the order of rows.

``learned = learn_columns(people)`` chooses the columns and finds their levels; ``learn_bins(people, learned.encoder, 12)`` cuts
numbers where the weighted quantiles are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.columns import (
    MISSING_CODE,
    SMALLEST_WEIGHT,
    Category,
    Encoder,
    Number,
    describe_codes,
    is_categorical,
    refuse_stray_text,
)
from crosslevel.data.expressions import quoted
from crosslevel.data.people import People
from crosslevel.data.place_cells import Bins
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.typing import FloatArray

MAX_LEVELS = 100_000
"""More levels than this are names of people, not categories."""
AT_ONCE = 25
"""Categories whose levels are counted in one query."""
FIRST_LOOK = 50_000
"""Rows that clear nearly every column of telling the place, before everybody is looked at."""
ENDS = 16
"""Values at each end of a column of numbers that are looked at for codes of missing values."""


@dataclass(frozen=True, eq=False)
class Learned:
    """How the columns of people are read.

    Attributes
    ----------
    encoder : Encoder
    n_rows : int
    warnings : tuple of str
        What was left out, and why.
    """

    encoder: Encoder
    n_rows: int
    warnings: tuple[str, ...] = ()


def learn_columns(people: People, columns: Sequence[str] | None = None, codes: Sequence[str] = ()) -> Learned:
    """Choose the columns of people and learn how they are read.

    Columns with one value are left out, and, unless they are named, those with one value within every place.

    Parameters
    ----------
    people : People
    columns : sequence of str, optional
        In place of those of the people.
    codes : sequence of str
        Columns of numbers that are categories, beside those of the people.

    Examples
    --------
    >>> people = People({"town": ["a", "a", "b", "b"], "age": [30, 41, 65, 65], "sex": ["f", "m", "f", "m"]}, by="town")
    >>> learn_columns(people).encoder.names
    ('age', 'sex')
    """
    named = columns is not None or people.columns is not None
    chosen = list(people.features if columns is None else columns)
    coded = {*people.categorical, *codes}
    kinds = {c: c in coded or is_categorical(people.schema.field(c).type, c) for c in chosen}
    numbers = [c for c in chosen if not kinds[c]]
    n_rows = check_rows(people)
    measured = _numbers(people, numbers)
    categories = _categories(people, [c for c in chosen if kinds[c]])
    for name in categories.keys() - coded:
        refuse_stray_text(name, list(categories[name].labels), n_rows, listed)
    found: dict[str, Category | Number] = {**dict(zip(numbers, measured, strict=True)), **categories}
    constant = [c for c in chosen if _is_constant(found[c])]
    leaking = [c for c in _leaking(people, chosen) if c not in constant]
    dropped, said = list(constant), list(_describe_codes(people, measured))
    if constant:
        said.append(f"{len(constant)} column(s) have only one value and were left out: {listed(constant, 8)}.")
    if leaking and named:
        said.append(
            f"{len(leaking)} column(s) have one value within every place: {listed(leaking, 8)}. They tell where somebody lives rather "
            "than who they are; leave them out of columns."
        )
    elif leaking:
        dropped += leaking
        said.append(
            f"{len(leaking)} column(s) have one value within every place and were left out, since they tell the place: "
            f"{listed(leaking, 8)}. Name them in columns to keep them."
        )
    kept = tuple(found[c] for c in chosen if c not in dropped)
    if not kept:
        raise InputError(f"no column is left to use; all were constant or told the place ({listed(dropped, 8)}).")
    return Learned(Encoder(kept), n_rows, tuple(said))


def learn_bins(people: People, encoder: Encoder, n_bins: int) -> Bins:
    """Cut numbers in bins of about equal weight: at exact weighted quantiles, or between values where there are few.

    Parameters
    ----------
    n_bins : int
        The most bins of a number.
    """
    edges = {c.name: _edges(people, c.name, n_bins) for c in encoder.columns if isinstance(c, Number)}
    return Bins(encoder, edges)


def _edges(people: People, name: str, n_bins: int) -> FloatArray:
    c, w = quoted(name), people.weight_sql
    counted = f"where {c} is not null and {w} > 0"
    few = people.answer(f"select distinct cast({c} as double) as x from people {counted} limit {n_bins + 1}")[
        "x"
    ].to_numpy()
    if len(few) <= n_bins:
        few = np.sort(few)
        return np.asarray(0.5 * (few[1:] + few[:-1]))
    kinds = f"select cast({c} as double) as x, sum({w}) as w from people {counted} group by 1"
    sums = f"select x, sum(w) over (order by x) as below, sum(w) over () as total, min(x) over () as low from ({kinds})"
    cuts = ", ".join(
        f"min(case when below >= {k} * total / {n_bins}.0 and x > low then x end) as e{k}" for k in range(1, n_bins)
    )
    row = people.answer(f"select {cuts} from ({sums}) cut").to_pylist()[0]
    return np.unique([edge for edge in row.values() if edge is not None])


def check_rows(people: People) -> int:
    """Refuse weights that are none, places that are missing, and nobody; count the rows."""
    asked = ["count(*) as n"]
    for i, key in enumerate(people.keys):
        asked.append(f"count(*) - count({quoted(key)}) as missing_{i}")
    if (w := people.weight) is not None:
        kind = people.schema.field(w).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InputError(f"weight={w!r} is a column of {kind}, not of numbers; convert it, or leave weight out.")
        v = people.weight_sql
        asked.append(
            f"count(*) - count({v}) as absent, min({v}) as low, max({v}) as high, count(case when {v} < 0 then 1 end) as below"
        )
        asked.append(f"min(case when {v} > 0 then {v} end) as least")
    found = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    if not found["n"]:
        raise InputError(f"people has no rows ({people.describe()}); check the file and the where filter.")
    for i, key in enumerate(people.keys):
        if found[f"missing_{i}"]:
            raise InputError(
                f"by={key!r} is missing for {found[f'missing_{i}']:,} people; a place must be known. Leave them out with "
                f"where='{key} is not null', or give them a place of their own."
            )
    if w is not None:
        if found["absent"] or found["below"] or np.isinf(found["high"]):
            raise InputError(
                f"weight={w!r} is missing for {found['absent']:,} people, and from {found['low']:g} to {found['high']:g} for the others; "
                "weights must be finite and >= 0. Drop such rows with where=, or leave weight out."
            )
        if not found["high"] > 0:
            raise InputError(f"weight={w!r} is zero for everybody; at least one weight must be positive.")
        if found["least"] < SMALLEST_WEIGHT or found["high"] > 1 / SMALLEST_WEIGHT:
            raise InputError(
                f"weight={w!r} is from {found['least']:g} to {found['high']:g}; weights must be 0 or lie between {SMALLEST_WEIGHT:g} and "
                f"{1 / SMALLEST_WEIGHT:g}, since squares of others are no numbers. Multiply all of them by one number."
            )
    return int(found["n"])


def _numbers(people: People, names: Sequence[str]) -> list[Number]:
    if not names:
        return []
    w, asked = people.weight_sql, []
    for i, name in enumerate(names):
        x = f"cast({quoted(name)} as double)"
        seen = f"filter (where {x} is not null)"
        asked.append(f"count(*) - count({x}) as gaps{i}, min({x}) as low{i}, max({x}) as high{i}")
        asked.append(f"sum({w} * {x}) as sum{i}, sum({w}) {seen} as weight{i}")
    row = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    for i, name in enumerate(names):
        for end in ("low", "high"):
            if row[f"{end}{i}"] is not None and np.isinf(row[f"{end}{i}"]):
                raise InputError(f"column {name!r} is infinite for somebody; drop or mend these rows.")
    means = [_ratio(row[f"sum{i}"], row[f"weight{i}"]) for i in range(len(names))]
    asked = [
        f"sum({w} * power(cast({quoted(n)} as double) - {m!r}, 2)) as s{i}"
        for i, (n, m) in enumerate(zip(names, means, strict=True))
    ]
    squares = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    found = []
    for i, name in enumerate(names):
        # rounded to single precision, so that sums taken in another order give the same scale
        scale = float(np.float32(np.sqrt(_ratio(squares[f"s{i}"], row[f"weight{i}"]))))
        low, high = row[f"low{i}"], row[f"high{i}"]
        ends = (np.inf, -np.inf) if low is None else (low, high)
        found.append(Number(name, float(np.float32(means[i])), scale or 1.0, bool(row[f"gaps{i}"]), *ends))
    return found


def _ratio(part: float | None, whole: float | None) -> float:
    return float(part) / float(whole) if part is not None and whole else 0.0


def _categories(people: People, names: Sequence[str]) -> dict[str, Category]:
    """Learn levels, the most common first: what they are called then changes no draw."""
    if not names:
        return {}
    columns, sets = [quoted(name) for name in names], ", ".join(f"({quoted(name)})" for name in names)
    asked = [*columns, *(f"grouping({c}) as crosslevel_{i}" for i, c in enumerate(columns))]
    sql = f"select {', '.join(asked)}, sum({people.weight_sql}) as crosslevel_weight from people group by grouping sets ({sets})"
    few = len(names) <= AT_ONCE
    found = people.answer(f"{sql} limit {MAX_LEVELS + 2}") if few else None
    if len(names) > 1 and (found is None or found.num_rows > MAX_LEVELS + 1):
        half = len(names) // 2
        return _categories(people, names[:half]) | _categories(people, names[half:])
    assert found is not None
    return {name: _category(found.filter(pc.equal(found[f"crosslevel_{i}"], 0)), name) for i, name in enumerate(names)}


def _category(found: pa.Table, name: str) -> Category:
    amounts = found["crosslevel_weight"].to_numpy().astype(np.float32).tolist()
    weights = dict(zip(found[name].to_pylist(), amounts, strict=True))
    has_null = None in weights
    weights.pop(None, None)
    if len(weights) > MAX_LEVELS:
        raise InputError(
            f"column {name!r} has more than {MAX_LEVELS:,} levels, so it names people rather than describes them; leave it out of columns."
        )
    levels = sorted(weights, key=lambda v: (-weights[v], v))
    return Category(name, pa.array(levels, found[name].type if levels else pa.string()), has_null)


def _is_constant(column: Category | Number) -> bool:
    if isinstance(column, Category):
        return column.width <= 1
    return not column.low < column.high and not (column.has_null and np.isfinite(column.low))


def _leaking(people: People, names: Sequence[str]) -> list[str]:
    """Name the columns with one value within every place, some of which has more than one row to show it."""
    keys = ", ".join(quoted(key) for key in people.keys)
    for seen in (f"(select * from people limit {FIRST_LOOK}) seen", "people"):
        if not keys or not names:
            return []
        inside = ", ".join(
            f"(min({quoted(n)}) is not distinct from max({quoted(n)}) and count({quoted(n)}) in (0, count(*))) as v{i}"
            for i, n in enumerate(names)
        )
        every = ", ".join(f"bool_and(v{i}) as v{i}" for i in range(len(names)))
        by_place = f"select {inside}, count(*) as n from {seen} group by {keys}"
        row = people.answer(f"select {every}, max(n) as n from ({by_place}) place").to_pylist()[0]
        names = [name for i, name in enumerate(names) if row[f"v{i}"]]
    return list(names) if row["n"] > 1 else []


def _describe_codes(people: People, numbers: Sequence[Number]) -> tuple[str, ...]:
    """Say which columns hold numbers that look like codes of missing values."""
    seen = {}
    for number in numbers:
        if not any(MISSING_CODE.fullmatch(f"{end:.9g}") for end in (number.low, number.high)):
            continue  # codes stand at the ends
        c = quoted(number.name)
        ends = [
            people.answer(
                f"select cast({c} as double) as x, count(*) as n from people where {c} is not null "
                f"group by 1 order by 1 {way} limit {ENDS}"
            )
            for way in ("asc", "desc")
        ]
        values = {x: n for end in ends for x, n in zip(*(end[k].to_pylist() for k in ("x", "n")), strict=True)}
        seen[number.name] = np.repeat(list(values), np.minimum(list(values.values()), 1000)) if values else np.zeros(0)
    return describe_codes(seen, "people", "of the lowest and highest values")


def warn_outside_fit(people: People, encoder: Encoder, stacklevel: int = 6) -> None:
    """Warn of new people whose numbers lie further outside those of the fit than half of their range."""
    for column in encoder.columns:
        if not isinstance(column, Number) or not np.isfinite(column.low):
            continue
        x, more = f"cast({quoted(column.name)} as double)", (column.high - column.low) / 2
        beyond = f"{x} < {column.low - more!r} or {x} > {column.high + more!r}"
        found = people.answer(
            f"select count(*) as n, count(case when {beyond} then 1 end) as beyond, min({x}) as low, max({x}) as high from people"
        )
        n, outside, low, high = found.to_pylist()[0].values()
        if outside:
            warnings.warn(
                f"people: {outside:,} of {n:,} have values of {column.name!r} far outside those of the fit, {column.low:g} to "
                f"{column.high:g} (here {low:g} to {high:g}); the answer for them is extrapolated. Check units and codes of missing "
                "values, or leave these people out.",
                CrosslevelWarning,
                stacklevel=stacklevel,
            )
