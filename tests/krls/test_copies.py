"""Weights are survey weights, and a row with its copies is one observation: neither makes a row into several people."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel.krls import KRLS
from crosslevel.krls.model import collapse
from crosslevel.krls.penalty import losses
from crosslevel.krls.spectrum import GaussianKernel, decompose

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
TRUTH = np.array([1.0, 0.5, 0.0])


def world(seed, n=400):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ TRUTH + rng.normal(size=n), rng.integers(5, 150, n)


def same(one, two, rtol=1e-8):
    assert two.penalty_ == pytest.approx(one.penalty_, rel=rtol)
    assert two.edf_ == pytest.approx(one.edf_, rel=rtol)
    for target in ("sample", "population"):
        for name in ("estimate", "std_error", "plug_in"):
            np.testing.assert_allclose(two.effects(target=target)[name], one.effects(target=target)[name], rtol=rtol)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_whole_weights_are_no_counts(seed):
    X, y, w = world(seed)
    found = KRLS().fit(X, y, w)
    effects = found.effects()
    assert (np.abs(effects["estimate"] - TRUTH) < 3.5 * effects["std_error"]).all()
    # Kish: the effective size of weights like these is about three quarters of the rows
    plain = KRLS(penalty=found.penalty_).fit(X, y).effects()["std_error"]
    assert (effects["std_error"] > 0.98 * plain).all()
    same(found, KRLS().fit(X, y, w / 1000))
    same(found, KRLS().fit(np.repeat(X, w, axis=0), np.repeat(y, w)))


def test_weighted_intervals_cover():
    hits = []
    for seed in range(60):
        X, y, w = world(seed, 120)
        found = KRLS().fit(X, y, w).effects()
        hits.append((found["conf_low"] < TRUTH) & (found["conf_high"] > TRUTH))
    assert np.mean(hits) > 0.90


def doubled(kind, rng):
    """Covariates nobody shares or many share; outcomes that are numbers, or yes and no."""
    X = rng.normal(size=(80, 2)) if "apart" in kind else rng.integers(0, 5, (80, 2)) * 1.0
    y = X[:, 0] + rng.normal(size=80)
    return X, (y > 0) * 1.0 if "binary" in kind else y


@pytest.mark.parametrize("kind", ["apart", "shared", "apart, binary", "shared, binary"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_twice_is_every_row_once(rng, kind, weighted):
    X, y = doubled(kind, rng)
    w = rng.uniform(0.2, 3.0, 80) if weighted else None
    once = KRLS().fit(X, y, w)
    twice = KRLS().fit(np.tile(X, (2, 1)), np.tile(y, 2), None if w is None else np.tile(w, 2))
    same(once, twice)
    assert twice.loo_ == pytest.approx(once.loo_)
    np.testing.assert_allclose(twice.coef_[:80], once.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["apart", "shared", "apart, binary"])
def test_some_rows_several_times(rng, kind):
    """Copies leave out what the row itself would: the loss is that of weighted rows, brute force."""
    X, y = doubled(kind, rng)
    times = rng.integers(1, 4, 80)
    cells = collapse(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert pytest.approx(80.0) == cells.N
    w = times / times.mean()
    K = GaussianKernel(X, 2.0).matrix()
    expected = 0.0
    for i in range(80):
        rest = np.arange(80) != i
        c = np.linalg.solve(K[np.ix_(rest, rest)] + 0.3 * np.diag(1 / w[rest]), y[rest])
        expected += w[i] * (y[i] - K[i, rest] @ c) ** 2
    found = losses(decompose(GaussianKernel(cells.X, 2.0), cells.m), cells, np.array([0.3]))[0]
    assert found[0] == pytest.approx(expected, rel=1e-9)


def test_people_who_answer_alike_are_several(rng):
    """Yes and no on five ages: a hundred people of one age with one answer are no copies of one another."""
    frame = pd.DataFrame({"age": rng.integers(2, 7, 1001) * 10.0, "sex": rng.integers(0, 2, 1001)})
    y = (rng.uniform(size=1001) < 0.2 + 0.1 * (frame["age"] > 40)) * 1.0
    cells = collapse(frame.to_numpy(), y.to_numpy())
    assert cells.N == 1001
    assert (cells.step == 1).all()
    few = KRLS().fit(frame[:250], y[:250]).effects()["std_error"]
    assert (KRLS().fit(frame, y).effects()["std_error"] < 0.75 * few).all()
