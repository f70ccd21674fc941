"""Values that once came through to a library beneath: each is refused with its name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import charts, ecological, krls
from crosslevel.data.columns import plain_array
from crosslevel.data.readers import read_county_votes
from crosslevel.data.simulate import nation
from crosslevel.distribution import BayesianLinear
from crosslevel.errors import CrosslevelError, InputError
from crosslevel.imputation import pool
from crosslevel.imputation.estimate import subgroups

SQUARES = cl.Polygons([[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1]] for i in range(4)])
X, Y = np.arange(20.0)[:, None], np.arange(20.0)
PEOPLE = {"place": list("abcd") * 6, "sex": [0, 1, 1] * 8, "age": list(range(24))}
PLACES = {"place": list("abcd"), "yes": [1, 2, 3, 4], "n": [9, 9, 9, 9]}
KNOWN = cl.People(PEOPLE, by="place", categorical=["sex"])
TOTALS = cl.Places(PLACES, by="place", successes="yes", trials="n", coords=("yes", "n"))
RING = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
MAP = {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"region": "a"}, "geometry": RING}]}
GROUPS = {"a": [10, 40, 70], "b": [90, 60, 30]}
OUTCOMES = {"yes": [10, 40, 70], "no": [90, 60, 30]}


@pytest.mark.parametrize(
    "call",
    [
        lambda: krls.KRLS(reference="text").fit({"arm": list("ab") * 10}, Y),
        lambda: ecological.rxc(counted(GROUPS, GROUPS), contextual_slope=5e-324),
        lambda: ecological.car_test(counted(GROUPS, OUTCOMES), n_draws=10**30),
        lambda: cl.MeanEmbedding(n_features=10**30).fit(KNOWN),
        lambda: nation(10**30, 5),
        lambda: BayesianLinear(bandwidth=5e-324).fit(list(X[:, None]), Y),
        lambda: read_county_votes("votes.csv", year="last"),
        lambda: cl.CrossLevelImputer().fit(KNOWN, PLACES),
        lambda: cl.CUDIA().fit(KNOWN, TOTALS),
        lambda: cl.Means("ill", se="text"),
        lambda: ecological.king(counted(GROUPS, OUTCOMES), prior=(0.5, 5e-324, 0.5)),
        lambda: cl.Polygons([[[0, 0], [1, 0], [0, 1]]], plane="text"),
        lambda: cl.Intervals.single_years(None, 3),
        lambda: cl.MeanEmbedding(unknown=2.5).fit(cl.People({"p": [1, 2], "x": [1.0, 2.0]}, by="p")),
        lambda: cl.People(PEOPLE, by="place", categorical=2.5),
        lambda: cl.EcologicalInference(interactions=True).fit(KNOWN, TOTALS),
        lambda: cl.EcologicalInference(hyperparameters=2.5).fit(KNOWN, TOTALS),
        lambda: cl.EcologicalInference().learn_confounding(families=2.5),
        lambda: plain_array(pa.table({"x": [1]}), 1, "survey_outcome"),
        lambda: plain_array(pa.table({"x": [1]}), "a\ud800"),
        lambda: cl.EcologicalInference().sensitivity("sex", contextual_variance=2.5),
        lambda: subgroups(2.5, None, None),
        lambda: cl.Bags.from_list([[1.0]], weights=2.5),
        lambda: cl.load(2.5),
        lambda: cl.People({"x": [1]}, columns=2.5),
        lambda: pool([(1.0, 1.0), (2.0, 1.0)], n_complete="many"),
        lambda: charts.effect_curve([1.0], [1.0], [1.0], 2.5),
        lambda: charts.effect_curve([1.0], [1.0], [1.0], [1.0], color=[1.0, 2.0]),
        lambda: charts.effect_distributions([[1.0]], ["a"], weights="text"),
        lambda: charts.choropleth(MAP, {"a": 1.0}, cmap="nonsense"),
        lambda: charts.choropleth(MAP, {"a": 1.0}, vmin="low"),
    ],
)
def test_a_hostile_value_is_refused(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize("name", ["a" * 10_000, "a\0b", "a\ud800"], ids=["long", "null", "half"])
def test_an_embedding_refuses_names_of_no_file(name):
    model = cl.MeanEmbedding(n_features=2, bandwidth=1.0).fit(KNOWN)
    with pytest.raises(CrosslevelError):
        model.transform(KNOWN, checkpoint=name)
