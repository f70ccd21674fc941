"""One question, solved for weights and for places: against a dense Gaussian process, and slopes against differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from crosslevel.ecological.collapsed import collapse
from crosslevel.ecological.covariance import BIAS, Hyperparameters, Terms
from crosslevel.ecological.regression import question as module
from crosslevel.ecological.regression.question import Design, Point, Question
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.kernels import matern

H = Hyperparameters(effect_variance=0.4, spatial=0.3, length=1.3, nugget=0.07, group=0.2, second_group=0.1)
FEWER, MORE = 6, 50
"""Columns of X: weights are solved for, or places."""
CASES = {
    "field": {},
    "two groupings": {"groups": 2},
    "no nugget": {"kind": "matern52", "nugget": False},
    "groups alone": {"kind": None, "groups": 1},
    "nothing else": {"kind": None},
    "neighbors at one point": {"kind": "matern12", "shared": True, "groups": 1},
}


def make(k, kind="matern32", nugget=True, groups=0, shared=False, q=30, seed=0):
    """Give a design and counts of very different size; two places were not asked."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 4, (q, 2))
    if shared:
        xy[10:20] = xy[:10]
    group = [np.arange(q) % 4, np.arange(q) // 6]
    terms = Terms(q, kind, xy, "plane", nugget, *[group[i] if groups > i else None for i in range(2)])
    X = rng.normal(size=(q, k)) / np.sqrt(k)
    n = rng.choice([3.0, 40.0, 1000.0, 1e5], q)
    n[[4, 21]] = 0.0
    successes = rng.binomial(n.astype(int), special.expit(X @ rng.normal(size=k) - 0.4)).astype(float)
    return Design(X, terms), successes, n


def scales(terms):
    """Those that the prior has."""
    return Hyperparameters(**{name: getattr(H, name) for name in terms.names})


def asked(design, successes, trials):
    return Question(design, np.flatnonzero(trials > 0), successes, trials)


def covariance(terms, X, place, h):
    """The prior of parts of places, written out."""
    K = BIAS + h.effect_variance * X @ X.T
    if terms.kind is not None:
        far = np.sqrt(((terms.coords[place][:, None] - terms.coords[place][None]) ** 2).sum(axis=-1))
        K = K + h.spatial * matern(far, h.length, terms.kind)[0]
    for name, group in terms.groupings:
        K = K + getattr(h, name) * (group[place][:, None] == group[place][None])
    return K + (h.nugget * (place[:, None] == place[None]) if terms.nugget else 0.0)


def dense(design, successes, trials, h, X, place, terms=None):
    """Laplace's approximation with the matrix of everything: evidence, and mean and covariance of parts."""
    terms, seen = terms or design.terms, np.flatnonzero(trials > 0)
    k, n, m = successes[seen], trials[seen], len(seen)
    K = covariance(terms, np.vstack([design.X[seen], X]), np.concatenate([seen, place]), h)
    f = np.log((k + 0.5) / (n - k + 0.5))
    for _ in range(60):
        p = special.expit(f)
        W = n * p * (1 - p)
        z = f + (k - n * p) / W
        S = np.linalg.inv(K[:m, :m] + np.diag(1 / W))
        f = K[:m, :m] @ S @ z
    value = stats.binom.logpmf(k, n, special.expit(f)).sum() - 0.5 * f @ S @ z
    value -= 0.5 * np.linalg.slogdet(np.eye(m) + np.sqrt(W)[:, None] * K[:m, :m] * np.sqrt(W))[1]
    return value, K[m:, :m] @ S @ z, K[m:, m:] - K[m:, :m] @ S @ K[:m, m:]


def parts(design, seed=1):
    """Parts of places: some as they are, some of other people, of places asked and not."""
    rng = np.random.default_rng(seed)
    place = np.array([0, 0, 3, 4, 11, 21, 29])
    other = 0.3 * rng.normal(size=(7, design.X.shape[1])) * (np.arange(7) != 0)[:, None]
    return design.X[place] + other, place


@pytest.mark.parametrize("k", [FEWER, MORE])
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_a_dense_process(case, k):
    design, *counts = make(k, **CASES[case])
    h, one, (X, place) = scales(design.terms), asked(design, *counts), parts(design)
    value, mean, K = dense(design, *counts, h, X, place)
    mode = one.mode(h)
    assert mode.log_evidence == pytest.approx(value, rel=1e-9)
    at = one.predict((Point(h, mode, 1.0),), X, place)
    np.testing.assert_allclose(at.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(at.variance, np.diag(K), rtol=1e-8)


@pytest.mark.parametrize("k", [FEWER, MORE])
def test_places_that_are_new(k):
    design, *counts = make(k, groups=1)
    t, rng = design.terms, np.random.default_rng(2)
    both = np.vstack([t.coords, rng.uniform(0, 4, (2, 2))])
    terms = replace(t, n_places=32, coords=both, group=np.append(t.group, [1, 9]))
    X, place = rng.normal(size=(2, k)) / np.sqrt(k), np.array([30, 31])
    one = asked(design, *counts)
    at = one.predict((Point(H, one.mode(H), 1.0),), X, place, terms)
    _, mean, K = dense(design, *counts, H, X, place, terms)
    np.testing.assert_allclose(at.mean, mean, rtol=1e-7)
    np.testing.assert_allclose(at.variance, np.diag(K), rtol=1e-7)


@pytest.mark.parametrize("k", [FEWER, MORE])
@pytest.mark.parametrize("case", [name for name in CASES if name != "nothing else"])
def test_slopes_of_the_evidence(case, k):
    """They move with the mode; each is near the difference that takes its step's error off."""
    design, *counts = make(k, **CASES[case])
    one = asked(design, *counts)
    x, step = design.terms.pack(scales(design.terms)), 1e-2
    found = one.evidence(scales(design.terms))[1]
    for j, name in enumerate(design.terms.names):

        def value(t, j=j):
            return one.mode(design.terms.unpack(x + t * np.eye(len(x))[j])).log_evidence

        five = (8 * (value(step) - value(-step)) - value(2 * step) + value(-2 * step)) / (12 * step)
        assert found[j] == pytest.approx(five, rel=1e-6, abs=1e-6), name


def test_the_field_on_points_has_its_slopes_too():
    design, *counts = make(FEWER, groups=2)
    design = Design(design.X, replace(design.terms, inducing_points=9))
    assert collapse(design.terms).points is not None
    one, x = asked(design, *counts), design.terms.pack(H)
    found = one.evidence(H)[1]
    for j, name in enumerate(design.terms.names):
        up, down = (one.mode(design.terms.unpack(x + t * np.eye(len(x))[j])).log_evidence for t in (1e-4, -1e-4))
        assert found[j] == pytest.approx((up - down) / 2e-4, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize("k", [FEWER, MORE])
@pytest.mark.parametrize("case", ["two groupings", "neighbors at one point", "nothing else"])
def test_draws_have_the_moments_of_the_dense_process(case, k):
    """Standardized by them, 40,000 draws have mean 0 and covariance I to 5 Monte Carlo errors."""
    design, *counts = make(k, **CASES[case])
    h, one, (X, place), n = scales(design.terms), asked(design, *counts), parts(design), 40_000
    _, mean, K = dense(design, *counts, h, X, place)
    w, u = one.draw(Point(h, one.mode(h), 1.0), n, np.random.default_rng(0))
    z = np.linalg.solve(np.linalg.cholesky(K), (w @ X.T + u[:, place] - mean).T)
    np.testing.assert_allclose(z.mean(axis=1), 0.0, atol=5 / np.sqrt(n))
    np.testing.assert_allclose(np.cov(z), np.eye(7), atol=5 * np.sqrt(2 / n))


@pytest.mark.parametrize("k", [FEWER, MORE])
@pytest.mark.parametrize("nugget", [1e-6, 0.05, 80.0])
def test_counts_of_any_size_have_a_mode(nugget, k):
    """One of one beside a billion, all or none: the gradient vanishes relative to the counts, in few steps."""
    design, *_ = make(k, q=24)
    n = np.tile([1.0, 1e9, 1.0, 1e5, 1.0, 1e9], 4)
    successes = np.tile([1.0, 0.0, 0.0, 1e5, 1.0, 4e8], 4)
    for h in (replace(H, nugget=nugget), Hyperparameters(2.0, 864.0, 0.2, nugget)):
        mode = asked(design, successes, n).mode(h)
        assert mode.gradient < 1e-8
        assert mode.iterations < 40
        assert np.isfinite(mode.log_evidence)


@pytest.mark.parametrize("k", [FEWER, MORE])
def test_weights_without_variance(k):
    design, *counts = make(k)
    h = replace(H, effect_variance=0.0)
    assert asked(design, *counts).mode(h).log_evidence == pytest.approx(
        dense(design, *counts, h, *parts(design))[0], rel=1e-9
    )


def test_a_warm_start_ends_at_the_same_mode():
    design, *counts = make(MORE)
    one = asked(design, *counts)
    cold = one.mode(H)
    warm = one.mode(H, one.mode(replace(H, spatial=1.0)).f)
    np.testing.assert_allclose(warm.f, cold.f, rtol=1e-8, atol=1e-8)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-11)


def test_a_mode_that_was_not_found_is_no_number(monkeypatch):
    design, *counts = make(MORE)
    monkeypatch.setattr(module, "STEPS", 1)
    with pytest.raises(ConvergenceError):
        asked(design, *counts).mode(H)


def test_the_evidence_is_near_the_integral():
    """Off by O(1 / n), so ten times the counts leave a tenth of the error; a wrong constant would stay."""
    design, h = Design(np.zeros((1, 1)), Terms(1, None, None, "plane", True, None)), Hyperparameters(0.4, nugget=0.8)
    f, errors = np.linspace(-8, 8, 4001), []
    for n in (50.0, 500.0, 5000.0):
        like = stats.binom.logpmf(0.3 * n, n, special.expit(f)) + stats.norm.logpdf(f, scale=np.sqrt(BIAS + 0.8))
        exact = special.logsumexp(like) + np.log(f[1] - f[0])
        errors.append(asked(design, np.array([0.3 * n]), np.array([n])).mode(h).log_evidence - exact)
    assert abs(errors[1]) < 8e-4
    assert errors[1] / errors[2] == pytest.approx(10.0, rel=0.1)
