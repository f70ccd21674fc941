"""Labels of persons from proportions of bags: laws, truth, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import optimize, sparse, special

from crosslevel.data.columns import Category, Number
from crosslevel.errors import ConvergenceError, CrosslevelWarning, InputError
from crosslevel.imputation import LabelProportions
from crosslevel.imputation.proportions import model as proportions

RNG = np.random.default_rng(3)
N, SIZE = 4096, 16
AGE, SEX = RNG.integers(20, 80, N).astype(float), RNG.choice(["f", "m"], N)
LOGIT = 0.06 * (AGE - 50) + np.where(SEX == "m", 0.7, -0.7)
ILL = (RNG.random(N) < special.expit(LOGIT)).astype(float)
X = pd.DataFrame({"age": AGE, "sex": SEX})
BAG = np.arange(N) // SIZE
SHARE = np.bincount(BAG, ILL) / SIZE


@pytest.fixture(scope="module")
def model():
    return LabelProportions(n_features=16).fit(X, BAG, SHARE)


def test_random_bags_teach_the_truth(model):
    """256 bags of 16 are worth 256 labels; the probabilities of persons follow from them and are calibrated."""
    p = model.predict_proba(X)
    assert model.assignment_ == "random"
    assert p.shape == (N, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.corrcoef(p[:, 1], special.expit(LOGIT))[0, 1] > 0.96
    assert np.abs(p[:, 1] - special.expit(LOGIT)).mean() < 0.06
    assert model.predict(pd.DataFrame({"age": [79.0, 21.0], "sex": ["m", "f"]})).tolist() == [1, 0]


def test_bags_of_one_are_logistic_regression():
    """With one person a bag the mode is that of a ridge regression on the same scores, found here by another optimizer."""
    few = X[:200]
    made = LabelProportions(n_features=0).fit(few, np.arange(200), ILL[:200])
    A = made.basis_.matrix(np.column_stack([AGE[:200], (SEX[:200] == "m").astype(float)]))
    fit = made.fits_[0]
    prior = np.r_[1e-4, 1 / fit.variance[made.basis_.block]]

    def loss(theta):
        eta = A @ theta
        return np.logaddexp(0, eta).sum() - ILL[:200] @ eta + 0.5 * prior @ theta**2

    found = optimize.minimize(loss, np.zeros(A.shape[1]), method="BFGS", tol=1e-9).x
    np.testing.assert_allclose(fit.theta, found, atol=0.02)  # variances were renewed once more after the last fit
    assert fit.bag_sd == 0.0


def test_classes_by_name_agree_with_one_column(model):
    frame = pd.DataFrame({"bag": np.arange(N // SIZE)[::-1], "ill": SHARE[::-1], "well": 1 - SHARE[::-1]})
    named = LabelProportions(n_features=16).fit(X.assign(bag=BAG), "bag", frame)
    assert named.classes_.tolist() == ["ill", "well"]
    np.testing.assert_allclose(named.predict_proba(X)[:, 0], model.predict_proba(X)[:, 1], atol=1e-9)
    three = frame.assign(dead=0.1, ill=0.9 * frame["ill"], well=0.9 * frame["well"])
    p = LabelProportions(n_features=0).fit(X.assign(bag=BAG), "bag", three).predict_proba(X[:50])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_places_are_told_from_random_bags_and_hold_slopes():
    order = np.argsort(AGE + RNG.normal(0, 10, N), kind="stable")
    place = np.empty(N, dtype=int)
    place[order] = BAG
    means = np.bincount(place, ILL) / SIZE
    held = LabelProportions(n_features=0).fit(X, place, means)
    free = LabelProportions(n_features=0, assignment="random").fit(X, place, means)
    assert held.assignment_ == "places"
    assert 0.5 < held.place_share_ < 1.0
    spread = [np.ptp(m.predict_proba(X)[:, 1]) for m in (held, free)]
    assert spread[0] < spread[1]


def test_weights_count_in_shares_and_in_effective_people(model):
    equal = LabelProportions(n_features=16).fit(X, BAG, SHARE, sample_weight=np.full(N, 2.0))
    np.testing.assert_allclose(equal.predict_proba(X), model.predict_proba(X), atol=1e-8)
    uneven = LabelProportions(n_features=16).fit(X, BAG, SHARE, sample_weight=np.where(np.arange(N) % 2, 3.0, 1.0))
    assert np.ptp(uneven.predict_proba(X)[:, 1]) < np.ptp(
        model.predict_proba(X)[:, 1]
    )  # fewer effective people, more shrinkage


def test_estimate_gives_means_of_groups_with_intervals(model):
    found = model.estimate(X, "sex")
    frame = found.to_frame() if isinstance(found.to_frame(), pd.DataFrame) else pd.DataFrame(found.table.to_pydict())
    men = frame[(frame["class"] == 1) & (frame["sex"] == "m")].iloc[0]
    assert men["estimate"] == pytest.approx(model.predict_proba(X)[SEX == "m", 1].mean())
    assert men["conf_low"] < ILL[SEX == "m"].mean() < men["conf_high"]
    assert men["std_error"] < 0.08
    assert men["people"] == (SEX == "m").sum()


@pytest.mark.parametrize(
    "given",
    [
        {"proportions": None},
        {"bags": None},
        {"bags": BAG[:9]},
        {"proportions": SHARE[:9]},
        {"proportions": SHARE + 0.9},
        {"proportions": np.column_stack([SHARE, SHARE])},
        {"proportions": {"bag": np.arange(256), "ill": np.r_[np.nan, SHARE[1:]]}},
        {"sample_weight": -np.ones(N)},
    ],
)
def test_what_cannot_be_learned_from_is_refused_by_name(given):
    with pytest.raises(InputError):
        LabelProportions(n_features=0).fit(**{"X": X, "bags": BAG, "proportions": SHARE} | given)


def test_few_bags_are_said_and_unknown_levels_refused(model):
    with pytest.warns(CrosslevelWarning):
        LabelProportions(n_features=0).fit(X, BAG % 8, np.bincount(BAG % 8, ILL) / 512)
    with pytest.raises(InputError):
        model.predict_proba(pd.DataFrame({"age": [30.0], "sex": ["x"]}))
    with pytest.raises(InputError):
        model.predict_proba(pd.DataFrame({"age": [np.nan], "sex": ["f"]}))


def test_a_class_that_no_bag_has_is_refused():
    """Its intercept is without limit, and the probability averaged over it was 0.3 for a share of zero."""
    with pytest.raises(InputError):
        LabelProportions(0).fit(X, BAG, np.zeros_like(SHARE))
    three = pd.DataFrame({"bag": np.arange(len(SHARE)), "ill": SHARE, "well": 1 - SHARE, "dead": 0.0})
    with pytest.raises(InputError):
        LabelProportions(0).fit(X.assign(bag=BAG), "bag", three)


def test_the_fit_is_named_after_the_class_that_was_fitted(model):
    assert list(model.convergence_["steps"]) == ["1"]


def test_one_person_without_a_value_is_average_in_it():
    one = pd.DataFrame({"age": [np.nan], "sex": ["m"]})
    gaps = X.assign(age=X["age"].where(np.arange(N) % 7 > 0))
    found = LabelProportions(0, missing="mean").fit(gaps, BAG, SHARE)
    beside = pd.concat([one, X[:3]])
    np.testing.assert_allclose(found.predict_proba(one)[0], found.predict_proba(beside)[0])


def test_a_group_without_weight_is_refused_by_name(model):
    with pytest.raises(InputError):
        model.estimate(X, by="sex", sample_weight=(SEX == "f").astype(float))


def few_columns():
    """60 distinct rows of a number of 5 values, a category of 3 and a number of 60 values, people of unequal weight."""
    rng = np.random.default_rng(8)
    rows = np.column_stack([rng.integers(0, 5, 60) ** 1.5, rng.integers(0, 3, 60), rng.gamma(2.0, 2.0, 60)])
    rows[[3, 17], 0], rows[[5], 2] = np.nan, np.nan
    columns = [Number("few"), Category("kind", pa.array(["a", "b", "c"]), False), Number("many")]
    return rows, rng.uniform(0.5, 3.0, 60), columns


def orthonormal(at, share, degree):
    """Orthogonal polynomials by a QR decomposition, with positive leading coefficients."""
    powers = ((at - at.mean()) / np.ptp(at))[:, None] ** np.arange(degree + 1)
    Q, R = np.linalg.qr(np.sqrt(share)[:, None] * powers)
    return (Q * np.sign(np.diag(R)) / np.sqrt(share)[:, None])[:, 1:]


def test_scores_are_polynomials_centered_dummies_and_waves():
    rows, weight, columns = few_columns()
    basis = proportions.learn_basis(rows, weight, columns, 3, seed=11)
    known = ~np.isnan(rows[:, 0])
    at, code = np.unique(rows[known, 0], return_inverse=True)
    share = np.bincount(code, weight[known]) / weight[known].sum()
    few = np.zeros((60, 4))
    few[known] = orthonormal(at, share, 4)[code]
    kind = np.eye(3)[rows[:, 1].astype(int)] - np.bincount(rows[:, 1].astype(int), weight) / weight.sum()

    # the long column: 13 weighted quantiles, values between them counted at the nearest
    seen = ~np.isnan(rows[:, 2])
    value, w = rows[seen, 2], weight[seen] / weight[seen].sum()
    order = np.argsort(value)
    middle = np.array([w[order][:i].sum() + w[order][i] / 2 for i in range(len(value))])
    knots = np.interp(np.arange(13) / 12, middle, value[order])
    nearest = np.abs(value[:, None] - knots).argmin(axis=1)
    share = np.bincount(nearest, w, 13)
    curve = orthonormal(knots, share, 6)
    many = np.zeros((60, 6))
    many[seen] = np.column_stack([np.interp(value, knots, c) for c in curve.T])

    rng = np.random.default_rng(11)
    straight = np.column_stack([few[:, 0], kind, many[:, 0]])
    frequency = rng.standard_normal((5, 3)) / np.sqrt(3)
    phase = rng.uniform(0, 2 * np.pi, 3)
    waves = np.sqrt(2 / 3) * np.cos(np.minimum(np.maximum(straight, -3), 3) @ frequency + phase)
    waves -= weight @ waves / weight.sum()
    assert np.abs(straight).max() > 3  # the farthest is cut
    expected = np.hstack([np.ones((60, 1)), few, kind, many, waves])
    np.testing.assert_allclose(basis.matrix(rows), expected, atol=1e-9)
    assert basis.block.tolist() == [0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert basis.design.terms == (
        *("linear", "degree 2", "degree 3", "degree 4", "a", "b", "c"),
        *("linear", "degree 2", "degree 3", "degree 4", "degree 5", "degree 6"),
    )
    assert basis.design.reach.tolist() == [1, 0.3, 0.3, 0.3, 1, 1, 1, 1, 0.3, 0.3, 0.3, 0.3, 0.3]


def test_twelve_values_are_levels_and_thirteen_a_curve():
    for levels in (12, 13):
        X = np.arange(levels, dtype=float)[:, None] ** 2
        feature = proportions.learn_basis(X, np.ones(levels), [Number("n")], 0, 0).design.features[0]
        assert np.array_equal(feature.at, X[:, 0]) == (levels == 12)
    two = proportions.learn_basis(np.array([[1.0], [4.0]]), np.array([3.0, 1.0]), [Number("n")], 0, 0)
    np.testing.assert_allclose(two.matrix(np.array([[1.0], [4.0]]))[:, 1], [-np.sqrt(1 / 3), np.sqrt(3)])
    assert two.matrix(np.array([[1.0]])).shape == (1, 2)


def bags_of(sizes, rows, seed=0, weights=True):
    """Bags of some people of ``rows`` distinct rows, as sparse shares and squared shares."""
    rng = np.random.default_rng(seed)
    W, squares, n = np.zeros((len(sizes), rows)), np.zeros((len(sizes), rows)), np.zeros(len(sizes))
    for b, size in enumerate(sizes):
        w = rng.uniform(0.5, 2.0, size) if weights else np.ones(size)
        w /= w.sum()
        who = rng.integers(0, rows, size)
        np.add.at(W[b], who, w)
        np.add.at(squares[b], who, w**2)
        n[b] = 1 / (w**2).sum()
    return proportions.Proportions(sparse.csr_array(W), sparse.csr_array(squares), n)


def test_the_share_of_places_is_that_of_a_sum_by_hand():
    rng = np.random.default_rng(2)
    A, weight = np.column_stack([np.ones(20), rng.normal(1.0, 2.0, (20, 3))]), rng.uniform(1, 2, 20)
    bags, block = bags_of([300] * 6, 20), np.array([0, 1, 0])
    W = bags.W.toarray()
    W[:3, :10] *= 4.0  # places with other people
    W /= W.sum(axis=1, keepdims=True)
    bags = proportions.Proportions(sparse.csr_array(W), bags.squares, bags.n)
    ratios = []
    for column in (1, 3):
        z = A[:, column]
        mean = weight @ z / weight.sum()
        spread = weight @ (z - mean) ** 2 / weight.sum()
        ratios.append(sum(bags.n[b] * (W[b] @ z - mean) ** 2 for b in range(6)) / 6 / spread)
    assert proportions.place_share(A, block, weight, bags, 2) == pytest.approx(1 - 1 / np.mean(ratios), rel=1e-12)
    # random bags have a ratio of one, with a standard error of sqrt(2 / bags / columns): 0 up to four of them
    for share, off in ((0.999, True), (1.001, False)):
        limit = 1 + 4 * np.sqrt(2 / (6 * 2))
        n = bags.n * (limit * share / np.mean(ratios))
        found = proportions.place_share(A, block, weight, proportions.Proportions(bags.W, bags.squares, n), 2)
        assert (found == 0.0) == off


def test_probabilities_are_averaged_over_the_slopes():
    """MacKay's formula, within a hundredth of the integral."""
    theta, Sigma = np.array([0.3, -1.2]), np.array([[0.5, 0.2], [0.2, 0.8]])
    made = proportions.Classified(theta, Sigma, np.ones(3), 0.0, 1, 0.0)
    A = np.array([[1.0, 0.7], [1.0, -2.0]])
    z, w = np.polynomial.hermite_e.hermegauss(60)
    for row, found in zip(A, made.probabilities(A), strict=True):
        eta, variance = row @ theta, row @ Sigma @ row
        assert found == pytest.approx(1 / (1 + np.exp(-eta / np.sqrt(1 + np.pi * variance / 8))), rel=1e-12)
        integral = w @ special.expit(eta + np.sqrt(variance) * z) / w.sum()
        assert found == pytest.approx(integral, abs=0.01)


def test_the_variance_between_bags_solves_its_equation():
    rng = np.random.default_rng(1)
    chance, slope2, error = rng.uniform(0.005, 0.02, 40), rng.uniform(0.01, 0.06, 40), rng.normal(0, 0.3, 40)

    def gap(tau2):
        return (error**2 / (chance + tau2 * slope2)).sum() - 33.0

    found = proportions._bag_variance(error, chance, slope2, 33.0)
    assert found == pytest.approx(optimize.brentq(gap, 0.0, 16.0, xtol=1e-14), rel=1e-9)
    assert proportions._bag_variance(error, chance, slope2, 1.001 * (error**2 / chance).sum()) == 0.0
    barely = proportions._bag_variance(error, chance, slope2, 0.999 * (error**2 / chance).sum())
    assert 0.0 < barely < 0.01
    assert proportions._bag_variance(1e3 * error, chance, slope2, 33.0) == pytest.approx(16.0)


def world(sizes, seed, slope=1.0, between=0.0, weights=True):
    """Scores in three blocks, bags and proportions that follow from them."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(25), rng.normal(size=(25, 4))])
    block = np.array([0, 0, 1, 2])
    bags = bags_of(sizes, 25, seed, weights)
    eta = A @ np.array([-0.4, 1.0, -0.7, 0.2, 0.5]) * slope
    off = between * rng.standard_normal(len(sizes))
    m = np.array([bags.W[[b]].toarray()[0] @ special.expit(eta + off[b]) for b in range(len(sizes))])
    s = rng.binomial(np.maximum(sizes, 1), m) / np.maximum(sizes, 1)
    return A, block, bags, s


def mode_by_quasi_newton(A, W, n, s, prior, start):
    def loss(theta):
        p = special.expit(A @ theta)
        m = W @ p
        value = 0.5 * prior @ theta**2 - n @ (special.xlogy(s, m) + special.xlogy(1 - s, 1 - m))
        return value, prior * theta - (n * (s - m) / (m * (1 - m))) @ (W * (p * (1 - p))) @ A

    return optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x


def information(A, W, n, prior, theta):
    """Expected curvature of the objective, bag by bag."""
    p = special.expit(A @ theta)
    H = np.diag(prior)
    for w, people in zip(W, n, strict=True):
        m, slope = w @ p, (w * p * (1 - p)) @ A
        H = H + people / (m * (1 - m)) * np.outer(slope, slope)
    return H


def test_the_mode_and_its_information_are_those_of_the_objective():
    A, _, bags, s = world([6] * 40, 3)
    phi, prior = np.random.default_rng(0).uniform(0.5, 2.0, 40), np.array([1e-4, 2.0, 3.0, 20.0, 1.0])
    W = bags.W.toarray()
    start = np.array([4.0, -3.0, 2.0, 1.0, -2.0])
    theta, Sigma, gradient, steps = proportions._descend(A, bags, s, phi, prior, start)
    expected = mode_by_quasi_newton(A, W, bags.n / phi, s, prior, np.zeros(5))
    np.testing.assert_allclose(theta, expected, atol=3e-4)
    np.testing.assert_allclose(Sigma, np.linalg.inv(information(A, W, bags.n / phi, prior, theta)), rtol=1e-9)
    assert 2 < steps < 30  # from far away
    p = special.expit(A @ theta)
    m = W @ p
    slope = prior * theta - ((bags.n / phi * (s - m) / (m * (1 - m))) @ (W * (p * (1 - p)))) @ A
    curve = np.diag(information(A, W, bags.n / phi, prior, theta))
    assert gradient == pytest.approx(np.abs(slope / np.sqrt(curve)).max(), abs=1e-9)
    assert gradient < 1e-3
    again, _, _, more = proportions._descend(A, bags, s, phi, prior, theta)
    assert more <= 2
    np.testing.assert_allclose(again, theta, atol=1e-4)


def mode_with_context(A, W, n, s, prior, start, context):
    """Minimize the objective of places by quasi-Newton steps with numerical slopes: composition shifts the logit of a bag's mean."""
    K = A.shape[1]

    def loss(theta):
        m = special.expit(special.logit(W @ special.expit(A @ theta[:K])) + context @ theta[K:])
        return 0.5 * prior @ theta**2 - n @ (special.xlogy(s, m) + special.xlogy(1 - s, 1 - m))

    return optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-6}).x


def information_with_context(A, W, n, prior, theta, context):
    K, H = A.shape[1], np.diag(prior)
    p = special.expit(A @ theta[:K])
    for w, people, c in zip(W, n, context, strict=True):
        own = w @ p
        m = special.expit(special.logit(own) + c @ theta[K:])
        slope = np.append(((w * p * (1 - p)) @ A) / (own * (1 - own)), c)  # of the logit of the mean
        H = H + people * m * (1 - m) * np.outer(slope, slope)
    return H


def places_by_hand(A, block, bags, s):
    """The rounds of a fit to places."""
    W, squares, n, K = bags.W.toarray(), bags.squares.toarray(), bags.n, A.shape[1]
    variance = 0.45**2 * np.array([1.0, 0.09, 1.0])
    prior = np.concatenate([[1e-4], 1 / variance[block], 1 / (0.3 * variance[block])])
    theta, phi = np.zeros(2 * K - 1), np.ones(len(s))
    theta[0] = special.logit(np.average(s, weights=n))
    for _ in range(40):
        p = special.expit(A @ theta[:K])
        m, slope = W @ p, W @ (p * (1 - p))
        context = (slope / (m * (1 - m)))[:, None] * (W @ A[:, 1:])
        theta = mode_with_context(A, W, n / phi, s, prior, theta, context)
        Sigma = np.linalg.inv(information_with_context(A, W, n / phi, prior, theta, context))
        p = special.expit(A @ theta[:K])
        m, slope, chance = W @ p, W @ (p * (1 - p)), squares @ (p * (1 - p))
        m = special.expit(special.logit(m) + context @ theta[K:])
        df = len(s) - (1 - prior * np.diag(Sigma)).sum()

        def gap(t, m=m, chance=chance, slope=slope, df=df):
            return ((s - m) ** 2 / (chance + t * slope**2)).sum() - df

        tau2 = optimize.brentq(gap, 0, 16) if gap(0.0) > 0 else 0.0
        before, phi = phi, np.maximum((chance + tau2 * slope**2) / (m * (1 - m) / n), 0.2)
        if np.abs(np.log(phi / before)).max() < 0.03:
            return theta[:K], Sigma[:K, :K], variance, np.sqrt(tau2)
    raise AssertionError


def fit_by_hand(A, block, bags, s, places):
    """The rounds of the fit with another optimizer, explicit matrices and another root."""
    if places:
        return places_by_hand(A, block, bags, s)
    W, squares, n = bags.W.toarray(), bags.squares.toarray(), bags.n
    usual = np.array([0.3, 0.03, 0.5])
    variance = usual
    theta, phi, tau2 = np.zeros(A.shape[1]), np.ones(len(s)), 0.0
    for _ in range(40):
        prior = np.append(1e-4, 1 / variance[block])
        theta = mode_by_quasi_newton(A, W, n / phi, s, prior, theta)
        Sigma = np.linalg.inv(information(A, W, n / phi, prior, theta))
        p = special.expit(A @ theta)
        m, slope, chance = W @ p, W @ (p * (1 - p)), squares @ (p * (1 - p))
        used = 1 - prior * np.diag(Sigma)
        before = np.append(variance, phi)
        if (n > 1).any():
            df = len(s) - used.sum()

            def gap(t, m=m, chance=chance, slope=slope, df=df):
                return ((s - m) ** 2 / (chance + t * slope**2)).sum() - df

            tau2 = optimize.brentq(gap, 0, 16) if gap(0.0) > 0 else 0.0
            phi = np.maximum((chance + tau2 * slope**2) / (m * (1 - m) / n), 0.2)
        for k in range(3):
            mine = block == k
            pooled = (theta[1:][mine] ** 2).sum() + 4 * usual[k]
            variance = np.where(np.arange(3) == k, pooled / (used[1:][mine].sum() + 4), variance)
        if np.abs(np.log(np.append(variance, phi) / before)).max() < 0.03:
            return theta, Sigma, variance, np.sqrt(tau2)
    raise AssertionError


@pytest.mark.parametrize(
    ("sizes", "slope", "between", "places"),
    [
        ([12] * 80, 1.0, 0.0, False),
        ([12] * 80, 1.0, 0.8, False),
        ([3, 30] * 30, 1.0, 0.5, True),
        ([1] * 150, 1.0, 0.0, False),
        ([40] * 30, 4.0, 0.0, False),
    ],
    ids=["random", "bags that differ", "places", "persons", "steep"],
)
def test_the_fit_is_that_of_its_rounds_by_hand(sizes, slope, between, places):
    A, block, bags, s = world(np.array(sizes), 5, slope, between)
    found = proportions.fit_proportions(A, block, bags, s, places=places)
    theta, Sigma, variance, bag_sd = fit_by_hand(A, block, bags, s, places)
    np.testing.assert_allclose(found.theta, theta, atol=2e-3)
    np.testing.assert_allclose(found.Sigma, Sigma, rtol=5e-3, atol=2e-4)
    np.testing.assert_allclose(found.variance, variance, rtol=2e-3)
    assert found.bag_sd == pytest.approx(bag_sd, abs=2e-3)
    assert found.gradient < 0.01


def test_what_does_not_settle_is_no_fit(monkeypatch):
    A, block, bags, s = world(np.full(80, 12), 5, 1.0, 0.8)
    monkeypatch.setattr(proportions, "MOST_ROUNDS", 2)
    with pytest.raises(ConvergenceError):
        proportions.fit_proportions(A, block, bags, s, places=False)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_proportions_at_their_ends_have_a_mode(share):
    A, block, bags, _ = world(np.full(30, 1000), 5)
    found = proportions.fit_proportions(A, block, bags, np.full(30, share), places=True)
    assert np.isfinite(found.theta).all()
    assert np.sign(found.theta[0]) == 2 * share - 1
    assert np.abs(special.expit(A @ found.theta) - share).max() < 1e-5
