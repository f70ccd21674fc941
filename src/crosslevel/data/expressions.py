"""The language in which people are named: one SQL expression over their columns, ``"sex = 2 and age >= 65"``.

``read_expression(text, "where", schema)`` parses with sqlglot and lets through what is on a short list: columns, numbers, quoted
text, comparisons, ``and or not``, ``in (...)``, ``between``, ``is null``, ``like``, arithmetic and ``case``. Everything else
(functions, subqueries, several statements, parameters) is refused before any of it runs. ``==`` is understood. As in SQL a
comparison with a missing value is unknown, and nobody of whom it is unknown is in the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crosslevel.data.frames import kind_of
from crosslevel.errors import InputError, listed, unknown_name

ALL = "all"
"""Name of the subgroup that holds everybody."""
SUBGROUP = "subgroup"
"""Name of the key column that named subgroups add."""
LONGEST, DEEPEST = 20_000, 100
"""Characters and brackets of an expression."""
COMPARISONS = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE")
CONNECTORS = ("And", "Or")
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod")
ALIKE = {"boolean", "number", "text"}
"""Kinds that are compared with their own only; dates are compared with text."""


@dataclass(frozen=True)
class Expression:
    """An expression that was let through.

    Attributes
    ----------
    text : str
        What was written.
    sql : str
        The same in the dialect of DuckDB, every column quoted.
    columns : tuple of str
        Columns it looks at, in the order they are first written.
    """

    text: str
    sql: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def read_expression(text: object, argument: str, schema: pa.Schema) -> Expression:
    """Read a condition on the columns of a table.

    Parameters
    ----------
    text : str
    argument : str
        The caller's name for it, used in messages.
    schema : pyarrow.Schema
        The columns there are.

    Examples
    --------
    >>> schema = pa.schema({"sex": pa.int64(), "age": pa.float64()})
    >>> read_expression("sex == 2 and age >= 65", "where", schema).sql
    '"sex" = 2 AND "age" >= 65'
    >>> read_expression("sex = 2; drop table people", "where", schema)
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: where='sex = 2; drop table people' cannot be read; write a condition such as ...
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{argument}={text!r} is no condition; write text such as 'sex = 2 and age >= 65'.")
    try:
        tree = _parse(text, argument)
        reading = _Reading(text, argument, schema)
        kind, sql = reading.kind(tree), tree.sql("duckdb", comments=False)
    except RecursionError as error:
        raise InputError(
            f"{argument} is a condition too deep to be read; make a column of people that says it."
        ) from error
    if kind not in ("boolean", "missing"):
        raise InputError(
            f"{argument}={text!r} is {_named(kind)}, not a condition that is true or false; compare it with something."
        )
    return Expression(text, sql, tuple(dict.fromkeys(reading.columns)))


def _parse(text: str, argument: str) -> Any:
    from sqlglot import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.expressions import Condition

    if len(text) > LONGEST or text.count("(") > DEEPEST:
        raise InputError(
            f"{argument} is a condition of {len(text):,} characters and {text.count('('):,} brackets; at most {LONGEST:,} and {DEEPEST} "
            "are read. Make a column of people that says it."
        )
    try:
        found = Dialect.get_or_raise("duckdb").parse_into(
            Condition, text
        )  # no statement: those unknown would be logged
    except (SqlglotError, ValueError) as error:
        raise InputError(
            f"{argument}={text!r} cannot be read; write a condition such as 'sex = 2 and age >= 65', names with blanks in double "
            f"quotes and text in single quotes ({type(error).__name__})."
        ) from error
    if len(found) != 1 or found[0] is None:
        raise InputError(f"{argument}={text!r} is more than one statement; write one condition over columns of people.")
    return found[0]


class _Reading:
    """Go through a tree once: refuse what is not on the list, quote columns by their exact names, say of what kind each part is."""

    def __init__(self, text: str, argument: str, schema: pa.Schema) -> None:
        self.text, self.argument, self.schema = text, argument, schema
        self.columns: list[str] = []

    def kind(self, node: Any) -> str:
        """Say of what kind a part is: boolean, number, text, date or missing."""
        name = type(node).__name__
        rule = getattr(self, f"_{name.lower()}", None)
        if name in COMPARISONS:
            return self._compared(node)
        if name in CONNECTORS:
            return self._truths(node.this, node.expression)
        if name in ARITHMETIC:
            self._numbers(node.this, node.expression)
            return "number"
        if rule is None:
            raise self._refused(node)
        return str(rule(node))

    def _refused(self, node: Any) -> InputError:
        return InputError(
            f"{self.argument}={self.text!r} holds {node.sql('duckdb', comments=False)[:80]!r}, which is none of the parts that are read: "
            "columns, numbers, quoted text, comparisons, and, or, not, in, between, is null, like, arithmetic and case."
        )

    def _column(self, node: Any) -> str:
        if any(node.args.get(part) for part in ("table", "db", "catalog", "join_mark")):
            raise self._refused(node)
        name = node.name
        known = self.schema.names
        if name not in known:
            folded = [n for n in known if n.casefold() == name.casefold()]
            if not folded:
                hint = f" Text stands in single quotes: '{name}'." if node.this.args.get("quoted") else ""
                raise InputError(f"{unknown_name(self.argument, name, known)}{hint}")
            name = folded[0]
        node.this.set("this", name)
        node.this.set("quoted", True)
        self.columns.append(name)
        return kind_of(self.schema.field(name).type)

    def _literal(self, node: Any) -> str:
        return "text" if node.is_string else "number"

    def _boolean(self, node: Any) -> str:
        return "boolean"

    def _null(self, node: Any) -> str:
        return "missing"

    def _paren(self, node: Any) -> str:
        return self.kind(node.this)

    def _not(self, node: Any) -> str:
        return self._truths(node.this)

    def _neg(self, node: Any) -> str:
        self._numbers(node.this)
        return "number"

    def _in(self, node: Any) -> str:
        if not node.expressions or any(node.args.get(part) for part in ("query", "unnest", "field")):
            raise self._refused(node)
        for value in node.expressions:
            self._same(node, self.kind(node.this), self.kind(value))
        return "boolean"

    def _between(self, node: Any) -> str:
        for side in (node.args["low"], node.args["high"]):
            self._same(node, self.kind(node.this), self.kind(side))
        return "boolean"

    def _is(self, node: Any) -> str:
        kind, other = self.kind(node.this), type(node.expression).__name__
        if other not in ("Null", "Boolean") or (other == "Boolean" and kind not in ("boolean", "missing")):
            raise self._refused(node)
        return "boolean"

    def _like(self, node: Any) -> str:
        if (self.kind(node.this), self.kind(node.expression)) != ("text", "text"):
            raise self._refused(node)
        return "boolean"

    _ilike = _like

    def _case(self, node: Any) -> str:
        kinds = {self.kind(one.args["true"]) for one in node.args["ifs"]}
        for one in node.args["ifs"]:
            self._same(one, "boolean" if node.this is None else self.kind(node.this), self.kind(one.this))
        if (other := node.args.get("default")) is not None:
            kinds.add(self.kind(other))
        kinds -= {"missing"}
        if len(kinds) > 1:
            raise self._refused(node)
        return kinds.pop() if kinds else "missing"

    def _compared(self, node: Any) -> str:
        sides = (node.this, node.expression)
        if any(type(side).__name__ in COMPARISONS for side in sides):
            raise InputError(
                f"{self.argument}={self.text!r} chains comparisons; write 'age >= 18 and age < 65', or 'age between 18 and 64'."
            )
        self._same(node, *(self.kind(side) for side in sides))
        return "boolean"

    def _same(self, node: Any, one: str, other: str) -> None:
        if "missing" in (one, other) or one == other:
            return
        if {one, other} <= ALIKE or not {one, other} <= {"date", "text"}:
            raise InputError(
                f"{self.argument}={self.text!r} compares {_named(one)} with {_named(other)} in {node.sql('duckdb', comments=False)!r}; "
                "numbers stand without quotes, text in single quotes, true and false without."
            )

    def _truths(self, *nodes: Any) -> str:
        for node in nodes:
            if self.kind(node) not in ("boolean", "missing"):
                part = node.sql("duckdb", comments=False)
                raise InputError(
                    f"{self.argument}={self.text!r}: {part!r} is not true or false; compare it with something."
                )
        return "boolean"

    def _numbers(self, *nodes: Any) -> None:
        for node in nodes:
            if self.kind(node) not in ("number", "missing"):
                raise self._refused(node)


def _named(kind: str) -> str:
    names = {"boolean": "true or false", "number": "a number", "missing": "nothing"}
    return names.get(kind, listed([kind]).strip("'"))
