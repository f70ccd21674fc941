"""Queries that are valid, checked for what they mean against an evaluator that shares no code with the library."""

from __future__ import annotations

import math
import random
import time

import pyarrow as pa
from tests.harden.door import Door

from crosslevel.data.expressions import read_expression
from crosslevel.data.people import People
from crosslevel.data.sql import mask_of, quoted
from crosslevel.errors import InputError

__all__ = ["run"]

NAMES = {"a": "number", "b": "number", "f": "float", "s": "text", "t": "text", "q": "truth", "hours worked": "number"}
WORDS = ["x", "y", "", "it's", 'a "b"', "65", "é", "\\", "null", "a\nb"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


def table(rng: random.Random, n: int = 40) -> pa.Table:
    """Make a table with every type, nulls and NaN."""

    def column(kind: str) -> pa.Array:
        def value() -> object:
            if rng.random() < 0.2:
                return None
            if kind == "number":
                return rng.choice([rng.randrange(-5, 6), 2**53 + 1, -(2**62), 2**62])
            if kind == "float":
                return rng.choice([float(rng.randrange(-5, 6)), 0.1, 1e300, -0.0, math.nan, math.inf])
            return rng.choice(WORDS) if kind == "text" else rng.random() < 0.5

        types = {"number": pa.int64(), "float": pa.float64(), "text": pa.string(), "truth": pa.bool_()}
        return pa.array([value() for _ in range(n)], types[kind])

    return pa.table({name: column(kind) for name, kind in NAMES.items()})


class Made:
    """A condition as text and as a function of a row that gives True, False or None (unknown)."""

    def __init__(self, text: str, of, names: frozenset[str] = frozenset()) -> None:
        self.text, self.of = text, of


def generate(rng: random.Random, depth: int = 3) -> Made:
    """Make a valid query."""
    kind = rng.random()
    if depth and kind < 0.55:
        parts = [generate(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
        word = rng.choice(["and", "or"])
        sign = rng.choice([word, word.upper()])
        return Made(
            f" {sign} ".join(f"({p.text})" for p in parts),
            (lambda row: _all([p.of(row) for p in parts]))
            if word == "and"
            else (lambda row: _not(_all([_not(p.of(row)) for p in parts]))),
        )
    if depth and kind < 0.7:
        inner = generate(rng, depth - 1)
        return Made(f"{rng.choice(['not ', 'Not ', 'NOT '])}({inner.text})", lambda row: _not(inner.of(row)))
    return _leaf(rng)


def _leaf(rng: random.Random) -> Made:
    name = rng.choice(list(NAMES))
    kind = NAMES[name]
    written = quoted(name) if " " in name or rng.random() < 0.1 else name
    what = rng.random()
    if what < 0.15:
        negated = rng.random() < 0.5
        return Made(f"{written} is {'not ' if negated else ''}null", lambda row: (_value(row, name) is None) != negated)
    if kind == "truth":
        if rng.random() < 0.5:
            return Made(written, lambda row: _value(row, name))
        operator, right = rng.choice(["==", "!="]), rng.random() < 0.5
        return Made(
            f"{written} {operator} {str(right).lower()}", lambda row: _compare(operator, _value(row, name), right)
        )
    if what < 0.35:
        values = [_literal(rng, kind) for _ in range(rng.randrange(1, 4))]
        negated = rng.random() < 0.5
        text = f"{written} {'not ' if negated else ''}in ({', '.join(w for w, _ in values)})"

        def member(row):
            value = _value(row, name)
            return None if value is None else any(value == v for _, v in values) != negated

        return Made(text, member)
    if what < 0.5:
        other = rng.choice([n for n, k in NAMES.items() if (k == "text") == (kind == "text") and k != "truth"])
        operator = rng.choice(COMPARISONS)
        both_whole = NAMES[name] == NAMES[other] == "number"
        return Made(
            f"{written} {operator} {quoted(other)}",
            lambda row: _compare(operator, _value(row, name), _value(row, other), kind == "text" or both_whole),
        )
    operator, (word, right) = rng.choice(COMPARISONS), _literal(rng, kind)
    if rng.random() < 0.3:
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        return Made(f"{word} {mirrored} {written}", lambda row: _compare(operator, _value(row, name), right))
    if kind != "text" and rng.random() < 0.3:
        low, high = sorted(rng.sample(range(-6, 7), 2))
        return Made(
            f"{low} <= {written} and {written} < {high}",
            lambda row: _all([_compare(">=", _value(row, name), low), _compare("<", _value(row, name), high)]),
        )
    return Made(f"{written} {operator} {word}", lambda row: _compare(operator, _value(row, name), right))


def _literal(rng: random.Random, kind: str) -> tuple[str, object]:
    if kind == "text":
        word = rng.choice(WORDS)
        return quoted(word, "'"), word
    value = rng.choice([rng.randrange(-5, 6), 0.5, 2**53, 2**53 + 1, 1_000, -(2**62)])
    text = f"{value:_}" if isinstance(value, int) and rng.random() < 0.3 else repr(value)
    return text, value


def _value(row: dict[str, object], name: str) -> object:
    value = row[name]
    return None if isinstance(value, float) and math.isnan(value) else value


def _compare(operator: str, left: object, right: object, exact: bool = True) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, float) != isinstance(right, float) and not isinstance(left, str):
        left, right = float(left), float(right)  # columns of floats compare as floats
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _all(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def run(door: Door, rng: random.Random, until: float) -> None:
    """Compare masks and filters with the evaluator, and let garbage be refused."""
    while time.monotonic() < until or not door.cases:
        data = table(rng)
        rows = data.to_pylist()
        for _ in range(50):
            made = generate(rng)
            door.cases += 1
            expected = [made.of(row) is True for row in rows]
            try:
                found = mask_of(data, read_expression(made.text, "where", data.schema)).tolist()
                pushed = People(data, where=made.text).answer("select count(*) as n from people")["n"][0].as_py()
            except Exception as error:
                door.note("crash", f"{made.text!r}: {error!r}")
                continue
            if found != expected or pushed != sum(expected):
                door.note("wrong", made.text)
            garbled = list(made.text)
            for _ in range(rng.randrange(1, 4)):
                garbled[rng.randrange(len(garbled))] = rng.choice("()'\"`<>=!&|~ 0aé\x00;")
            door.cases += 1
            try:
                mask_of(data, read_expression("".join(garbled), "where", data.schema))
            except InputError:
                pass
            except Exception as error:
                door.note("crash", f"{''.join(garbled)!r}: {error!r}")
