"""Laws of the pass, and a plain NumPy answer for every map."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from crosslevel.data.batches import open_batches
from crosslevel.data.queries import parse

from crosslevel.embedding import MeanEmbedding
from crosslevel.embedding.engines.local import LocalEngine
from crosslevel.numerics.features import MAPS
from crosslevel.numerics.fused import embed_piece

SUBGROUPS = {"women": "sex == 2", "old women": "sex == 2 and age >= 65", "anybody": "hours >= 0", "nobody": "hours < 0"}


@pytest.fixture(scope="module")
def crowd(make):
    """More people than the largest batch size asked for."""
    return make(80_000, seed=5).select(["region", "sex", "race", "age", "hours", "w"])


@pytest.fixture(scope="module")
def crowd_path(crowd, tmp_path_factory):
    path = tmp_path_factory.mktemp("crowd") / "people.parquet"
    pq.write_table(crowd, path, row_group_size=30_000)
    return path


def embed(people, n_jobs=2, **options):
    fitted = MeanEmbedding(32, categorical=["sex"], n_jobs=n_jobs).fit(people, by="region", weight="w")
    return fitted.transform(people, **options)


def test_threads_and_batches_change_nothing(crowd_path, crowd, oracle):
    first = embed(crowd_path, 1, subgroups=SUBGROUPS)
    again = [embed(crowd_path, 4, subgroups=SUBGROUPS)]
    again += [embed(open_batches(crowd_path, batch_size=size), subgroups=SUBGROUPS) for size in (1_000, 80_000)]
    for found in again:
        assert found.key_table.equals(first.key_table)
        np.testing.assert_array_equal(found.n_rows, first.n_rows)
        assert oracle.relative(found.values, first.values) < 1e-12
        np.testing.assert_allclose(found.effective_size, first.effective_size, rtol=1e-12)
    made = embed(lambda: iter(crowd.to_batches(37_113)))
    assert oracle.relative(made.values, embed(crowd).values) < 1e-9


def kinds_of(table, folder):
    pq.write_table(table, folder / "people.parquet", row_group_size=900)
    pacsv.write_csv(table, folder / "people.csv")
    return {
        "parquet": folder / "people.parquet",
        "csv": folder / "people.csv",
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "duckdb": duckdb.from_arrow(table),
        "list": [table.slice(0, 1000), table.slice(1000)],
        "dictionaries": table.set_column(2, "race", table["race"].dictionary_encode()),
    }


def test_every_way_in_gives_the_same_answer(people, tmp_path, oracle):
    whole = embed(people, subgroups=SUBGROUPS)
    fits = {}
    for kind, source in kinds_of(people, tmp_path).items():
        fitted = fits[kind] = MeanEmbedding(32, categorical=["sex"]).fit(source, by="region", weight="w")
        found = fitted.transform(source, subgroups=SUBGROUPS)
        assert found.key_table.to_pydict() == whole.key_table.to_pydict(), kind
        assert oracle.relative(found.values, whole.values) < 1e-9, kind
        np.testing.assert_allclose(found.weight, whole.weight, rtol=1e-12)
        np.testing.assert_allclose(found.effective_size, whole.effective_size, rtol=1e-12)
        assert fitted.bandwidth_ == fits["parquet"].bandwidth_, kind
        assert [c.facts() for c in fitted.encoder_.columns] == [c.facts() for c in fits["parquet"].encoder_.columns]
        crossed = fits["parquet"].transform(source)
        assert oracle.relative(crossed.values, whole.select("subgroup == 'all'").values) < 1e-9, kind


@pytest.mark.parametrize("name", list(MAPS))
def test_every_map_equals_plain_numpy(people, name, oracle):
    length = {} if name == "linear" else {"n_features": 60}
    fitted = MeanEmbedding(feature_map=name, categorical=["sex"], **length).fit(people, by="region", weight="w")
    X = oracle.dense(people)
    assert fitted.n_inputs_ == X.shape[1] == 2 + 4 + 2 + 2 + 1 + 1
    phi = fitted.feature_map_.transform(X)
    found = fitted.transform(people)
    keys, means, weight, count, effective = oracle.group_means(people, phi, ["region"])
    assert [(k,) for k in found.keys] == keys
    assert oracle.relative(found.values, means) < 1e-5
    np.testing.assert_allclose(found.weight, weight, rtol=1e-12)
    np.testing.assert_array_equal(found.n_rows, count)
    np.testing.assert_allclose(found.effective_size, effective, rtol=1e-12)
    assert len(fitted.get_feature_names_out()) == found.values.shape[1]


def test_the_linear_map_gives_shares_and_standardized_means(people):
    fitted = MeanEmbedding(feature_map="linear", categorical=["sex"]).fit(people, by="region", weight="w")
    table = dict(zip(fitted.get_feature_names_out(), fitted.transform(people).values.T, strict=True))
    frame = people.to_pandas()
    w = frame["w"]
    for name, rows in {
        "sex=2": frame["sex"] == 2,
        "race=missing": frame["race"].isna(),
        "age=missing": frame["age"].isna(),
    }.items():
        shares = (w * rows).groupby(frame["region"]).sum() / w.groupby(frame["region"]).sum()
        np.testing.assert_allclose(table[name], shares, rtol=1e-6)
    assert table["race=asian"].sum() > 0


def test_the_kernel_is_that_of_the_bandwidth(people, oracle):
    fitted = MeanEmbedding(4096, "sorf", categorical=["sex"]).fit(people, by="region", weight="w")
    found = fitted.transform(people).values
    X, w = oracle.dense(people), people["w"].to_numpy()
    regions = np.array(people["region"].to_pylist())
    one, two = (regions == "r4"), (regions == "r5")
    K = fitted.feature_map_.kernel(X[one], X[two])
    expected = w[one] @ K @ w[two] / w[one].sum() / w[two].sum()
    assert found[3] @ found[4] == pytest.approx(expected, abs=0.02)
    assert 0.2 < expected < 0.9


def test_the_median_heuristic_is_the_median_distance(people, oracle):
    small = people.slice(0, 200)
    fitted = MeanEmbedding(8, categorical=["sex"]).fit(small.drop_columns("w"), by="region")
    X = oracle.dense(small.set_column(7, "w", pa.array(np.ones(200))))
    distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))[np.triu_indices(200, 1)]
    assert fitted.bandwidth_ == pytest.approx(np.median(distances), rel=1e-6)
    assert MeanEmbedding(8, bandwidth=2.5).fit(small, by="region").bandwidth_ == 2.5


def test_subgroups_equal_separate_passes(fitted, people):
    together = fitted.transform(people, subgroups=SUBGROUPS)
    for name, query in {"all": None, **SUBGROUPS}.items():
        if name == "nobody":
            assert name not in together.key_table["subgroup"].to_pylist()
            continue
        apart = fitted.transform(people, where=query)
        part = together.select(f"subgroup == '{name}'")
        assert part.key_table["region"].to_pylist() == apart.key_table["region"].to_pylist()
        np.testing.assert_allclose(part.values, apart.values, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(part.n_rows, apart.n_rows)
        np.testing.assert_allclose(part.weight, apart.weight, rtol=1e-13)
        np.testing.assert_allclose(part.effective_size, apart.effective_size, rtol=1e-13)


def test_subgroups_come_in_their_order(fitted, people):
    names = fitted.transform(people, subgroups={"z": "sex == 1", "a": "sex == 2"}).key_table.to_pylist()[:6]
    assert [(k["region"], k["subgroup"]) for k in names] == [(r, s) for r in ("r1", "r2") for s in ("all", "z", "a")]


def test_by_a_column_equals_subgroups_by_it(fitted, people):
    nested = fitted.transform(people, by=["region", "sex"])
    grouped = fitted.transform(people, subgroups={"1": "sex == 1", "2": "sex == 2"}).select("subgroup != 'all'")
    assert [(r, str(s)) for r, s in nested.keys] == grouped.keys.tolist()
    np.testing.assert_allclose(nested.values, grouped.values, rtol=0, atol=1e-14)


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
    assert sum(seen) == people.num_rows


@pytest.mark.parametrize("subgroups", [None, {"z": "sex == 2", "a": "age > 50"}])
@pytest.mark.parametrize("cut", [[3000], [1, 2999], [700, 800, 1500], [300] * 10])
def test_states_of_parts_merge_to_the_whole(fitted, people, cut, subgroups, oracle):
    whole = fitted.transform(people, subgroups=subgroups)
    parts, start = [], 0
    for n in cut:
        parts.append(fitted.accumulate(people.slice(start, n), subgroups=subgroups))
        start += n
    for order in (parts, parts[::-1]):
        state = order[0].copy()
        for part in order[1:]:
            state.merge(part)
        found = fitted.finish(state)
        assert found.key_table.equals(whole.key_table)
        assert oracle.relative(found.values, whole.values) < 1e-12
        np.testing.assert_array_equal(found.n_rows, whole.n_rows)
        np.testing.assert_allclose(found.effective_size, whole.effective_size, rtol=1e-12)


def test_a_weight_of_two_is_two_people(fitted, people, oracle):
    rng = np.random.default_rng(0)
    times = rng.integers(0, 4, people.num_rows)
    weighted = people.set_column(7, "w", pa.array(times.astype(float)))
    repeated = people.take(pa.array(np.repeat(np.arange(people.num_rows), times)))
    one, two = fitted.transform(weighted), fitted.transform(repeated, weight=None)
    assert oracle.relative(one.values, two.values) < 1e-12
    np.testing.assert_array_equal(one.weight, two.weight)
    assert (one.effective_size < two.effective_size).all()
    fits = [
        MeanEmbedding(8, bandwidth=1.0).fit(p, by="region", weight=w)
        for p, w in ((weighted, "w"), (repeated.drop_columns("w"), None))
    ]
    scales = [[c.scale for c in fit.encoder_.columns if hasattr(c, "scale")] for fit in fits]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)


def test_the_order_of_people_and_the_size_of_weights_do_not_matter(fitted, people, oracle):
    whole = fitted.transform(people)
    shuffled = people.take(pa.array(np.random.default_rng(1).permutation(people.num_rows)))
    assert oracle.relative(fitted.transform(shuffled).values, whole.values) < 1e-12
    tenfold = people.set_column(7, "w", pa.array(10 * people["w"].to_numpy()))
    found = MeanEmbedding(64, categorical=["sex"]).fit(tenfold, by="region", weight="w").transform(tenfold)
    assert oracle.relative(found.values, whole.values) < 1e-12
    np.testing.assert_allclose(found.effective_size, whole.effective_size, rtol=1e-12)
    np.testing.assert_allclose(found.weight, 10 * whole.weight, rtol=1e-12)


def test_small_chunks_give_the_same_answer_to_rounding(fitted, people, oracle):
    class Small(LocalEngine):
        chunk_rows = 77

    whole = fitted.transform(people)
    other = MeanEmbedding(64, categorical=["sex"], engine=Small(2)).fit(people, by="region", weight="w")
    assert oracle.relative(other.transform(people).values, whole.values) < 1e-12


def test_where_keeps_those_it_names(fitted, people):
    kept = people.filter(pa.array(parse("age >= 50 and race is not null").mask(people)))
    found = fitted.transform(people, where="age >= 50 and race is not null")
    np.testing.assert_allclose(found.values, fitted.transform(kept).values, rtol=0, atol=1e-14)
    fit = MeanEmbedding(8).fit(people, by="region", where="age >= 50")
    assert fit.n_rows_ == sum(a is not None and a >= 50 for a in people["age"].to_pylist())


def test_the_seed_draws_the_features(people):
    def values(seed):
        return MeanEmbedding(16, bandwidth=2.0, random_state=seed).fit(people, by="region").transform(people).values

    np.testing.assert_array_equal(values(3), values(3))
    assert not np.allclose(values(3), values(4))
