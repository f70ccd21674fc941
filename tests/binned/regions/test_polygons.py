from __future__ import annotations

import builtins
import json

import numpy as np
import pytest

from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.regions.boxes import Boxes
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import WeightedSum, stack
from crosslevel.data.planes import check_planes
from crosslevel.errors import CrosslevelWarning, InputError, MissingExtraError

shapely = pytest.importorskip("shapely")
geopandas = pytest.importorskip("geopandas")

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]
TENT = [[0, 0], [2, 0], [0.5, 1.5]]
ELL = [[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]]
RING = [[-1, -1], [3, -1], [3, 3], [-1, 3]]
BOW = [[0, 0], [1, 1], [1, 0], [0, 1]]
BASIS = SineBasis(np.ones(2), np.full(2, 9.0), np.random.default_rng(0).integers(1, 30, (20, 2)))
GOLDEN = {(0, 0): 0.742229989577684, (1, 1): 1.3895123773975004, (1, 0): 0.9449676912751929}


def collection(*rings, crs=None):
    closed = [[*r, r[0]] for r in rings]
    features = [
        {"type": "Feature", "properties": {"code": f"A{i}"}, "geometry": {"type": "Polygon", "coordinates": [r]}}
        for i, r in enumerate(closed)
    ]
    extra = {"crs": {"type": "name", "properties": {"name": crs}}} if crs else {}
    return {"type": "FeatureCollection", "features": features, **extra}


def sine_covariances(regions, axis=16):
    """The kernel exp(-|x - y|^2) by axis^2 features on the box [-3, 5]^2."""
    index = np.stack(np.meshgrid(np.arange(1, axis + 1), np.arange(1, axis + 1)), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.ones(2), np.full(2, 4.0), index)
    F = regions.sine_integrals(basis)
    return (F * (np.pi * np.exp(-0.25 * (basis.frequencies**2).sum(axis=1)))) @ F.T


def test_golden_values():
    """Edge sums with 256 features to 1e-6."""
    K = sine_covariances(Polygons([SQUARE, TENT, ELL]))
    for at, value in GOLDEN.items():
        assert K[at] == pytest.approx(value, rel=1e-6)


def test_a_rectangle_is_a_box():
    polygon, box = Polygons([[[0, 1], [2, 1], [2, 4], [0, 4]]]), Boxes([[0.0, 1.0]], [[2.0, 4.0]])
    np.testing.assert_allclose(polygon.sine_integrals(BASIS), box.sine_integrals(BASIS), atol=1e-13)


def test_covariances_do_not_change_when_everything_turns():
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    still, turned = (Polygons([np.array(r) @ m for r in (SQUARE, TENT, ELL)]) for m in (np.eye(2), turn.T))
    np.testing.assert_allclose(sine_covariances(turned, 20), sine_covariances(still, 20), rtol=1e-6)


def test_a_ring_and_its_hole_make_the_whole():
    whole, holed, hole = (Polygons([rings]).sine_integrals(BASIS) for rings in ([RING], [RING, ELL], [ELL]))
    np.testing.assert_allclose(holed + hole, whole, atol=1e-12)
    assert Polygons([[RING, ELL]]).volumes[0] == pytest.approx(13.0)


@pytest.mark.parametrize("kind", ["shapely", "multi", "geojson", "file", "frame", "series", "rings", "feature"])
def test_every_form_says_the_same(kind, tmp_path):
    parts = [
        shapely.Polygon(RING, [ELL]),
        shapely.MultiPolygon([shapely.Polygon(SQUARE), shapely.Polygon(np.array(TENT) + 9)]),
    ]
    projected = geopandas.GeoDataFrame({"code": ["a", "b"]}, geometry=parts, crs="EPSG:27700")
    text = json.loads(projected.to_json())
    if kind == "multi":
        got = Polygons(parts[1])
        assert len(got) == 1
        assert got.volumes[0] == pytest.approx(2.5)
        return
    if kind == "feature":
        got = Polygons({**text["features"][1]}, crs="plane")
        assert got.volumes[0] == pytest.approx(2.5)
        return
    made = {
        "shapely": lambda: Polygons(parts),
        "geojson": lambda: Polygons({**text, "crs": {"properties": {"name": "EPSG:27700"}}}, key="code"),
        "frame": lambda: Polygons(projected, key="code"),
        "series": lambda: Polygons(projected.geometry),
        "rings": lambda: Polygons([[RING, ELL], parts[1]]),
    }
    if kind == "file":
        path = tmp_path / "areas.geojson"
        path.write_text(json.dumps({**text, "crs": {"properties": {"name": "EPSG:27700"}}}), encoding="utf-8")
        got = Polygons(path, key="code")
    else:
        got = made[kind]()
    np.testing.assert_allclose(got.volumes, [13.0, 2.5])
    np.testing.assert_allclose(got.sine_integrals(BASIS), Polygons(parts).sine_integrals(BASIS), atol=1e-13)
    if kind in ("geojson", "frame", "file"):
        assert got.labels() == {"code": ["a", "b"]}
        assert "27700" in str(got.plane.crs) or "British" in str(got.plane.crs)


def test_the_saved_form_comes_back_without_shapely(monkeypatch, saved):
    p = Polygons([[RING, ELL], [SQUARE]], names=["Å", "b"])
    monkeypatch.setattr(builtins, "__import__", _without_shapely)
    back = saved(p)
    assert back.labels() == {"polygon": ["Å", "b"]}
    assert back.plane == p.plane
    np.testing.assert_array_equal(back.sine_integrals(BASIS), p.sine_integrals(BASIS))
    with pytest.raises(MissingExtraError):
        Polygons([SQUARE])


_real_import = builtins.__import__


def _without_shapely(name, *args, **kwargs):
    if name == "shapely":
        raise ImportError(name)
    return _real_import(name, *args, **kwargs)


def test_a_polygon_that_crosses_itself_is_refused_and_can_be_repaired():
    with pytest.raises(InputError):
        Polygons([SQUARE, BOW], names=["square", "bow"])
    with pytest.warns(CrosslevelWarning):
        fixed = Polygons([SQUARE, BOW], repair=True)
    np.testing.assert_allclose(fixed.volumes, [1.0, 0.5])  # the unrepaired shoelace formula would say 0


def test_degrees_are_warned_about_or_projected():
    here = np.array(SQUARE) * 0.1 + [-2.4, 53.4]
    with pytest.warns(CrosslevelWarning):
        plain = Polygons(collection(here.tolist()))
    assert plain.plane.kind == "degrees"
    assert plain.volumes[0] == pytest.approx(0.01)
    local = Polygons(collection(here.tolist()), project="local", key="code")
    assert local.volumes[0] == pytest.approx(73.9, rel=0.01)  # 11.13 km by 6.64 km
    other = Polygons(collection((here + 0.1).tolist()), project=local)
    assert other.plane.origin == local.plane.origin
    check_planes(local, other)
    geod = pytest.importorskip("pyproj").Geod(ellps="WGS84")
    fine = np.concatenate(
        [np.linspace(a, b, 50, endpoint=False) for a, b in zip(here, np.roll(here, -1, 0), strict=True)]
    )
    truth = abs(geod.polygon_area_perimeter(*fine.T)[0]) / 1e6
    assert Polygons(collection(fine.tolist()), project="local").volumes[0] == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([], {}),
        ([[[0, 0], [1, 1], [0, 0]]], {}),
        ([[[0, 0], [1, np.nan], [0, 1]]], {}),
        ([None], {}),
        ([{"type": "Point", "coordinates": [0, 0]}], {}),
        ({"type": "Topology"}, {}),
        ({"type": "FeatureCollection", "features": []}, {}),
        (collection(SQUARE), {"key": "cod", "crs": "plane"}),
        ([SQUARE], {"names": ["a", "b"]}),
        ([SQUARE], {"project": "utm"}),
        ([SQUARE], {"project": 3}),
        (7, {}),
        ([[[0, "x"], [1, 0], [0, 1]]], {}),
        ([[[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]], {}),
    ],
)
def test_bad_shapes_get_a_sentence(given, options):
    with pytest.raises(InputError):
        Polygons(given, **options)


def test_two_coordinate_systems_are_not_mixed():
    here = (np.array(SQUARE) * 0.1 + [-2.4, 53.4]).tolist()
    far = (np.array(SQUARE) * 500.0 + [380_000, 390_000]).tolist()
    projected = Polygons(collection(far, crs="EPSG:27700"))
    local = Polygons([here], project="local")
    for mix in (
        lambda: Polygons([here, far]),
        lambda: Polygons(collection(far, crs="urn:ogc:def:crs:OGC:1.3:CRS84")),
        lambda: Polygons(collection(far, crs="EPSG:27700"), project="local"),
        lambda: check_planes(stack(projected), WeightedSum(local, [1.0])),
        lambda: check_planes(projected, Polygons(collection(far, crs="EPSG:3857"))),
    ):
        with pytest.raises(InputError):
            mix()


def test_rows_names_and_maps():
    p = Polygons([SQUARE, TENT, ELL], names=["s", "t", "l"])
    some = p[[2, 0]]
    assert some.labels() == {"polygon": ["l", "s"]}
    np.testing.assert_array_equal(some.sine_integrals(BASIS), p.sine_integrals(BASIS)[[2, 0]])
    np.testing.assert_array_equal(p.bounds()[1], [[1, 1], [2, 1.5], [2, 2]])
    again = Polygons(p.geojson(), key="polygon", crs="plane")
    np.testing.assert_allclose(again.volumes, p.volumes)
    assert again.names == p.names


@pytest.mark.data
def test_parts_of_a_borough_make_the_whole(real_data):
    """139 polygons against the 28 they lie in, drawn from the same borders."""
    large = Polygons(real_data / "ages" / "trafford_msoa21.geojson", key="area_code", project="local")
    small = Polygons(real_data / "ages" / "trafford_lsoa21.geojson", key="area_code", project=large)
    assert (len(large), len(small)) == (28, 139)
    low, high = large.bounds()
    basis = SineBasis(0.5 * (low.min(axis=0) + high.max(axis=0)), np.ptp(high, axis=0), BASIS.index)
    np.testing.assert_allclose(
        small.sine_integrals(basis).sum(axis=0),
        large.sine_integrals(basis).sum(axis=0),
        atol=1e-9 * large.volumes.sum(),
    )
