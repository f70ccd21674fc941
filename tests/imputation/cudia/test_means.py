"""The regression of published means on shares of clusters, and its diagnostics, against formulas written out."""

import itertools

import numpy as np
import pytest
from tests.imputation.cudia.worlds import as_problem, two_gaussians

from crosslevel.imputation.cudia.means import (
    Design,
    designs_of,
    identifiability,
    leave_one_out,
    make_prior,
    regress,
    solve_means,
)
from crosslevel.imputation.cudia.mixture import fit_mixture
from crosslevel.imputation.cudia.model import Prior


def prior(precision=3.0, center=0.2, *, on_logit=False):
    one = np.ones(1)
    return Prior(np.ones(3), False, precision * one, center * one, np.array([on_logit]), one)


def design(groups=6, K=3, seed=0, *, known=False):
    rng = np.random.default_rng(seed)
    D = rng.dirichlet(np.ones(K), groups)
    spread = np.array([np.cov(rng.dirichlet(10 * d + 0.1, 200).T) for d in D])
    s, w = rng.uniform(0.1, 0.6, groups), rng.uniform(20, 80, groups)
    return Design(D, D[:, :, None] * D[:, None, :] + (0 if known else spread), s, w, 1 / w), w


def test_the_ridge_with_expected_products_is_the_formula():
    found = []
    for known in (False, True):
        own, w = design(known=known)
        c, lam = 0.2, 3.0
        A = sum(wp * dd for wp, dd in zip(w, own.DD, strict=True))
        b = sum(wp * d * (sp - c) for wp, d, sp in zip(w, own.D, own.s, strict=True))
        exact = c + np.linalg.solve(A + lam * np.eye(3), b)
        found.append(solve_means(*own.normal(w), prior(), 0, binary=False))
        assert found[-1] == pytest.approx(exact, rel=1e-10)
    assert np.abs(found[0] - found[1]).max() > 1e-3  # what the plug-in of the paper drops


def test_shares_stay_between_none_and_all_at_the_best_such_point():
    D = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    s, p = np.array([0.02, 0.4, 0.75]), prior(1e-3, 0.3)
    A, b = 400 * D.T @ D, 400 * D.T @ s
    assert solve_means(A, b, p, 0, binary=False).min() < 0
    found = solve_means(A, b, p, 0, binary=True)

    def loss(h):
        return 400 * ((s - D @ h) ** 2).sum() + 1e-3 * ((h - 0.3) ** 2).sum()

    grid = min(loss(np.array(h)) for h in itertools.product(np.linspace(0, 1, 201), repeat=2))
    assert 0 <= found.min() <= found.max() <= 1
    assert loss(found) <= grid + 1e-3


def test_a_prior_on_the_logit_pulls_to_the_mean_and_stays_inside():
    own, w = design()
    known, _ = design(known=True)
    tight = solve_means(*own.normal(w), prior(1e6, 0.3, on_logit=True), 0, binary=True)
    assert tight == pytest.approx(np.full(3, 0.3), abs=1e-3)
    loose = solve_means(*known.normal(w), prior(1e-8, 0.3, on_logit=True), 0, binary=True)
    bounded = solve_means(*known.normal(w), prior(1e-8, 0.3), 0, binary=True)
    misfit = [(w * (known.s - known.D @ h) ** 2).sum() for h in (loose, bounded)]
    assert misfit[0] == pytest.approx(misfit[1], abs=1e-3)


def test_contrasts_that_no_mean_shows_come_from_the_prior():
    D = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]])  # clusters two and three always together
    found = identifiability(D, np.full(2, 1e6), 1.0)
    assert found.effective_df == pytest.approx(2.0, abs=1e-3)
    assert found.share == pytest.approx([1, 1, 0], abs=1e-4)
    assert np.abs(found.contrasts[:, 2]) == pytest.approx([0, np.sqrt(0.5), np.sqrt(0.5)], abs=1e-6)
    assert found.variance == pytest.approx(np.linalg.inv(1e6 * D.T @ D + np.eye(3)), rel=1e-6)


def test_a_mean_left_out_is_predicted_from_the_others_alone():
    x, _, group, s, _, _ = two_gaussians(0, groups=7, size=60)
    problem = as_problem(x, group, np.where(np.arange(7) == 4, np.nan, s))
    mixture = fit_mixture(problem, make_prior(problem, np.ones(2)), 0, 2)
    own = make_prior(problem, np.ones(2), ridge=5.0)
    at = regress(problem, own, mixture.parameters, mixture.shares)
    (found,), (design,) = leave_one_out(problem, own, at, mixture.shares), designs_of(problem, at, mixture.shares)
    c, lam, w = own.center[0], own.precision[0], 1 / design.variance
    assert len(found) == 6
    for p in range(6):
        rest = np.arange(6) != p
        D = design.D[rest]
        b = (D * w[rest, None]).T @ (design.s[rest] - c)
        h = c + np.linalg.solve((D * w[rest, None]).T @ D + lam * np.eye(2), b)
        assert found[p] == pytest.approx((design.s[p] - design.D[p] @ h) / design.s.std(), rel=1e-8)
