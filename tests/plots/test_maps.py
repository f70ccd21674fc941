from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.plots.maps import choropleth


def square(x, size=1.0):
    return [[x, 0], [x + size, 0], [x + size, size], [x, size], [x, 0]]


def feature(name, coordinates, kind="Polygon"):
    return {"properties": {"region": name}, "geometry": {"type": kind, "coordinates": coordinates}}


MAP = {
    "features": [
        feature("a", [square(0)]),
        feature("b", [[square(2)], [square(4)]], "MultiPolygon"),
        feature("c", [square(6)]),
    ]
}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_each_place_has_its_own_colour_and_the_unknown_is_grey():
    ax = choropleth(MAP, {"a": 0.1, "b": 0.9}, vmin=0, vmax=1, label="share")
    drawn = ax.collections[0]
    drawn.update_scalarmappable()
    a, b, c = drawn.get_facecolor()
    np.testing.assert_allclose(a, drawn.cmap(0.1))
    np.testing.assert_allclose(b, drawn.cmap(0.9))
    assert c[0] == c[1] == c[2]
    assert len(drawn.get_paths()) == 3
    assert drawn.colorbar.ax.get_ylabel() == "share"


def test_a_hole_is_cut_out():
    ring = {"features": [feature("a", [square(0, 4.0), [[1, 1], [1, 3], [3, 3], [3, 1], [1, 1]]])]}
    path = choropleth(ring, {"a": 1.0}).collections[0].get_paths()[0]
    assert len(path.to_polygons()) == 2


@pytest.mark.parametrize(
    ("polygons", "values", "key", "message"),
    [
        ({"features": []}, {}, "region", "polygons has no features"),
        (MAP, {"z": 1.0}, "region", r"values names places that polygons lacks \('z'\)"),
        (MAP, {"a": 1.0}, "county", "features without the property 'county'"),
    ],
)
def test_bad_maps_get_a_sentence(polygons, values, key, message):
    with pytest.raises(InputError, match=message):
        choropleth(polygons, values, key=key)
