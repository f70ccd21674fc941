"""Bounds, neighborhood and Goodman: laws, brute force, and published numbers on data whose inner cells are known."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow.csv as pv
import pytest
import scipy.optimize
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.errors import InputError


def random_units(rng, n=40, R=3, C=4):
    """True inner tables and their margins."""
    inner = rng.poisson(rng.gamma(1.0, 20.0, size=(n, R, C)))
    inner[:, 0, 0] += 1
    return inner, inner.sum(axis=2), inner.sum(axis=1)


def names(table, word):
    return {f"{word}{j}": table[:, j] for j in range(table.shape[1])}


def test_bounds_are_what_brute_force_finds():
    X, T = np.array([[2, 3]]), np.array([[1, 2, 2]])
    cells = []
    for a, b, c in itertools.product(range(3), repeat=3):
        inner = np.array([[a, b, c], [1 - a, 2 - b, 2 - c]])
        if (inner >= 0).all() and (inner.sum(axis=1) == X[0]).all():
            cells.append(inner)
    low, high = np.min(cells, axis=0), np.max(cells, axis=0)
    found = ecological.bounds(counted(X, T))
    np.testing.assert_allclose(found["lower"].reshape(2, 3) * X.T, low)
    np.testing.assert_allclose(found["upper"].reshape(2, 3) * X.T, high)


def extremes(X, T, wanted):
    """Least and greatest value of a weighted sum of the inner cells, by linear programming: wanted (n, R, C)."""
    n, R, C = wanted.shape
    rows = np.kron(np.eye(n * R), np.ones((1, C)))
    columns = np.kron(np.eye(n), np.kron(np.ones((1, R)), np.eye(C)))
    equal = {"A_eq": np.vstack([rows, columns]), "b_eq": np.concatenate([X.ravel(), T.ravel()])}
    return [s * scipy.optimize.linprog(s * wanted.ravel(), **equal, method="highs").fun for s in (1, -1)]


@pytest.mark.parametrize(("seed", "R", "C"), [(0, 2, 3), (1, 3, 3), (2, 4, 2), (3, 3, 5)])
def test_bounds_of_any_table_are_sharp_for_cells_of_units_and_of_the_district(seed, R, C):
    _, X, T = random_units(np.random.default_rng(seed), n=3, R=R, C=C)
    found = ecological.bounds(counted(X, T))
    district, units = (
        np.stack([answer[c].reshape(-1, R, C) for c in ("lower", "upper")], axis=-1) for answer in (found, found.units)
    )
    for r, c in itertools.product(range(R), range(C)):
        for i in range(3):
            wanted = np.zeros((1, R, C))
            wanted[0, r, c] = 1
            if X[i, r]:
                limits = extremes(X[[i]], T[[i]], wanted)
                np.testing.assert_allclose(units[i, r, c] * X[i, r], limits, atol=1e-6)
        wanted = np.zeros((3, R, C))
        wanted[:, r, c] = 1
        limits = extremes(X, T, wanted)
        np.testing.assert_allclose(district[0, r, c] * X[:, r].sum(), limits, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_truth_lies_inside_the_bounds_and_one_group_units_are_known(seed):
    rng = np.random.default_rng(seed)
    inner, X, T = random_units(rng)
    X[0, 1:], T[0], inner[0, 1:] = 0, inner[0, 0], 0
    X[0, 0] = T[0].sum()
    found = ecological.bounds(counted(names(X, "g"), names(T, "o")))
    true = inner.sum(axis=0) / X.sum(axis=0)[:, None]
    assert (found["lower"] <= true.ravel() + 1e-12).all()
    assert (found["upper"] >= true.ravel() - 1e-12).all()
    first = found.units.table.slice(0, 4)
    np.testing.assert_allclose(first["lower"], T[0] / X[0, 0], rtol=1e-12)
    np.testing.assert_allclose(first["upper"], T[0] / X[0, 0], rtol=1e-12)


@pytest.mark.parametrize("method", [ecological.bounds, ecological.neighborhood, ecological.goodman])
def test_permuting_units_and_relabeling_groups_changes_nothing(method):
    _, X, T = random_units(np.random.default_rng(1))
    a = method(counted(names(X, "g"), names(T, "o")))
    order = np.random.default_rng(2).permutation(len(X))
    b = method(counted(names(X[order][:, ::-1], "g"), names(T[order], "o"), units=order))
    flip = b["estimate"].reshape(3, 4)[::-1]
    np.testing.assert_allclose(a["estimate"].reshape(3, 4), flip, rtol=1e-9, atol=1e-12)
    units = b.units["estimate"].reshape(-1, 3, 4)[np.argsort(order)][:, ::-1]
    np.testing.assert_allclose(a.units["estimate"].reshape(-1, 3, 4), units, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [ecological.neighborhood, ecological.goodman])
def test_outcomes_of_a_group_add_up_to_one_and_units_to_the_district(method):
    _, X, T = random_units(np.random.default_rng(3))
    found = method(counted(X, T))
    np.testing.assert_allclose(found["estimate"].reshape(3, 4).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(found.units["count"].reshape(-1, 3, 4).sum(axis=0).ravel(), found["count"], rtol=1e-12)
    if method is ecological.neighborhood:
        np.testing.assert_allclose(found["count"].reshape(3, 4).sum(axis=0), T.sum(axis=0), rtol=1e-12)
        assert (found.units["estimate"] >= found.units["lower"] - 1e-12).all()
        assert (found.units["estimate"] <= found.units["upper"] + 1e-12).all()


def test_goodman_errors_are_the_sandwich_by_hand():
    rng = np.random.default_rng(4)
    _, X, T = random_units(rng, n=25, R=2, C=2)
    found = ecological.goodman(counted(X, T), level=0.9)
    N = X.sum(axis=1)
    x, t, W = X / N[:, None], T[:, 0] / N, np.diag(N.astype(float))
    bread = np.linalg.inv(x.T @ W @ x)
    beta = bread @ x.T @ W @ t
    meat = x.T @ W @ np.diag((t - x @ beta) ** 2) @ W @ x
    se = np.sqrt(np.diag(bread @ meat @ bread) * 25 / 23)
    np.testing.assert_allclose(found["estimate"][[0, 2]], beta, rtol=1e-10)
    np.testing.assert_allclose(found["std_error"][[0, 2]], se, rtol=1e-10)
    from scipy import stats

    np.testing.assert_allclose(found["conf_high"][[0, 2]] - beta, stats.t.ppf(0.95, 23) * se, rtol=1e-10)
    assert found.level == 0.9


def test_goodman_intervals_cover_when_its_assumption_holds():
    rng = np.random.default_rng(5)
    hits = []
    for _ in range(300):
        n, share = rng.integers(200, 3000, 80), rng.uniform(0.05, 0.95, 80)
        X = np.column_stack([np.round(n * share), n - np.round(n * share)]).astype(int)
        rates = np.clip(np.array([0.7, 0.3]) + rng.normal(0, 0.08, (80, 2)), 0, 1)
        yes = rng.binomial(X, rates).sum(axis=1)
        found = ecological.goodman(counted(X, np.column_stack([yes, n - yes])))
        hits += [
            found["conf_low"][0] <= 0.7 <= found["conf_high"][0],
            found["conf_low"][2] <= 0.3 <= found["conf_high"][2],
        ]
    # 600 intervals at 95 %: Monte Carlo standard error .009 (pairs are nearly independent)
    assert 0.92 < np.mean(hits) < 0.975


def test_goodman_flags_what_it_cannot_know():
    X = np.array([[10, 90], [50, 50], [90, 10], [70, 30]])
    T = np.array([[0, 100], [50, 50], [100, 0], [75, 25]])
    found = ecological.goodman(counted(X, T))
    assert found["estimate"].min() < 0
    assert found.table["outside"].to_pylist() == [True] * 4
    assert "outside the deterministic bounds" in found.warnings[0]
    assert "outside the deterministic bounds" in found.summary()
    assert "95 %" in found.summary()


def registration(path, share, registered, people):
    """Counts by county from shares: black and white, registered and not."""
    data = pv.read_csv(path)
    n, x, t = (data[c].to_numpy().astype(float) for c in (people, share, registered))
    black, yes = np.round(n * x), np.round(n * t)
    return {"black": black, "white": n - black}, {"registered": yes, "not": n - yes}


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "columns", "weights", "black", "white"),
    [
        ("ei_matproii.csv", ("x", "t", "n"), "population", 0.3398, 0.8837),
        ("ei_matproii.csv", ("x", "t", "n"), "equal", 0.5297, 0.8561),
        ("eco_reg.csv", ("X", "Y", "N"), "population", 0.3358, 0.8870),
        ("eco_reg.csv", ("X", "Y", "N"), "equal", 0.5144, 0.8676),
    ],
)
def test_goodman_reproduces_the_published_numbers(real_data, file, columns, weights, black, white):
    groups, outcomes = registration(real_data / "truth" / file, *columns)
    found = ecological.goodman(counted(groups, outcomes), weights=weights)
    assert found["estimate"][0] == pytest.approx(black, abs=5e-4)
    assert found["estimate"][2] == pytest.approx(white, abs=5e-4)


@pytest.mark.data
def test_bounds_and_neighborhood_reproduce_the_published_numbers(real_data):
    groups, outcomes = registration(real_data / "truth" / "ei_matproii.csv", "x", "t", "n")
    found = ecological.bounds(counted(groups, outcomes))
    np.testing.assert_allclose(found["lower"][[0, 2]], [0.213, 0.703], atol=6e-4)
    np.testing.assert_allclose(found["upper"][[0, 2]], [0.975, 0.920], atol=6e-4)
    near = ecological.neighborhood(counted(groups, outcomes))
    np.testing.assert_allclose(near["estimate"][[0, 2]], [0.7228, 0.7746], atol=5e-4)


@pytest.mark.data
def test_goodman_on_three_by_three_cells_of_known_truth(real_data):
    data = pv.read_csv(real_data / "truth" / "senc_se_north_carolina.csv")
    races, parties = ("white", "black", "natam"), ("dem", "rep", "non")
    groups, outcomes = ({c: data[c] for c in names} for names in (races, parties))
    equal = ecological.goodman(counted(groups, outcomes), weights="equal")
    weighted = ecological.goodman(counted(groups, outcomes))
    assert equal["estimate"].reshape(3, 3)[1, 0] == pytest.approx(1.017, abs=1e-3)
    assert weighted["estimate"].reshape(3, 3)[1, :2] == pytest.approx([1.051, -0.075], abs=1e-3)
    assert weighted.warnings
    cells = [[data[r + p].to_numpy().sum() for p in parties] for r in ("wh", "bl", "natam")]
    truth = np.array(cells) / np.sum(cells, axis=1, keepdims=True)
    np.testing.assert_allclose(truth, [[0.468, 0.374, 0.159], [0.895, 0.041, 0.065], [0.890, 0.060, 0.050]], atol=6e-4)
    for found, rmse, mae in ((equal, 0.0617, 0.0481), (weighted, 0.0786, 0.0659)):
        error = found["estimate"].reshape(3, 3) - truth
        assert np.sqrt(np.mean(error**2)) == pytest.approx(rmse, abs=6e-5)
        assert np.mean(np.abs(error)) == pytest.approx(mae, abs=6e-5)


def test_units_of_weight_zero_count_for_nothing():
    _, X, T = random_units(np.random.default_rng(7), n=12, R=2, C=2)
    w = np.ones(12)
    w[[2, 5]] = 0
    found = ecological.goodman(counted(X, T, w=w), weights="w")
    alone = ecological.goodman(counted(X[w > 0], T[w > 0], w=w[w > 0]), weights="w")
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(found[column][[0, 2]], alone[column][[0, 2]], rtol=1e-10)
    assert found.interval == alone.interval == "t(8), HC1 robust errors"
    assert any("2 unit(s) of weight zero" in w for w in found.warnings)
    with pytest.raises(InputError):
        ecological.goodman(counted(X[:4], T[:4], w=[1, 1, 0, 0]), weights="w")
