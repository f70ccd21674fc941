from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.batches import open_batches
from crosslevel.data.cells import learn_table
from crosslevel.data.columns import read_weights
from crosslevel.data.learning import learn_people
from crosslevel.errors import InputError


def study(table, columns=None, batches=None, **options):
    names = list(columns or [c for c in table.column_names if c not in ("region", "w")])
    stream = open_batches(table if batches is None else [table.slice(*cut) for cut in batches])
    return learn_people(stream, columns=names, **options)


def cuts(n, size):
    return [(i, size) for i in range(0, n, size)]


def test_levels_scales_and_sample_do_not_depend_on_the_cut(people):
    whole = study(people, by=["region"], weight="w", categorical=["sex"], n_sample=50, seed=3)
    for size in (97, 700, 2999):
        parts = study(
            people,
            batches=cuts(people.num_rows, size),
            by=["region"],
            weight="w",
            categorical=["sex"],
            n_sample=50,
            seed=3,
        )
        assert parts.sample.equals(whole.sample)
        assert [c.facts() for c in parts.encoder.columns] == [c.facts() for c in whole.encoder.columns]
        assert (parts.n_rows, parts.constant, parts.leaking) == (people.num_rows, (), ())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_order_of_rows_changes_no_bit(people, n_jobs):
    options = {"by": ["region"], "weight": "w", "categorical": ["sex"], "n_sample": 50, "seed": 3}
    whole = study(people, **options)
    for seed in range(5):
        shuffled = people.take(pa.array(np.random.default_rng(seed).permutation(people.num_rows)))
        found = study(shuffled, batches=cuts(people.num_rows, 333), n_jobs=n_jobs, **options)
        assert found.sample.equals(whole.sample)
        assert found.kinds.equals(whole.kinds)
        assert [c.facts() for c in found.encoder.columns] == [c.facts() for c in whole.encoder.columns]


def test_the_kind_of_column_changes_no_bit(people):
    """Codes as floats, text as dictionaries: the same people are drawn, and their vectors are the same."""
    options = {"by": ["region"], "weight": "w", "categorical": ["sex"], "n_sample": 50}
    whole = study(people, **options)
    casts = {"sex": pa.float64(), "race": pa.dictionary(pa.int32(), pa.string()), "hours": pa.float32()}
    other = people
    for name, kind in casts.items():
        other = other.set_column(other.column_names.index(name), name, other[name].cast(kind))
    found = study(other, **options)
    vectors = [f.encoder.encode(f.sample).dense(f.encoder.n_inputs) for f in (whole, found)]
    np.testing.assert_array_equal(*vectors)


def test_moments_are_weighted_and_in_single_precision(people):
    age = study(people, ["age"], weight="w").encoder.columns[0]
    x, w = people["age"].to_numpy(), people["w"].to_numpy()
    there = ~np.isnan(x)
    mean = np.average(x[there], weights=w[there])
    assert age.mean == float(np.float32(mean))
    assert age.scale == float(np.float32(np.sqrt(np.average((x[there] - mean) ** 2, weights=w[there]))))
    assert age.has_null
    plain = study(people, ["hours"]).encoder.columns[0]
    assert plain.scale == float(np.float32(people["hours"].to_numpy().std()))
    assert not plain.has_null


def test_levels_are_sorted_and_nulls_are_one_more(people):
    race, veteran, sex = study(people, ["race", "veteran", "sex"], categorical=["sex"]).encoder.columns
    assert (race.levels.to_pylist(), race.has_null) == (["asian", "black", "white"], True)
    assert (veteran.levels.to_pylist(), veteran.has_null) == ([False, True], False)
    assert (sex.levels.to_pylist(), sex.width) == ([1, 2], 2)


def test_constant_columns_are_found():
    n = 40
    missing = [None, *[3.0] * (n - 1)]
    table = pa.table(
        {
            "nothing": pa.nulls(n),
            "no number": pa.nulls(n, pa.float64()),
            "one word": ["a"] * n,
            "one number": [0.1] * n,
            "word or nothing": ["a", *[None] * (n - 1)],
            "number or nothing": missing,
            "varies": range(n),
        }
    )
    found = study(table)
    assert found.constant == ("nothing", "no number", "one word", "one number")
    kept = {c.name: c for c in found.encoder.columns}["number or nothing"]
    encoded = found.encoder.encode(table).dense(found.encoder.n_inputs)
    assert np.isfinite(encoded).all()
    at = found.encoder.input_names().index("number or nothing=missing")
    assert encoded[:, at].tolist() == [1.0, *[0.0] * (n - 1)]
    assert kept.scale == 1.0


@pytest.mark.parametrize("size", [1, 2, 100])
def test_columns_that_tell_the_bag_are_found_however_the_stream_is_cut(size, monkeypatch):
    monkeypatch.setattr("crosslevel.data.learning.FIRST_LOOK", 2)  # where they differ later, the whole batch tells
    table = pa.table(
        {
            "region": pa.array(["a", "a", "b", "b", "c", "c"]),
            "state": pa.array(["x", "x", "y", "y", "x", "x"]).dictionary_encode(),
            "density": [1.5, 1.5, None, None, 2.5, 2.5],
            "age": [1, 1, 2, 2, 3, 4],
            "missing once": [1, 1, 2, 2, 3, None],
        }
    )
    found = study(table, batches=cuts(6, size), by=["region"])
    assert found.leaking == ("state", "density")
    assert study(table, ["state", "density"], by=["region", "age"]).leaking == ("state", "density")
    assert study(table).leaking == ()


@pytest.mark.parametrize(
    "weights",
    [[1.0, None], [1.0, float("nan")], [float("inf"), 1.0], [1.0, -0.5], ["1", "2"]],
)
def test_bad_weights_are_refused(weights):
    batch = pa.record_batch({"w": weights})
    with pytest.raises(InputError):
        read_weights(batch, "w", 1000)


AGES = [str(i) for i in range(20, 60)]


@pytest.mark.parametrize("slip", ["oops", ".", "1,5", "n/a", "12 %"])
def test_one_cell_of_text_does_not_turn_numbers_into_categories(slip):
    table = pa.table({"age": [*AGES[:30], slip, *AGES[30:]]})
    rf"column 'age' is text: 40 of its 41 different values are numbers, but not {re.escape(repr(slip))} in row 30\. Clean"
    for refuse in (lambda: study(table), lambda: study(table, batches=cuts(41, 7)), lambda: learn_table(table)):
        with pytest.raises(InputError):
            refuse()
    (age,) = study(table, categorical=["age"]).encoder.columns
    assert len(age.levels) == 41
    assert len(learn_table(table, ["age"])[0].levels) == 41


def test_codes_of_missing_values_are_named():
    age = np.random.default_rng(0).integers(18, 90, 400)
    found = learn_people(open_batches(pa.table({"age": np.where(np.arange(400) % 20 == 0, 999, age), "own": age})))
    assert ["999" in s and "'age'" in s for s in found.warnings] == [True]
