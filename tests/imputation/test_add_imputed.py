import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from crosslevel.errors import InputError
from crosslevel.imputation.add_imputed import AddImputed
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.persons.estimator import CrossLevelImputer


@pytest.fixture(scope="module")
def people(world):
    return pd.DataFrame({"age": world.X["age"], "school": world.X["school"], "place": world.place["place"].to_pylist()})


def test_columns_are_those_of_the_imputer(world, people):
    step = AddImputed("place", world.frame).fit(people)
    out = step.transform(people)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == ["age", "school", "ill"] == step.get_feature_names_out().tolist()
    direct = (
        CrossLevelImputer().fit(world.X, world.place, world.frame).transform(world.X, world.place, match_means=False)
    )
    np.testing.assert_allclose(out["ill"], direct[:, 0], atol=1e-12)


def test_frames_arrays_and_options(world, people):
    kept = (
        AddImputed("place", world.frame, keep_partition=True, columns=["age"])
        .fit(people)
        .transform(pl.from_pandas(people))
    )
    assert isinstance(kept, pl.DataFrame)
    assert kept.columns == ["age", "school", "place", "ill"]
    array = np.column_stack([world.X["age"], world.group])
    out = AddImputed(1, world.means, CrossLevelImputer(shrinkage_groups=16.0), match_means=True).fit_transform(array)
    assert out.shape == (len(array), 2)
    np.testing.assert_allclose(np.bincount(world.group, out[:, 1]) / 300, world.means, atol=1e-10)


def test_in_a_pipeline_with_cross_validation(world, people):
    rng = np.random.default_rng(0)
    target = (rng.random(len(people)) < 0.1 + 0.6 * world.p).astype(int)
    pipe = make_pipeline(AddImputed("place", world.frame), LogisticRegression())
    order = rng.permutation(len(people))
    score = cross_val_score(pipe, people.iloc[order], target[order], cv=3, scoring="neg_log_loss")
    assert score.mean() > -np.mean(
        -target.mean() * np.log(target.mean()) - (1 - target.mean()) * np.log(1 - target.mean())
    )
    clone(pipe).fit(people, target)


def test_clusters_in_a_pipeline(world, people):
    target = world.y.astype(int)
    folds = KFold(2, shuffle=True, random_state=0)
    imputer = CUDIA(2, method="two_stage", n_restarts=2)
    pipe = make_pipeline(AddImputed("place", world.frame, imputer), LogisticRegression())
    score, nothing = (
        cross_val_score(one, people, target, cv=folds, scoring="neg_log_loss").mean()
        for one in (pipe, DummyClassifier())
    )
    assert score > nothing + 0.03
    assert pipe.fit(people, target)[0].imputer_.n_clusters_ == 2


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "plce"},
        {"partition": 7},
        {"aggregates": None},
        {"columns": ["place", "age"]},
        {"columns": []},
        {"columns": ["age"], "aggregates": {"place": [f"g{i:02d}" for i in range(30)], "school": [0.1] * 30}},
    ],
)
def test_bad_input(world, people, options):
    given = {"partition": "place", "aggregates": world.frame} | options
    with pytest.raises(InputError):
        AddImputed(given.pop("partition"), given.pop("aggregates"), **given).fit(people)
