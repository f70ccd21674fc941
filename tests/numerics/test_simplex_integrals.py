from __future__ import annotations

import math

import numpy as np
import pytest

from crosslevel.numerics.simplex_integrals import (
    conical_rule,
    cubature,
    degree_needed,
    simplex_rule,
    simplex_volumes,
    split_simplices,
)


def corner(d):
    """The simplex of the origin and the unit vectors."""
    return np.vstack([np.zeros(d), np.eye(d)])[None]


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_volume_divides_by_the_factorial_of_the_dimension(d):
    assert simplex_volumes(corner(d))[0] == pytest.approx(1 / math.factorial(d), rel=1e-14)


@pytest.mark.parametrize(("d", "n"), [(1, 4), (2, 4), (3, 3), (4, 3)])
def test_the_conical_rule_is_exact_to_its_degree_and_not_beyond(d, n):
    """The mean of a monomial over a simplex is d! prod(a!) / (d + sum a)! (Dirichlet)."""
    shares, weight = conical_rule(d, n)
    assert (weight > 0).all()
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    rng = np.random.default_rng(0)

    def gap(a):
        truth = math.factorial(d) * math.prod(math.factorial(v) for v in a) / math.factorial(d + sum(a))
        return abs(weight @ np.prod(shares**a, axis=1) / truth - 1)

    for _ in range(20):
        a = rng.multinomial(2 * n - 1, np.ones(d + 1) / (d + 1))
        assert gap(a) < 1e-12
    assert gap(np.eye(d + 1, dtype=int)[0] * 2 * n) > 1e-6


@pytest.mark.parametrize("d", [1, 2, 3])
def test_splitting_keeps_the_body_and_reaches_the_size(d):
    size = np.linspace(0.3, 0.5, d)
    v, owner = split_simplices(np.concatenate([corner(d), corner(d) + 2]), np.array([0, 1]), size)
    np.testing.assert_allclose(np.bincount(owner, simplex_volumes(v)), 2 * [1 / math.factorial(d)])
    edges = (v[:, :, None] - v[:, None]) / size
    assert np.sqrt((edges**2).sum(-1)).max() <= 1.0
    assert (np.diff(owner) >= 0).all()


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_a_rule_keeps_integrals_of_gaussians(scale):
    """Bodies of one cell and of several: few points, positive weights, the volume."""
    few = simplex_rule(corner(3), np.array([0]), np.full(3, scale))
    assert len(few.x) <= 120 * (1 if scale == 1 else 8)
    assert (few.weight > 0).all()
    assert few.weight.sum() == pytest.approx(1 / 6, rel=1e-13)
    fine = cubature(*split_simplices(corner(3), np.array([0]), np.full(3, 0.5)), 8)
    for center in np.random.default_rng(3).uniform(size=(5, 3)):
        truth, got = (r.weight @ np.exp(-0.5 * (((r.x - center) / scale) ** 2).sum(axis=1)) for r in (fine, few))
        assert got == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("half", [0.1, 0.5, 1.0])
def test_the_degree_is_enough(half):
    degree = degree_needed(half, 1e-8)
    x = half * np.cos(np.pi * (np.arange(200) + 0.5) / 200)
    for center in (0.0, 0.7, 2.0):
        g = np.polynomial.Chebyshev.interpolate(lambda t, c=center: np.exp(-0.5 * (half * t - c) ** 2), degree)
        assert np.abs(g(x / half) - np.exp(-0.5 * (x - center) ** 2)).max() < 1e-7
