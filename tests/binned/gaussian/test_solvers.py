"""Two ways to one posterior: dense against brute force, features against dense."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.binned import BinnedGP, Boxes, Intervals, Polygons, WeightedSum, stack
from crosslevel.binned.gaussian import sines
from crosslevel.binned.gaussian.covariances import lay_out, prior_covariance, read_kernel, variances
from crosslevel.binned.gaussian.dense import DenseSolver
from crosslevel.binned.gaussian.features import FeaturePosterior, FeatureSolver, FewPosterior
from crosslevel.binned.gaussian.model import make_problem
from crosslevel.binned.regions.base import SineBasis
from crosslevel.errors import InputError


def bins(rng, quantity="total", mean=None, **known):
    edges = np.cumsum(rng.uniform(0.2, 1.0, 26))
    regions = Intervals.from_edges(edges)
    return make_problem(regions, np.sin(edges[1:]) + rng.normal(size=25) * 0.1, quantity, mean=mean, **known)


def features(problem, kernel, logs, tolerance=1e-8):
    span = sines.span_of(logs, *problem.regions.bounds())
    basis, error = sines.grow(kernel, logs, span, problem.regions, tolerance, 3000)
    assert error <= tolerance
    return FeatureSolver(problem, kernel, basis, error)


def solvers(rng):
    one = read_kernel("eq", 1)
    logs = np.log([2.0, 1.3])
    two = read_kernel("matern52", 2)
    for problem in (
        bins(rng, mean=0.3),
        bins(rng, "mean", sizes=rng.integers(1, 9, 25)),
        bins(rng, "rate", std_error=rng.uniform(0.05, 0.1, 25)),
    ):
        yield DenseSolver(problem, one), logs
        long = np.log([2.0, 4.0])
        few = features(problem, one, long, 1e-6)
        assert len(few.basis) < 25
        yield few, long
        many = features(problem, one, logs, 1e-6)  # more features than regions
        wide = SineBasis(many.basis.center, many.basis.half_width, np.arange(1, 61)[:, None])
        yield FeatureSolver(problem, one, wide), logs
    low = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij"), axis=-1).reshape(-1, 2)
    for quantity in ("total", "mean"):
        problem = make_problem(Boxes(low, low + np.array([1.0, 1.5])), rng.normal(size=20), quantity)
        yield DenseSolver(problem, two), np.log([2.0, 1.3, 0.8])


def test_gradients_are_difference_quotients(rng):
    step, noise = 1e-5, 0.05
    for solver, logs in solvers(rng):
        found = solver.objective(logs, noise)
        assert found.value == pytest.approx(solver.condition(logs, noise).log_evidence, rel=1e-12)
        for i, slope in enumerate(found.by_kernel):
            up, down = (solver.objective(logs + e * np.eye(len(logs))[i], noise).value for e in (step, -step))
            assert slope == pytest.approx((up - down) / (2 * step), abs=2e-6), solver.describe()
        up, down = (solver.objective(logs, noise * np.exp(e)).value for e in (step, -step))
        assert found.by_noise == pytest.approx((up - down) / (2 * step), abs=2e-6), solver.describe()


@pytest.mark.parametrize("quantity", ["total", "mean"])
def test_dense_against_brute_force(rng, quantity):
    """Cut every bin into 120 slices and condition the slices."""
    problem = bins(rng, quantity, mean=0.3, sizes=rng.integers(1, 9, 25))
    kernel, logs, noise = read_kernel("eq", 1), np.log([2.0, 1.3]), 0.05
    lower, upper = (x[:, 0] for x in problem.regions.bounds())
    t = (np.arange(120) + 0.5) / 120
    x = (lower[:, None] + (upper - lower)[:, None] * t).ravel()
    A = np.kron(np.eye(25), np.ones(120)) * np.repeat((upper - lower) / 120, 120)
    A = A * problem.scale[:, None]
    k = 2.0 * np.exp(-((x[:, None] - x) ** 2) / (2 * 1.3**2))
    S = A @ k @ A.T + np.diag(problem.noise(noise))
    mean = 0.3 * A.sum(axis=1)
    post = DenseSolver(problem, kernel).condition(logs, noise)
    assert post.log_evidence == pytest.approx(stats.multivariate_normal(mean, S).logpdf(problem.y), abs=2e-3)
    target = Intervals([1.0, 2.5], [4.0, 2.7])
    B = np.array([(x > a) & (x < b) for a, b in ((1.0, 4.0), (2.5, 2.7))]) * np.repeat((upper - lower) / 120, 120)
    gain = B @ k @ A.T @ np.linalg.inv(S)
    found = post.predict(target, np.ones(2), covariance=True)
    np.testing.assert_allclose(found.mean, 0.3 * B.sum(axis=1) + gain @ (problem.y - mean), atol=5e-3)
    np.testing.assert_allclose(found.covariance, B @ k @ B.T - gain @ A @ k @ B.T, atol=5e-3)


def test_estimated_level_is_generalized_least_squares(rng):
    problem = bins(rng, "mean")
    kernel, logs = read_kernel("eq", 1), np.log([2.0, 1.3])
    fixed = [DenseSolver(bins_with(problem, m), kernel).condition(logs, 0.1) for m in (0.0, 1.0)]
    free = DenseSolver(problem, kernel).condition(logs, 0.1)
    for m in (free.level - 0.01, free.level + 0.01):
        assert DenseSolver(bins_with(problem, m), kernel).condition(logs, 0.1).log_evidence < free.log_evidence
    # the means are those at that level, and what is unknown of it is one direction more, of the size of its generalized variance
    known = DenseSolver(bins_with(problem, free.level), kernel).condition(logs, 0.1)
    target = Intervals([0.0, 3.0], [2.0, 30.0])
    a, b = (p.predict(target, np.ones(2), covariance=True) for p in (free, known))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9)
    one, zero = (DenseSolver(bins_with(problem, m), kernel).condition(logs, 0.1) for m in (1.0, 0.0))
    turn = one.predict(target, np.ones(2), False).mean - zero.predict(target, np.ones(2), False).mean
    K = prior_covariance(kernel, logs, lay_out(problem.regions.pieces()))[0] * np.outer(problem.scale, problem.scale)
    information = problem.level @ np.linalg.solve(K + np.diag(problem.noise(0.1)), problem.level)
    np.testing.assert_allclose(a.covariance - b.covariance, np.outer(turn, turn) / information, rtol=1e-6)
    assert fixed[0].level == 0.0


def bins_with(problem, mean):
    return make_problem(problem.regions, problem.y, "mean", mean=mean)


@pytest.mark.parametrize("mean", [None, 0.2])
def test_leave_one_out_is_leaving_one_out(rng, mean):
    problem = bins(rng, "mean", mean=mean, sizes=rng.integers(1, 5, 25))
    kernel, logs, noise = read_kernel("matern32", 1), np.log([2.0, 1.3]), 0.05
    post = DenseSolver(problem, kernel).condition(logs, noise)
    left = post.left_out()
    rows = np.arange(25) != 4
    rest = make_problem(
        problem.regions[rows], problem.y[rows], "mean", sizes=1 / problem.unit_noise[rows], mean=post.level
    )
    one = (
        DenseSolver(rest, kernel)
        .condition(logs, noise)
        .predict(problem.regions[4], problem.scale[4:5], covariance=False)
    )
    assert left.mean[4] == pytest.approx(one.mean[0], rel=1e-9)
    assert left.variance[4] == pytest.approx(one.variance[0] + problem.noise(noise)[4], rel=1e-9)


@pytest.mark.parametrize("name", ["eq", "matern52"])
@pytest.mark.parametrize("mean", [None, 0.0])
def test_features_agree_with_dense(rng, name, mean):
    problem = bins(rng, "total", mean=mean)
    kernel, logs, noise = read_kernel(name, 1), np.log([2.0, 1.3]), 0.05
    dense, other = DenseSolver(problem, kernel), features(problem, kernel, logs, 1e-7)
    target = stack(Intervals([1.0, 9.0], [4.0, 30.0]), [2.0, 40.0], WeightedSum(Intervals([0, 2], [1, 3]), [1.0, 2.0]))
    a, b = (s.condition(logs, noise).predict(target, np.ones(5), covariance=True) for s in (dense, other))
    np.testing.assert_allclose(a.mean, b.mean, atol=2e-6)
    np.testing.assert_allclose(a.covariance, b.covariance, atol=1e-4 if name == "matern52" else 1e-5)
    np.testing.assert_allclose(np.diag(b.covariance), b.variance, rtol=1e-12)
    x, y = (s.condition(logs, noise).left_out() for s in (dense, other))
    np.testing.assert_allclose(x.mean, y.mean, atol=1e-5)
    np.testing.assert_allclose(x.variance, y.variance, rtol=1e-5)


def test_the_error_reported_is_the_error(rng):
    problem = bins(rng)
    kernel, logs = read_kernel("eq", 1), np.log([2.0, 1.3])
    span = sines.span_of(logs, *problem.regions.bounds())
    K = prior_covariance(kernel, logs, lay_out(problem.regions.pieces()))[0]
    sd = np.sqrt(np.diag(K))
    before = np.inf
    for top in (1.5, 2.5, 4.0):
        basis = sines.choose(kernel, span, top)
        F = problem.regions.sine_integrals(basis)
        found = (F * sines.densities(kernel, logs, basis.frequencies)[0]) @ F.T
        error = np.abs((found - K) / np.outer(sd, sd)).max()
        assert sines.measure_error(kernel, logs, basis, problem.regions, K) == pytest.approx(error, rel=1e-6)
        assert error < before
        before = error


def test_variances_are_the_diagonal(rng):
    kernel, logs = read_kernel("matern12", 2), np.log([0.5, 1.0, 3.0])
    regions = stack(
        Boxes([[0.0, 0.0]], [[2.5, 3.0]]),
        [[1.0, 2.0]],
        WeightedSum(Boxes([[0, 0], [1, 1]], [[2, 2], [3, 3]]), [1, -0.5]),
    )
    layout = lay_out(regions.pieces())
    np.testing.assert_allclose(
        variances(kernel, logs, layout), np.diag(prior_covariance(kernel, logs, layout)[0]), rtol=1e-12
    )


def test_many_pieces_are_summed_in_parts(rng, monkeypatch):
    parts = Intervals.from_edges(np.linspace(0, 9, 41))
    regions = WeightedSum(parts, rng.normal(size=40), owner=np.repeat(np.arange(8), 5))
    kernel, logs = read_kernel("matern32", 1), np.log([1.0, 2.0])
    whole = prior_covariance(kernel, logs, lay_out(regions.pieces()), gradient=True)
    monkeypatch.setattr("crosslevel.binned.gaussian.covariances.AT_ONCE", 300)
    cut = prior_covariance(kernel, logs, lay_out(regions.pieces()), gradient=True)
    for a, b in zip([whole[0], *whole[1]], [cut[0], *cut[1]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_contradictions_without_noise_are_refused_and_consistent_repeats_are_not():
    regions = Intervals([0, 1, 0], [1, 2, 2])
    kernel, logs = read_kernel("eq", 1), np.log([1.0, 2.0])
    problem = make_problem(regions, [1.0, 2.0, 3.5], "total", mean=0.0)
    with pytest.raises(InputError):
        DenseSolver(problem, kernel).condition(logs, 0.0)
    post = DenseSolver(make_problem(regions, [1.0, 2.0, 3.0], "total", mean=0.0), kernel).condition(logs, 0.0)
    np.testing.assert_allclose(post.predict(regions, np.ones(3), covariance=False).mean, [1, 2, 3], atol=1e-5)


@pytest.mark.parametrize("mean", [None, 0.2])
def test_few_regions_and_few_features_are_one_posterior(rng, mean):
    """The same features conditioned in the space of regions and in their own."""
    problem = bins(rng, "mean", mean=mean, sizes=rng.integers(1, 5, 25))
    kernel, logs, noise = read_kernel("matern32", 1), np.log([2.0, 1.3]), 0.05
    solver = features(problem, kernel, logs, 1e-3)
    assert len(solver.basis) > 25
    few, many = solver.condition(logs, noise), FeaturePosterior(solver, logs, noise, solver._state(logs, noise))
    assert isinstance(few, FewPosterior)
    assert few.log_evidence == pytest.approx(many.log_evidence, rel=1e-9)
    assert few.level == pytest.approx(many.level, rel=1e-9)
    target = stack(Intervals([1.0, 9.0], [4.0, 60.0]), [2.0, 7.0])  # beyond the box as well
    a, b = (p.predict(target, np.array([1.0, 0.5, 1.0, 1.0]), covariance=True) for p in (few, many))
    for field in ("mean", "variance", "prior_variance", "covariance"):
        np.testing.assert_allclose(getattr(a, field), getattr(b, field), rtol=1e-7, atol=1e-9)
    for x, y in zip(*((p.left_out().mean, p.left_out().variance) for p in (few, many)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-7)
    np.testing.assert_allclose(
        solver.prior_variances(logs), few.predict(problem.regions, problem.scale, covariance=False).prior_variance
    )


def test_the_error_of_polygons_is_that_beside_boxes():
    """Rectangles as polygons, whose error is measured against more features, and as boxes, whose covariances are exact."""
    low = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij"), axis=-1).reshape(-1, 2)
    boxes = Boxes(low, low + np.array([1.0, 1.5]))
    polygons = Polygons([[[x, y], [x + 1, y], [x + 1, y + 1.5], [x, y + 1.5]] for x, y in low])
    for name in ("eq", "matern32"):
        kernel, logs = read_kernel(name, 2), np.log([1.0, 0.8, 0.8])
        K, span = (
            prior_covariance(kernel, logs, lay_out(boxes.pieces()))[0],
            sines.span_of(logs, *boxes.bounds()),
        )
        for top in (2.0, 3.0):
            basis, wide = sines.choose(kernel, span, top), sines.choose(kernel, span, 2 * top)
            true = sines.measure_error(kernel, logs, basis, boxes, K)
            assert 0.7 * true < sines.measure_error(kernel, logs, basis, polygons, wide) < 1.3 * true
    assert len(sines.sample_of(Polygons([[[i, 0], [i + 1, 0], [i + 1, 1 + i], [i, 1]] for i in range(50)]))) == 12


def test_polygons_are_predicted_from_boxes():
    """A dense fit of boxes answers polygons by features, as it answers the boxes that they are."""
    low = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij"), axis=-1).reshape(-1, 2)
    gp = BinnedGP("eq", variance=1.0, lengthscale=1.5, noise=0.01).fit(Boxes(low, low + 1), np.sin(low[:, 0]), "mean")
    square = [[1.5, 1.0], [3.0, 1.0], [3.0, 2.0], [1.5, 2.0]]
    ours, exact = (gp.predict(r, return_std=True) for r in (Polygons([square]), Boxes([[1.5, 1.0]], [[3.0, 2.0]])))
    np.testing.assert_allclose(np.ravel(ours), np.ravel(exact), rtol=1e-4)
    with pytest.raises(InputError):
        BinnedGP(solver="dense").fit(Polygons([square]), [1.0], "mean")
