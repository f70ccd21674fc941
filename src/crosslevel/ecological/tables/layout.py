"""The one table in which every method for counts by unit answers: the district's cells, and ``.units`` the same by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray, IntArray

INTERVAL = ("std_error", "conf_low", "conf_high")
MARGINS = ("people", "outcome_total")
"""Columns of the units' table: people of the group, and people with the outcome, in the unit."""


def describe_call(function: str, counts: Counts, options: Mapping[str, Any]) -> str:
    """Write a call from its arguments, those not given left out.

    Examples
    --------
    >>> counts = Counts({"a": [3], "b": [4], "y": [5], "n": [2]}, groups=["a", "b"], outcomes=["y", "n"])
    >>> describe_call("rxc", counts, {"counts": counts, "kind": None, "level": 0.9})
    "crosslevel.ecological.rxc(crosslevel.Counts(counts, groups={'a': 'a', 'b': 'b'}, outcomes={'y': 'y', 'n': 'n'}), level=0.9)"
    """
    given = {n: v for n, v in options.items() if v is not None and n not in ("counts", "progress")}
    return (
        f"crosslevel.ecological.{function}({', '.join([counts.describe(), *(f'{n}={v!r}' for n, v in given.items())])})"
    )


@dataclass(frozen=True)
class Answer:
    """What a method says of the cells.

    Attributes
    ----------
    cells : (n_units, n_groups, n_outcomes)
        Counts. Their sums over units are the district's cells.
    method : str
        The method in words.
    level, interval
        Of the district's interval; the units' have the same when ``unit_columns`` holds ``conf_low``.
    columns : mapping of str to (n_groups, n_outcomes)
        Further columns of the district's table, in shares: ``std_error``, ``conf_low``, ``conf_high`` and others. With
        ``districts``, (n_districts, n_groups, n_outcomes).
    unit_columns : mapping of str to (n_units, n_groups, n_outcomes)
        The same by unit.
    draws : (n_draws, n_groups, n_outcomes) or None
        Posterior draws of the shares. With ``districts``, (n_draws, n_districts, n_groups, n_outcomes).
    unit_draws : (n_draws, n_units, n_groups, n_outcomes) or None
    districts : sequence of length n_units or None
        District of each unit; the tables gain the key ``district`` (in order of first appearance). Options that a
        district lacks are null in the district's table and left out of the units'.
    diagnostics, warnings, seed
        As in :meth:`crosslevel.results.Estimates.build`. The notes of the tables follow the method's own warnings.
    """

    cells: FloatArray
    method: str
    level: float | None = None
    interval: str = "none"
    columns: Mapping[str, npt.ArrayLike] | None = None
    unit_columns: Mapping[str, npt.ArrayLike] | None = None
    draws: npt.ArrayLike | None = None
    unit_draws: npt.ArrayLike | None = None
    districts: Sequence[object] | None = None
    diagnostics: Mapping[str, Any] | None = None
    warnings: Sequence[str] = ()
    seed: int | None = None


def lay_out(counts: Counts, call: tuple[str, Mapping[str, Any]], found: Answer) -> Estimates:
    """Lay cells in counts out as the one table: shares of each group, their bounds and counts.

    ``call`` is the name of the public function and its arguments, for the provenance.

    Examples
    --------
    >>> data = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
    >>> counts = Counts(data, groups=["young", "old"], outcomes=["yes", "no"])
    >>> cells = counts.tables.X[:, :, None] * counts.tables.T[:, None, :] / 100
    >>> found = lay_out(counts, ("example", {}), Answer(cells, "example"))
    >>> found["estimate"].tolist(), found.units["count"][:2].tolist()
    ([0.35, 0.65, 0.725, 0.275], [24.0, 6.0])
    """
    tables, cells = counts.tables, found.cells
    code, names = _codes(found.districts, len(tables.units))
    limits, n = tables.bounds, len(names)
    provenance = Provenance.of(call=describe_call(call[0], counts, call[1]), seed=found.seed, data=tables.data)
    shown: dict[str, Any] = {"method": found.method, "provenance": provenance, "frame": tables.frame}
    x = np.broadcast_to(tables.X[:, :, None], cells.shape)
    present = there = None
    unit_keys: dict[str, Any] = {"unit": np.array(tables.units)}
    keys: dict[str, Any] = {}
    if found.districts is not None:
        present = (_sums(tables.X, code, n) > 0)[:, :, None] & (_sums(tables.T, code, n) > 0)[:, None, :]
        there = present[code]
        unit_keys, keys = {"district": [names[k] for k in code], **unit_keys}, {"district": list(names)}
    margins = {"people": x, "outcome_total": np.broadcast_to(tables.T[:, None, :], cells.shape)}
    by_unit = _columns(
        tables, unit_keys, (cells, limits.low, limits.high, x), {**(found.unit_columns or {}), **margins}, there
    )
    flat_draws = None if found.unit_draws is None else _flat_draws(found.unit_draws, x, there)
    if there is not None:  # most options of most districts would be empty rows
        kept = np.flatnonzero(there)
        by_unit = {name: np.asarray(values)[kept] for name, values in by_unit.items()}
        flat_draws = None if flat_draws is None else flat_draws[:, kept]
    with_interval = "conf_low" in (found.unit_columns or {})
    total = tuple(_sums(values, code, n) for values in (cells, limits.low, limits.high, x))
    return Estimates.build(
        _columns(tables, keys, total, found.columns, present),
        keys=(*keys, "group", "outcome"),
        kind="cells",
        level=found.level,
        interval=found.interval,
        diagnostics={"units": len(tables.units), **(found.diagnostics or {})},
        warnings=(*found.warnings, *tables.notes),
        units=Estimates.build(
            by_unit,
            keys=(*unit_keys, "group", "outcome"),
            level=found.level if with_interval else None,
            interval=found.interval if with_interval else "none",
            title="Share of each group with each outcome, by unit",
            draws=flat_draws,
            **shown,
        ),
        title="Share of each group with each outcome",
        draws=None if found.draws is None else _flat_draws(found.draws, total[3], present),
        **shown,
    )


def _columns(
    tables: UnitTables,
    keys: Mapping[str, Any],
    counts: tuple[FloatArray, ...],
    extra: Mapping[str, npt.ArrayLike] | None,
    present: BoolArray | None,
) -> dict[str, Any]:
    """Make the columns of one table from cells, bounds and people (n, n_groups, n_outcomes); cells not present are null."""
    cells, low, high, people = counts
    n, R, C = cells.shape
    there = people > 0 if present is None else (people > 0) & present

    def flat(values: npt.ArrayLike) -> npt.NDArray[Any]:
        array = np.asarray(values).reshape(n, R, C)
        return (np.where(there, array, np.nan) if array.dtype.kind == "f" else array).ravel()

    def shares(values: FloatArray) -> FloatArray:
        return flat(np.divide(values, people, out=np.full(cells.shape, np.nan), where=people > 0))

    rest = dict(extra or {})
    return {
        **{name: np.repeat(np.asarray(values), R * C) for name, values in keys.items()},
        "group": np.tile(np.repeat(tables.groups, C), n),
        "outcome": np.tile(tables.outcomes, n * R),
        "estimate": shares(cells),
        **{name: flat(rest.pop(name)) for name in INTERVAL if name in rest},
        "lower": shares(low),
        "upper": shares(high),
        "count": (cells if present is None else np.where(present, cells, np.nan)).ravel(),
        **{name: flat(values) for name, values in rest.items() if name not in MARGINS},
        **{name: np.asarray(rest[name]).ravel() for name in MARGINS if name in rest},
    }


def _codes(districts: Sequence[object] | None, n: int) -> tuple[IntArray, tuple[object, ...]]:
    """Number the districts in order of first appearance; one district when none are given."""
    names = tuple(dict.fromkeys(districts or [None]))
    number = {name: k for k, name in enumerate(names)}
    return np.array([number[d] for d in districts or [None] * n], dtype=np.intp), names


def _sums(values: FloatArray, code: IntArray, n: int) -> FloatArray:
    """Sum over the units of each district: (n_units, ...) to (n_districts, ...)."""
    total = np.zeros((n, *values.shape[1:]))
    np.add.at(total, code, values)
    return total


def _flat_draws(draws: npt.ArrayLike, people: FloatArray, present: BoolArray | None) -> FloatArray:
    """Make a row per draw; NaN where there is no estimate."""
    array = np.asarray(draws, dtype=np.float64)
    there = people > 0 if present is None else (people > 0) & present
    return np.where(there.ravel(), array.reshape(len(array), -1), np.nan)
