"""Choosing clusters, ridge and target by leaving published means out."""

import numpy as np
import pytest

from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.posterior import fit_mixture
from crosslevel.imputation.cudia.regression import design_of, eta_prior, person_variance, regress, variances
from crosslevel.imputation.cudia.selection import Candidate, Choices, leave_one_out, select, simplest


def test_a_mean_left_out_is_predicted_from_the_others_alone(two_gaussians, as_problem):
    x, _, group, s, _, _ = two_gaussians(0, groups=7, size=60)
    problem = as_problem(x, group, s)
    mixture = fit_mixture(problem, 2, 0, n_restarts=2)
    found, df = leave_one_out(problem, mixture, 5.0, "mean")
    shares = mixture.people / problem.atom_weight[:, None]
    prior = eta_prior(problem, 5.0, "mean", "ridge", 1.25, person_variance(problem, mixture.parameters, shares))
    at = regress(problem, mixture.parameters, shares, prior)
    w = 1 / variances(problem, at, shares, "cudia", design_of(problem, 0, shares))
    c, lam = prior.center[0], prior.precision[0]
    for p in range(7):
        rest = np.arange(7) != p
        D = shares[rest]
        h = c + np.linalg.solve((D * w[rest, None]).T @ D + lam * np.eye(2), (D * w[rest, None]).T @ (s[rest] - c))
        assert found[p] == pytest.approx(((s[p] - shares[p] @ h) / s.std()) ** 2, rel=1e-8)
    assert 1 < df <= 2


def test_the_simplest_within_one_error_is_taken():
    def one(error, se, df):
        return Candidate(3, 1.0, "mean", "ridge", error, se, df)

    best, simple, near, far = one(1.0, 0.2, 5.0), one(1.19, 0.5, 2.0), one(1.1, 0.1, 3.0), one(1.21, 0.5, 1.0)
    assert simplest([far, near, simple, best]) == (best, simple)
    assert simplest([far, best]) == (best, best)


def test_clusters_do_not_depend_on_which_other_numbers_are_tried(two_gaussians, as_problem):
    x, _, group, s, _, _ = two_gaussians(1, groups=6, size=50)
    problem = as_problem(x, group, s)
    one = select(problem, Choices(clusters=(2,), ridge=2.0, target="mean", n_restarts=2), 3)
    two = select(problem, Choices(clusters=(3, 2), ridge=2.0, target="mean", n_restarts=2), 3)
    assert np.array_equal(one.mixtures[2].people, two.mixtures[2].people)


@pytest.mark.filterwarnings("ignore:.*groups only:crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize("method", ["two_stage", "map", "mcem"])
def test_a_fit_with_the_values_that_were_chosen_is_the_fit_that_chose(two_gaussians, method):
    x, _, group, s, _, _ = two_gaussians(2, groups=8, size=40)
    auto = CUDIA("auto", method=method, n_restarts=2).fit({"x": x}, group, s)
    given = CUDIA(
        auto.n_clusters_, method=method, ridge=auto.ridge_, ridge_target=auto.ridge_target_, n_restarts=2
    ).fit({"x": x}, group, s)
    assert np.array_equal(given.transform({"x": x}, group), auto.transform({"x": x}, group))
