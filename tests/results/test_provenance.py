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
    ("options", "message"),
    [
        ({"call": 3}, "call=3 is not text"),
        ({"call": "f()", "seed": 0.5}, "seed=0.5 is not a whole number"),
        ({"call": "f()", "data": {"people": 3}}, "does not map names to fingerprints"),
        ({"call": "f()", "data": "sha256:1"}, "does not map names to fingerprints"),
    ],
)
def test_wrong_fields_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Provenance.of(**options)
