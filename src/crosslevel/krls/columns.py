"""How does a table become the matrix of the kernel, and which effects does each column have?

A column of numbers or booleans stays as it is; with two values it is binary, and its effect is a first difference. A column of
text, of a categorical type, or of codes that are listed is a factor; with L levels it becomes L - 1 columns of zeros and ones,
the first level being the reference. Its effects are contrasts of each level with the reference in which the *whole* factor is
set. (Switching one dummy and leaving its siblings as observed, as the R packages do, makes people with two levels at once;
``contrast="dummy"`` does that.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data import frames
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.krls.effects import Effect, Switch
from crosslevel.krls.kernel import Scaling
from crosslevel.typing import BoolArray, FloatArray

__all__ = ["CONTRASTS", "Column", "Encoding", "build_effects", "learn_encoding", "missing_rows"]


CONTRASTS = ("factor", "dummy")


@dataclass(frozen=True)
class Column:
    """One column of the caller's table.

    Attributes
    ----------
    name : str
    levels : tuple or None
        Levels of a factor, the reference first (text, or numbers for codes); None for numbers.
    """

    name: str
    levels: tuple[Any, ...] | None = None

    @property
    def width(self) -> int:
        """Columns it has in the matrix."""
        return 1 if self.levels is None else len(self.levels) - 1


@dataclass(frozen=True)
class Encoding:
    """The columns, in the order of the table.

    Examples
    --------
    >>> table = pa.table({"age": [20.0, 30.0, 50.0], "arm": ["b", "control", "a"]})
    >>> encoding = learn_encoding(table, reference={"arm": "control"})
    >>> encoding.names
    ('age', 'arm: a', 'arm: b')
    >>> encoding.encode(table).tolist()
    [[20.0, 0.0, 1.0], [30.0, 0.0, 0.0], [50.0, 1.0, 0.0]]
    """

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(
            name
            for c in self.columns
            for name in ([c.name] if c.levels is None else [f"{c.name}: {_label(v)}" for v in c.levels[1:]])
        )

    def encode(self, table: pa.Table, argument: str = "X") -> FloatArray:
        """Make the matrix of a table, (n, P); NaN where a value is missing."""
        frames.check_columns(table, [c.name for c in self.columns], argument)
        parts = [
            frames.column(table, c.name, argument)[:, None] if c.levels is None else _dummies(table, c, argument)
            for c in self.columns
        ]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))


def learn_encoding(
    table: pa.Table,
    categorical: Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    used: BoolArray | None = None,
) -> Encoding:
    """Decide what each column is, from the rows that are used."""
    codes = tuple(categorical or ())
    if isinstance(categorical, str):
        raise InputError(f"categorical={categorical!r} is one name; pass a list, [{categorical!r}].")
    frames.check_columns(table, codes, "categorical")
    references = dict(reference or {})
    frames.check_columns(table, list(references), "reference")
    rows = table if used is None else table.filter(pa.array(used))
    made = []
    for name in table.column_names:
        if name not in codes and not _is_text(table[name].type):
            if name in references:
                raise InputError(
                    f"reference names {name!r}, a column of numbers; list it in categorical to make it a factor."
                )
            made.append(Column(name))
            continue
        levels = _levels(rows[name], name)
        if name in references:
            if references[name] not in levels:
                raise unknown_name(f"reference[{name!r}]", references[name], levels, "level")
            levels = [references[name], *(v for v in levels if v != references[name])]
        made.append(Column(name, tuple(levels)))
    return _check_names(Encoding(tuple(made)))


def missing_rows(table: pa.Table) -> BoolArray:
    """Tell which rows have a missing value in some column, (n,)."""
    out = np.zeros(table.num_rows, dtype=bool)
    for name in table.column_names:
        out |= pc.is_null(table[name], nan_is_null=True).to_numpy()
    return out


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _levels(values: pa.ChunkedArray, name: str) -> list[Any]:
    """List the levels that occur: in the order of a categorical type, else sorted."""
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries().combine_chunks()
        chunk = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
        present = set(chunk.indices.drop_null().to_pylist())
        found = [v for i, v in enumerate(chunk.dictionary.to_pylist()) if i in present]
    else:
        found = sorted(v for v in pc.unique(values).to_pylist() if v is not None and v == v)
    strange = next((v for v in found if not isinstance(v, str | int | float)), None)
    if strange is not None:
        raise InputError(
            f"X: the factor {name!r} has the level {strange!r}; levels are text, numbers or booleans. Turn the column into text."
        )
    if len(found) < 2:
        raise InputError(
            f"X: the factor {name!r} has {len(found)} level(s) ({listed(found)}) in the rows used; an effect needs two. "
            "Leave the column out."
        )
    return found


def _dummies(table: pa.Table, column: Column, argument: str) -> FloatArray:
    assert column.levels is not None
    values = table[column.name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    place = {v: i for i, v in enumerate(column.levels)}
    distinct = values.combine_chunks().dictionary_encode()
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.chunk(0)
    known = distinct.dictionary.to_pylist()
    unseen = [v for v in known if v not in place and v is not None and v == v]
    if unseen:
        raise InputError(
            f"{argument}[{column.name!r}] has the level(s) {listed(unseen)}, which fit has not seen; its levels are "
            f"{listed(column.levels, 12)}. Leave these rows out."
        )
    code = np.array([place.get(v, -1) for v in known] + [-1])
    index = distinct.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    level = code[index]
    out = (level[:, None] == np.arange(1, len(column.levels))).astype(np.float64)
    out[level < 0] = np.nan
    return out


def _label(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.10g}"


def _check_names(encoding: Encoding) -> Encoding:
    """Refuse a column that is called as the dummy of a factor is."""
    names = encoding.names
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(
            f"X: {listed(twice)} would name two columns, one of them a level of a factor; rename the other."
        )
    return encoding


def build_effects(
    encoding: Encoding,
    X: FloatArray,
    scaling: Scaling,
    *,
    contrast: str = "factor",
    first_differences: bool = True,
    per_unit: bool = False,
) -> tuple[Effect, ...]:
    """List the effects of the columns.

    Parameters
    ----------
    encoding : Encoding
    X : (U, P)
        Distinct rows of the matrix.
    scaling : Scaling
    contrast : {"factor", "dummy"}
        Whether the effect of a level sets the whole factor or its dummy alone.
    first_differences : bool
        False gives binary columns a derivative, as R's ``binary=FALSE``.
    per_unit : bool
        Whether first differences are divided by the distance of the two values, as bigKRLS does.
    """
    names, out, start = encoding.names, [], 0
    for column in encoding.columns:
        own = np.arange(start, start + column.width)
        start += column.width
        if column.levels is not None and contrast == "factor":
            corners = np.concatenate([np.zeros((1, column.width)), np.eye(column.width)])
            points = (corners - scaling.mean[own]) / scaling.sd[own]
            switch = Switch(own, points)
            reference = _label(column.levels[0])
            out += [
                Effect(names[p], "contrast", f"{_label(v)} - {reference}", int(p), switch, high=k + 1)
                for k, (p, v) in enumerate(zip(own, column.levels[1:], strict=True))
            ]
            continue
        out += [_one_column(names[p], int(p), X[:, p], scaling, first_differences, per_unit) for p in own]
    return tuple(out)


def _one_column(
    name: str, p: int, values: FloatArray, scaling: Scaling, first_differences: bool, per_unit: bool
) -> Effect:
    low, high = float(values.min()), float(values.max())
    if not first_differences or not ((values == low) | (values == high)).all():
        return Effect(name, "derivative", "dy/dx", p)
    points = ((np.array([low, high]) - scaling.mean[p]) / scaling.sd[p])[:, None]
    unit = high - low if per_unit else 1.0
    return Effect(name, "first difference", f"{high:g} - {low:g}", p, Switch(np.array([p]), points), unit=unit)
