from __future__ import annotations

import numpy as np
import pytest

import crosslevel
from crosslevel.errors import InputError
from crosslevel.results import Provenance


def test_of_fills_in_the_version():
    assert Provenance.of(call="f()").version == crosslevel.__version__


def test_numpy_seeds_become_plain_and_data_is_copied():
    data = {"people": "sha256:1"}
    p = Provenance.of(call="f()", seed=np.int64(3), data=data)
    data["people"] = "changed"
    assert type(p.seed) is int
    assert p.as_dict() == {"version": crosslevel.__version__, "call": "f()", "seed": 3, "data": {"people": "sha256:1"}}


@pytest.mark.parametrize(
    "options",
    [
        {"call": 3},
        {"call": "f()", "seed": 0.5},
        {"call": "f()", "data": {"people": 3}},
        {"call": "f()", "data": "sha256:1"},
    ],
)
def test_wrong_fields_are_refused(options):
    with pytest.raises(InputError):
        Provenance.of(**options)
