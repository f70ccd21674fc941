"""64-bit JAX inside the scope, and nowhere else."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from crosslevel.numerics.nuts import double_precision

jax = pytest.importorskip("jax")


def one_third():
    import jax.numpy as jnp

    return np.asarray(jnp.asarray(1.0) / 3.0)


def test_numbers_are_double_inside_only():
    before = one_third().dtype
    with double_precision():
        inside = one_third()
        assert inside.dtype == np.float64
        assert float(inside) == 1.0 / 3.0
    assert one_third().dtype == before == np.float32


def test_the_scope_ends_with_an_error():
    with pytest.raises(RuntimeError), double_precision():
        raise RuntimeError
    assert one_third().dtype == np.float32


def test_older_versions_have_it_among_what_is_experimental(monkeypatch):
    from types import ModuleType

    old, home = ModuleType("jax"), ModuleType("jax.experimental")
    home.enable_x64 = lambda: "the old scope"
    monkeypatch.setitem(sys.modules, "jax", old)
    monkeypatch.setitem(sys.modules, "jax.experimental", home)
    assert double_precision() == "the old scope"
