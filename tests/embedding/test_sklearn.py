"""scikit-learn's conventions on Bags, and saving."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import crosslevel as cl
from crosslevel import MeanEmbedding, People
from crosslevel.errors import InputError
from crosslevel.numerics.features import MAPS


@pytest.fixture(scope="module")
def spread():
    """Bags whose label is the spread of their people: their means tell nothing."""
    rng = np.random.default_rng(0)
    y = rng.uniform(0.5, 2.0, 60)
    return cl.Bags.from_list([rng.normal(size=(80, 2)) * s for s in y]), y


def test_bags_in_a_pipeline_learn_what_means_cannot(spread):
    bags, y = spread
    model = make_pipeline(MeanEmbedding(n_features=64), Ridge(1e-3))
    assert cross_val_score(model, bags, y, cv=4).mean() > 0.8
    assert cross_val_score(Ridge(), bags.mean(), y, cv=4).mean() < 0.2


def test_bags_equal_people(table):
    numbers = table.select(["region", "income", "hours", "w"])
    bags, people = cl.Bags.from_frame(numbers, by="region", weight="w"), People(numbers, by="region", weight="w")
    from_bags, from_people = (MeanEmbedding(16).fit(one) for one in (bags, people))
    assert from_bags.bandwidth_ == pytest.approx(from_people.bandwidth_, rel=1e-6)
    np.testing.assert_allclose(from_bags.transform(bags), from_people.transform(people).values, rtol=0, atol=1e-5)
    np.testing.assert_allclose(from_people.transform(bags), from_people.transform(people).values, atol=1e-12)
    assert from_bags.fit_transform(bags).shape == (5, 16)
    with pytest.raises(InputError):
        from_bags.transform(bags, subgroups={"a": "hours > 20"})


def test_bags_keep_their_order_and_number():
    rng = np.random.default_rng(0)
    bags = cl.Bags.from_list([rng.normal(size=(n, 2)) for n in (1, 5, 2)], keys=["z", "a", "m"])
    fitted = MeanEmbedding(8).fit(bags)
    np.testing.assert_allclose(fitted.transform(bags)[[2, 0]], fitted.transform(bags[[2, 0]]), atol=1e-14)


def test_an_array_is_bags_of_one(spread):
    X = spread[0].values[:50]
    fitted = MeanEmbedding(8).fit(X)
    z = (X - X.mean(0).astype(np.float32)) / X.std(0).astype(np.float32)
    np.testing.assert_allclose(fitted.transform(X), fitted.feature_map_.transform(z), atol=1e-5)


def test_output_of_a_chosen_kind(spread, people):
    emb = MeanEmbedding(6).fit(spread[0])
    values = emb.transform(spread[0])
    assert isinstance(values, np.ndarray)
    for name, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        found = emb.set_output(transform=name).transform(spread[0])
        assert isinstance(found, kind)
        assert list(found.columns) == list(emb.get_feature_names_out())
        np.testing.assert_array_equal(found.to_numpy(), values)
    assert isinstance(MeanEmbedding(6).set_output(transform="pandas").fit_transform(people), cl.Embeddings)
    with pytest.raises(InputError):
        emb.set_output(transform="excel")


@pytest.mark.parametrize("name", list(MAPS))
def test_a_saved_embedding_gives_the_same(people, table, tmp_path, name):
    length = {} if name == "linear" else {"n_features": 32}
    fitted = MeanEmbedding(feature_map=name, **length, unknown="ignore", random_state=np.int64(7)).fit(people)
    cl.save(fitted, tmp_path / "a.crosslevel", allow_rows=True)
    back = cl.load(tmp_path / "a.crosslevel")
    one, two = fitted.transform(people), back.transform(people)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.key_table.equals(two.key_table)
    assert back.get_params() == fitted.get_params()
    assert (back.n_rows_, back.columns_) == (3000, fitted.columns_)
    assert list(back.get_feature_names_out()) == list(fitted.get_feature_names_out())
    assert (tmp_path / "a.crosslevel").stat().st_size < 40_000
