"""Is the sample the one its definition names, whatever the order of the rows, and does it follow the weights?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data import sketch as module
from crosslevel.data.sketch import Hashes, Sketch


def world(n=3000, kinds=400, seed=0, tail=1.2):
    """People of kinds some of which are much more frequent than others, of unequal weights."""
    rng = np.random.default_rng(seed)
    share = rng.pareto(tail, kinds) + 0.05
    return rng.choice(kinds, n, p=share / share.sum()), np.round(rng.gamma(2.0, 10.0, n), 3)


def sketched(c, w, size=20, seed=0, batch=None):
    made = Sketch({"c": True}, size, seed)
    step = batch or len(c)
    for i in range(0, len(c), step):
        made.add(pa.record_batch({"c": c[i : i + step]}), w[i : i + step])
    return made, made.finish()


def by_definition(c, w, size, seed, most=None):
    """The kinds of smallest e / W, most common kinds counted only below a limit on their number; the plainest way."""
    kinds, inverse = np.unique(c, return_inverse=True)
    h = Hashes({"c": True}, seed)(pa.record_batch({"c": kinds}))
    W = np.float32(np.bincount(inverse, w)).astype(float)
    level = 0
    while most is not None and np.count_nonzero(h < 2.0 ** (64 - level)) > most:
        level += 1
    kept = np.flatnonzero((h < 2.0 ** (64 - level)) & (W > 0))
    u = ((h[kept] >> np.uint64(11)) + 0.5) / 2.0**53
    return kinds[kept[np.argsort(-np.log1p(-u) / W[kept])[: 2 * size]]], level


@pytest.mark.parametrize("most", [None, 150, 60, 10])
@pytest.mark.parametrize("seed", range(4))
def test_the_kinds_are_those_of_the_definition_in_any_order_and_cut(monkeypatch, most, seed):
    if most is not None:
        monkeypatch.setattr(module, "MOST_KINDS", most)
    monkeypatch.setattr(module, "SLACK", 4)
    c, w = world(seed=seed)
    expected, level = by_definition(c, w, 10, seed, most)
    assert (level > 0) == (most is not None)
    first = None
    for turn, batch in enumerate((None, 1000, 97, 7)):
        order = np.random.default_rng(turn).permutation(len(c))
        made, found = sketched(c[order], w[order], 10, seed, batch)
        assert found.kinds["c"].to_pylist() == expected.tolist()
        assert made.level == level
        first = first or found.sample
        assert found.sample.equals(first)


@pytest.mark.parametrize("most", [None, 300])
def test_the_sample_follows_the_weights(monkeypatch, most):
    """On average over seeds; each sample alone is no worse than drawing people one by one."""
    if most is not None:
        monkeypatch.setattr(module, "MOST_KINDS", most)
    rng = np.random.default_rng(0)
    c = np.concatenate([np.repeat(np.arange(100), rng.integers(10, 50, 100)), np.arange(100, 1100)])
    w = rng.gamma(2.0, 10.0, len(c))
    share = w[c < 100].sum() / w.sum()
    found = np.array([np.mean(sketched(c, w, 60, s)[1].sample["c"].to_numpy() < 100) for s in range(400)])
    # conditioned on the kinds counted, a share is a ratio: its bias is of the order of its variance
    assert found.mean() == pytest.approx(share, abs=4 * found.std() / 20 + found.var())
    if most is None:
        assert found.std() < np.sqrt(share * (1 - share) / 60)


def test_a_weight_of_two_is_two_people_and_the_unit_of_weight_does_not_matter():
    c, _ = world()
    times = np.random.default_rng(1).integers(0, 4, len(c)).astype(float)
    expected = sketched(c, times)[1]
    rows = np.repeat(np.arange(len(c)), times.astype(int))
    assert sketched(c[rows], np.ones(len(rows)))[1].sample.equals(expected.sample)
    for unit in (1024.0, 2.0**-600, 2.0**600):
        assert sketched(c, unit * times)[1].sample.equals(expected.sample)
