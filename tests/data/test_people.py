"""People are the same people wherever they come from, and what is learned of their columns is what brute force finds."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crosslevel as cl
from crosslevel.data.columns import Category
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.simulate import nation
from crosslevel.data.simulate.population import EDUCATION
from crosslevel.errors import CrosslevelWarning, InputError

WORLD = nation(24, 60, n_states=4)
ROWS = WORLD.people.select(["region", "weight", "sex", "race", "education"])
AGES = [None if i % 17 == 0 else float(age) for i, age in enumerate(WORLD.people["age"].to_pylist())]
ROWS = ROWS.append_column("age", pa.array(AGES)).set_column(
    1, "weight", pa.array(np.arange(ROWS.num_rows) % 5 / 4 + 0.25)
)
PLACES = cl.Places(WORLD.places, by="region", successes="dem", trials="votes")
NAMED = {"by": "region", "weight": "weight", "categorical": ["sex"]}


def fitted(data, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model = cl.EcologicalInference(spatial=None, hyperparameters={"effect_variance": 0.3, "nugget": 0.02})
        return model.fit(cl.People(data, **{**NAMED, **named}), PLACES)


def answers(data, by="race", **named):
    """Give the rows of an answer by their keys."""
    model = fitted(data, **named)
    found = model.estimate(by=by, subgroups={"old": "age >= 60", "all": "true"}, rollup="state", n_draws=60)
    numbers = np.column_stack([found[n] for n in ("estimate", "std_error", "conf_low", "conf_high", "population")])
    return dict(zip(zip(*(found[k].tolist() for k in found.keys), strict=True), numbers, strict=True))


@pytest.fixture(scope="module")
def expected():
    return answers(ROWS)


def same(found, expected):
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-9, atol=1e-9)


FILES = {
    "people.csv": pyarrow.csv.write_csv,
    "people.parquet": pq.write_table,
    "people.arrow": pyarrow.feather.write_feather,
}
FRAMES = {
    "pandas": lambda t: t.to_pandas(),
    "polars": pl.from_arrow,
    "duckdb": lambda t: duckdb.from_arrow(t),
    "columns": lambda t: t.to_pydict(),
    "several": lambda t: [t.slice(0, 300), t.slice(300).to_pandas()],
    "shuffled": lambda t: t.take(np.random.default_rng(0).permutation(t.num_rows)),
    "columns in another order": lambda t: t.select(t.column_names[::-1]),
    "a constant column more": lambda t: t.append_column("one", pa.array(["x"] * t.num_rows)),
    "categories that nobody has": lambda t: t.to_pandas().assign(
        race=lambda f: f.race.astype("category").cat.add_categories("z")
    ),
    "NaN": lambda t: t.set_column(5, "age", pa.array(np.array(t["age"].to_pylist(), dtype=float))),
    "single precision": lambda t: t.set_column(5, "age", t["age"].cast(pa.float32())).set_column(
        1, "weight", t["weight"].cast(pa.float32())
    ),
    "small whole numbers": lambda t: t.set_column(2, "sex", t["sex"].cast(pa.uint8())),
    "nullable": lambda t: t.to_pandas().convert_dtypes(),
    "Arrow's types": lambda t: t.to_pandas(types_mapper=pd.ArrowDtype),
    "decimals": lambda t: t.set_column(1, "weight", t["weight"].cast(pa.decimal128(5, 2))),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_people_have_the_same_answer(kind, expected):
    same(answers(FRAMES[kind](ROWS)), expected)


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_the_same_people(name, expected, tmp_path):
    FILES[name](ROWS, tmp_path / name)
    same(answers(tmp_path / name), expected)
    FILES[name](ROWS.slice(0, 500), tmp_path / name)
    FILES[name](ROWS.slice(500), tmp_path / f"more {name}")
    same(answers([tmp_path / name, str(tmp_path / f"more {name}")]), expected)
    same(answers(tmp_path / "*"), expected)
    same(answers(tmp_path), expected)


def test_what_a_level_is_called_changes_no_answer_about_others():
    names = {"white": 'it\'s "white"', "black": "Zwart", "hispanic": "", "asian": "0"}
    other = ROWS.set_column(3, "race", pa.array([names.get(v, v) for v in ROWS["race"].to_pylist()]))
    same(answers(other, by="education"), answers(ROWS, by="education"))


def test_people_kept_are_people_left(expected):
    kept = ROWS.filter(pa.array([a is not None and a >= 30 for a in AGES]))
    same(answers(ROWS, where="age >= 30"), answers(kept))
    assert cl.People(ROWS, where="age >= 30").kept("sex = 1").answer("select count(*) as n from people")["n"][
        0
    ].as_py() == sum(a is not None and a >= 30 and s == 1 for a, s in zip(AGES, ROWS["sex"].to_pylist(), strict=True))


def test_eight_threads_ask_one_model_at_once():
    model = fitted(ROWS)
    asked = [
        {"by": "race"},
        {"by": "sex", "where": "age < 50"},
        {"subgroups": {"a": "sex = 1"}},
        {"by": ["sex", "race"]},
    ] * 2
    alone = [model.estimate(**one, n_draws=60)["conf_low"] for one in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: model.estimate(**one, n_draws=60)["conf_low"], asked))
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_ordered_categories_stay_ordered():
    found = fitted(ROWS.to_pandas()).estimate(by="education", rollup="all", n_draws=60)
    assert found["education"].tolist() == list(EDUCATION)


MEMORY = """
import resource, sys
import crosslevel as cl
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import count_people
people = cl.People(sys.argv[1], by="region", weight="w", categorical=["sex", "job"])
found = count_people(people, learn_columns(people).bins, list(range(200)))
assert found.count.sum() == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.slow
def test_ten_million_people_in_a_file_need_the_memory_of_their_kinds(tmp_path):
    rng, peaks = np.random.default_rng(0), []
    for millions in (2, 10):
        with pq.ParquetWriter(tmp_path / f"{millions}.parquet", schema := pa.schema(
            {"region": pa.int64(), "sex": pa.int8(), "job": pa.int16(), "age": pa.int16(), "w": pa.float64()}
        )) as file:  # fmt: skip
            for _ in range(millions):
                n = 1_000_000
                drawn = [rng.integers(0, most, n) for most in (200, 2, 20, 90)]
                file.write_table(pa.table([*drawn, rng.random(n) + 0.5], schema.names).cast(schema))
        script = [sys.executable, "-c", MEMORY, str(tmp_path / f"{millions}.parquet"), str(millions * 1_000_000)]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
    assert peaks[1] < 1.5  # GiB
    assert peaks[1] < 1.5 * peaks[0]


def test_people_are_not_written_with_what_is_fitted_to_them():
    with pytest.raises(InputError):
        pickle.dumps(cl.People(ROWS, by="region"))
    assert pickle.loads(pickle.dumps(fitted(ROWS))).columns_ == ("age", "education", "race", "sex")


# what is learned --------------------------------------------------------------------------------------------------

ROW = st.fixed_dictionaries(
    {
        "town": st.sampled_from("ab"),
        "x": st.sampled_from([None, -2.5, 0.0, 1.0, 1.5, 7.0, 8.0, 1e6]),
        "c": st.sampled_from([None, "a", "b", "C", ""]),
        "w": st.sampled_from([0.0, 0.25, 1.0, 2.0]),
    }
)
SCHEMA = pa.schema({"town": pa.string(), "x": pa.float64(), "c": pa.string(), "w": pa.float64()})
BINS = 4


def tells_nothing(rows, name):
    """Say whether a column has one value, or one within every place of which some has two rows."""
    values = [[r[name] for r in rows if r["town"] == town] for town in {r["town"] for r in rows}]
    if len({r[name] for r in rows}) == 1:
        return True
    return all(len(set(own)) == 1 for own in values) and max(map(len, values)) > 1


def brute_bins(rows):
    """Bin every number: cut where the cumulative weight of sorted people reaches each quantile, or between few values."""
    seen = sorted({r["x"] for r in rows if r["x"] is not None})
    weight = {v: sum(r["w"] for r in rows if r["x"] == v) for v in seen}
    there = [v for v in seen if weight[v]]
    if len(seen) <= BINS:
        return [sum(v > there[i] for i in range(len(there) - 1)) for v in there]
    reached = np.cumsum([weight[v] for v in seen])
    cuts = {seen[int(np.argmax(reached >= k / BINS * reached[-1]))] for k in range(1, BINS)} - {there[0]}
    return [sum(v >= cut for cut in cuts) for v in there]


@settings(max_examples=60)
@given(st.lists(ROW, min_size=2, max_size=25).filter(lambda rows: any(r["w"] for r in rows)))
def test_what_is_learned_is_what_brute_force_finds(rows):
    people = cl.People(pa.Table.from_pylist(rows, SCHEMA), by="town", weight="w")
    kept = [name for name in ("c", "x") if not tells_nothing(rows, name)]
    if not kept:
        with pytest.raises(InputError):
            learn_columns(people, BINS)
        return
    learned = learn_columns(people, BINS)
    assert learned.bins.names == tuple(kept)
    assert sum("column(s)" in text for text in learned.warnings) == len(
        {len({r[n] for r in rows}) == 1 for n in {"c", "x"} - set(kept)}
    )
    for column in learned.bins.encoder.columns:
        own = [r[column.name] for r in rows]
        assert column.has_null == (None in own)
        if isinstance(column, Category):
            weight = {v: sum(r["w"] for r in rows if r["c"] == v) for v in own if v is not None}
            assert list(column.labels) == sorted(weight, key=lambda v: (-weight[v], v))
            continue
        values = sorted({v for v in own if v is not None and any(r["w"] for r in rows if r["x"] == v)})
        assert np.searchsorted(learned.bins.edges["x"], values, side="right").tolist() == brute_bins(rows)
        x, w = (np.array([r[k] for r in rows if r["x"] is not None]) for k in "xw")
        assert (column.low, column.high) == (x.min(), x.max())
        if w.any():
            assert column.mean == pytest.approx(np.average(x, weights=w), rel=1e-6)
            sd = np.sqrt(np.average((x - np.average(x, weights=w)) ** 2, weights=w))
            assert column.scale == pytest.approx(sd if sd > 0 else 1.0, rel=1e-5)


def test_no_limit_of_a_bin_is_the_value_of_somebody():
    income = np.random.default_rng(0).normal(5e4, 2e4, 500)
    edges = learn_columns(cl.People({"income": income})).bins.edges["income"]
    assert len(edges) == 11
    assert not set(edges) & set(income)
