from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from crosslevel.binned import BinnedGP, Boxes, Simplices
from crosslevel.binned.gaussian.covariances import lay_out, prior_covariance, read_kernel
from crosslevel.binned.gaussian.dense import measure_error
from crosslevel.binned.regions.base import SineBasis
from crosslevel.errors import InputError

# Made by adaptive quadrature over pairs of triangles; kernel exp(-|x - y|^2), the paper's lengthscale 1
BODIES = {
    "unit_square": [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]],
    "triangle": [[[0, 0], [2, 0], [0.5, 1.5]]],
    "L_shape": [[[0, 0], [2, 0], [2, 1]], [[0, 0], [2, 1], [0, 1]], [[0, 1], [1, 1], [1, 2]], [[0, 1], [1, 2], [0, 2]]],
}
GOLDEN = {
    ("unit_square", "unit_square"): 0.742229989577684,
    ("triangle", "triangle"): 1.3895123773975004,
    ("triangle", "unit_square"): 0.9449676912751929,
}


@pytest.fixture
def bodies():
    return Simplices(list(BODIES.values()))


def check(K, rtol):
    rows = list(BODIES)
    for (a, b), value in GOLDEN.items():
        assert K[rows.index(a), rows.index(b)] == pytest.approx(value, rel=rtol)


@pytest.mark.parametrize(("axis", "rtol"), [(12, 1e-6), (16, 1e-8)])
def test_sines_give_the_golden_values(bodies, axis, rtol):
    """144 features suffice for 1e-6, 256 for 1e-8."""
    index = np.stack(np.meshgrid(np.arange(1, axis + 1), np.arange(1, axis + 1)), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.ones(2), np.full(2, 3.0), index)
    F = bodies.sine_integrals(basis)
    density = np.pi * np.exp(-0.25 * (basis.frequencies**2).sum(axis=1))
    check((F * density) @ F.T, rtol)


def cube(low, width):
    """The six simplices of a cube whose corners follow the axes in some order."""
    simplices = []
    for order in permutations(range(3)):
        steps = np.vstack([np.zeros(3), np.cumsum(np.eye(3)[list(order)], axis=0)])
        simplices.append(np.asarray(low) + width * steps)
    return simplices


def test_cubes_of_tetrahedra_are_boxes():
    """27 cubes at a lengthscale of .2: the covariances are those of boxes in closed form, but for the error that is stated."""
    low = np.stack(np.meshgrid(*[np.arange(3) / 3] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    bodies, boxes = Simplices([cube(x, 1 / 3) for x in low]), Boxes(low, low + 1 / 3)
    kernel, logs = read_kernel("eq", 3), np.log([1.0, 0.2, 0.2, 0.2])
    exact = prior_covariance(kernel, logs, lay_out(boxes.pieces()))[0]
    found = prior_covariance(kernel, logs, lay_out(bodies.pieces(np.full(3, 0.2))))[0]
    sd = np.sqrt(np.diag(exact))
    off = np.abs((found - exact) / np.outer(sd, sd)).max()
    stated = measure_error(bodies, kernel, logs)
    assert off < 1e-4
    assert 0.5 * off < stated < 2 * off
    np.testing.assert_allclose(bodies.volumes, boxes.volumes)
    y = np.sin(low.sum(axis=1)) / 27
    given = {"variance": 1.0, "lengthscale": 0.2, "noise": 1e-4, "mean": 0.0}
    gp, other = (BinnedGP(**given).fit(regions, y, "total") for regions in (bodies, boxes))
    assert gp.log_evidence_ == pytest.approx(other.log_evidence_, rel=1e-3)
    np.testing.assert_allclose(gp.predict(bodies[:3]), other.predict(boxes[:3]), atol=1e-4 * np.abs(y).max())
    assert gp.estimate(bodies[:2]).diagnostics["relative_error"] == pytest.approx(stated)
    with pytest.raises(InputError):
        BinnedGP(**given | {"lengthscale": 0.01}).fit(bodies, y, "total")


def test_regions_are_a_sequence_and_can_be_saved(bodies, saved):
    some = bodies[[2, 0]]
    np.testing.assert_allclose(some.volumes, bodies.volumes[[2, 0]])
    low, high = some.bounds()
    np.testing.assert_array_equal(low, [[0, 0], [0, 0]])
    np.testing.assert_array_equal(high, [[2, 2], [1, 1]])
    back = saved(bodies)
    np.testing.assert_array_equal(back.vertices, bodies.vertices)
    assert back.labels() == {"region": [0, 1, 2]}


@pytest.mark.parametrize(
    "arguments",
    [
        ([],),
        ([[[[0.0], [1.0]]]],),
        ([[[[0, 0], [1, 0], [0, 1]]], [[[0, 0, 0]] * 4]],),
        ([[[[0, 0], [1, 1], [2, 2]]]],),
        ([[[[0, 0], [1, np.nan], [2, 2]]]],),
    ],
)
def test_bad_bodies_get_a_sentence(arguments):
    with pytest.raises(InputError):
        Simplices(*arguments)
