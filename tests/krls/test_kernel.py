"""The kernel and its blocks, the scaling, the bandwidth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from crosslevel.errors import InputError
from crosslevel.krls import spectrum as kernels
from crosslevel.krls import spectrum as spectra
from crosslevel.krls.spectrum import GaussianKernel, decompose, max_variance_bandwidth


@pytest.mark.parametrize("block", [1, 40, 2**21])
def test_kernel_is_its_definition_in_any_blocks(rng, monkeypatch, block):
    monkeypatch.setattr(kernels, "BLOCK", block)
    monkeypatch.setattr(spectra, "BLOCK", block)
    Z, new, X = rng.normal(size=(20, 3)), rng.normal(size=(7, 3)), rng.normal(size=(20, 2))
    kernel = GaussianKernel(Z, 2.5)
    K = np.exp(-cdist(Z, Z, "sqeuclidean") / 2.5)
    root = rng.uniform(1, 2, 20)
    np.testing.assert_allclose(kernel.matrix(), K, rtol=1e-12)
    np.testing.assert_allclose(kernel.matrix(root), root[:, None] * K * root, rtol=1e-12)
    np.testing.assert_allclose(kernel.apply(X, new), np.exp(-cdist(new, Z, "sqeuclidean") / 2.5) @ X, rtol=1e-10)
    np.testing.assert_allclose(
        kernel.without(np.array([1])).matrix(), np.exp(-cdist(Z[:, [0, 2]], Z[:, [0, 2]], "sqeuclidean") / 2.5)
    )
    spectrum = decompose(kernel, root**2)
    G = np.linalg.inv(root[:, None] * K * root + 0.3 * np.eye(20))
    np.testing.assert_allclose(spectrum.solve(X, 0.3), G @ X, atol=1e-10)
    np.testing.assert_allclose(spectrum.inverse_diagonal(np.array([0.3]))[:, 0], np.diag(G), rtol=1e-9)
    np.testing.assert_allclose(spectrum.inverse_norms(X, 0.3, 1), np.diag(X.T @ G @ X), rtol=1e-10)
    np.testing.assert_allclose(spectrum.inverse_norms(X, 0.3, 2), np.diag(X.T @ G @ G @ X), rtol=1e-10)


def test_maximum_variance_bandwidth(rng):
    Z, m = rng.normal(size=(15, 3)), rng.integers(1, 4, 15)
    written = np.repeat(Z, m, axis=0)
    D = cdist(written, written, "sqeuclidean")[~np.eye(len(written), dtype=bool)]
    grid = np.geomspace(0.1, 100, 4000)
    best = grid[np.argmax([np.var(np.exp(-D / s)) for s in grid])]
    assert max_variance_bandwidth(Z, m * 1.0) == pytest.approx(best, rel=2e-3)


def test_too_many_distinct_rows_are_refused_with_an_estimate(monkeypatch):
    monkeypatch.setattr(spectra, "available_memory", lambda: 2**30)
    with pytest.raises(InputError):
        spectra.check_memory(60_000, 70_000)
    assert spectra.check_memory(1_000, 1_000) == spectra.memory_needed(1_000)
