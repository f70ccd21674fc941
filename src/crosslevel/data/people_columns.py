"""Learn the columns of people by SQL: levels of categories, ranges and bins of numbers, exactly and whatever the order of rows.

``learn_columns(people).bins`` says how a person becomes a tuple of levels: the columns, their levels, and where numbers are cut.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.columns import (
    SMALLEST_WEIGHT,
    Category,
    Encoder,
    Number,
    is_categorical,
)
from crosslevel.data.people import People
from crosslevel.data.place_cells import Bins
from crosslevel.data.sql import quoted
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.typing import FloatArray

MAX_LEVELS = 100_000
"""More levels than this are names of people, not categories."""
AT_ONCE = 25
"""Categories whose levels are counted in one query."""
FIRST_LOOK = 20_000
"""Rows that clear nearly every column of telling the place, before all are looked at."""
SAME = 1e-12
"""Relative difference of sums that is rounding."""


@dataclass(frozen=True, eq=False)
class Learned:
    """How the columns of people are read.

    Attributes
    ----------
    bins : Bins
        Levels of categories, and of numbers in bins.
    n_rows : int
    warnings : tuple of str
        What was left out, and why.
    """

    bins: Bins
    n_rows: int
    warnings: tuple[str, ...] = ()


def learn_columns(
    people: People, n_bins: int | None = 12, columns: Sequence[str] | None = None, codes: Sequence[str] = ()
) -> Learned:
    """Choose the columns of people and learn how they are read.

    Columns with one value are left out, and, unless they are named, those with one value within every place.

    Parameters
    ----------
    people : People
    n_bins : int or None
        The most bins of a number; None to learn its mean and spread alone, which is quicker where its values are many.
    columns : sequence of str, optional
        In place of those of the people.
    codes : sequence of str
        Columns of numbers that are categories, beside those of the people.

    Examples
    --------
    >>> people = People({"town": ["a", "a", "b", "b"], "age": [30, 41, 65, 65], "sex": ["f", "m", "f", "m"]}, by="town")
    >>> learn_columns(people).bins.describe()
    {'age': ['< 35.5', '35.5 to 53', '>= 53'], 'sex': ['f', 'm']}
    """
    named = columns is not None or people.columns is not None
    chosen = list(people.features if columns is None else columns)
    coded = {*people.categorical, *codes}
    kinds = {c: c in coded or is_categorical(people.table.stored.field(c).type, c) for c in chosen}
    n_rows = check_rows(people)
    found: dict[str, Category | Number] = dict(_categories(people, [c for c in chosen if kinds[c]]))
    numbers = [c for c in chosen if not kinds[c]]
    found |= _moments(people, numbers)
    said = []
    constant = [c for c in chosen if _is_constant(found[c])]
    leaking = _leaking(people, [c for c in chosen if c not in constant])
    dropped = list(constant)
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
    binned = [c.name for c in kept if isinstance(c, Number)] if n_bins is not None else []
    edges = {name: _edges(people, name, int(n_bins or 1)) for name in binned}
    return Learned(Bins(Encoder(kept), edges), n_rows, tuple(said))


def fewer_bins(people: People, bins: Bins, n_bins: int) -> Bins:
    """Cut the numbers anew, in fewer bins."""
    return Bins(bins.encoder, {name: _edges(people, name, n_bins) for name in bins.edges})


def _edges(people: People, name: str, n_bins: int) -> FloatArray:
    """Cut a column of numbers at exact weighted quantiles, or between its values where these are few, by its distinct values."""
    x, w = f"cast({quoted(name)} as double)", people.weight_sql
    kinds = f"select {x} as x, sum({w}) as w from people where {x} is not null group by 1"
    all_ = "partition by w < 0"  # nobody: Spark warns of windows without a partition
    windows = {"up": "row_number()", "before": "lag(x)", "below": "sum(w)"}
    ordered = ", ".join(f"{window} over ({all_} order by x) as {name}" for name, window in windows.items())
    whole = f"sum(w) over ({all_}) as total, min(case when w > 0 then x end) over ({all_}) as lowest"
    parts = [f"floor({part} * {n_bins} / nullif(total, 0))" for part in ("below", "(below - w)")]
    found = people.answer(
        f"select * from (select *, {ordered}, {whole} from ({kinds}) kinds) placed "
        f"where up <= {n_bins + 1} or {' <> '.join(parts)} order by x"
    )
    value, weight, below, up = (found[n].to_numpy().astype(np.float64) for n in ("x", "w", "below", "up"))
    if not weight.any() or up[-1] <= n_bins:
        counted = value[weight > 0]
        return 0.5 * (counted[1:] + counted[:-1])
    total, lowest = found["total"][0].as_py(), found["lowest"][0].as_py()
    cuts = np.arange(1, n_bins) / n_bins * total
    at = (below[:, None] >= cuts * (1.0 - SAME)).argmax(axis=0)
    ends = zip(found["before"].take(pa.array(at)).to_pylist(), value[at].tolist(), strict=True)
    return np.unique([_round_between(low, high) for low, high in ends if high > lowest])


def _round_between(low: float, high: float) -> float:
    """Give a round number above ``low`` and at most ``high``: no limit of a bin is somebody's very value.

    Examples
    --------
    >>> _round_between(21.0, 22.0), _round_between(51230.75, 51260.25), _round_between(0.5, 0.503)
    (22.0, 51260.0, 0.503)
    """
    with np.errstate(all="ignore"):
        step = 10.0 ** np.floor(np.log10(high - low))
        found = float(np.floor(high / step) * step)
    return found if low < found <= high else high


def _moments(people: People, names: Sequence[str]) -> dict[str, Number]:
    """Learn the means and spreads of all columns of numbers in two queries."""
    w, asked = people.weight_sql, ["count(*) as n"]
    values = [f"cast({quoted(name)} as double)" for name in names]
    for i, x in enumerate(values):
        asked.append(f"count(*) - count({x}) as gaps{i}, min({x}) as low{i}, max({x}) as high{i}")
        asked.append(f"sum({w} * {x}) / nullif(sum(case when {x} is not null then {w} end), 0) as mean{i}")
    row = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    for i, name in enumerate(names):
        if np.inf in (row[f"high{i}"], -(row[f"low{i}"] or 0.0)):
            raise InputError(f"column {name!r} is infinite for somebody; drop or mend these rows.")
    means = [row[f"mean{i}"] or 0.0 for i in range(len(names))]
    asked = ["count(*) as n"]
    for i, (x, m) in enumerate(zip(values, means, strict=True)):
        square = f"sum({w} * ({x} - {m!r}) * ({x} - {m!r}))"
        asked.append(f"{square} / nullif(sum(case when {x} is not null then {w} end), 0) as square{i}")
    squares = people.answer(f"select {', '.join(asked)} from people").to_pylist()[0]
    found = {}
    for i, name in enumerate(names):
        low, high = (np.inf, -np.inf) if row[f"low{i}"] is None else (row[f"low{i}"], row[f"high{i}"])
        sd = float(np.sqrt(squares[f"square{i}"] or 0.0))
        # single precision, so that sums taken in another order give the same scale
        mean, scale = (float(np.float32(v)) for v in (means[i], sd))
        found[name] = Number(name, mean, scale or 1.0, bool(row[f"gaps{i}"]), low, high)
    return found


def check_rows(people: People) -> int:
    """Refuse weights that are none, places that are missing, and nobody; count the rows."""
    asked = ["count(*) as n"]
    asked += [f"count(*) - count({quoted(key)}) as missing_{i}" for i, key in enumerate(people.keys)]
    if (w := people.weight) is not None:
        kind = people.schema.field(w).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InputError(f"weight={w!r} is a column of {kind}, not of numbers; convert it, or leave weight out.")
        v = people.weight_sql
        asked.append(f"count(*) - count({v}) as absent, min({v}) as low, max({v}) as high")
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
        _check_weights(w, found)
    return int(found["n"])


def _check_weights(name: str, found: Mapping[str, Any]) -> None:
    if found["absent"] or found["low"] < 0 or np.isinf(found["high"]):
        low, high = (f"{found[end]:g}" if found[end] is not None else "nothing" for end in ("low", "high"))
        raise InputError(
            f"weight={name!r} is missing for {found['absent']:,} people, and from {low} to {high} for the others; weights must be "
            "finite and >= 0. Drop such rows with where=, or leave weight out."
        )
    if not found["high"] > 0:
        raise InputError(f"weight={name!r} is zero for everybody; at least one weight must be positive.")
    if found["least"] < SMALLEST_WEIGHT or found["high"] > 1 / SMALLEST_WEIGHT:
        raise InputError(
            f"weight={name!r} is from {found['least']:g} to {found['high']:g}; weights must be 0 or lie between {SMALLEST_WEIGHT:g} and "
            f"{1 / SMALLEST_WEIGHT:g}, since squares of others are no numbers. Multiply all of them by one number."
        )


def _categories(people: People, names: Sequence[str]) -> dict[str, Category]:
    """Learn the levels of columns, the most common first: what they are called then changes no draw."""
    if not names:
        return {}
    columns = [quoted(name) for name in names]
    asked = [*columns, *(f"grouping({c}) as crosslevel_{i}" for i, c in enumerate(columns))]
    sets = ", ".join(f"({c})" for c in columns)
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
            f"column {name!r} has more than {MAX_LEVELS:,} levels, so it names people rather than describes them; leave it out of "
            "columns."
        )
    levels = [v for _, v in sorted((-weight, v) for v, weight in weights.items())]
    return Category(name, pa.array(levels, found[name].type if levels else pa.string()), has_null)


def _is_constant(column: Category | Number) -> bool:
    if isinstance(column, Category):
        return column.width <= 1
    return not column.low < column.high and not (column.has_null and np.isfinite(column.low))


def _leaking(people: People, names: Sequence[str]) -> list[str]:
    """Name the columns with one value within every place, some of which has more than one row to show it."""
    if not people.keys:
        return []
    keys = ", ".join(quoted(key) for key in people.keys)
    left, rows = list(names), 0
    for source in (f"(select * from people limit {FIRST_LOOK}) people", "people"):  # the first clears nearly all
        if not left:
            return []
        inside = ", ".join(
            f"(min({quoted(n)}) is not distinct from max({quoted(n)}) and count({quoted(n)}) in (0, count(*))) as v{i}"
            for i, n in enumerate(left)
        )
        every = ", ".join(f"bool_and(v{i}) as v{i}" for i in range(len(left)))
        by_place = f"select {inside}, count(*) as n from {source} group by {keys}"
        row = people.answer(f"select {every}, max(n) as n from ({by_place}) place").to_pylist()[0]
        left, rows = [name for i, name in enumerate(left) if row[f"v{i}"]], row["n"]
    return left if rows > 1 else []


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
