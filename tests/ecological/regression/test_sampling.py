"""How people's features vary, and what the sampling of people does to a mean of them: against covariance matrices."""

import numpy as np
import pytest

from crosslevel.ecological.regression.sampling import PeopleSpread, Sampling, sampling_of, spread_of


def test_variance_is_that_of_the_covariance_the_directions_stand_for():
    """Orthogonal directions of lengths 2 and 0.5 of four, variance 0.3 in each of the other two."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    spread = PeopleSpread(np.array([2.0, 0.5])[:, None] * Q[:2], 0.3)
    C = 4.0 * np.outer(Q[0], Q[0]) + 0.25 * np.outer(Q[1], Q[1]) + 0.3 * (Q[2:].T @ Q[2:])
    w = rng.normal(size=(6, 4))
    np.testing.assert_allclose(spread.variance(w), np.einsum("ij,jk,ik->i", w, C, w), rtol=1e-12)


@pytest.mark.parametrize(("n", "p"), [(60, 3), (60, 30), (40, 70)])
def test_leading_directions_are_those_of_the_covariance(n, p):
    """One for every ten people; the others share what is left of the variance equally."""
    features = np.random.default_rng(p).normal(size=(n, p)) * np.linspace(3.0, 0.5, p)
    found = spread_of(features)
    values, vectors = np.linalg.eigh(np.cov(features.T, bias=True))
    k = min(p, n // 10)
    assert found.root.shape == (k, p)
    top = vectors[:, ::-1][:, :k]
    np.testing.assert_allclose(found.root.T @ found.root, (top * values[::-1][:k]) @ top.T, atol=1e-10)
    assert found.rest == pytest.approx(values[::-1][k:].sum() / max(p - k, 1), abs=1e-12)


def world(seed=0, p=3):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, p))
    M = rng.normal(size=(4, p)) * 0.2
    return features, M, np.array([1.0, 2.0, 3.0, 4.0])


def test_within_places_is_what_places_leave_of_people():
    features, M, weight = world()
    found = sampling_of(features, M, weight, np.array([5.0, 10.0, 0.5, 20.0]))
    between = weight / 10.0
    np.testing.assert_allclose(found.between, between)
    assert not found.unit
    scatter = between @ [1 / 5, 1 / 10, 1.0, 1 / 20]  # half a person counts as one
    assert found.scatter == pytest.approx(scatter)
    lengths = (features**2).sum(axis=1).mean() - between @ (M**2).sum(axis=1)
    assert found.spread == pytest.approx(lengths / (1 - scatter))
    w = np.random.default_rng(1).normal(size=(5, 3))
    people = np.einsum("ij,jk,ik->i", w, np.cov(features.T, bias=True), w)
    means = w @ M.T
    away = (means - (means @ between)[:, None]) ** 2 @ between
    np.testing.assert_allclose(found.variance(w, M), (people - away) / (1 - scatter), rtol=1e-10)


def test_at_least_a_twentieth_of_the_variance_is_within_places():
    features, _, weight = world()
    found = sampling_of(features, np.zeros((4, 3)), weight)
    assert found.scatter == 0.0
    apart = 10.0 * np.eye(4)[:, :3]
    w = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(found.variance(w, apart), 0.05 * found.people.variance(w), rtol=1e-12)


def test_few_people_scatter_by_half_at_most():
    features, M, weight = world()
    assert sampling_of(features, M, weight, np.ones(4)).scatter == 0.5


@pytest.mark.parametrize(("length", "unit"), [(1.0, True), (1.0002, True), (1.01, False)])
def test_features_of_length_one_are_recognized(length, unit):
    features, M, weight = world()
    features *= length / np.linalg.norm(features, axis=1, keepdims=True)
    found = sampling_of(features, M, weight)
    assert found.unit == unit
    squares = 1.0 if unit else length**2
    assert found.spread == pytest.approx(squares - weight @ (M**2).sum(axis=1) / 10.0)


def test_places_that_leave_nothing_have_a_spread_above_zero():
    features, _, weight = world()
    assert sampling_of(features, np.full((4, 3), 9.0), weight).spread == 1e-12


def test_a_part_has_its_own_spread_and_one_person_of_ordinary_spread():
    M = np.array([[0.6, 0.0], [0.0, 0.5], [2.0, 0.0]])
    effective = np.array([10.0, 0.2, 4.0])
    unit = Sampling(np.ones(1), 0.7)
    np.testing.assert_allclose(unit.spreads(M, effective), [0.64 + 0.07, 0.75 + 0.7, 0.0 + 0.175])
    np.testing.assert_allclose(Sampling(np.ones(1), 0.7, unit=False).spreads(M, effective), 0.7)
