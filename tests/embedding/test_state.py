from __future__ import annotations

import numpy as np

from crosslevel.embedding.state import BLOCK, BagSums, ChunkSums


def chunk(keys, seed=0, m=3):
    rng = np.random.default_rng(seed)
    n = len(keys)
    return ChunkSums([(k,) for k in keys], rng.integers(1, 9, n), rng.random(n), rng.random(n), rng.random((n, m)))


def state(*chunks, m=3, names=("region",), subgroups=()):
    made = BagSums(m, names, subgroups)
    for one in chunks:
        made.add(one)
    return made


def as_dict(s):
    return {k: (s.count[i], s.weight[i], s.weight_squared[i], *s.row(i)) for i, k in enumerate(s.keys)}


def test_adding_is_summing_by_key():
    one, two = chunk("ab"), chunk("bc", 1)
    found = as_dict(state(one, two))
    assert list(found) == [("a",), ("b",), ("c",)]
    both = (one.count[1] + two.count[0], one.weight[1] + two.weight[0], one.weight_squared[1] + two.weight_squared[0])
    np.testing.assert_array_equal(found[("b",)], [*both, *(one.sums[1] + two.sums[0])])


def test_merge_is_addition_and_leaves_the_other_alone():
    parts = [chunk("abc"), chunk("cad", 1), chunk("be", 2)]
    whole = as_dict(state(*parts))
    for split in range(4):
        left, right = state(*parts[:split]), state(*parts[split:])
        before = as_dict(right.copy())
        merged = as_dict(left.merge(right))
        assert as_dict(right) == before
        assert set(merged) == set(whole)
        for key in whole:
            np.testing.assert_allclose(merged[key], whole[key], rtol=1e-14)


def test_states_grow_past_a_block_and_come_back_from_arrays():
    keys = [f"k{i}" for i in range(3 * BLOCK + 5)]
    made = state(chunk(keys), chunk(keys[::-2], 1))
    assert len(made) == len(keys)
    assert made.sums().shape == (len(keys), 3)
    again = BagSums.from_arrays(made.keys, made.names, made.to_arrays())
    assert as_dict(again) == as_dict(made)
    assert again.key_table().equals(made.key_table())
    again.add(chunk(["new"]))
    assert len(again) == len(made) + 1
