"""The algebra of slopes and omitted variables on exact worlds, and the widened intervals against known truth."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.ecological.margins import counted

from crosslevel import Counts, ecological
from crosslevel.ecological.tables.answer_cells import answered_units
from crosslevel.ecological.tables.assumptions.bias import (
    benchmark,
    bias_bound,
    bias_scale,
    exposure,
    own_slope_map,
    robustness_value,
    shifted,
    slope_to_move,
)
from crosslevel.ecological.tables.assumptions.robustness import SLOPE, sensitivity
from crosslevel.ecological.tables.margins import cell_bounds
from crosslevel.errors import InputError

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def composition(rng, n=60, R=3, size=1000.0):
    """People of each group in each unit: every share between 1 and 90 percent or so."""
    return rng.dirichlet(np.full(R, 1.5), n) * size * rng.uniform(0.5, 2, n)[:, None]


def outcomes_of(X, rates):
    """Two outcomes from rates (n_units, n_groups) of the first."""
    yes = (X * rates).sum(axis=1)
    return np.column_stack([yes, X.sum(axis=1) - yes])


def world_with_common_slopes(rng, gamma, R=3):
    """Rates of every group change with composition by gamma (n_groups,); gives X, T and the true rates of the district."""
    X = composition(rng, R=R)
    x, met, theta = X / X.sum(axis=1, keepdims=True), exposure(X), np.linspace(0.35, 0.6, R)
    rates = theta[None] + (x @ gamma)[:, None] - (met @ gamma)[None]
    assert (rates > 0).all()
    assert (rates < 1).all()
    true = (X * rates).sum(axis=0) / X.sum(axis=0)
    np.testing.assert_allclose(true, theta)
    return X, outcomes_of(X, rates), theta


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_slope_biases_the_regression_by_what_the_formula_says_and_leaves_no_residual(seed):
    rng = np.random.default_rng(seed)
    gamma = rng.uniform(-0.2, 0.2, 3)
    X, T, theta = world_with_common_slopes(rng, gamma)
    for weights in ("population", "equal"):
        found = ecological.goodman(counted(X, T), weights=weights)
        np.testing.assert_allclose(found["estimate"][::2] - theta, gamma - exposure(X) @ gamma, atol=1e-10)
        assert found["std_error"].max() < 1e-8  # the interval knows nothing of it
    worst = np.ptp(gamma) * (1 - np.diag(exposure(X)))
    assert (np.abs(gamma - exposure(X) @ gamma) <= worst + 1e-12).all()


@pytest.mark.parametrize("r", [0, 2])
def test_the_slope_of_one_groups_share_attains_the_worst_case_and_robustness_finds_it(r):
    d = 0.25
    X, T, theta = world_with_common_slopes(np.random.default_rng(1), d * np.eye(3)[r])
    found = ecological.goodman(counted(X, T))
    bias = found["estimate"][2 * r] - theta[r]
    assert bias == pytest.approx(d * (1 - exposure(X)[r, r]), abs=1e-10)
    part = answered_units(found)[0]
    rates = np.clip(part.rates, part.low, part.high)
    assert np.abs(rates - part.rates).max() < 1e-9  # no bound binds in this world
    np.testing.assert_allclose(shifted(part.X, part.rates, part.low, part.high, d)[r, 0], theta[r], atol=1e-9)
    answer = sensitivity(found, move=float(bias))
    assert answer["robustness"][2 * r] == pytest.approx(10 * d, rel=1e-6)
    held = sensitivity(found, slope=d)
    assert held["sens_low"][2 * r] == pytest.approx(theta[r], abs=1e-6)
    assert sensitivity(found, slope=0.9 * d)["sens_low"][2 * r] > theta[r] + 0.01


def test_slopes_of_the_groups_own_go_through_the_map():
    rng = np.random.default_rng(2)
    X = composition(rng)
    x, delta, theta = X / X.sum(axis=1, keepdims=True), np.array([0.3, -0.2, 0.1]), np.array([0.3, 0.5, 0.6])
    rates = theta + delta * (x - np.diag(exposure(X)))
    for weights, w in (("population", X.sum(axis=1)), ("equal", np.ones(len(X)))):
        found = ecological.goodman(counted(X, outcomes_of(X, rates)), weights=weights)
        np.testing.assert_allclose(found["estimate"][::2] - theta, own_slope_map(X, w) @ delta, atol=1e-10)
        kept = sensitivity(found).diagnostics["own_slope_map"]
        np.testing.assert_allclose(kept, own_slope_map(X, w), rtol=1e-6, atol=1e-9)


def some_tables(seed=3, n=40, R=3, C=3):
    inner = np.random.default_rng(seed).poisson(np.random.default_rng(seed + 100).gamma(1.0, 30.0, (n, R, C)))
    inner[:, 0, 0] += 1
    return inner.sum(axis=2).astype(float), inner.sum(axis=1).astype(float)


def test_shifted_rates_keep_the_margins_possible_and_reach_the_bounds():
    X, T = some_tables()
    part = answered_units(ecological.rxc_em(counted(X, T)))[0]
    limits, total = cell_bounds(X, T), X.sum(axis=0)[:, None]
    for d, end in ((1e6, limits.low), (-1e6, limits.high)):
        np.testing.assert_allclose(
            shifted(X, part.rates, part.low, part.high, d), end.sum(axis=0) / total, rtol=1e-9, atol=1e-12
        )
    path = np.array([shifted(X, part.rates, part.low, part.high, d) for d in np.linspace(-1, 1, 21)])
    assert (np.diff(path, axis=0) <= 1e-12).all()
    np.testing.assert_allclose(path[10].ravel(), ecological.rxc_em(counted(X, T))["estimate"], rtol=1e-9)


def test_the_slope_to_move_is_the_inverse_of_the_shift():
    X, T = some_tables(5)
    part = answered_units(ecological.rxc_em(counted(X, T)))[0]
    center = shifted(X, part.rates, part.low, part.high, 0.0)
    for r, c in ((0, 0), (1, 2), (2, 1)):
        pair = np.column_stack([X[:, r], X.sum(axis=1) - X[:, r]])
        room = part.rates[:, r, c] - part.low[:, r, c]
        for move in (0.01, 0.05, 0.12):
            d = slope_to_move(pair, room, move)
            after = shifted(X, part.rates, part.low, part.high, d)[r, c]
            assert center[r, c] - after == pytest.approx(move, abs=1e-9)
    assert slope_to_move(pair, room, 0.0) == 0
    assert slope_to_move(pair, room, 1.0) == np.inf


def test_an_omitted_column_biases_by_exactly_the_bound():
    rng = np.random.default_rng(8)
    X = composition(rng, n=80)
    x, w = X / X.sum(axis=1, keepdims=True), X.sum(axis=1)
    u = rng.normal(size=80) + 2 * x[:, 0]
    t = (x @ [0.3, 0.5, 0.6] + 0.05 * u + rng.normal(0, 0.02, 80))[:, None]
    root = np.sqrt(w / w.sum())[:, None]
    short = np.linalg.lstsq(root * x, root * t, rcond=None)[0][:, 0]
    # the district's rates in the long regression: coefficient and the group's own mean of u
    Z = np.column_stack([x, u])
    b = np.linalg.lstsq(root * Z, root * t, rcond=None)[0][:, 0]
    functional = np.column_stack([np.eye(3), (X / X.sum(axis=0)).T @ u])
    long = functional @ b
    scale = bias_scale(x, t, w)[:, 0]
    rss = [np.sum((root * (t - D @ np.linalg.lstsq(root * D, root * t, rcond=None)[0])) ** 2) for D in (x, Z)]
    nu_long = np.diag(functional @ np.linalg.inv((root * Z).T @ (root * Z)) @ functional.T)
    nu_short = np.diag(np.linalg.inv((root * x).T @ (root * x)))
    bound = bias_bound(scale, 1 - rss[1] / rss[0], 1 - nu_short / nu_long)
    np.testing.assert_allclose(np.abs(short - long), bound, rtol=1e-8)


def test_benchmarks_keep_inside_the_bound_and_find_the_confounder():
    rng = np.random.default_rng(9)
    X = composition(rng, n=300, R=2)
    x, w, v = X / X.sum(axis=1, keepdims=True), X.sum(axis=1), X / X.sum(axis=0)
    z = x[:, :1] + rng.normal(0, 0.3, (300, 1))
    noise = rng.normal(size=(300, 1))
    rates = np.array([0.4, 0.6]) + 0.3 * (z - 0.5)
    T = outcomes_of(X, rates)
    t, true = T / w[:, None], (v * rates).sum(axis=0)
    found, useless = benchmark(x, t, w, v, z), benchmark(x, t, w, v, noise)
    scale = bias_scale(x, t, w)
    for b in (found, useless):
        assert (np.abs(b.change) <= bias_bound(scale, b.r2_outcome[None], b.r2_composition[:, None]) + 1e-9).all()
    estimate = ecological.goodman(counted(X, T))["estimate"].reshape(2, 2)[:, 0]
    np.testing.assert_allclose(estimate - found.change[:, 0], true, atol=1e-9)  # with z the regression is right
    assert np.abs(found.change).min() > 5 * np.abs(useless.change).max()
    answer = sensitivity(
        ecological.goodman(counted(X, T)), counts=counted(X, T, covariates={"z": z[:, 0], "noise": noise[:, 0]})
    )
    assert set(answer.diagnostics["bench"]["covariate"]) == {"z", "noise", "all covariates"}
    assert (answer["bench_low"][::2] <= true + 1e-9).all()
    assert (true <= answer["bench_high"][::2] + 1e-9).all()


def test_robustness_value_is_the_strength_that_makes_the_move():
    scale, move = np.array([0.1, 0.5, 2.0]), np.array([0.05, 0.3, 0.01])
    q = robustness_value(scale, move)
    np.testing.assert_allclose(bias_bound(scale, q, q), move, rtol=1e-12)
    assert (np.diff(robustness_value(0.2, np.linspace(0.01, 0.5, 9))) > 0).all()


@pytest.mark.parametrize("method", ["goodman", "rxc", "rxc_em", "neighborhood"])
def test_widened_intervals_grow_with_the_slope_inside_the_bounds(method):
    X, T = some_tables(10)
    found = getattr(ecological, method)(counted(X, T))
    widths = []
    for slope in (0.0, 0.1, 0.3, 100.0):
        answer = sensitivity(found, slope=slope)
        low, high, lower, upper = (answer[n] for n in ("sens_low", "sens_high", "lower", "upper"))
        assert (low >= lower - 1e-12).all()
        assert (high <= upper + 1e-12).all()
        widths.append(high - low)
        if slope == 0 and method == "rxc":
            np.testing.assert_allclose(low, found["conf_low"], atol=1e-9)
            np.testing.assert_allclose(high, found["conf_high"], atol=1e-9)
    assert (np.diff(widths, axis=0) >= -1e-12).all()
    np.testing.assert_allclose(widths[-1], upper - lower, atol=1e-9)


def test_each_end_moves_by_what_its_own_direction_allows():
    X = composition(np.random.default_rng(18), R=2)
    T = outcomes_of(X, np.random.default_rng(19).uniform([0.9, 0.6], [1.0, 0.8], (len(X), 2)))
    found = ecological.rxc_em(counted(X, T))
    part, answer = answered_units(found)[0], sensitivity(found, slope=0.4)
    low, high = (shifted(X, part.rates, part.low, part.high, d).ravel() for d in (0.4, -0.4))
    assert np.abs((found["estimate"] - low) - (high - found["estimate"])).max() > 0.005  # the bounds bind unevenly
    np.testing.assert_allclose(answer["sens_low"], low, atol=1e-9)
    np.testing.assert_allclose(answer["sens_high"], high, atol=1e-9)


def test_an_estimate_outside_the_bounds_is_widened_from_inside_them():
    X = np.array([[10, 90], [50, 50], [90, 10], [70, 30.0]])
    T = np.array([[0, 100], [50, 50], [100, 0], [75, 25.0]])
    found = ecological.goodman(counted(X, T))
    assert found["estimate"][0] > found["upper"][0]
    answer, part = sensitivity(found, slope=0.1), answered_units(found)[0]
    assert answer["sens_low"][0] <= shifted(X, part.rates, part.low, part.high, 0.1)[0, 0] + 1e-12
    assert answer["sens_high"][0] == found["upper"][0]


def test_moves_with_a_goal():
    X, T = some_tables(11)
    found = ecological.rxc_em(counted(X, T))
    part, share = answered_units(found)[0], T.sum(axis=0) / T.sum()
    for move, goal in (("half", np.full((3, 3), 0.5)), ("others", np.tile(share, (3, 1)))):
        slopes = sensitivity(found, move=move)["robustness"].reshape(3, 3) / 10
        for r, c in np.ndindex(3, 3):
            away = goal[r, c] - found["estimate"].reshape(3, 3)[r, c]
            if np.isnan(slopes[r, c]):
                end = found["upper" if away > 0 else "lower"].reshape(3, 3)[r, c]
                assert abs(goal[r, c]) > end if away > 0 else goal[r, c] < end
                continue
            d = -slopes[r, c] if away > 0 else slopes[r, c]
            assert shifted(X, part.rates, part.low, part.high, d)[r, c] == pytest.approx(goal[r, c], abs=1e-9)


def test_a_pooled_answer_is_its_districts_one_by_one():
    X, T = some_tables(12, n=24)
    pool = ["a"] * 12 + ["b"] * 12
    found = ecological.rxc(counted(X, T, place=pool), pool="place")
    both = sensitivity(found)
    assert both.keys == ("district", "group", "outcome")
    for name in ("a", "b"):
        one, part = sensitivity(found.select(district=name)), both.select(district=name)
        for column in ("sens_low", "sens_high", "robustness", "robustness_value"):
            np.testing.assert_allclose(one[column], part[column], rtol=1e-9)
    with pytest.raises(InputError):
        sensitivity(found, counts=counted(X, T, covariates=np.arange(24.0)))


def test_the_order_of_units_changes_nothing_and_frames_come_back():
    X, T = some_tables(13)
    order = np.random.default_rng(0).permutation(len(X))
    a, b = (sensitivity(ecological.goodman(counted(X[o], T[o]))) for o in (np.arange(len(X)), order))
    for column in ("sens_low", "sens_high", "robustness", "bias_scale"):
        np.testing.assert_allclose(a[column], b[column], rtol=1e-9)
    groups, outcomes = (pl.DataFrame({f"{w}{j}": M[:, j] for j in range(3)}) for w, M in (("g", X), ("o", T)))
    assert isinstance(sensitivity(ecological.goodman(counted(groups, outcomes))).to_frame(), pl.DataFrame)


def test_covariates_with_names_are_matched_or_refused():
    rng = np.random.default_rng(2)
    share = rng.uniform(0.1, 0.9, 30)
    x = np.round(np.column_stack([500 * share, 500 * (1 - share)]))
    z = rng.normal(size=30)
    yes = np.round(x @ [0.6, 0.3] + 20 * z)
    people, votes = {"a": x[:, 0], "b": x[:, 1]}, {"yes": yes, "no": x.sum(axis=1) - yes}
    names, order = [f"u{i}" for i in range(30)], rng.permutation(30)
    named = ecological.goodman(counted(people, votes, units=names))
    in_order = counted(people, votes, units=names, covariates={"z": z})
    told = sensitivity(named, counts=in_order)["bench_low"]
    mixed = pd.DataFrame({"unit": [names[i] for i in order], "z": z[order], "a": 1.0, "b": 1.0})
    beside = Counts(mixed, unit="unit", groups=["a", "b"], covariates=["z"])
    np.testing.assert_array_equal(sensitivity(named, counts=beside)["bench_low"], told)
    with pytest.raises(InputError):
        sensitivity(named, counts=Counts(mixed.iloc[1:], unit="unit", groups=["a", "b"], covariates=["z"]))
    with pytest.raises(InputError):
        sensitivity(named, counts=Counts(mixed, groups=["a", "b"], covariates=["z"]))


@pytest.mark.parametrize(
    "options",
    [
        {"move": 5},
        {"move": "hlaf"},
        {"slope": -0.1},
        {"slope": True},
        {"covariates": None},
        {"covariates": {"k": np.ones(40)}},
        {"covariates": {"k": [None, *["a"] * 39]}},
        {"covariates": {"k": [str(i) for i in range(40)]}},
    ],
)
def test_bad_options_are_refused(options):
    X, T = some_tables(16)
    with pytest.raises(InputError):
        if "covariates" in options:
            options = {"counts": counted(X, T, covariates=options["covariates"])}
        sensitivity(ecological.rxc_em(counted(X, T)), **options)


@pytest.mark.parametrize(
    "answer",
    [
        lambda X, T: ecological.bounds(counted(X, T)),
        lambda X, T: {},
        lambda X, T: ecological.compare(counted(X, T), methods=["goodman", "neighborhood"]),
        lambda X, T: ecological.rxc_em(counted(X, T)).select(outcome=["outcome_0", "outcome_2"]),
    ],
)
def test_answers_that_cannot_be_asked_are_refused(answer):
    with pytest.raises(InputError):
        sensitivity(answer(*some_tables(17)))


@pytest.mark.data
def test_widened_intervals_hold_where_goodmans_fail(real_data, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    known = importlib.import_module("ecological_data").small_tables(real_data / "truth")
    own, widened, possible = [], [], []
    for k in known[:4]:
        answer = sensitivity(ecological.goodman(k.counts))
        truth = (k.truth / k.truth.sum(axis=1, keepdims=True)).ravel()
        own += ((answer["conf_low"] <= truth) & (truth <= answer["conf_high"])).tolist()
        widened += ((answer["sens_low"] - 1e-3 <= truth) & (truth <= answer["sens_high"] + 1e-3)).tolist()
        possible += ((answer["sens_high"] - answer["sens_low"]) / (answer["upper"] - answer["lower"])).tolist()
    assert sum(own) == 0
    assert all(widened)
    assert np.mean(possible) < 0.7
    assert answer.diagnostics["slope_allowed"] == SLOPE
