"""Errors of hidden labels in closed form: slopes against differences, and constants of known size learned back."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons.hidden_errors import Groups, HiddenLabel, _State, errors_of, variance_of
from crosslevel.ecological.persons.learner import Learner, learn_confounding, quantile

SIZES = (2, 3, 4)
FIRST = np.array([0, 2, 5])
CELLS = np.array(np.meshgrid(*(range(n) for n in SIZES), indexing="ij")).reshape(3, -1).T
NAMES = ("sex", "race", "age")
PLAIN = replace(SHIPPED, distance=0.0, pairs=0.0, shrinkage=0.5)


def label(
    rng: np.random.Generator,
    q: int = 8,
    name: str = "x",
    tau: float = 0.0,
    omega: float = 0.0,
    factor: float = 1.0,
    effect: float = 1.0,
    apart: float = 2.0,
) -> HiddenLabel:
    """A label whose truth has the effects found times a factor, confounded by tau in all places and by omega in each."""
    n = len(CELLS)
    weight = rng.dirichlet(np.full(n, apart), q)
    pairs = Pairs(np.arange(q + 1, dtype=np.int64) * n, np.tile(np.arange(n), q).astype(np.int32), weight.ravel())
    e, total, people = effect * rng.normal(size=9), rng.uniform(0.2, 0.8, q), rng.uniform(1e5, 1e6, q)
    codes = (CELLS + FIRST).astype(np.int32)
    columns = tuple((name, int(a), int(b)) for name, a, b in zip(NAMES, FIRST, [2, 5, 9], strict=True))
    plain = HiddenLabel(
        name, pairs, codes, columns, e, 1e-4 * np.eye(9), np.eye(9), total, people, (), (), float(total.mean()), ()
    )
    true = replace(plain, effects=factor * e + tau * rng.normal(size=9))
    own = omega * rng.normal(size=(q, 2)) @ np.eye(2)  # of the sexes of each place
    chance = _State(true, {}).chance
    if omega:
        from crosslevel.numerics.logit_shift import shift_to_total

        f = special.logit(chance) + own[pairs.place, np.tile(CELLS[:, 0], q)]
        chance = shift_to_total(f[None], pairs.weight, pairs.place, total).rate[0]

    def groups(which: list[int]) -> Groups:
        k = int(np.prod([SIZES[j] for j in which]))
        group = np.zeros(len(pairs.cell), dtype=np.intp)
        for j in which:
            group = group * SIZES[j] + CELLS[pairs.cell, j]
        w = np.zeros((q, k))
        yes = np.zeros((q, k))
        np.add.at(w, (pairs.place, group), people[pairs.place] * pairs.weight)
        np.add.at(yes, (pairs.place, group), people[pairs.place] * pairs.weight * chance)
        name = " x ".join(NAMES[j] for j in which)
        return Groups(name, tuple(map(str, range(k))), group, w, yes, np.full((q, k), 1e5), np.full((q, k), 1e6))

    return replace(plain, dimensions=(groups([0]), groups([1]), groups([2])), crossings=(groups([0, 1]),))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_slopes_are_those_of_differences(which):
    hidden = label(np.random.default_rng(which))
    d, q = hidden.dimensions[which], len(hidden.total)
    n = len(d.names)

    def logits(effects):
        state = _State(replace(hidden, effects=effects), {})
        row = state.place * n + d.group
        local = np.bincount(row, hidden.pairs.weight * state.chance) / np.bincount(row, hidden.pairs.weight)
        return special.logit(state.rates(d.group, n)[0]), special.logit(local)

    steps = 1e-5 * np.eye(9)
    moved = [(logits(hidden.effects + s), logits(hidden.effects - s)) for s in steps]
    state = _State(hidden, {})
    P, _, people = state.rates(d.group, n)
    G = state.gradients(d.group, n, by_place=False)[0] / (people * P * (1 - P))[:, None]
    np.testing.assert_allclose(G, np.array([(a[0] - b[0]) / 2e-5 for a, b in moved]).T, atol=1e-8)
    row = state.place * n + d.group
    weight = np.bincount(row, hidden.pairs.weight)
    p = np.bincount(row, hidden.pairs.weight * state.chance) / weight
    local = state.gradients(row, q * n, by_place=True)[0] / (weight * p * (1 - p))[:, None]
    np.testing.assert_allclose(local, np.array([(a[1] - b[1]) / 2e-5 for a, b in moved]).T, atol=1e-8)


def test_slopes_of_pairs_are_those_of_an_effect_of_two_levels():
    """Pairs of the columns compared by: their squared slopes are summed over all pairs of levels."""
    hidden = label(np.random.default_rng(3))
    d = hidden.dimensions[0]
    sums = np.zeros(2)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        for i in range(SIZES[a]):
            for j in range(SIZES[b]):
                both = ((CELLS[:, a] == i) & (CELLS[:, b] == j)).astype(float)
                logit = []
                for step in (1e-5, -1e-5):
                    codes = np.column_stack([hidden.codes, np.where(both > 0, 9, 10)]).astype(np.int32)
                    effects = np.append(hidden.effects, [step, 0.0])
                    state = _State(replace(hidden, codes=codes, effects=effects), {})
                    logit.append(special.logit(state.rates(d.group, 2)[0]))
                sums += ((logit[0] - logit[1]) / 2e-5) ** 2
    np.testing.assert_allclose(errors_of(hidden, {})["nation"]["sex"].pairs, sums, rtol=1e-6)


def test_parts_of_the_variance():
    hidden = label(np.random.default_rng(4))
    state, d = _State(hidden, {"race": 0.5}), hidden.dimensions[1]
    P, near, people = state.rates(d.group, 3)
    G = state.gradients(d.group, 3, by_place=False)[0] / (people * P * (1 - P))[:, None]
    found = errors_of(hidden, {"race": 0.5})["nation"]["race"]
    shrunk = G * np.repeat([1.0, 0.5, 1.0], SIZES)
    np.testing.assert_allclose(found.model, np.diag(shrunk @ hidden.covariance @ shrunk.T), rtol=1e-12)
    np.testing.assert_allclose(found.shared, (G**2).sum(axis=1), rtol=1e-12)
    by_column = [shrunk[:, a:b] @ hidden.effects[a:b] for _, a, b in hidden.columns]
    np.testing.assert_allclose(found.contextual, np.sum(np.square(by_column), axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.neighborhood, near)
    constants = replace(SHIPPED, tau=0.2, omega=0.3, distance=0.4, pairs=0.5)
    expected = found.model + 0.16 * found.contextual + 0.04 * (found.shared + 0.5 * found.pairs) + 0.09 * found.own
    np.testing.assert_allclose(variance_of(found, constants), expected)


def test_answers_meet_the_totals_of_everybody():
    hidden = label(np.random.default_rng(5))
    state = _State(hidden, {"race": 0.4})
    whole = np.bincount(state.place, hidden.pairs.weight * state.chance)
    np.testing.assert_allclose(whole, hidden.total, atol=1e-10)


def learner(seed, n=12, **options):
    rng = np.random.default_rng(seed)
    halves = [(label(rng, 40, str(k), **options), label(rng, 40, str(k), **options)) for k in range(n)]
    return Learner(halves, {str(k): str(k) for k in range(n)}, PLAIN, {})


def test_a_known_confounding_is_learned():
    found = [learn_confounding(learner(seed, tau=0.3, effect=0.5)) for seed in range(3)]
    tau = np.array([one.confounding.tau for one in found])
    assert tau.mean() == pytest.approx(0.3, rel=0.15)
    assert {one.confounding.omega for one in found} == {PLAIN.omega}
    assert 0.91 <= np.mean([one.coverage for one in found]) <= 0.98


def test_nothing_confounded_needs_nothing():
    assert learn_confounding(learner(0)).confounding.tau <= 0.02


def test_one_label_far_off_does_not_govern():
    """The score of an interval grows with the miss, not with its square."""
    rng = np.random.default_rng(2)
    usual = learner(2, tau=0.2, effect=0.3)
    halves = [*usual.labels.values(), (label(rng, 60, "odd", tau=3.0), label(rng, 60, "odd", tau=3.0))]
    families = {str(k): str(k) for k in range(12)} | {"odd": "odd"}
    with_odd = learn_confounding(Learner(halves, families, PLAIN, {})).confounding.tau
    assert with_odd < 2 * learn_confounding(usual).confounding.tau


def test_a_family_is_left_out_whole():
    own = learner(3, n=6)
    own.families = {str(k): "even" if k % 2 == 0 else "odd" for k in range(6)}
    assert own.others("0") == ["1", "3", "5"]
    constants = own.learn(own.others("0"))
    assert constants.n_labels == 3
    assert constants.degrees == 2.0
    assert quantile(constants, 0.95) > quantile(SHIPPED, 0.95) == pytest.approx(1.96, abs=1e-3)


def test_few_labels_keep_the_shipped_constants():
    own = learner(4, n=2)
    assert own.learn(["0", "1"]) == PLAIN


def test_groups_that_are_everybody_teach_nothing():
    """Matched totals leave a group that is all of its place no error: it has no variance to divide by."""
    hidden = label(np.random.default_rng(6))
    d = hidden.dimensions[0]
    alone = replace(hidden, dimensions=(replace(d, group=np.zeros_like(d.group)),), crossings=())
    found = errors_of(alone, {})
    assert len(found["nation"]["sex"].truth) == len(found["places"]["sex"].truth) == 0
