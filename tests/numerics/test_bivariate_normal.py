"""Is the probability of a rectangle exact, in the middle, far out and next to perfect correlation?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, special, stats

from crosslevel.numerics.bivariate_normal import _log_interval, _panels, _peak, log_rectangle, log_rectangle_slopes


def brute_force(a1, b1, a2, b2, rho):
    """Integrate the density twice, with its largest value on the rectangle taken out."""
    c2 = 1 - rho**2

    def form(x, y):
        return (x * x - 2 * rho * x * y + y * y) / (2 * c2)

    x, y = np.meshgrid(np.linspace(a1, b1, 801), np.linspace(a2, b2, 801))
    least = form(x, y).min()
    area = integrate.dblquad(lambda y, x: np.exp(least - form(x, y)), a1, b1, a2, b2, epsabs=1e-13, epsrel=1e-11)[0]
    return np.log(area) - least - np.log(2 * np.pi * np.sqrt(c2))


@pytest.mark.parametrize(
    ("ends", "rho"),
    [
        ((-1.0, 1.5, -0.5, 2.0), 0.2),
        ((-1.0, 1.5, -0.5, 2.0), -0.6),
        ((-2.0, 1.0, -1.0, 2.5), 0.9),
        ((-1.5, 1.0, -1.0, 1.5), -0.97),
        ((3.0, 5.0, 2.0, 4.5), 0.4),
        ((3.0, 5.0, -4.5, -2.0), 0.4),
        ((-9.0, -6.5, 5.0, 8.0), -0.7),
        ((-9.0, -6.5, 5.0, 8.0), 0.7),
        ((12.0, 14.0, 1.0, 4.0), 0.9),
        ((-3.0, -1.0, 2.0, 4.0), 0.95),
        ((2.0, 4.0, 1.0, 3.0), 0.985),
    ],
)
def test_log_rectangle_is_the_double_integral(ends, rho):
    assert float(log_rectangle(*ends, rho)) == pytest.approx(brute_force(*ends, rho), abs=1e-9, rel=1e-11)


def test_log_rectangle_agrees_with_scipy_where_that_is_exact():
    rng = np.random.default_rng(0)
    for _ in range(20):
        low, width, rho = rng.normal(-1, 0.5, 2), rng.uniform(1, 3, 2), np.tanh(rng.normal())
        law = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]], abseps=1e-14, releps=1e-12)
        expected = law.cdf(low + width, lower_limit=low)
        got = np.exp(log_rectangle(low[0], low[0] + width[0], low[1], low[1] + width[1], rho))
        assert got == pytest.approx(expected, abs=1e-10)


def test_rectangles_add_up_across_all_the_ways_they_are_computed():
    """Half and half is the whole; the parts are small where the whole is not, so they take other roads."""
    rng = np.random.default_rng(1)
    n = 400
    a1, a2 = rng.normal(0, 4, (2, n))
    b1, b2 = a1 + rng.exponential(3, n), a2 + rng.exponential(3, n)
    rho = np.tanh(rng.normal(0, 1.2, n))
    cut = a1 + rng.uniform(0.05, 0.95, n) * (b1 - a1)
    halves = np.logaddexp(log_rectangle(a1, cut, a2, b2, rho), log_rectangle(cut, b1, a2, b2, rho))
    np.testing.assert_allclose(halves, log_rectangle(a1, b1, a2, b2, rho), atol=1e-9, rtol=1e-11)


def test_the_sides_can_be_exchanged_and_mirrored():
    rng = np.random.default_rng(2)
    a1, a2 = rng.normal(0, 5, (2, 200))
    b1, b2, rho = a1 + 2.0, a2 + 3.0, np.tanh(rng.normal(0, 1.5, 200))
    whole = log_rectangle(a1, b1, a2, b2, rho)
    np.testing.assert_allclose(log_rectangle(a2, b2, a1, b1, rho), whole, atol=1e-9, rtol=1e-11)
    np.testing.assert_allclose(log_rectangle(-b1, -a1, a2, b2, -rho), whole, atol=1e-9, rtol=1e-11)


def test_a_quadrant_has_its_closed_form():
    rho = np.array([-0.999, -0.9, -0.3, 0.0, 0.5, 0.95, 0.999])
    quadrant = 0.25 + np.arcsin(rho) / (2 * np.pi)
    np.testing.assert_allclose(np.exp(log_rectangle(0.0, 40.0, 0.0, 40.0, rho)), quadrant, rtol=1e-10)


def test_slopes_are_those_of_the_function():
    rng = np.random.default_rng(3)
    for scale in (1.0, 4.0):
        ends = [rng.normal(-1, scale), 0.0, rng.normal(-1, scale), 0.0, np.tanh(rng.normal())]
        ends[1], ends[3] = ends[0] + 1.7, ends[2] + 2.1
        slopes = log_rectangle_slopes(*ends, log_rectangle(*ends))
        h = 1e-5
        for k, name in enumerate(("a1", "b1", "a2", "b2", "rho")):
            up, down = list(ends), list(ends)
            up[k] += h
            down[k] -= h
            numeric = float(log_rectangle(*up) - log_rectangle(*down)) / (2 * h)
            assert float(getattr(slopes, name)) == pytest.approx(numeric, rel=1e-5, abs=1e-7)


def test_nodes_around_the_peak_agree_with_panels_everywhere():
    """Rectangles up to 50 standard deviations out, narrow and wide: the peak may be anywhere, or at an end."""
    rng = np.random.default_rng(4)
    n = 600
    sd, mean = np.exp(rng.uniform(np.log(0.05), np.log(2), (2, n))), rng.uniform(-2, 3, (2, n))
    ends = -mean[0] / sd[0], (1 - mean[0]) / sd[0], -mean[1] / sd[1], (1 - mean[1]) / sd[1]
    rho = rng.uniform(0.6, 0.925, n) * rng.choice([-1, 1], n)
    expected = np.concatenate([_panels(*(v[i : i + 100] for v in (*ends, rho))) for i in range(0, n, 100)])
    np.testing.assert_allclose(_peak(*ends, rho, 28), expected, atol=1e-10, rtol=1e-12)


ENDS = [
    (-1.0, 0.3, -0.5, 2.0),
    (2.0, 3.5, -1.0, 1.5),
    (4.0, 6.0, 3.0, 5.5),
    (-6.0, -4.5, 2.0, 3.0),
    (1.0, 1.2, 7.0, 9.0),
]


@pytest.mark.parametrize("rho", [0.2, 0.29, 0.5, 0.74, 0.79, 0.9, 0.924, 0.97, 0.979, 0.99, 0.999])
def test_every_correlation_is_as_exact_as_it_is_said_to_be(rho):
    """Against 20,000 nodes: the density of one variable times the conditional probability of the other."""
    t, w = np.polynomial.legendre.leggauss(20)
    for (a1, b1, a2, b2), r in itertools.product(ENDS, (rho, -rho)):
        c = np.sqrt((1 - rho) * (1 + rho))
        edges = np.linspace(a1, b1, 1001)
        half = 0.5 * np.diff(edges)[:, None]
        z = edges[:-1, None] + half * (1 + t)
        low, high = (a2 - r * z) / c, (b2 - r * z) / c
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)  # the left tail keeps its digits
        with np.errstate(under="ignore", divide="ignore"):
            upper = special.log_ndtr(high)
            across = upper + np.log1p(-np.exp(special.log_ndtr(low) - upper))
            expected = special.logsumexp(across - 0.5 * z * z + np.log(half * w)) - 0.5 * np.log(2 * np.pi)
        assert float(log_rectangle(a1, b1, a2, b2, r)) == pytest.approx(expected, abs=3e-11, rel=1e-12)


@pytest.mark.parametrize("middle", [0.0, -2.0, 9.0, -30.0])
@pytest.mark.parametrize("share", [0.01, 0.99, 1.01, 50.0])
def test_one_interval_is_exact_on_both_sides_of_the_narrow_form(middle, share):
    width = share * 1e-3 / (1.0 + abs(middle))
    low, high = middle - 0.5 * width, middle + 0.5 * width
    width, middle = high - low, 0.5 * (low + high)  # of the ends as they are rounded
    nodes, weights = np.polynomial.legendre.leggauss(20)
    z = 0.5 * width * nodes  # the density over the interval, with its value at the middle taken out
    inside = 0.5 * width * weights @ np.exp(-middle * z - 0.5 * z * z)
    exact = np.log(inside) - 0.5 * middle**2 - 0.5 * np.log(2 * np.pi)
    assert _log_interval(low, high) == pytest.approx(exact, abs=2e-9)
