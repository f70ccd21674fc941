"""What a user sees: fit, predict, sample, tables, and sentences when something cannot be answered."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslevel.binned import BinnedGP, Boxes, Intervals, Polygons, WeightedSum, stack
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.integrals.correlations import Correlation

AGES = Intervals.from_edges([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
PEOPLE = [21.0, 34, 60, 52, 33, 25, 17, 9, 4]
FIXED = {"variance": 5.0, "lengthscale": 10.0, "noise": 1.0, "mean": 0.0}


@pytest.fixture
def gp():
    return BinnedGP(**FIXED).fit(AGES, PEOPLE, quantity="total")


def curve(x):
    return 3.0 + 2.0 * np.sin(x / 3.0)


def total(a, b):
    return 3.0 * (b - a) - 6.0 * (np.cos(b / 3.0) - np.cos(a / 3.0))


@pytest.mark.parametrize("kernel", ["eq", "matern32"])
def test_the_truth_is_found_and_intervals_cover(kernel):
    rng = np.random.default_rng(5)
    edges = np.cumsum(np.append(0, rng.uniform(0.5, 1.5, 40)))
    y = total(edges[:-1], edges[1:]) + rng.normal(size=40) * 0.05
    gp = BinnedGP(kernel).fit(Intervals.from_edges(edges), y, quantity="total")
    x = np.linspace(1, edges[-1] - 1, 80)
    mean, std = gp.predict(x, return_std=True)
    assert np.abs(mean - curve(x)).max() < 0.4
    assert np.mean(np.abs(mean - curve(x)) < 1.96 * std) > 0.85
    new = Intervals([2.0, 10.3], [7.5, 11.1])
    mean, std = gp.predict(new, return_std=True)
    assert (np.abs(mean - total(new.lower, new.upper)) < 4 * std).all()
    assert gp.convergence_.converged
    assert 0.85 <= gp.leave_one_out().coverage <= 1
    assert gp.convergence_.slope < 1e-2
    assert gp.hyperparameters_["noise"] == pytest.approx(0.05**2, rel=1.0)


def test_parts_add_up_to_wholes(gp):
    parts = Intervals.from_edges([5, 17, 30.5, 60, 95])
    mean, cov = gp.predict(parts, return_cov=True)
    whole, var = gp.predict(Intervals([5], [95]), return_cov=True)
    assert mean.sum() == pytest.approx(whole[0], rel=1e-12)
    assert cov.sum() == pytest.approx(var[0, 0], rel=1e-9)
    draws = gp.sample(stack(parts, Intervals([5], [95])), n_draws=50, random_state=1)
    np.testing.assert_allclose(draws[:, :4].sum(axis=1), draws[:, 4], rtol=1e-6)


def test_joint_covariance_is_valid_and_samples_follow_it(gp):
    both = stack([3.0, 50.0, 51.0], Intervals([0, 20, 45], [90, 30, 55]))
    mean, cov = gp.predict(both, return_cov=True)
    assert (cov == cov.T).all()
    assert np.linalg.eigvalsh(cov)[0] > -1e-10 * np.trace(cov)
    np.testing.assert_allclose(mean[:3], gp.predict([3.0, 50.0, 51.0]), rtol=1e-12)
    draws = gp.sample(both, n_draws=20000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(np.diag(cov) / 20000).max())
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.04 * np.diag(cov).max())


def test_kinds_are_one_model():
    """Totals, and means of the same with noise to match, give the same curve; a density over a region is its mean."""
    width = AGES.volumes
    sizes = np.arange(1, 10)
    totals = BinnedGP(**{**FIXED, "noise": 0.3}).fit(AGES, PEOPLE, quantity="total", std_error=None, sizes=sizes)
    means = BinnedGP(**{**FIXED, "noise": 0.3}).fit(AGES, PEOPLE / width, quantity="mean", sizes=width**2 / sizes)
    rates = BinnedGP(**{**FIXED, "noise": 0.3}).fit(AGES, PEOPLE / width, quantity="rate", sizes=width**2 / sizes)
    x = [5.0, 33.0]
    for other in (means, rates):
        np.testing.assert_allclose(totals.predict(x, return_std=True), other.predict(x, return_std=True), rtol=1e-9)
    np.testing.assert_allclose(totals.predict(AGES, quantity="total"), means.predict(AGES) * width, rtol=1e-9)
    np.testing.assert_allclose(
        totals.predict(AGES, quantity="density"), means.predict(AGES, quantity="mean"), rtol=1e-9
    )


def test_noise_of_means_falls_with_their_size():
    few, many = (
        BinnedGP(**FIXED)
        .fit(AGES, PEOPLE / AGES.volumes, quantity="mean", sizes=np.full(9, n))
        .predict([45.0], return_std=True)[1]
        for n in (1, 100)
    )
    assert many < 0.5 * few
    exposure = WeightedSum.of_population(AGES, np.full(9, 100.0), owner=np.arange(9))
    rate = BinnedGP(**FIXED).fit(exposure, PEOPLE / AGES.volumes, quantity="rate").predict([45.0], return_std=True)[1]
    np.testing.assert_allclose(rate, many, rtol=1e-9)


def test_known_margins_of_error_are_the_noise():
    errors = np.linspace(0.5, 2.0, 9)
    known = BinnedGP(variance=5.0, lengthscale=10.0, mean=0.0).fit(AGES, PEOPLE, quantity="total", std_error=errors)
    assert known.hyperparameters_["noise"] == 0.0
    same = BinnedGP(**{**FIXED, "noise": 1.0}).fit(AGES, PEOPLE, quantity="total", sizes=errors**2)
    np.testing.assert_allclose(known.predict([25.0], return_std=True), same.predict([25.0], return_std=True), rtol=1e-9)


def test_points_and_regions_observed_together():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 20, 15)
    bins = Intervals.from_edges(np.arange(0, 21, 2.0))
    y = np.append(total(bins.lower, bins.upper), curve(x)) + rng.normal(size=25) * 0.01
    gp = BinnedGP(noise=1e-4).fit(stack(bins, x), y, quantity="total")
    at = np.linspace(0.5, 19.5, 30)
    assert np.abs(gp.predict(at) - curve(at)).max() < 0.05
    nested = Intervals([0, 0, 5], [20, 10, 6])
    overlapping = BinnedGP(noise=1.0).fit(
        stack(bins, nested),
        100 * np.append(total(bins.lower, bins.upper), total(nested.lower, nested.upper)),
        quantity="total",
    )
    assert overlapping.predict(Intervals([5], [6]))[0] == pytest.approx(100 * total(5, 6), abs=5)


def test_audience_of_the_paper():
    """Ages x gender: 30-40 of either gender, 25-35 women; how many men of 20-30?"""
    who = stack(
        WeightedSum(Boxes([[30.0, 0], [30, 1]], [[40.0, 0], [40, 1]], point_axes=[1]), [1.0, 1.0]),
        Boxes([[25.0, 1.0]], [[35.0, 1.0]], point_axes=[1]),
    )
    gp = BinnedGP(variance=100.0, lengthscale=[15.0, 1.0], noise=100.0, mean=15.0).fit(
        who, [320, 210], quantity="total"
    )
    men = Boxes([[20.0, 0.0]], [[30.0, 0.0]], point_axes=[1])
    mean, std = gp.predict(men, quantity="total", return_std=True)
    assert 120 < mean[0] < 220
    assert 10 < std[0] < 100


@given(st.permutations(range(9)), st.floats(0.1, 30), st.floats(-100, 100))
@settings(max_examples=25)
def test_order_units_and_origin_do_not_matter(order, unit, origin):
    plain = BinnedGP(**FIXED).fit(AGES, PEOPLE, quantity="total").predict([33.0], return_std=True)
    rows = np.array(order)
    moved = Intervals(AGES.lower[rows] * unit + origin, AGES.upper[rows] * unit + origin)
    other = BinnedGP(variance=5.0 / unit**2, lengthscale=10.0 * unit, noise=1.0, mean=0.0).fit(
        moved, np.array(PEOPLE)[rows], quantity="total"
    )
    found = np.array(other.predict([33.0 * unit + origin], return_std=True)) * unit
    np.testing.assert_allclose(found, plain, rtol=1e-8)


def test_a_narrow_bin_is_a_point(gp):
    w = 1e-5
    mean, std = gp.predict(Intervals([33 - w / 2], [33 + w / 2]), quantity="mean", return_std=True)
    np.testing.assert_allclose((mean, std), gp.predict([33.0], return_std=True), rtol=1e-6)


def test_the_solver_is_chosen_by_size_and_said():
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 50, 2502)
    gp = BinnedGP().fit(
        Intervals.from_edges(edges), total(edges[:-1], edges[1:]) + rng.normal(size=2501) * 1e-3, quantity="total"
    )
    assert gp.solver_.startswith("features, ")
    assert "relative error" in gp.solver_
    assert gp._fit.error < 1e-5
    assert np.abs(gp.predict([10.0, 33.0]) - curve(np.array([10.0, 33.0]))).max() < 0.05


def test_features_find_what_dense_finds():
    rng = np.random.default_rng(1)
    edges = np.linspace(0, 40, 81)
    y = total(edges[:-1], edges[1:]) + rng.normal(size=80) * 0.02
    bins = Intervals.from_edges(edges)
    dense, other = (BinnedGP(solver=s).fit(bins, y, quantity="total") for s in ("dense", "features"))
    assert other.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-3)
    for name in ("lengthscale", "noise"):
        assert other.hyperparameters_[name] == pytest.approx(dense.hyperparameters_[name], rel=0.02)


def test_short_curves_move_the_window_of_features():
    """At long lengthscales they look like noise; the search must not stop there."""
    rng = np.random.default_rng(1)
    edges = np.linspace(0, 40, 201)
    K = Correlation("eq").covariance((edges[:-1], edges[1:]), None, 0.8)[0]
    y = rng.multivariate_normal(np.zeros(200), K + 1e-4 * np.eye(200))
    bins = Intervals.from_edges(edges)
    gp = BinnedGP(solver="features").fit(bins, y, quantity="total")
    dense = BinnedGP(solver="dense").fit(bins, y, quantity="total")
    assert gp.hyperparameters_["lengthscale"] == pytest.approx(dense.hyperparameters_["lengthscale"], rel=0.05)
    assert gp.hyperparameters_["lengthscale"] == pytest.approx(0.8, rel=0.2)
    assert gp.log_evidence_ == pytest.approx(dense.log_evidence_, abs=0.1)


def test_table(gp):
    est = gp.estimate(Intervals([0, 25, 500], [10, 35, 510]))
    assert est.keys == ("lower", "upper")
    assert est["informed"].tolist() == [True, True, False]
    assert est["area_weighted"][:2].tolist() == [21.0, 56.0]
    assert np.isnan(est["area_weighted"].astype(float)[2])
    assert any("1 row(s) are estimated from the prior alone" in w for w in est.warnings)
    assert est.diagnostics["leave_one_out"]["log_score"] == pytest.approx(gp.leave_one_out().log_score)
    assert est.diagnostics["solver"] == "dense, exact integrals, n = 9"
    assert len(gp.estimate()) == 9
    twice = gp.estimate([30.0, 30.0])
    assert twice.keys == ("row", "point")
    low = BinnedGP(**FIXED).fit(Intervals([0, 10], [10, 20]), [0.0, 40.0], quantity="total").estimate([-3.0, 2.0])
    assert any("negative though nothing observed is" in w for w in low.warnings)


def test_few_bins_have_a_prior_that_can_be_taken_away():
    gp = BinnedGP().fit(AGES, PEOPLE, quantity="total")
    assert any("has a prior" in n for n in gp.warnings_)
    free = BinnedGP(prior="none").fit(AGES, PEOPLE, quantity="total")
    assert not any("has a prior" in n for n in free.warnings_)
    assert free.log_evidence_ >= gp.log_evidence_ - 1e-6


@pytest.mark.parametrize(
    ("params", "call"),
    [
        ({}, {"quantity": None}),
        ({}, {"quantity": "sum"}),
        ({}, {"y": [1.0, np.nan] + [1.0] * 7}),
        ({}, {"y": [1.0, 2.0]}),
        ({}, {"sizes": [0] * 9}),
        ({}, {"sizes": [1]}),
        ({}, {"std_error": [-1] * 9}),
        ({}, {"std_error": [1]}),
        ({"kernel": "gauss"}, {}),
        ({"kernel": 3}, {}),
        ({"solver": "dens"}, {}),
        ({"solver": "features", "variance": 1.0, "lengthscale": 9.0, "noise": 0.0}, {}),
        ({"prior": "some"}, {}),
        ({"noise": -1.0}, {}),
        ({"variance": -1.0}, {}),
        ({"variance": "x"}, {}),
        ({"lengthscale": [1.0, 2.0]}, {}),
        ({"kernel": "eq + matern32"}, {}),
        ({"tolerance": 0.0}, {}),
    ],
)
def test_bad_input(params, call):
    given_call = {"y": PEOPLE, "quantity": "total"} | call
    with pytest.raises(InputError):
        BinnedGP(**params).fit(AGES, given_call.pop("y"), **given_call)


def test_bad_questions(gp):
    for ask in (
        lambda: gp.predict([1.0], quantity="sum"),
        lambda: gp.predict([[1.0, 2.0]]),
        lambda: gp.predict([1.0], return_std=True, return_cov=True),
        lambda: gp.sample([1.0], n_draws=0),
        lambda: gp.estimate(level=95),
    ):
        with pytest.raises(InputError):
            ask()


def mosaic(n=5):
    """Squares of a chessboard, as polygons and as boxes, in whose rates neighbors have nothing in common."""
    corner = np.array([[i, j] for i in range(n) for j in range(n)], dtype=float)
    shapes = corner[:, None] + [[0, 0], [1, 0], [1, 1], [0, 1]]
    return Polygons(list(shapes)), np.random.default_rng(3).normal(size=n * n), Boxes(corner, corner + 1)


def test_features_that_cannot_follow_the_regions_say_so(monkeypatch):
    """Known noise far below what a smooth surface leaves: the likelihood asks for ever shorter lengthscales."""
    monkeypatch.setattr("crosslevel.binned.gaussian.fit.FEATURES_OF_FEW", 300)
    regions, y, boxes = mosaic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = BinnedGP("matern32", noise=0.0, tolerance=1e-2).fit(
            regions, y, quantity="mean", std_error=np.full(25, 0.02)
        )
    told = "features: the likelihood still rises toward shorter lengthscales than 300 features hold (lengthscale_"
    assert any(str(w.message).startswith(told) for w in caught)
    assert not any("at a limit of the search: lengthscale" in n for n in gp.warnings_)
    assert any(w.startswith(told) for w in gp.estimate().warnings)
    # an exact way ends at shorter ones, and higher
    dense = BinnedGP("matern32", noise=0.0, solver="dense", lengthscale=0.2)
    assert dense.fit(boxes, y, quantity="mean", std_error=np.full(25, 0.02)).log_evidence_ > gp.log_evidence_ + 3


def test_an_error_of_features_above_the_noise_is_told():
    regions, y, _ = mosaic(4)
    given = {"variance": 1.0, "lengthscale": 1.0, "noise": 1e-6, "mean": 0.0, "tolerance": 9e-4}
    with pytest.warns(CrosslevelWarning):
        BinnedGP("matern32", **given).fit(regions, y, quantity="mean")
    loud = BinnedGP("matern32", **{**given, "noise": 0.1}).fit(regions, y, quantity="mean")
    assert not any("features leave" in n for n in loud.warnings_)


def test_few_polygons_get_the_features_they_need():
    regions, y, boxes = mosaic(3)
    gp = BinnedGP("matern32", variance=1.0, lengthscale=0.2, noise=0.1, tolerance=2e-5).fit(regions, y, quantity="mean")
    assert len(gp._fit.posterior.solver.basis) > 1200
    dense = BinnedGP("matern32", variance=1.0, lengthscale=0.2, noise=0.1, solver="dense").fit(
        boxes, y, quantity="mean"
    )
    np.testing.assert_allclose(gp.predict(regions), dense.predict(boxes), atol=3e-3)
    assert gp.log_evidence_ == pytest.approx(dense.log_evidence_, abs=0.02)


def test_area_weighting_stands_beside_polygons():
    regions, y, _ = mosaic(2)
    gp = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit(regions, y, quantity="total")
    new = Polygons([[[0, 0], [2, 0], [2, 1], [0, 1]], [[0.5, 0], [1, 0], [0.5, 0.5]], [[1, 1], [3, 1], [3, 2], [1, 2]]])
    found = gp.estimate(new)
    np.testing.assert_allclose(found["area_weighted"][:2], [y[0] + y[2], y[0] / 8])
    assert np.isnan(found["area_weighted"].astype(float)[2])  # half of it was not observed
    overlapping = regions[[*range(4), 0]]
    twice = BinnedGP(variance=1.0, lengthscale=2.0, noise=0.01, mean=0.0).fit(overlapping, [*y, y[0]], quantity="total")
    assert "area_weighted" not in twice.estimate(new).table.column_names
