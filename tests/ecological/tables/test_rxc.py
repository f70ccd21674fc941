"""Does the contextual model answer within margins and bounds, near the truth, and refuse what it cannot answer?"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.ecological.tables.contextual.doubts import hidden_context
from crosslevel.ecological.tables.contextual.intervals import joint_draws


def elections(seed=0, n=40, R=3, C=3, context=0.0):
    """Units, their margins and inner tables; with ``context`` every group follows the majority around it."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(R), n)
    X = rng.multinomial(300, shares)
    base = np.full((R, C), 0.1) + np.eye(R, C)
    cells = np.empty((n, R, C))
    for i in range(n):
        around = shares[i] @ (base / base.sum(axis=1, keepdims=True))
        p = base * around**context
        cells[i] = [rng.multinomial(X[i, r], p[r] / p[r].sum()) for r in range(R)]
    return X, cells.sum(axis=1), cells


def wrong(found, truth):
    return 50 * np.abs(found["count"] - truth.ravel()).sum() / truth.sum()


@pytest.mark.parametrize("kind", [None, "symmetric votes"])
def test_the_answer_adds_up_and_stays_inside_the_bounds(kind):
    X, T, _ = elections()
    found = ecological.rxc(counted(X, T), kind=kind)
    table = found["count"].reshape(3, 3)
    np.testing.assert_allclose(table.sum(axis=1), X.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(table.sum(axis=0), T.sum(axis=0), rtol=1e-9)
    units = found.units["count"].reshape(-1, 3, 3)
    np.testing.assert_allclose(units.sum(axis=2), X, atol=1e-9)
    np.testing.assert_allclose(units.sum(axis=1), T, atol=1e-9)
    np.testing.assert_allclose(units.sum(axis=0), table, rtol=1e-9)
    for answer in (found, found.units):
        there = np.isfinite(answer["estimate"])
        assert (answer["estimate"] >= answer["lower"] - 1e-9)[there].all()
        assert (answer["estimate"] <= answer["upper"] + 1e-9)[there].all()
    assert (found["conf_low"] >= found["lower"] - 1e-12).all()
    assert (found["conf_high"] <= found["upper"] + 1e-12).all()
    limits = [found.units[name][there] for name in ("lower", "conf_low", "estimate", "conf_high", "upper")]
    assert (np.diff(limits, axis=0) >= -1e-9).all()
    assert (limits[3] - limits[1]).mean() > 0.02
    assert (found.draws >= found["lower"] - 1e-12).all()
    assert (found.draws <= found["upper"] + 1e-12).all()
    assert found.diagnostics["converged"] is True
    assert found.diagnostics["distance_to_mode_in_sd"] < 0.05


def test_outcomes_add_up_within_every_draw_and_keep_the_spread_of_the_interval():
    rng = np.random.default_rng(3)
    x = rng.multinomial(400, [0.5, 0.3, 0.2], 60) + rng.integers(0, 300, (60, 3))
    rates = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    t = np.array([sum(rng.multinomial(k, p) for k, p in zip(row, rates, strict=True)) for row in x])
    found = ecological.rxc(counted(x, t))
    draws = found.draws.reshape(-1, 3, 3)
    np.testing.assert_allclose(draws.sum(axis=2), 1, atol=1e-9)
    assert (draws >= found["lower"].reshape(3, 3) - 1e-9).all()
    assert (draws <= found["upper"].reshape(3, 3) + 1e-9).all()
    np.testing.assert_allclose(draws.std(axis=0).ravel(), found["std_error"], rtol=0.1)


def test_what_the_bounds_cut_off_a_draw_goes_to_the_outcomes_with_room():
    raw = np.random.default_rng(0).dirichlet([2, 3, 4], (200, 1))
    whole = np.array([[[0.2, 0.3, 0.5]], [[0.1, 0.0, 0.0]], [[1.0, 0.35, 1.0]]])
    drawn = joint_draws(raw, np.array([[0.2, 0.2, 0.3]]), whole)
    np.testing.assert_allclose(drawn.sum(axis=2), 1, atol=1e-12)
    assert drawn[:, 0, 0].min() == 0.1
    assert drawn[:, 0, 1].max() == 0.35


def test_context_mends_what_constancy_gets_wrong():
    """Groups follow the majority around them: the model with context is nearer than Goodman and than b = 0."""
    X, T, cells = elections(n=120, context=0.35)
    truth = cells.sum(axis=0)
    with_context = wrong(ecological.rxc(counted(X, T), kind="votes"), truth)
    assert with_context < 0.6 * wrong(ecological.rxc(counted(X, T), kind="votes", contextual_slope=0.0), truth)
    assert with_context < 0.6 * wrong(ecological.goodman(counted(X, T)), truth)


def test_sensitivity_says_what_other_contexts_would_answer():
    X, T, _ = elections()
    found = ecological.rxc(counted(X, T))
    lines = found.diagnostics["sensitivity"]
    assert list(lines) == ["contextual_slope=0", "contextual_slope=0.4", "contextual_slope=0.7"]
    np.testing.assert_allclose(lines["contextual_slope=0.4"], found["estimate"], atol=1e-3)
    other = ecological.rxc(counted(X, T), contextual_slope=0.7)
    np.testing.assert_allclose(lines["contextual_slope=0.7"], other["estimate"], atol=1e-3)
    move = np.abs(np.subtract(lines["contextual_slope=0.7"], lines["contextual_slope=0"])).max()
    assert found.diagnostics["largest_move_from_slope_0_to_0.7"] == pytest.approx(move)


def test_the_same_seed_gives_the_same_answer_and_the_order_of_units_does_not_matter():
    X, T, _ = elections()
    found, again = ecological.rxc(counted(X, T)), ecological.rxc(counted(X, T))
    assert found.equals(again)
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = ecological.rxc(counted(X[order], T[order]))
    np.testing.assert_allclose(shuffled["estimate"], found["estimate"], atol=1e-4)
    assert isinstance(ecological.rxc(counted(pl.DataFrame(X), pl.DataFrame(T))).to_frame(), pl.DataFrame)


def pooled_world(districts=6, n=12):
    parts = [elections(seed=10 + k, n=n, context=0.35) for k in range(districts)]
    X, T = (np.concatenate([p[j] for p in parts]) for j in (0, 1))
    return X, T, [p[2].sum(axis=0) for p in parts], [f"d{k}" for k in range(districts) for _ in range(n)]


@pytest.mark.parametrize("kind", ["votes", "symmetric votes"])
def test_pooling_brings_small_districts_nearer(kind):
    X, T, truth, district = pooled_world()
    found = ecological.rxc(counted(X, T, place=district), pool="place", kind=kind)
    assert found.keys == ("district", "group", "outcome")
    assert found.units.keys == ("district", "unit", "group", "outcome")
    alone, together = [], []
    for k, true in enumerate(truth):
        rows = np.array(district) == f"d{k}"
        alone.append(wrong(ecological.rxc(counted(X[rows], T[rows]), kind=kind), true))
        part = found.select(district=f"d{k}")
        together.append(wrong(part, true))
        np.testing.assert_allclose(part["count"].reshape(3, 3).sum(axis=0), T[rows].sum(axis=0), rtol=1e-9)
    assert np.mean(together) < 0.8 * np.mean(alone)


def test_options_a_district_lacks_are_null_there():
    X, T, _, district = pooled_world(districts=3)
    first = np.array(district) == "d0"
    names = ("a", "b", "c")
    T = np.column_stack([T, np.zeros(len(T), dtype=int)])
    T[first, 3], T[first, 2] = T[first, 2], 0
    groups, outcomes = pa.table(dict(zip(names, X.T, strict=True))), pa.table(dict(zip("wxyz", T.T, strict=True)))
    found = ecological.rxc(counted(groups, outcomes, place=district), pool="place")
    lacking = found.select(district="d0", outcome="y")
    assert np.isnan(lacking["estimate"]).all()
    assert np.isnan(lacking["conf_low"]).all()
    assert np.isnan(lacking["count"]).all()
    assert np.isnan(lacking.draws).all()
    assert np.isfinite(found.select(district="d0", outcome="z")["estimate"]).all()
    assert len(found) == 3 * 3 * 4
    assert len(found.units) == len(X) * 9
    tied = ecological.rxc(counted(groups, outcomes, place=district), pool="place", labels={"z": "y"})
    together = tied.select(district="d0", outcome="z")["estimate"]
    assert np.abs(together - found.select(district="d0", outcome="z")["estimate"]).max() > 1e-4


def test_labels_tie_a_group_to_its_outcome_in_one_district():
    X, T, cells = elections(n=8, context=0.35)
    groups, outcomes = pa.table(dict(zip("abc", X.T, strict=True))), pa.table(dict(zip("xyz", T.T, strict=True)))
    tied = ecological.rxc(counted(groups, outcomes), labels={"a": "x", "b": "y", "c": "z"})
    assert tied.diagnostics["tau"] == 0.5
    assert wrong(tied, cells.sum(axis=0)) < wrong(
        ecological.rxc(counted(groups, outcomes), kind="votes"), cells.sum(axis=0)
    )


def test_units_and_options_at_the_edge_are_answered():
    one = ecological.rxc(counted([[30, 70]], [[80, 20]]))
    assert "rests on the prior" in one.warnings[0]
    X, T, _ = elections(n=20)
    X[0], T[0] = [300, 0, 0], [100, 100, 100]  # a unit of one group
    X[1], T[1] = 0, 0
    found = ecological.rxc(counted(X, T))
    pure = found.units.select(unit=0, group="group_0")
    np.testing.assert_allclose(pure["estimate"], 1 / 3)
    assert any("without people" in w for w in found.warnings)
    wide = ecological.rxc(counted(np.column_stack([X, np.zeros(20)]), np.column_stack([T, np.zeros(20)])))
    assert np.isnan(wide.select(group="group_3")["estimate"]).all()
    assert np.isnan(wide.select(group="group_3").draws).all()
    assert (wide.select(group="group_0", outcome="outcome_3")["conf_high"] == 0).all()
    np.testing.assert_allclose(wide.select(group="group_1")["estimate"][:3], found.select(group="group_1")["estimate"])
    known = ecological.rxc(counted(X, np.column_stack([X.sum(axis=1), np.zeros(20)])))
    assert known.select(outcome="outcome_0")["conf_low"].tolist() == [1.0] * 3


def test_the_kind_of_table_chooses_constants_and_is_told():
    X, T, _ = elections()
    people, votes = ecological.rxc(counted(X, T)), ecological.rxc(counted(X, T), kind="votes")
    assert (people.diagnostics["kind"], votes.diagnostics["kind"]) == ("demographic", "votes")
    assert (people.diagnostics["tau"], people.diagnostics["contextual_slope"]) == (0.5, 0.4)
    assert (votes.diagnostics["tau"], votes.diagnostics["contextual_slope"]) == (0.8, 0.35)
    assert people.diagnostics["constants"]["rho"] > 0 == votes.diagnostics["constants"]["rho"]
    assert "ACS 2024" in people.interval
    assert "New Zealand" in votes.interval
    assert "other constants" not in ecological.rxc(counted(X, T), kind="votes", contextual_slope=(0.35, 0.1)).interval
    assert ecological.rxc(counted(X, T), kind="votes", contextual_slope=0.2).interval.endswith("with other constants")
    assert any("kind='votes'" in w for w in people.warnings)  # composition explains nearly all here, as in two votes
    assert not any("kind=" in w for w in votes.warnings)
    assert 0 < people.diagnostics["car_test_p"] <= 1
    assert ecological.rxc(counted(X, T, place=[0, 1] * 20), pool="place").diagnostics["kind"] == "votes"


def test_a_table_that_composition_does_not_explain_is_warned_of_and_has_wider_intervals():
    X, T, _ = elections()
    clear = ecological.rxc(counted(X, T))
    assert clear.diagnostics["hidden_context"] < 0.3
    assert not any("hidden context" in w for w in clear.warnings)
    rng = np.random.default_rng(5)
    noisy = np.array([rng.multinomial(300, rng.dirichlet(np.full(3, 3.0))) for _ in X])
    found = ecological.rxc(counted(X, noisy))
    assert found.diagnostics["hidden_context"] > 0.3
    even = np.array([rng.multinomial(300, rng.dirichlet(np.full(3, 60.0))) for _ in X])
    found = ecological.rxc(counted(even, noisy))
    assert found.diagnostics["hidden_context"] > 0.6
    assert any("hidden context" in w and "0.6" in w for w in found.warnings)
    pooled = ecological.rxc(
        counted(np.vstack([X, even]), np.vstack([T, noisy]), place=["clear"] * 40 + ["noisy"] * 40), pool="place"
    )
    assert any("1 district(s) ('noisy')" in w for w in pooled.warnings)


def test_more_units_do_not_make_the_interval_of_a_demographic_table_vanish():
    """Sixteen times the same units: the model's variance falls, the doubt about what goes along with composition stays."""
    rng = np.random.default_rng(6)
    X, T, _ = elections(n=30)
    T = np.array([rng.multinomial(300, 0.7 * t / t.sum() + 0.3 * rng.dirichlet(np.ones(3))) for t in T])
    few, many = (ecological.rxc(counted(np.tile(X, (k, 1)), np.tile(T, (k, 1)))) for k in (1, 16))
    assert (many["std_error"] > 0.11 * hidden_context(X.astype(float), T.astype(float)).h.ravel()).all()
    votes = [
        ecological.rxc(counted(np.tile(X, (k, 1)), np.tile(T, (k, 1))), kind="votes")["std_error"].mean()
        for k in (1, 16)
    ]
    assert many["std_error"].mean() / few["std_error"].mean() > votes[1] / votes[0]


@pytest.mark.data
def test_race_by_party_in_north_carolina(real_data):
    data = pv.read_csv(real_data / "truth" / "senc_se_north_carolina.csv")
    races, parties = ("white", "black", "natam"), ("dem", "rep", "non")
    groups, outcomes = (data.select(names) for names in (races, parties))
    truth = np.array([[data[r + p].to_numpy().sum() for p in parties] for r in ("wh", "bl", "natam")], dtype=float)
    found = ecological.rxc(counted(groups, outcomes))
    assert wrong(found, truth) <= 1.3
    share = (truth / truth.sum(axis=1, keepdims=True)).ravel()
    assert ((found["conf_low"] <= share) & (share <= found["conf_high"])).all()
    assert found.warnings == ()
    inner = np.stack([[data[r + p].to_numpy() for p in parties] for r in ("wh", "bl", "natam")]).transpose(2, 0, 1)
    people = np.broadcast_to(inner.sum(axis=2, keepdims=True), inner.shape).ravel()
    rates = np.divide(inner.ravel(), people, out=np.zeros(inner.size), where=people > 0)
    low, high = (found.units[name] for name in ("conf_low", "conf_high"))
    assert np.mean(((low <= rates + 1e-9) & (rates <= high + 1e-9))[people > 0]) > 0.9
