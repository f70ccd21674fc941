"""Every parameter acts or is refused: changed, it changes an answer, or the error names it."""

from __future__ import annotations

import functools
import inspect
import types
import warnings

import numpy as np
import pytest
from tests.contract.case import Case, With
from tests.contract.cases import CASES, FUNCTIONS

import crosslevel
from crosslevel.data import readers, regions, simulate
from crosslevel.errors import CrosslevelError, CrosslevelWarning
from crosslevel.results import Estimates

MADE = "a result, which the library makes of what is in the law"
WORDS = "says what is wrong with an argument; has no answer of its own"
EXEMPT = {
    **dict.fromkeys(("Embeddings", "Estimates", "results.Provenance"), f"{MADE}; tested in tests/results"),
    **dict.fromkeys((f"ecological.{name}" for name in ("ContestStudy", "MembershipCounts", "PolarizationStudy")), MADE),
    "krls.Cost": MADE,
    **dict.fromkeys(("data.regions.MergeReport", "data.regions.Regions"), MADE),
    "data.simulate.Nation": MADE,
    "audit": "takes nouns and nothing else; tested in tests/data",
    "data.readers.read_brfss": "needs a file of SAS; tested in tests/data",
    **dict.fromkeys(("errors.listed", "errors.nearest", "errors.unknown_name"), WORDS),
}
"""Public names without a case, and why."""
DATA = ("X", "y", "people", "places", "partition", "aggregates", "regions", "state", "input_features")
"""Arguments of methods that are data, not options."""


def public() -> dict[str, object]:
    """Give every public class and function by the names of its module and its own, each once."""
    found, modules = {}, [crosslevel, readers, regions, simulate]
    for module in modules:  # it grows while it is read
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                modules += [value] if value not in modules else []
            elif (inspect.isroutine(value) or inspect.isclass(value)) and value not in found.values():
                found[f"{module.__name__}.{name}".removeprefix("crosslevel.")] = value
    return {name: v for name, v in found.items() if not (inspect.isclass(v) and issubclass(v, BaseException | Warning))}


def numbers(answer: object) -> dict[str, np.ndarray]:
    """Lay an answer out as arrays by name."""
    if isinstance(answer, Estimates):
        return {name: np.asarray(answer[name]) for name in answer.table.column_names}
    if isinstance(answer, dict):
        return {f"{k}.{n}": v for k, part in answer.items() for n, v in numbers(part).items()}
    return {"": np.asarray(answer)}


def differ(left: object, right: object) -> bool:
    a, b = numbers(left), numbers(right)
    if a.keys() != b.keys() or any(a[n].shape != b[n].shape for n in a):
        return True
    return any(
        not (np.array_equal(a[n], b[n], equal_nan=True) if a[n].dtype.kind in "fc" else np.array_equal(a[n], b[n]))
        for n in a
    )


@functools.cache
def answered(number: int, given: tuple[tuple[str, object], ...] = ()) -> object:
    return _answer(CASES[number], dict(given))


@functools.cache
def called(number: int) -> object:
    """Give the answer of a function's own call, asked once for all its variants."""
    case = FUNCTIONS[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.answer(case.function(**case.arguments))


def _answer(case: Case, given: dict[str, object]) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.answer(case.fit(case.make(**given)))


def _variants(cases):
    for i, case in enumerate(cases):
        for name, values in case.variants.items():
            for k, value in enumerate(values):
                yield pytest.param(i, name, value, id=f"{case.name}-{name}-{k}")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_parameter_is_in_the_law(case):
    known = set(case.make().get_params(deep=False))
    assert known == set(case.variants) | set(case.neutral)


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda c: c.name)
def test_every_argument_is_in_the_law(case):
    parameters = inspect.signature(case.function).parameters
    listed = set(case.variants) | set(case.neutral) | set(case.data)
    assert set(parameters) <= listed
    handed_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    assert handed_on or set(parameters) == listed


def flags(function):
    """Name the parameters that are True or False (or None, for neither)."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if isinstance(p.default, bool) or "bool" in str(p.annotation).split(" | ")]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(i, name, id=f"{case.name}-{name}")
        for i, case in enumerate(CASES)
        for name in flags(type(case.make()))
    ],
)
def test_flag_of_an_estimator_is_true_or_false(number, name):
    with pytest.raises(CrosslevelError):
        _answer(CASES[number], {name: "no"})


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(i, name, id=f"{case.name}-{name}")
        for i, case in enumerate(FUNCTIONS)
        for name in flags(case.function)
    ],
)
def test_flag_of_a_function_is_true_or_false(number, name):
    case = FUNCTIONS[number]
    with pytest.raises(CrosslevelError):
        case.answer(case.function(**{**case.arguments, name: "no"}))


def test_everything_public_is_in_the_law():
    known = {case.make().__class__.__name__ for case in CASES} | {case.name for case in FUNCTIONS}
    free = {name for name, value in public().items() if value.__qualname__ not in known}
    assert free == set(EXEMPT), "give each a case in tests/contract/cases, or a reason in EXEMPT"


def test_every_method_with_options_is_in_the_law():
    known, free = {case.name for case in FUNCTIONS}, set()
    for cls in {type(case.make()) for case in CASES}:
        for name in (n for n in dir(cls) if not n.startswith("_")):
            method = getattr(cls, name)
            if inspect.isfunction(method) and method.__module__.startswith("crosslevel."):
                options = set(inspect.signature(method).parameters) - {"self", *DATA}
                free |= (
                    {f"{cls.__name__}.{name}"}
                    if options and not {f"{cls.__name__}.{name}", method.__qualname__} & known
                    else set()
                )
    assert not free, "give each a case in tests/contract/cases"


@pytest.mark.parametrize(("number", "name", "value"), list(_variants(CASES)))
def test_parameter_acts_or_is_refused(number, name, value):
    case = CASES[number]
    given = dict(value.given) if isinstance(value, With) else {}
    changed = value.value if isinstance(value, With) else value
    base = answered(number) if not given else _answer(case, given)
    try:
        other = _answer(case, {**given, name: changed})
    except CrosslevelError as error:
        assert name in str(error)  # noqa: PT017 - either of two outcomes passes
        return
    assert differ(base, other), f"{name}={changed!r} changed nothing and was not refused"


@pytest.mark.parametrize(("number", "name", "value"), list(_variants(FUNCTIONS)))
def test_argument_acts_or_is_refused(number, name, value):
    case = FUNCTIONS[number]
    given = {**case.arguments, **(value.given if isinstance(value, With) else {})}
    changed = value.value if isinstance(value, With) else value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        base = case.answer(case.function(**given)) if isinstance(value, With) else called(number)
        try:
            other = case.answer(case.function(**{**given, name: changed}))
        except CrosslevelError as error:
            assert name in str(error)  # noqa: PT017 - either of two outcomes passes
            return
    assert differ(base, other), f"{name}={changed!r} changed nothing and was not refused"
