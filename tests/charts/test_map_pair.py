from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from crosslevel import charts
from crosslevel.charts import choropleth_pair, estimate_pair
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


def test_mean_left_and_deviation_right_from_zero():
    left, right = choropleth_pair(MAP, {"b": 4.0, "a": -2.0}, {"a": 1.0, "b": 0.5}, label="people")
    np.testing.assert_allclose(shown(left)[:2], [-2.0, 4.0])
    np.testing.assert_allclose(shown(right)[:2], [1.0, 0.5])
    assert np.ma.getmaskarray(shown(left)).tolist() == [False, False, True]
    assert left.collections[0].get_clim() == (-2.0, 4.0)
    assert right.collections[0].get_clim() == (0.0, 1.0)
    assert left.collections[0].get_cmap().name != right.collections[0].get_cmap().name
    assert right.get_title(loc="left") == "standard deviation"


def test_plane_coordinates_keep_their_proportions():
    _, right = choropleth_pair(MAP, {"a": 1.0}, {"a": 1.0}, plane=True)
    assert right.get_aspect() == 1.0
    left, _ = choropleth_pair(MAP, {"a": 1.0}, {"a": 1.0})
    assert left.get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(50.4)), rel=1e-3)


def test_given_axes_are_used():
    axes = plt.subplots(1, 2)[1]
    assert choropleth_pair(MAP, {"a": 1.0}, {"a": 1.0}, axes) == tuple(axes)
    with pytest.raises(InputError, match="axes holds 3 axes; pass two"):
        choropleth_pair(MAP, {"a": 1.0}, {"a": 1.0}, plt.subplots(1, 3)[1])


def test_a_table_of_estimates():
    columns = {
        "region": ["a", "b"] * 2,
        "sex": [1, 1, 2, 2],
        "estimate": [1.0, 2.0, 3.0, 4.0],
        "std_error": [0.1, 0.2, 0.3, 0.4],
    }
    columns |= {"conf_low": [0.0] * 4, "conf_high": [9.0] * 4}
    est = Estimates.build(
        columns, keys=["region", "sex"], method="m", level=0.95, interval="credible", provenance=Provenance.of(call="c")
    )
    left, right = estimate_pair(est, MAP, select={"sex": 2})
    np.testing.assert_allclose(shown(left)[:2], [3.0, 4.0])
    np.testing.assert_allclose(shown(right)[:2], [0.3, 0.4])
    assert left.get_title(loc="left") == "sex 2 · mean"
    axes = plt.subplots(1, 2)[1]
    again = est.plot("map_pair", axes, polygons=MAP, select={"sex": 1})
    assert again == tuple(axes)
    np.testing.assert_allclose(shown(again[1])[:2], [0.1, 0.2])
    assert charts.estimate_pair is estimate_pair
    assert charts.choropleth_pair is choropleth_pair
    with pytest.raises(InputError, match="several rows for each place"):
        estimate_pair(est, MAP)


@pytest.mark.parametrize(
    ("mean", "sd", "message"),
    [
        ({"a": 1.0, "b": 1.0}, {"a": 1.0}, "different places.*'b'"),
        ({"a": 1.0}, {"a": -1.0}, "sd is negative for 'a'"),
        ({"z": 1.0}, {"z": 1.0}, "places that polygons lacks"),
    ],
)
def test_mistakes_get_a_sentence(mean, sd, message):
    with pytest.raises(InputError, match=message):
        choropleth_pair(MAP, mean, sd)
