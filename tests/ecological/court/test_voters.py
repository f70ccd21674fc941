"""Shares among voters and turnout: laws, arithmetic by hand, groups that stayed at home."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import ecological
from crosslevel.ecological.court.choice import candidate_of_choice
from crosslevel.ecological.court.voters import among_voters, turnout
from crosslevel.ecological.tables.layout import Answer, lay_out
from crosslevel.errors import InputError

HOME = "did not vote"


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    people = np.array([rng.multinomial(300, rng.dirichlet([1, 1.5, 0.7])) for _ in range(25)])
    rates = np.array([[0.5, 0.1, 0.1, 0.3], [0.1, 0.5, 0.2, 0.2], [0.2, 0.2, 0.1, 0.5]])
    inner = np.array([[rng.multinomial(n, p) for n, p in zip(unit, rates, strict=True)] for unit in people])
    return (
        dict(zip(("x", "y", "z"), inner.sum(axis=2).T, strict=True)),
        dict(zip(("a", "b", "c", HOME), inner.sum(axis=1).T, strict=True)),
    )


@pytest.fixture(scope="module")
def result(counts):
    return ecological.rxc(counted(*counts))


def test_counts_add_up_to_the_voters_of_each_group(result):
    found = among_voters(result)
    assert HOME not in found["outcome"]
    for g in ("x", "y", "z"):
        mine, before = found.select(group=g), result.select(group=g)
        voters = before["count"].sum() - before.select(outcome=HOME)["count"][0]
        assert mine["count"].sum() == pytest.approx(voters)
        np.testing.assert_allclose(mine["voters"], voters)
        np.testing.assert_allclose(mine["estimate"], mine["count"] / voters)
        assert mine["turnout"][0] == pytest.approx(1 - before.select(outcome=HOME)["estimate"][0])
        np.testing.assert_allclose(mine.draws.sum(axis=1), 1.0)
        assert ((mine["conf_low"] <= mine["estimate"]) & (mine["estimate"] <= mine["conf_high"])).all()


def test_units_add_up_to_the_district(result):
    found = among_voters(result)
    for g, o in (("x", "a"), ("z", "b")):
        units = found.units.select(group=g, outcome=o)
        whole = found.select(group=g, outcome=o)
        assert np.nansum(units["count"]) == pytest.approx(whole["count"][0])
        assert np.nansum(units["voters"]) == pytest.approx(whole["voters"][0])
        inside = (units["lower"] <= units["estimate"] + 1e-9) & (units["estimate"] <= units["upper"] + 1e-9)
        assert inside[np.isfinite(units["estimate"])].all()
    assert ((found["lower"] <= found["estimate"]) & (found["estimate"] <= found["upper"])).all()
    went = turnout(result)
    assert np.nansum(went.units.select(group="x")["count"]) == pytest.approx(went.select(group="x")["count"][0])
    assert ((went["lower"] <= went["estimate"]) & (went["estimate"] <= went["upper"])).all()
    assert went["people"].sum() == pytest.approx(25 * 300)


def test_turnout_times_share_is_the_share_of_the_group(result):
    found, went = among_voters(result), turnout(result)
    for g in ("x", "y", "z"):
        t = went.select(group=g)
        assert t["estimate"][0] == found.select(group=g)["turnout"][0]
        before = result.select(group=g, outcome=["a", "b", "c"])["estimate"]
        np.testing.assert_allclose(found.select(group=g)["estimate"] * t["estimate"], before)
        assert t["count_low"][0] == pytest.approx(t["conf_low"][0] * t["people"][0])


def made(draws, shares, counts=(100.0, 50.0)):
    X = np.array([counts])
    cells = X[:, :, None] * shares
    counts = counted(
        dict(zip(("x", "y"), X.T, strict=True)), dict(zip(("a", "b", HOME, "blank"), cells.sum(axis=1).T, strict=True))
    )
    columns = {"conf_low": shares, "conf_high": shares}
    answer = Answer(cells, method="made", draws=draws, columns=columns, level=0.8, interval="made")
    return lay_out(counts, ("made", {}), answer)


def test_every_draw_is_divided_by_its_own_voters():
    shares = np.array([[0.4, 0.2, 0.3, 0.1], [0.1, 0.1, 0.4, 0.4]])
    draws = np.array([[[0.4, 0.2, 0.3, 0.1], [0.1, 0.1, 0.4, 0.4]], [[0.1, 0.3, 0.5, 0.1], [0.0, 0.2, 0.8, 0.0]]])
    found = among_voters(made(draws, shares), [HOME, "blank"])
    np.testing.assert_allclose(found["estimate"], [2 / 3, 1 / 3, 0.5, 0.5])
    np.testing.assert_allclose(found.draws, [[2 / 3, 1 / 3, 0.5, 0.5], [0.25, 0.75, 0.0, 1.0]])
    ends = np.quantile([2 / 3, 0.25], [0.1, 0.9])
    # the estimate is the upper draw, and the interval is widened to hold it
    np.testing.assert_allclose([found["conf_low"][0], found["conf_high"][0]], [ends[0], 2 / 3])
    assert found["conf_low"][1] == pytest.approx(1 / 3)
    assert found["voters"].tolist() == pytest.approx([60, 60, 10, 10])
    went = turnout(made(draws, shares), [HOME, "blank"])
    np.testing.assert_allclose(went.draws, [[0.6, 0.2], [0.4, 0.2]])
    wide = among_voters(made(draws, shares), [HOME, "blank"], level=0.5)
    assert wide.level == 0.5
    assert wide["conf_low"][0] == pytest.approx(np.quantile([2 / 3, 0.25], 0.25))
    cl.report(found).html()
    cl.report(went).html()


def test_units_with_draws_have_intervals_of_the_same_level(counts):
    groups, outcomes = counts
    two = {"x": groups["x"] + groups["z"], "y": groups["y"]}, {"a": outcomes["a"], HOME: 300 - outcomes["a"]}
    result = ecological.neighborhood(counted(*two))
    draws = np.tile(result.units["estimate"], (3, 1))
    units = dataclasses.replace(result.units, draws=draws)
    whole = dataclasses.replace(result, draws=np.tile(result["estimate"], (3, 1)), units=units)
    for found in (turnout(whole, level=0.6), among_voters(whole, level=0.6)):
        assert (found.level, found.units.level) == (0.6, 0.6)
        np.testing.assert_allclose(found.units["conf_low"], found.units["estimate"])


def test_a_group_that_stayed_at_home_has_no_shares():
    shares = np.array([[0.4, 0.2, 0.3, 0.1], [0.0, 0.0, 1.0, 0.0]])
    found = among_voters(made(np.tile(shares, (3, 1, 1)), shares), [HOME, "blank"])
    y = found.select(group="y")
    assert np.isnan(y["estimate"]).all()
    assert np.isnan(y["conf_low"]).all()
    assert y["voters"].tolist() == [0.0, 0.0]
    assert any("Nobody of 'y' voted" in w for w in found.warnings)
    choice = candidate_of_choice(found)
    assert choice.select(group="x", outcome="a")["rank"].tolist() == [1]
    assert np.isnan(choice.select(group="y")["probability_first"]).all()
    assert turnout(made(np.tile(shares, (3, 1, 1)), shares), [HOME, "blank"])["estimate"][1] == 0


def test_the_order_of_outcomes_does_not_matter(counts):
    groups, outcomes = counts
    one = among_voters(ecological.neighborhood(counted(groups, outcomes)))
    two = among_voters(ecological.neighborhood(counted(groups, dict(reversed(outcomes.items())))))
    for g, o in (("x", "a"), ("y", "c")):
        for name in ("estimate", "lower", "upper", "count"):
            np.testing.assert_allclose(
                one.select(group=g, outcome=o)[name], two.select(group=g, outcome=o)[name], rtol=1e-12
            )


def test_pooled_districts_keep_their_key(counts):
    groups, outcomes = counts
    pooled = ecological.rxc(counted(groups, outcomes, place=["n"] * 12 + ["s"] * 13), pool="place")
    found = among_voters(pooled)
    assert found.keys == ("district", "group", "outcome")
    alone = among_voters(pooled.select(district="s"))
    for name in ("estimate", "conf_low", "lower", "upper", "count"):
        np.testing.assert_array_equal(alone[name], found.select(district="s")[name])
    assert turnout(pooled).keys == ("district", "group")
    assert len(turnout(pooled)) == 6


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: among_voters(r, "didnt vote"),
        lambda r: among_voters(r, ["a", "b", "c", HOME]),
        lambda r: turnout(r, []),
        lambda r: among_voters(among_voters(r), "a"),
        lambda r: among_voters(r.select(outcome=["a", HOME])),
    ],
)
def test_mistakes_get_a_sentence(result, ask):
    with pytest.raises(InputError):
        ask(result)


def test_midpoints_of_bounds_are_refused(counts):
    with pytest.raises(InputError):
        among_voters(ecological.bounds(counted(*counts)))
