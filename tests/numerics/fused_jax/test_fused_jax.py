"""Sums on a device against plain float64 sums of ``transform``, in whole numbers and in halves as accelerators do them."""

import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.numerics.features import MAPS, make_map
from crosslevel.numerics.fused_jax import DeviceMap, bag_totals, pack, sum_packs
from crosslevel.numerics.fused_jax.tiles import cut

WIDTHS = (5, 2, 9, 31, 3)
N_REALS = 3
D = sum(WIDTHS) + N_REALS
N = 700


def rows(n: int = N, seed: int = 0):
    """Codes of a few categorical columns, some missing; reals between them; overlapping bags, some rows in none."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(WIDTHS)[:-1]])
    offsets[2:] += N_REALS  # the reals come after the second column
    codes = np.stack([o + rng.integers(0, w, n) for o, w in zip(offsets, WIDTHS, strict=True)], axis=1)
    codes[rng.random(codes.shape) < 0.1] = -1
    real_columns = offsets[1] + WIDTHS[1] + np.arange(N_REALS)
    owners = np.full(D, -1)
    for j, (o, w) in enumerate(zip(offsets, WIDTHS, strict=True)):
        owners[o : o + w] = j
    places = rng.integers(0, 6, n)
    bags = np.stack([places * 3, np.where(rng.random(n) < 0.4, places * 3 + 1, -1)], axis=1)
    bags[rng.random(n) < 0.05] = -1
    return codes, rng.standard_normal((n, N_REALS)) * 1.5, real_columns, owners, rng.lognormal(0, 1, n), bags


def drawn(name: str, n_features: int = 170):
    landmarks = np.random.default_rng(5).standard_normal((30, D)) if name in ("nystrom", "landmarks") else None
    given = None if name in ("nystrom", "landmarks", "linear") else n_features
    return make_map(name, D, given, None if name == "linear" else 3.0, 1, landmarks)


def relative_error(feature_map, codes, reals, real_columns, owners, weights, bags, halves=False, tile=256) -> float:
    """Largest difference of a sum, relative to the largest of its bag."""
    on_device = DeviceMap(feature_map, owners, real_columns, halves=halves)
    packed = pack(codes, reals, weights, bags, tile, D)
    found = feature_map.finish(on_device.collect(packed, on_device.start(packed)))
    X = np.zeros((len(codes), D))
    r, c = np.nonzero(codes >= 0)
    X[r, codes[r, c]] = 1.0
    X[:, real_columns] = reals.astype(np.float32)
    phi = feature_map.transform(X)
    ids = np.unique(bags[bags >= 0])
    expected = np.stack([((bags == b).sum(axis=1) * weights) @ phi for b in ids])
    np.testing.assert_array_equal(packed.totals.bags, ids)
    return float((np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)).max())


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("halves", [False, True])
def test_sums_are_those_of_the_map(name: str, halves: bool) -> None:
    error = relative_error(drawn(name), *rows(), halves=halves)
    assert error < (1e-9 if name in ("nystrom", "landmarks") else 2e-6)


@pytest.mark.parametrize("n_features", [2, 130])
def test_any_number_of_features(n_features: int) -> None:
    assert relative_error(drawn("fastfood", n_features), *rows()) < 2e-6


def test_the_parts_of_a_number_add_up_to_it() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    parts = [np.asarray(p, dtype=np.float64) for p in cut(x)]
    assert np.abs(sum(parts) - x).max() / np.abs(x).max() <= 2.0**-24
    assert np.abs(sum(parts[:2]) - x).max() / np.abs(x).max() > 2.0**-20, (
        "fewer parts must be worse, or nothing was cut"
    )


@pytest.mark.parametrize("name", ["sorf", "linear", "landmarks"])
@pytest.mark.parametrize("keep", ["codes", "reals"])
def test_rows_of_only_one_kind(name: str, keep: str) -> None:
    codes, reals, real_columns, owners, weights, bags = rows()
    codes, owners = (codes, owners) if keep == "codes" else (codes[:, :0], np.full(D, -1))
    reals, real_columns = (reals, real_columns) if keep == "reals" else (reals[:, :0], real_columns[:0])
    for halves in (False, True):
        assert relative_error(drawn(name), codes, reals, real_columns, owners, weights, bags, halves) < 2e-6


def test_weight_two_is_two_rows_and_pieces_add_up() -> None:
    codes, reals, real_columns, owners, weights, bags = rows()
    on_device = DeviceMap(drawn("sorf"), owners, real_columns)
    twice = [np.concatenate([a, a]) for a in (codes, reals, weights, bags)]
    packs = [
        pack(codes, reals, 2 * weights, bags, 256, D),
        pack(*twice, 256, D),
        pack(codes[:300], reals[:300], weights[:300], bags[:300], 256, D),
        pack(codes[300:], reals[300:], weights[300:], bags[300:], 256, D),
    ]
    heavy, double, first, second = (sums for _, sums in sum_packs(on_device, packs))
    largest = np.abs(heavy).max()
    np.testing.assert_allclose(double, heavy, atol=1e-6 * largest)
    np.testing.assert_allclose(2 * (first + second), heavy, atol=1e-6 * largest)


@pytest.mark.parametrize("halves", [False, True])
def test_many_bags_and_tiny_weights(halves: bool) -> None:
    codes, reals, real_columns, owners, weights, _ = rows()
    bags = np.random.default_rng(2).permutation(N)[:, None] * 3
    weights = weights * 10.0 ** -(np.arange(N) % 9)
    assert relative_error(drawn("sorf"), codes, reals, real_columns, owners, weights, bags, halves, 64) < 3e-6


def test_totals_are_exact_counts() -> None:
    *_, weights, bags = rows()
    totals, local = bag_totals(bags, weights)
    for j, bag in enumerate(totals.bags):
        inside = bags == bag
        assert totals.count[j] == inside.sum()
        assert totals.weight[j] == pytest.approx((inside * weights[:, None]).sum(), rel=1e-13)
        assert totals.weight_squared[j] == pytest.approx((inside * weights[:, None] ** 2).sum(), rel=1e-13)
        np.testing.assert_array_equal(local == j, inside)


def test_what_would_poison_a_sum_is_refused() -> None:
    codes, reals, _, _, weights, bags = rows()
    given = {"codes": codes, "reals": reals, "weights": weights, "bags": bags}
    for bad in ({"codes": np.full((N, 5), D)}, {"reals": np.full((N, 3), np.nan)}, {"bags": np.zeros(N, dtype=int)}):
        with pytest.raises(InputError):
            pack(**given | bad, tile=64, n_inputs=D)
