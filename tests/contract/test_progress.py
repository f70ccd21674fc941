"""Every call with ``progress=``: the function hears how far it is, up to all of it; no number moves, and False is silent."""

from __future__ import annotations

import inspect
import warnings
from itertools import pairwise

import pytest
from tests.contract.cases import FUNCTIONS
from tests.contract.test_parameters import called, differ

from crosslevel.errors import CrosslevelWarning, InputError

TOLD = [i for i, case in enumerate(FUNCTIONS) if "progress" in case.neutral and "above" not in case.neutral["progress"]]


def asked(number, progress):
    case = FUNCTIONS[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return case.answer(case.function(**{**case.arguments, "progress": progress}))


@pytest.mark.parametrize("number", TOLD, ids=lambda i: FUNCTIONS[i].name)
def test_a_function_hears_how_far_it_is_and_no_number_moves(number):
    heard: list[tuple[int, int | None]] = []
    found = asked(number, lambda done, of: heard.append((done, of)))
    assert not differ(called(number), found)
    assert all(of is None or done <= of for done, of in heard)
    assert all(later >= done or later == 0 for (done, _), (later, _) in pairwise(heard))  # or another pass begins
    assert max(done for done, _ in heard) > 0
    assert heard[-1][1] in (None, heard[-1][0])


def test_every_call_with_progress_is_tried():
    known = [case for case in FUNCTIONS if "progress" in inspect.signature(case.function).parameters]
    assert {case.name for case in known} == {FUNCTIONS[i].name for i in TOLD}


@pytest.mark.parametrize("number", TOLD, ids=lambda i: FUNCTIONS[i].name)
def test_false_is_silent_and_what_is_no_function_is_refused(number, capsys):
    assert not differ(called(number), asked(number, False))
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError):
        asked(number, "yes")
