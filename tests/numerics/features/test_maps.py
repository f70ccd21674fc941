"""Each map against its definition written out, and the error against the number of features."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.linalg import hadamard

from crosslevel.errors import InputError
from crosslevel.numerics.features import MAPS, gaussian_kernel, make_map

FOURIER = ["rff", "fastfood", "sorf"]


def drawn(name: str, d: int, n_features: int = 24, bandwidth: float = 1.3, seed: int = 0):
    landmarks = np.random.default_rng(9).standard_normal((n_features, d))
    count = None if name == "linear" else n_features
    return make_map(name, d, count, bandwidth, seed, landmarks)


@pytest.mark.parametrize("name", FOURIER)
@pytest.mark.parametrize(("d", "n_features"), [(1, 6), (3, 10), (8, 16), (13, 100), (100, 34)])
def test_features_are_cosines_then_sines_of_the_frequencies(name: str, d: int, n_features: int) -> None:
    fmap = drawn(name, d, n_features)
    X = np.random.default_rng(1).standard_normal((7, d))
    W = fmap.frequencies()
    assert W.shape == (n_features // 2, d)
    expected = np.hstack([np.cos(X @ W.T), np.sin(X @ W.T)]) / np.sqrt(n_features // 2)
    np.testing.assert_allclose(fmap.transform(X), expected, rtol=0, atol=1e-12)


def test_fastfood_is_the_product_of_its_matrices() -> None:
    d, m, b = 11, 37, 0.7
    fmap = make_map("fastfood", d, 2 * m, b, 3)
    H = hadamard(16).astype(float)
    blocks = [
        np.diag(S) @ H @ np.diag(G) @ np.eye(16)[P] @ H @ np.diag(B) / (b * np.sqrt(16))
        for B, P, G, S in zip(fmap.B, fmap.P, fmap.G, fmap.S, strict=True)
    ]
    np.testing.assert_allclose(fmap.frequencies(), np.vstack(blocks)[:m, :d], rtol=0, atol=1e-12)
    assert len(blocks) == 3
    assert sorted(fmap.P[0]) == list(range(16))
    assert set(np.unique(fmap.B)) == {-1, 1}


def test_sorf_is_the_product_of_its_matrices() -> None:
    d, m, b = 5, 19, 2.5
    fmap = make_map("sorf", d, 2 * m, b, 3)
    H = hadamard(8) / np.sqrt(8)
    blocks = [
        np.diag(L) @ H @ np.diag(D1) @ H @ np.diag(D2) @ H @ np.diag(D3) / b
        for (D1, D2, D3), L in zip(fmap.signs, fmap.lengths, strict=True)
    ]
    np.testing.assert_allclose(fmap.frequencies(), np.vstack(blocks)[:m, :d], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FOURIER)
def test_error_falls_with_the_root_of_the_number_of_frequencies(name: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 8)) * np.linspace(0.2, 2.0, 30)[:, None]
    K = gaussian_kernel(X, X, 2.0)
    assert K.min() < 0.05
    widths = np.array([64, 256, 1024])
    errors = []
    for m in widths:
        phi = [make_map(name, 8, 2 * m, 2.0, seed).transform(X) for seed in range(8)]
        errors.append(np.sqrt(np.mean([(p @ p.T - K) ** 2 for p in phi])))
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4, errors
    assert errors[-1] < 0.025


def test_nystrom_is_exact_on_its_landmarks_and_survives_repeated_ones() -> None:
    U = np.random.default_rng(0).standard_normal((20, 3))
    fmap = make_map("nystrom", 3, 20, 1.5, landmarks=U)
    phi = fmap.transform(U)
    np.testing.assert_allclose(phi @ phi.T, fmap.kernel(U, U), rtol=0, atol=1e-7)
    twice = make_map("nystrom", 3, None, 1.5, landmarks=np.vstack([U, U]))
    doubled = twice.transform(U)
    np.testing.assert_allclose(doubled @ doubled.T, fmap.kernel(U, U), rtol=0, atol=1e-7)
    assert np.abs(twice.whiten).max() < 1e5


def test_landmark_and_linear_features_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((4, 3)), rng.standard_normal((5, 3))
    fmap = make_map("landmarks", 3, None, 0.9, landmarks=U)
    brute = np.array([[np.exp(-((x - u) ** 2).sum() / (2 * 0.81)) for u in U] for x in X])
    np.testing.assert_allclose(fmap.transform(X), brute, rtol=1e-12)
    np.testing.assert_allclose(fmap.kernel(X, X), brute @ brute.T, rtol=1e-12)
    linear = make_map("linear", 3)
    np.testing.assert_array_equal(linear.transform(X), X)
    np.testing.assert_allclose(linear.kernel(X, U), X @ U.T)


@pytest.mark.parametrize("name", list(MAPS))
def test_seeds_repeat(name: str) -> None:
    X = np.random.default_rng(1).standard_normal((4, 7))
    fmap = drawn(name, 7)
    np.testing.assert_array_equal(fmap.transform(X), drawn(name, 7).transform(X))
    if name in FOURIER:
        assert np.abs(drawn(name, 7, seed=1).transform(X) - fmap.transform(X)).max() > 0.01


@pytest.mark.parametrize("name", ["rff", "fastfood", "sorf"])
def test_wide_inputs(name: str) -> None:
    rng = np.random.default_rng(0)
    X = np.zeros((12, 3251))
    for row in X:
        row[rng.choice(3251, 200, replace=False)] = 1.0
    X[6:] += (X[:6] - X[6:]) * (rng.random((6, 3251)) < np.linspace(0.1, 0.95, 6)[:, None])
    fmap = make_map(name, 3251, 4096, 14.0, 0)
    phi, K = fmap.transform(X), fmap.kernel(X, X)
    assert phi.shape == (12, 4096)
    assert np.abs(phi @ phi.T - K).max() < 0.1
    assert K[0, 6] < K[5, 11] - 0.3


@pytest.mark.parametrize(
    "arguments",
    [
        ("fastfod", 3, 4, 1.0),
        ("rff", 3, 5, 1.0),
        ("rff", 0, 4, 1.0),
        ("rff", 3, None, 1.0),
        ("rff", 3, 4, None),
        ("rff", 3, 4, 0.0),
        ("rff", 3, 4, float("nan")),
        ("nystrom", 3, 4, 1.0),
        ("linear", 3, 4),
    ],
)
def test_refusals(arguments) -> None:
    with pytest.raises(InputError):
        make_map(*arguments)


def test_the_plain_maps_need_no_compiler() -> None:
    code = "import sys, crosslevel.numerics.features; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
