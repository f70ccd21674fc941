"""Distances and Matern kernels against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from crosslevel.errors import InputError
from crosslevel.numerics.kernels import EARTH_RADIUS_KM, SMOOTHNESS, distances, matern

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


@pytest.mark.parametrize("kind", SMOOTHNESS)
def test_matern_is_the_bessel_form(kind: str) -> None:
    r, length, nu = np.array([1e-3, 0.1, 1.0, 3.0, 20.0]), 1.7, NU[kind]
    t = np.sqrt(2 * nu) * r / length
    expected = 2 ** (1 - nu) / special.gamma(nu) * t**nu * special.kv(nu, t)
    np.testing.assert_allclose(matern(r, length, kind)[0], expected, rtol=1e-12)
    assert matern(np.zeros(1), length, kind)[0][0] == 1.0


@pytest.mark.parametrize("kind", SMOOTHNESS)
def test_slope_by_log_length(kind: str) -> None:
    r, length, h = np.array([0.0, 0.1, 1.0, 3.0, 20.0]), 1.7, 1e-3
    k = [matern(r, length * np.exp(x), kind)[0] for x in (-2 * h, -h, h, 2 * h)]
    difference = (k[0] - 8 * k[1] + 8 * k[2] - k[3]) / (12 * h)
    np.testing.assert_allclose(matern(r, length, kind)[1], difference, rtol=1e-8, atol=1e-12)


def test_sphere_is_the_chord_of_the_great_circle() -> None:
    rng = np.random.default_rng(0)
    a = np.column_stack([rng.uniform(-180, 180, 20), rng.uniform(-90, 90, 20)])
    lon, lat = np.radians(a).T
    half = (
        np.sin((lat[:, None] - lat) / 2) ** 2
        + np.cos(lat[:, None]) * np.cos(lat) * np.sin((lon[:, None] - lon) / 2) ** 2
    )
    arc = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
    chord = 2 * EARTH_RADIUS_KM * np.sin(arc / (2 * EARTH_RADIUS_KM))
    np.testing.assert_allclose(distances(a, a), chord, atol=1e-6)
    assert np.all(np.diag(distances(a, a)) == 0)
    # the date line and the poles are no edges
    assert distances([[180.0, 10.0]], [[-180.0, 10.0]])[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert distances([[12.0, 90.0]], [[-77.0, 90.0]])[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_matern_of_chords_round_the_globe_is_positive_definite() -> None:
    rng = np.random.default_rng(1)
    a = np.column_stack([rng.uniform(-180, 180, 80), np.degrees(np.arcsin(rng.uniform(-1, 1, 80)))])
    for kind in SMOOTHNESS:
        values = np.linalg.eigvalsh(matern(distances(a, a), 20_000.0, kind)[0])
        assert values.min() > -1e-12 * values.max()


def test_plane_is_euclid() -> None:
    np.testing.assert_allclose(distances([[0, 0], [3, 4]], [[3, 4]], "plane"), [[5.0], [0.0]])


def test_bad_input() -> None:
    with pytest.raises(InputError, match="metric="):
        distances([[0, 0]], [[0, 0]], "globe")
    with pytest.raises(InputError):
        distances([[0, 0]], [[0, 0, 0]])
    with pytest.raises(InputError, match="kind="):
        matern(np.zeros(1), 1.0, "mattern32")
