"""Covariates by unit: any dataframe in, named blocks of numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crosslevel.data import checks, frames
from crosslevel.ecological.tables.unit_tables import UnitTables, rows_kept
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

UNIT = "unit"
"""The column of a table of covariates by which its rows are matched to the units."""

ROUNDING = 1e-12
"""Standard deviation of a covariate, relative to its largest number, that is rounding."""


def covariate_table(given: Any, argument: str, n: int) -> pa.Table:
    """Read covariates, a dataframe or an array of one or two dimensions, as a table of ``n`` rows."""
    if frames.is_frame(given):
        table = frames.to_arrow(given, argument)
    else:
        array = checks.as_numbers(given, argument)
        if array.ndim > 2 or np.ndim(given) == 0:
            raise InputError(f"{argument} has {np.ndim(given)} dimensions; pass units x covariates.")
        array = array[:, None] if array.ndim == 1 else array
        table = pa.table({f"{argument}_{j}": array[:, j] for j in range(array.shape[1])})
    if table.num_rows != n or table.num_columns == 0:
        raise InputError(
            f"{argument} has {table.num_rows:,} rows and {table.num_columns} column(s) for {n:,} units; pass one row of "
            "covariates per unit, in the order of groups."
        )
    return table


def covariate_blocks(covariates: object, n: int) -> dict[str, FloatArray]:
    """Read covariates as name -> (n_units, k), standardized; text becomes a 0/1 column per value but the most common.

    Parameters
    ----------
    covariates : dataframe or array
        One row per unit with people, in the order of the counts.
    n : int
        Number of those units.

    Examples
    --------
    >>> blocks = covariate_blocks({"density": [1.0, 2.0, 3.0], "state": ["a", "b", "a"]}, 3)
    >>> {name: block.shape for name, block in blocks.items()}
    {'density': (3, 1), 'state': (3, 1)}
    """
    table = covariate_table(covariates, "covariates", n)
    blocks = {name: _block(table, name) for name in table.column_names}
    constant = [name for name, block in blocks.items() if block.shape[1] == 0]
    if constant:
        raise InputError(f"covariates has no variation in {constant[0]!r}; leave it out.")
    return blocks


def covariates_of_units(covariates: Any, tables: UnitTables, groups: object) -> dict[str, FloatArray]:
    """Read covariates of the units of checked tables, as :func:`covariate_blocks` does."""
    return covariate_blocks(unit_rows(covariates, "covariates", tables, groups), len(tables.units))


def covariates_of_answer(covariates: Any, units: Sequence[object]) -> dict[str, FloatArray]:
    """Read covariates of the units of an answer: by a column ``unit``, by names in the index, or, without names, row by row.

    Names in the index are refused where the units of the answer are only numbered: they cannot be matched.
    """
    named = checks.names_of(covariates)
    if frames.is_frame(covariates) and UNIT in (table := frames.to_arrow(covariates, "covariates")).column_names:
        rows = table.drop_columns([UNIT]).take(pa.array(_rows_of_units(table[UNIT].to_pylist(), units, "covariates")))
        return covariate_blocks(rows, len(units))
    if named is not None and list(units) == list(range(len(units))) and set(named) != set(units):
        raise InputError(
            f"covariates is named by its index ({listed(named, 3)}), and the units of this answer are only numbered, so that names "
            "cannot be matched; fit with units=, or pass an array (covariates.to_numpy()) in the order of the units."
        )
    return covariate_blocks(checks.align_rows(covariates, units, "covariates"), len(units))


def unit_rows(given: Any, argument: str, tables: UnitTables, groups: object) -> pa.Table:
    """Give the row of every unit of checked tables.

    A table with a column ``unit``, or else with names in its index, is matched by the names of the units (by the index of ``groups``
    where that holds any of its names), in any order; the rows of one without names are those of ``groups``.
    """
    n = len(tables.units)
    if frames.is_frame(given) and UNIT in (table := frames.to_arrow(given, argument)).column_names:
        found = _rows_of_units(table[UNIT].to_pylist(), tables.units, argument)
        return table.drop_columns([UNIT]).take(pa.array(found))
    by_name = _rows_by_name(given, argument, tables, groups)
    if by_name is not None:
        return covariate_table(checks.take_rows(given, by_name), argument, n)
    given = checks.align_rows(given, checks.row_keys(groups), argument)
    table = covariate_table(given, argument, n if isinstance(groups, UnitTables) else len(tables.kept))
    return table.filter(pa.array(rows_kept(tables, groups, argument, table.num_rows)))


def unit_values(given: Any, argument: str, tables: UnitTables, groups: object) -> list[Any]:
    """Give one value for every unit of checked tables.

    A mapping of unit to value is matched by its keys, a Series with names as in :func:`unit_rows`; others are read row by row.
    """
    if isinstance(given, Mapping):
        values = list(given.values())
        return [values[i] for i in _rows_of_units(list(given), tables.units, argument)]
    by_name = _rows_by_name(given, argument, tables, groups)
    if by_name is not None:
        return list(given.iloc[by_name].tolist())
    given = checks.align_rows(given, checks.row_keys(groups), argument)
    values = list(getattr(given, "tolist", lambda: given)())
    if any(isinstance(v, list | tuple | dict) for v in values):
        raise InputError(f"{argument} has several values a unit; pass one for each, such as a column of a frame.")
    return [v for v, k in zip(values, rows_kept(tables, groups, argument, len(values)), strict=True) if k]


def _rows_by_name(given: Any, argument: str, tables: UnitTables, groups: object) -> list[int] | None:
    """Find the row of every unit where names in an index are those of the units; None where they are those of groups, or there are none."""
    named = checks.names_of(given)
    if named is None or set(named) & set(checks.names_of(groups) or ()):
        return None
    if set(named) == set(checks.row_keys(groups) or ()) and not set(tables.units) <= set(named):
        return None  # the rows of groups, by number
    return _rows_of_units(named, tables.units, argument)


def _rows_of_units(names: Sequence[object], units: Sequence[object], argument: str) -> list[int]:
    """Find the row of every unit by its name."""
    where = {name: i for i, name in enumerate(names)}
    if len(where) < len(names):
        twice = next(name for i, name in enumerate(names) if where[name] != i)
        raise InputError(f"{argument} names the unit {twice!r} more than once; give each one row.")
    lacking = [u for u in units if u not in where]
    if lacking:
        raise InputError(
            f"{argument} has no row for {len(lacking):,} unit(s) ({listed(lacking)}) among its names ({listed(names, 3)}); add them, drop "
            "these units, or pass an array in the order of groups."
        )
    return [where[u] for u in units]


def _block(table: pa.Table, name: str) -> FloatArray:
    values = table[name]
    if pt.is_dictionary(values.type):  # a Categorical, whose numbers are names
        values = values.cast(values.type.value_type).cast(pa.string())
    if not (pt.is_string(values.type) or pt.is_large_string(values.type) or pt.is_string_view(values.type)):
        numbers = checks.check_finite(frames.column(table, name, "covariates"), f"covariates[{name!r}]", 1)
        # by a power of two, which changes no digit: squares of any number can then be held
        numbers = np.ldexp(numbers, -int(np.frexp(np.abs(numbers).max())[1]))
        spread = numbers.std()
        varies = spread > ROUNDING
        return ((numbers - numbers.mean()) / spread)[:, None] if varies else np.empty((len(numbers), 0))
    texts = values.to_pylist()
    if None in texts:
        raise InputError(
            f"covariates[{name!r}] has missing values, the first in row {texts.index(None)}; fill or drop."
        )
    levels = sorted(set(texts), key=lambda level: (-texts.count(level), level))[1:]
    return np.array([[float(w == level) for level in levels] for w in texts]).reshape(len(texts), len(levels))
