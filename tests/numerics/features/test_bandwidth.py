import numpy as np
import pytest
from scipy.spatial.distance import pdist

from crosslevel.errors import InputError
from crosslevel.numerics.features import median_bandwidth


def test_equals_the_brute_force_median() -> None:
    for n in (2, 3, 7, 40):
        X = np.random.default_rng(n).standard_normal((n, 4))
        assert median_bandwidth(X) == pytest.approx(np.median(pdist(X)), rel=1e-9)


def test_a_weight_is_a_number_of_copies_up_to_pairs_of_a_row_with_itself() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((12, 3)), rng.integers(0, 4, 12)
    pairs = [(np.linalg.norm(X[i] - X[j]), w[i] * w[j]) for i in range(12) for j in range(i)]
    expanded = np.repeat([d for d, _ in pairs], [c for _, c in pairs])
    assert median_bandwidth(X, w) == pytest.approx(np.median(expanded), rel=1e-9)
    assert median_bandwidth(X, w) == median_bandwidth(X, 10.0 * w)


def test_the_sample_is_seeded_weighted_and_close() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.standard_normal((2000, 5)), 100 * rng.standard_normal((2000, 5))
    X = np.vstack([near, far])
    weights = np.r_[np.ones(2000), np.zeros(2000)]
    exact = np.median(pdist(near))
    estimate = median_bandwidth(X, weights, n_sample=400)
    assert estimate == median_bandwidth(X, weights, n_sample=400)
    assert estimate != median_bandwidth(X, weights, n_sample=400, random_state=1)
    assert estimate == pytest.approx(exact, rel=0.03)


def test_the_sample_counts_each_weight_once() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((1500, 3)), 6 + 3 * rng.standard_normal((1500, 3))])
    weights = np.r_[np.full(1500, 1.0), np.full(1500, 2.0)]
    exact = median_bandwidth(X, weights, n_sample=3000)
    sampled = np.mean([median_bandwidth(X, weights, n_sample=300, random_state=s) for s in range(20)])
    assert sampled == pytest.approx(exact, rel=0.03)
    squared = median_bandwidth(X, weights**2, n_sample=3000)
    assert abs(squared / exact - 1) > 0.06


def test_one_hot_rows_and_scale() -> None:
    X = np.eye(6)
    assert median_bandwidth(X) == pytest.approx(np.sqrt(2))
    assert median_bandwidth(1e-3 * X + 1.0) == pytest.approx(1e-3 * np.sqrt(2))


def test_when_most_rows_coincide_the_others_decide() -> None:
    X = np.zeros((10, 1))
    X[0] = 3.0
    assert median_bandwidth(X) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("X", "options"),
    [
        (np.ones((5, 2)), {}),
        ([[0.0], [1.0]], {"weights": [1, 0]}),
        ([[0.0]], {}),
        ([[0.0], [np.nan]], {}),
        ([[0.0], [1.0]], {"weights": [1, -1]}),
        ([[0.0], [1.0]], {"n_sample": 1}),
    ],
)
def test_refusals(X, options) -> None:
    with pytest.raises(InputError):
        median_bandwidth(X, **options)
