"""Covariates by unit: any dataframe in, named blocks of numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crosslevel.data import checks, frames
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

__all__ = ["covariate_blocks", "covariate_table"]


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


def _block(table: pa.Table, name: str) -> FloatArray:
    values = table[name]
    if pt.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pt.is_string(values.type) or pt.is_large_string(values.type) or pt.is_string_view(values.type)):
        numbers = checks.check_finite(frames.column(table, name, "covariates"), f"covariates[{name!r}]", 1)
        spread = numbers.std()
        return ((numbers - numbers.mean()) / spread)[:, None] if spread > 0 else np.empty((len(numbers), 0))
    texts = values.to_pylist()
    if None in texts:
        raise InputError(
            f"covariates[{name!r}] has missing values, the first in row {texts.index(None)}; fill or drop."
        )
    levels = sorted(set(texts), key=lambda level: (-texts.count(level), level))[1:]
    return np.array([[float(w == level) for level in levels] for w in texts]).reshape(len(texts), len(levels))
