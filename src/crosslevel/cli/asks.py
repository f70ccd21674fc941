"""What is asked for: columns, crossings of columns and named subgroups, read from the texts after ``--estimate``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from crosslevel.cli.job import file_stem
from crosslevel.data.queries import parse
from crosslevel.errors import InputError, unknown_name

__all__ = ["Ask", "read_asks"]

OPERATOR = re.compile(r"[<>=!&|~()]|\b(?:and|or|not|in|is)\b", re.IGNORECASE)
NO_NAME = re.compile(r"[<>!()'\"`\[\]]")
"""Signs that end no name of a subgroup: what stands before the first ``=`` is then part of a query."""


@dataclass(frozen=True)
class Ask:
    """One call of ``estimate``: the values of columns, or subgroups by name.

    Attributes
    ----------
    by : tuple of str
    subgroups : dict of name to query
    """

    by: tuple[str, ...] = ()
    subgroups: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What is asked, for a heading."""
        return " x ".join(self.by) if self.by else ", ".join(self.subgroups)

    def stem(self, where: str | None) -> str:
        """Name of the files, ``where`` being the key of places or roll-ups, or None for everywhere."""
        what = "-x-".join(map(file_stem, self.by)) if self.by else "subgroups"
        return f"{what}-everywhere" if where is None else f"{what}-by-{file_stem(where)}"


def read_asks(texts: Sequence[str], people: pa.Schema) -> list[Ask]:
    """Read what is asked for; all subgroups together make one ask, since they are answered in one pass.

    Parameters
    ----------
    texts : sequence of str
        A column; columns joined by ``,`` or ``*``; a query, named by its own text; or ``name=query``.
    people : pyarrow.Schema
        Columns of people.

    Examples
    --------
    >>> people = pa.schema({"sex": pa.int64(), "race": pa.string(), "age": pa.int64()})
    >>> for ask in read_asks(["sex", "sex * race", "age >= 65", "old women=sex == 2 and age >= 65"], people):
    ...     print(ask.by, ask.subgroups)
    ('sex',) {}
    ('sex', 'race') {}
    () {'age >= 65': 'age >= 65', 'old women': 'sex == 2 and age >= 65'}
    """
    columns: list[Ask] = []
    subgroups: dict[str, str] = {}
    for text in (t.strip() for t in texts):
        by = _columns(text, people.names)
        if by:
            if Ask(by) in columns:
                raise InputError(f"--estimate names {text!r} twice; ask once.")
            columns.append(Ask(by))
            continue
        name, query = _named(text)
        if not query:
            parts = [part.strip() for part in re.split(r"[,*]", text)]
            strange = next((part for part in parts if part not in people.names), text)
            raise unknown_name("--estimate", strange, people.names)
        _check(text, name, query, people)
        if name in subgroups:
            raise InputError(f"--estimate names {name!r} twice; give each subgroup its own name.")
        subgroups[name] = query
    return [*columns, *([Ask(subgroups=subgroups)] if subgroups else [])]


def _columns(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Give the columns that the text names, or nothing."""
    if text in known:
        return (text,)
    parts = tuple(part.strip() for part in re.split(r"[,*]", text))
    if not all(part in known for part in parts):
        return ()
    if len(set(parts)) < len(parts):
        raise InputError(f"--estimate {text!r} names a column twice; name each once.")
    return parts


def _named(text: str) -> tuple[str, str]:
    """Give the name of a subgroup and its query; no query when the text has no operator."""
    name, mark, query = (part.strip() for part in text.partition("="))
    if mark and name and query and not query.startswith("=") and not NO_NAME.search(name):
        return name, query
    return text, text if OPERATOR.search(text) else ""


def _check(text: str, name: str, query: str, people: pa.Schema) -> None:
    try:
        parse(query).check(people)
    except InputError as error:
        hint = (
            f" ('=' ends the name of a subgroup; to compare, write {name} == {query})" if name in people.names else ""
        )
        raise InputError(f"--estimate {text!r}: {error}{hint}") from error
