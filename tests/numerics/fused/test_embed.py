"""The fused kernels against plain sums of ``transform``, and the laws of the sums."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.numerics.features import MAPS, make_map
from crosslevel.numerics.fused import PieceSums, Plan, Scratch, embed_piece, embed_rows, make_plan
from crosslevel.numerics.fused.embed import row_order


@dataclass
class People:
    codes: np.ndarray
    reals: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    bags: np.ndarray
    d: int

    def rows(self, index: object) -> tuple[np.ndarray, ...]:
        return self.codes[index], self.reals[index], self.columns, self.weights[index], self.bags[index]

    def dense(self) -> np.ndarray:
        X = np.zeros((len(self.codes), self.d))
        for i, row in enumerate(self.codes):
            X[i, row[row >= 0]] = 1.0
        X[:, self.columns] = self.reals
        return X

    def members(self) -> np.ndarray:
        M = np.zeros((self.bags.max() + 1, len(self.bags)))
        for i, row in enumerate(self.bags):
            for bag in row[row >= 0]:
                M[bag, i] += self.weights[i]
        return M


def people(n: int = 300, d: int = 21, n_categorical: int = 4, n_real: int = 3, seed: int = 0) -> People:
    """Simulate encoded people in 3 regions x (all, 2 sexes, 4 ages), with some missing codes and some in no bag."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, d - n_real, n_categorical + 1).astype(int) if n_categorical else []
    codes = np.array([rng.integers(a, b, n) for a, b in pairwise(edges)], dtype=np.int32)
    codes = codes.T.copy() if n_categorical else np.zeros((n, 0), dtype=np.int32)
    codes[rng.random(codes.shape) < 0.05] = -1
    region = rng.integers(0, 3, n)
    bags = np.stack([region, 3 + 2 * region + rng.integers(0, 2, n), 9 + 4 * region + rng.integers(0, 4, n)], axis=1)
    bags[rng.random(bags.shape) < 0.1] = -1
    bags[0] = -1
    return People(
        codes,
        rng.standard_normal((n, n_real)).astype(np.float32),
        np.arange(d - n_real, d),
        rng.uniform(0.1, 90.0, n),
        bags.astype(np.int32),
        d,
    )


def plan_for(name: str, d: int, n_features: int = 50) -> Plan:
    points = np.random.default_rng(3).standard_normal((n_features, d))
    return make_plan(make_map(name, d, None if name == "linear" else n_features, 2.0, 5, points))


def same_bits(a: PieceSums, b: PieceSums) -> bool:
    names = ("bags", "count", "weight", "weight_squared", "sums")
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize(
    ("n", "d", "n_categorical", "n_real", "n_features"),
    [
        (300, 21, 4, 3, 50),
        (65, 1, 0, 1, 6),
        (64, 100, 9, 11, 300),
        (1, 7, 2, 0, 2),
        (130, 16, 0, 16, 130),
        (9, 5, 2, 1, 128),
    ],
)
def test_equals_plain_sums(name: str, n: int, d: int, n_categorical: int, n_real: int, n_features: int) -> None:
    p = people(n + 1, d, n_categorical, n_real)
    p.bags[-1] = [2, 8, 20]
    plan = plan_for(name, d, n_features)
    piece = embed_piece(plan, *p.rows(slice(None)))
    M = p.members()
    expected = M @ plan.feature_map.transform(p.dense())
    np.testing.assert_array_equal(piece.bags, np.unique(p.bags[p.bags >= 0]))
    got = plan.finish(piece.sums)
    assert np.abs(got - expected[piece.bags]).max() <= 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(piece.weight, M[piece.bags].sum(axis=1))
    np.testing.assert_allclose(piece.weight_squared, (M[piece.bags] ** 2).sum(axis=1))
    np.testing.assert_array_equal(piece.count, (M[piece.bags] > 0).sum(axis=1))


@pytest.mark.parametrize("name", ["fastfood", "sorf", "rff"])
def test_census_width(name: str) -> None:
    p = people(200, 3251, 200, 23)
    p.reals *= 0.5
    plan = make_plan(make_map(name, 3251, 4096, 14.0, 0))
    piece = embed_piece(plan, *p.rows(slice(None)))
    expected = p.members() @ plan.feature_map.transform(p.dense())
    assert np.abs(plan.finish(piece.sums) - expected[piece.bags]).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("name", list(MAPS))
def test_a_row_has_the_same_features_wherever_it_stands(name: str) -> None:
    """Bags of one person, weight 1: the sums are the features themselves, in any order and company, to the bit."""
    p = people(200)
    p.weights[:] = 1.0
    p.bags = np.arange(200, dtype=np.int32)[:, None].copy()
    plan = plan_for(name, p.d)
    together = embed_piece(plan, *p.rows(slice(None))).sums
    backwards = embed_piece(plan, p.codes[::-1], p.reals[::-1], p.columns, p.weights, p.bags)
    np.testing.assert_array_equal(backwards.sums[::-1], together)
    for start in (0, 1, 63, 130):
        alone = embed_piece(plan, *p.rows(slice(start, start + 7)))
        np.testing.assert_array_equal(alone.sums, together[start : start + 7])


@pytest.mark.parametrize("name", ["fastfood", "sorf", "rff", "nystrom"])
def test_threads_and_used_scratch_change_no_bit(name: str) -> None:
    p = people(1000)
    plan = plan_for(name, p.d, 200)
    pieces = [slice(s, s + 170) for s in range(0, 1000, 170)]
    serial = [embed_piece(plan, *p.rows(s), Scratch(plan)) for s in pieces]
    scratch = Scratch(plan)
    reused = [embed_piece(plan, *p.rows(s), scratch) for s in reversed(pieces)][::-1]
    for workers in (2, 4):
        with ThreadPoolExecutor(workers) as pool:
            threaded = list(pool.map(lambda s: embed_piece(plan, *p.rows(s)), pieces * 5))
        assert all(same_bits(a, b) for a, b in zip(serial * 5, threaded, strict=True))
    assert all(same_bits(a, b) for a, b in zip(serial, reused, strict=True))


@pytest.mark.parametrize("name", ["fastfood", "sorf", "rff", "landmarks"])
def test_any_cut_of_the_stream_gives_the_same_sums(name: str) -> None:
    p = people(500)
    plan = plan_for(name, p.d)

    def total(step: int) -> np.ndarray:
        sums = np.zeros((21, plan.n_features))
        for start in range(0, 500, step):
            piece = embed_piece(plan, *p.rows(slice(start, start + step)))
            sums[piece.bags] += piece.sums
        return sums

    whole = total(500)
    for step in (1, 37, 64, 200):
        assert np.abs(total(step) - whole).max() <= 1e-12 * np.abs(whole).max()


@pytest.mark.parametrize("name", ["fastfood", "rff", "nystrom", "linear"])
def test_weight_two_is_two_rows(name: str) -> None:
    p = people(90)
    plan = plan_for(name, p.d)
    twice = embed_piece(plan, *p.rows(np.repeat(np.arange(90), 2)))
    p.weights *= 2
    heavy = embed_piece(plan, *p.rows(slice(None)))
    assert np.abs(twice.sums - heavy.sums).max() <= 1e-12 * np.abs(heavy.sums).max()
    np.testing.assert_allclose(twice.weight, heavy.weight, rtol=1e-12)


@pytest.mark.parametrize("name", ["fastfood", "rff"])
def test_twenty_overlapping_bags_are_as_good_as_one_at_a_time(name: str) -> None:
    p = people(400)
    rng = np.random.default_rng(8)
    p.bags = np.where(rng.random((400, 20)) < 0.4, np.arange(20), -1).astype(np.int32)
    plan = plan_for(name, p.d)
    all_at_once = embed_piece(plan, *p.rows(slice(None))).sums
    for bag in range(20):
        one = np.where(p.bags == bag, bag, -1).max(axis=1, keepdims=True)
        single = embed_piece(plan, p.codes, p.reals, p.columns, p.weights, one).sums[0]
        assert np.abs(all_at_once[bag] - single).max() <= 1e-12 * np.abs(single).max()


def test_sums_are_added_to_what_is_there() -> None:
    p = people(100)
    plan = plan_for("fastfood", p.d)
    piece = embed_piece(plan, *p.rows(slice(None)))
    sums = np.ones((21, plan.n_features))
    embed_rows(plan, *p.rows(slice(None)), sums)
    np.testing.assert_allclose(sums[piece.bags] - 1.0, piece.sums, rtol=1e-9, atol=1e-9)


def test_row_order_is_stable_and_goes_from_left_to_right() -> None:
    bags = np.array([[1, 5], [0, 9], [1, 5], [-1, -1], [0, -1], [-1, 2]])
    np.testing.assert_array_equal(row_order(bags), [5, 4, 1, 0, 2])


@pytest.mark.parametrize("n_subgroups", [0, 1, 17, 31, 40])
def test_row_order_of_subgroups_is_lexicographic(n_subgroups: int) -> None:
    rng = np.random.default_rng(0)
    place = rng.integers(0, 9, 500) * (n_subgroups + 1)
    inside = rng.random((500, n_subgroups)) < 0.3
    bags = np.column_stack([place, np.where(inside, place[:, None] + np.arange(1, n_subgroups + 1), -1)])
    np.testing.assert_array_equal(row_order(bags), np.lexsort(bags.T[::-1]))


def test_refuses_wrong_shapes() -> None:
    p = people(20)
    plan = plan_for("sorf", p.d)
    codes, reals, columns, weights, bags = p.rows(slice(None))
    with pytest.raises(InputError):
        embed_piece(plan, codes[1:], reals, columns, weights, bags)
    with pytest.raises(InputError):
        embed_piece(plan, codes, reals, columns, weights, bags[:, 0])
    with pytest.raises(InputError, match="real_columns="):
        embed_piece(plan, codes, reals, columns[1:], weights, bags)
    with pytest.raises(InputError):
        embed_rows(plan, codes, reals, columns, weights, bags, np.zeros((21, 49)))
    with pytest.raises(InputError):
        embed_rows(plan, codes, reals, columns, weights, bags, np.zeros((5, 50)))
    with pytest.raises(InputError):
        embed_piece(plan, codes, reals, columns, weights, bags, Scratch(plan_for("sorf", p.d)))
