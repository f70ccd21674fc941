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
from crosslevel.data import batches, readers, regions, simulate
from crosslevel.errors import CrosslevelError, CrosslevelWarning
from crosslevel.results import Estimates

MADE = "a result, which the library makes of what is in the law"
WORDS = "says what is wrong with an argument; has no answer of its own"
EXEMPT = {
    **dict.fromkeys(("Embeddings", "Estimates", "results.Provenance"), f"{MADE}; tested in tests/results"),
    **dict.fromkeys(("binned.areas.AreaCorrelations", "binned.areas.SharedOut", "ecological.UnitTables"), MADE),
    **dict.fromkeys(("diagnostics.BagValidation", "diagnostics.ConformalScale", "krls.Cost"), MADE),
    **dict.fromkeys(("data.regions.MergeReport", "data.regions.Regions"), MADE),
    **dict.fromkeys(("data.simulate.Nation", "data.simulate.NationFiles"), MADE),
    **dict.fromkeys((f"data.batches.{name}" for name in ("Batches", "Piece", "Source")), "what open_batches makes"),
    **dict.fromkeys(
        (f"binned.gaussian.kernels.{name}" for name in ("BoundKernel", "Kernel")), "what eq() and others make"
    ),
    "embedding.BagSums": "the sums of one pass, which MeanEmbedding adds up; tested in tests/embedding",
    "data.readers.read_brfss": "needs a file of SAS; tested in tests/data",
    "binned.gaussian.kernels.read_number": WORDS,
    **dict.fromkeys(("errors.listed", "errors.nearest", "errors.unknown_name"), WORDS),
}
"""Public names without a case, and why."""


def public() -> dict[str, object]:
    """Give every public class and function by the names of its module and its own, each once."""
    found, modules = {}, [crosslevel, batches, readers, regions, simulate]
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
    known = set(inspect.signature(case.function).parameters)
    assert known == set(case.variants) | set(case.neutral) | set(case.data)


def test_everything_public_is_in_the_law():
    known = {case.make().__class__.__name__ for case in CASES} | {case.name for case in FUNCTIONS}
    free = {name for name, value in public().items() if value.__qualname__ not in known}
    assert free == set(EXEMPT), "give each a case in tests/contract/cases, or a reason in EXEMPT"


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
