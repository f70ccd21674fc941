"""Roll-ups, contrasts and the table, by hand; and the same answer whatever the order, the kind of frame or the threads."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import special

from crosslevel import People, Places
from crosslevel.data.places import Totals
from crosslevel.data.simulate import nation
from crosslevel.data.simulate.nation import Nation
from crosslevel.ecological import DistributionRegression
from crosslevel.ecological.answers import Drawn, Setting, answer
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.contrasts import Joint
from crosslevel.ecological.quantities import (
    Quantity,
    Rollup,
    Sums,
    facts,
    goodman_fit,
    goodman_rates,
)
from crosslevel.ecological.subgroups import REST, Partition, Question
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.quadrature import logistic_mean
from crosslevel.results import Estimates, Provenance

DRAWS = 40


class Stub:
    """A model whose logits are given: one column per part, whichever places are asked for."""

    def __init__(
        self, partitions: list[Partition], *f: np.ndarray, block: int = 1_000_000, confounded: bool = False
    ) -> None:
        self.partitions, self.f, self.block, self.confounded = partitions, f, block, confounded

    def draw(self, number: int, places: slice, parts: np.ndarray, n_stages: int) -> Drawn:
        """Confounding moves every part by deviates of its own, whichever other places are asked for."""
        assert set(self.partitions[number].place[parts]) <= set(range(places.start, places.stop))
        plain = [f[:, parts].copy() for f in self.f[:n_stages]]
        wide = None
        if self.confounded:
            wide = [f + np.random.default_rng(1).normal(size=self.f[0].shape)[:, parts] for f in plain]
        return Drawn(plain, wide, parts / 10)


def partition(levels: list[str] | None = None) -> Partition:
    """Four places with levels x and y; y is absent in place 3, and place 2 has a rest."""
    place = np.array([0, 0, 1, 1, 2, 2, 3, 2])
    level = np.array([0, 1, 0, 1, 0, 1, 0, REST])
    weight = np.array([10.0, 30, 50, 50, 20, 20, 70, 60])
    share = weight / np.bincount(place, weight)[place]
    effective = np.array([5.0, 20, 25, 30, 10, 10, 40, 30])
    return Partition(
        pa.table({"kind": levels or ["x", "y"]}),
        place,
        level,
        share,
        weight,
        effective,
    )


def logits(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(DRAWS, 8))


TOTALS = Totals(("yes",), np.array([[30.0, 40, 10, 35]]), np.array([[60.0, 100, 80, 70]]), False)
VOTES = Totals(
    ("yes",), np.array([[40.0, 70, 60, 50], [30, 20, 10, 35]]), np.array([[60.0, 100, 80, 70], [40, 70, 60, 50]]), True
)
HERE = Rollup("town", ("a", "b", "c", "d"), np.arange(4))
STATES = Rollup("state", ("n", "s"), np.array([0, 1, 1, 0]))
ALL = Rollup(None, (None,), np.zeros(4, np.intp))


def ask(
    rollup: Rollup,
    *f: np.ndarray,
    totals: Totals = TOTALS,
    share_of: str = "voters",
    match_totals: bool = True,
    parts: list[Partition] | None = None,
    several: bool = False,
    interval: str = "model",
    block: int = 1_000_000,
) -> Estimates:
    question = Question(rollup, share_of, 0.9, len(f[0]), 0, interval)
    setting = Setting(
        totals,
        match_totals,
        several,
        "stub",
        Provenance.of(call="test"),
        "pyarrow",
        (),
        {},
        SHIPPED if interval == "confounding" else None,
    )
    stub = Stub(parts or [partition()], *f, block=block, confounded=interval == "confounding")
    return answer(stub, question, setting)


def test_without_accounting_a_place_is_its_logit() -> None:
    f, part = logits(), partition()
    found = ask(HERE, f, match_totals=False)
    rate = special.expit(f[:, :7])
    assert found["town"].tolist() == ["a", "a", "b", "b", "c", "c", "d"]
    assert found["kind"].tolist() == ["x", "y", "x", "y", "x", "y", "x"]
    np.testing.assert_allclose(found.draws, rate, rtol=1e-14)
    np.testing.assert_allclose(found["estimate"], rate.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found["std_error"], rate.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["conf_low"], np.quantile(rate, 0.05, axis=0), rtol=1e-14)
    np.testing.assert_allclose(found["conf_high"], np.quantile(rate, 0.95, axis=0), rtol=1e-14)
    np.testing.assert_array_equal(found["population"], part.weight[:7])
    np.testing.assert_allclose(found["effective_size"], part.effective[:7])
    np.testing.assert_allclose(found["distance"], np.arange(7) / 10)
    np.testing.assert_array_equal(found["shift"], 0.0)


@pytest.mark.parametrize("match_totals", [False, True])
@pytest.mark.parametrize("rollup", [STATES, ALL])
def test_roll_ups_by_hand(rollup: Rollup, match_totals: bool) -> None:
    f, part = logits(1), partition()
    by_place = ask(HERE, f, match_totals=match_totals)
    found = ask(rollup, f, match_totals=match_totals)
    cells = [(s, k) for s in range(len(rollup.labels)) for k in (0, 1)]
    assert len(found) == len(cells)
    y = (TOTALS.successes / TOTALS.trials)[0]
    for row, (state, level) in enumerate(cells):
        at = np.flatnonzero((rollup.member[part.place] == state) & (part.level == level))
        w = part.weight[at] / part.weight[at].sum()
        joint = np.asarray(by_place.draws)[:, at] @ w
        np.testing.assert_allclose(np.asarray(found.draws)[:, row], joint, rtol=1e-12)
        assert found["std_error"][row] == pytest.approx(joint.std())
        assert found["estimate"][row] == pytest.approx(joint.mean())
        assert found["neighborhood"][row] == pytest.approx(w @ y[part.place[at]])
        assert found["bound_low"][row] == pytest.approx(w @ by_place["bound_low"][at])
        assert found["bound_high"][row] == pytest.approx(w @ by_place["bound_high"][at])
        assert found["population"][row] == part.weight[at].sum()
        kish = part.weight[at].sum() ** 2 / (part.weight[at] ** 2 / part.effective[at]).sum()
        assert found["effective_size"][row] == pytest.approx(kish)
        assert found["shift"][row] == pytest.approx(w @ by_place["shift"][at])


def test_errors_that_go_together_add_up() -> None:
    """One number moves all places: the roll-up varies like one of them, not like the mean of independent ones."""
    common = np.random.default_rng(2).normal(size=(DRAWS, 1)) * np.ones((1, 8))
    found, places = ask(ALL, common, match_totals=False), ask(HERE, common, match_totals=False)
    np.testing.assert_allclose(found["std_error"], places["std_error"][0], rtol=1e-12)
    alone = np.random.default_rng(2).normal(size=(DRAWS, 8))
    assert (
        ask(ALL, alone, match_totals=False)["std_error"][0]
        < 0.85 * ask(HERE, alone, match_totals=False)["std_error"].mean()
    )


def test_accounted_estimates_add_up_and_stay_inside() -> None:
    found = ask(HERE, 3 * logits(2))
    part, y = partition(), (TOTALS.successes / TOTALS.trials)[0]
    for column in (found["estimate"], *np.asarray(found.draws)):
        for i in (0, 1, 3):  # places without a rest
            at = np.flatnonzero(part.place[:7] == i)
            assert column[at] @ part.share[at] == pytest.approx(y[i], abs=1e-12)
    for column in ("estimate", "conf_low", "conf_high"):
        assert np.all((found["bound_low"] <= found[column]) & (found[column] <= found["bound_high"]))
    # place d has only x: it is everybody there
    assert found["estimate"][6] == y[3]
    assert found["std_error"][6] == 0.0
    assert (found["conf_low"][6], found["conf_high"][6], found["bound_low"][6]) == (y[3], y[3], y[3])


def test_voters_weigh_roll_ups() -> None:
    f, g, part = logits(3), logits(4), partition()
    found = ask(ALL, f, g, totals=VOTES, match_totals=False)
    turnout, choice = special.expit(f[:, :7]), special.expit(g[:, :7])
    for row, level in enumerate((0, 1)):
        at = np.flatnonzero(part.level == level)
        votes = turnout[:, at] * part.weight[at]
        by_hand = (votes * choice[:, at]).sum(axis=1) / votes.sum(axis=1)
        np.testing.assert_allclose(np.asarray(found.draws)[:, row], by_hand, rtol=1e-12)
        voters = turnout[:, at].mean(axis=0) * part.weight[at]
        y = (VOTES.successes[1] / VOTES.successes[0])[part.place[at]]
        assert found["neighborhood"][row] == pytest.approx(voters @ y / voters.sum())
    people = ask(ALL, f, g, totals=VOTES, share_of="people", match_totals=False)
    at = np.flatnonzero(part.level == 0)
    w = part.weight[at] / part.weight[at].sum()
    np.testing.assert_allclose(np.asarray(people.draws)[:, 0], (turnout * choice)[:, at] @ w, rtol=1e-12)
    only = ask(ALL, f, g, totals=VOTES, share_of="turnout", match_totals=False)
    np.testing.assert_allclose(np.asarray(only.draws)[:, 0], turnout[:, at] @ w, rtol=1e-12)


def test_several_outcomes_have_a_key_of_their_own() -> None:
    k, n = np.array([[30.0, 40, 10, 35], [20, 30, 50, 20]]), np.array([[60.0, 100, 80, 70], [30, 60, 70, 35]])
    totals = Totals(("red", "green", "blue"), k, n, False)
    found = ask(STATES, logits(5), logits(6), totals=totals, several=True)
    assert found.keys == ("state", "kind", "outcome")
    table = found.to_frame("pandas")
    assert set(table["outcome"]) == {"red", "green", "blue"}
    np.testing.assert_allclose(table.groupby(["state", "kind"])["estimate"].sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("block", [DRAWS, 3 * DRAWS, 10**6])
@pytest.mark.parametrize("interval", ["model", "confounding"])
def test_places_at_a_time_change_nothing(block: int, interval: str) -> None:
    f, g = logits(7), logits(8)
    expected = ask(STATES, f, g, totals=VOTES, interval=interval)
    found = ask(STATES, f, g, totals=VOTES, block=block, interval=interval)
    for column in found.table.column_names[2:]:
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-12, err_msg=column)


def test_confounding_intervals_add_up_and_hold_the_model_s() -> None:
    f = np.random.default_rng(3).normal(scale=0.1, size=(4000, 8))
    plain, wide = ask(HERE, f), ask(HERE, f, interval="confounding")
    np.testing.assert_array_equal(wide["estimate"], plain["estimate"])
    np.testing.assert_array_equal(wide["model_low"], plain["conf_low"])
    np.testing.assert_array_equal(wide["model_high"], plain["conf_high"])
    apart = wide["town"] != "d"  # the one subgroup that is everybody
    assert (wide["conf_low"] < plain["conf_low"])[apart].all()
    assert (wide["conf_high"] > plain["conf_high"])[apart].all()
    assert wide["conf_low"][~apart] == pytest.approx(wide["conf_high"][~apart])
    part = partition()
    in_a = np.asarray(wide.draws)[:, :2] @ part.share[:2]
    np.testing.assert_allclose(in_a, 0.5, atol=1e-8)


def test_contrasts_are_of_the_draws() -> None:
    f = logits(9)
    places = ask(HERE, f)
    draws = np.asarray(places.draws)
    found = places.contrast()
    assert found["town"].tolist() == ["a", "b", "c"]  # d has one subgroup only
    assert found["kind"].tolist() == ["y"] * 3
    assert found["against"].tolist() == ["x"] * 3
    joint = draws[:, [1, 3, 5]] - draws[:, [0, 2, 4]]
    np.testing.assert_allclose(found["estimate"], joint.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["std_error"], joint.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["conf_high"], np.quantile(joint, 0.95, axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["neighborhood"], 0.0, atol=1e-15)
    other = places.contrast("difference", reference="y")
    np.testing.assert_allclose(other["estimate"], -found["estimate"], rtol=1e-10)
    ratio = places.contrast("ratio", reference=("x",))
    np.testing.assert_allclose(ratio["estimate"], np.median(draws[:, [1, 3, 5]] / draws[:, [0, 2, 4]], axis=0))
    np.testing.assert_allclose(ratio["neighborhood"], 1.0)
    assert ask(ALL, f).contrast().keys == ("kind", "against")
    assert places.select(town="b").contrast().equals(found.select(town="b"))
    named = places.with_labels({"kind": {"x": "men", "y": "women"}}).contrast(reference="men")
    assert named["kind"].tolist() == ["women"] * 3


def test_confounding_widens_contrasts_and_moves_nothing() -> None:
    f = np.random.default_rng(3).normal(scale=0.1, size=(4000, 8))
    plain, wide = (ask(HERE, f, interval=i) for i in ("model", "confounding"))
    for kind in ("difference", "ratio"):
        one, two = plain.contrast(kind), wide.contrast(kind)
        np.testing.assert_allclose(two["estimate"], one["estimate"], rtol=1e-12)
        np.testing.assert_array_equal(two["model_low"], one["conf_low"])
        assert (two["conf_high"] > two["model_high"]).all()


def test_contrasts_that_cannot_be_made_are_refused() -> None:
    found, f = ask(HERE, logits(9)), logits(10)
    alone = replace(partition(), level=np.where(partition().level == 1, REST, partition().level))
    for refused, asked in (
        (found, {"reference": "z"}),
        (found, {"kind": "product"}),
        (replace(found, joint=None), {}),
        (Estimates.from_json(found.to_json()), {}),
        (ask(HERE, f, parts=[alone]), {}),
    ):
        with pytest.raises(InputError):
            refused.contrast(**asked)


def test_three_levels_are_compared_pairwise_within_outcomes() -> None:
    rng = np.random.default_rng(0)
    draws = rng.uniform(size=(10, 6))
    columns = {"kind": ["x", "y", "z"] * 2, "outcome": ["red"] * 3 + ["blue"] * 3, "estimate": draws.mean(axis=0)}
    made = {"keys": ["kind", "outcome"], "method": "m", "provenance": Provenance.of(call="test")}
    estimates = Estimates.build(columns, level=None, interval="none", **made)
    found = replace(
        estimates, level=0.9, interval="posterior", draws=draws, joint=Joint(draws, None, ("kind",))
    ).contrast()
    pairs = list(zip(found["kind"], found["against"], strict=True))
    assert pairs == [("y", "x"), ("z", "x"), ("z", "y")] * 2
    np.testing.assert_allclose(found.draws[:, 4], draws[:, 5] - draws[:, 3])
    np.testing.assert_allclose(found["estimate"], found.draws.mean(axis=0))


def test_a_ratio_by_zero_has_no_interval_and_says_so() -> None:
    totals = Totals(("yes",), np.array([[0.0, 40, 10, 35]]), TOTALS.trials, False)  # nobody in place a
    before = ask(HERE, logits(10), totals=totals)
    found = before.contrast("ratio")
    table = found.to_frame("pandas").set_index("town")
    assert table.loc["a", ["estimate", "std_error", "conf_low", "conf_high"]].isna().all()
    assert table.loc[["b", "c"], ["estimate", "std_error", "conf_low", "conf_high"]].notna().all().all()
    assert found.draws is None
    assert len(found.warnings) == len(before.warnings) + 1


def test_absent_subgroups_are_counted() -> None:
    found = ask(HERE, logits())
    assert any(w.startswith("1 subgroup(s) of places have no people") for w in found.warnings)
    assert not any("have no people" in w for w in ask(STATES, logits()).warnings)
    empty = partition(["nobody", "none"])
    gone = Partition(
        empty.levels,
        np.arange(4),
        np.full(4, REST),
        np.ones(4),
        np.ones(4),
        np.ones(4),
    )
    with pytest.raises(InputError):
        ask(HERE, logits(), parts=[gone])


def test_goodman_is_the_classical_regression() -> None:
    part, rate, n = partition(), np.array([0.5, 0.4, 0.125, 0.5]), np.array([60.0, 100, 80, 70])
    x = np.array([[0.25, 0.75, 0], [0.5, 0.5, 0], [0.2, 0.2, 0.6], [1, 0, 0]])
    expected = goodman_fit(x, np.column_stack([rate, 1 - rate]), n, ("x", "y", "rest")).B[:2, 0]
    np.testing.assert_allclose(goodman_rates(part, rate, n), expected)
    few = Partition(
        part.levels,
        *(a[:4] for a in (part.place, part.level, part.share, part.weight, part.effective)),
    )
    assert np.isnan(goodman_rates(few, rate[:2], n[:2])).all()  # two places cannot tell two levels apart


def test_sums_take_the_blocks_in_any_order() -> None:
    part = partition()
    known = facts(TOTALS, part.share, part.place)
    numerator = np.random.default_rng(0).uniform(size=(DRAWS, 8))
    one, two = (Sums(part, STATES, known, DRAWS) for _ in range(2))
    everything = np.arange(8)
    one.add(everything, [Quantity("yes", numerator, None)], np.ones(8), np.arange(8.0))
    for block in (everything[part.place == i] for i in (2, 0, 3, 1)):
        two.add(block, [Quantity("yes", numerator[:, block], None)], np.ones(len(block)), block.astype(float))
    a, b = one.block(0, np.zeros(2)), two.block(0, np.zeros(2))
    np.testing.assert_allclose(a.draws, b.draws, rtol=1e-12)
    for name in a.columns:
        np.testing.assert_allclose(a.columns[name], b.columns[name], rtol=1e-12)


@pytest.fixture(scope="module")
def world() -> Nation:
    return nation(25, 60, n_states=4, turnout=0.6)


def nouns(world: Nation, population: str | None = None) -> tuple[People, Places]:
    places = Places(world.places, "region", "dem", "votes", coords=("lon", "lat"), population=population)
    return People(world.people, by="region", weight="weight"), places


def solve(people: People, places: Places, **question: object) -> Estimates:
    model = DistributionRegression(n_features=16, n_restarts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.fit(people, places)
        return model.estimate(n_draws=100, **question)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize("share_of", ["voters", "people", "turnout"])
def test_a_subgroup_of_everybody_is_the_place(world: Nation, share_of: str) -> None:
    places = world.places
    found = solve(*nouns(world, "population"), subgroups={"everybody": "age >= 0"}, share_of=share_of)
    dem, votes, population = (np.asarray(places[c], dtype=float) for c in ("dem", "votes", "population"))
    rate = {"voters": dem / votes, "people": dem / population, "turnout": votes / population}[share_of]
    np.testing.assert_allclose(found["estimate"], rate, rtol=1e-12)
    np.testing.assert_allclose(found["std_error"], 0.0, atol=1e-15)
    np.testing.assert_allclose(found["conf_low"], rate, rtol=1e-12)
    np.testing.assert_allclose(found["neighborhood"], rate, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_without_accounting_the_mean_is_the_quadratures(world: Nation) -> None:
    """At fixed hyperparameters the mean rate is known in closed form; draws reach it to their Monte Carlo error."""
    model = DistributionRegression(
        n_features=16,
        match_totals=False,
        sampling_error=False,
        hyperparameters={"effect_variance": 1.0, "spatial": 0.2, "length": 300.0, "nugget": 0.02},
    )
    people, places = nouns(world)
    model.fit(people, places)
    found = model.estimate(by="sex", n_draws=2000)
    parts = model.embedder_.transform(replace(people, by=["region", "sex"]))
    place = np.array([model.places_.keys.index(k) for k in parts.key_table["region"].to_pylist()])
    at = model.model_.moments(0, parts.values, place)
    expected = logistic_mean(at.mean, at.variance)
    np.testing.assert_allclose((found["estimate"] - expected) / found["std_error"], 0.0, atol=4.5 / np.sqrt(2000))
