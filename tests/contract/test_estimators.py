"""What every estimator owes its user, whatever the room: parameters stay as given, seeds of every kind, a record of the fit."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.contract.case import With
from tests.contract.cases import CASES
from tests.contract.test_parameters import differ
from tests.contract.test_saved import fitted as fitted_once

from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates

SEEDED = [case for case in CASES if "random_state" in case.make().get_params(deep=False)]


def fitted(case, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.fit(case.make(**given))


def answered(case, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.answer(model)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def model(case):
    """Each case fitted once for all tests of the contract that only look."""
    return fitted_once(CASES.index(case))


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


def tables_in(answer):
    """Find every table of estimates in an answer."""
    parts = answer.values() if isinstance(answer, dict) else [answer]
    return [part for part in parts if isinstance(part, Estimates)]


def test_the_answer_is_one_table(case, model, monkeypatch):
    """estimate() (effects() of kernel regression) gives Estimates: unique keys, an interval around each estimate, where from."""
    name = "estimate" if hasattr(model, "estimate") else "effects"
    if case.transformer:
        assert not hasattr(model, name)
        return
    given = []
    ask = getattr(type(model), name)
    monkeypatch.setattr(type(model), name, lambda *args, **kw: given.append(ask(*args, **kw)) or given[-1])
    found = tables_in(answered(case, model))
    assert found, f"the case never asks for {name}()"
    assert any(table is one for table in found for one in given), f"no table comes from {name}()"
    for table in given:
        assert isinstance(table, Estimates)
        assert len(table)
        names = table.table.column_names
        assert len(set(zip(*(table[key] for key in table.keys), strict=True))) == len(table)
        assert "estimate" in names
        estimate = np.asarray(table["estimate"], dtype=float)
        assert np.isfinite(estimate).all()
        if table.level is not None:
            slack = 1e-9 * (1 + np.abs(estimate))
            assert (np.asarray(table["conf_low"], dtype=float) <= estimate + slack).all()
            assert (np.asarray(table["conf_high"], dtype=float) >= estimate - slack).all()
        assert table.provenance.call
        assert table.method


def test_repr_is_short_and_names_the_class(case):
    assert repr(case.make()).startswith(type(case.make()).__name__)


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_generators_are_taken_as_seeds(case, kind):
    first, again = (case.answer(fitted(case, random_state=kind(7))) for _ in range(2))
    assert not differ(first, again)


def settings_where_seeds_act(case):
    """Give the other parameters beside which another seed gives another answer; None where seeds decide nothing."""
    if "random_state" in case.neutral:
        return None
    for value in case.variants["random_state"]:
        seed, given = (value.value, dict(value.given)) if isinstance(value, With) else (value, {})
        if not isinstance(seed, int) or seed >= 0:
            return given
    return None


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
def test_no_seed_is_a_fresh_one(case, monkeypatch):
    """Two fits without a seed give two answers, wherever two seeds do; numbers of a counter stand for the system's fresh ones."""
    given = settings_where_seeds_act(case)
    if given is None:
        pytest.skip("seeds decide nothing here")
    fresh, real = itertools.count(), np.random.SeedSequence
    monkeypatch.setattr(
        np.random,
        "SeedSequence",
        lambda entropy=None, **given: real(next(fresh) if entropy is None else entropy, **given),
    )
    first, second = (answered(case, fitted(case, random_state=None, **given)) for _ in range(2))
    assert differ(first, second)
