"""scikit-learn's conventions, and saving."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import crosslevel as cl
from crosslevel.embedding import MeanEmbedding
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


def test_a_search_over_bandwidths(spread):
    bags, y = spread
    model = make_pipeline(MeanEmbedding(n_features=32), Ridge(1e-3))
    search = GridSearchCV(model, {"meanembedding__bandwidth": [0.01, 1.0, "median"]}, cv=3, error_score="raise")
    search.fit(bags, y)
    assert search.best_params_["meanembedding__bandwidth"] != 0.01
    assert search.predict(bags[:5]).shape == (5,)


def test_bags_equal_people(people):
    numbers = people.select(["region", "income", "hours", "w"])
    bags = cl.Bags.from_frame(numbers, by="region", weight="w")
    from_bags = MeanEmbedding(16, bandwidth=1.5).fit(bags)
    from_people = MeanEmbedding(16, bandwidth=1.5).fit(numbers, by="region", weight="w")
    np.testing.assert_allclose(from_bags.transform(bags), from_people.transform(numbers).values, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(from_people.transform(bags), from_bags.transform(bags))
    np.testing.assert_allclose(
        from_bags.transform(numbers, by="region", weight="w").values, from_bags.transform(bags), atol=1e-12
    )
    assert from_bags.fit_transform(bags).shape == (5, 16)
    assert from_people.fit_transform(numbers, by="region", weight="w").shape == (5, 16)


def test_bags_keep_their_order_and_number():
    rng = np.random.default_rng(0)
    bags = cl.Bags.from_list([rng.normal(size=(n, 2)) for n in (1, 5, 2)], keys=["z", "a", "m"])
    found = MeanEmbedding(8).fit(bags).transform(bags)
    again = MeanEmbedding(8).fit(bags).transform(bags[[2, 0]])
    np.testing.assert_array_equal(found[[2, 0]], again)


def test_an_array_is_bags_of_one(spread):
    X = spread[0].values[:50]
    fitted = MeanEmbedding(8).fit(X)
    phi = fitted.transform(X)
    z = (X - X.mean(0).astype(np.float32)) / X.std(0).astype(np.float32)
    np.testing.assert_allclose(phi, fitted.feature_map_.transform(z), atol=1e-5)


def test_output_of_a_chosen_kind(spread):
    bags, _ = spread
    emb = MeanEmbedding(6).fit(bags)
    values = emb.transform(bags)
    assert isinstance(values, np.ndarray)
    frame = emb.set_output(transform="pandas").transform(bags)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["cos0", "cos1", "cos2", "sin0", "sin1", "sin2"] == list(emb.get_feature_names_out())
    np.testing.assert_array_equal(frame, values)
    assert isinstance(clone(emb).fit(bags).transform(bags), pd.DataFrame)
    assert isinstance(emb.set_output(transform="polars").transform(bags), pl.DataFrame)
    assert isinstance(emb.set_output().transform(bags), pl.DataFrame)
    assert isinstance(emb.set_output(transform="default").transform(bags), np.ndarray)
    with config_context(transform_output="pandas"):
        assert isinstance(MeanEmbedding(6).fit(bags).transform(bags), pd.DataFrame)
    piped = make_pipeline(MeanEmbedding(6)).set_output(transform="pandas")
    assert isinstance(piped.fit_transform(bags), pd.DataFrame)
    with pytest.raises(InputError, match="transform="):
        emb.set_output(transform="excel")


def test_people_give_embeddings_whatever_the_output(people):
    fitted = MeanEmbedding(6).fit(people, by="region", weight="w").set_output(transform="pandas")
    assert isinstance(fitted.transform(people.to_pandas()), cl.Embeddings)


@pytest.mark.parametrize("name", list(MAPS))
def test_a_saved_embedding_gives_the_same_bits(people, tmp_path, name):
    options = {"categorical": ("sex",), "unknown": "ignore", "n_jobs": 1, "random_state": np.int64(7)}
    length = {} if name == "linear" else {"n_features": 32}
    fitted = MeanEmbedding(feature_map=name, **length, **options).fit(people, by="region", weight="w")
    cl.save(fitted, tmp_path / "a.crosslevel", allow_rows=True)
    back = cl.load(tmp_path / "a.crosslevel")
    assert isinstance(back, MeanEmbedding)
    one, two = fitted.transform(people), back.transform(people)
    assert one.values.tobytes() == two.values.tobytes()
    assert one.key_table.equals(two.key_table)
    assert back.get_params() == fitted.get_params()
    assert (back.by_, back.weight_, back.n_rows_, back.columns_) == (("region",), "w", 3000, fitted.columns_)
    assert list(back.get_feature_names_out()) == list(fitted.get_feature_names_out())
    np.testing.assert_equal(back.bandwidth_, fitted.bandwidth_)
    cl.save(back, tmp_path / "b.crosslevel", allow_rows=True)
    assert (tmp_path / "a.crosslevel").read_bytes() == (tmp_path / "b.crosslevel").read_bytes()
    assert (tmp_path / "a.crosslevel").stat().st_size < 40_000
