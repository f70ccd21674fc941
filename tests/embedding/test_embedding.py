"""Laws of the pass, and a plain NumPy answer for every map."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from crosslevel import MeanEmbedding, People
from crosslevel.embedding.engines import local
from crosslevel.errors import InputError
from crosslevel.numerics.features import MAPS
from crosslevel.numerics.fused import embed_piece

SUBGROUPS = {"women": "sex = 2", "old women": "sex = 2 and age >= 65", "anybody": "hours >= 0", "nobody": "hours < 0"}


def equal(one, two, oracle, tolerance=1e-12):
    assert one.key_table.equals(two.key_table)
    np.testing.assert_array_equal(one.n_rows, two.n_rows)
    np.testing.assert_allclose(one.weight, two.weight, rtol=1e-12)
    np.testing.assert_allclose(one.effective_size, two.effective_size, rtol=1e-12)
    assert oracle.relative(one.values, two.values) < tolerance


@pytest.mark.parametrize("name", list(MAPS))
def test_every_map_equals_plain_numpy(people, table, name, oracle):
    length = {} if name == "linear" else {"n_features": 60}
    fitted = MeanEmbedding(feature_map=name, **length).fit(people)
    X = oracle.dense(table)
    assert fitted.n_inputs_ == X.shape[1] == 2 + 4 + 2 + 2 + 1 + 1
    found = fitted.transform(people)
    phi = fitted.feature_map_.transform(X)
    keys, means, weight, count, effective = oracle.group_means(table, phi, ["region"])
    assert [(k,) for k in found.keys] == keys
    assert oracle.relative(found.values, means) < 1e-5
    np.testing.assert_allclose(found.weight, weight, rtol=1e-12)
    np.testing.assert_array_equal(found.n_rows, count)
    np.testing.assert_allclose(found.effective_size, effective, rtol=1e-12)
    assert len(fitted.get_feature_names_out()) == found.values.shape[1]


def test_the_kernel_is_that_of_the_bandwidth(people, table, oracle):
    fitted = MeanEmbedding(4096, "sorf").fit(people)
    found = fitted.transform(people).values
    X, w = oracle.dense(table), table["w"].to_numpy()
    regions = np.array(table["region"].to_pylist())
    one, two = (regions == "r4"), (regions == "r5")
    K = fitted.feature_map_.kernel(X[one], X[two])
    expected = w[one] @ K @ w[two] / w[one].sum() / w[two].sum()
    assert found[3] @ found[4] == pytest.approx(expected, abs=0.02)
    assert 0.2 < expected < 0.9


def ways_in(table, folder):
    pq.write_table(table, folder / "people.parquet", row_group_size=900)
    pacsv.write_csv(table, folder / "people.csv")
    for i in range(3):
        pq.write_table(table.slice(1000 * i, 1000), folder / f"part-{i}.parquet")
    return {
        "parquet": folder / "people.parquet",
        "files": folder / "part-*.parquet",
        "csv": folder / "people.csv",
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "duckdb": duckdb.from_arrow(table),
        "list": [table.slice(0, 1000), table.slice(1000)],
        "categories": table.set_column(2, "race", table["race"].dictionary_encode()),
        "shuffled": table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows))),
    }


def test_every_way_in_and_every_order_gives_the_same_answer(people, table, tmp_path, oracle):
    fitted = MeanEmbedding(32).fit(people)
    whole = fitted.transform(people, subgroups=SUBGROUPS)
    for kind, source in ways_in(table, tmp_path).items():
        there = replace(people, data=source)
        again = MeanEmbedding(32).fit(there)
        assert again.bandwidth_ == pytest.approx(fitted.bandwidth_, rel=1e-12), kind
        read = [[{**c.facts(), "type": 0, "levels": 0} for c in each.encoder_.columns] for each in (again, fitted)]
        assert read[0] == read[1], kind  # text has no booleans
        equal(again.transform(there, subgroups=SUBGROUPS), whole, oracle, 1e-9)


@pytest.mark.parametrize("name", ["sorf", "landmarks"])
def test_what_levels_are_called_changes_nothing(people, table, name, oracle):
    names = {"white": "alpha", "black": "zeta", "asian": "mu", None: None}
    renamed = table.set_column(2, "race", pa.array([names[v] for v in table["race"].to_pylist()]))
    one = MeanEmbedding(40, name).fit_transform(people)
    equal(MeanEmbedding(40, name).fit_transform(replace(people, data=renamed)), one, oracle)


def test_threads_and_chunks_change_nothing(oracle, tmp_path, monkeypatch):
    pq.write_table(oracle.make(80_000, seed=5), tmp_path / "people.parquet", row_group_size=30_000)
    people = People(tmp_path / "people.parquet", columns=["sex", "race", "age", "hours"], **oracle.roles)
    fitted = MeanEmbedding(32).fit(people)
    whole = fitted.transform(people, subgroups=SUBGROUPS)
    for n_jobs, rows in ((1, 8192), (4, 8192), (2, 1000), (2, 80_000)):
        monkeypatch.setattr(local, "count_jobs", lambda _, n=n_jobs: n)
        monkeypatch.setattr(local.LocalEngine, "chunk_rows", rows)
        equal(fitted.transform(people, subgroups=SUBGROUPS), whole, oracle)


def test_subgroups_equal_separate_passes(fitted, people):
    together = fitted.transform(people, subgroups=SUBGROUPS)
    for name, condition in {"all": None, **SUBGROUPS}.items():
        if name == "nobody":
            assert name not in together.key_table["subgroup"].to_pylist()
            continue
        apart = fitted.transform(replace(people, where=condition))
        part = together.select(f"subgroup = '{name}'")
        assert part.key_table["region"].to_pylist() == apart.key_table["region"].to_pylist()
        np.testing.assert_allclose(part.values, apart.values, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(part.n_rows, apart.n_rows)
        np.testing.assert_allclose(part.weight, apart.weight, rtol=1e-13)
        np.testing.assert_allclose(part.effective_size, apart.effective_size, rtol=1e-13)


def test_subgroups_add_up_and_come_in_their_order(fitted, people):
    found = fitted.transform(people, subgroups={"z": "sex = 1", "a": "sex = 2"})
    assert found.keys[:3].tolist() == [("r1", "all"), ("r1", "z"), ("r1", "a")]
    whole, one, two = (found.select(f"subgroup = '{name}'") for name in ("all", "z", "a"))
    sums = one.weight[:, None] * one.values + two.weight[:, None] * two.values
    np.testing.assert_allclose(sums / whole.weight[:, None], whole.values, atol=1e-13)
    nested = fitted.transform(replace(people, by=["region", "sex"]))
    assert [(r, {1: "z", 2: "a"}[s]) for r, s in nested.keys] == found.select("subgroup <> 'all'").keys.tolist()
    np.testing.assert_allclose(nested.values, found.select("subgroup <> 'all'").values, rtol=0, atol=1e-14)


def test_features_are_computed_once_per_person(fitted, people, monkeypatch):
    seen = []

    def counted(plan, codes, *rest):
        seen.append(len(codes))
        return embed_piece(plan, codes, *rest)

    monkeypatch.setattr("crosslevel.numerics.fused.embed_piece", counted)
    fitted.transform(people)
    alone = list(seen)
    seen.clear()
    fitted.transform(people, subgroups={f"s{i}": f"age >= {i}" for i in range(20)})
    assert seen == alone
    assert sum(seen) == 3000


def test_a_weight_of_two_is_two_people(fitted, people, table, oracle):
    times = np.random.default_rng(0).integers(0, 4, table.num_rows)
    weighted = table.set_column(7, "w", pa.array(times.astype(float)))
    repeated = table.take(pa.array(np.repeat(np.arange(table.num_rows), times)))
    two, three = replace(people, data=weighted), replace(people, data=repeated.drop_columns("w"), weight=None)
    one, other = fitted.transform(two), fitted.transform(three)
    assert oracle.relative(one.values, other.values) < 1e-12
    np.testing.assert_array_equal(one.weight, other.weight)
    assert (one.effective_size < other.effective_size).all()
    fits = [MeanEmbedding(8).fit(each) for each in (two, three)]
    scales = [[c.scale for c in fit.encoder_.columns if hasattr(c, "scale")] for fit in fits]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    assert fits[0].bandwidth_ == pytest.approx(fits[1].bandwidth_, rel=1e-6)


def test_where_keeps_those_it_names(fitted, people, table):
    kept = table.filter(pa.compute.field("age") >= 50)
    there = replace(people, where="age >= 50 and region is not null")
    found = fitted.transform(there)
    np.testing.assert_allclose(found.values, fitted.transform(replace(people, data=kept)).values, rtol=0, atol=1e-14)
    assert MeanEmbedding(8).fit(there).n_rows_ == kept.num_rows


# ---- people that fit has not seen, and what is refused

N = 60
RNG = np.random.default_rng(0)
BASE = {"k": [f"k{i % 4}" for i in range(N)], "x": RNG.normal(size=N), "w": RNG.random(N) + 0.1}


def some(by="k", weight="w", categorical=(), where=None, columns=None, **more):
    return People(
        pa.table({**BASE, **more}), by=by, weight=weight, categorical=categorical, where=where, columns=columns
    )


def test_an_unseen_level_is_refused_or_has_no_feature():
    seen, later = some(c=["a", "a", "b"] * 20), some(c=["a"] * 50 + ["b"] * 9 + ["new"])
    fitted = MeanEmbedding(feature_map="linear").fit(seen)
    for people in (later, some(c=["a"] * 59 + [None])):
        with pytest.raises(InputError):
            fitted.transform(people)
    ignoring = MeanEmbedding(feature_map="linear", unknown="ignore").fit(seen)
    found = dict(zip(ignoring.get_feature_names_out(), ignoring.transform(later).values.T, strict=True))
    w, k = np.asarray(BASE["w"]), np.asarray(BASE["k"])
    is_b = np.array([50 <= i < 59 for i in range(N)])
    shares = [np.average(is_b[k == key], weights=w[k == key]) for key in sorted(set(BASE["k"]))]
    np.testing.assert_allclose(found["c=b"], shares, rtol=1e-6)


def test_a_number_that_was_never_missing():
    fitted = MeanEmbedding(8).fit(some())
    late = some(x=[None, *np.asarray(BASE["x"])[1:]])
    with pytest.raises(InputError):
        fitted.transform(late)
    assert np.isfinite(MeanEmbedding(8, unknown="ignore").fit(some()).transform(late).values).all()
    with pytest.raises(InputError):
        fitted.transform(some(x=[0.0] * 3 + [np.inf] + [0.0] * 56))


@pytest.mark.parametrize(
    ("people", "options"),
    [
        (some(), {"subgroups": {"s": "xx > 0"}}),
        (some(), {"subgroups": {"all": "x > 0"}}),
        (some(), {"subgroups": ["x > 0"]}),
        (some(by="subgroup", subgroup=BASE["k"]), {"subgroups": {"s": "x > 0"}}),
        (some(by=None), {}),
        (People({"k": ["a"], "y": [1.0]}, by="k"), {}),
        (some(where="x > 1e9"), {}),
        (some(w=[1.0] * 59 + [None]), {}),
        (some(w=[1.0] * 59 + [-1.0]), {}),
        (some(k=[*BASE["k"][:-1], None]), {}),
        (pa.table(BASE), {}),
        (some(), {"checkpoint": 7}),
        (some(), {"progress": "yes"}),
    ],
)
def test_passes_that_are_refused(people, options):
    fitted = MeanEmbedding(8).fit(some())
    with pytest.raises(InputError):
        fitted.transform(people, **options)


def test_people_who_change_under_a_pass_are_refused(fitted, people, monkeypatch):
    monkeypatch.setattr("crosslevel.embedding.run.check_rows", lambda _: 2999)
    with pytest.raises(InputError):
        fitted.transform(people)
