"""Refuse arguments of a kind that the signature does not name.

A signature says what each argument is; :func:`checked` reads that once and refuses anything else with a sentence, before it is used. It
tells text, numbers, lists, mappings, functions and our own classes apart. What is inside of them, and which numbers make sense, is for
the function to check.
"""

from __future__ import annotations

import functools
import inspect
import os
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from crosslevel.errors import InputError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
PLAIN: dict[Any, tuple[Any, str]] = {
    str: (str, "text"),
    bool: ((bool, np.bool_), "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    types.NoneType: (types.NoneType, "None"),
    os.PathLike: (os.PathLike, "a path"),
}
"""What a kind takes, and its words."""
LISTS = (Sequence, Iterable, Collection, list, np.ndarray)


def checked(function: Decorated) -> Decorated:
    """Refuse arguments of another kind than the annotations say; of a class, arguments of its constructor.

    Examples
    --------
    >>> @checked
    ... def draw(label: str, rows: int | None = None):
    ...     return label
    >>> draw("age", rows=3)
    'age'
    >>> draw("age", rows="many")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: rows='many' is of type str; pass a whole number or None.
    """
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    signature = inspect.signature(function)

    @functools.wraps(function)
    def with_checks(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        check_arguments(function, bound.arguments)
        return function(*given, **named)

    return typing.cast("Decorated", with_checks)


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments of another kind than the annotations of a function say; those it does not annotate are let through."""
    kinds = _kinds(function)
    for name, value in given.items():
        kind = kinds.get(name, Any)
        if not _takes(kind, value):
            said = f"{name}={reprlib.repr(value)}"
            if isinstance(value, str) and "a list" in _words(kind):
                raise InputError(f"{said} is one name; pass a list, {name}=[{reprlib.repr(value)}].")
            words = " or ".join(dict.fromkeys(_words(kind)))
            raise InputError(f"{said} is of type {type(value).__name__}; pass {words}.")


@functools.cache
def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """Read the annotations; those that name what is imported for type checkers only say nothing."""
    home = vars(sys.modules[function.__module__])
    kinds = {}
    for name, parameter in inspect.signature(function).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if isinstance(parameter.annotation, str) and not variadic:
            try:
                kind = eval(parameter.annotation, home)  # text of our own source, never a caller's
            except NameError:
                continue
            kinds[name] = kind.type if isinstance(kind, InitVar) else kind
    return kinds


def _parts(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _reading(part: Any) -> tuple[Callable[[Any], Any], list[str]]:
    """Give the test of one kind, and its words."""
    origin, inner = typing.get_origin(part) or part, typing.get_args(part)
    if origin in PLAIN:
        kinds, words = PLAIN[origin]
        return lambda value: isinstance(value, kinds), [words]
    if origin is typing.Literal:
        return lambda value: isinstance(value, tuple({type(choice) for choice in inner})), list(map(repr, inner))
    if origin in (Mapping, dict):
        return lambda value: isinstance(value, Mapping) or hasattr(value, "keys"), ["a dictionary"]  # a pandas Series
    if origin is Callable:
        return callable, ["a function"]
    if origin is tuple:
        return lambda value: _is_list(value) and _takes_each(inner, list(value)), [f"{len(inner)} values"]
    if origin in LISTS:
        return _is_list, ["a list"]
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return lambda value: True, []
    return lambda value: isinstance(value, origin), [origin.__name__]


def _takes(kind: Any, value: Any) -> bool:
    return any(_reading(part)[0](value) for part in _parts(kind))


def _takes_each(kinds: tuple[Any, ...], values: list[Any]) -> bool:
    return len(kinds) == len(values) and all(map(_takes, kinds, values))


def _is_list(value: Any) -> bool:
    """Tell whether a value has entries; one text has none, and neither has a number."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) != 0


def _words(kind: Any) -> list[str]:
    return [word for part in _parts(kind) for word in _reading(part)[1]]
