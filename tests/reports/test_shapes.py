from __future__ import annotations

import json

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.reports.shapes import GRID, centre_of, equal_area, read_points, read_shapes


def collection(*geometries, **properties):
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"name": f"p{i}", **{k: v[i] for k, v in properties.items()}},
                "geometry": g,
            }
            for i, g in enumerate(geometries)
        ],
    }


def box(x, y, w, h, hole=None):
    rings = [[[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]]]
    return {"type": "Polygon", "coordinates": [*rings, *([hole] if hole else [])]}


def area(ring):
    x, y = np.asarray(ring, dtype=float).T
    return (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def test_a_shared_border_stays_shared_on_the_grid():
    wiggle = [[1000 + 7 * np.sin(i), 13.37 * i] for i in range(40)]
    left = {"type": "Polygon", "coordinates": [[[200, 0], *wiggle, [200, 13.37 * 39], [200, 0]]]}
    right = {"type": "Polygon", "coordinates": [[*wiggle[::-1], [1900, 0], [1900, 13.37 * 39], wiggle[-1]]]}
    made = read_shapes(collection(left, right))
    shared = [set(map(tuple, place[0].tolist())) for place in made.places]
    assert len(shared[0] & shared[1]) >= 38


def test_planar_coordinates_keep_their_proportions_and_north_is_up():
    made = read_shapes(collection(box(0, 0, 1000, 250), box(0, 250, 1000, 250)))
    assert (made.width, made.height) == (GRID, GRID // 2)
    south, north = (place[0][:, 1].mean() for place in made.places)
    assert north < south
    assert made.aspect == 0.5


def test_holes_are_wound_against_their_rings():
    hole = [[300, 300], [700, 300], [700, 700], [300, 700], [300, 300]]
    for turned in (hole, hole[::-1]):
        (rings,) = read_shapes(collection(box(0, 0, 1000, 1000, turned))).places
        assert np.sign(area(rings[0])) == -np.sign(area(rings[1]))
        assert abs(area(rings[1])) == pytest.approx(0.16 * GRID**2, rel=1e-3)


def test_areas_are_true_wherever_a_place_lies():
    degree = {lat: np.cos(np.radians(lat)) for lat in (35, 45, 55, 64)}
    points, n = [], 0
    for lat in degree:
        edge = np.linspace(0, 1, 50)
        ring = np.concatenate(
            [np.c_[10 + edge, 0 * edge + lat - 0.5], np.c_[0 * edge + 11, lat - 0.5 + edge],
             np.c_[11 - edge, 0 * edge + lat + 0.5], np.c_[0 * edge + 10, lat + 0.5 - edge]]
        )  # fmt: skip
        points.append(ring)
        n = len(ring)
    plane = equal_area(np.concatenate(points))
    areas = [area(plane[i * n : (i + 1) * n]) for i in range(len(degree))]
    expected = [np.radians(1) * (np.sin(np.radians(lat + 0.5)) - np.sin(np.radians(lat - 0.5))) for lat in degree]
    np.testing.assert_allclose(areas, expected, rtol=1e-3)


def test_the_date_line_does_not_tear_a_place():
    made = read_shapes(collection(box(178, -18, 2, 2), box(-180, -18, 2, 2)))
    left, right = (place[0] for place in made.places)
    assert left[:, 0].max() == right[:, 0].min()
    assert made.width == GRID
    assert centre_of(np.array([170.0, 175.0, -170.0])) == pytest.approx(180)


def test_a_few_far_places_are_drawn_beneath():
    near = [box(x, y, 1, 1) for x in range(-120, -80, 2) for y in range(30, 48, 2)]
    made = read_shapes(collection(*near, box(-157, 20, 1, 1), box(-66, 18, 0.5, 0.5)))
    main = np.concatenate([ring for place in made.places[:-2] for ring in place])
    assert np.ptp(main[:, 0]) > 0.95 * made.width
    for place in made.places[-2:]:
        assert place[0][:, 1].min() > main[:, 1].max()
    together = read_shapes(collection(*near))
    assert together.height < made.height


def test_the_projection_is_fitted_to_the_places_drawn():
    """A state's places on a map of the nation lie as on a map of the state, with a parallel level and all of the width."""
    lon, lat = np.meshgrid(np.arange(-124.0, -68.0), np.arange(26.0, 49.0))
    codes = [f"{i:04d}" for i in range(lon.size)]
    nation = collection(*(box(x, y, 1, 1) for x, y in zip(lon.flat, lat.flat, strict=True)), code=codes)
    mine = [i for i, (x, y) in enumerate(zip(lon.flat, lat.flat, strict=True)) if x < -117 and y >= 45]
    own = {"type": "FeatureCollection", "features": [nation["features"][i] for i in mine]}
    wanted = [{"sex": [1, 2], "place": [codes[i] for i in mine]}, {"sex": [1, 2]}]
    drawn, alone = read_shapes(nation, wanted), read_shapes(own)
    assert drawn.encoded() == alone.encoded()
    tops = [place[0][:, 1].min() for place, i in zip(drawn.places, mine, strict=True) if lat.flat[i] == 48]
    assert tops == tops[::-1]
    most = [{"place": codes[: len(codes) // 2 + 1]}]
    assert len(read_shapes(nation, most).places) == len(codes)  # the others stand in gray


def test_topojson_is_read_with_its_arcs_and_the_layer_that_fits():
    # two squares that share an arc, and their union as another layer; arcs are steps on a grid of a hundred
    made = {
        "type": "Topology",
        "transform": {"scale": [100, 100], "translate": [1000, 0]},
        "arcs": [[[1, 0], [0, 1]], [[1, 1], [-1, 0], [0, -1], [1, 0]], [[1, 0], [1, 0], [0, 1], [-1, 0]]],
        "objects": {
            "all": {"type": "GeometryCollection", "geometries": [{"type": "Polygon", "id": "u", "arcs": [[1, 2]]}]},
            "parts": {
                "type": "GeometryCollection",
                "geometries": [
                    {"type": "Polygon", "id": 7, "arcs": [[0, 1]], "properties": {"name": "left"}},
                    {"type": "MultiPolygon", "id": 8, "arcs": [[[2, -1]]]},
                ],
            },
        },
    }
    shapes = read_shapes(made)
    assert shapes.properties["id"] == [7, 8]
    assert shapes.labels() == ["left", ""]
    left, right = (set(map(tuple, place[0].tolist())) for place in shapes.places)
    assert left == {(0, 0), (1200, 0), (1200, 1200), (0, 1200)}
    assert right == {(1200, 0), (2400, 0), (2400, 1200), (1200, 1200)}
    assert read_shapes(made, [{"region": ["u"]}]).properties["id"] == ["u"]


def test_a_frame_of_shapes_is_read_by_its_interface():
    class Frame:
        __geo_interface__ = collection(box(0, 0, 500, 500))

    assert len(read_shapes(Frame()).places) == 1


def test_codes_are_matched_as_numbers_and_the_named_property_comes_first():
    made = read_shapes(
        collection(box(0, 0, 500, 500), box(500, 0, 500, 500), fips=["01001", "01003"], state=["x", "x"])
    )
    assert made.names_for([1001, 1003]) == ["1001", "1003"]
    assert made.names_for(["1001", "01003"]) == ["1001", "01003"]
    assert made.names_for(["x"], "state") == ["x", "x"]
    assert made.names_for(["01001", "99999"], "fips") == ["01001", None]
    assert made.names_for(["01001", "99999"], "county") is None
    assert made.names_for([]) is None
    assert made.labels() == ["p0", "p1"]


def test_dots_stand_where_there_are_no_polygons():
    made = read_points({"a": (10.0, 50.0), "b": (12.0, 52.0)})
    assert made.dots
    assert made.names_for(["a", "b"]) == ["a", "b"]
    points = read_shapes(
        collection({"type": "Point", "coordinates": [1000, 5]}, {"type": "Point", "coordinates": [0, 9]})
    )
    assert points.dots


RING = [[0, 0], [1, 0], [1, 1], [0, 0]]


def polygon(coordinates, kind="Polygon"):
    return {"type": kind, "coordinates": coordinates}


def topology(arcs=(RING,), **changed):
    layer = {"geometries": [{"type": "Polygon", "arcs": [[0]]}]}
    return {"type": "Topology", "arcs": arcs, "objects": {"x": layer}} | changed


def geometries(*found):
    return {"x": {"geometries": list(found)}}


@pytest.mark.parametrize(
    "source",
    [
        *map(
            collection,
            [
                polygon([[]]),
                polygon([[[]]], "MultiPolygon"),
                polygon([1, 2, 3]),
                polygon(None),
                polygon({"a": 1}),
                polygon([[["0", "0"], ["1", "0"], ["1", "1"]]]),
                polygon([[[1], [2], [3]]]),
                polygon([[[1, 2], [2], [3, 4]]]),
                polygon([[[1e308, -1e308], [-1e308, 1e308], [1, 1]]]),
                polygon([[[10**400, 0], [1, 0], [1, 1]]]),
                polygon([], "Point"),
                polygon([[1, 2]], "Point"),
                polygon(None, "Point"),
                [1],
                "x",
            ],
        ),
        *({"type": "FeatureCollection", "features": f} for f in ({"a": 1}, "abc", 5, [None], [[1]])),
        topology(arcs=[]),
        topology(arcs=None),
        topology(arcs=[["a", "b"]]),
        topology(objects=None),
        topology(objects={"x": None}),
        topology(objects={"x": {"geometries": None}}),
        topology(objects=geometries(None)),
        topology(objects=geometries({"type": "Polygon"})),
        topology(objects=geometries({"type": "Polygon", "arcs": [[]]})),
        topology(objects=geometries({"type": "Polygon", "arcs": [["a"]]})),
        topology(transform={"scale": [1]}),
        topology(transform=5),
    ],
)
def test_hostile_maps_get_a_short_sentence(source):
    with pytest.raises(InputError) as said:
        read_shapes(source)
    assert len(str(said.value)) < 400


def test_places_without_a_shape_and_odd_properties_do_not_hide_the_others():
    source = collection(None, polygon([]), polygon([RING]))
    source["features"][1]["properties"] = [1, 2]
    source["features"][2]["properties"] = {1: 2, "name": "c"}
    shapes = read_shapes(source)
    assert [len(rings) for rings in shapes.places] == [0, 0, 1]
    assert shapes.labels() == ["p0", "", "c"]


@pytest.mark.data
def test_the_counties_of_the_united_states_fit_into_half_a_megabyte(real_data):
    source = json.loads((real_data / "geometry" / "us-atlas_counties-10m.json").read_text())
    ids = [g["id"] for g in source["objects"]["counties"]["geometries"]]
    made = read_shapes(source, [{"county": ids}])
    assert made.names_for([int(i) for i in ids], "county") == [str(int(i)) for i in ids]
    assert len(json.dumps(made.encoded(), separators=(",", ":"))) < 600_000
    # the lower forty-eight fill the width, Alaska stands beneath
    texas, alaska = (
        np.concatenate([r for p, i in zip(made.places, ids, strict=True) if i[:2] == s for r in p])
        for s in ("48", "02")
    )
    assert np.ptp(texas[:, 0]) > 0.2 * made.width
    assert alaska[:, 1].min() > texas[:, 1].max()
