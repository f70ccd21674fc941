"""What the contract needs to know of an estimator or a function: how to make it, feed it, and read its answer."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crosslevel.errors import CrosslevelWarning

__all__ = ["Case", "FunctionCase", "With", "method"]


@dataclass(frozen=True)
class With:
    """A value of a parameter that acts only beside others: compared with the case that has only the others."""

    value: Any
    given: Mapping[str, Any]

    def __init__(self, value: Any, **given: Any) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "given", given)


@dataclass(frozen=True)
class Case:
    """One public estimator on a world small enough to fit in about a second.

    Attributes
    ----------
    name : str
        The class, and what sets this case apart.
    make : callable
        ``make(**parameters)`` gives the estimator with small settings, the given parameters in place of them.
    fit : callable
        ``fit(estimator)`` fits it and gives it back.
    answer : callable
        ``answer(fitted)`` gives what a user reads: an array, or a mapping of arrays, or Estimates.
    variants : mapping of parameter to values
        Values other than the case's own: each must change the answer, or be refused with a message that names the parameter.
    neutral : mapping of parameter to reason
        Parameters that change no number, and why (``n_jobs``: threads change no bit).
    saves : bool
        Whether ``cl.save`` takes it.
    people : mapping of name to (n,) values, optional
        Columns of the people it is fitted to; None where the input has no single people.
    transformer : bool
        Whether its answer is what ``transform`` gives: no table of estimates, and nothing that converges.
    """

    name: str
    make: Callable[..., Any]
    fit: Callable[[Any], Any]
    answer: Callable[[Any], Any]
    variants: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    neutral: Mapping[str, str] = field(default_factory=dict)
    saves: bool = True
    people: Mapping[str, Any] | None = None
    transformer: bool = False


@dataclass(frozen=True)
class FunctionCase:
    """One public function with parameters.

    Attributes
    ----------
    function : callable
    arguments : mapping
        A call that succeeds.
    answer : callable
        Reads what the function returned.
    variants, neutral
        As in :class:`Case`; arguments that are data are named in ``data``.
    data : sequence of str
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    answer: Callable[[Any], Any]
    variants: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    neutral: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Name of the function, for the reports of pytest."""
        return self.function.__qualname__


def method(cls: type, name: str, make: Callable[[], Any]) -> Callable[..., Any]:
    """A method as a function of its arguments; the estimator is made, and fitted, when it is first called.

    Every call has a copy of it, so that none sees what another has learned.
    """
    made = functools.cache(make)

    def call(**given: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrosslevelWarning)
            again = object.__new__(type(made()))
            vars(again).update(vars(made()))  # copy.copy would leave out people
            return getattr(again, name)(**given)

    known = inspect.signature(getattr(cls, name))
    call.__signature__ = known.replace(parameters=list(known.parameters.values())[1:])  # type: ignore[attr-defined]
    call.__qualname__ = f"{cls.__name__}.{name}"
    return call
