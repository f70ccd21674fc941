from __future__ import annotations

import numpy as np

from crosslevel.charts.maps import by_names_of, choropleth, estimate_map
from crosslevel.results import Estimates, Provenance


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


def test_each_place_has_its_own_color_and_the_unknown_is_gray():
    ax = choropleth(MAP, {"a": 0.1, "b": 0.9}, vmin=0, vmax=1, label="share")
    drawn = ax.collections[0]
    drawn.update_scalarmappable()
    a, b, c = drawn.get_facecolor()
    np.testing.assert_allclose(a, drawn.cmap(0.1))
    np.testing.assert_allclose(b, drawn.cmap(0.9))
    assert c[0] == c[1] == c[2]
    assert len(drawn.get_paths()) == 3
    assert drawn.colorbar.ax.get_ylabel() == "share"


def test_of_a_larger_map_only_the_places_named_are_drawn():
    far = [feature(f"far {i}", [[[x + 20 * i, y + 60] for x, y in square(0)]]) for i in range(5)]
    alone, among = (
        choropleth(MAP, {"a": 0.1, "b": 0.9, "c": 0.5}),
        choropleth({"features": [*MAP["features"], *far]}, {"a": 0.1, "b": 0.9, "c": 0.5}),
    )
    assert among.get_aspect() == alone.get_aspect()
    assert among.get_xlim() == alone.get_xlim()
    assert len(among.collections[0].get_paths()) == 3


def test_a_hole_is_cut_out():
    ring = {"features": [feature("a", [square(0, 4.0), [[1, 1], [1, 3], [3, 3], [3, 1], [1, 1]]])]}
    path = choropleth(ring, {"a": 1.0}).collections[0].get_paths()[0]
    assert len(path.to_polygons()) == 2


def estimates(places=("a", "a", "b", "b"), **columns):
    made = {
        "region": list(places),
        "sex": [1, 2, 1, 2],
        "estimate": [0.1, 0.2, 0.3, 0.4],
        "word": list("wxyz"),
        **columns,
    }
    return Estimates.build(
        made, keys=["region", "sex"], method="m", level=None, interval="none", provenance=Provenance.of(call="c")
    )


def shown(ax):
    return ax.collections[0].get_array()


def test_one_subgroup_is_mapped_and_places_without_it_stay_gray():
    ax = estimate_map(estimates(), MAP, select={"sex": 2}, vmin=0, vmax=1)
    np.testing.assert_array_equal(shown(ax).filled(-1), [0.2, 0.4, -1])
    assert ax.get_title(loc="left") == "sex 2"
    assert ax.collections[0].get_clim() == (0, 1)
    assert ax.collections[0].colorbar.ax.get_ylabel() == "estimate"
    chosen = estimates().select(sex=1)
    np.testing.assert_array_equal(shown(estimate_map(chosen, MAP)).filled(-1), [0.1, 0.3, -1])


def test_values_of_larger_places_color_all_their_parts():
    parts = {
        "features": [
            {**f, "properties": {**f["properties"], "state": state}}
            for f, state in zip(MAP["features"], "xxy", strict=True)
        ]
    }
    est = Estimates.build(
        {"state": ["x", "y"], "estimate": [0.1, 0.9]}, keys=["state"], method="m", level=None, interval="none",
        provenance=Provenance.of(call="c"),
    )  # fmt: skip
    np.testing.assert_array_equal(shown(estimate_map(est, parts, by="state")), [0.1, 0.1, 0.9])


def test_numbers_here_and_text_there_are_the_same_place():
    named = {"features": [feature("7", [square(0)]), feature("8", [square(2)])]}
    ax = estimate_map(estimates(places=(7, 7, 8, 8)), named, select={"sex": 1})
    np.testing.assert_array_equal(shown(ax), [0.1, 0.3])
    assert by_names_of(named, {"07": 1.0}, "region") == {"07": 1.0}
    both = {"features": [feature("7", [square(0)]), feature(7, [square(2)])]}
    assert by_names_of(both, {"8": 1.0}, "region") == {"8": 1.0}
