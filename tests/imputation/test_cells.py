import numpy as np
import pytest

from crosslevel.data.columns import missing_codes
from crosslevel.imputation.cells import gather


def _people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(-2, 3, n), rng.normal(size=n).round(1), rng.integers(0, 2, n)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, rng.integers(0, 4, (n, 2)), rng.random(n)


def test_rows_and_pairs_give_every_person_back():
    X, group, w = _people()
    cells = gather(X, group, w)
    np.testing.assert_array_equal(cells.X[cells.row], X)
    np.testing.assert_array_equal(cells.pair_cell[cells.pair], cells.row)
    np.testing.assert_array_equal(cells.pair_group[cells.pair], group)


def test_cells_are_distinct_and_sorted_and_missing_values_are_equal():
    X, group, _ = _people()
    cells = gather(X, group)
    filled = np.nan_to_num(X, nan=1e9)
    np.testing.assert_array_equal(np.nan_to_num(cells.X, nan=1e9), np.unique(filled, axis=0))
    pairs = np.column_stack([cells.pair_cell, cells.pair_group])
    np.testing.assert_array_equal(pairs, np.unique(pairs, axis=0))


def test_counts_weights_and_squares_add_up():
    X, group, w = _people()
    cells = gather(X, group, w)
    for found, each in ((cells.count, np.ones(len(w))), (cells.weight, w), (cells.weight_squared, w**2)):
        brute = np.array([each[cells.pair == m].sum() for m in range(len(cells.count))])
        np.testing.assert_allclose(found, brute, rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_and_sizes_against_loops(weighted):
    X, group, w = _people()
    w = w if weighted else np.ones(len(w))
    cells = gather(X, group, w if weighted else None)
    for j in (0, 1):
        W = cells.shares(j, 4).toarray()
        np.testing.assert_allclose(W.sum(axis=1), 1.0, rtol=1e-13)
        people, effective = cells.sizes(j, 4)
        for p in range(4):
            own = group[:, j] == p
            assert people[p] == own.sum()
            assert effective[p] == pytest.approx(w[own].sum() ** 2 / (w[own] ** 2).sum())
            brute = [w[own & (cells.row == c)].sum() / w[own].sum() for c in range(len(cells.X))]
            np.testing.assert_allclose(W[p], brute, atol=1e-14)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([18, 90, 999, 999], (999,)),
        ([18, 90, 998, 999, 999], (998, 999)),
        ([0.1, 0.4, -8, -8, np.nan], (-8,)),
        ([18, 60, -99, -99, 999, 999], (999, -99)),
        ([1, 2, 9, 9], (9,)),
        ([1, 2, 9], ()),
        ([1, 2, 3, 4, 5, 9, 9], ()),
        ([-1, -1, 1, 1], ()),
        ([0, 99, 99], ()),
        ([18, 90, 500, 500], ()),
        ([18, 90, 98, 98], ()),
        ([np.nan, np.nan], ()),
    ],
)
def test_codes_of_missing_values_lie_further_than_the_range_of_the_others(values, codes):
    assert missing_codes(np.array(values, dtype=float)) == codes


@pytest.mark.parametrize("n", [30, 3000])
def test_ordinary_columns_hold_no_codes_of_missing_values(n):
    rng = np.random.default_rng(0)
    for _ in range(20):
        for x in (
            rng.normal(size=n),
            np.exp(rng.normal(10, 2, n)).round(),
            rng.standard_cauchy(n).round(),
            rng.integers(0, 2, n),
            rng.poisson(0.3, n),
            rng.negative_binomial(0.5, 0.1, n),
            rng.integers(1, 6, n),
            rng.integers(0, 100, n),
        ):
            assert missing_codes(x.astype(float)) == ()
