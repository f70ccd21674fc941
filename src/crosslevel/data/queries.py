"""The language in which a subgroup of people is named: ``"sex == 2 and age >= 65"``.

A query is read by a small parser of its own into a tree of frozen dataclasses; nothing is ever evaluated as Python.
The tree is turned into Arrow compute calls once, in :func:`_known_true`: over columns it gives a mask, over field
references an expression that a reader can push down to the file.

Missing values follow the three-valued logic of SQL: a comparison with a missing value is unknown, ``not unknown`` is
unknown, and a row is kept only where the query is known to be true. Negations are moved down to the comparisons when
the query is read, so that every node need only answer "where is this known to be true?"; NaN counts as missing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.data.query_syntax import And, Comparison, Condition, Literal, Membership, Missing, Or, Truth, parse_text
from crosslevel.errors import InputError, nearest

ALL = "all"
"""Name of the subgroup that holds everybody."""
SUBGROUP = "subgroup"
"""Name of the key column that named subgroups add."""

Operand: TypeAlias = Any  # an Array, a ChunkedArray or an Expression: Arrow's functions take each of them

COMPARE: dict[str, Callable[[Operand, Operand], Operand]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
WIDE = pa.decimal128(38, 0)  # holds every integer type, and every written integer one could compare it with


class Choice(Protocol):
    """What tells of every person whether they are meant: a query, or a rule of one's own."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns of people that are read."""

    def mask(self, batch: pa.RecordBatch) -> Any:
        """Tell of every row whether it is meant."""


@dataclass(frozen=True)
class Query:
    """A condition on the columns of a table.

    Parameters
    ----------
    text : str
        What was written.
    condition : Condition
        What it means: a tree without negations, see :mod:`crosslevel.data.query_syntax`.

    See Also
    --------
    parse : Make a query from text.

    Examples
    --------
    >>> query = parse("sex == 2 and 18 <= age < 65")
    >>> query.columns
    ('sex', 'age')
    >>> query.mask(pa.table({"sex": [2, 2, 1], "age": [30, None, 40]}))
    array([ True, False, False])
    """

    text: str
    condition: Condition

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns the query looks at, in the order they are first written."""
        return tuple(dict.fromkeys(_names(self.condition)))

    def mask(self, table: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Tell for each row whether the query is known to be true there.

        Examples
        --------
        >>> parse("not (age > 30)").mask(pa.table({"age": [20, 40, None]}))
        array([ True, False, False])
        """
        leaf = _typed_leaf(table.schema, table.column, self.text)
        known = pc.fill_null(_known_true(self.condition, leaf, self.text), False)
        return cast("npt.NDArray[np.bool_]", known.to_numpy(zero_copy_only=False).astype(bool, copy=False))

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """Give the same condition as an Arrow expression over the fields of ``schema``, for push-down.

        Examples
        --------
        >>> import pyarrow.dataset as ds
        >>> table = pa.table({"age": [20, 40, None]})
        >>> ds.dataset(table).count_rows(filter=parse("age > 30").expression(table.schema))
        1
        """
        return _known_true(self.condition, _typed_leaf(schema, pc.field, self.text), self.text)

    def check(self, schema: pa.Schema) -> None:
        """Refuse, with a sentence, columns that are not in ``schema`` or cannot be compared as written."""
        self.expression(schema)

    def __str__(self) -> str:
        return self.text


def parse(text: str | Query) -> Query:
    """Read a query.

    Parameters
    ----------
    text : str
        Comparisons ``== != < <= > >=`` (also chained, ``18 <= age < 65``) of columns with numbers, quoted text,
        ``true`` or ``false``, or other columns; ``in (1, 2)`` and ``not in``; ``is null`` and ``is not null``;
        ``and or not`` (or ``& | ~``) and parentheses. Column names with blanks go in backticks. Dates are compared
        with quoted text, ``day >= '2020-02-29'``; where the column has a time zone and the text has none, it is the
        column's. Text is compared exactly, leading zeros included. Words of the language may be written in capitals.

    Notes
    -----
    Integers and decimals are compared with one another exactly. Where one side is a column of floats both are compared
    as floats, which tell integers apart only up to 2**53.

    Examples
    --------
    >>> parse("`hours worked` > 35 and state in ('AL', 'GA')").columns
    ('hours worked', 'state')
    >>> parse("age = 3")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: the query cannot be read: '=' is not a comparison; write '=='.
        age = 3
            ^
    """
    if isinstance(text, Query):
        return text
    if not isinstance(text, str):
        raise InputError(f"a query is text such as 'age >= 65', not {text!r} ({type(text).__name__}).")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(
            f"the query {text!r} holds half a character (a lone surrogate), which no text can; correct it."
        )
    return Query(text, parse_text(text))


def read_query(text: str | Query, argument: str, schema: pa.Schema | None = None) -> Query:
    """Read what a user passed as a query and check it against the columns, if given; an error begins with the argument's name.

    Examples
    --------
    >>> read_query("age = 3", "where")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: where: the query cannot be read: '=' is not a comparison; write '=='.
        age = 3
            ^
    """
    try:
        query = parse(text)
        if schema is not None:
            query.check(schema)
    except InputError as error:
        raise InputError(f"{argument}: {error}") from None
    return query


def _names(condition: Condition) -> Iterator[str]:
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _names(part)
        case Comparison(_, left, right):
            yield from (side for side in (left, right) if isinstance(side, str))
        case Membership(column) | Missing(column) | Truth(column):
            yield column


def _typed_leaf(
    schema: pa.Schema, look_up: Callable[[str], Operand], text: str
) -> Callable[[str], tuple[Operand, pa.DataType]]:
    """Give a lookup from name to (column, its type), with types that Arrow cannot compare made ones it can."""

    def leaf(name: str) -> tuple[Operand, pa.DataType]:
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            if indices:
                raise InputError(
                    f"the query {text!r} names {name!r}, and {len(indices)} columns are called that; rename them."
                )
            raise InputError(
                f"the query {text!r} names the column {name!r}, which is not there; the columns are "
                f"{', '.join(map(repr, schema.names[:12]))}{' and more' if len(schema) > 12 else ''}."
                f"{nearest(name, schema.names)}"
            )
        column, kind = look_up(name), schema.field(indices[0]).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        comparable = _comparable(kind)
        return _cast(column, kind, comparable), comparable

    return leaf


def _comparable(kind: pa.DataType) -> pa.DataType:
    """Give the nearest type that Arrow's comparisons and ``is_in`` know."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _known_true(condition: Condition, leaf: Callable[[str], tuple[Operand, pa.DataType]], text: str) -> Operand:
    """Build the Arrow calls that are true exactly where ``condition`` is known to be true."""
    match condition:
        case And(parts):
            return reduce(pc.and_kleene, (_known_true(p, leaf, text) for p in parts))
        case Or(parts):
            return reduce(pc.or_kleene, (_known_true(p, leaf, text) for p in parts))
        case Truth(name, negated):
            column, kind = leaf(name)
            if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
                raise InputError(
                    f"the query {text!r} uses {name!r} as a condition, but it is a column of {kind}; compare it with "
                    f"something, for example {name} == 1."
                )
            column = column.cast(pa.bool_())
            return pc.invert(column) if negated else column
        case Missing(name, negated):
            column, _ = leaf(name)
            missing = pc.is_null(column, nan_is_null=True)
            return pc.invert(missing) if negated else missing
        case Membership(name, values, negated):
            return _member(name, values, negated, leaf, text)
        case Comparison(operator, left, right):
            return _compare(operator, left, right, leaf, text)


def _member(
    name: str,
    values: tuple[Literal, ...],
    negated: bool,
    leaf: Callable[[str], tuple[Operand, pa.DataType]],
    text: str,
) -> Operand:
    column, kind = leaf(name)
    if pa.types.is_null(kind):
        return pc.and_kleene(pc.is_valid(column), pc.is_valid(column))
    fitted = [_fit(column, kind, name, value, text) for value in values]
    comparable = [scalar.as_py() for _, scalar in fitted if scalar.type == kind]
    if pa.types.is_floating(kind) and 0.0 in comparable:
        comparable += [0.0, -0.0]  # equal in comparisons, two values to is_in
    # what needed a wider type than the column's own (2.5 in a column of integers) can equal none of its values
    member = pc.is_in(column, value_set=pa.array(comparable, kind))
    if not negated:
        return pc.and_kleene(member, pc.is_valid(column))
    return pc.and_kleene(pc.invert(member), _present(column, kind))


def _compare(
    operator: str,
    left: str | Literal,
    right: str | Literal,
    leaf: Callable[[str], tuple[Operand, pa.DataType]],
    text: str,
) -> Operand:
    if isinstance(left, Literal):
        left, right, operator = right, left, MIRRORED[operator]
    assert isinstance(left, str), "the parser refuses comparisons without a column"
    column, kind = leaf(left)
    if isinstance(right, Literal):
        if pa.types.is_boolean(kind) and operator not in ("==", "!="):
            raise InputError(f"the query {text!r} orders {left!r}, a column of true and false; use == or !=.")
        wide, scalar = _fit(column, kind, left, right, text)
        result = COMPARE[operator](wide, scalar)
        return pc.and_kleene(result, _present(column, kind)) if operator == "!=" else result
    other, other_kind = leaf(right)
    common = _common_type(left, kind, right, other_kind, text)
    result = COMPARE[operator](_cast(column, kind, common), _cast(other, other_kind, common))
    if operator == "!=":
        return pc.and_kleene(pc.and_kleene(result, _present(column, kind)), _present(other, other_kind))
    return result


def _present(column: Operand, kind: pa.DataType) -> Operand:
    """Say where a column is neither null nor NaN (NaN != 3 is true in IEEE arithmetic, and unknown here)."""
    return pc.invert(pc.is_null(column, nan_is_null=True)) if pa.types.is_floating(kind) else pc.is_valid(column)


def _cast(column: Operand, kind: pa.DataType, wanted: pa.DataType) -> Operand:
    return column if kind == wanted else column.cast(wanted, safe=False)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _fit(column: Operand, kind: pa.DataType, name: str, literal: Literal, text: str) -> tuple[Operand, pa.Scalar]:
    """Bring a column and a written value to one type, exactly where possible."""
    value = literal.value
    if pa.types.is_null(kind):
        whole = isinstance(value, int) and not isinstance(value, bool)
        scalar = (
            pa.scalar(float(literal.written)) if whole else pa.scalar(value)
        )  # of any size: a column of nulls equals none
        return column.cast(scalar.type), scalar
    if _is_number(kind) and isinstance(value, int | float) and not isinstance(value, bool):
        scalar = _number(kind, literal)
        return _cast(column, kind, scalar.type), scalar
    if (_is_text(kind) and isinstance(value, str)) or (pa.types.is_boolean(kind) and isinstance(value, bool)):
        return column, pa.scalar(value, kind)
    if _date_or_time(kind) and isinstance(value, str):
        try:
            scalar = _moment(kind, value)
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"the query {text!r} compares {name!r}, a column of {kind}, with {literal.written}, which cannot be "
                f"read as one; write for example {_example(kind)}."
            ) from error
        return _cast(column, kind, scalar.type), scalar
    raise InputError(
        f"the query {text!r} compares {name!r}, a column of {kind}, with {_what(value)} {literal.written}; "
        f"{_repair(kind, name, literal)}."
    )


def _number(kind: pa.DataType, literal: Literal) -> pa.Scalar:
    """Give a written number in the type in which a column compares with it: without loss, the column's own if it can be."""
    rounded = float(literal.written)
    if pa.types.is_floating(kind):
        return pa.scalar(rounded, kind)  # 0.1 means the column's own 0.1, also in single precision
    exact = Decimal(literal.written.replace("_", "")) if abs(rounded) < 1e38 else Decimal("inf")
    candidates = [kind]
    if pa.types.is_integer(kind):
        whole = exact.is_finite() and exact == exact.to_integral_value()
        candidates = [kind, *([] if kind == pa.uint64() else [pa.int64()]), WIDE] if whole else []
    for candidate in candidates:
        try:
            return pa.scalar(int(exact) if pa.types.is_integer(candidate) else exact, candidate)
        except (pa.ArrowInvalid, OverflowError):
            continue
    return pa.scalar(rounded, pa.float64())


def _moment(kind: pa.DataType, value: str) -> pa.Scalar:
    """Read a date, a time of day or both."""
    if pa.types.is_time(kind):
        time = datetime.time.fromisoformat(value)
        own = pa.scalar(time, kind)
        return own if own.as_py() == time else pa.scalar(time, pa.time64("us"))
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return pa.scalar(value).cast(kind)
    try:
        return pa.scalar(value).cast(kind)
    except pa.ArrowInvalid:  # it says no zone, so it means the column's
        naive = pa.scalar(value).cast(pa.timestamp(kind.unit))
        return pc.assume_timezone(naive, kind.tz, ambiguous="earliest", nonexistent="earliest")


def _date_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def _example(kind: pa.DataType) -> str:
    if pa.types.is_time(kind):
        return "'13:00' or '13:00:59'"
    return "'2020-02-29'" if pa.types.is_date(kind) else "'2020-02-29' or '2020-02-29 13:00'"


def _common_type(left: str, kind: pa.DataType, right: str, other: pa.DataType, text: str) -> pa.DataType:
    """Give the type in which two columns are compared."""
    if kind == other and not pa.types.is_null(kind):
        return kind
    if pa.types.is_null(kind) or pa.types.is_null(other):
        return pa.bool_() if kind == other else (other if pa.types.is_null(kind) else kind)
    if _is_number(kind) and _is_number(other):
        if pa.types.is_floating(kind) or pa.types.is_floating(other):
            return pa.float64()
        if pa.types.is_decimal(kind) or pa.types.is_decimal(other):
            return pa.decimal256(76, max(getattr(k, "scale", 0) for k in (kind, other)))
        return WIDE if pa.uint64() in (kind, other) else pa.int64()
    if _is_text(kind) and _is_text(other):
        return pa.large_string()
    if all(pa.types.is_date(k) or (pa.types.is_timestamp(k) and k.tz is None) for k in (kind, other)):
        return pa.timestamp("us")
    raise InputError(
        f"the query {text!r} compares {left!r}, a column of {kind}, with {right!r}, a column of {other}; convert one "
        "of them so that both are numbers or both are text."
    )


def _what(value: object) -> str:
    if isinstance(value, bool):
        return "the truth value"
    return "the text" if isinstance(value, str) else "the number"


def _repair(kind: pa.DataType, name: str, literal: Literal) -> str:
    """Say how the comparison should be written instead."""
    if _is_text(kind):
        return "text is compared exactly, so write it in quotes as it stands in the column, leading zeros included"
    if pa.types.is_boolean(kind):
        return f"write {name} == true or {name} == false"
    if _is_number(kind):
        if isinstance(literal.value, bool):
            return f"write {name} == {int(literal.value)}"
        try:
            float(cast("str", literal.value))
        except ValueError:
            return "compare it with a number, or convert the column to text first"
        return f"leave out the quotes: {literal.value}"
    if _date_or_time(kind):
        return f"write it in quotes, for example {_example(kind)}"
    return "such a column can only be asked 'is null' or 'is not null'"
