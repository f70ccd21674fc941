"""The one table in which every method of this room answers: the district's cells, and ``.units`` the same by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.tables.bounds import CellBounds
from crosslevel.ecological.tables.unit_tables import UnitTables
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["cell_estimates"]

INTERVAL = ("std_error", "conf_low", "conf_high")


def cell_estimates(
    tables: UnitTables,
    cells: FloatArray,
    limits: CellBounds,
    *,
    method: str,
    call: str,
    level: float | None = None,
    interval: str = "none",
    columns: Mapping[str, npt.ArrayLike] | None = None,
    unit_columns: Mapping[str, npt.ArrayLike] | None = None,
    draws: npt.ArrayLike | None = None,
    unit_draws: npt.ArrayLike | None = None,
    districts: Sequence[object] | None = None,
    diagnostics: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    seed: int | None = None,
) -> Estimates:
    """Lay cells in counts out as the one table: shares of each group, their bounds and counts.

    Parameters
    ----------
    tables : UnitTables
    cells : (n_units, n_groups, n_outcomes)
        Counts. Their sums over units are the district's cells.
    limits : CellBounds
    method, call : str
        The method in words, and the call without ``crosslevel.ecological.`` before it.
    level, interval
        Of the district's interval; the units' have the same when ``unit_columns`` holds ``conf_low``.
    columns : mapping of str to (n_groups, n_outcomes), optional
        Further columns of the district's table, in shares: ``std_error``, ``conf_low``, ``conf_high`` and others. With
        ``districts``, (n_districts, n_groups, n_outcomes).
    unit_columns : mapping of str to (n_units, n_groups, n_outcomes), optional
        The same by unit.
    draws : (n_draws, n_groups, n_outcomes), optional
        Posterior draws of the shares. With ``districts``, (n_draws, n_districts, n_groups, n_outcomes).
    unit_draws : (n_draws, n_units, n_groups, n_outcomes), optional
    districts : sequence of length n_units, optional
        District of each unit; the tables gain the key ``district`` (in order of first appearance). Options that a
        district lacks are null in the district's table and left out of the units'.
    diagnostics, warnings, seed
        As in :meth:`crosslevel.results.Estimates.build`. The notes of the tables follow the method's own warnings.

    Examples
    --------
    >>> from crosslevel.ecological.tables.bounds import cell_bounds
    >>> from crosslevel.ecological.tables.unit_tables import unit_tables
    >>> tables = unit_tables({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})
    >>> cells = tables.X[:, :, None] * tables.T[:, None, :] / 100
    >>> found = cell_estimates(tables, cells, cell_bounds(tables.X, tables.T), method="example", call="example()")
    >>> found["estimate"].tolist(), found.units["count"][:2].tolist()
    ([0.35, 0.65, 0.725, 0.275], [24.0, 6.0])
    """
    code, names = _codes(districts, len(tables.units))
    one = districts is None
    provenance = Provenance.of(call=f"crosslevel.ecological.{call}", seed=seed, data=tables.fingerprints)
    shown: dict[str, Any] = {"method": method, "provenance": provenance, "frame": tables.frame}
    x = np.broadcast_to(tables.X[:, :, None], cells.shape)
    where = np.array(tables.units)
    by_unit_keys: dict[str, Any] = {} if one else {"district": [names[k] for k in code]}
    present = None if one else _present(tables, code, len(names))
    unit_level = level if "conf_low" in (unit_columns or {}) else None
    there = None if present is None else present[code]
    unit_table = _columns(tables, {**by_unit_keys, "unit": where}, cells, limits, x, unit_columns, there)
    flat_draws = None if unit_draws is None else _flat_draws(unit_draws, x, there)
    if there is not None:  # most options of most districts would be empty rows
        kept = np.flatnonzero(there)
        unit_table = {name: np.asarray(values)[kept] for name, values in unit_table.items()}
        flat_draws = None if flat_draws is None else flat_draws[:, kept]
    by_unit = Estimates.build(
        unit_table,
        keys=(*by_unit_keys, "unit", "group", "outcome"),
        level=unit_level,
        interval="none" if unit_level is None else interval,
        title="Share of each group with each outcome, by unit",
        draws=flat_draws,
        **shown,
    )
    total = CellBounds(low=_sums(limits.low, code, len(names)), high=_sums(limits.high, code, len(names)))
    people = _sums(x, code, len(names))
    return Estimates.build(
        _columns(
            tables,
            {} if one else {"district": list(names)},
            _sums(cells, code, len(names)),
            total,
            people,
            columns,
            present,
        ),
        keys=(*(() if one else ("district",)), "group", "outcome"),
        level=level,
        interval=interval,
        diagnostics={"units": len(tables.units), **(diagnostics or {})},
        warnings=(*warnings, *tables.notes),
        units=by_unit,
        title="Share of each group with each outcome",
        draws=None if draws is None else _flat_draws(draws, people, present),
        **shown,
    )


def _columns(
    tables: UnitTables,
    keys: Mapping[str, Any],
    cells: FloatArray,
    limits: CellBounds,
    people: FloatArray,
    extra: Mapping[str, npt.ArrayLike] | None,
    present: npt.NDArray[np.bool_] | None,
) -> dict[str, Any]:
    """Make the columns of one table from (n, n_groups, n_outcomes) arrays; cells that are not present are null."""
    n, R, C = cells.shape
    there = people > 0 if present is None else (people > 0) & present

    def flat(values: npt.ArrayLike) -> npt.NDArray[Any]:
        array = np.asarray(values).reshape(n, R, C)
        return (np.where(there, array, np.nan) if array.dtype.kind == "f" else array).ravel()

    def shares(counts: FloatArray) -> FloatArray:
        return flat(np.divide(counts, people, out=np.full(cells.shape, np.nan), where=people > 0))

    rest = dict(extra or {})
    main = {name: flat(rest.pop(name)) for name in INTERVAL if name in rest}
    counts = cells if present is None else np.where(present, cells, np.nan)
    return {
        **{name: np.repeat(np.asarray(values), R * C) for name, values in keys.items()},
        "group": np.tile(np.repeat(tables.groups, C), n),
        "outcome": np.tile(tables.outcomes, n * R),
        "estimate": shares(cells),
        **main,
        "lower": shares(limits.low),
        "upper": shares(limits.high),
        "count": counts.ravel(),
        **{name: flat(values) for name, values in rest.items()},
    }


def _codes(districts: Sequence[object] | None, n: int) -> tuple[npt.NDArray[np.intp], tuple[object, ...]]:
    """Number the districts in order of first appearance; one district when none are given."""
    if districts is None:
        return np.zeros(n, dtype=np.intp), (None,)
    names = tuple(dict.fromkeys(districts))
    number = {name: k for k, name in enumerate(names)}
    return np.array([number[d] for d in districts], dtype=np.intp), names


def _sums(values: FloatArray, code: npt.NDArray[np.intp], n: int) -> FloatArray:
    """Sum over the units of each district: (n_units, ...) to (n_districts, ...)."""
    total = np.zeros((n, *values.shape[1:]))
    np.add.at(total, code, values)
    return total


def _present(tables: UnitTables, code: npt.NDArray[np.intp], n: int) -> npt.NDArray[np.bool_]:
    """Tell which cells a district has at all: (n_districts, n_groups, n_outcomes)."""
    return (_sums(tables.X, code, n) > 0)[:, :, None] & (_sums(tables.T, code, n) > 0)[:, None, :]


def _flat_draws(draws: npt.ArrayLike, people: FloatArray, present: npt.NDArray[np.bool_] | None) -> FloatArray:
    """Make a row per draw; NaN where there is no estimate."""
    array = np.asarray(draws, dtype=np.float64)
    there = people > 0 if present is None else (people > 0) & present
    return np.where(there.ravel(), array.reshape(len(array), -1), np.nan)
