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
WAVES = np.random.default_rng(0).normal(size=(20, 2)) * 3
GOLDEN = {(0, 0): 0.742229989577684, (1, 1): 1.3895123773975004, (1, 0): 0.9449676912751929}


def collection(*rings, crs=None):
    closed = [[*r, r[0]] for r in rings]
    features = [
        {"type": "Feature", "properties": {"code": f"A{i}"}, "geometry": {"type": "Polygon", "coordinates": [r]}}
        for i, r in enumerate(closed)
    ]
    extra = {"crs": {"type": "name", "properties": {"name": crs}}} if crs else {}
    return {"type": "FeatureCollection", "features": features, **extra}


def covariances(pieces):
    x = pieces.lower
    return pieces.gather(pieces.gather(np.exp(-((x[:, None] - x) ** 2).sum(axis=2))), axis=1)


def sine_covariances(regions, axis=16):
    """The kernel exp(-|x - y|^2) by axis^2 features on the box [-3, 5]^2."""
    index = np.stack(np.meshgrid(np.arange(1, axis + 1), np.arange(1, axis + 1)), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.ones(2), np.full(2, 4.0), index)
    F = regions.sine_integrals(basis)
    return (F * (np.pi * np.exp(-0.25 * (basis.frequencies**2).sum(axis=1)))) @ F.T


@pytest.mark.parametrize(
    ("make", "rtol"), [(lambda p: covariances(p.summed_pieces(np.full(2, 0.7))), 1e-8), (sine_covariances, 1e-6)]
)
def test_golden_values(make, rtol):
    """Cubature to 1e-8; edge sums with 256 features to 1e-6."""
    K = make(Polygons([SQUARE, TENT, ELL]))
    for at, value in GOLDEN.items():
        assert K[at] == pytest.approx(value, rel=rtol)


def test_a_rectangle_is_a_box():
    polygon, box = Polygons([[[0, 1], [2, 1], [2, 4], [0, 4]]]), Boxes([[0.0, 1.0]], [[2.0, 4.0]])
    np.testing.assert_allclose(polygon.fourier_integrals(WAVES), box.fourier_integrals(WAVES), atol=1e-13)
    basis = SineBasis(np.array([1.0, 2.0]), np.array([4.0, 5.0]), np.array([[1, 1], [2, 5], [7, 3]]))
    np.testing.assert_allclose(polygon.sine_integrals(basis), box.sine_integrals(basis), atol=1e-13)
    # the fast way and the general one of the base class
    np.testing.assert_allclose(
        polygon.sine_integrals(basis), super(Polygons, polygon).sine_integrals(basis), atol=1e-13
    )


def test_covariances_do_not_change_when_everything_turns():
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    still, turned = (Polygons([np.array(r) @ m for r in (SQUARE, TENT, ELL)]) for m in (np.eye(2), turn.T))
    np.testing.assert_allclose(sine_covariances(turned, 20), sine_covariances(still, 20), rtol=1e-6)
    np.testing.assert_allclose(
        covariances(turned.summed_pieces(np.full(2, 0.7))), covariances(still.summed_pieces(np.full(2, 0.7))), rtol=1e-8
    )


def test_a_ring_and_its_hole_make_the_whole():
    whole, holed, hole = Polygons([[RING]]), Polygons([[RING, ELL]]), Polygons([[ELL]])
    np.testing.assert_allclose(
        holed.fourier_integrals(WAVES) + hole.fourier_integrals(WAVES), whole.fourier_integrals(WAVES), atol=1e-12
    )
    assert holed.volumes[0] == pytest.approx(13.0)
    rule = holed.summed_pieces(np.full(2, 1.0))
    np.testing.assert_allclose(
        rule.gather(np.exp(0.3j * rule.lower @ WAVES.T)), holed.fourier_integrals(0.3 * WAVES), atol=1e-8
    )
    assert not shapely.contains_xy(shapely.Polygon(ELL), rule.lower).any()


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
    np.testing.assert_allclose(got.fourier_integrals(WAVES), Polygons(parts).fourier_integrals(WAVES), atol=1e-13)
    if kind in ("geojson", "frame", "file"):
        assert got.labels() == {"code": ["a", "b"]}
        assert "27700" in str(got.plane.crs) or "British" in str(got.plane.crs)


def test_the_saved_form_comes_back_without_shapely(monkeypatch, saved):
    p = Polygons([[RING, ELL], [SQUARE]], names=["Å", "b"])
    monkeypatch.setattr(builtins, "__import__", _without_shapely)
    back = saved(p)
    assert back.labels() == {"polygon": ["Å", "b"]}
    assert back.plane == p.plane
    np.testing.assert_array_equal(back.fourier_integrals(WAVES), p.fourier_integrals(WAVES))
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
        lambda: Polygons.join(projected, local),
        lambda: check_planes(stack(projected), WeightedSum(local, [1.0])),
        lambda: check_planes(projected, Polygons(collection(far, crs="EPSG:3857"))),
    ):
        with pytest.raises(InputError):
            mix()


def test_rows_names_and_maps():
    p = Polygons([SQUARE, TENT, ELL], names=["s", "t", "l"])
    some = p[[2, 0]]
    assert some.labels() == {"polygon": ["l", "s"]}
    np.testing.assert_array_equal(some.fourier_integrals(WAVES), p.fourier_integrals(WAVES)[[2, 0]])
    np.testing.assert_array_equal(p.bounds()[1], [[1, 1], [2, 1.5], [2, 2]])
    both = Polygons.join(p, some)
    assert both.names == ["s", "t", "l", "l", "s"]
    again = Polygons(p.geojson(), key="polygon", crs="plane")
    np.testing.assert_allclose(again.volumes, p.volumes)
    assert again.names == p.names


@pytest.mark.data
def test_parts_of_a_borough_make_the_whole(real_data):
    """139 polygons against the 28 they lie in, drawn from the same borders."""
    large = Polygons(real_data / "ages" / "trafford_msoa21.geojson", key="area_code", project="local")
    small = Polygons(real_data / "ages" / "trafford_lsoa21.geojson", key="area_code", project=large)
    assert (len(large), len(small)) == (28, 139)
    k = WAVES / 2
    np.testing.assert_allclose(
        small.fourier_integrals(k).sum(axis=0), large.fourier_integrals(k).sum(axis=0), atol=1e-9 * large.volumes.sum()
    )
    rule = small.summed_pieces(np.full(2, 2.0))
    assert len(rule) < 80 * len(small)
    np.testing.assert_allclose(
        rule.gather(np.exp(1j * rule.lower @ (k / 2).T)), small.fourier_integrals(k / 2), atol=1e-7
    )
