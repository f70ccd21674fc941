"""Do r-hat and effective sample sizes have their known values, and agree with another implementation?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crosslevel.errors import InputError
from crosslevel.numerics import chains


def autoregressive(phi, shape, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[:, 0] = rng.standard_normal(x[:, 0].shape)
    noise = rng.standard_normal(shape) * np.sqrt(1 - phi**2)
    for t in range(1, shape[1]):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x


@pytest.fixture(scope="module")
def other():
    return pytest.importorskip("numpyro.diagnostics")


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.3])
@pytest.mark.parametrize("n", [200, 201])
def test_the_parts_agree_with_numpyro(other, phi, n):
    x = autoregressive(phi, (4, n, 3))
    np.testing.assert_allclose(chains.effective_sample_size(x), other.effective_sample_size(x), rtol=1e-6)
    np.testing.assert_allclose(
        chains.potential_scale_reduction(chains.split_chains(x)), other.split_gelman_rubin(x), rtol=1e-6
    )


def test_bulk_tail_and_rank_rhat_are_the_parts_on_ranks_and_tails(other):
    x = np.exp(autoregressive(0.7, (4, 300)))
    halves = np.concatenate([x[:, :150], x[:, 150:]])
    order = np.argsort(np.argsort(halves.ravel())).reshape(halves.shape) + 1
    scores = stats.norm.ppf((order - 3 / 8) / (1200 + 1 / 4))
    np.testing.assert_allclose(chains.bulk_ess(x), other.effective_sample_size(scores), rtol=1e-6)
    far = np.abs(halves - np.median(halves))
    folded = stats.norm.ppf((np.argsort(np.argsort(far.ravel())).reshape(far.shape) + 1 - 3 / 8) / (1200 + 1 / 4))
    expected = max(other.gelman_rubin(scores), other.gelman_rubin(folded))
    np.testing.assert_allclose(chains.rank_rhat(x), expected, atol=2e-4)  # two draws tie in distance to the median
    tails = [other.effective_sample_size((halves <= np.quantile(halves, q)).astype(float)) for q in (0.05, 0.95)]
    np.testing.assert_allclose(chains.tail_ess(x), min(tails), rtol=1e-6)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_effective_size_of_an_autoregression_is_known(phi):
    """An AR(1) chain of S draws is worth S (1 - phi) / (1 + phi)."""
    x = autoregressive(phi, (4, 5000, 20))
    found = chains.bulk_ess(x).mean() / (20_000 * (1 - phi) / (1 + phi))
    assert found == pytest.approx(1.0, abs=0.06)


def test_antithetic_chains_are_worth_at_most_s_log_s():
    """x, -x, x, -x ...: the sum of autocorrelations is negative, and the size would be without limit."""
    x = np.tile([1.0, -1.0], 250) * np.random.default_rng(0).uniform(1.0, 1.001, (3, 500))
    assert chains.effective_sample_size(x) == pytest.approx(1500 * np.log10(1500), rel=1e-12)


@pytest.mark.parametrize(
    ("rhat", "bulk", "tail", "divergences", "answer"),
    [
        (1.0099, 400.0, 400.0, 0, True),
        (1.01, 4e3, 4e3, 0, False),
        (1.0, 399.9, 4e3, 0, False),
        (1.0, 4e3, 399.9, 0, False),
        (1.0, 4e3, 4e3, 1, False),
    ],
)
def test_the_limits_are_those_of_the_paper(rhat, bulk, tail, divergences, answer):
    assert chains.ChainDiagnostics(rhat, bulk, tail, divergences, 4, 1000).converged is answer


def test_chains_that_stand_still_are_worth_one_draw_each():
    found = chains.effective_sample_size(np.repeat([[1.0], [2.0], [5.0]], 10, axis=1))
    assert found == 3.0


def test_chains_apart_in_place_or_in_spread_or_drifting_are_found_out():
    x = np.random.default_rng(1).standard_normal((4, 1000))
    assert chains.rank_rhat(x) < 1.005
    for bad in (
        x + np.array([[0], [0], [0], [1]]),
        x * np.array([[1], [1], [1], [4]]),
        x + np.linspace(0, 2, 1000),
    ):
        assert chains.rank_rhat(bad) > 1.05
        assert not chains.diagnose(bad).converged


def test_diagnose_takes_the_worst_and_leaves_out_what_the_margins_fix():
    good = np.random.default_rng(2).standard_normal((4, 1000, 2))
    slow = autoregressive(0.95, (4, 1000, 1))
    found = chains.diagnose(np.concatenate([good, slow, np.ones((4, 1000, 1))], axis=2))
    assert found.min_ess_bulk == pytest.approx(chains.bulk_ess(slow)[0])
    assert found.min_ess_tail == pytest.approx(chains.tail_ess(slow)[0])
    assert found.max_rhat == pytest.approx(chains.rank_rhat(slow)[0])
    assert not found.converged
    assert chains.diagnose(good).converged
    assert not chains.diagnose(good, divergences=1).converged
    assert chains.diagnose(np.ones((4, 100))).converged
    stuck = chains.diagnose(np.repeat([[1.0], [2.0], [1.0], [2.0]], 500, axis=1))
    assert stuck.max_rhat > 10
    assert stuck.min_ess_bulk <= 8
    assert not stuck.converged


@pytest.mark.parametrize(
    "draws",
    [np.ones(10), np.ones((2, 3)), np.full((2, 9), np.nan)],
)
def test_what_cannot_be_diagnosed_is_refused(draws):
    with pytest.raises(InputError):
        chains.diagnose(draws)
