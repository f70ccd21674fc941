"""Sums over a normal logit against mpmath, scipy's quad, and sums over every count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from crosslevel.numerics.quadrature import binomial_log_density, logistic_mean, logistic_variance, share_quantiles


@pytest.mark.parametrize(
    ("m", "v", "mean", "variance"),
    [  # mpmath 1.3, 30 digits
        (0, 1, 0.5, 0.043379035858092963),
        (2, 25, 0.64679799432618746, 0.15846911639953513),
        (-3, 1e-12, 0.047425873177587227, 2.0409305844449416e-15),
        (1, 4, 0.64772643852586869, 0.087678662494590249),
        (1, 4.01, 0.64762149964539477, 0.087798178122782968),
        (-5, 1e4, 0.48006447010098023, 0.24561878905697546),
        (30, 25, 0.99999997924082602, 1.2096616027318137e-9),
    ],
)
def test_moments_of_a_rate(m: float, v: float, mean: float, variance: float) -> None:
    assert logistic_mean(m, v) == pytest.approx(mean, rel=1e-13)
    # 1e-9: the variance is a difference of rates that agree in all but their last digits
    assert logistic_variance(m, v) == pytest.approx(variance, rel=1e-9)


def test_moments_against_quad_on_a_grid() -> None:
    m, s = (a.ravel() for a in np.meshgrid([-4.0, -0.3, 0.0, 2.5], [0.01, 0.3, 1.0, 1.99, 2.01, 5.0]))
    for power, got in ((1, logistic_mean(m, s**2)), (2, logistic_variance(m, s**2) + logistic_mean(m, s**2) ** 2)):
        expected = [
            integrate.quad(
                lambda z, a=a, b=b, power=power: special.expit(a + b * z) ** power * stats.norm.pdf(z),
                -9,
                9,
                epsabs=1e-13,
            )[0]
            for a, b in zip(m, s, strict=True)
        ]
        np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_no_variance_is_the_rate_itself() -> None:
    assert logistic_mean([0.7], [0.0])[0] == pytest.approx(special.expit(0.7), rel=1e-15)
    assert logistic_variance([0.7], [0.0])[0] == pytest.approx(0.0, abs=1e-30)
    k, n = np.array([3.0]), np.array([9.0])
    assert binomial_log_density(k, n, [0.7], [0.0])[0] == pytest.approx(
        stats.binom.logpmf(3, 9, special.expit(0.7)), rel=1e-12
    )
    assert share_quantiles(n, [0.7], [0.0], [0.3])[0, 0] == stats.binom.ppf(0.3, 9, special.expit(0.7)) / 9


@pytest.mark.parametrize(
    ("k", "n", "m", "v", "golden"),
    [  # mpmath 1.3, 30 digits; absolute error at a billion: that of k log p in double precision
        (3, 5, 0, 1, -1.4953005954481407),
        (0, 5, 0, 25, -1.0654786583206383),
        (0, 1e9, 0, 25, -11.0451036093369),
        (1e9, 1e9, -3, 25, -13.792827179181197),
        (5e8, 1e9, 0.3, 0.02, -20.5498981563172),
        (47000, 1e5, -0.1, 1e-12, -11.036560418965622),
        (47000, 1e5, -1, 25, -12.666884710184357),
        (1, 1e9, -20, 1, -1.5755096461594959),
        (1, 1, 0, 1, -0.69314718055994531),
        (1, 1e5, 2, 0.01, -3115.406691631087),
        (0, 1e9, 10, 4, -112.20102611143752),
        (3, 7, 2, 1e-30, -5.3331480158113938),
        (2.5, 7.5, 1, 1, -2.6407417590240737),
    ],
)
def test_log_density(k: float, n: float, m: float, v: float, golden: float) -> None:
    got = binomial_log_density(np.array([k]), np.array([n]), np.array([m]), np.array([v]))[0]
    assert got == pytest.approx(golden, rel=1e-11, abs=1e-7 if n == 1e9 else 1e-12)


@pytest.mark.parametrize("n", [1, 6, 200])
@pytest.mark.parametrize(("m", "v"), [(0.0, 1e-12), (-2.0, 0.3), (4.0, 25.0)])
def test_log_densities_add_up_to_one_and_have_the_mean(n: int, m: float, v: float) -> None:
    k = np.arange(n + 1.0)
    pmf = np.exp(binomial_log_density(k, np.full(n + 1, n), np.full(n + 1, m), np.full(n + 1, v)))
    assert pmf.sum() == pytest.approx(1.0, rel=1e-11)
    assert pmf @ k / n == pytest.approx(float(logistic_mean(m, v)), rel=1e-11)
    # law of total variance, as the standard error of a predicted share uses it
    rate, spread = float(logistic_mean(m, v)), float(logistic_variance(m, v))
    expected = spread + (rate * (1 - rate) - spread) / n
    assert pmf @ (k / n) ** 2 - rate**2 == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
@pytest.mark.parametrize("v", [1e-12, 1e-4, 0.02, 1.0, 25.0])
def test_quantiles_are_those_of_the_sum_over_counts(n: int, v: float) -> None:
    k, probabilities = np.arange(n + 1.0), np.array([0.0005, 0.025, 0.3, 0.5, 0.975, 0.9995])
    for m in (-6.0, -1.0, 0.1, 3.0):
        below = np.exp(binomial_log_density(k, np.full(n + 1, n), np.full(n + 1, m), np.full(n + 1, v))).cumsum()
        expected = np.searchsorted(below, probabilities) / n
        np.testing.assert_array_equal(share_quantiles([n], [m], [v], probabilities)[0], expected)


def test_quantiles_of_many_trials_are_those_of_the_rate() -> None:
    probabilities = np.array([0.0005, 0.025, 0.5, 0.975])
    rate = special.expit(0.3 + np.sqrt(0.02) * stats.norm.ppf(probabilities))
    np.testing.assert_allclose(share_quantiles([1e9], [0.3], [0.02], probabilities)[0], rate, atol=3e-8)
    # a hundred thousand add a binomial spread of 0.0016 to one of 0.034 in quadrature
    got = share_quantiles([1e5], [0.3], [0.02], probabilities)[0]
    assert np.all(np.abs(got - rate) < 2e-4)
    # and where the rate is known it is the binomial's
    got = share_quantiles([1e5], [0.3], [1e-12], probabilities)[0]
    np.testing.assert_array_equal(got, stats.binom.ppf(probabilities, 10**5, special.expit(0.3)) / 1e5)


def test_quantiles_are_monotone_and_follow_the_rows() -> None:
    n, m, v = np.array([5.0, 1e5, 0.4]), np.array([0.0, 1.0, -1.0]), np.array([1.0, 0.1, 2.0])
    got = share_quantiles(n, m, v, [0.1, 0.5, 0.9])
    assert np.all(np.diff(got, axis=1) >= 0)
    for i in range(3):
        np.testing.assert_array_equal(got[i], share_quantiles(n[[i]], m[[i]], v[[i]], [0.1, 0.5, 0.9])[0])
