from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from crosslevel.charts import estimate_pair
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance


def feature(name, x):
    ring = [[x, 50], [x + 1, 50], [x + 1, 51], [x, 51], [x, 50]]
    return {"type": "Feature", "properties": {"region": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


MAP = {"type": "FeatureCollection", "features": [feature("a", 0), feature("b", 1), feature("c", 2)]}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def shown(ax):
    return ax.collections[0].get_array()


def table(mean, sd, sexes=(1,)):
    columns = {
        "region": list(mean) * len(sexes),
        "sex": np.repeat(sexes, len(mean)),
        "estimate": np.concatenate([np.array(list(mean.values())) + 2 * i for i in range(len(sexes))]),
        "std_error": np.concatenate([np.array(list(sd.values())) + 0.2 * i for i in range(len(sexes))]),
    }
    columns |= {"conf_low": np.full(len(columns["sex"]), -9.0), "conf_high": np.full(len(columns["sex"]), 9.0)}
    told = {"method": "m", "level": 0.95, "interval": "credible", "provenance": Provenance.of(call="c")}
    return Estimates.build(columns, keys=["region", "sex"], **told)


ONE = table({"a": 1.0}, {"a": 1.0})


def test_mean_left_and_deviation_right_from_zero():
    left, right = estimate_pair(table({"b": 4.0, "a": -2.0}, {"b": 0.5, "a": 1.0}), MAP, label="people")
    np.testing.assert_allclose(shown(left)[:2], [-2.0, 4.0])
    np.testing.assert_allclose(shown(right)[:2], [1.0, 0.5])
    assert np.ma.getmaskarray(shown(left)).tolist() == [False, False, True]
    assert left.collections[0].get_clim() == (-2.0, 4.0)
    assert right.collections[0].get_clim() == (0.0, 1.0)
    assert left.collections[0].get_cmap().name != right.collections[0].get_cmap().name
    assert right.get_title(loc="left") == "sex 1 · standard deviation"


def test_plane_coordinates_keep_their_proportions():
    _, right = estimate_pair(ONE, MAP, plane=True)
    assert right.get_aspect() == 1.0
    left, _ = estimate_pair(ONE, MAP)
    assert left.get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(50.4)), rel=1e-3)


def test_given_axes_are_used():
    axes = plt.subplots(1, 2)[1]
    assert estimate_pair(ONE, MAP, ax=axes) == tuple(axes)
    with pytest.raises(InputError):
        estimate_pair(ONE, MAP, ax=plt.subplots(1, 3)[1])


def test_a_table_of_several_subgroups():
    est = table({"a": 1.0, "b": 2.0}, {"a": 0.1, "b": 0.2}, sexes=(1, 2))
    left, right = estimate_pair(est, MAP, select={"sex": 2})
    np.testing.assert_allclose(shown(left)[:2], [3.0, 4.0])
    np.testing.assert_allclose(shown(right)[:2], [0.3, 0.4])
    assert left.get_title(loc="left") == "sex 2 · mean"
    axes = plt.subplots(1, 2)[1]
    again = est.plot("map_pair", axes, polygons=MAP, select={"sex": 1})
    assert again == tuple(axes)
    np.testing.assert_allclose(shown(again[1])[:2], [0.1, 0.2])
    with pytest.raises(InputError):
        estimate_pair(est, MAP)


def test_mistakes_get_a_sentence():
    with pytest.raises(InputError):
        estimate_pair(table({"z": 1.0}, {"z": 1.0}), MAP)
