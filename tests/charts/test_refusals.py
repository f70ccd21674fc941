"""What no chart can show is refused, and a chart leaves the caller's axes and settings as they are."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from tests import built
from tests.ecological.margins import counted

from crosslevel import charts, ecological
from crosslevel.binned import BinnedCountGP, Intervals
from crosslevel.errors import InputError
from crosslevel.krls import KRLS

PEOPLE, VOTES = {"x": [10, 40, 70], "y": [90, 60, 30]}, {"a": [25, 36, 48], "b": [75, 64, 52]}
MAP = built.squares(["north", "south", "west"], key="place")
X, T = np.array([[10, 90], [40, 60], [70, 30]]), np.array([[25, 75], [36, 64], [48, 52]])


def units():
    return ecological.neighborhood(counted(PEOPLE, VOTES, units=["u", "v", "w"]))


def squares_of(*names):
    return {name: [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]] for i, name in enumerate(names)}


def model():
    rng = np.random.default_rng(3)
    return KRLS(penalty=1.0).fit({"age": rng.normal(size=20), "z": rng.normal(size=20)}, rng.normal(size=20))


def counts():
    return BinnedCountGP().fit(Intervals.from_edges([0, 10, 20, 30]), [90, 60, 30])


REFUSED = {
    "bags of no size": lambda: charts.predicted_bags(built.labels(), sizes=(2000, 3000)),
    "bags without truth": lambda: charts.predicted_bags(built.labels(truth=False)),
    "calibration of bags": lambda: charts.bag_calibration(built.labels()),
    "methods of one": lambda: charts.methods(ecological.bounds(counted(PEOPLE, VOTES))),
    "methods, no cells": lambda: charts.methods(built.comparison(), max_cells=0),
    "context of none": lambda: charts.contextual_variance(built.cells()),
    "context, no lines": lambda: charts.contextual_variance(built.context(), max_lines=0),
    "effect along nothing": lambda: model().plot_effect("age", along="zz"),
    "effect of nothing": lambda: model().plot_effect("agee"),
    "curve of other lengths": lambda: charts.effect_curve([1, 2], [1], [1], [1]),
    "curve of nothing": lambda: charts.effect_curve([], [], [], []),
    "distributions unnamed": lambda: charts.effect_distributions(np.ones((2, 2)), ["a"]),
    "ranking without errors": lambda: charts.effect_ranking(
        built.build({"term": ["a"], "estimate": [1.0]}, ["term"], half=None)
    ),
    "histogram of groups": lambda: charts.histogram(built.cells()),
    "histogram, odd bins": lambda: charts.histogram(counts().estimate([3.0]), observed=([0], [1], [1, 2])),
    "means of others": lambda: charts.imputed_means(built.cells()),
    "means, no feature": lambda: charts.imputed_means(built.imputed(), feature="smoke"),
    "profiles of others": lambda: charts.cluster_profiles(built.cells()),
    "profiles, no columns": lambda: charts.cluster_profiles(built.clusters(), max_columns=0),
    "rows, no baseline": lambda: built.cells().plot(baselines=["godman"]),
    "rows, none": lambda: built.cells().plot(max_rows=0),
    "rows of nothing": lambda: built.build({"g": [], "estimate": []}, ["g"]).plot(),
    "margins without draws": lambda: charts.margins(built.cells()),
    "contour without a cell": lambda: charts.contour(built.cells(), "young"),
    "slopes of others": lambda: charts.slope_curve(built.cells(), "young"),
    "transfers without cells": lambda: charts.transfers(built.slopes()),
    "map without features": lambda: charts.choropleth({"features": []}, {}),
    "map of others": lambda: charts.choropleth(MAP, {"east": 1.0}, key="place"),
    "map by nothing": lambda: charts.choropleth(MAP, {"north": 1.0}, key="county"),
    "map of several": lambda: charts.estimate_map(built.subgroups(), MAP, by="place"),
    "map of a word": lambda: charts.estimate_map(built.areas(), MAP, by="place", column="place"),
    "pair on three": lambda: charts.estimate_pair(built.areas(), MAP, by="place", ax=plt.subplots(1, 3)[1]),
    "units of no group": lambda: charts.unit_map(units(), squares_of("u", "v", "w"), group="xx", outcome="a"),
    "units elsewhere": lambda: charts.unit_map(units(), squares_of("p"), group="x", outcome="a"),
    "units in meters": lambda: charts.unit_map(
        units(), {"u": [[[0, 4e5], [1, 4e5], [1, 5e5]]]}, group="x", outcome="a"
    ),
    "units of a comparison": lambda: charts.unit_map(built.comparison(), squares_of("u"), group="x", outcome="a"),
    "tomography of three": lambda: charts.tomography(np.ones((4, 3)), np.ones((4, 3))),
    "tomography of half": lambda: charts.tomography(X),
    "tomography, lengths": lambda: charts.tomography(X, T[:-1]),
    "tomography, no unit": lambda: charts.tomography(X, T, units=["u99"]),
    "tomography, truth": lambda: charts.tomography(X, T, truth=np.ones((2, 2))),
    "fan of nobody": lambda: charts.xt(np.zeros((3, 2)), np.zeros((3, 2))),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_what_cannot_be_drawn_is_refused(what):
    with pytest.raises(InputError):
        REFUSED[what]()


def test_given_axes_are_used_and_settings_are_left_alone():
    before = dict(mpl.rcParams)
    for name in ("imputed", "comparison", "cells", "effects", "labels"):
        _, mine = plt.subplots()
        assert built.KINDS[name]().plot(ax=mine) is mine
    for draw in (charts.tomography, charts.xt):
        _, mine = plt.subplots()
        assert draw(X, T, ax=mine) is mine
    assert dict(mpl.rcParams) == before
