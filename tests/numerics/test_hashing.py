"""The quick loops over codes give what a dictionary would."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import whole_numbers
from crosslevel.numerics.hashing import (
    MISSING,
    add_numbers,
    add_reals,
    add_weights,
    all_seen,
    find,
    finish,
    leading_zeros,
    let_go,
    move,
    place_codes,
)

KINDS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
LEVELS = [2, 3, 7, 19]
POSITIONS = np.full(18, -1, dtype=np.int32)
POSITIONS[np.array(LEVELS) - 2] = np.arange(4)


def column(kind: pa.DataType, share_missing: float) -> pa.Array:
    rng = np.random.default_rng(0)
    return pa.array(rng.integers(0, 25, 500), mask=rng.random(500) < share_missing).cast(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize("cut", [slice(0, 500), slice(13, 314), slice(497, 500), slice(5, 5)])
def test_positions_are_those_of_a_dictionary(kind, share_missing, cut):
    array = column(kind, share_missing).slice(cut.start, cut.stop - cut.start)
    expected = [99 if v is None else {2: 40, 3: 41, 7: 42, 19: 43}.get(v, -1) for v in array.to_pylist()]
    out = np.zeros((len(array), 2), dtype=np.int32)[:, 1]
    lost = place_codes(*whole_numbers(array), 2, POSITIONS, 40, np.int32(99), out)
    assert out.tolist() == expected
    assert lost == expected.count(-1)


def test_extreme_values_are_no_levels():
    array = pa.array([-(2**63), 2**63 - 1, 2])
    out = np.zeros(3, dtype=np.int32)
    with np.errstate(over="ignore"):
        assert place_codes(*whole_numbers(array), 2, POSITIONS, 0, np.int32(-1), out) == 2
    assert out.tolist() == [-1, -1, 0]


def test_missing_is_lost_where_it_is_no_level():
    out = np.zeros(3, dtype=np.int32)
    assert place_codes(*whole_numbers(pa.array([3, None, 7])), 2, POSITIONS, 0, np.int32(-1), out) == 1
    assert out.tolist() == [1, -1, 2]


@pytest.mark.parametrize(
    ("values", "missing", "answer"),
    [
        ([2, 3, 19], False, True),
        ([2, 4], False, False),
        ([2, 1], False, False),
        ([20], False, False),
        ([2, None], False, False),
        ([2, None], True, True),
        ([-(2**63)], True, False),
        ([], False, True),
    ],
)
def test_all_seen(values, missing, answer):
    numbers = whole_numbers(pa.array(values, type=pa.int64()))
    with np.errstate(over="ignore"):
        assert all_seen(*numbers, 2, POSITIONS >= 0, missing) is answer


def test_all_seen_of_a_slice_looks_at_its_own_bits():
    array = pa.array([None, 2, 3, 19, None, 7, 2, 3, 7, 19])
    for first, size in ((1, 3), (5, 5), (0, 3), (3, 3), (4, 6)):
        there = None not in array.slice(first, size).to_pylist()
        assert all_seen(*whole_numbers(array.slice(first, size)), 2, POSITIONS >= 0, False) is there


def test_other_types_are_left_to_the_slow_way():
    for array in (pa.array(["a"]), pa.array([1.0]), pa.array([1], type=pa.uint64()), pa.array([True])):
        assert whole_numbers(array) is None


WORDS = 2**64


def unsigned(values) -> np.ndarray:
    return np.array([v % WORDS for v in values], dtype=np.uint64)


def some_hashes(n: int, seed: int = 0) -> np.ndarray:
    """Numbers with few and with many leading zeros."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, WORDS, n, dtype=np.uint64, endpoint=False)
    return np.maximum(drawn >> rng.integers(0, 60, n).astype(np.uint64), np.uint64(1))


@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize("cut", [slice(0, 40), slice(13, 40)])
def test_products_of_whole_numbers_are_those_of_unlimited_integers(share_missing, cut):
    rng = np.random.default_rng(1)
    array = pa.array(rng.integers(-5, 99, 40), mask=rng.random(40) < share_missing).slice(cut.start)
    factor, before = np.uint64(0x9E3779B97F4A7C15), 7
    out = np.full(len(array), before, dtype=np.uint64)
    with np.errstate(over="ignore"):
        add_numbers(*whole_numbers(array), factor, out)
    codes = [int(MISSING) if v is None else v for v in array.to_pylist()]
    np.testing.assert_array_equal(out, unsigned(before + int(factor) * code for code in codes))


def test_bits_of_reals_are_folded_and_nan_is_missing():
    values = np.array([0.0, 1.0, -2.5, 1e300, np.inf, -np.inf, np.nan, 3.0, 5e-324])
    bits = values.view(np.uint64)
    out, factor = np.full(len(values), 3, dtype=np.uint64), np.uint64(0xD6E8FEB86659FD93)
    with np.errstate(over="ignore"):
        add_reals(bits, factor, out)
    once = [int(b) ^ int(b) >> 32 for b in bits]
    folded = [int(MISSING) if math.isnan(v) else b ^ b >> 20 for v, b in zip(values, once, strict=True)]
    np.testing.assert_array_equal(out, unsigned(3 + int(factor) * b for b in folded))


def test_the_last_steps_are_those_of_splitmix64():
    """The first five numbers of SplitMix64 from the seed 1234567, as they are published with the algorithm."""
    state = unsigned(1234567 + k * 0x9E3779B97F4A7C15 for k in range(1, 6))
    with np.errstate(over="ignore"):
        finish(state)
    golden = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert state.tolist() == golden
    zero = np.zeros(1, dtype=np.uint64)
    finish(zero)
    assert zero.tolist() == [1]


def test_leading_zeros_are_those_of_the_binary_digits():
    for h in [*(1 << k for k in range(64)), *((1 << k) - 1 for k in range(1, 65)), *map(int, some_hashes(50))]:
        with np.errstate(over="ignore"):
            assert leading_zeros(np.uint64(h)) == 64 - h.bit_length()


def slots(numbers, size: int) -> dict[int, int]:
    """Linear probing in a dictionary."""
    taken: dict[int, int] = {}
    for h in map(int, numbers):
        at = h * 0xBF58476D1CE4E5B9 % WORDS % size
        while taken.get(at, h) != h:
            at = (at + 1) % size
        taken[at] = h
    return taken


def key(h: int) -> float:
    """-log(1 - u), u the first 53 bits of h and a half."""
    return -math.log1p(-((h >> 11) + 0.5) / 2**53)


def table(size: int):
    return np.zeros(size, np.uint64), np.zeros(size), np.zeros(size, dtype=bool)


def test_weights_are_added_at_the_slots_of_linear_probing():
    """A table of 64 slots with about 60 numbers, several times each: where each stands, what it weighs, who is new, who is needed."""
    numbers = some_hashes(60, 3)
    rng = np.random.default_rng(4)
    h = np.concatenate([numbers, rng.choice(numbers, 60)])
    w = rng.uniform(0.1, 4.0, len(h))
    w[[5, 70]] = 0.0
    limit = np.uint64(np.quantile(numbers, 0.9))
    zeros = np.array([64 - int(v).bit_length() for v in h])
    most = rng.uniform(0.5, 1.5, 65) * 0.7 * 2.0 ** -np.arange(65)
    hashes, weights, held = table(64)
    with np.errstate(over="ignore"):
        new, rows = add_weights(h, w, limit, hashes, weights, held, most)

    counted = (h <= limit) & (w > 0)
    total: dict[int, float] = {}
    needed: dict[int, int] = {}
    for i in np.flatnonzero(counted):
        v = int(h[i])
        total[v] = total.get(v, 0.0) + w[i]
        if key(v) <= most[zeros[i]] * total[v]:
            needed.setdefault(v, int(i))
    expected = slots(h[counted], 64)
    assert {at: int(v) for at, v in enumerate(hashes) if v} == expected
    assert new == len(total)
    assert rows.tolist() == list(needed.values())
    assert 10 < len(rows) < new - 10
    for at, v in expected.items():
        assert weights[at] == pytest.approx(total[v], rel=1e-14)
        assert held[at] == (v in needed)
    with np.errstate(over="ignore"):
        there = find(np.append(h[counted], np.uint64(12345)), hashes)
    assert [expected[at] for at in there[:-1]] == h[counted].tolist()
    assert hashes[there[-1]] == 0

    # into a smaller table, the larger numbers left behind; then less is needed than before
    half, (moved, heavy, kept) = np.uint64(np.median(hashes[hashes > 0])), table(32)
    with np.errstate(over="ignore"):
        assert move(hashes, weights, held, half, moved, heavy, kept) == (hashes[hashes > 0] <= half).sum()
    stay = {int(v): (weights[at], held[at]) for at, v in enumerate(hashes) if 0 < v <= half}
    assert {int(v): (heavy[at], kept[at]) for at, v in enumerate(moved) if v} == stay
    with np.errstate(over="ignore"):
        left = let_go(moved, heavy, kept, 0.6 * most)
    still = {v for v, (weight, was) in stay.items() if was and key(v) <= 0.6 * most[64 - v.bit_length()] * weight}
    assert left == len(still)
    assert 0 < left < sum(was for _, was in stay.values())
    assert {int(moved[at]) for at in np.flatnonzero(kept)} == still


@pytest.mark.parametrize("h", [5, 2**11, 2**52 + 99, 2**63 - 1, 2**63 + 2**62, WORDS - 2**20])
@pytest.mark.parametrize("share", [0.999999, 1.000001])
def test_a_number_is_needed_from_its_key_on(h, share):
    hashes, weights, held = table(4)
    most = np.zeros(65)
    most[64 - h.bit_length()] = key(h) / 8.0
    with np.errstate(over="ignore"):
        _, rows = add_weights(unsigned([h]), np.array([8.0 * share]), np.uint64(WORDS - 1), hashes, weights, held, most)
    assert rows.tolist() == [0] * (share > 1)
