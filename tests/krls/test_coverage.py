"""Do 95 % intervals hold the truth 95 times in a hundred? Truth: the average derivative of the true function at the rows."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.krls import KRLS

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def interactions(rng, n):
    """A smooth function with an interaction, one column binary."""
    x, b = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    f = np.sin(x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.8 * b * x[:, 0]
    truth = [np.mean(np.cos(x[:, 0]) + 0.8 * b), np.mean(x[:, 1]), np.mean(0.8 * x[:, 0])]
    return np.column_stack([x, b]), f, np.array(truth), 0.7, None


def straight_lines(rng, n):
    """A linear truth, which shrinkage hurts most."""
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, 0.5, 0.0], np.array([1.0, 0.5, 0.0]), 1.0, None


def by_village(rng, n):
    """Treatment by cluster, and errors the members of a cluster share."""
    village = np.arange(n) % 30
    treated = (village % 2).astype(float)
    x = rng.normal(size=n)
    f = 0.5 * treated + np.tanh(x)
    return np.column_stack([treated, x]), f, np.array([0.5, np.mean(1 - np.tanh(x) ** 2)]), 0.8, village


def cover(design, replicates, n, **params):
    hits, widths = [], []
    for seed in range(replicates):
        rng = np.random.default_rng(seed)
        X, f, truth, noise, cluster = design(rng, n)
        shared = 0.0 if cluster is None else 0.4 * rng.normal(size=cluster.max() + 1)[cluster]
        model = KRLS(**params).fit(X, f + shared + noise * rng.normal(size=n), cluster=cluster)
        found = model.effects()
        hits.append((found["conf_low"] <= truth) & (truth <= found["conf_high"]))
        widths.append(found["conf_high"] - found["conf_low"])
    return np.mean(hits, axis=0), np.mean(widths, axis=0)


@pytest.mark.parametrize("design", [interactions, straight_lines])
def test_debiased_intervals_cover_and_those_of_r_do_not(design):
    ours, _ = cover(design, 120, 120)
    theirs, _ = cover(design, 60, 120, rule="krls", inference="krls")
    assert ours.mean() > 0.92  # 360 intervals: three standard errors below .95
    assert ours.min() > 0.88
    assert theirs.mean() < ours.mean() - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("design", [interactions, straight_lines, by_village])
def test_coverage_at_length(design):
    ours, _ = cover(design, 400, 150)
    assert 0.93 < ours.mean() < 0.985
    assert ours.min() > 0.91


def test_clustered_intervals_cover():
    ours, widths = cover(by_village, 60, 120)
    assert ours.mean() > 0.90
    narrow = cover(lambda rng, n: (*by_village(rng, n)[:4], None), 20, 120)[1]
    assert widths[0] > 1.2 * narrow[0]  # treatment is by cluster, so its interval must know


def kinks(rng):
    """Bends that no smooth kernel follows."""
    X = rng.uniform(-2, 2, (200, 3))
    a, b, c = X.T
    slopes = [np.sign(a), 1.0 * (b > 0), -0.5 * (c > 1)]
    return X, np.abs(a) + np.maximum(b, 0) - 0.5 * np.maximum(c - 1, 0), np.column_stack(slopes), 0.6


def bumps(rng):
    """Waves narrower than the kernel."""
    X = rng.normal(size=(250, 4))
    a, b, c, _ = X.T
    slopes = [2.5 * np.cos(2.5 * a), -np.sin(2 * b), np.full(250, 0.4), np.zeros(250)]
    return X, np.sin(2.5 * a) + 0.5 * np.cos(2 * b) + 0.4 * c, np.column_stack(slopes), 0.7


@pytest.mark.parametrize("world", [kinks, bumps])
def test_bands_hold_what_the_kernel_does_not_foresee(world):
    held, alone = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, f, truth, noise = world(rng)
        found = KRLS().fit(X, f + noise * rng.normal(size=len(X))).pointwise_bands(X=X)
        off = np.abs(found["estimate"] - truth.T.ravel())
        bias = np.repeat(list(found.diagnostics["bias"].values()), len(X))
        held.append(np.mean(off <= found["conf_high"] - found["estimate"]))
        alone.append(np.mean(off <= 1.96 * np.sqrt(found["std_error"] ** 2 - bias**2)))
    assert np.mean(held) > 0.93
    assert np.mean(alone) < 0.915  # the posterior by itself
