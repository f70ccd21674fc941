"""Collapsed places: against the matrix of all places, slopes against differences, and the field on a few points."""

from dataclasses import replace

import numpy as np
import pytest

from crosslevel.ecological import collapsed
from crosslevel.ecological.collapsed import Spread, collapse, measure_approximation
from crosslevel.ecological.covariance import Hyperparameters, Terms, place_covariance
from crosslevel.numerics.kernels import leaves

H = Hyperparameters(0.2, 0.15, 1.3, 0.04, 0.05, 0.02)


def make(q=90, n_locations=25, seed=0, kind="matern32", groups=True, **more):
    """Places at few locations, in groups that are not nested, with some slopes and what was seen."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (n_locations, 2))[rng.integers(0, n_locations, q)]
    group = (rng.integers(0, 4, q), rng.integers(0, 9, q)) if groups else (None, None)
    terms = Terms(q, kind, xy, "plane", True, group[0], second_group=group[1], **more)
    return terms, rng.uniform(0.01, 0.2, q), rng.normal(size=(q, 3)), rng.normal(size=q)


def matrix(terms, noise, h=H):
    return place_covariance(terms, h) + np.diag(noise)


@pytest.mark.parametrize("groups", [True, False])
def test_collapsed_places_are_those_of_the_whole_matrix(groups):
    terms, noise, X, _seen = make(groups=groups)
    cells = collapse(terms)
    assert cells.terms.n_places < terms.n_places
    assert cells.exact
    C = matrix(terms, noise)
    spread = Spread(cells, H, noise)
    np.testing.assert_allclose(spread.gram(X), X.T @ np.linalg.solve(C, X), rtol=1e-9)
    np.testing.assert_allclose(spread.solve(X), np.linalg.solve(C, X), rtol=1e-8, atol=1e-9)
    assert spread.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(C)[1], rel=1e-10)


def test_a_context_is_part_of_the_covariance():
    terms, noise, X, seen = make()
    context = np.random.default_rng(1).normal(size=(len(seen), 2))
    C = matrix(terms, noise) + H.effect_variance * context @ context.T
    spread = Spread(collapse(terms), H, noise, context)
    np.testing.assert_allclose(spread.gram(X), X.T @ np.linalg.solve(C, X), rtol=1e-8)
    np.testing.assert_allclose(spread.solve(X), np.linalg.solve(C, X), rtol=1e-7, atol=1e-8)
    assert spread.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(C)[1], rel=1e-9)


@pytest.mark.parametrize("kind", ["matern12", "matern32", "matern52", None])
@pytest.mark.parametrize("points", [None, 8])
@pytest.mark.parametrize("groups", [True, False])
def test_slopes_of_the_evidence_are_those_of_differences(kind, points, groups, monkeypatch):
    if kind is None:
        monkeypatch.setattr(collapsed, "EXACT", 0 if points else 10**6)  # groups alone may be many too
        points = None
    terms, noise, X, seen = make(kind=kind, groups=groups, inducing_points=points)
    cells = collapse(terms)

    def value(logs):
        return Spread(cells, terms.unpack(logs), noise).evidence(X, seen)

    x = np.log([getattr(H, name) for name in terms.names])
    found = value(x)[1]
    for j, name in enumerate(terms.names):
        step = 1e-5 * np.eye(len(x))[j]
        change = (value(x + step)[0] - value(x - step)[0]) / 2e-5
        assert found[name] == pytest.approx(change, abs=2e-5), name


RATIOS = (0.3, 1.0, 2.5)


@pytest.mark.parametrize("points", [None, 8])
def test_nuggets_by_level_are_on_the_diagonal_and_have_their_slopes(points):
    terms, noise, X, seen = make(inducing_points=points)
    level = np.random.default_rng(2).integers(0, 3, len(seen))
    terms = replace(terms, nugget_level=level, nugget_levels=("a", "b", "c"))
    cells = collapse(terms)
    h = replace(H, nugget_ratios=RATIOS)
    if points is None:
        C = place_covariance(terms, replace(H, nugget=0.0)) + np.diag(noise + 0.04 * np.array(RATIOS)[level])
        np.testing.assert_allclose(Spread(cells, h, noise).gram(X), X.T @ np.linalg.solve(C, X), rtol=1e-9)
    assert terms.unpack(terms.pack(h)).nugget_ratios == pytest.approx(RATIOS)

    def value(logs):
        return Spread(cells, terms.unpack(logs), noise).evidence(X, seen)

    x = terms.pack(h)
    found = value(x)[1]
    for j, name in enumerate([*terms.names, "nugget:0", "nugget:1", "nugget:2"]):
        step = 1e-5 * np.eye(len(x))[j]
        change = (value(x + step)[0] - value(x - step)[0]) / 2e-5
        assert found[name] == pytest.approx(change, abs=2e-5), name


def test_the_evidence_is_the_normal_density():
    terms, noise, X, seen = make()
    A = matrix(terms, noise) + H.effect_variance * X @ X.T
    wanted = -0.5 * seen @ np.linalg.solve(A, seen) - 0.5 * np.linalg.slogdet(A)[1]
    assert Spread(collapse(terms), H, noise).evidence(X, seen)[0] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("metric", ["plane", "sphere"])
def test_points_at_all_locations_leave_nothing_out(metric):
    terms, noise, X, seen = make()
    terms = replace(terms, metric=metric, coords=terms.coords if metric == "plane" else 1e-2 * terms.coords)
    every = collapse(replace(terms, inducing_points=1000))
    assert not every.exact
    one, two = (Spread(cells, H, noise) for cells in (collapse(terms), every))
    np.testing.assert_allclose(two.gram(X), one.gram(X), rtol=1e-5)
    assert two.half_log_det == pytest.approx(one.half_log_det, abs=1e-4)
    rows = np.arange(len(seen))
    a, b = (s.predict(X, seen, X, s.cells.index, rows) for s in (one, two))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-4)
    np.testing.assert_allclose(a.variance, b.variance, rtol=1e-3)


@pytest.mark.parametrize(("points", "ratios"), [(None, ()), (12, ()), (None, RATIOS)])
def test_predictions_are_the_normal_formula(points, ratios):
    terms, noise, X, seen = make(inducing_points=points)
    shown, level, h = np.arange(0, 90, 2), np.arange(90) % 3 if ratios else None, replace(H, nugget_ratios=ratios)
    terms = replace(terms, nugget_level=level)
    cells = collapse(terms)
    K = place_covariance(terms, h)
    if points:  # the covariance that the points make, column by column
        basis = collapsed.basis_of(cells.between, cells.points, H.length, "matern32")
        field = H.spatial * (basis.Phi @ basis.Phi.T + np.diag(basis.rest))[np.ix_(cells.index, cells.index)]
        K = place_covariance(replace(terms, kind=None), H) + field
    prior = K + 0.2 * X @ X.T
    A = np.linalg.inv(prior[np.ix_(shown, shown)] + np.diag(noise[shown]))
    row = np.full(90, -1)
    row[shown] = np.arange(len(shown))
    spread = Spread(cells.observed(shown), h, noise[shown])
    at = spread.predict(X[shown], seen[shown], X, cells.index, row, level)
    np.testing.assert_allclose(at.mean, prior[:, shown] @ A @ seen[shown], atol=2e-6)
    wanted = np.diag(prior - prior[:, shown] @ A @ prior[shown])
    np.testing.assert_allclose(at.variance, wanted, atol=2e-6)


def test_a_field_on_too_few_points_is_measured():
    terms, noise, X, seen = make(q=300, n_locations=300, groups=False)
    off = []
    for points in (5, 40, 300):
        cells = collapse(replace(terms, inducing_points=points))
        off.append(measure_approximation(terms, cells, H, noise, X, seen, np.zeros(300)))
    assert off[0].mean > off[1].mean > off[2].mean
    assert off[0].std_error > off[1].std_error > off[2].std_error
    assert off[2].mean < 0.01
    assert off[0].places == 900  # every place around each of three


def test_more_cells_than_a_matrix_holds_take_points(monkeypatch):
    monkeypatch.setattr(collapsed, "EXACT", 50)
    monkeypatch.setattr(collapsed, "POINTS", 20)
    monkeypatch.setattr(collapsed, "LOCATIONS", 60)
    terms, *_ = make(q=200, n_locations=200, groups=False)
    cells = collapse(terms)
    assert cells.between.shape == (60, 20)
    assert cells.n_locations > 100
    assert set(np.unique(cells.index)) == set(range(60))
    few, *_ = make(q=200, n_locations=30, groups=False)
    assert collapse(few).exact


def test_leaves_are_of_equal_size_and_hold_their_middle():
    x = np.random.default_rng(0).normal(size=(1000, 3))
    leaf, middle = leaves(x, 37)
    assert np.bincount(leaf).min() >= 1000 // 37 - 4
    assert leaf[middle].tolist() == list(range(37))
    order = np.random.default_rng(1).permutation(1000)
    again = leaves(x[order], 37)
    assert sorted(order[again[1]].tolist()) == sorted(middle.tolist())


@pytest.mark.parametrize("points", [None, 8])
def test_cells_under_other_noise_are_as_if_made_anew(points):
    terms, noise, X, seen = make(inducing_points=points)
    cells = collapse(terms)
    first = Spread(cells, H, noise)
    first.evidence(X, seen)
    again, anew = Spread(cells, H, 2.0 * noise, like=first), Spread(cells, H, 2.0 * noise)
    assert again.evidence(X, seen) == anew.evidence(X, seen)
