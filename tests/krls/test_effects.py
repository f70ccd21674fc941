"""Derivatives equal finite differences; switches equal kernels of counterfactual people; averages are v'c."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import Category, Number
from crosslevel.krls.effects import Effect, average_functionals, build_effects, pointwise_effects
from crosslevel.krls.reading import Encoding
from crosslevel.krls.spectrum import GaussianKernel, standardize

STEP = 1e-5


def three_levels(rng, n=25, rare=None):
    """Two numbers, a binary column, and a factor of three levels as two dummies."""
    level = rng.integers(0, 3, n)
    binary = rng.integers(0, 2, n) if rare is None else (np.arange(n) < rare).astype(int)
    X = np.column_stack([rng.normal(size=(n, 2)), binary, level == 1, level == 2]).astype(float)
    encoding = Encoding((*map(Number, "abt"), Category("f", pa.array(["x", "y", "z"]), has_null=False)))
    m = rng.integers(1, 5, n) * 1.0
    scaling = standardize(X, m)
    return X, m, scaling, encoding


@pytest.fixture
def world(rng):
    X, m, scaling, encoding = three_levels(rng)
    effects = build_effects(encoding, X, scaling)
    return X, m, scaling, effects, GaussianKernel(scaling.apply(X), 5.0), rng.normal(size=len(X))


def set_to(X, columns, values):
    out = X.copy()
    out[:, columns] = values
    return out


def brute(kernel, scaling, coef, X, effect):
    """Predict for explicitly changed people."""

    def f(rows):
        return kernel.apply(coef[:, None], scaling.apply(rows))[:, 0]

    if effect.kind == "derivative":
        step = np.zeros(X.shape[1])
        step[effect.column] = STEP
        return (f(X + step) - f(X - step)) / (2 * STEP) * scaling.sd[effect.column]
    if effect.kind == "first difference":
        return f(set_to(X, [effect.column], 1.0)) - f(set_to(X, [effect.column], 0.0))
    return f(set_to(X, [3, 4], np.eye(2)[effect.high - 1])) - f(set_to(X, [3, 4], [0.0, 0.0]))


def test_kinds_and_names(world):
    effects = world[3]
    assert [e.term for e in effects] == ["a", "b", "t", "f: y (reference x)", "f: z (reference x)"]
    assert [e.kind for e in effects] == ["derivative", "derivative", "first difference", "contrast", "contrast"]
    assert [e.contrast for e in effects[2:]] == ["1 - 0", "y - x", "z - x"]


def test_pointwise_effects_equal_brute_force_at_rows_old_and_new(world, rng):
    X, _, scaling, effects, kernel, coef = world
    new = np.column_stack(
        [rng.normal(size=(4, 2)), [0, 1, 0.5, 2], [0, 1, 0, 1], [0, 0, 1, 1]]
    )  # also impossible people
    for rows, at in ((X, None), (new, scaling.apply(new))):
        found = pointwise_effects(kernel, effects, coef, at)
        for e, effect in enumerate(effects):
            np.testing.assert_allclose(found[:, e], brute(kernel, scaling, coef, rows, effect), atol=1e-8)


def test_average_functionals_average_the_pointwise_effects(world):
    _, m, _, effects, kernel, coef = world
    rho = m / m.sum()
    functionals = average_functionals(kernel, effects, rho)
    np.testing.assert_allclose(functionals.V.T @ coef, rho @ pointwise_effects(kernel, effects, coef), rtol=1e-10)


def test_linear_parts_are_the_effects_of_linear_functions(world):
    X, m, scaling, effects, kernel, _ = world
    ell = average_functionals(kernel, effects, m / m.sum()).ell
    for p in range(X.shape[1]):
        for e, effect in enumerate(effects):
            if effect.switch is None:
                expected = float(effect.column == p)
            else:
                low = np.zeros(5)
                high = low.copy()
                high[2 if effect.kind == "first difference" else 2 + effect.high] = 1.0
                expected = (scaling.apply(high) - scaling.apply(low))[p]
            assert ell[1 + p, e] == pytest.approx(expected, abs=1e-12)
    assert (ell[0] == 0).all()


def test_a_very_rare_value_does_not_underflow(rng):
    X, m, scaling, encoding = three_levels(rng, n=30, rare=1)
    m = np.where(X[:, 2] == 1, 1.0, 1e6)  # one person in thirty million: the kernel across the switch is zero in floats
    scaling = standardize(X, m)
    effects = build_effects(encoding, X, scaling)
    kernel = GaussianKernel(scaling.apply(X), 5.0)
    switch = effects[2].switch
    assert switch.kernel(switch.points[:1], 5.0).min() == 0.0
    coef = rng.normal(size=30)
    found = pointwise_effects(kernel, effects, coef)
    np.testing.assert_allclose(found[:, 2], brute(kernel, scaling, coef, X, effects[2]), atol=1e-9)
    V = average_functionals(kernel, effects, m / m.sum()).V
    np.testing.assert_allclose(V[:, 2] @ coef, (m / m.sum()) @ found[:, 2], rtol=1e-9)


def test_dummies_one_at_a_time_leave_their_siblings(rng):
    X, _, scaling, encoding = three_levels(rng)
    effects = build_effects(encoding, X, scaling, contrast="dummy")
    kernel, coef = GaussianKernel(scaling.apply(X), 5.0), rng.normal(size=len(X))
    found = pointwise_effects(kernel, effects, coef)
    for e in (3, 4):
        expected = brute(kernel, scaling, coef, X, Effect("", "first difference", "", e, effects[e].switch))
        np.testing.assert_allclose(found[:, e], expected, atol=1e-10)
    whole = pointwise_effects(kernel, build_effects(encoding, X, scaling), coef)
    assert np.abs(found[:, 3:] - whole[:, 3:]).max() > 0.01
