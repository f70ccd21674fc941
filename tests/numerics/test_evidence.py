"""The one search for hyperparameters: it finds known optima, says where it stopped, and turns back from failures."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.errors import ConvergenceError, InputError
from crosslevel.numerics.evidence import LogNormal, maximize


def two_hills(t):
    """A higher hill of height 2 at 3, a lower of height 1 at -3."""
    a, b = 2.0 * np.exp(-0.5 * (t[0] - 3.0) ** 2), np.exp(-0.5 * (t[0] + 3.0) ** 2)
    return float(a + b), np.array([-a * (t[0] - 3.0) - b * (t[0] + 3.0)])


def test_the_best_of_several_starts_is_kept():
    found = maximize(two_hills, [np.array([-2.5]), np.array([2.0]), np.array([3.5])], flat=1e-4)
    assert found.theta[0] == pytest.approx(3.0, abs=1e-4)
    assert found.start in (1, 2)
    c = found.convergence
    assert (c.converged, c.n_searches, c.agreeing) == (True, 3, 2)
    assert c.values[0] == pytest.approx(1.0, abs=1e-6)
    assert found.value == max(c.values) == pytest.approx(2.0, abs=1e-6)


def test_a_bound_that_holds_is_named_and_its_slope_not_counted():
    def hill(t):
        return -float(((t - [5.0, 0.5]) ** 2).sum()), -2.0 * (t - [5.0, 0.5])

    found = maximize(hill, [np.zeros(2)], np.array([-1.0, -1.0]), np.array([1.0, 1.0]), ["a", "b"])
    assert found.theta == pytest.approx([1.0, 0.5], abs=1e-5)
    assert found.convergence.at_bounds == ("a",)
    assert found.convergence.converged
    assert found.convergence.slope < 1e-3
    assert found.gradient[0] == pytest.approx(8.0)


def test_lower_bounds_hold_as_upper_ones_do():
    found = maximize(
        lambda t: (-float(((t + 5.0) ** 2).sum()), -2.0 * (t + 5.0)), [np.ones(1)], np.array([-1.0]), np.array([2.0])
    )
    assert found.theta == pytest.approx([-1.0])
    assert found.convergence.converged
    assert found.convergence.slope == 0.0


def test_priors_move_the_optimum_by_precision_weights():
    found = maximize(lambda t: (-0.5 * float(t @ t), -t), [np.zeros(1)], priors=[LogNormal(np.exp(3.0), 0.5)])
    assert found.theta[0] == pytest.approx(3.0 * 4.0 / 5.0, abs=1e-4)


@pytest.mark.parametrize("failure", [InputError("no"), ConvergenceError("no"), None])
def test_a_search_turns_back_from_points_that_fail(failure):
    def hill(t):
        if t[0] > 2.0:
            if failure is None:
                return np.nan, np.full(1, np.nan)
            raise failure
        return -float((t[0] - 1.0) ** 2), np.array([-2.0 * (t[0] - 1.0)])

    found = maximize(hill, [np.array([-50.0])])
    assert found.theta[0] == pytest.approx(1.0, abs=1e-4)
    assert found.convergence.converged


@pytest.mark.parametrize("broken", [(np.nan, np.zeros(1)), (0.0, np.full(1, np.nan)), (np.inf, np.zeros(1))])
def test_a_value_or_a_slope_that_is_no_number_is_a_failure(broken):
    def hill(t):
        return broken if t[0] > 2.0 else (-float((t[0] - 1.0) ** 2), np.array([-2.0 * (t[0] - 1.0)]))

    found = maximize(hill, [np.array([-50.0])])
    assert found.theta[0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(("slope", "converged"), [(0.006, True), (0.014, False)])
def test_a_hundredth_is_flat(slope, converged):
    """Less than a hundredth of a log unit for a hyperparameter 2.7 times as large counts as nothing."""
    found = maximize(lambda t: (slope * float(t[0]), np.array([slope])), [np.zeros(1)], options={"maxiter": 1})
    assert found.convergence.converged == converged
    assert found.convergence.slope == pytest.approx(slope)


def test_where_nothing_can_be_computed_nothing_has_converged():
    found = maximize(lambda t: (np.nan, np.zeros(1)), [np.zeros(1)])
    assert not found.convergence.converged


def test_a_search_cut_short_says_so():
    found = maximize(
        lambda t: (-float(np.sum(t**4)), -4.0 * t**3), [np.full(2, 40.0)], options={"maxiter": 1}, rounds=1
    )
    assert not found.convergence.converged
    assert found.convergence.slope > 1.0


def test_a_search_that_stopped_on_a_slope_is_begun_again_where_it_stopped():
    def steep(t):
        return -float(t[0] ** 4 + 10.0 * (t[1] - t[0]) ** 2), np.array(
            [-4.0 * t[0] ** 3 + 20.0 * (t[1] - t[0]), -20.0 * (t[1] - t[0])]
        )

    short = {"options": {"maxiter": 3}}
    once = maximize(steep, [np.array([3.0, -2.0])], rounds=1, **short)
    again = maximize(steep, [np.array([3.0, -2.0])], rounds=40, **short)
    assert not once.convergence.converged
    assert again.convergence.converged
    assert again.value > once.value
