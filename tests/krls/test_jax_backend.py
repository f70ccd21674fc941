"""The dense algebra on a device: the numbers of the processor, and double precision only inside."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from crosslevel.errors import MissingExtraError
from crosslevel.krls import KRLS

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


def test_the_numbers_agree(mixed, rng, monkeypatch):
    jax = pytest.importorskip("jax")
    import crosslevel.krls.jax_backend as backend

    monkeypatch.setattr(backend, "ROWS", 16)  # several blocks, the last one shorter
    X, y = mixed(60, values=40)
    cluster = rng.integers(0, 9, 60)
    for extra in ({}, {"cluster": cluster}):
        here, there = KRLS().fit(X, y, **extra), KRLS(backend="jax").fit(X, y, **extra)
        assert there.penalty_ == pytest.approx(here.penalty_, rel=1e-10)
        np.testing.assert_allclose(there.pointwise_effects_, here.pointwise_effects_, atol=1e-10)
        np.testing.assert_allclose(there.effects()["std_error"], here.effects()["std_error"], rtol=1e-10)
        new = X[:20] + 0.1
        for a, b in zip(there.predict(new, return_std=True), here.predict(new, return_std=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
    assert there._model.spectrum.Q.dtype == np.float64
    assert ", on " in there.path_
    assert jax.numpy.ones(1).dtype == np.float32  # the process keeps its precision


def test_a_saved_model_needs_no_device(smooth, tmp_path):
    pytest.importorskip("jax")
    from crosslevel import load, save

    X, y = smooth(40)
    model = KRLS(backend="jax").fit(X, y)
    save(model, tmp_path / "model.clz", allow_rows=True)
    np.testing.assert_allclose(load(tmp_path / "model.clz").predict(X), model.predict(X), rtol=1e-10)


def test_without_jax_it_says_what_to_install(smooth, monkeypatch):
    monkeypatch.delitem(sys.modules, "crosslevel.krls.jax_backend", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError):
        KRLS(backend="jax").fit(*smooth(40))
