from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crosslevel.data import checks
from crosslevel.errors import InputError


@pytest.mark.parametrize(
    "make",
    [
        lambda: checks.check_finite([1, np.nan], "y"),
        lambda: checks.check_finite([[1, 2], [3, np.inf]], "X"),
        lambda: checks.check_finite([np.nan], "y", rows=["Wayne"]),
        lambda: checks.check_finite([[1.0]], "y", 1),
        lambda: checks.check_finite(3.0, "y", 1),
        lambda: checks.as_numbers(["a"], "y"),
        lambda: checks.as_numbers([1.0, np.datetime64("2020-01-01")], "y"),
        lambda: checks.check_weights([1, -2, -3]),
        lambda: checks.check_weights([1, np.inf]),
        lambda: checks.check_weights([0, 0]),
        lambda: checks.check_weights([1, 2], n=3),
        lambda: checks.check_counts([3, -1], "trials"),
        lambda: checks.check_successes([3], [2], rows=["A"]),
        lambda: checks.check_successes([3], [2, 4]),
        lambda: checks.check_level(95),
        lambda: checks.check_level(0.0),
        lambda: checks.check_level("0.95"),
        lambda: checks.check_weights([1.0, -1e-300]),
        lambda: checks.as_numbers([[1, 2], [3]], "y"),
        *(lambda seed=seed: checks.read_seed(seed, "--seed") for seed in (-1, 1.5, "a", True)),
    ],
)
def test_bad_numbers_get_a_sentence(make):
    with pytest.raises(InputError):
        make()


def test_good_numbers_pass_unchanged():
    np.testing.assert_array_equal(checks.check_weights([0, 2]), [0.0, 2.0])
    k, n = checks.check_successes([0, 2], [0, 2])
    np.testing.assert_array_equal(k, n)
    assert checks.check_level(0.9) == 0.9
    assert checks.check_counts([[1, 2.5]], "groups", 2).shape == (1, 2)


def test_seeds_of_every_kind_give_an_integer():
    assert checks.read_seed(np.int64(7)) == 7
    assert checks.read_seed(None) != checks.read_seed(None)
    for kind in (np.random.default_rng, np.random.RandomState):
        drawn = kind(3)
        first = checks.read_seed(drawn)
        assert first == checks.read_seed(kind(3))
        assert first != checks.read_seed(drawn)


@pytest.mark.parametrize("frame", [False, True])
def test_an_index_that_counts_is_names_beside_the_same_numbers_in_another_order(frame):
    values = pd.Series(["a", "b", "c"], name="v")
    given = values.to_frame() if frame else values
    aligned = checks.align_rows(given, [2, 0, 1], "y")
    assert (aligned["v"] if frame else aligned).tolist() == ["c", "a", "b"]
    again = checks.align_rows(aligned, [2, 0, 1], "y")
    assert again.equals(aligned)


@pytest.mark.parametrize("keys", [[0, 1, 2], [5, 3, 9], [1, 2, 3], [0, 2, 2], [2.0, 0.0, 1.0], ["c", "a", "b"], [1, 0]])
def test_an_index_that_counts_is_positions_beside_anything_else(keys):
    values = pd.Series(["a", "b", "c"])
    assert checks.align_rows(values, keys, "y").equals(values)


@pytest.mark.parametrize("make", [list, np.array, pl.Series])
def test_what_has_no_index_is_taken_by_position(make):
    assert list(checks.align_rows(make(["a", "b"]), [1, 0], "y")) == ["a", "b"]


@pytest.mark.parametrize("kind", [float, str])
def test_numbers_of_rows_are_matched_also_as_floats_and_text(kind):
    told = pd.Series([20, 0, 10], index=[kind(2), kind(0), kind(1)])
    assert checks.align_rows(told, [0, 1, 2], "y").tolist() == [0, 10, 20]
    assert checks.align_rows(told.rename({kind(2): "b"}), [0, 1, 2], "y").tolist() == [20, 0, 10]
