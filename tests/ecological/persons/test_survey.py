"""Respondents and totals in one model: the mathematics on arrays."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import linalg, special

from crosslevel.data.columns import Category, Encoder
from crosslevel.data.place_cells import Bins, Pairs
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons import survey
from crosslevel.ecological.persons.model import Kinds, cell_logits, effects_of
from crosslevel.ecological.persons.survey import Likelihood, SurveyRows, effect_prior, fuse, pairs_of

SIZES = (3, 2)
Q = 12


@dataclass(frozen=True)
class Tiny:
    kinds: Kinds
    rate: np.ndarray
    truth: np.ndarray  # effects, pairs included
    f: np.ndarray
    seen: np.ndarray
    spread: np.ndarray

    @property
    def effects(self):
        return self.kinds.effects

    @property
    def levels(self):
        return self.kinds.levels

    @property
    def pairs(self):
        return self.kinds.pairs


def make_tiny(seed=0):
    """Two columns of three and two levels in twelve places, whose totals say something of the effects."""
    rng = np.random.default_rng(seed)
    columns = [Category(n, pa.array([f"{n}{i}" for i in range(k)]), False) for n, k in zip("ab", SIZES, strict=True)]
    effects = effects_of(Bins(Encoder(tuple(columns)), {}))
    levels = np.array([(i, j) for i in range(3) for j in range(2)], dtype=np.int32)
    weight = rng.dirichlet(np.full(6, 3.0), Q)
    pairs = Pairs(np.arange(Q + 1) * 6, np.tile(np.arange(6), Q).astype(np.int32), weight.ravel())
    kinds = Kinds(effects, levels, pairs, pairs_of(effects))
    truth = np.concatenate([[0.0, 0.9, -0.7, 0.0, 0.5], 0.2 * rng.normal(size=6)])
    f = 0.4 * rng.normal(size=Q)
    eta = cell_logits(truth, kinds.codes)
    rate = (weight * special.expit(eta + f[:, None])).sum(axis=1)
    seen = truth[:5] + 0.2 * rng.normal(size=5)
    return Tiny(kinds, rate, truth, f, seen, 0.05 * np.eye(5))


def ask(tiny, n, seed=1, shift=0.0, by=None, exact=False, area="place"):
    """Ask n people of every place, in proportion to who lives there; ``shift`` moves who answers, ``by`` by their levels."""
    rng = np.random.default_rng(seed)
    eta = cell_logits(tiny.truth, tiny.kinds.codes)
    p = special.expit(eta + tiny.f[:, None])
    more = np.zeros(6) if by is None else by[tiny.effects.codes(tiny.levels)].sum(axis=1)
    p = special.expit(special.logit(p) + shift + more)
    weight = tiny.pairs.weight.reshape(Q, 6)
    trials = n * weight if exact else np.array([rng.multinomial(n, w) for w in weight])
    yes = trials * p if exact else rng.binomial(trials, p)
    if area == "place":
        place, kind = np.repeat(np.arange(Q), 6), np.tile(np.arange(6), Q)
        kept = trials.ravel() > 0
        m = int(kept.sum())
        start, share = np.arange(m + 1), np.ones(m)
        return SurveyRows(
            *(tiny.levels, start, kind[kept], place[kept], share, yes.ravel()[kept].astype(float)),
            trials.ravel()[kept].astype(float),
            np.zeros(m, dtype=int),
        )
    # nothing is known of where they live
    start, kind, place = np.arange(7) * Q, np.repeat(np.arange(6), Q), np.tile(np.arange(Q), 6)
    share = (weight / weight.sum(axis=0)).T.ravel()
    sums = (yes.sum(axis=0).astype(float), trials.sum(axis=0).astype(float))
    return SurveyRows(tiny.levels, start, kind, place, share, *sums, np.zeros(6, dtype=int))


def fused(tiny, rows, selection=0.0, pairs=True, confounding=SHIPPED, keep=None):
    kinds, keep = tiny.kinds if pairs else replace(tiny.kinds, crossed=()), np.ones(5) if keep is None else keep
    prior = effect_prior(tiny.effects, tiny.seen, tiny.spread, keep, confounding, kinds.crossed)
    return prior, fuse(kinds, prior, tiny.rate, rows, selection)


def likelihood(tiny, rows, pairs=True):
    return Likelihood(tiny.kinds if pairs else replace(tiny.kinds, crossed=()), tiny.rate, rows)


def group_logits(tiny, theta):
    """Logits of the levels of both columns over all places, which have equal people."""
    kinds = tiny.kinds if len(theta) > 5 else replace(tiny.kinds, crossed=())
    eta, f = kinds.at(theta, tiny.rate)
    p = special.expit(eta[tiny.pairs.cell] + f[tiny.pairs.place])
    out = []
    for column in range(2):
        level = tiny.levels[tiny.pairs.cell, column]
        weight = np.bincount(level, tiny.pairs.weight)
        out.append(special.logit(np.bincount(level, tiny.pairs.weight * p) / weight))
    return np.concatenate(out)


@pytest.fixture(scope="module")
def tiny():
    return make_tiny()


@pytest.mark.parametrize("area", ["place", "anywhere"])
def test_slopes_are_those_of_differences(tiny, area):
    problem = likelihood(tiny, ask(tiny, 40, area=area))
    rng = np.random.default_rng(0)
    phi = 0.4 * rng.normal(size=11 + 5 + 1)
    at = problem.at(phi)
    gradient, _ = problem.slopes(at)
    X = problem.design(at, problem.place_slopes(at), slice(0, len(problem.rows)))
    for j in range(len(phi)):
        step = 1e-5 * np.eye(len(phi))[j]
        up, down = problem.at(phi + step), problem.at(phi - step)
        np.testing.assert_allclose(X[:, j], (up.zeta - down.zeta) / 2e-5, atol=1e-7)
        assert gradient[j] == pytest.approx((up.value - down.value) / 2e-5, abs=1e-5)


def test_information_is_the_curvature_where_counts_are_as_expected(tiny):
    rows = ask(tiny, 40)
    problem = likelihood(tiny, rows)
    phi = np.concatenate([0.3 * np.random.default_rng(1).normal(size=11), np.zeros(6)])
    expected = rows.trials * special.expit(problem.at(phi).zeta)
    problem = likelihood(tiny, replace(rows, successes=expected))
    _, A = problem.slopes(problem.at(phi))
    for j in range(len(phi)):
        step = 1e-4 * np.eye(len(phi))[j]
        up, down = (problem.slopes(problem.at(phi + s))[0] for s in (step, -step))
        np.testing.assert_allclose(A[:, j], -(up - down) / 2e-4, atol=1e-4)


def test_rows_of_published_groups_have_the_same_slopes(tiny):
    """A row may hold several kinds of people: those of one level, everywhere."""
    inside = np.flatnonzero(tiny.levels[tiny.pairs.cell, 0] == 1)
    weight = tiny.pairs.weight[inside]
    start = np.array([0, len(inside)])
    row = (tiny.pairs.cell[inside].astype(int), tiny.pairs.place[inside], weight / weight.sum())
    rows = SurveyRows(tiny.levels, start, *row, np.array([30.0]), np.array([80.0]), np.zeros(1, dtype=int))
    problem = likelihood(tiny, rows)
    phi = 0.3 * np.random.default_rng(2).normal(size=17)
    at = problem.at(phi)
    X = problem.design(at, problem.place_slopes(at), slice(0, 1))
    for j in range(17):
        step = 1e-5 * np.eye(17)[j]
        change = (problem.at(phi + step).zeta - problem.at(phi - step).zeta) / 2e-5
        np.testing.assert_allclose(X[:, j], change, atol=1e-7)


def test_the_posterior_is_that_of_importance_sampling(tiny):
    """Mean and covariance of the groups' logits against ten thousand draws of the whole posterior."""
    rows = ask(tiny, 30)
    prior, found = fused(tiny, rows, pairs=False)
    problem = likelihood(tiny, rows, pairs=False)
    rng = np.random.default_rng(0)
    # proposals: the approximation itself, with the offset, 1.3 times as wide
    A = problem.slopes(problem.at(np.concatenate([found.theta, found.delta, found.offset])))[1]
    free = np.r_[:5, 10]
    inverse = np.zeros((6, 6))
    inverse[:5, :5], inverse[5, 5] = np.linalg.inv(prior.root @ prior.root), 1 / survey.OFFSET_SD**2
    C = np.linalg.inv(A[np.ix_(free, free)] + inverse)
    np.testing.assert_allclose(C[:5, :5], found.covariance, rtol=1e-6, atol=1e-10)
    centre, L = np.append(found.theta, found.offset), 1.3 * np.linalg.cholesky(C)
    z = rng.normal(size=(10_000, 6))
    logs, groups = [], []
    for draw, deviate in zip(centre + z @ L.T, z, strict=True):
        away = draw - np.append(prior.mean, 0.0)
        value = problem.at(np.concatenate([draw[:5], np.zeros(5), draw[5:]])).value - 0.5 * away @ inverse @ away
        logs.append(value + 0.5 * deviate @ deviate)
        groups.append(group_logits(tiny, draw[:5]))
    weight, groups = special.softmax(logs), np.array(groups)
    assert 1 / (weight**2).sum() > 2_000
    mean = weight @ groups
    sd = np.sqrt(weight @ (groups - mean) ** 2)
    step = 1e-4 * np.eye(5)
    G = np.array([(group_logits(tiny, found.theta + s) - group_logits(tiny, found.theta - s)) / 2e-4 for s in step]).T
    np.testing.assert_allclose(np.sqrt(np.diag(G @ found.covariance @ G.T)), sd, rtol=0.1)
    np.testing.assert_allclose((group_logits(tiny, found.theta) - mean) / sd, 0.0, atol=0.2)


def test_without_respondents_the_prior_is_left(tiny):
    rows = ask(tiny, 40)
    nobody = replace(rows, successes=np.zeros(len(rows)), trials=np.zeros(len(rows)))
    prior, found = fused(tiny, nobody, selection=1e-6)
    np.testing.assert_allclose(found.theta, prior.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, prior.root @ prior.root, atol=1e-10)
    assert found.offset == pytest.approx(0.0)
    assert found.offset_sd == pytest.approx(survey.OFFSET_SD)


def test_a_selection_without_bound_leaves_levels_as_they_were(tiny):
    """Where who answers may differ by any amount between levels, the answers of a level tell nothing of it."""
    rows = ask(tiny, 300, exact=True, area="anywhere")
    before = effect_prior(tiny.effects, tiny.seen, tiny.spread, np.ones(5), SHIPPED, ())
    step = 1e-4 * np.eye(5)

    def sd(theta, C):
        G = np.array([(group_logits(tiny, theta + s) - group_logits(tiny, theta - s)) / 2e-4 for s in step]).T
        return np.sqrt(np.diag(G @ C @ G.T))

    whole = sd(before.mean, before.root @ before.root)
    nothing, some = (fused(tiny, rows, selection=s, pairs=False)[1] for s in (1e4, 0.0))
    np.testing.assert_allclose(sd(nothing.theta, nothing.covariance), whole, rtol=0.1)
    # crossings still tell a little
    assert (np.abs(group_logits(tiny, nothing.theta) - group_logits(tiny, before.mean)) < 0.5 * whole).all()
    assert (sd(some.theta, some.covariance) < 0.3 * whole).all()


@pytest.mark.parametrize("area", ["place", "anywhere"])
def test_a_large_ignorable_survey_gives_the_truth(tiny, area):
    _, found = fused(tiny, ask(tiny, 100_000_000, exact=True, area=area))
    np.testing.assert_allclose(group_logits(tiny, found.theta), group_logits(tiny, tiny.truth), atol=2e-3)
    assert abs(found.offset[0]) < 0.01


def test_what_moves_everybody_is_the_offset(tiny):
    _, found = fused(tiny, ask(tiny, 1_000_000, exact=True, shift=0.3))
    np.testing.assert_allclose(group_logits(tiny, found.theta), group_logits(tiny, tiny.truth), atol=5e-3)
    assert found.offset[0] == pytest.approx(0.3, abs=0.01)
    assert found.offset_sd[0] < 0.05


def test_a_place_of_one_kind_has_its_total_whatever_it_says(tiny):
    weight = tiny.pairs.weight.reshape(Q, 6).copy()
    weight[0] = np.eye(6)[2]
    tiny = replace(tiny, kinds=replace(tiny.kinds, pairs=replace(tiny.pairs, weight=weight.ravel())))
    one = (np.array([0, 1]), np.array([2]), np.array([0]), np.ones(1))
    rows = SurveyRows(tiny.levels, *one, np.array([900.0]), np.array([1000.0]), np.zeros(1, dtype=int))
    prior, found = fused(tiny, rows)
    np.testing.assert_allclose(found.theta, prior.mean, atol=1e-9)
    assert found.offset[0] > 0.5


def test_surveys_have_offsets_of_their_own_and_one_selection(tiny):
    one, two = ask(tiny, 20_000, seed=1, shift=0.4), ask(tiny, 20_000, seed=2, shift=-0.3)
    names = ("kind", "place", "share", "successes", "trials")
    m = len(one)
    both = SurveyRows(
        tiny.levels,
        np.arange(m + len(two) + 1),
        *(np.concatenate([getattr(one, n), getattr(two, n)]) for n in names),
        np.repeat([0, 1], [m, len(two)]),
    )
    _, found = fused(tiny, both, selection=0.1)
    np.testing.assert_allclose(found.offset, [0.4, -0.3], atol=0.15)
    assert found.delta.shape == (5,)


def test_selection_that_is_not_allowed_for_moves_effects_as_said(tiny):
    """The derivative by delta against surveys with and without selection of one level."""
    by = np.array([0.0, 0.02, 0.0, 0.0, 0.0])
    _, plain = fused(tiny, ask(tiny, 5_000, exact=True))
    _, moved = fused(tiny, ask(tiny, 5_000, exact=True, by=by))
    step = 1e-4 * np.eye(11)
    G = np.array([(group_logits(tiny, plain.theta + s) - group_logits(tiny, plain.theta - s)) / 2e-4 for s in step]).T
    np.testing.assert_allclose(G @ (moved.theta - plain.theta), G @ plain.by_delta @ by, atol=3e-4)
    assert np.abs(G @ plain.by_delta @ by).max() > 5e-3


def test_allowing_for_selection_widens_and_never_narrows(tiny):
    rows = ask(tiny, 500)
    sizes = [np.diag(fused(tiny, rows, selection=s)[1].covariance) for s in (0.0, 0.1, 0.3)]
    assert (np.diff(sizes, axis=0) > -1e-12).all()
    assert sizes[2][1] > 1.2 * sizes[0][1]


def errors_of(tiny, rows, found, prior, selection):
    """Covariance of the errors of the mode, as a linear estimate: those of what it shrinks and those of the answers."""
    problem = likelihood(tiny, rows)
    s = found.offset[0] - rows.trials @ (problem.mean_levels @ found.delta) / rows.trials.sum()
    A = problem.slopes(problem.at(np.concatenate([found.theta, found.delta, [s]])))[1]
    R = prior.selection @ prior.selection
    before = [
        linalg.block_diag(prior.root @ prior.root, v * selection[:, None] * R * selection, survey.OFFSET_SD**2)
        for v in (0.5, 1.0)
    ]
    gain = before[0] @ np.linalg.inv(np.eye(len(A)) + A @ before[0])  # of X' W z
    left = np.eye(len(A)) - gain @ A
    return left @ before[1] @ left.T + gain @ A @ gain.T


@pytest.mark.parametrize("by_column", [(0.3, 0.3), (0.5, 0.1)])
@pytest.mark.parametrize("n", [20, 2_000])
def test_covariance_is_that_of_the_errors_of_the_mode(tiny, n, by_column):
    """Half of the selection is assumed, all of it is allowed for: against the errors of any linear estimate."""
    rows, selection = ask(tiny, n), np.repeat(by_column, tiny.effects.sizes)
    prior, found = fused(tiny, rows, selection=selection)
    expected = errors_of(tiny, rows, found, prior, selection)
    np.testing.assert_allclose(found.covariance, expected[:11, :11], rtol=1e-6, atol=1e-8)
    mean = np.r_[np.zeros(11), rows.trials @ likelihood(tiny, rows).mean_levels.toarray() / rows.trials.sum(), 1.0]
    assert found.offset_sd[0] == pytest.approx(np.sqrt(mean @ expected @ mean), rel=1e-6)


@pytest.mark.parametrize("selection", [0.1, 0.5, 1.0, 3.0])
def test_no_interval_is_wider_than_without_the_survey(tiny, selection):
    prior, found = fused(tiny, ask(tiny, 2_000), selection=selection)
    assert np.linalg.eigvalsh(prior.root @ prior.root - found.covariance).min() > -1e-9


def test_rows_in_any_order_and_one_by_one(tiny):
    rows = ask(tiny, 30)
    order = np.random.default_rng(3).permutation(len(rows))
    names = ("kind", "place", "share", "successes", "trials", "source")
    shuffled = replace(rows, **{n: getattr(rows, n)[order] for n in names})
    # everybody a row of their own
    n, k = rows.trials.astype(int), rows.successes.astype(int)
    alone = np.repeat(np.arange(len(rows)), n)
    yes = np.concatenate([np.arange(a) < b for a, b in zip(n, k, strict=True)]).astype(float)
    single = SurveyRows(
        *(rows.levels, np.arange(len(alone) + 1), rows.kind[alone], rows.place[alone], np.ones(len(alone)), yes),
        *(np.ones(len(alone)), np.zeros(len(alone), dtype=int)),
    )
    _, found = fused(tiny, rows, selection=0.1)
    for other in (shuffled, single):
        again = fused(tiny, other, selection=0.1)[1]
        np.testing.assert_allclose(again.theta, found.theta, atol=1e-9)
        np.testing.assert_allclose(again.covariance, found.covariance, atol=1e-10)


def test_the_prior_is_what_answers_allow_for_without_a_survey(tiny):
    keep = np.array([0.55, 0.55, 0.55, 1.0, 1.0])
    prior = effect_prior(tiny.effects, tiny.seen, tiny.spread, keep, SHIPPED, ((0, 1),))
    e = keep * tiny.seen
    C = np.outer(keep, keep) * tiny.spread + SHIPPED.tau**2 * np.eye(5)
    C[:3, :3] += 0.25 * np.outer(e[:3], e[:3])
    C[3:, 3:] += 0.25 * np.outer(e[3:], e[3:])
    np.testing.assert_allclose(prior.mean, np.append(e, np.zeros(6)))
    np.testing.assert_allclose((prior.root @ prior.root)[:5, :5], C, atol=1e-12)
    np.testing.assert_allclose((prior.root @ prior.root)[5:, 5:], 0.3 * SHIPPED.tau**2 * np.eye(6), atol=1e-12)
    alone = effect_prior(tiny.effects, tiny.seen, tiny.spread, np.ones(5), None, ())
    np.testing.assert_allclose(alone.root @ alone.root, tiny.spread, atol=1e-12)
    few = effect_prior(tiny.effects, tiny.seen, tiny.spread, keep, replace(SHIPPED, degrees=4.0), ())
    wider = np.diag(few.root @ few.root) / np.diag(prior.root @ prior.root)[:5]
    assert (wider > 1.2).all()


def test_intervals_hold_in_worlds_where_the_prior_is_true():
    """Effects drawn from the prior, a survey from the effects: 95 % intervals of groups hold as often as they say."""
    inside = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        start = make_tiny(seed)
        prior = effect_prior(start.effects, start.seen, start.spread, np.ones(5), SHIPPED, pairs_of(start.effects))
        truth = prior.mean + prior.root @ rng.normal(size=11)
        eta = cell_logits(truth, start.kinds.codes)
        rate = (start.pairs.weight.reshape(Q, 6) * special.expit(eta + start.f[:, None])).sum(axis=1)
        tiny = replace(start, truth=truth, rate=rate)
        rows = ask(tiny, 60, seed, shift=0.5 * rng.normal(), by=0.1 * rng.normal(size=5))
        _, found = fused(tiny, rows, selection=0.1)
        draws = rng.multivariate_normal(found.theta, found.covariance, 300, method="eigh")
        low, high = np.quantile([group_logits(tiny, d) for d in draws], [0.025, 0.975], axis=0)
        known = group_logits(tiny, truth)
        inside.append((low <= known) & (known <= high))
    assert 0.92 <= np.mean(inside) <= 0.985
