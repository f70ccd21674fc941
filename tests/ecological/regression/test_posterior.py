"""Draws by Matheron's rule and closed-form moments against the textbook's conditional normal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, special

from crosslevel.ecological.covariance import Hyperparameters, Rows, Terms, covariance, moments
from crosslevel.ecological.regression import posterior
from crosslevel.ecological.regression.posterior import draw, draw_product, latent
from crosslevel.errors import InputError
from crosslevel.numerics.kernels import matern
from crosslevel.numerics.laplace import Binomial, Mode, find_mode

H = Hyperparameters(effect_variance=0.8, spatial=0.5, length=1.3, nugget=0.07, group=0.2)
Q, P, N = 7, 3, 40_000


def setting(shape: str, product: bool, nugget: bool = True) -> tuple[Rows, Terms, Mode, np.ndarray]:
    """Give rows, terms, the mode and A, for 7 places of which 2 may be unobserved."""
    rng = np.random.default_rng(4)
    xy = rng.uniform(0, 4, (Q, 2))
    terms = Terms(Q, "matern32", xy, "plane", nugget, np.arange(Q) % 2, product)
    M = rng.normal(size=(Q, P)) / 2
    if shape == "places":
        rows, A = Rows.of(M), np.eye(Q)
    elif shape == "unobserved":
        some = np.array([4, 0, 2, 6, 1])
        rows, A = Rows.of(M).take(some), np.eye(Q)[some]
    else:
        A = np.vstack([np.eye(Q)[:5], rng.dirichlet(np.ones(Q), 2)])
        rows = Rows.of(np.vstack([M[:5], rng.normal(size=(2, P))]), A)
    n = np.array([3.0, 50, 1e4, 12, 300, 80, 5])[: len(A)]
    like = Binomial(rng.binomial(n.astype(int), special.expit(rng.normal(0, 0.8, len(n)))).astype(float), n)
    return rows, terms, find_mode(covariance(rows, terms, H), like), A


def textbook(
    rows: Rows, terms: Terms, mode: Mode, A: np.ndarray, M: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Condition the joint normal of rows and bags on pseudo-data z = f + W^-1 gradient with variance W^-1."""
    both = Rows.of(np.vstack([rows.M, M]), np.vstack([A, np.eye(Q)[place]]))
    K = covariance(both, terms, H)
    n = len(A)
    S = linalg.inv(K[:n, :n] + np.diag(1 / mode.curvature))
    z = mode.f + mode.alpha / mode.curvature
    return K[n:, :n] @ S @ z, K[n:, n:] - K[n:, :n] @ S @ K[:n, n:]


def bags() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.normal(size=(6, P)), np.array([0, 0, 3, 5, 5, 6])


SHAPES = ("places", "unobserved", "evidence")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("product", [False, True])
def test_moments_are_the_textbooks(shape: str, product: bool) -> None:
    rows, terms, mode, A = setting(shape, product)
    M, place = bags()
    mean, K = textbook(rows, terms, mode, A, M, place)
    got = moments(rows, terms, H, mode, M, place)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(got.variance, np.diag(K), rtol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("product", [False, True])
def test_draws_have_the_textbooks_moments(shape: str, product: bool) -> None:
    """Standardized by the textbook, 40,000 draws have mean 0 and covariance I to 5 Monte Carlo errors (1/200 each)."""
    rows, terms, mode, A = setting(shape, product)
    M, place = bags()
    mean, K = textbook(rows, terms, mode, A, M, place)
    rng = np.random.default_rng(0)
    together = (rows, terms, H, mode)
    f = draw_product(*together, M, place, N, rng) if product else latent(draw(*together, N, rng), M, place)
    assert f.shape == (N, 6)
    z = linalg.solve_triangular(linalg.cholesky(K, lower=True), (f - mean).T, lower=True)
    np.testing.assert_allclose(z.mean(axis=1), 0.0, atol=5 / np.sqrt(N))
    np.testing.assert_allclose(np.cov(z), np.eye(6), atol=5 * np.sqrt(2 / N))


def test_at_the_rows_themselves_the_draws_are_the_laplace_posterior() -> None:
    rows, terms, mode, _ = setting("places", False)
    K = covariance(rows, terms, H)
    f = latent(draw(rows, terms, H, mode, N, np.random.default_rng(1)), rows.M, np.arange(Q))
    expected = linalg.inv(linalg.inv(K) + np.diag(mode.curvature))
    root = np.sqrt(np.diag(expected))
    np.testing.assert_allclose((f.mean(axis=0) - mode.f) / root, 0.0, atol=5 / np.sqrt(N))
    np.testing.assert_allclose(np.cov(f.T) / np.outer(root, root), expected / np.outer(root, root), atol=0.03)


def test_weights_and_places_are_drawn_jointly() -> None:
    """A place pinned by 10,000 trials: w and u vary, their sum at the place's own embedding hardly does."""
    rows, terms, mode, _ = setting("places", False)
    drawn = draw(rows, terms, H, mode, 4000, np.random.default_rng(1))
    at = np.argmax(mode.curvature)
    together = latent(drawn, rows.M[[at]], np.array([at]))[:, 0]
    apart = latent(drawn, np.zeros((1, P)), np.array([at]))[:, 0]
    assert together.std() < 0.03
    assert apart.std() > 0.2


def test_places_that_coincide_need_no_nugget() -> None:
    rng = np.random.default_rng(2)
    xy = np.array([[0.0, 0], [0, 0], [1, 1]])
    terms = Terms(3, "matern32", xy, "plane", False, None)
    rows = Rows.of(rng.normal(size=(3, 2)))
    mode = find_mode(covariance(rows, terms, H), Binomial(np.array([3.0, 4, 5]), np.full(3, 10.0)))
    u = draw(rows, terms, H, mode, 100, rng).u
    np.testing.assert_allclose(u[:, 0], u[:, 1], atol=1e-6)
    M, place = rng.normal(size=(1, 2)).repeat(2, axis=0), np.array([0, 1])
    f = draw_product(rows, Terms(3, "matern32", xy, "plane", False, None, True), H, mode, M, place, 100, rng)
    np.testing.assert_allclose(f[:, 0], f[:, 1], atol=1e-5)


def test_too_many_parts_for_a_product_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, terms, mode, _ = setting("places", True)
    monkeypatch.setattr(posterior, "LARGEST", 5)
    with pytest.raises(InputError):
        draw_product(rows, terms, H, mode, *bags(), 10, np.random.default_rng(0))


def test_the_product_kernel_varies_weights_over_space() -> None:
    # two places far apart have unrelated weights: what one says does not reach the other
    rng = np.random.default_rng(5)
    terms = Terms(2, "matern32", np.array([[0.0, 0.0], [1e6, 0.0]]), "plane", False, None, True)
    assert matern(terms.distance, H.length)[0][0, 1] == pytest.approx(0.0, abs=1e-12)
    rows = Rows.of(np.array([[1.0], [1.0]])).take(np.array([0]))
    mode = find_mode(covariance(rows, terms, H), Binomial(np.array([9e4]), np.array([1e5])))
    f = draw_product(rows, terms, H, mode, np.array([[-3.0], [-3.0]]), np.array([0, 1]), 20_000, rng)
    g = draw_product(rows, terms, H, mode, np.array([[3.0], [3.0]]), np.array([0, 1]), 20_000, rng)
    # the second place's weight has its prior variance 0.8 * 9 around the level
    assert (g[:, 0].mean() - f[:, 0].mean()) > 0.2
    assert abs(g[:, 1].mean() - f[:, 1].mean()) < 0.1
