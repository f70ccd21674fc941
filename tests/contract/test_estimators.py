"""What every estimator owes its user, whatever the room: parameters stay as given, seeds of every kind, a record of the fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.contract.cases import CASES
from tests.contract.test_parameters import differ

from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates

SEEDED = [case for case in CASES if "random_state" in case.make().get_params(deep=False)]


def fitted(case, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.fit(case.make(**given))


@pytest.fixture(scope="module")
def models():
    return {}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def model(case, models):
    """Each case fitted once for all tests of this file that only look."""
    if case.name not in models:
        models[case.name] = fitted(case)
    return models[case.name]


def test_fit_leaves_the_parameters_alone(case, model):
    given = case.make().get_params(deep=False)
    kept = model.get_params(deep=False)
    assert kept.keys() == given.keys()
    assert {k: repr(v) for k, v in kept.items()} == {k: repr(v) for k, v in given.items()}


def test_a_clone_is_unfitted_and_fits_the_same(case, model):
    copy = clone(model)
    assert not [name for name in vars(copy) if name.endswith("_")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        assert not differ(case.answer(case.fit(copy)), case.answer(model))


def test_a_fit_says_what_to_know_about_it(case, model):
    assert isinstance(model.warnings_, tuple)
    assert all(isinstance(text, str) for text in model.warnings_)
    assert case.transformer or hasattr(model, "convergence_")


def test_the_answer_is_one_table(case, model):
    ask = getattr(model, "estimate", None) or getattr(model, "effects", None)
    assert case.transformer or callable(ask), "neither estimate() nor effects()"


def test_repr_is_short_and_names_the_class(case):
    assert repr(case.make()).startswith(type(case.make()).__name__)


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_generators_are_taken_as_seeds(case, kind):
    first, again = (case.answer(fitted(case, random_state=kind(7))) for _ in range(2))
    assert not differ(first, again)


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
def test_no_seed_is_a_fresh_one(case):
    answer = case.answer(fitted(case, random_state=None))
    assert isinstance(answer, (Estimates, np.ndarray, dict))
