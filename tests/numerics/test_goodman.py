"""Goodman's regression against the normal equations and White's sandwich, summed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.ecological.quantities import goodman_fit
from crosslevel.errors import InputError


def world(n=12, groups=3, outcomes=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(groups), n), rng.dirichlet(np.ones(outcomes), n), rng.uniform(0.5, 4.0, n)


def test_coefficients_and_errors_are_those_of_the_normal_equations():
    x, t, w = world()
    fit = goodman_fit(x, t, w, ("a", "b", "c"))
    inverse = np.linalg.inv(x.T @ (w[:, None] * x))
    B = inverse @ x.T @ (w[:, None] * t)
    np.testing.assert_allclose(fit.B, B, rtol=1e-10)
    for j in range(2):  # HC1: squared weighted residuals between two inverses, times n / (n - groups)
        meat = sum(w[i] ** 2 * (t[i, j] - x[i] @ B[:, j]) ** 2 * np.outer(x[i], x[i]) for i in range(12))
        variance = inverse @ meat @ inverse * 12 / 9
        np.testing.assert_allclose(fit.std_error[:, j], np.sqrt(np.diag(variance)), rtol=1e-9)
    assert fit.condition == pytest.approx(np.linalg.cond(np.sqrt(w)[:, None] * x), rel=1e-10)


def test_exact_shares_are_found_without_error():
    x, _, w = world()
    B = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    fit = goodman_fit(x, x @ B, w, ("a", "b", "c"))
    np.testing.assert_allclose(fit.B, B, atol=1e-13)
    assert fit.std_error.max() < 1e-12


def test_as_many_units_as_groups_are_too_few_and_one_more_is_enough():
    x, t, w = world(4)
    with pytest.raises(InputError):
        goodman_fit(x[:3], t[:3], w[:3], ("a", "b", "c"))
    fit = goodman_fit(x, t, w, ("a", "b", "c"))
    residual = np.sqrt(w)[:, None] * (t - x @ fit.B)
    bread = np.linalg.pinv(np.sqrt(w)[:, None] * x)
    np.testing.assert_allclose(fit.std_error, np.sqrt(4 * bread**2 @ residual**2), rtol=1e-9)


@pytest.mark.parametrize("x", [[[0.5, 0.5]] * 5, [[1.0, 0.0]] * 5])
def test_groups_that_cannot_be_told_apart_are_refused(x):
    with pytest.raises(InputError):
        goodman_fit(np.array(x), np.full((5, 2), 0.5), np.ones(5), ("a", "b"))


@pytest.mark.parametrize(("away", "refused"), [(1e-8, False), (1e-11, True)])
def test_shares_that_move_nearly_together(away, refused):
    """Two columns that differ by e have the condition number 2 / e, or so."""
    half = 0.5 + away * np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    x = np.column_stack([half, 1.0 - half])
    if refused:
        with pytest.raises(InputError):
            goodman_fit(x, x, np.ones(5), ("a", "b"))
    else:
        fit = goodman_fit(x, x, np.ones(5), ("a", "b"))
        np.testing.assert_allclose(fit.B, np.eye(2), atol=1e-6)
        assert fit.condition > 1e7
