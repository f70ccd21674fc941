from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

from crosslevel.data.bags import Bags, as_bags
from crosslevel.errors import InputError


@pytest.fixture
def people() -> pa.Table:
    rng = np.random.default_rng(1)
    n = 400
    return pa.table(
        {
            "region": [f"r{i:02d}" for i in rng.integers(0, 30, n)],
            "age": rng.integers(18, 90, n),
            "income": rng.normal(size=n),
            "w": rng.uniform(0.5, 3, n),
        }
    )


def test_values_weights_and_keys_stay_together(people):
    bags = Bags.from_frame(people, by="region", weight="w")
    frame = people.to_pandas()
    assert bags.columns == ("age", "income")
    assert bags.keys.tolist() == sorted(frame.region.unique())
    for bag in bags:
        rows = frame[frame.region == bag.key]
        np.testing.assert_array_equal(bag.values, rows[["age", "income"]])
        np.testing.assert_array_equal(bag.weights, rows.w)
    w = frame.groupby("region").w
    np.testing.assert_allclose(bags.effective_sizes, w.sum() ** 2 / w.agg(lambda v: (v**2).sum()), rtol=1e-14)
    by_hand = frame.groupby("region").apply(lambda g: np.average(g.age, weights=g.w))
    np.testing.assert_allclose(bags.mean()[:, 0], by_hand, rtol=1e-14)


@pytest.mark.parametrize("kind", [pa.Table.to_pandas, pl.from_arrow], ids=["pandas", "polars"])
def test_the_kind_of_frame_does_not_matter(people, kind):
    assert Bags.from_frame(kind(people), by="region", weight="w") == Bags.from_frame(people, by="region", weight="w")


def test_permuting_rows_changes_only_the_order_inside_bags(people):
    shuffled = people.take(np.random.default_rng(2).permutation(people.num_rows))
    a, b = (Bags.from_frame(p, by="region", weight="w") for p in (people, shuffled))
    assert a.keys.tolist() == b.keys.tolist()
    np.testing.assert_allclose(a.mean(), b.mean(), rtol=1e-12)
    assert a != b


def test_a_row_of_weight_two_is_two_rows():
    once = Bags([[1.0], [4.0]], [0, 2], weights=[2.0, 1.0])
    twice = Bags([[1.0], [1.0], [4.0]], [0, 3])
    np.testing.assert_array_equal(once.mean(), twice.mean())


@pytest.mark.parametrize(
    "index",
    [
        np.array([4, 0, 4]),
        [3, 1],
        slice(2, 9, 3),
        slice(None, None, -1),
        np.arange(10) % 3 == 0,
        np.array([], dtype=int),
        (np.array([2, 5]), ...),
        -1,
        np.int64(3),
    ],
)
def test_indexing_is_that_of_an_array_of_bags(index):
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(10)]
    weights = [rng.uniform(1, 2, len(p)) for p in parts]
    bags = Bags.from_list(parts, weights=weights, keys=[f"k{i}" for i in range(10)])
    inner = index[0] if isinstance(index, tuple) else index
    chosen = np.arange(10)[inner]
    if np.ndim(chosen) == 0:
        bag = bags[index]
        assert bag.key == f"k{chosen}"
        np.testing.assert_array_equal(bag.values, parts[chosen])
        np.testing.assert_array_equal(bag.weights, weights[chosen])
        np.testing.assert_array_equal(np.asarray(bag), parts[chosen])
        return
    out = bags[index]
    assert out.shape == (len(chosen), 2)
    assert out.keys.tolist() == [f"k{i}" for i in chosen]
    for bag, i in zip(out, chosen, strict=True):
        np.testing.assert_array_equal(bag.values, parts[i])
        np.testing.assert_array_equal(bag.weights, weights[i])


class WeightedMeanRidge(RegressorMixin, BaseEstimator):
    """A trivial bag estimator: ridge on weighted bag means; remembers what it was given."""

    def __init__(self, penalty=1.0):
        self.penalty = penalty

    def fit(self, X, y):
        assert len(X) == len(y)
        self.seen_ = X
        M = np.column_stack([np.ones(len(X)), X.mean()])
        self.coef_ = np.linalg.solve(M.T @ M + self.penalty * np.eye(M.shape[1]), M.T @ y)
        return self

    def predict(self, X):
        return np.column_stack([np.ones(len(X)), X.mean()]) @ self.coef_


def test_scikit_learn_splits_bags_with_weights_intact():
    rng = np.random.default_rng(4)
    parts = [rng.normal(i % 7, 1, size=(rng.integers(2, 9), 1)) for i in range(60)]
    bags = Bags.from_list(parts, weights=[rng.uniform(0.1, 5, len(p)) for p in parts], keys=np.arange(60) * 10)
    y = bags.mean()[:, 0] * 2 + 1
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(WeightedMeanRidge(), {"penalty": [1e-9, 1e3]}, cv=folds).fit(bags, y)
    assert search.best_params_ == {"penalty": 1e-9}
    # y is the weighted mean exactly, so a fold that lost or mixed up its weights could not be predicted this well
    assert search.best_score_ > 1 - 1e-12
    assert search.best_estimator_.seen_ == bags
    assert cross_val_score(WeightedMeanRidge(1e-9), bags, y, cv=folds, n_jobs=1).min() > 1 - 1e-12
    train, test, y_train, _ = train_test_split(bags, y, random_state=0)
    np.testing.assert_array_equal(train.mean()[:, 0] * 2 + 1, y_train)
    assert {*train.keys, *test.keys} == {*bags.keys}


def test_bags_of_one_are_a_plain_array():
    X = np.arange(6.0).reshape(3, 2)
    bags = as_bags(X)
    np.testing.assert_array_equal(bags.mean(), X)
    assert as_bags(bags) is bags
    assert as_bags([X, X[:1]]).sizes.tolist() == [3, 1]
    assert as_bags(pd.DataFrame(X)) == bags


def test_bags_cannot_be_changed_behind_their_back():
    bags = as_bags(np.zeros((2, 1)))
    with pytest.raises(ValueError):
        bags.values[0, 0] = 1
    with pytest.raises(TypeError):
        np.asarray(bags)


FRAME = {"g": ["a", "b"], "x": [1.0, 2.0], "t": ["u", "v"], "w": [1.0, 0.0]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bags.from_frame(FRAME, by="G"),
        lambda: Bags.from_frame(FRAME, by="g", columns=["x"], weight="wt"),
        lambda: Bags.from_frame(FRAME, by="g", columns=["x"], weight="w"),
        lambda: Bags.from_frame(FRAME, by="g", columns=["g"]),
        lambda: Bags.from_frame(FRAME, by="g", columns=[]),
        lambda: Bags.from_frame({**FRAME, "x": [1.0, None]}, by="g", columns=["x"]),
        lambda: Bags.from_frame({"g": [], "x": []}, by="g"),
        lambda: Bags([[1.0]], [0, 0, 1]),
        lambda: Bags([[1.0]], [0, 2]),
        lambda: Bags([[1.0]], [0.0, 1.0]),
        lambda: Bags([1.0], [0, 1]),
        lambda: Bags([[1.0]], [0, 1], weights=[-1]),
        lambda: Bags([[1.0]], [0, 1], keys=["a", "b"]),
        lambda: Bags([[1.0], [2.0]], [0, 1, 2], keys=["a", "a"]),
        lambda: Bags([[1.0]], [0, 1], columns=["a", "b"]),
        lambda: Bags.from_list([]),
        lambda: Bags.from_list([[[1.0]], [[1.0, 2.0]]]),
        lambda: Bags.from_list([[1.0]], weights=[[1.0, 2.0]]),
        lambda: as_bags(np.zeros((0, 2))),
        lambda: as_bags(np.zeros(3)),
        lambda: as_bags(np.zeros((2, 1))).mean(np.zeros(5)),
        lambda: as_bags(np.zeros((2, 1))).mean([np.nan, 1.0]),
        lambda: as_bags(np.array([[1j]])),
        lambda: Bags([[1.0, 2.0]], [0, 1], columns=["a", "a"]),
        lambda: Bags.from_frame(FRAME, by="w", weight="w"),
        lambda: Bags.from_frame(FRAME, by=["g", 1]),
    ],
)
def test_bad_bags_get_a_sentence(make):
    with pytest.raises(InputError):
        make()


def test_what_was_checked_cannot_be_changed_by_the_caller():
    values, weights, keys = np.zeros((2, 1)), np.ones(2), np.array(["a", "b"])
    bags = Bags(values, [0, 1, 2], weights=weights, keys=keys)
    values[0], weights[0], keys[0] = 9, -9, "b"
    assert bags.values[0, 0] == 0
    assert bags.weights[0] == 1
    assert bags.keys.tolist() == ["a", "b"]


def test_effective_sizes_survive_extreme_weights():
    bags = Bags([[0.0]] * 4, [0, 2, 4], weights=[1e200, 1e200, 1e-200, 1e-200])
    np.testing.assert_allclose(bags.effective_sizes, 2.0)


def test_a_filtered_frame_is_the_frame_of_its_rows():
    frame = pd.DataFrame({"g": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]})
    kept = frame[frame.x > 1]
    assert Bags.from_frame(kept, by="g") == Bags.from_frame(kept.reset_index(drop=True), by="g")


class Reader:
    """Indexed like a memory map without being an array."""

    def __init__(self, values):
        self.hidden, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim

    def __len__(self):
        return len(self.hidden)

    def __getitem__(self, index):
        return self.hidden[index]


@pytest.mark.parametrize("wrap", ["map", "reader"])
def test_a_memory_map_stays_where_it_is(tmp_path, wrap):
    rng = np.random.default_rng(0)
    values, offsets = rng.normal(size=(20, 3)).astype(np.float32), [0, 2, 9, 12, 20]
    weights = rng.uniform(0.5, 2.0, 20)
    np.save(tmp_path / "people.npy", values)
    people = np.load(tmp_path / "people.npy", mmap_mode="r")
    stored = Bags(people if wrap == "map" else Reader(values), offsets, weights=weights, keys=list("abcd"))
    held = Bags(values, offsets, weights=weights, keys=list("abcd"))
    assert stored.stored
    assert not held.stored
    assert stored.values.dtype == np.float32
    assert stored == held
    assert stored[[3, 1]][[1]] == held[[1]]
    assert stored[[3, 1]].stored
    np.testing.assert_array_equal(stored[2].values, held[2].values)
    assert stored[2].values.dtype == np.float64
    np.testing.assert_array_equal(stored.mean(), held.mean())
    np.testing.assert_array_equal(stored[1:].effective_sizes, held[1:].effective_sizes)
    np.testing.assert_array_equal(stored[[3, 0]].values[1:5], held[[3, 0]].values[1:5])


def test_a_memory_map_is_checked(tmp_path):
    path = tmp_path / "people.npy"
    np.save(path, np.array([[1.0], [np.nan]]))
    bags = Bags(np.load(path, mmap_mode="r"), [0, 1, 2])
    assert bags[0].values.tolist() == [[1.0]]
    with pytest.raises(InputError):
        bags.mean()
    for bad in (np.array([[1], [2]]), np.zeros(2)):
        np.save(path, bad)
        with pytest.raises(InputError):
            Bags(np.load(path, mmap_mode="r"), [0, 2])
    np.save(path, np.zeros((2, 1)))
    with pytest.raises(InputError):
        Bags(np.load(path, mmap_mode="r"), [0, 3])


def test_frames_in_a_list_are_matched_by_the_names_of_columns_and_rows():
    first = pd.DataFrame({"age": [30.0, 50.0], "income": [1.0, 3.0]})
    bags = Bags.from_list([first, first[["income", "age"]]], weights=[pd.Series([3.0, 1.0], index=[1, 0]), [1.0, 3.0]])
    assert bags.columns == ("age", "income")
    np.testing.assert_allclose(bags.mean(), [[45.0, 2.5], [45.0, 2.5]])
    with pytest.raises(InputError):
        Bags.from_list([first, first.rename(columns={"age": "years"})])
    with pytest.raises(InputError):
        Bags.from_list([first], weights=[[1.0, 1.0], [1.0, 1.0]])
