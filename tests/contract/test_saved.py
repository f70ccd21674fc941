"""A saved estimator answers as the fitted one, to the bit; clone and pickle work."""

from __future__ import annotations

import functools
import pickle
import warnings

import numpy as np
import pytest
from tests.contract.case import Case
from tests.contract.test_parameters import CASES, differ

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning


@functools.cache
def fitted(number: int) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return CASES[number].fit(CASES[number].make())


def answer(case: Case, model: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.answer(model)


def same_parameters(left: object, right: object) -> bool:
    a, b = left.get_params(deep=False), right.get_params(deep=False)
    return a.keys() == b.keys() and all(repr(a[n]) == repr(b[n]) or not _differ(a[n], b[n]) for n in a)


def _differ(left: object, right: object) -> bool:
    if isinstance(left, np.random.Generator | np.random.RandomState) or hasattr(left, "get_params"):
        return type(left) is not type(right)
    return differ(left, right)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
class TestSaved:
    def test_a_loaded_estimator_answers_the_same(self, number, tmp_path):
        case = CASES[number]
        if not case.saves:
            pytest.skip("this estimator is not saved")
        model = fitted(number)
        before = answer(case, model)
        cl.save(model, tmp_path / "a.crosslevel", allow_rows=True)
        loaded = cl.load(tmp_path / "a.crosslevel")
        assert type(loaded) is type(model)
        assert same_parameters(loaded, model)
        assert not differ(before, answer(case, loaded))
        cl.save(loaded, tmp_path / "b.crosslevel", allow_rows=True)
        assert (tmp_path / "a.crosslevel").read_bytes() == (tmp_path / "b.crosslevel").read_bytes()

    def test_a_pickled_estimator_answers_the_same(self, number):
        case, model = CASES[number], fitted(number)
        assert not differ(answer(case, model), answer(case, pickle.loads(pickle.dumps(model))))
