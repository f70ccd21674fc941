"""Who is drawn: by weight, whatever the order, the names and the number of steps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel import MeanEmbedding, People
from crosslevel.data.people_columns import learn_columns
from crosslevel.embedding import sample as module
from crosslevel.embedding.sample import draw_people
from crosslevel.errors import InputError


def drawn(people, n=1000, seed=0):
    learned = learn_columns(people, None)
    return draw_people(people, learned.bins.encoder, learned.n_rows, n, seed)


@pytest.fixture(params=[1 << 22, 1000])
def steps(request, monkeypatch):
    """All kinds are counted at once, or people are drawn step by step."""
    monkeypatch.setattr(module, "MOST_VALUES", request.param)
    monkeypatch.setattr(module, "BITS", 16 if request.param > 1000 else 4)


def test_people_are_drawn_by_weight(people, table, oracle, steps):
    found = drawn(people, 40_000)
    X, w = oracle.dense(table), table["w"].to_numpy()
    mean = np.average(X, axis=0, weights=w)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(found.people(40_000).mean(axis=0), mean, atol=5 * sd.max() / np.sqrt(40_000))
    # each person as often as the weight says
    kinds, times = found.weighted(40_000)
    age = table["age"].is_null().to_numpy()
    assert times.sum() == pytest.approx(w.sum() if found.weight is not None else 40_000)
    share = times[kinds[:, 1] == 1].sum() / times.sum()
    assert share == pytest.approx(w[age].sum() / w.sum(), abs=0.005)
    assert len(np.unique(kinds, axis=0)) == len(kinds)


def test_neither_order_nor_names_move_a_draw(people, table, steps):
    expected = drawn(people).people(1000)
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    np.testing.assert_array_equal(drawn(people.with_data(shuffled)).people(1000), expected)
    names = {"white": "alpha", "black": "zeta", "asian": "mu", None: None}
    renamed = table.set_column(2, "race", pa.array([names[v] for v in table["race"].to_pylist()]))
    np.testing.assert_array_equal(drawn(people.with_data(renamed)).people(1000), expected)
    assert not np.array_equal(drawn(people, seed=1).people(1000), expected)


def test_the_median_heuristic_is_the_median_distance(table, oracle):
    small = table.slice(0, 200)
    people = People(small.drop_columns("w"), by="region", categorical=["sex"])
    X = oracle.dense(small.set_column(7, "w", pa.array(np.ones(200))))
    distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))[np.triu_indices(200, 1)]
    assert MeanEmbedding(8).fit(people).bandwidth_ == pytest.approx(np.median(distances), rel=1e-6)
    assert MeanEmbedding(8, bandwidth=2.5).fit(people).bandwidth_ == 2.5


def test_the_bandwidth_hardly_depends_on_how_people_are_drawn(people, monkeypatch):
    expected = MeanEmbedding(8).fit(people).bandwidth_
    monkeypatch.setattr(module, "MOST_VALUES", 1000)
    assert MeanEmbedding(8).fit(people).bandwidth_ == pytest.approx(expected, rel=0.05)


def test_landmarks_are_different_people_and_all_if_asked(table, steps):
    codes = table.select(["region", "race", "veteran", "w"])
    people = People(codes, by="region", weight="w")
    with pytest.raises(InputError):
        MeanEmbedding(9, "landmarks", bandwidth=1.0).fit(people)
    U = MeanEmbedding(8, "landmarks", bandwidth=1.0).fit(people).feature_map_.U
    assert len(np.unique(U, axis=0)) == 8
