"""Newton's steps with halving: the optimum is reached, a value never falls, and a climb that fails says so."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.numerics.newton import newton


def test_halving_saves_a_step_that_overshoots():
    seen = []

    def value(x):
        seen.append(float(x[0]))
        return -float(np.log(np.cosh(x[0])))

    def step(x):
        return None if abs(np.tanh(x[0])) < 1e-10 else -np.tanh(x) * np.cosh(x) ** 2  # whole steps diverge from 1.5

    found = newton(np.array([1.5]), value, step, max_steps=50)
    assert found.converged
    assert found.x[0] == pytest.approx(0.0, abs=1e-9)
    assert max(map(abs, seen)) > 1.5


def test_steps_and_lack_of_convergence_are_counted():
    found = newton(np.array([100.0]), lambda x: -float(x[0] ** 2), lambda x: -0.1 * x, max_steps=3)
    assert (found.steps, found.converged) == (3, False)
    assert found.x[0] == pytest.approx(100.0 * 0.9**3)
    stuck = newton(np.array([1.0]), lambda x: -float(x[0] ** 2), lambda x: x, max_steps=5, halvings=3)
    assert (stuck.steps, stuck.converged, stuck.x[0]) == (0, False, 1.0)


def test_limits_are_kept_and_undefined_values_refused():
    found = newton(
        np.array([0.5]),
        lambda x: float(x[0]) if x[0] < 0.9 else np.nan,
        lambda x: None if x[0] >= 0.8 else np.array([10.0]),
        max_steps=5,
        project=lambda x: np.minimum(x, 0.8),
    )
    assert found.converged
    assert found.x[0] == 0.8
