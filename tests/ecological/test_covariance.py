"""The prior by its definition, and the evidence's slope by every hyperparameter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from crosslevel.ecological.covariance import (
    BIAS,
    Hyperparameters,
    Rows,
    Terms,
    covariance,
    place_covariance,
    slopes,
)
from crosslevel.numerics.kernels import matern
from crosslevel.numerics.laplace import Binomial, evidence_gradient, find_mode

H = Hyperparameters(effect_variance=0.8, spatial=0.5, length=1.3, nugget=0.07, group=0.2)
Q, P = 9, 4


def terms(kind: str | None = "matern32", *, nugget: bool = True, group: bool = True, product: bool = False) -> Terms:
    xy = np.random.default_rng(1).uniform(0, 4, (Q, 2))
    return Terms(Q, kind, xy, "plane", nugget, np.arange(Q) % 3 if group else None, product)


def rows(shape: str) -> Rows:
    rng = np.random.default_rng(2)
    M = rng.normal(size=(Q, P)) / 2
    if shape == "places":
        return Rows.of(M)
    if shape == "some places":
        return Rows.of(M).take(np.array([7, 0, 3, 4, 8, 1]))
    A = np.vstack([np.eye(Q), rng.dirichlet(np.ones(Q), 3), np.eye(Q)[[2]]])
    return Rows.of(np.vstack([M, rng.normal(size=(4, P)) / 2]), A)


SHAPES = ("places", "some places", "evidence")
TERMS = {
    "sum": terms(),
    "matern12, no group": terms("matern12", group=False),
    "matern52, no nugget": terms("matern52", nugget=False),
    "no space": terms(None),
    "only people": terms(None, nugget=False, group=False),
    "product": terms(product=True),
    "product, bare": terms("matern52", nugget=False, group=False, product=True),
}


def dense(r: Rows) -> np.ndarray:
    if r.A is None:
        return np.eye(Q)
    return np.eye(Q)[r.A] if r.A.ndim == 1 else r.A


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TERMS)
def test_covariance_by_its_definition(name: str, shape: str) -> None:
    """f_r = bias + sum_i A_ri (m_r . w_i + s_i + g_i + e_i): the covariance of every pair of random numbers, written out."""
    t, r = TERMS[name], rows(shape)
    A = dense(r)
    field = np.ones((Q, Q)) if t.kind is None else matern(t.distance, H.length, t.kind)[0]
    K = np.zeros((len(A), len(A)))
    for a in range(len(A)):
        for b in range(len(A)):
            K[a, b] = BIAS
            weights = H.effect_variance * float(r.M[a] @ r.M[b])
            for i in range(Q):
                for j in range(Q):
                    pair = weights * (field[i, j] if t.product else 1.0)
                    if t.kind is not None and not t.product:
                        pair += H.spatial * field[i, j]
                    if t.nugget and i == j:
                        pair += H.nugget
                    if t.group is not None and t.group[i] == t.group[j]:
                        pair += H.group
                    K[a, b] += A[a, i] * A[b, j] * pair
    np.testing.assert_allclose(covariance(r, t, H), K, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-10


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TERMS)
def test_slopes_of_the_evidence(name: str, shape: str) -> None:
    t, r = TERMS[name], rows(shape)
    rng = np.random.default_rng(3)
    n = np.array([1.0, 5, 40, 300, 1e5, 20, 60, 9, 1e4, 30, 70, 12, 500])[: len(r.M)]
    like = Binomial(rng.binomial(n.astype(int), special.expit(rng.normal(-0.4, 0.8, len(n)))).astype(float), n)
    mode = find_mode(covariance(r, t, H), like)
    got = dict(zip(t.names, slopes(r, t, H, evidence_gradient(mode, covariance(r, t, H))), strict=True))
    for hyperparameter, slope in got.items():
        h = 2e-3

        def evidence(x: float, hyperparameter: str = hyperparameter) -> float:
            moved = replace(H, **{hyperparameter: getattr(H, hyperparameter) * np.exp(x)})
            return find_mode(covariance(r, t, moved), like).log_evidence

        five = (8 * (evidence(h) - evidence(-h)) - evidence(2 * h) + evidence(-2 * h)) / (12 * h)
        assert slope == pytest.approx(five, rel=1e-6, abs=1e-7), hyperparameter
    assert set(got) == {
        "effect_variance",
        *(() if t.kind is None else ("length",) if t.product else ("spatial", "length")),
        *(("nugget",) if t.nugget else ()),
        *(("group",) if t.group is not None else ()),
    }


def test_rows_of_places_as_shares_are_the_same() -> None:
    r = rows("places")
    t = TERMS["sum"]
    np.testing.assert_allclose(covariance(r, t, H), covariance(Rows.of(r.M, np.eye(Q)), t, H), rtol=1e-12)
    some = np.array([7, 0, 3])
    np.testing.assert_allclose(covariance(r.take(some), t, H), covariance(r, t, H)[np.ix_(some, some)], rtol=1e-12)
    again = r.take(np.array([7, 0, 3, 4])).take(np.array([2, 0]))
    np.testing.assert_allclose(covariance(again, t, H), covariance(r, t, H)[np.ix_([3, 7], [3, 7])], rtol=1e-12)


def test_places_covary_by_what_they_share() -> None:
    K = place_covariance(TERMS["sum"], H)
    t = TERMS["sum"]
    assert t.distance is not None
    near = H.spatial * matern(t.distance, H.length)[0]
    assert K[0, 0] == pytest.approx(BIAS + H.spatial + H.group + H.nugget)
    assert K[0, 3] == pytest.approx(BIAS + near[0, 3] + H.group)
    assert K[0, 1] == pytest.approx(BIAS + near[0, 1])
