"""Answers of the aggregate form: slopes of parts, draws that add up, and one covariance for everything asked."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import crosslevel as cl
from crosslevel.data.place_cells import count_people
from crosslevel.data.places import Totals
from crosslevel.data.simulate import nation
from crosslevel.ecological.confounding import SHIPPED, Tail, cutting_columns
from crosslevel.ecological.persons.fitting import fit_persons
from crosslevel.ecological.persons.groups import Allowance, GroupSource
from crosslevel.ecological.persons.hidden_errors import Errors, Variances, reach_of
from crosslevel.ecological.persons.model import Telling, cell_logits, rake_cells, telling_columns
from crosslevel.ecological.persons.sweeps import part_slopes, place_effects
from crosslevel.ecological.subgroups import REST, Request, cut_places, labels_of
from crosslevel.errors import CrosslevelWarning


def fitted(world, columns, people=None, **settings):
    known = cl.People(
        world.people if people is None else people, by="region", weight="weight", columns=columns, categorical=["sex"]
    )
    places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(**settings).fit(known, places)


@pytest.fixture(scope="module")
def nation_world():
    return nation(60, 200, n_states=6, contextual=0.0, spatial=0.1, random_state=3)


@pytest.fixture(scope="module")
def model(nation_world):
    return fitted(nation_world, ["sex", "race", "education", "age"])


@pytest.fixture(scope="module")
def small(world):
    """A fitted model of the small world, with its people by race."""
    totals = Totals(("yes",), world.successes[None], world.trials[None], False)
    model = fit_persons(world.cells, world.bins, world.terms, totals)
    return model, rake_cells(model, world.cells), totals


USUAL = Allowance(SHIPPED, {"race": 0.45})


def ask(world, small, request, allowance=USUAL, n_draws=400, sampling=False):
    """Ask of the small world; without sampling as if endless people were behind each part."""
    model, _, totals = small
    schema = world.people.schema
    cells = rake_cells(model, count_people(world.people, world.bins, world.keys, labels_of(request, schema)))
    types = {n: schema.field(n).type for n in request.by}
    parts = cut_places(cells, request, types)
    if not sampling:
        endless = [np.full(len(cut.partition.place), np.inf) for cut in parts]
        parts = [replace(c, partition=replace(c.partition, effective=n)) for c, n in zip(parts, endless, strict=True)]
    return GroupSource(model, cells, parts, cutting_columns(request, schema), totals, allowance, (n_draws, 0))


def draw(source, q=40):
    """The logits of the parts of the first partition, under the model and confounded."""
    found = source.draw(0, slice(0, q), np.arange(len(source.partitions[0].place)), 1)
    return found.logits[0], None if found.confounded is None else found.confounded[0]


def slopes(source):
    stage, part, pairs = source.stages[0], source.partitions[0], source.cells.pairs
    kinds, own = source._kinds(0, stage), source.parts[0].of(pairs.place, source.cells.label)
    return part_slopes(pairs, stage.eta, stage.f, kinds.codes, kinds.n_effects, own, part.place, part.effective)


def test_slopes_of_parts_are_those_of_differences(world, small):
    model, cells, _ = small
    codes = model.effects.codes(cells.codes)
    rng = np.random.default_rng(0)
    effects = 0.5 * rng.normal(size=len(model.effects.B))
    level = (codes[:, 0] == 1).astype(int)  # of the first column
    y = world.successes / world.trials
    part = cells.pairs.place * 2 + level[cells.pairs.cell]
    place = np.repeat(np.arange(40), 2)
    share = np.bincount(part, cells.pairs.weight, 80)

    def rates(effects):
        eta = cell_logits(effects, codes)
        f = place_effects(cells.pairs, eta, y, special.logit(y))
        p = special.expit(eta[cells.pairs.cell] + f[cells.pairs.place])
        return np.bincount(part, cells.pairs.weight * p, 80) / share, eta, f

    P, eta, f = rates(effects)
    found = part_slopes(cells.pairs, eta, f, codes, len(effects), part, place, np.full(80, 50.0))
    np.testing.assert_allclose(found.logit, special.logit(P), atol=1e-9)
    for j in range(0, len(effects), 4):
        step = 1e-5 * np.eye(len(effects))[j]
        change = (special.logit(rates(effects + step)[0]) - special.logit(rates(effects - step)[0])) / 2e-5
        np.testing.assert_allclose(found.G[:, j], change, atol=1e-6)
    assert (found.within > 0).all()


def test_parts_are_the_people_of_their_labels(world, small):
    source = ask(world, small, Request(("race",), {}, "age < 50"))
    part, whole = source.partitions[0], source.cells
    frame = world.people.data.to_pandas()
    assert part.levels["race"].to_pylist() == ["a", "b", "c"]
    assert set(np.unique(part.level)) == {REST, 0, 1, 2}
    np.testing.assert_allclose(np.bincount(part.place, part.share), 1.0)
    # raked weights of a place add up to its people's
    np.testing.assert_allclose(np.bincount(part.place, part.weight), whole.total)
    j = int(np.flatnonzero((part.place == 4) & (part.level == 1))[0])
    own = frame[(frame.town == "t04") & (frame.race == "b") & (frame.age < 50)].w
    assert part.weight[j] == pytest.approx(own.sum(), rel=0.4)  # but for smoothing


def parts_of_variance(world, model, at, scale=None):
    """V shrunk, R, what may be contextual, and pairs, of the parts of a question about race; the prior of columns times a scale."""
    n, columns = len(model.effects.B), model.effects.columns
    keep = np.repeat([0.55 if name == "race" else 1.0 for name in world.bins.names], model.effects.sizes)
    B, G, V = model.effects.B, at.G[:, :n], model.fits[0].covariance
    if scale is not None:
        seen = np.linalg.inv(V) - np.eye(n) / 0.2
        V = np.linalg.inv(seen + np.diag(1.0 / (0.2 * np.repeat(scale, model.effects.sizes) ** 2)))
    V, e = (B @ V @ B.T) * np.outer(keep, keep), keep * (B @ model.fits[0].beta)
    shared, contextual = np.zeros((2, len(G), len(columns)))
    for i, (a, b) in enumerate(columns):
        C = B[a:b] @ B[a:b].T
        R = C / np.sqrt(np.outer(np.diag(C), np.diag(C)))
        shared[:, i], contextual[:, i] = np.einsum("ij,jk,ik->i", G[:, a:b], R, G[:, a:b]), (G[:, a:b] @ e[a:b]) ** 2
    return np.einsum("ij,jk,ik->i", G, V, G), shared, contextual, (at.G[:, n:] ** 2).sum(axis=1)


def test_confounding_has_the_variance_of_the_formula(world, small):
    """V shrunk, tau^2 (R and pairs), the distance from the neighborhood and omega^2, in closed form, of a normal law."""
    model, _, _ = small
    normal = Allowance(replace(SHIPPED, tail=None), {"race": 0.45})
    source = ask(world, small, Request(("race",), {}, None), normal, 20_000)
    (plain, moved), at = draw(source), slopes(source)
    fitted_, shared, contextual, pairs = parts_of_variance(world, model, at)
    np.testing.assert_allclose(plain.var(axis=0), fitted_, rtol=0.05)
    more = SHIPPED.tau**2 * (shared.sum(axis=1) + SHIPPED.pairs * pairs)
    more += SHIPPED.omega**2 + SHIPPED.distance**2 * contextual.sum(axis=1)
    np.testing.assert_allclose((moved - plain).var(axis=0), more, rtol=0.06)
    np.testing.assert_allclose((moved - plain).mean(axis=0), 0.0, atol=0.03)


def test_draws_of_heavy_tails_reach_as_far_as_the_constants_were_learned_to(world, small):
    """What answers draw and what hidden labels are scored by are the same law: middle, 80 % and 95 % of the logits of parts."""
    model, _, _ = small
    source = ask(world, small, Request(("race",), {}, None), n_draws=40_000)
    (plain, moved), at = draw(source), slopes(source)
    fitted_, shared, contextual, pairs = parts_of_variance(world, model, at)
    scales = SHIPPED.tail.scales(model.effects.names(world.bins.names))
    stretched = np.column_stack([parts_of_variance(world, model, at, scale)[0] for scale in scales.T])
    one, none = np.ones(len(pairs)), np.zeros(len(pairs))
    errors = Errors(scales, *[0.5 * one] * 4, Variances(fitted_, stretched, contextual, shared, pairs, none, one, none))
    np.testing.assert_allclose(plain.std(axis=0), np.sqrt(fitted_), rtol=0.05)
    for level in (0.8, 0.95):
        ends = np.quantile(moved, [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0)
        np.testing.assert_allclose(0.5 * (ends[2] - ends[0]), reach_of(errors, SHIPPED, level), rtol=0.06)
        np.testing.assert_allclose(ends[1], at.logit, atol=0.05)


def test_few_families_multiply_what_confounds_effects_and_not_their_prior(world, small):
    """One uncertain scale of each draw, beside those of columns; what the totals leave open does not depend on hidden columns."""
    none = replace(SHIPPED, tail=replace(SHIPPED.tail, tau=0.0, distance=0.0))
    drawn = {}
    for name, given in (("none", none), ("many", SHIPPED), ("few", replace(SHIPPED, degrees=4.0))):
        stage = ask(world, small, Request(("race",), {}, None), Allowance(given, {"race": 0.45})).stages[0]
        drawn[name], scale = stage.shared, stage.scale
    assert np.ptp(scale) > 1.0
    assert np.ptp(drawn["none"]) > 0.1
    np.testing.assert_allclose(drawn["few"] - drawn["none"], scale * (drawn["many"] - drawn["none"]), atol=1e-12)


@pytest.mark.parametrize(("tail", "tau"), [(SHIPPED.tail, SHIPPED.tail.tau), (None, SHIPPED.tau)])
def test_pairs_of_levels_have_the_tau_of_the_law_and_no_tails(world, small, tail, tau):
    stage = ask(world, small, Request(("race",), {}, None), Allowance(replace(SHIPPED, tail=tail), {})).stages[0]
    drawn, z = stage.pairs([(0, 1)]), stage._by_pair([(0, 1)])[0]
    np.testing.assert_allclose(drawn, np.sqrt(SHIPPED.pairs) * tau * z, rtol=1e-12)


def test_every_draw_meets_every_total(nation_world, model):
    places = nation_world.places.to_pandas().set_index("region")
    for request in ({"by": "race"}, {"by": ["sex", "race"]}, {"by": "sex", "where": "age < 40"}):
        found = model.estimate(**request, n_draws=60)
        if "where" in request:
            continue
        weight = found["population"]
        table = found.to_frame("pandas")
        for draw in found.draws[::12]:
            rate = table.assign(top=draw * weight, weight=weight).groupby("region")[["top", "weight"]].sum()
            share = (places.dem / places.votes)[rate.index]
            np.testing.assert_allclose(rate.top / rate.weight, share, atol=1e-8)


def test_the_nation_is_the_sum_of_its_places_in_every_draw(model):
    local, nation_ = (model.estimate(by="race", n_draws=60, rollup=r) for r in (None, "all"))
    weight, races = local["population"], local.to_frame("pandas").race.to_numpy()
    for j, race in enumerate(nation_.to_frame("pandas").race):
        own = races == race
        summed = (local.draws[:, own] * weight[own]).sum(axis=1) / weight[own].sum()
        np.testing.assert_allclose(summed, nation_.draws[:, j], atol=1e-10)


def test_contrasts_are_differences_of_the_same_draws(model):
    both = model.estimate(by="sex", rollup="all", n_draws=60)
    gap = both.contrast("difference")
    np.testing.assert_allclose(gap.draws[:, 0], both.draws[:, 1] - both.draws[:, 0], atol=1e-12)


@pytest.mark.parametrize("asked", [{"by": "race"}, {"by": ["sex", "race"], "rollup": "state"}])
def test_features_tell_their_people_as_another_count_does(model, asked):
    found = model.estimate(**asked, n_draws=60)
    again = model.estimate(**asked, n_draws=60, people=replace(model.people_))
    assert found.keys == again.keys
    for column in found.table.column_names:
        if column in found.keys:
            assert found.table[column].equals(again.table[column])
        else:
            np.testing.assert_allclose(found[column], again[column], rtol=1e-9, atol=1e-12)


def test_crossings_sum_to_their_margins(model):
    """Linear in the effects at given totals, and drawn from the same effects: nearly so in every draw."""
    margin = model.estimate(by="sex", rollup="all", n_draws=200)
    crossed = model.estimate(by=["sex", "race"], rollup="all", n_draws=200)
    weight, sex = crossed["population"], crossed.to_frame("pandas").sex.to_numpy()
    for j, value in enumerate(margin.to_frame("pandas").sex):
        own = sex == value
        summed = (crossed.draws[:, own] * weight[own]).sum(axis=1) / weight[own].sum()
        assert np.corrcoef(summed, margin.draws[:, j])[0, 1] > 0.8
        assert summed.std() == pytest.approx(margin.draws[:, j].std(), rel=0.35)


def test_distances_are_those_of_shares_of_levels_from_the_nearest_place(world, small):
    """Person by person; what chance adds for few people is taken off, and everybody of a place is where it is."""
    model, request = small[0], Request(("race",), {}, "age < 50")
    source, sampled = (ask(world, small, request, sampling=few) for few in (False, True))
    pairs, part = source.cells.pairs, source.partitions[0]
    marks = np.eye(len(model.effects.B))[model.effects.codes(source.cells.codes)].sum(axis=1)
    places, parts = np.zeros((2, 40, marks.shape[1])), np.zeros((len(part.place), marks.shape[1]))
    own = source.parts[0].of(pairs.place, source.cells.label)
    np.add.at(places[0], pairs.place, pairs.weight[:, None] * marks[pairs.cell])
    np.add.at(parts, own, pairs.weight[:, None] * marks[pairs.cell])
    parts *= 3.0 / parts.sum(axis=1, keepdims=True)
    apart = np.linalg.norm(places[0][:, None] - places[0], axis=2) + np.diag(np.full(40, np.inf))
    unit, asked = np.median(apart.min(axis=1)), part.level != REST
    expected = np.linalg.norm(parts[:, None] - places[0], axis=2).min(axis=1) / unit
    found, fewer = (s.draw(0, slice(0, 40), np.arange(len(part.place)), 1).distance for s in (source, sampled))
    np.testing.assert_allclose(found[asked], expected[asked], rtol=1e-8)
    assert (fewer[asked] < found[asked]).all()
    everybody = ask(world, small, Request((), {"all": "age > 0"}, None))
    np.testing.assert_allclose(everybody.draw(0, slice(0, 40), np.arange(40), 1).distance, 0.0, atol=1e-6)


def test_what_no_feature_tells_has_an_effect_of_its_own(world, small):
    inside = ask(world, small, Request((), {"b": "race == 'b'"}, None))
    outside = ask(world, small, Request((), {"b": "w > 1"}, None), n_draws=4_000)
    assert inside.telling[0].untold == 0.0
    assert outside.telling[0].untold > 0.8
    plain, moved = draw(outside)
    assert (moved - plain).std(axis=0).min() > SHIPPED.tau * np.sqrt(outside.telling[0].untold)


def test_the_model_alone_is_neither_shrunk_nor_widened(world, small):
    bare, allowed = (ask(world, small, Request(("race",), {}, None), allowance=a) for a in (None, USUAL))
    spread = [np.ptp(slopes(s).logit) for s in (bare, allowed)]
    assert spread[0] > spread[1]


def test_places_of_none_and_all_are_kept(world):
    k = world.successes.copy()
    k[0], k[1] = 0.0, world.trials[1]
    totals = Totals(("yes",), k[None], world.trials[None], False)
    model = fit_persons(world.cells, world.bins, world.terms, totals)
    source = ask(world, (model, rake_cells(model, world.cells), totals), Request(("race",), {}, None))
    assert np.isfinite(draw(source)[0]).all()


@pytest.mark.parametrize("order", [["age", "education", "race", "sex"], ["sex", "age", "race", "education"]])
def test_neither_the_order_of_columns_nor_the_seed_moves_the_fit(nation_world, model, order):
    people = nation_world.people.select([*reversed(nation_world.people.column_names)])
    other = fitted(nation_world, order, people, random_state=5)
    np.testing.assert_allclose(other.model_.fits[0].beta, model.model_.fits[0].beta, atol=1e-9)
    again = fitted(nation_world, order, people)
    one, two = (m.estimate(by="sex", rollup="all", n_draws=50) for m in (model, again))
    np.testing.assert_allclose(one["conf_low"], two["conf_low"], atol=1e-9)


def test_what_features_tell_is_the_variance_between_their_levels():
    """Against the definition, person by person; two columns together tell a crossing that neither tells alone."""
    rng = np.random.default_rng(0)
    sizes = (4, 3, 2)
    codes = np.column_stack([rng.integers(0, n, 500) for n in sizes])
    weight = rng.uniform(0.5, 2.0, 500)
    noisy = np.where(rng.random(500) < 0.3, rng.integers(0, 2, 500), codes[:, 0] // 2)
    found = telling_columns(noisy, codes, sizes, weight, 1)
    share, spread, within = weight / weight.sum(), 0.0, 0.0
    for level in range(2):
        has = noisy == level
        mean = share @ has
        spread += mean * (1 - mean)
        for k in range(4):
            own = codes[:, 0] == k
            p = share[own] @ has[own] / share[own].sum()
            within += share[own].sum() * p * (1 - p)
    assert found.columns == (0,)
    assert found.untold == pytest.approx(within / spread, rel=1e-12)
    crossed = telling_columns(codes[:, 0] // 2 * 3 + codes[:, 1], codes, sizes, weight, 2)
    assert crossed.columns == (0, 1)
    assert crossed.untold == pytest.approx(0.0, abs=1e-12)
    every = telling_columns(codes @ [6, 2, 1], codes, sizes, weight, 5)  # no more columns than there are
    assert (every.columns, every.untold) == ((0, 1, 2), pytest.approx(0.0, abs=1e-12))
    nothing = telling_columns(rng.integers(0, 2, 500), codes, sizes, weight, 1)
    assert nothing.columns == ()
    assert nothing.untold == 1.0


def test_what_features_tell_in_part_moves_by_the_root_of_the_rest(world, small):
    source = ask(world, small, Request((), {"b": "w > 1"}, None))
    columns = source.telling[0].columns
    none, part, whole = (_moved(source, Telling(columns, untold)) for untold in (0.0, 0.25, 1.0))
    np.testing.assert_allclose(part - none, 0.5 * (whole - none), atol=1e-12)
    assert np.ptp(whole - none) > SHIPPED.tau


def _moved(source, telling):
    source.telling[0] = telling
    return draw(source)[1]


def test_the_same_people_asked_for_in_three_ways_have_the_same_answer(model):
    asked = {"rollup": "all", "n_draws": 600}
    crossed = model.estimate(by=["race", "sex"], **asked).select(race="black", sex=2)
    inside = model.estimate(by="race", where="sex == 2", **asked).select(race="black")
    named = model.estimate(subgroups={"them": "race == 'black' and sex == 2"}, **asked)
    for other in (inside, named):
        assert other["estimate"][0] == pytest.approx(crossed["estimate"][0], abs=0.01)
        assert other["std_error"][0] == pytest.approx(crossed["std_error"][0], rel=0.15)


def test_scales_of_columns_are_independent_and_follow_from_their_names():
    tail, names = Tail(4.0, 0.2, 0.5), [f"column {k}" for k in range(50)]
    scales = tail.scales(names)
    np.testing.assert_array_equal(tail.scales(names[::-1]), scales[::-1])
    np.testing.assert_array_equal(tail.scales(names[7:8]), scales[7:8])
    apart = np.corrcoef(scales)[np.triu_indices(50, 1)]
    assert abs(apart.mean()) < 0.02
    assert apart.max() < 0.7
    # Student's law of as many degrees of freedom, but for the far tails that so few scales cannot have
    reach = stats.t.ppf(0.975, 4.0)
    assert stats.norm.cdf(reach / scales[0]).mean() == pytest.approx(0.975, abs=1e-3)
