from __future__ import annotations

import numpy as np
import pytest

from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.regions.simplices import Simplices
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
USUAL = np.full(2, np.sqrt(0.5))


def covariances(pieces):
    x = pieces.lower
    k = np.exp(-((x[:, None] - x) ** 2).sum(axis=2))
    return pieces.gather(pieces.gather(k), axis=1)


@pytest.fixture
def bodies():
    return Simplices(list(BODIES.values()))


def check(K, rtol):
    rows = list(BODIES)
    for (a, b), value in GOLDEN.items():
        assert K[rows.index(a), rows.index(b)] == pytest.approx(value, rel=rtol)


def test_cubature_gives_the_golden_values(bodies):
    check(covariances(bodies.quadrature(USUAL)), 1e-8)
    check(covariances(bodies.quadrature(0.5 * USUAL)), 1e-11)


@pytest.mark.parametrize(("axis", "rtol"), [(12, 1e-6), (16, 1e-8)])
def test_sines_give_the_golden_values(bodies, axis, rtol):
    """144 features suffice for 1e-6, 256 for 1e-8."""
    index = np.stack(np.meshgrid(np.arange(1, axis + 1), np.arange(1, axis + 1)), axis=-1).reshape(-1, 2)
    basis = SineBasis(np.ones(2), np.full(2, 3.0), index)
    F = bodies.sine_integrals(basis)
    density = np.pi * np.exp(-0.25 * (basis.frequencies**2).sum(axis=1))
    check((F * density) @ F.T, rtol)


def test_random_points_tend_to_the_golden_values():
    """The error falls like one over the root of the number, to a few standard errors."""
    errors, seeds = [], 200
    two = [BODIES["triangle"], BODIES["unit_square"]]
    for n in (20, 320):
        found = []
        for seed in range(seeds):
            rule = Simplices(two, points="random", n_points=n, seed=seed).quadrature()
            x, y = rule.lower[rule.owner == 0], rule.lower[rule.owner == 1]
            # A A' / (N N') over all pairs; the areas are 1.5 and 1
            K = 1.5 / n**2 * np.exp(-((x[:, None] - y) ** 2).sum(axis=2)).sum()
            assert rule.weight[0] * rule.weight[-1] == pytest.approx(1.5 / n**2)
            found.append(K / GOLDEN["triangle", "unit_square"] - 1)
        errors.append(np.std(found))
        assert abs(np.mean(found)) < 4 * np.std(found) / seeds**0.5
    assert errors[0] < 0.15
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.25)  # sqrt(16); two spreads of 200 draws, 5 % each


def test_three_dimensions_by_three_ways():
    rng = np.random.default_rng(0)
    bodies = Simplices(list(rng.normal(size=(2, 1, 4, 3))))
    k = rng.normal(size=(6, 3))
    exact = bodies.fourier_integrals(k)
    rule = bodies.quadrature(np.full(3, 0.7))
    np.testing.assert_allclose(rule.gather(np.exp(1j * rule.lower @ k.T)), exact, atol=1e-8)
    np.testing.assert_allclose(bodies.fourier_integrals(np.zeros((1, 3)))[:, 0], bodies.volumes)
    loose = Simplices([bodies.vertices[:1], bodies.vertices[1:]], points="random", n_points=20_000).quadrature()
    np.testing.assert_allclose(loose.gather(np.exp(1j * loose.lower @ k.T)), exact, atol=0.02 * bodies.volumes.max())


def test_regions_are_a_sequence_and_can_be_saved(bodies, saved):
    some = bodies[[2, 0]]
    np.testing.assert_allclose(some.volumes, bodies.volumes[[2, 0]])
    k = np.array([[1.0, -2.0]])
    np.testing.assert_array_equal(some.fourier_integrals(k), bodies.fourier_integrals(k)[[2, 0]])
    low, high = some.bounds()
    np.testing.assert_array_equal(low, [[0, 0], [0, 0]])
    np.testing.assert_array_equal(high, [[2, 2], [1, 1]])
    back = saved(bodies)
    np.testing.assert_array_equal(back.quadrature(USUAL).lower, bodies.quadrature(USUAL).lower)
    assert back.labels() == {"region": [0, 1, 2]}


@pytest.mark.parametrize(
    "arguments",
    [
        ([],),
        ([[[[0, 0], [1, 0], [0, 1]]], [[[0, 0, 0]] * 4]],),
        ([[[[0, 0], [1, 1], [2, 2]]]],),
        ([[[[0, 0], [1, np.nan], [2, 2]]]],),
    ],
)
def test_bad_bodies_get_a_sentence(arguments):
    with pytest.raises(InputError):
        Simplices(*arguments)


@pytest.mark.parametrize(
    "options",
    [{"points": "randm"}, {"n_points": 0}, {"seed": None}],
)
def test_bad_rules_get_a_sentence(options):
    with pytest.raises(InputError):
        Simplices([BODIES["triangle"]], **options)
