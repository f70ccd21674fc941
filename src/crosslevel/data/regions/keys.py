"""Read the keys of a crosswalk or of a table, and match them against collapse rules.

A key is a tuple with one text or integer value per key column; :func:`plain` shows a tuple of one as its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.frames import as_names, check_columns, group_rows
from crosslevel.errors import InputError, listed

Key: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = Literal["text", "integers"]
TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
"""What counts as text; an empty column has the type null."""


@dataclass(frozen=True)
class KeyColumns:
    """The distinct keys of a table and the key of each row.

    Attributes
    ----------
    keys : list of tuple
        The distinct keys, sorted.
    codes : (n_rows,) int64
        Position in ``keys`` of each row's key.
    kinds : tuple of str
        ``"text"`` or ``"integers"``, per key column.
    """

    keys: list[Key]
    codes: npt.NDArray[np.int64]
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Rule:
    """One collapse: every key that ``matches`` belongs to the node ``label``, in the crosswalk or not."""

    label: str
    matches: Callable[[Key], bool]


def plain(key: Key) -> str | int | Key:
    """Show a key as the caller writes it: a tuple of one is its value.

    Examples
    --------
    >>> plain(("01001",)), plain(("01", "001"))
    ('01001', ('01', '001'))
    """
    return key[0] if len(key) == 1 else key


def said(key: Key) -> str:
    """Write a key as text, the values of several columns joined by dashes.

    Examples
    --------
    >>> said(("01", 100))
    '01-100'
    """
    return "-".join(str(value) for value in key)


def as_key(value: object) -> Key:
    """Read a key as the caller wrote it, one value or a tuple of values.

    Examples
    --------
    >>> as_key("01001"), as_key((1, np.int64(3)))
    (('01001',), (1, 3))
    """
    parts = value if isinstance(value, tuple | list) else (value,)
    return tuple(int(part) if isinstance(part, np.integer) else part for part in parts)


def read_keys(table: pa.Table, columns: Sequence[str], argument: str) -> KeyColumns:
    """Read the key columns of a table; nulls and anything but text and integers are refused.

    Examples
    --------
    >>> found = read_keys(pa.table({"county": ["01001", "01003", "01001"]}), ["county"], "left")
    >>> found.keys, found.codes.tolist(), found.kinds
    ([('01001',), ('01003',)], [0, 1, 0], ('text',))
    """
    kinds = tuple(_kind(table, name, argument) for name in as_names(columns, argument))
    groups = group_rows(table, columns, argument)
    return KeyColumns(list(zip(*(c.to_pylist() for c in groups.keys.columns), strict=True)), groups.codes, kinds)


def _kind(table: pa.Table, name: str, argument: str) -> Kind:
    check_columns(table, [name], argument)
    kind = table[name].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind):
        return "integers"
    if any(test(kind) for test in TEXT):
        return "text"
    raise InputError(
        f"{argument}: the key column {name!r} holds {kind} values; keys are text or integers. "
        "Read the file with this column as text (codes keep their leading zeros), or convert it to integers."
    )


def make_rule(label: str, spec: object, kinds: Sequence[Kind], columns: Sequence[str]) -> Rule:
    """Turn one entry of ``collapse`` into a rule that says of any key whether it belongs.

    Parameters
    ----------
    label : str
        Name of the node.
    spec : str, tuple, list, set or callable
        A key or pattern (``*`` stands for any text), a collection of them, or a function of a key. With several
        key columns a key or pattern is a tuple.

    Examples
    --------
    >>> rule = make_rule("AK", "02*", ["text"], ["county"])
    >>> rule.matches(("02013",)), rule.matches(("01001",))
    (True, False)
    """
    if callable(spec):
        return Rule(label, lambda key: bool(spec(plain(key))))
    many = isinstance(spec, list | set | frozenset) or (isinstance(spec, tuple) and len(columns) == 1)
    patterns: list[object] = list(spec) if many else [spec]  # type: ignore[call-overload]
    if not patterns:
        raise InputError(f"collapse[{label!r}] is empty; name at least one key, or leave the rule out.")
    exact: set[Key] = set()
    wild: list[tuple[re.Pattern[str], ...]] = []
    for pattern in patterns:
        parts = as_key(pattern)
        _check_pattern(label, parts, kinds, columns)
        if any("*" in str(part) for part in parts):
            wild.append(tuple(_regex(part) for part in parts))
        else:
            exact.add(parts)

    def matches(key: Key) -> bool:
        return key in exact or any(
            all(regex.fullmatch(str(part)) for regex, part in zip(regexes, key, strict=True)) for regexes in wild
        )

    return Rule(label, matches)


def _regex(part: str | int) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in str(part).split("*")), re.DOTALL)


def _check_pattern(label: str, parts: Key, kinds: Sequence[Kind], columns: Sequence[str]) -> None:
    if len(parts) != len(kinds):
        raise InputError(
            f"collapse[{label!r}] has a key of {len(parts)} value(s), {plain(parts)!r}; the crosswalk's keys have "
            f"{len(kinds)} ({listed(columns)}). Write one value per column, as a tuple."
        )
    for part, kind, name in zip(parts, kinds, columns, strict=True):
        if part == "*" or (isinstance(part, int) if kind == "integers" else isinstance(part, str)):
            continue
        repair = (
            "write it as text, in quotes, with its leading zeros"
            if kind == "text"
            else f"pass a list of integers, or a function such as lambda {name}: {name} // 1000 == 2"
        )
        raise InputError(f"collapse[{label!r}] has the key {part!r}, but {name!r} holds {kind}; {repair}.")


def zero_padding(missing: Iterable[Key], known: Iterable[Key]) -> str:
    """Explain keys that would match but for leading zeros; empty when that is not the trouble.

    Examples
    --------
    >>> zero_padding([(1001,)], [("01001",)])
    " 1001 would be '01001' in the crosswalk: read the codes as text with their leading zeros (5 characters)."
    """
    stripped = {tuple(str(part).lstrip("0") for part in key): key for key in known}
    for key in missing:
        match = stripped.get(tuple(str(part).lstrip("0") for part in key))
        if match is not None and match != key:
            wide = max((len(part) for part in match if isinstance(part, str)), default=0)
            if len(said(match)) < len(said(key)):
                return (
                    f" {plain(key)!r} would be {plain(match)!r} in the crosswalk: drop the leading zeros of the codes."
                )
            width = f" ({wide} characters)" if wide else ""
            return (
                f" {plain(key)!r} would be {plain(match)!r} in the crosswalk: "
                f"read the codes as text with their leading zeros{width}."
            )
    return ""


def node_of(key: Key, rules: Sequence[Rule]) -> str | Key:
    """Name the node of a left key: the label of the rule that matches it, or the key itself.

    Examples
    --------
    >>> rules = [make_rule("AK", "02*", ["text"], ["county"])]
    >>> node_of(("02013",), rules), node_of(("01001",), rules)
    ('AK', ('01001',))
    """
    labels = [rule.label for rule in rules if rule.matches(key)]
    if len(labels) > 1:
        raise InputError(
            f"collapse puts the key {plain(key)!r} in {len(labels)} nodes ({listed(labels)}); "
            "write the rules so that each key matches one."
        )
    return labels[0] if labels else key
