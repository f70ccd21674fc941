"""Laplace's approximation: derivatives, the mode at any size of counts, evidence and moments against brute force."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from crosslevel.errors import ConvergenceError
from crosslevel.numerics import laplace
from crosslevel.numerics.laplace import (
    Binomial,
    Likelihood,
    Poisson,
    Slopes,
    binomial_peak,
    evidence_gradient,
    find_mode,
    posterior_variance,
)

FloatArray = npt.NDArray[np.float64]


def five_point(value: Callable[[float], float], h: float) -> float:
    """Richardson's two central differences: error h^4."""
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)


def kernel(n: int, seed: int = 0, nugget: float = 0.05) -> FloatArray:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    K = 1.3 * np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)) + nugget * np.eye(n) + 1.0
    return np.asarray(K)


def counts(kind: str, n: int = 8) -> Likelihood:
    rng = np.random.default_rng(5)
    trials = {
        "one": np.ones(n),
        "mixed": np.array([1, 3, 50, 1e3, 1e5, 7, 20, 400.0])[:n],
        "many": np.full(n, 1e5),
    }[kind.split()[-1]]
    if kind.startswith("poisson"):
        return Poisson(rng.poisson(trials * np.exp(rng.normal(-0.5, 0.7, n))).astype(float), trials)
    return Binomial(rng.binomial(trials.astype(int), special.expit(rng.normal(-0.5, 0.7, n))).astype(float), trials)


KINDS = [f"{family} {size}" for family in ("binomial", "poisson") for size in ("one", "mixed", "many")]


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_the_likelihood(kind: str) -> None:
    like, h = counts(kind), 1e-3
    f = like.start() + 0.3
    slopes = like.slopes(f)
    for i in range(len(f)):
        e = np.eye(len(f))[i]
        # of this observation alone: a sum would drown it in the rounding of the large ones
        one = type(like)(*(np.array([a[i]]) for a in vars(like).values()))

        def at(x: float, one: Likelihood = one, i: int = i) -> laplace.Slopes:
            return one.slopes(f[[i]] + x)

        assert e @ slopes.first == pytest.approx(five_point(lambda x: at(x).value, h), rel=1e-6, abs=1e-7)
        assert e @ slopes.curvature == pytest.approx(-five_point(lambda x: at(x).first[0], h), rel=1e-8)
        assert e @ slopes.third == pytest.approx(-five_point(lambda x: at(x).curvature[0], h), rel=1e-7, abs=1e-9)


def test_the_value_is_the_log_probability() -> None:
    k, n, f = np.array([0.0, 3, 7, 40]), np.array([5.0, 9, 7, 100]), np.array([-1.0, 0.2, 3, -0.5])
    expected = stats.binom.logpmf(k, n, special.expit(f)).sum()
    assert Binomial(k, n).slopes(f).value == pytest.approx(expected, rel=1e-12)
    expected = stats.poisson.logpmf(k, n * np.exp(f)).sum()
    assert Poisson(k, n).slopes(f).value == pytest.approx(expected, rel=1e-12)


def test_peak_keeps_its_digits() -> None:
    # log C(n, k) + k log(k/n) + (n-k) log(1-k/n) with 40 digits (mpmath)
    k, n = np.array([5e8, 1.0, 123456789.0, 3.0, 15.5]), np.array([1e9, 1e9, 987654321.0, 7.0, 31.0])
    golden = [-10.587424271367933, -0.9999999995, -10.167873721314367, -1.2250086714138879, -1.9508480741246231]
    np.testing.assert_allclose(binomial_peak(k, n), golden, rtol=1e-14)
    np.testing.assert_array_equal(binomial_peak(np.array([0.0, 9.0]), np.array([9.0, 9.0])), 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_mode_and_gradient(kind: str) -> None:
    like, K = counts(kind), kernel(8)
    mode = find_mode(K, like)
    at = like.slopes(mode.f)
    np.testing.assert_allclose(K @ mode.alpha, mode.f, rtol=1e-10, atol=1e-10)
    assert np.max(np.abs(at.first - mode.alpha) / (1 + at.scale)) < 1e-8
    assert mode.gradient < 1e-8
    G = evidence_gradient(mode, K)
    np.testing.assert_array_equal(G, G.T)
    rng = np.random.default_rng(2)
    for _ in range(3):
        X = rng.normal(size=(8, 8))
        dK = X @ X.T / 8
        slope = five_point(lambda h, dK=dK: find_mode(K + h * dK, like).log_evidence, 5e-4)
        assert (G * dK).sum() == pytest.approx(slope, rel=1e-6)


def test_one_wrong_sign_would_show() -> None:
    # the implicit part of the gradient (the mode moves) is not negligible here
    like, K = counts("binomial one"), kernel(8)
    mode = find_mode(K, like)
    R = np.linalg.inv(K + np.diag(1 / mode.curvature))
    explicit = 0.5 * (np.outer(mode.alpha, mode.alpha) - R)
    slope = five_point(lambda h: find_mode(K * (1 + h), like).log_evidence, 2e-3)
    assert abs((explicit * K).sum() - slope) > 1e-3 * abs(slope)


@pytest.mark.parametrize("n", [1.0, 1e9])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_counts_at_their_ends(n: float, part: float) -> None:
    k = np.full(5, n * part if n > 1 else float(part > 0.5))
    for nugget in (1e-6, 0.05):
        K = kernel(5, nugget=nugget)
        mode = find_mode(K, Binomial(k, np.full(5, n)))
        p = special.expit(mode.f)
        np.testing.assert_allclose(k - n * p, np.linalg.solve(K, mode.f), atol=1e-4 * n**0.5)
        assert np.isfinite(mode.log_evidence)
        assert mode.log_evidence < 0
        assert np.all(posterior_variance(mode, K) >= 0)


def test_one_in_a_billion_is_found_to_the_digits_of_its_own_count() -> None:
    # a gradient relative to the trials would let the mode be off by ten
    like = Binomial(np.array([1.0]), np.array([1e9]))
    mode = find_mode(np.array([[100.0]]), like)
    f = mode.f[0]
    assert 1.0 - 1e9 * special.expit(f) - f / 100.0 == pytest.approx(0.0, abs=1e-8)
    assert like.slopes(mode.f).scale[0] < 10.0


def test_places_of_very_different_size_together() -> None:
    trials = np.array([1.0, 1e9, 1, 1e5, 10, 1e9])
    like = Binomial(np.array([1.0, 3e8, 0, 1e5, 0, 1]), trials)
    K = kernel(6, nugget=0.02)
    mode = find_mode(K, like)
    np.testing.assert_allclose(np.linalg.solve(K, mode.f), like.slopes(mode.f).first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_ends_at_the_same_mode(kind: str) -> None:
    like, K = counts(kind), kernel(8)
    cold = find_mode(K, like)
    near = find_mode(1.1 * K, like)
    for start in (near.f, np.full(8, 3.0), np.full(8, -30.0), np.full(8, 1e4)):
        warm = find_mode(K, like, start)
        np.testing.assert_allclose(warm.f, cold.f, rtol=1e-9, atol=1e-9)
        assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-10)


def test_a_fit_that_did_not_converge_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    K = kernel(5)
    like = Binomial(np.array([0.0, 5, 5, 0, 1]), np.full(5, 5.0))
    monkeypatch.setattr(laplace, "STEPS", 1)
    with pytest.raises(ConvergenceError):
        find_mode(K, like, np.array([4.0, -3, -3, 4, 2]))


def test_a_singular_prior_is_fine() -> None:
    # two rows of one place share their value; together they are one row with all the counts
    K = np.full((2, 2), 1.5)
    mode = find_mode(K, Binomial(np.array([3.0, 10.0]), np.array([10.0, 15.0])))
    alone = find_mode(np.array([[1.5]]), Binomial(np.array([13.0]), np.array([25.0])))
    np.testing.assert_allclose(mode.f, alone.f[0], rtol=1e-9)


def test_posterior_variance_in_both_forms() -> None:
    for seed, kind in enumerate(KINDS):
        like, K = counts(kind), kernel(8, seed)
        mode = find_mode(K, like)
        expected = np.diag(np.linalg.inv(np.linalg.inv(K) + np.diag(mode.curvature)))
        np.testing.assert_allclose(posterior_variance(mode, K), expected, rtol=1e-8)
        R = np.linalg.inv(K + np.diag(1 / mode.curvature))
        np.testing.assert_allclose(posterior_variance(mode, K, R), expected, rtol=1e-6)


@pytest.mark.parametrize("family", [Binomial, Poisson])
def test_evidence_against_brute_force_in_one_dimension(family: type) -> None:
    # the approximation is off by O(1/n), so ten times the counts leave a tenth of the error; a wrong constant would stay
    z = np.linspace(-8, 8, 4001)
    errors = []
    for n in (50.0, 500.0, 5000.0):
        one = family(np.array([0.3 * n]), np.array([n]))
        many = family(np.full(len(z), 0.3 * n), np.full(len(z), n))
        constant = one.slopes(z[:1]).value - _heights(many, z)[0]
        values = _heights(many, z) + constant
        exact = special.logsumexp(values - 0.5 * z**2 / 0.8) + np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi * 0.8)
        errors.append(find_mode(np.array([[0.8]]), one).log_evidence - exact)
    assert abs(errors[0]) < 6e-3
    assert abs(errors[1]) < 8e-4
    assert errors[1] / errors[2] == pytest.approx(10.0, rel=0.1)


def _heights(like: Likelihood, z: FloatArray) -> FloatArray:
    """Log likelihood of each observation but for a constant, by the definition."""
    if isinstance(like, Binomial):
        return like.successes * z - like.trials * np.logaddexp(0.0, z)
    assert isinstance(like, Poisson)
    return like.counts * z - like.exposure * np.exp(z)


def test_evidence_against_brute_force_in_two_dimensions() -> None:
    K = np.array([[1.0, 0.7], [0.7, 1.2]])
    like = Binomial(np.array([300.0, 550.0]), np.array([1000.0, 800.0]))
    x = np.linspace(-3, 3, 601)
    f = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    log_like = sum(stats.binom.logpmf(like.successes[i], like.trials[i], special.expit(f[:, i])) for i in range(2))
    prior = stats.multivariate_normal([0, 0], K).logpdf(f)
    exact = special.logsumexp(log_like + prior) + 2 * np.log(x[1] - x[0])
    assert find_mode(K, like).log_evidence == pytest.approx(exact, abs=1e-3)  # O(1/n)


def test_against_elliptical_slice_sampling() -> None:
    """Posterior means and standard deviations of f from 40,000 steps of a sampler that has no tuning.

    Monte Carlo error is measured on 40 batches; Laplace's own bias at 30-50 trials is a few percent of a standard deviation (the
    posterior's skewness), hence 5 % of it on top of three Monte Carlo errors.
    """
    rng = np.random.default_rng(11)
    K = kernel(6, seed=3, nugget=0.1)
    trials = np.array([50.0, 40, 30, 50, 45, 35])
    like = Binomial(rng.binomial(trials.astype(int), special.expit(rng.normal(0, 0.6, 6))).astype(float), trials)
    k, n = like.successes, like.trials

    def height(f: FloatArray) -> float:
        return float(k @ f - n @ np.logaddexp(0.0, f))

    root = np.linalg.cholesky(K)
    f, kept = find_mode(K, like).f, np.empty((40_000, 6))
    now = height(f)
    for step in range(len(kept)):
        nu, bar = root @ rng.standard_normal(6), now + np.log(rng.uniform())
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while True:
            new = f * np.cos(angle) + nu * np.sin(angle)
            if (now := height(new)) > bar:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        f = kept[step] = new
    mode = find_mode(K, like)
    sd = np.sqrt(posterior_variance(mode, K))
    batches = kept.reshape(40, 1000, 6)
    mc_mean = batches.mean(axis=1).std(axis=0) / np.sqrt(40)
    mc_sd = batches.std(axis=1).std(axis=0) / np.sqrt(40)
    assert np.all(np.abs(kept.mean(axis=0) - mode.f) < 3 * mc_mean + 0.05 * sd)
    assert np.all(np.abs(kept.std(axis=0) - sd) < 3 * mc_sd + 0.05 * sd)


class Gaussian:
    """A measurement of f itself, of known precision."""

    def __init__(self, values: np.ndarray, precision: np.ndarray) -> None:
        self.values, self.precision = values, precision

    def slopes(self, f: np.ndarray) -> Slopes:
        off = self.values - f
        value = 0.5 * np.log(self.precision / (2 * np.pi)).sum() - 0.5 * float(self.precision @ off**2)
        scale = self.precision * np.maximum(np.abs(self.values), np.abs(f))
        return Slopes(float(value), self.precision * off, self.precision, np.zeros_like(f), scale)

    def start(self) -> np.ndarray:
        return self.values


def test_a_gaussian_likelihood_is_exact() -> None:
    rng = np.random.default_rng(0)
    K, z, precision = kernel(8), rng.normal(size=8), np.array([1.0, 50, 0.1, 1e6, 3, 2, 1, 9])
    mode = find_mode(K, Gaussian(z, precision))
    S = K + np.diag(1 / precision)
    np.testing.assert_allclose(mode.f, K @ np.linalg.solve(S, z), rtol=1e-9)
    assert mode.log_evidence == pytest.approx(stats.multivariate_normal(np.zeros(8), S).logpdf(z), rel=1e-10)
    G = evidence_gradient(mode, K)
    a = np.linalg.solve(S, z)
    np.testing.assert_allclose(G, 0.5 * (np.outer(a, a) - np.linalg.inv(S)), rtol=1e-7, atol=1e-9)
