from __future__ import annotations

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.charts import choropleth, unit_map
from crosslevel.errors import InputError

PEOPLE = {"x": [10, 40, 70], "y": [90, 60, 30]}
VOTES = {"a": [25, 36, 48], "did not vote": [75, 64, 52]}


def square(i):
    return [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]]


MAP = {name: square(i) for i, name in enumerate("uvw")}


@pytest.fixture(scope="module")
def result():
    return ecological.neighborhood(counted(PEOPLE, VOTES, units=["u", "v", "w"]))


def shown(ax):
    return ax.collections[0].get_array()


def test_each_unit_has_its_own_share(result):
    ax = unit_map(result, MAP, group="x", outcome="a")
    np.testing.assert_allclose(shown(ax), [0.25, 0.36, 0.48])
    assert ax.collections[0].get_clim() == (0.0, 1.0)
    assert ax.get_title(loc="left") == "x · a"
    turned = {k: MAP[k] for k in reversed(MAP)}  # by name, not by order
    np.testing.assert_allclose(shown(unit_map(result, turned, group="x", outcome="a")), [0.48, 0.36, 0.25])
    np.testing.assert_allclose(shown(unit_map(result.units, MAP, group="x", outcome="a")), [0.25, 0.36, 0.48])


def test_other_columns_and_geojson(result):
    features = [
        {"properties": {"ward": k}, "geometry": {"type": "Polygon", "coordinates": v}}
        for k, v in [*MAP.items(), ("z", square(5))]
    ]
    ax = unit_map(result, {"features": features}, group="y", outcome="a", column="count", key="ward")
    np.testing.assert_allclose(shown(ax)[:3], [22.5, 21.6, 14.4])
    assert np.ma.getmaskarray(shown(ax)).tolist() == [False, False, False, True]  # a place without a unit stays gray
    units = result.units.select(group="y", outcome="a")
    width = unit_map(result, MAP, group="y", outcome="a", column="width")
    np.testing.assert_allclose(shown(width), units["upper"] - units["lower"])


def test_districts_with_units_of_the_same_name_are_told_apart():
    units = ecological.neighborhood(counted(PEOPLE, VOTES, units=["u", "v", "w"])).units
    columns = {n: units.table[n] for n in units.table.column_names}
    doubled = {n: [*c.to_pylist(), *c.to_pylist()] for n, c in columns.items()} | {"district": ["n"] * 12 + ["s"] * 12}
    pooled = type(units).build(
        doubled, keys=("district", *units.keys), method="m", level=None, interval="none", provenance=units.provenance
    )
    with pytest.raises(InputError):
        unit_map(pooled, MAP, group="x", outcome="a")
    ax = unit_map(pooled.select(district="n"), MAP, group="x", outcome="a")
    np.testing.assert_allclose(shown(ax), [0.25, 0.36, 0.48])


@pytest.mark.parametrize(
    "geometry",
    [
        None, "text", {}, {"type": "Point", "coordinates": [0, 0]}, {"type": "GeometryCollection", "geometries": []},
        {"type": "Polygon", "coordinates": None}, {"type": "Polygon", "coordinates": []},
        {"type": "Polygon", "coordinates": [[]]}, {"type": "Polygon", "coordinates": [[[[[0]]]]]},
        {"type": "Polygon", "coordinates": [[["a", "b"]] * 4]}, {"type": "Polygon", "coordinates": [[[0, np.nan]] * 4]},
    ],
)  # fmt: skip
def test_a_hostile_shape_is_named_by_its_number(geometry):
    feature = {"type": "Feature", "properties": {"region": "a"}, "geometry": geometry}
    with pytest.raises(InputError):
        choropleth({"type": "FeatureCollection", "features": [feature]}, {"a": 1.0})
