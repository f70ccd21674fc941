"""Priors of the mixes: what is learned, and what is most probable."""

import numpy as np
import pytest
from scipy.special import gammaln

from crosslevel.imputation.cudia.posterior import MixPrior, expected_log, learn_alpha, learn_logistic_normal, update_mix


def test_learned_exponents_are_a_maximum():
    rng = np.random.default_rng(0)
    mean_log = np.log(rng.dirichlet([0.7, 2.0, 4.0], 300)).mean(axis=0)

    def value(a):
        return gammaln(a.sum()) - gammaln(a).sum() + (a - 1) @ mean_log

    found = learn_alpha(mean_log, np.ones(3))
    assert found == pytest.approx([0.7, 2.0, 4.0], rel=0.25)
    for _ in range(50):
        assert value(found * np.exp(0.05 * rng.normal(size=3))) <= value(found) + 1e-12
    assert learn_alpha(mean_log, np.full(3, 30.0)) == pytest.approx(found, rel=1e-6)


def test_expected_logarithms_by_drawing():
    rng = np.random.default_rng(0)
    n, alpha = np.array([[3.0, 9.0]]), np.array([1.5, 0.5])
    draws = np.log(rng.dirichlet(n[0] + alpha, 200_000)).mean(axis=0)
    assert expected_log(n, alpha)[0] == pytest.approx(draws, abs=5e-3)


@pytest.mark.parametrize(
    "prior",
    [
        MixPrior.dirichlet(np.array([2.0, 1.0, 3.0])),
        MixPrior("logistic_normal", np.ones(3), np.array([0.4, 0.0, -0.4]), np.full(3, 0.3)),
    ],
    ids=["dirichlet", "logistic normal"],
)
def test_the_update_is_the_most_probable_mix(prior):
    n = np.array([[5.0, 1.0, 20.0], [2.0, 2.0, 1.0]])
    pi = np.full((2, 3), 1 / 3)
    for _ in range(30):
        pi = update_mix(n, prior, pi)

    def value(q):
        if prior.kind == "dirichlet":
            return ((n + prior.alpha - 1) * np.log(q)).sum()
        logits = np.log(q) - np.log(q).mean(axis=1, keepdims=True)
        return (n * np.log(q)).sum() - 0.5 * ((logits - prior.mean) ** 2 / prior.variance).sum()

    rng = np.random.default_rng(1)
    for _ in range(100):
        other = pi * np.exp(0.02 * rng.normal(size=pi.shape))
        assert value(other / other.sum(axis=1, keepdims=True)) <= value(pi) + 1e-6


def test_a_logistic_normal_is_learned_from_mixes():
    rng = np.random.default_rng(0)
    f = np.array([1.0, -0.5, -0.5]) + rng.normal(size=(4000, 3)) * 0.5
    found = learn_logistic_normal(np.exp(f) / np.exp(f).sum(axis=1, keepdims=True))
    assert found.mean == pytest.approx([1.0, -0.5, -0.5], abs=0.03)
    assert found.variance == pytest.approx(np.full(3, 0.25 * 2 / 3), abs=0.02)  # centered logits lose a third
