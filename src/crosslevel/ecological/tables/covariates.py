"""Covariates by unit: columns of the counts in, named blocks of numbers out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crosslevel.data import checks, frames
from crosslevel.ecological.tables.counts import Counts
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray

ROUNDING = 1e-12
"""Standard deviation of a covariate, relative to its largest number, that is rounding."""


def covariate_blocks(table: pa.Table) -> dict[str, FloatArray]:
    """Read covariates as name -> (n_units, k), standardized; text becomes a 0/1 column per value but the most common.

    Examples
    --------
    >>> blocks = covariate_blocks(pa.table({"density": [1.0, 2.0, 3.0], "state": ["a", "b", "a"]}))
    >>> {name: block.shape for name, block in blocks.items()}
    {'density': (3, 1), 'state': (3, 1)}
    """
    blocks = {name: _block(table, name) for name in table.column_names}
    constant = [name for name, block in blocks.items() if block.shape[1] == 0]
    if constant:
        raise InputError(f"covariates has no variation in {constant[0]!r}; leave it out.")
    return blocks


def covariates_of(counts: Counts) -> dict[str, FloatArray]:
    """Read the covariates of the units with people."""
    return covariate_blocks(counts.by_unit(counts.covariates, "covariates")) if counts.covariates else {}


def covariates_of_answer(counts: Counts, units: Sequence[object]) -> dict[str, FloatArray]:
    """Read the covariates of the units of an answer, by name."""
    if not counts.covariates:
        raise InputError("counts name no covariates; pass crosslevel.Counts(..., covariates=['income']).")
    where = {name: i for i, name in enumerate(counts.names)}
    lacking = [unit for unit in units if unit not in where]
    if lacking:
        raise InputError(
            f"counts have no row for {len(lacking):,} unit(s) of the answer ({listed(lacking)}) among {listed(counts.names, 3)}; name the "
            "units as those of the answer."
        )
    rows = counts.table.select(list(counts.covariates)).take(pa.array([where[unit] for unit in units]))
    return covariate_blocks(rows)


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
