"""EM, homogeneous units, bounded least squares, and the comparison of methods."""

from __future__ import annotations

import numpy as np
import pyarrow.csv as pv
import pytest
import scipy.optimize
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.ecological.tables.goodman import bounded_fit
from crosslevel.errors import ConvergenceError

RATES = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])


def exact(n=12):
    """Units whose outcomes follow constant rates without error."""
    X = np.column_stack([np.linspace(10, 990, n), np.linspace(990, 10, n)])
    return X, X @ RATES


@pytest.mark.parametrize(
    "method",
    [
        lambda x, t: ecological.rxc_em(counted(x, t), tol=1e-9),
        lambda x, t: ecological.goodman(counted(x, t), bounded=True),
    ],
)
def test_constant_rates_are_found_exactly(method):
    X, T = exact()
    np.testing.assert_allclose(method(X, T)["estimate"].reshape(2, 3), RATES, atol=2e-5)


def test_bounded_least_squares_is_the_constrained_minimum():
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(3), 25)
    t = np.clip(x @ np.array([[1.2, -0.2], [0.0, 1.0], [0.5, 0.5]]) + rng.normal(0, 0.05, (25, 2)), 0, 1)
    w = rng.uniform(1, 5, 25)
    B = bounded_fit(x, t, w)

    def loss(free):
        rates = np.column_stack([free, 1 - free])
        return np.sum(w[:, None] * (t - x @ rates) ** 2)

    best = scipy.optimize.minimize(loss, [0.5] * 3, bounds=[(0, 1)] * 3, method="L-BFGS-B", options={"ftol": 1e-15})
    assert loss(B[:, 0]) == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(B[:, 0], best.x, atol=1e-4)
    assert B.min() >= 0
    np.testing.assert_allclose(B.sum(axis=1), 1)


def test_em_stopped_early_shrinks_groups_together_and_units_keep_their_margins():
    X, T = exact()
    early, late = (ecological.rxc_em(counted(X, T), tol=tol) for tol in (5e-2, 1e-8))
    apart = [abs(found["estimate"][0] - found["estimate"][3]) for found in (early, late)]
    assert apart[0] < apart[1]
    cells = early.units["count"].reshape(-1, 2, 3)
    np.testing.assert_allclose(cells.sum(axis=1), T, rtol=1e-9)
    np.testing.assert_allclose(cells.sum(axis=2), X, rtol=1e-9)
    assert late.diagnostics["iterations"] > early.diagnostics["iterations"]


def test_homogeneous_units_speak_for_their_group():
    X = np.array([[90, 10], [95, 5], [50, 50], [70, 30]])
    T = np.array([[60, 40], [70, 30], [0, 100], [5, 95]])
    found = ecological.homogeneous(counted(X, T), threshold=0.9)
    np.testing.assert_allclose(found["estimate"][:2], [0.65, 0.35])
    assert np.isnan(found["estimate"][2:]).all()
    assert found["units_used"].tolist() == [2, 2, 0, 0]
    assert "No unit is homogeneous for 'group_1'" in found.warnings[0]


def test_em_that_runs_out_of_iterations_answers_when_allowed_and_says_so():
    X, T = exact()
    found = ecological.rxc_em(counted(X, T), tol=1e-9, max_iterations=2, allow_unconverged=True)
    assert found.diagnostics["converged"] is False
    assert found.diagnostics["iterations"] == 2
    assert found.warnings[0].startswith("Not converged: EM still moves by")
    np.testing.assert_allclose(found.units["count"].reshape(-1, 2, 3).sum(axis=1), T, rtol=1e-9)
    finished = ecological.rxc_em(counted(X, T), allow_unconverged=True)
    assert finished.diagnostics["converged"] is True
    assert finished.warnings == ()
    with pytest.raises(ConvergenceError, match="methods="):
        ecological.compare(counted(X, T), methods={"rxc_em": {"tol": 1e-9, "max_iterations": 2}})


def test_a_contextual_fit_that_did_not_converge_gives_no_numbers(monkeypatch):
    X, T = exact()
    monkeypatch.setattr("crosslevel.ecological.tables.contextual.model.MAX_DECREMENT", -1.0)
    for kind in ("demographic", "symmetric votes"):
        with pytest.raises(ConvergenceError):
            ecological.rxc(counted(X, T), kind=kind)


def test_compare_puts_the_methods_side_by_side():
    X, T = exact()
    methods = {"bounds": {}, "goodman": {"weights": "equal"}, "rxc_em": {}, "rxc": {"contextual_slope": 0.0}}
    both = ecological.compare(counted(X, T), methods=methods, level=0.9)
    assert both.keys == ("group", "outcome", "method")
    assert len(both) == 6 * 4
    assert both["method"][:4].tolist() == list(methods)
    alone = ecological.goodman(counted(X, T), weights="equal", level=0.9)
    for column in ("estimate", "conf_low", "lower"):
        np.testing.assert_allclose(both.select(method="goodman")[column], alone[column])
    assert np.isnan(both.select(method="bounds")["conf_low"]).all()
    assert set(both.diagnostics["seconds"]) == set(methods)
    assert "comparison: bounds, goodman (equal weights), rxc_em, rxc" in both.summary()
    axes = both.plot()
    assert "group_0" in [text.get_text() for text in (*axes.texts, *axes.get_yticklabels())]
    assert ecological.compare(counted(X, T), methods=["neighborhood"]).level is None


@pytest.mark.data
def test_homogeneous_counties_reproduce_the_published_number(real_data):
    data = pv.read_csv(real_data / "truth" / "ei_matproii.csv")
    n, x, t = (data[c].to_numpy().astype(float) for c in ("n", "x", "t"))
    black, yes = np.round(n * x), np.round(n * t)
    found = ecological.homogeneous(counted(np.column_stack([black, n - black]), np.column_stack([yes, n - yes])))
    assert found["estimate"][2] == pytest.approx(0.8142, abs=1e-4)
    assert found["units_used"].tolist() == [0, 0, 106, 106]
