"""Several files, one schema: what may differ between them, and what may not."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from crosslevel.data.batches.source import Source, check_unique
from crosslevel.errors import FileError, InputError, nearest, unknown_name

__all__ = ["cast_batch", "common_schema"]


def common_schema(sources: Sequence[Source], columns: Sequence[str] | None) -> pa.Schema:
    """Give the schema of the named columns in which all sources can be read.

    Integers widen, integers and floats meet in float64, a column of nulls takes any type, dictionaries and kinds of
    strings meet in their values. Without ``columns``, every source must have the columns of the first.
    """
    first = sources[0]
    for source in sources:
        check_unique(source.name, source.schema.names)
    if columns is None:
        names = first.schema.names
        for source in sources[1:]:
            extra = [name for name in source.schema.names if name not in names]
            if extra:
                raise FileError(
                    f"{source.name} has a column {extra[0]!r} that {first.name} has not; name the wanted columns, or "
                    "read these files separately."
                )
    else:
        names = list(columns)
        for name in names:
            if name not in first.schema.names:
                raise unknown_name("columns", name, first.schema.names)
    return pa.schema([_common_field(sources, name) for name in names])


def _common_field(sources: Sequence[Source], name: str) -> pa.Field:
    chosen: pa.DataType | None = None
    owner = sources[0]
    for source in sources:
        if source.schema.get_field_index(name) < 0:
            raise FileError(
                f"{source.name} has no column {name!r}, which {sources[0].name} has."
                f"{nearest(name, source.schema.names)} Files read together must have the same columns."
            )
        kind = _plain(source.schema.field(name).type)
        both = kind if chosen is None else _common_type(chosen, kind)
        if both is None and owner.as_text(name) and source.as_text(name):
            both = pa.string()
        if both is None:
            raise FileError(
                f"column {name!r} is {kind} in {source.name} and {chosen} in {owner.name}; convert one of the files, "
                "or, for CSV files, say which it is with column_types."
            )
        if both != chosen:
            chosen, owner = both, source
    return pa.field(name, chosen)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Give views as plain strings, since Arrow cannot filter views."""
    if pa.types.is_dictionary(kind):
        values = _plain(kind.value_type)
        return kind if values == kind.value_type else values
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _common_type(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if one == two or pa.types.is_null(two):
        return one
    if pa.types.is_null(one):
        return two
    one, two = (t.value_type if pa.types.is_dictionary(t) else t for t in (one, two))
    if one == two:
        return one
    if all(pa.types.is_integer(t) for t in (one, two)):
        return pa.int64()
    if all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (one, two)):
        return pa.float64()
    if all(pa.types.is_string(t) or pa.types.is_large_string(t) for t in (one, two)):
        return pa.large_string()
    return None


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    """Bring a batch to a schema, by column name."""
    arrays = []
    for wanted in schema:
        place = batch.schema.get_field_index(wanted.name)
        if place < 0:
            raise InputError(
                f"a batch of {name} has no column {wanted.name!r}, which the first had; every batch must have the same columns."
            )
        column = batch.column(place)
        try:
            arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"column {wanted.name!r} of {name} is {column.type} in one batch and {wanted.type} in another, and the "
                f"values do not fit ({error}); make every batch of one type."
            ) from error
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
