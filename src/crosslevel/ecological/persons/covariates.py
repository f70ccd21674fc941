"""Covariates of places: numbers and levels as columns of a regression.

``learn_covariates(table, names)`` learns them from the places of a fit, ``covariates.read(table)`` reads those of any table.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.columns import is_categorical
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.typing import FloatArray

ROUNDING = 1e-12
"""Range of a covariate, relative to its largest number, that is rounding."""


@dataclass(frozen=True, eq=False)
class Covariates:
    """How columns of places become columns of a regression.

    Attributes
    ----------
    names : tuple of str
    scale : tuple of (mean, standard deviation), one for each column of numbers, None for others
    levels : tuple of tuple, one for each column that holds no numbers, None for others
    """

    names: tuple[str, ...]
    scale: tuple[tuple[float, float] | None, ...]
    levels: tuple[tuple[Any, ...] | None, ...]

    def read(self, table: pa.Table) -> FloatArray:
        """Give the columns of places, (q, k): numbers standardized, a column for every level of others, zero where it is unknown."""
        out = []
        for name, scale, levels in zip(self.names, self.scale, self.levels, strict=True):
            if scale is not None:
                values = checks.check_finite(frames.column(table, name, "covariates"), f"covariates column {name!r}", 1)
                out.append(((values - scale[0]) / scale[1])[:, None])
            else:
                frames.check_columns(table, [name], "covariates")
                _refuse_nulls(table[name], name)
                values = np.array([str(v) for v in table[name].to_pylist()])
                unknown = sorted(set(values.tolist()) - set(levels or ()))
                if unknown:
                    warnings.warn(
                        f"covariates column {name!r} has {listed(unknown)}, which the fit has not seen; places there have no effect of it.",
                        CrosslevelWarning,
                        stacklevel=2,
                    )
                out.append((values[:, None] == np.array(levels)).astype(np.float64))
        return np.hstack(out)


def _refuse_nulls(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        raise InputError(
            f"covariates column {name!r} has {column.null_count:,} missing values; fill them, or drop them."
        )


def learn_covariates(table: pa.Table, names: Sequence[str]) -> Covariates:
    """Learn means and scales of numbers, and levels of other columns.

    Examples
    --------
    >>> table = pa.table({"density": [1.0, 3.0], "kind": ["city", "land"]})
    >>> learn_covariates(table, ["density", "kind"]).read(table).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    chosen = frames.as_names(names, "covariates")
    scales: list[tuple[float, float] | None] = []
    levels: list[tuple[Any, ...] | None] = []
    frames.check_columns(table, list(chosen), "covariates")
    for name in chosen:
        column = table[name]
        _refuse_nulls(column, name)
        if is_categorical(column.type, name):
            found = tuple(sorted({str(v) for v in column.to_pylist()}))
            if len(found) < 2:
                raise InputError(f"covariates column {name!r} has one value in all places; leave it out.")
            scales.append(None)
            levels.append(found)
            continue
        values = checks.check_finite(frames.column(table, name, "covariates"), f"covariates column {name!r}", 1)
        power = int(np.frexp(np.abs(values).max())[1])
        near_one = np.ldexp(values, -power)  # the digits are the same, and squares can be held
        if not np.ptp(near_one) > ROUNDING:
            raise InputError(f"covariates column {name!r} is {values[0]:g} in all places; leave it out.")
        scales.append((float(np.ldexp(near_one.mean(), power)), float(np.ldexp(near_one.std(), power))))
        levels.append(None)
    return Covariates(chosen, tuple(scales), tuple(levels))
