"""A coin tossed for every person and one for every household: no place differs in them, so totals cannot tell their effects.

Where totals and composition come from the same people, the sampling noise of the shares tells nine tenths of an effect that no
sound analysis could find. Composition and totals of different households find none of it.
"""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special

import crosslevel as cl
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons import hidden_labels
from crosslevel.ecological.persons.groups import Allowance
from crosslevel.ecological.persons.labels import comparison, hide_all, read_labels
from crosslevel.ecological.persons.learner import Learner
from crosslevel.errors import CrosslevelWarning

PLACES, HOUSES, SIZE = 300, 120, 2
EFFECT = 1.0


def world(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Households of two; a label with an effect of one logit of both coins, and places that hardly differ."""
    rng = np.random.default_rng(seed)
    n = PLACES * HOUSES * SIZE
    place, house = np.repeat(np.arange(PLACES), HOUSES * SIZE), np.repeat(np.arange(PLACES * HOUSES), SIZE)
    coin, shared = rng.integers(0, 2, n), rng.integers(0, 2, PLACES * HOUSES)[house]
    field = 0.05 * rng.standard_normal(PLACES)
    chance = special.expit(EFFECT * (coin - 0.5) + EFFECT * (shared - 0.5) + field[place])
    people = pd.DataFrame({"place": place, "house": house, "coin": coin, "shared": shared})
    people["label"] = (rng.random(n) < chance).astype(int)
    totals = pd.DataFrame({"place": np.arange(PLACES), "yes": rng.integers(40, 60, PLACES), "all": 100})
    return people, totals


def hidden(seed: int) -> tuple:
    """Hide the label, and give both halves."""
    return halves_of(*world(seed), ["coin", "shared"])


def halves_of(people: pd.DataFrame, totals: pd.DataFrame, columns: list[str]) -> tuple:
    (halves,) = every_half(people, totals, columns, ["label"])
    return halves


def every_half(people: pd.DataFrame, totals: pd.DataFrame, columns: list[str], labels: list[str]) -> list[tuple]:
    """Hide some labels, one after another."""
    known = cl.People(people, by="place", cluster="house", columns=columns, categorical=columns)
    model = cl.EcologicalInference(spatial=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.fit(known, cl.Places(totals, by="place", successes="yes", trials="all"))
    bins, cuts = comparison(model, known, columns)
    return hide_all(model, known, bins, cuts, read_labels(labels, None, known, model))


def found(seed: int) -> np.ndarray:
    """Give the effects of both coins, mean of the halves; the most common level is the first."""
    effects, people = [], world(seed)[0]
    sign = [1.0 if people[name].mean() <= 0.5 else -1.0 for name in ("coin", "shared")]
    for half in hidden(seed):
        first = {name: a for name, (a, _) in zip(half.columns, half.structure.columns, strict=True)}
        effects.append([half.effects[first[name] + 1] - half.effects[first[name]] for name in ("coin", "shared")])
    return np.mean(effects, axis=0) * sign


@pytest.mark.parametrize(("smoothed", "limit"), [(True, 0.1), (False, 0.15)])
def test_coins_have_no_effect_that_totals_could_tell(monkeypatch, smoothed, limit):
    if not smoothed:
        monkeypatch.setattr(hidden_labels, "_smoothed", lambda model, bins, levels, pairs, size: pairs.weight)
    effects = np.mean([found(seed) for seed in range(4)], axis=0)
    assert np.abs(effects).max() < limit


def test_shares_that_are_noise_are_smoothed_away():
    """Heads of a place are a sample's: half of its people vary by chance alone, and the composition that is fitted hardly does."""
    for half in hidden(0):
        for d in half.dimensions:
            share = np.bincount(half.kinds.pairs.place, half.kinds.pairs.weight * (d.group == 1), PLACES)
            by_chance = 0.25 / (HOUSES * SIZE / 2) * (SIZE if d.name == "shared" else 1)
            assert share.var() < 0.3 * by_chance


def test_the_same_people_would_tell_them(monkeypatch):
    """What the test above must be able to see: with totals of the very people, most of the effect is found."""
    people = hidden_labels._People

    def whole(self, first):
        own = np.ones(len(self.amount))
        return np.asarray(self._sum(self.amount * own * self.has) / self._sum(self.amount * own))

    monkeypatch.setattr(hidden_labels, "_smoothed", lambda model, bins, levels, pairs, size: pairs.weight)
    monkeypatch.setattr(people, "rates", whole)
    kinds = people.kinds

    def everybody(self, used, cuts, first):
        halves, self.first = self.first, np.full(len(self.first), first)
        try:
            return kinds(self, used, cuts, first)
        finally:
            self.first = halves

    monkeypatch.setattr(people, "kinds", everybody)
    assert found(0).min() > 0.4


def without_effects(seed: int, q: int = 80, houses: int = 100) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Places that differ in two columns, and in a label that has nothing to do with either."""
    rng = np.random.default_rng([seed, 7])
    place, house = np.repeat(np.arange(q), houses * SIZE), np.repeat(np.arange(q * houses), SIZE)
    race = np.array([rng.choice(3, size=houses, p=p) for p in rng.dirichlet([1.0, 1.0, 1.0], q)]).ravel()[house]
    school = (rng.random((q, houses * SIZE)) > rng.beta(4.0, 4.0, q)[:, None]).ravel().astype(int)
    label = rng.random(len(place)) < special.expit(-0.5 + 0.3 * rng.standard_normal(q)[place])
    people = pd.DataFrame({"place": place, "house": house, "race": race, "school": school, "label": label.astype(int)})
    return people, pd.DataFrame({"place": np.arange(q), "yes": rng.integers(40, 60, q), "all": 100})


def test_a_label_without_effects_is_covered():
    """The model's own intervals hold it as often as they say; those that allow for confounding, of which there is none, always."""
    alone, covered = replace(SHIPPED, tau=0.0, omega=0.0, distance=0.0, tail=None), []
    for seed in range(60):
        learner = Learner([halves_of(*without_effects(seed), ["race", "school"])], {"label": "label"}, SHIPPED, {})
        own, wide = (learner.scores("label", Allowance(c, {}), 0.95) for c in (alone, SHIPPED))
        covered.append([own["coverage"], own["place_coverage"], wide["coverage"]])
    nation, places, allowed = np.mean(covered, axis=0)
    assert nation == pytest.approx(0.95, abs=0.03)
    assert places == pytest.approx(0.95, abs=0.03)
    assert allowed > 0.98


def test_labels_without_effects_teach_that_nothing_is_confounded():
    """Tau learned from nine such labels is zero for the tenth.

    The uncertainty about contextual effects remains: groups over all places are covered whatever the totals say, since the neighborhood
    lies within it; groups of places are covered as often as they should be.
    """
    columns, found = ["race", "school"], []
    for seed in range(2):
        people, totals = without_effects(seed)
        rng, labels = np.random.default_rng([seed, 8]), [f"label{j}" for j in range(10)]
        for name in labels:
            chance = special.expit(-0.5 + 0.3 * rng.standard_normal(len(totals))[people["place"]])
            people[name] = (rng.random(len(people)) < chance).astype(int)
        hidden = every_half(people, totals, columns, labels)
        learner = Learner(hidden, {name: name for name in labels}, SHIPPED, {})
        for name in labels:
            learned = learner.learn(learner.others(name))
            own, shipped = (learner.scores(name, c, 0.95) for c in (learned, Allowance(SHIPPED, {})))
            found.append(
                [learned.confounding.tau, own["coverage"], own["place_coverage"], own["width"] / shipped["width"]]
            )
    tau, nation, places, width = np.transpose(found)
    assert tau.max() <= 0.03
    assert nation.mean() > 0.98
    assert places.mean() == pytest.approx(0.95, abs=0.03)
    assert width.mean() < 0.7
