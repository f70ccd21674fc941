"""Landmarks: exact for the approximate model, streamed or held, and near the exact model when there are many."""

from __future__ import annotations

import numpy as np
import pytest

import crosslevel.krls.covariance as clusters
import crosslevel.krls.nystrom as ny
from crosslevel import load, save
from crosslevel.errors import CrosslevelWarning
from crosslevel.krls import KRLS
from crosslevel.krls.model import collapse
from crosslevel.krls.penalty import choose_penalty, losses
from crosslevel.krls.spectrum import GaussianKernel, standardize

quiet = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def low_rank(smooth):
    X, y = smooth(90)
    cells = collapse(X, y).rescaled(float(y.mean()), float(y.std(ddof=1)))
    kernel = GaussianKernel(standardize(X, cells.m).apply(X), 3.0)
    return ny.nystrom(kernel, cells.m, 15), cells, kernel


def dense(found):
    """The kernel of the approximate model, written out."""
    return (
        found.spectrum.rows(np.arange(len(found.kernel.Z)))
        * found.spectrum.w
        @ found.spectrum.rows(np.arange(len(found.kernel.Z))).T
    )


def test_the_model_is_the_projection_on_the_landmarks(low_rank):
    found, _, kernel = low_rank
    K, landmarks = kernel.matrix(), found.kernel.centers
    C = landmarks.apply(np.eye(15), kernel.Z)
    direct = C @ np.linalg.solve(landmarks.matrix(), C.T)
    np.testing.assert_allclose(dense(found), direct, atol=1e-10)
    assert found.lost == pytest.approx(np.trace(K) - np.trace(direct), rel=1e-8)


def test_leave_one_out_is_that_of_the_approximate_model(low_rank):
    found, cells, _ = low_rank
    K, u, lam = dense(found), cells.mean, 0.3
    out = []
    for i in range(len(u)):
        rest = np.arange(len(u)) != i
        coef = np.linalg.solve(K[np.ix_(rest, rest)] + lam * np.eye(len(u) - 1), u[rest])
        out.append((u[i] - K[i, rest] @ coef) ** 2)
    assert losses(found.spectrum, cells, np.array([lam]))[0][0] == pytest.approx(sum(out), rel=1e-9)


def test_streamed_and_held_are_one(low_rank, monkeypatch, rng):
    held, cells, kernel = low_rank
    monkeypatch.setattr(ny, "HELD", 0)
    monkeypatch.setattr(ny, "BLOCK", 150)
    streamed = ny.nystrom(kernel, cells.m, 15)
    assert isinstance(streamed.spectrum, ny.StreamedSpectrum)
    assert not isinstance(held.spectrum, ny.StreamedSpectrum)
    X = rng.normal(size=(90, 2))
    np.testing.assert_allclose(streamed.spectrum.solve(X, 0.3), held.spectrum.solve(X, 0.3), rtol=1e-9)
    lam = np.array([0.3])
    np.testing.assert_allclose(streamed.spectrum.inverse_diagonal(lam), held.spectrum.inverse_diagonal(lam), rtol=1e-9)
    np.testing.assert_allclose(
        choose_penalty(streamed.spectrum, cells, "loo").penalty,
        choose_penalty(held.spectrum, cells, "loo").penalty,
        rtol=1e-9,
    )


def test_what_is_remembered_is_what_was_asked(low_rank, monkeypatch, rng):
    _, cells, kernel = low_rank
    monkeypatch.setattr(ny, "HELD", 0)
    spectrum = ny.nystrom(kernel, cells.m, 15).spectrum
    X = rng.normal(size=(90, 1))
    first = spectrum.project(X)
    X *= 2.0  # the same object, other numbers
    np.testing.assert_allclose(spectrum.project(X), 2 * first, rtol=1e-12)


@quiet
def test_effects_are_derivatives_and_differences_of_the_prediction(smooth):
    X, y = smooth(80)
    model = KRLS(method="nystrom", rank=20).fit(X, y)
    h = 1e-5
    for p in (0, 1):
        step = h * np.eye(3)[p]
        slope = (model.predict(X + step) - model.predict(X - step)) / (2 * h)
        np.testing.assert_allclose(model.pointwise_effects_[:, p], slope, atol=1e-7)
    high, low = X.copy(), X.copy()
    high[:, 2], low[:, 2] = 1.0, 0.0
    np.testing.assert_allclose(model.pointwise_effects_[:, 2], model.predict(high) - model.predict(low), atol=1e-9)
    np.testing.assert_allclose(model.predict(X), model.fitted_, atol=1e-10)
    np.testing.assert_allclose(model.effects()["plug_in"], model.average_effects_, rtol=1e-7)


@quiet
def test_many_landmarks_give_the_exact_numbers(smooth):
    X, y = smooth(80)
    exact, near = KRLS().fit(X, y), KRLS(method="nystrom", rank=80).fit(X, y)
    assert near.penalty_ == pytest.approx(exact.penalty_, rel=1e-6)
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(near.effects()[name], exact.effects()[name], rtol=1e-5)


@quiet
def test_clusters_wider_than_the_rank_are_left_out_exactly(smooth, monkeypatch, rng):
    X, y = smooth(90)
    cluster = rng.integers(0, 4, 90)
    wide = KRLS(method="nystrom", rank=10, penalty=0.5).fit(X, y, cluster=cluster).effects()["std_error"]
    monkeypatch.setattr(clusters, "WIDER", np.inf)
    monkeypatch.setattr(clusters, "_left_out_wide", None)  # the pairs themselves, not the eigenvectors, are solved for
    plain = KRLS(method="nystrom", rank=10, penalty=0.5).fit(X, y, cluster=cluster).effects()["std_error"]
    np.testing.assert_allclose(wide, plain, rtol=1e-9)


@quiet
def test_equal_rows_are_gathered_first(mixed):
    X, y = mixed(60)
    one = KRLS(method="nystrom", rank=12, penalty=0.4).fit(X, y)
    assert "collapsed to" in one.path_
    spread = KRLS(method="nystrom", rank=42, penalty=0.4).fit(X, y)
    np.testing.assert_allclose(
        spread.effects()["estimate"], KRLS(penalty=0.4).fit(X, y).effects()["estimate"], rtol=1e-6
    )


def test_it_says_that_it_is_an_approximation(smooth):
    X, y = smooth(60)
    with pytest.warns(CrosslevelWarning):
        model = KRLS(method="nystrom", rank=9).fit(X, y)
    found = model.effects()
    assert found.diagnostics["approximate"]
    assert found.diagnostics["lost_trace"] > 0
    assert any("approximate model" in w for w in found.warnings)
    assert "Nystrom" in model.path_


@quiet
def test_a_saved_model_answers_the_same(smooth, tmp_path):
    X, y = smooth(60)
    model = KRLS(method="nystrom", rank=12).fit(X, y)
    save(model, tmp_path / "model.clz", allow_rows=True)
    again = load(tmp_path / "model.clz")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-10)
    np.testing.assert_allclose(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1], rtol=1e-8)
    np.testing.assert_allclose(again.effects()["std_error"], model.effects()["std_error"])
    assert again.effects().diagnostics["approximate"]
