"""A bar for True, a call for a function, and nothing otherwise; the end may be unknown."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel as cl
from crosslevel.data.progress import count_steps, follow
from crosslevel.data.simulate import nation
from crosslevel.errors import InputError


def test_none_and_false_tell_nothing_and_true_draws_a_bar():
    for given in (None, False):
        with follow(given, "Reading") as tell:
            assert tell is None
    with follow(True, "Reading") as tell:
        tell(1, 2)
    with pytest.raises(InputError, match="progress="):
        follow("yes", "Reading")


def test_steps_begin_at_none_and_end_at_all_of_them():
    for steps, of, expected in (
        (2, 2, [(0, 2), (1, 2), (2, 2)]),
        (1, 3, [(0, 3), (1, 3), (3, 3)]),  # a search that ended early is complete
        (2, None, [(0, None), (1, None), (2, None), (2, 2)]),
    ):
        heard: list[tuple[int, int | None]] = []
        with count_steps(lambda *at, heard=heard: heard.append(at), "Fitting", of) as step:
            for _ in range(steps):
                step()
        assert heard == expected
    with count_steps(None, "Fitting", 3) as step:
        assert step is None
    heard = []
    with pytest.raises(ZeroDivisionError), count_steps(lambda *at: heard.append(at), "Fitting", 3):
        raise ZeroDivisionError
    assert heard == [(0, 3)]  # what failed is not complete


def test_true_changes_no_number_and_a_function_hears_of_the_search():
    world = nation(n_regions=12, people_per_region=40, random_state=0)
    people = cl.People(world.people, by="region", weight="weight", columns=["race", "sex"], categorical=["sex"])
    places = cl.Places(world.places, by="region", successes="dem", trials="votes")
    heard: list[tuple[int, int | None]] = []
    quiet, shown, _ = (
        cl.EcologicalInference(spatial=None).fit(people, places, progress=told)
        for told in (None, True, lambda *at: heard.append(at))
    )
    same = [m.estimate(by="race", progress=p)["estimate"] for m, p in ((quiet, None), (shown, True))]
    np.testing.assert_array_equal(*same)
    assert heard[-1] == (0, None)
    assert max(done for done, _ in heard) > 0
