"""Integrals of correlations: against quadrature in extended precision, against other programs' numbers, and their laws."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from crosslevel.numerics.integrals import squared_exponential
from crosslevel.numerics.integrals.correlations import Correlation, spectral_density
from crosslevel.numerics.integrals.pairs import CODES, fill_square

NAMES = ("eq", "matern12", "matern32", "matern52")
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "binned.json").read_text())
L = np.longdouble
X, W = (a.astype(L) for a in np.polynomial.legendre.leggauss(24))
TINY = 1e-280
"""Below this, double precision has no digits to compare."""


def value(name, z):
    """Evaluate the correlation at distances z in units of the lengthscale, in extended precision."""
    z = np.abs(z)
    if name == "eq":
        return np.exp(-z * z / 2)
    a = z * np.sqrt(L({"matern12": 1, "matern32": 3, "matern52": 5}[name]))
    poly = {"matern12": 1, "matern32": 1 + a, "matern52": 1 + a + a * a / 3}[name]
    return poly * np.exp(-a)


def slow(name, s, t, s2, t2, length):
    """Integrate the correlation times the length at which two intervals are a distance r apart: a trapezium in r.

    Everything is positive, so panels of Gauss-Legendre points in extended precision are right to 1e-16.
    """
    s, t, s2, t2, length = (L(x) for x in (s, t, s2, t2, length))
    top = min(t - s, t2 - s2)
    ends = sorted([s2 - t, s2 - s, t2 - t, t2 - s])
    total = L(0)
    for a, b, rise in ((ends[0], ends[1], 1), (ends[1], ends[2], 0), (ends[2], ends[3], -1)):
        cuts = [a, L(0), b] if a < 0 < b else [a, b]
        for low, high in pairwise(cuts):
            if high > low:
                total += piece(name, a, b, low, high, rise, top, length)
    return total


def piece(name, a, b, low, high, rise, top, length):
    near, sign = (low, 1) if low >= 0 else (high, -1)
    z = np.abs(near / length)
    if z > 900:
        return L(0)
    # beyond these offsets the correlation has fallen by another factor of 1e-20; panels follow its fall
    reach, step = (np.sqrt(z * z + 100) - z, 1 / (1 + z)) if name == "eq" else (L(50), L(1))
    far = min(high - low, reach * length)
    panels = max(1, int(np.ceil(far / (step * length))))
    edges = far * np.arange(panels + 1, dtype=L) / panels
    half = np.diff(edges) / 2
    offset = (edges[:-1] + half)[:, None] + half[:, None] * X
    share = L(1)
    if rise:
        # distance from the end of [a, b] at which the trapezium is nothing, kept as small differences
        base = (near - a) if rise > 0 else (b - near)
        share = (base + sign * rise * offset) / (b - a)
    return (value(name, (near + sign * offset) / length) * top * share * half[:, None] * W).sum()


def one(name, s, t, s2, t2, length=1.0):
    limits = [np.array([x], dtype=float) for x in (s, t, s2, t2)]
    return Correlation(name).covariance((limits[0], limits[1]), (limits[2], limits[3]), length)[0][0, 0]


SIZES = (1e-6, 1e-3, 0.1, 0.6, 1.3, 30.0, 1e3)


@pytest.mark.parametrize("name", NAMES)
def test_apart_to_1e10_over_nine_orders_of_magnitude(name):
    worst = 0.0
    for w1, w2, gap in product(SIZES, SIZES, (0.0, 1e-6, 1e-3, 0.2, 0.9, 4.0, 12.0, 30.0, 34.0, 1e3)):
        s2 = w1 + gap
        found, exact = one(name, 0.0, w1, s2, s2 + w2), slow(name, 0.0, w1, s2, s2 + w2, 1.0)
        if exact < TINY:
            assert found <= 2 * TINY
            continue
        worst = max(worst, abs(float(found / exact - 1)))
    assert worst < 5e-12  # 1e-10 is asked for; a difference of tails in place of their series reaches 1e-11


@pytest.mark.parametrize("name", NAMES)
def test_overlapping_nested_and_equal_to_1e10(name):
    worst = 0.0
    for left, shared, right, nested in product((0.0, *SIZES[::2]), SIZES, (0.0, *SIZES[1::2]), (True, False)):
        if nested:
            s, t, s2, t2 = 0.0, left + shared + right, left, left + shared
        else:
            s, t, s2, t2 = 0.0, left + shared, left, left + shared + right
        found, exact = one(name, s, t, s2, t2), slow(name, s, t, s2, t2, 1.0)
        worst = max(worst, abs(float(found / exact - 1)))
    assert worst < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_point_and_interval_to_1e10(name):
    worst = 0.0
    for w, x in product(SIZES, (-1e3, -20.0, -2.0, -1e-3, 0.0, 1e-7, 0.4, 2.0, 900.0)):
        cuts = [0.0, x, w] if 0 < x < w else [0.0, w]
        exact = L(0)
        for a, b in pairwise(cuts):
            exact += piece(name, L(a) - L(x), L(b) - L(x), L(a) - L(x), L(b) - L(x), 0, L(1), L(1))
        found = one(name, 0.0, w, x, x)
        if exact < TINY:
            assert found <= 2 * TINY
            continue
        worst = max(worst, abs(float(found / exact - 1)))
    assert worst < 1e-10


def test_other_programs_numbers():
    for v in GOLDEN["kernel_values"]:
        assert one("eq", v["s"], v["t"], v["s2"], v["t2"], v["l"] / np.sqrt(2)) == pytest.approx(v["kFF"], rel=1e-8)
    for v in GOLDEN["matern_kFF_1d"]["values"]:
        name = {"1/2": "matern12", "3/2": "matern32", "5/2": "matern52"}[v["nu"]]
        assert one(name, v["s"], v["t"], v["s2"], v["t2"], v["l"]) == pytest.approx(v["kFF"], rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_by_log_length_is_the_difference_quotient(name):
    length, step = 1.7, 1e-6
    rng = np.random.default_rng(0)
    s = np.concatenate([np.sort(rng.uniform(0, 8, 7)), rng.uniform(0, 8, 4)])
    t = s + np.concatenate([10.0 ** rng.uniform(-3, 1, 7), np.zeros(4)])
    K, G = Correlation(name).covariance((s, t), None, length, gradient=True)
    up = Correlation(name).covariance((s, t), None, length * np.exp(step))[0]
    down = Correlation(name).covariance((s, t), None, length * np.exp(-step))[0]
    np.testing.assert_allclose(G, (up - down) / (2 * step), atol=3e-9 * K.max(), rtol=1e-7)


@pytest.mark.parametrize("length", [0.02, 0.7, 30.0])
def test_shared_edges_give_what_pairs_give(length):
    edges = np.cumsum(np.random.default_rng(1).uniform(0.01, 1.5, 30))
    s, t = edges[:-1], edges[1:]
    K, G = Correlation("eq").covariance((s, t), None, length, gradient=True)
    P, Q = np.empty_like(K), np.empty_like(K)
    fill_square(CODES["eq"], np.sqrt(0.5) / length, s, t, P, Q)
    np.testing.assert_allclose(K, P, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(G, Q, rtol=1e-9, atol=1e-14 * K.max())


interval = st.tuples(st.floats(-50, 50), st.floats(1e-4, 40))


@given(interval, interval, st.sampled_from(NAMES), st.floats(0.05, 50))
def test_laws_of_two_intervals(a, b, name, length):
    (s, w), (s2, w2) = a, b
    t, t2 = s + w, s2 + w2
    k = one(name, s, t, s2, t2, length)
    assert k == pytest.approx(one(name, s2, t2, s, t, length), rel=1e-12)
    middle = s + 0.37 * w
    parts = one(name, s, middle, s2, t2, length) + one(name, middle, t, s2, t2, length)
    assert parts == pytest.approx(k, rel=1e-9, abs=1e-250)
    scaled = one(name, 4 * s, 4 * t, 4 * s2, 4 * t2, 4 * length)  # in other units, exactly representable
    assert scaled == pytest.approx(16 * k, rel=1e-12, abs=1e-250)
    assert k <= (t - s) * (t2 - s2) * (1 + 1e-12)
    assert k**2 <= one(name, s, t, s, t, length) * one(name, s2, t2, s2, t2, length) * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_bin_is_its_width_times_the_point(name):
    x, w = 3.0, 2.0**-20
    assert one(name, x - w / 2, x + w / 2, 0.0, 2.0) / w == pytest.approx(one(name, x, x, 0.0, 2.0), rel=1e-9)
    assert one(name, x, x, 1.0, 1.0) == pytest.approx(float(value(name, L(2))), rel=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0.5, 20.0])
def test_matrices_of_bins_and_points_are_positive(name, length):
    rng = np.random.default_rng(3)
    s = np.append(rng.uniform(0, 30, 40), rng.uniform(0, 30, 20))
    t = s + np.append(rng.uniform(0.01, 8, 40), np.zeros(20))
    K = Correlation(name).covariance((s, t), None, length)[0]
    assert (K == K.T).all()
    w = np.linalg.eigvalsh(K)
    assert w[0] > -1e-14 * w[-1]
    np.testing.assert_allclose(Correlation(name).diagonal((s, t), length), np.diag(K), rtol=1e-9)


@pytest.mark.parametrize("z", [0.0, 0.3, 2.0, 5.99, 6.01, 9.0, 20.0, 27.0])
def test_the_double_tail_keeps_its_digits_however_far(z):
    """Both integrals over s = u - z with exp(-z^2) taken out: of s exp(-u^2), and of 2 u^2 s exp(-u^2)."""
    kernel = getattr(squared_exponential.double_tail, "py_func", squared_exponential.double_tail)
    far = 40.0 / (z + 1.0)
    for found, weight in zip(kernel(z), (lambda u: 1.0, lambda u: 2.0 * u * u), strict=True):
        truth = integrate.quad(
            lambda s, weight=weight: weight(z + s) * s * np.exp(-s * (2.0 * z + s)), 0.0, far, epsabs=0, epsrel=1e-12
        )[0]
        assert found == pytest.approx(truth * np.exp(-z * z), rel=1e-10, abs=0.0)


@pytest.mark.parametrize("name", NAMES)
def test_spectral_density_is_the_fourier_transform(name):
    length = 0.8
    r = np.linspace(0, 60, 600_001)
    w = np.array([0.0, 0.7, 3.0])
    k = value(name, r / length).astype(float)
    for x, found in zip(w, spectral_density(name, w, length)[0], strict=True):
        assert found == pytest.approx(2 * np.trapezoid(k * np.cos(x * r), r), rel=1e-6)
    step = 1e-6
    up, down = (spectral_density(name, w, length * np.exp(e))[0] for e in (step, -step))
    np.testing.assert_allclose(spectral_density(name, w, length)[1], (up - down) / (2 * step), rtol=1e-7, atol=1e-9)
