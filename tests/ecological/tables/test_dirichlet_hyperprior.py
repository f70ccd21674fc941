"""Does a learned prior of alpha follow its own law, and the alphas when there are many?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from crosslevel.ecological.tables.dirichlet.sampler import Hyperprior, renew


def test_renewing_leaves_the_joint_law_as_it_is():
    """Draw prior and alphas from the model, renew the prior: it must still follow the hyperprior (Geweke 2004)."""
    rng = np.random.default_rng(0)
    hyper = Hyperprior(4.0, 2.0, 0.7)
    found = []
    for _ in range(1500):
        shape, rate = hyper.draw(rng)
        alpha = np.maximum(rng.gamma(shape, 1 / rate, (2, 3)), 1e-12)
        found.append(renew(alpha, (shape, rate), hyper, rng))
    shape, rate = np.array(found).T
    for values, center in ((shape, 4.0), (shape / rate, 2.0)):
        assert stats.kstest(np.log(values), stats.norm(np.log(center), 0.7).cdf).pvalue > 1e-3


def test_many_alphas_tell_their_prior():
    rng = np.random.default_rng(1)
    alpha = rng.gamma(9.0, 1 / 0.3, (40, 50))
    state, kept = (1.0, 1.0), []
    for _ in range(60):
        state = renew(alpha, state, Hyperprior(1.0, 1.0), rng)
        kept.append(state)
    shape, rate = np.array(kept[10:]).mean(axis=0)
    assert shape == pytest.approx(9.0, rel=0.12)
    assert shape / rate == pytest.approx(30.0, rel=0.03)


def test_one_alpha_leaves_what_integration_says():
    """The mean of log mean under its posterior, by the chain and by quadrature."""
    alpha, hyper = np.array([[11.0]]), Hyperprior(2.0, 1.0, 1.0)
    logs, total = float(np.log(alpha).sum()), float(alpha.sum())
    grid = np.linspace(-6, 8, 281)
    density = np.exp([[hyper.log_density(u, v, 1, logs, total) for v in grid] for u in grid])
    by_mean = integrate.trapezoid(density, grid, axis=0)
    expected = integrate.trapezoid(grid * by_mean, grid) / integrate.trapezoid(by_mean, grid)
    rng, state, kept = np.random.default_rng(2), (2.0, 2.0), []
    for _ in range(4000):
        state = renew(alpha, state, hyper, rng)
        kept.append(np.log(state[0] / state[1]))
    assert np.mean(kept) == pytest.approx(expected, abs=0.06)
