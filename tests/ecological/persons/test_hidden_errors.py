"""Errors of hidden labels in closed form: slopes against differences, and constants of known size learned back."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import optimize, special, stats

from crosslevel.data.place_cells import Pairs
from crosslevel.ecological.confounding import SHIPPED, Tail
from crosslevel.ecological.persons.aggregate import EFFECT_VARIANCE
from crosslevel.ecological.persons.groups import Allowance
from crosslevel.ecological.persons.hidden_errors import (
    Groups,
    HiddenLabel,
    Variances,
    _quantile,
    _State,
    errors_of,
    joined,
    reach_by_tau,
    reach_of,
)
from crosslevel.ecological.persons.learner import Learner, learn_confounding, widened
from crosslevel.ecological.persons.model import Effects, Kinds, Telling, rates_over

SIZES = (2, 3, 4)
FIRST = np.array([0, 2, 5])
CELLS = np.array(np.meshgrid(*(range(n) for n in SIZES), indexing="ij")).reshape(3, -1).T
NAMES = ("sex", "race", "age")
STRUCTURE = Effects(FIRST, (), SIZES, np.eye(9))
PLAIN = replace(SHIPPED, distance=0.0, pairs=0.0, shrinkage=0.5)


def chances(
    hidden: HiddenLabel, shrinkage: dict[str, float] | None = None, more: np.ndarray | None = None
) -> np.ndarray:
    """The chance of every pair, places matched to their totals; more is added to the logits of cells."""
    keep = np.repeat([1.0 - (shrinkage or {}).get(name, 0.0) for name in NAMES], SIZES)
    eta = (keep * hidden.effects)[hidden.kinds.codes].sum(axis=1) + (0.0 if more is None else more)
    place, weight, own = hidden.kinds.pairs.place, hidden.kinds.pairs.weight, eta[hidden.kinds.pairs.cell]
    low, high = np.full(len(hidden.total), -40.0), np.full(len(hidden.total), 40.0)
    for _ in range(60):  # bisection
        f = 0.5 * (low + high)
        over = np.bincount(place, weight * special.expit(own + f[place])) > hidden.total
        low, high = np.where(over, low, f), np.where(over, f, high)
    return special.expit(own + f[place])


def group_logits(hidden: HiddenLabel, d: Groups, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits of groups over all places, and within each."""
    n, place, weight = len(d.names), hidden.kinds.pairs.place, hidden.kinds.pairs.weight
    many, row = hidden.people[place] * weight, place * n + d.group
    nation = np.bincount(d.group, many * chance) / np.bincount(d.group, many)
    return special.logit(nation), special.logit(np.bincount(row, weight * chance) / np.bincount(row, weight))


def label(
    rng: np.random.Generator,
    q: int = 8,
    name: str = "x",
    tau: float = 0.0,
    omega: float = 0.0,
    factor: float | np.ndarray = 1.0,
    effect: float = 1.0,
    apart: float = 2.0,
) -> HiddenLabel:
    """A label whose truth has the effects found times a factor, confounded by tau in all places and by omega in each."""
    n = len(CELLS)
    weight = rng.dirichlet(np.full(n, apart), q)
    pairs = Pairs(np.arange(q + 1, dtype=np.int64) * n, np.tile(np.arange(n), q).astype(np.int32), weight.ravel())
    e, total, people = effect * rng.normal(size=9), rng.uniform(0.2, 0.8, q), rng.uniform(1e5, 1e6, q)
    kinds = Kinds(STRUCTURE, CELLS, pairs)
    plain = HiddenLabel(name, NAMES, kinds, e, 1e-4 * np.eye(9), total, people, (), (), float(total.mean()), ())
    true = replace(plain, effects=factor * e + tau * rng.normal(size=9))
    own = omega * rng.normal(size=(q, 2)) @ np.eye(2)  # of the sexes of each place
    chance = chances(true)
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
        telling = Telling(tuple(which), 0.0)
        return Groups(
            name, tuple(map(str, range(k))), group, telling, w, yes, np.full((q, k), 1e5), np.full((q, k), 1e6)
        )

    return replace(plain, dimensions=(groups([0]), groups([1]), groups([2])), crossings=(groups([0, 1]),))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_tau_and_the_totals_leave_is_that_of_differences(which):
    hidden = label(np.random.default_rng(which))
    d, step = hidden.dimensions[which], 1e-5
    moved = [
        [group_logits(hidden, d, chances(replace(hidden, effects=hidden.effects + s * one))) for s in (step, -step)]
        for one in np.eye(9)
    ]
    found = errors_of(hidden, {})
    for part, k in (("nation", 0), ("places", 1)):
        G = np.array([(up[k] - down[k]) / (2 * step) for up, down in moved]).T
        np.testing.assert_allclose(
            found[part][NAMES[which]].variances.shared.sum(axis=1), (G**2).sum(axis=1), rtol=1e-6
        )
        np.testing.assert_allclose(found[part][NAMES[which]].variances.model, 1e-4 * (G**2).sum(axis=1), rtol=1e-6)


def test_pairs_are_those_of_the_columns_compared_by_with_every_other():
    hidden = label(np.random.default_rng(3))
    d, step, sums = hidden.dimensions[0], 1e-5, np.zeros(2)
    for a, b in ((0, 1), (0, 2)):
        for i in range(SIZES[a]):
            for j in range(SIZES[b]):
                both = ((CELLS[:, a] == i) & (CELLS[:, b] == j)).astype(float)
                up, down = (group_logits(hidden, d, chances(hidden, more=s * both))[0] for s in (step, -step))
                sums += ((up - down) / (2 * step)) ** 2
    np.testing.assert_allclose(errors_of(hidden, {})["nation"]["sex"].variances.pairs, sums, rtol=1e-6)


def test_levels_that_no_feature_tells_have_effects_of_their_own():
    """What answers do: the logit of the parts of a level moves in every place, and the place's parts are matched to its total."""
    from crosslevel.numerics.logit_shift import shift_to_total

    hidden = label(np.random.default_rng(8))
    d, q, step = hidden.dimensions[1], len(hidden.total), 1e-5
    untold = replace(d, telling=Telling((), 0.25))
    found = errors_of(replace(hidden, dimensions=(untold,), crossings=()), {})["nation"]["race"]
    place, n = np.repeat(np.arange(q), 3), 3
    row = hidden.kinds.pairs.place * n + d.group
    share = np.bincount(row, hidden.kinds.pairs.weight)
    logit = group_logits(hidden, d, chances(hidden))[1]
    sums = np.zeros(3)
    for level in np.eye(3):
        up, down = (
            shift_to_total((logit + s * np.tile(level, q))[None], share, place, hidden.total).rate[0]
            for s in (step, -step)
        )
        many = hidden.people[place] * share
        group = np.tile(np.arange(3), q)
        both = [special.logit(np.bincount(group, many * p) / np.bincount(group, many)) for p in (up, down)]
        sums += ((both[0] - both[1]) / (2 * step)) ** 2
    np.testing.assert_allclose(found.variances.untold, 0.25 * sums, rtol=1e-5)
    assert found.variances.pairs.max() == 0.0


def test_a_group_of_one_place_moves_against_the_others_of_its_place():
    """Brute force: the logit of one part moves, and the parts of its place are matched to its total again."""
    from crosslevel.numerics.logit_shift import shift_to_total

    hidden = label(np.random.default_rng(9))
    d, q, step = hidden.dimensions[1], len(hidden.total), 1e-5
    place, share = (
        np.repeat(np.arange(q), 3),
        np.bincount(hidden.kinds.pairs.place * 3 + d.group, hidden.kinds.pairs.weight),
    )
    logit, sums = group_logits(hidden, d, chances(hidden))[1], np.zeros(3 * q)
    for part in np.eye(3 * q):
        up, down = (
            special.logit(shift_to_total((logit + s * part)[None], share, place, hidden.total).rate[0])
            for s in (step, -step)
        )
        sums += ((up - down) / (2 * step)) ** 2
    np.testing.assert_allclose(errors_of(hidden, {})["places"]["race"].variances.own, sums, rtol=1e-5)


def test_parts_of_the_variance():
    hidden = label(np.random.default_rng(4))
    d, shrinkage, step = hidden.dimensions[1], {"race": 0.5}, 1e-5
    found = errors_of(hidden, shrinkage)["nation"]["race"]
    keep = np.repeat([1.0, 0.5, 1.0], SIZES)
    by_column = []
    for j in range(3):  # effects of one column, as they are shrunk, times 1 + step
        own = np.repeat(np.arange(3) == j, SIZES) * keep * hidden.effects
        more = own[hidden.kinds.codes].sum(axis=1)
        up, down = (group_logits(hidden, d, chances(hidden, shrinkage, s * more))[0] for s in (step, -step))
        by_column.append((up - down) / (2 * step))
    np.testing.assert_allclose(found.variances.contextual, np.square(by_column).T, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        special.logit(found.estimate), group_logits(hidden, d, chances(hidden, shrinkage))[0], atol=1e-9
    )
    place, many = hidden.kinds.pairs.place, hidden.people[hidden.kinds.pairs.place] * hidden.kinds.pairs.weight
    near = np.bincount(d.group, many * hidden.total[place]) / np.bincount(d.group, many)
    np.testing.assert_allclose(found.neighborhood, near)
    constants = replace(SHIPPED, tau=0.2, omega=0.3, distance=0.4, pairs=0.5, tail=None)
    contextual, shared = found.variances.contextual.sum(axis=1), found.variances.shared.sum(axis=1)
    expected = (
        found.variances.model
        + 0.16 * contextual
        + 0.04 * (shared + 0.5 * found.variances.pairs)
        + 0.09 * found.variances.own
    )
    z = stats.norm.ppf(0.95)
    np.testing.assert_allclose(reach_of(found, constants, 0.9), z * np.sqrt(expected))
    alone = replace(found, variances=replace(found.variances, untold=np.ones(3)))
    np.testing.assert_allclose(reach_of(alone, constants, 0.9), z * np.sqrt(expected + 0.04))


def test_heavy_tails_widen_the_prior_of_a_column_and_what_confounds_it():
    """Brute force: scales of columns are drawn, the posterior of effects computed anew for each, and the error drawn from its law."""
    rng, n, tail = np.random.default_rng(11), 2_000, Tail(4.0, 0.2, 0.4)
    hidden = label(np.random.default_rng(4))
    half = rng.normal(size=(9, 12))
    hidden = replace(hidden, covariance=np.linalg.inv(0.5 * half @ half.T + np.eye(9) / EFFECT_VARIANCE))
    found = errors_of(hidden, {}, tail)["nation"]["race"]
    found = replace(found, variances=replace(found.variances, untold=np.full(3, 0.3)))
    constants = replace(SHIPPED, tau=0.3, omega=0.2, pairs=0.5, tail=tail)
    state = _State(hidden, {})
    G = rates_over(state.parts(hidden.dimensions[1]), hidden.people, 3).G[:, :9]
    rest = (
        0.02 * found.variances.pairs
        + 0.09 * found.variances.untold
        + 0.04 * found.variances.own
        + found.variances.noise
    )
    drawn = np.empty((n, 200, 3))
    for k in range(n):
        scale = np.sqrt(4.0 / rng.chisquare(4.0, 3))
        each = np.repeat(scale, SIZES)
        V = np.linalg.inv(0.5 * half @ half.T + np.diag(1.0 / (EFFECT_VARIANCE * each**2)))
        variance = (
            np.einsum("ij,jk,ik->i", G, V, G) + 0.04 * (G**2) @ each**2 + 0.16 * found.variances.contextual @ scale**2
        )
        drawn[k] = np.sqrt(variance + rest) * rng.normal(size=(200, 3))
    for level in (0.8, 0.95):
        expected = np.quantile(np.abs(drawn), level, axis=(0, 1))
        np.testing.assert_allclose(reach_of(found, constants, level), expected, rtol=0.06)
    assert (reach_of(found, constants, 0.95) > 1.05 * reach_of(found, replace(constants, tail=None), 0.95)).any()


@pytest.mark.parametrize(
    ("part", "sd"),
    [("pairs", np.sqrt(0.3) * 0.2), ("untold", 0.3), ("own", 0.1), ("noise", 1.0)],
)
def test_what_is_of_no_column_has_no_tails(part, sd):
    """Pairs of levels by the tau of heavy tails; levels that no feature tells by that of a normal law."""
    tail = Tail(4.0, 0.2, 0.4)
    found = errors_of(label(np.random.default_rng(4)), {}, tail)["nation"]["race"]
    none = Variances(**{f.name: np.zeros_like(getattr(found.variances, f.name)) for f in fields(Variances)})
    nothing = replace(found, variances=none)
    constants = replace(SHIPPED, tau=0.3, omega=0.1, pairs=0.3, tail=tail)
    only = replace(nothing, variances=replace(none, **{part: np.ones(3)}))
    np.testing.assert_allclose(reach_of(only, constants, 0.9), stats.norm.ppf(0.95) * sd, rtol=1e-6)
    np.testing.assert_allclose(reach_of(nothing, constants, 0.9), 0.0, atol=1e-12)


@pytest.mark.parametrize("tail", [None, Tail(4.0, 0.3, 0.5)])
def test_intervals_of_many_taus_are_those_of_each(tail):
    found = errors_of(label(np.random.default_rng(11)), {"race": 0.4}, tail)["nation"]
    untold = [replace(e.variances, untold=np.full(len(e.truth), 0.3)) for e in found.values()]
    together = joined([replace(e, variances=v) for e, v in zip(found.values(), untold, strict=True)])
    constants, taus = replace(SHIPPED, tau=0.2, omega=0.1, tail=tail), np.array([0.0, 0.1, 0.7])
    each = [
        replace(constants, tau=t) if tail is None else replace(constants, tail=replace(tail, tau=t))
        for t in taus.tolist()
    ]
    expected = [reach_of(together, c, 0.9) for c in each]
    np.testing.assert_allclose(reach_by_tau(together, constants, 0.9, taus), expected, rtol=1e-10)


def test_the_quantile_of_a_mixture_is_that_of_a_search():
    rng = np.random.default_rng(0)
    sd = np.exp(rng.normal(size=(30, 40)) * rng.uniform(0.0, 4.0, size=(30, 1)))
    sd[1, :20] = 0.0
    for tail in (0.55, 0.975, 0.9999):
        found = _quantile(sd, tail)
        for x, row in zip(found.tolist(), sd, strict=True):
            wide = np.maximum(row, 1e-300)
            search = optimize.brentq(lambda v, w=wide, p=tail: stats.norm.cdf(v / w).mean() - p, 0.0, 1e6, xtol=1e-12)
            assert x == pytest.approx(search, rel=1e-6, abs=1e-9)


def learner(seed, n=12, base=PLAIN, shrinkage=None, **options):
    rng = np.random.default_rng(seed)
    halves = [(label(rng, 40, str(k), **options), label(rng, 40, str(k), **options)) for k in range(n)]
    return Learner(halves, {str(k): str(k) for k in range(n)}, base, shrinkage or {})


def shrinking(seed, **options):
    """Nothing is contextual: intervals are no shorter where more is shrunk."""
    base = replace(PLAIN, distance=0.0, tail=replace(PLAIN.tail, distance=0.0))
    return learner(seed, base=base, shrinkage=dict.fromkeys(NAMES[1:], 0.45), tau=0.05, **options)


def test_a_known_confounding_is_learned():
    found = [learn_confounding(learner(seed, tau=0.3, effect=0.5)) for seed in range(3)]
    tau = np.array([one.confounding.tau for one in found])
    assert tau.mean() == pytest.approx(0.3, rel=0.15)
    assert {one.confounding.omega for one in found} == {PLAIN.omega}
    # with heavy tails less of it makes intervals as long
    assert all(0.0 < one.confounding.tail.tau < one.confounding.tau for one in found)
    assert {one.confounding.tail.degrees for one in found} == {PLAIN.tail.degrees}
    assert 0.91 <= np.mean([one.coverage for one in found]) <= 0.98


def test_nothing_confounded_needs_nothing():
    found = [learner(seed).learn([str(k) for k in range(12)]).confounding for seed in range(3)]
    assert max(one.tau for one in found) <= 0.02
    assert any(one.tau == 0.0 for one in found)
    assert all((one.tail is None) == (one.tau == 0.0) for one in found)


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
    constants = own.learn(own.others("0")).confounding
    assert constants.n_labels == 3
    assert constants.degrees == 2.0
    assert widened(SHIPPED, 0.95) == 1.0
    assert 1.96 * widened(constants, 0.95) == pytest.approx(stats.t.ppf(0.975, 2.0), rel=1e-4)


@pytest.mark.parametrize("overstated", [(), ("race",), ("age",), ("race", "age")])
def test_columns_whose_effects_are_overstated_are_shrunk(overstated):
    """All choices of two columns are scored here; the one that is found has the least score, and the tau that goes with it."""
    factor = np.repeat([0.55 if name in overstated else 1.0 for name in NAMES], SIZES)
    own = shrinking(5, factor=factor)
    names = list(own.labels)
    scores = {
        some: own._least(names, {name: 0.45 for name in NAMES[1:] if name in some}, tails=True)
        for some in ((), NAMES[1:2], NAMES[2:], NAMES[1:])
    }
    assert min(scores, key=scores.get) == tuple(name for name in NAMES[1:] if name in overstated)
    found = own.learn(names)
    assert found.shrinkage == {name: 0.45 if name in overstated else 0.0 for name in NAMES[1:]}
    assert found.confounding.tail.tau == scores[tuple(name for name in NAMES[1:] if name in overstated)][1]
    assert "chose" in found.confounding.learned_on


def test_a_label_is_scored_with_what_other_families_choose_to_shrink():
    """The label that is overstated like no other is shrunk by nobody's advice but its own."""
    own, rng = shrinking(7), np.random.default_rng(70)
    factor = np.repeat([1.0, 0.3, 1.0], SIZES)
    odd = (label(rng, 40, "0", factor=factor), label(rng, 40, "0", factor=factor))
    own.labels["0"] = odd
    found = learn_confounding(own)
    assert found.shrinkage == dict.fromkeys(NAMES[1:], 0.0)
    row = found.table.to_pylist()[0]
    assert row["error"] == own.scores("0", Allowance(found.confounding, {}), 0.95)["error"]
    assert row["error"] > own.scores("0", Allowance(found.confounding, {NAMES[1]: 0.45}), 0.95)["error"]


def test_groups_that_are_everybody_teach_nothing():
    """Matched totals leave a group that is all of its place no error: it has no variance to divide by."""
    hidden = label(np.random.default_rng(6))
    d = hidden.dimensions[0]
    alone = replace(hidden, dimensions=(replace(d, group=np.zeros_like(d.group)),), crossings=())
    found = errors_of(alone, {})
    assert len(found["nation"]["sex"].truth) == len(found["places"]["sex"].truth) == 0
