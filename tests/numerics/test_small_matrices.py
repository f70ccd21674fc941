"""Small matrices inverted inside compiled loops, against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.numerics.small_matrices import invert


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("same", [False, True])
def test_inverse_factor_and_determinant_are_those_of_lapack(k: int, same: bool) -> None:
    root = np.random.default_rng(k).normal(size=(k, k + 2))
    truth = root @ root.T
    S, inverse = np.full((k + 1, k + 1), np.nan), np.zeros((k + 1, k + 1))
    S[:k, :k] = np.tril(truth)
    L = S if same else np.zeros_like(S)
    logdet = invert(S, L, inverse, k)
    np.testing.assert_allclose(inverse[:k, :k], np.linalg.inv(truth), rtol=1e-9)
    np.testing.assert_allclose(np.tril(L[:k, :k]), np.linalg.cholesky(truth), rtol=1e-12)
    assert logdet == pytest.approx(np.linalg.slogdet(truth)[1], rel=1e-12)
    assert not inverse[k].any()


def test_a_matrix_that_is_not_definite_has_no_determinant() -> None:
    S = np.array([[1.0, 0.0], [2.0, 1.0]])
    assert np.isnan(invert(S, np.zeros((2, 2)), np.zeros((2, 2)), 2))
