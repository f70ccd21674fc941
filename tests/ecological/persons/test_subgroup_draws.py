import numpy as np
import pandas as pd
import pytest
from scipy import special

from crosslevel.data.batches import open_batches
from crosslevel.data.place_cells import Labels, count_people
from crosslevel.data.queries import parse
from crosslevel.data.totals import Totals
from crosslevel.ecological.persons.fitting import fit_persons
from crosslevel.ecological.persons.subgroup_draws import parts_of
from crosslevel.ecological.quantities import summing
from crosslevel.ecological.subgroups import Request
from crosslevel.errors import InputError

SUBGROUPS = {"b": "race == 'b'", "young b": "race == 'b' and age < 40"}


def ask(world, request, match_totals=True, n_jobs=1, totals=None, sampling=False, interactions=None):
    totals = totals or Totals(("yes",), world.successes[None], world.trials[None], False)
    model = fit_persons(world.cells, world.bins, world.terms, totals, likelihood="exact", interactions=interactions)
    labels = Labels(
        request.by,
        tuple((n, parse(q)) for n, q in request.subgroups.items()),
        None if request.where is None else parse(request.where),
    )
    cells = count_people(
        open_batches(world.people), world.bins, place="town", keys=world.keys, weight="w", labels=labels
    )
    types = {n: world.people.schema.field(n).type for n in request.by}
    return parts_of(
        model, cells, request, totals, match_totals=match_totals, sampling=sampling, types=types, n_jobs=n_jobs
    )


def draw(parts, n_draws, number=0, stage=0, q=40):
    """Give the draws of one partition, in the order of its parts."""
    index = [np.arange(len(p.place)) for p in parts.partitions]
    return special.expit(parts.logits(slice(0, q), index, n_draws, 0)[number][stage])


def test_every_draw_adds_up_and_threads_change_nothing(world):
    parts = ask(world, Request(("race",), {}, None))
    rates = draw(parts, 60)
    part = parts.partitions[0]
    whole = (summing(part.place, 40) @ (rates * part.share).T).T
    np.testing.assert_allclose(whole, np.broadcast_to(world.successes / world.trials, whole.shape), atol=1e-9)
    assert part.levels["race"].to_pylist() == ["a", "b", "c"]
    again = ask(world, Request(("race",), {}, None), n_jobs=2)
    np.testing.assert_array_equal(draw(again, 60), rates)


def test_shares_weights_and_kish_sizes_are_those_of_the_people(world):
    parts = ask(world, Request((), SUBGROUPS, None))
    frame = world.people.to_pandas()
    for part, query in zip(parts.partitions, ("race == 'b'", "race == 'b' and age < 40"), strict=True):
        own = frame.query(query)
        for j in np.flatnonzero(part.asked)[::7]:
            here = own[own.town == world.keys[part.place[j]]].w
            assert part.weight[j] == pytest.approx(here.sum(), rel=1e-9)
            assert part.effective[j] == pytest.approx(here.sum() ** 2 / (here**2).sum(), rel=1e-6)
    rest = parts.partitions[0]
    assert np.bincount(rest.place, weights=rest.share) == pytest.approx(1.0)


def test_a_subgroup_is_the_average_of_its_people(world):
    """The mean over draws lies near the truth of who the people are, far nearer than the place's own rate."""
    parts = ask(world, Request(("race",), {}, None))
    rates = draw(parts, 200).mean(axis=0)
    part = parts.partitions[0]
    frame = world.people.to_pandas().assign(chance=world.chance)
    truth = frame.groupby("race")[["chance", "w"]].apply(lambda g: np.average(g.chance, weights=g.w))
    found = [np.average(rates[part.level == k], weights=part.weight[part.level == k]) for k in range(3)]
    near = np.average(world.successes / world.trials)
    assert np.abs(np.array(found) - truth.to_numpy()).max() < 0.12
    assert np.abs(np.array(found) - truth.to_numpy()).mean() < 0.4 * np.abs(near - truth.to_numpy()).mean()


def test_people_outside_where_are_the_rest(world):
    parts = ask(world, Request(("sex",), {}, "age >= 60"))
    part = parts.partitions[0]
    frame = world.people.to_pandas()
    assert part.weight[part.asked].sum() == pytest.approx(frame[frame.age >= 60].w.sum())
    assert part.weight[~part.asked].sum() == pytest.approx(frame[frame.age < 60].w.sum())
    assert pd.Series(part.levels["sex"].to_pylist()).tolist() == [0, 1]


def test_unaccounted_draws_have_the_posterior_of_the_place(world):
    parts = ask(world, Request(("race",), {}, None), match_totals=False)
    part = parts.partitions[0]
    rates = draw(parts, 300)
    whole = (summing(part.place, 40) @ (rates * part.share).T).T
    observed = world.successes / world.trials
    error = np.sqrt(observed * (1 - observed) / world.trials)
    assert np.abs(whole.mean(axis=0) - observed).max() < 6 * error.max()
    np.testing.assert_allclose(whole.std(axis=0), error, rtol=0.5)


def test_few_places_at_a_time_change_nothing(world):
    parts = ask(world, Request((), SUBGROUPS, None))
    whole = [draw(parts, 40, number) for number in range(2)]
    for places in (slice(0, 7), slice(7, 40)):
        index = [np.flatnonzero((p.place >= places.start) & (p.place < places.stop)) for p in parts.partitions]
        for number, found in enumerate(parts.logits(places, index, 40, 0)):
            np.testing.assert_allclose(special.expit(found[0]), whole[number][:, index[number]], rtol=1e-12)


def test_a_chain_asks_those_who_are_left(world):
    """Turnout that depends on race: votes are shares of those who voted, and every draw adds up to both totals."""
    rng = np.random.default_rng(0)
    frame = world.people.to_pandas()
    turnout = np.where(frame.race == "b", 0.35, 0.75)
    place = np.searchsorted(world.keys, frame.town)
    people = np.full(40, 40_000.0)

    def mean(values, weight):
        return np.bincount(place, weights=weight * values) / np.bincount(place, weights=weight)

    voted = rng.binomial(40_000, mean(turnout, frame.w)).astype(float)
    yes = rng.binomial(voted.astype(int), mean(world.chance, frame.w * turnout)).astype(float)
    totals = Totals(("yes",), np.vstack([voted, yes]), np.vstack([people, voted]), True)
    parts = ask(world, Request(("race",), {}, None), totals=totals)
    part = parts.partitions[0]
    went, chose = (draw(parts, 60, stage=stage) for stage in (0, 1))
    add = summing(part.place, 40)
    np.testing.assert_allclose((add @ (went * part.share).T).T, np.broadcast_to(voted / people, (60, 40)), atol=1e-9)
    both = (add @ (went * chose * part.share).T).T
    np.testing.assert_allclose(both, np.broadcast_to(yes / people, (60, 40)), atol=1e-9)
    by_race = [np.average(went.mean(axis=0)[part.level == k], weights=part.weight[part.level == k]) for k in range(3)]
    assert by_race[1] < 0.5 < min(by_race[0], by_race[2])
    voters = went.mean(axis=0) * part.weight
    found = [np.average(chose.mean(axis=0)[part.level == k], weights=voters[part.level == k]) for k in range(3)]
    truth = [np.average(world.chance[frame.race == r], weights=frame.w[frame.race == r]) for r in "abc"]
    np.testing.assert_allclose(found, truth, atol=0.12)


def test_context_moves_what_people_do_to_what_places_do(world):
    """With contextual_variance the same totals leave less to people's own effects."""
    totals = Totals(("yes",), world.successes[None], world.trials[None], False)
    given = (world.cells, world.bins, world.terms, totals)
    for likelihood in ("exact", "aggregate"):
        fixed = [fit_persons(*given, likelihood=likelihood).fits[0].hyperparameters]
        beta = {}
        for value in (0.0, 0.3, 3.0):
            fit = fit_persons(*given, likelihood=likelihood, contextual_variance=value, fixed=fixed).fits[0]
            beta[value] = np.linalg.norm(fit.linear.beta if likelihood == "exact" else fit.beta)
        assert beta[0.0] > beta[0.3] > beta[3.0]


def test_interactions_find_what_two_columns_do_together(make_world):
    world = make_world(q=150, people=200, field=0.1, seed=4)
    frame = world.people.to_pandas()
    place = frame.town.map({key: i for i, key in enumerate(world.keys)}).to_numpy()
    chance = special.expit(special.logit(world.chance) + 1.5 * ((frame.race == "b") & (frame.age < 40)))
    rate = np.bincount(place, weights=frame.w * chance) / np.bincount(place, weights=frame.w)
    totals = Totals(("yes",), np.round(20_000 * rate)[None], np.full((1, len(rate)), 20_000.0), False)
    request = Request(("race",), {}, "age < 40")
    truth = np.average(
        chance[(frame.race == "b") & (frame.age < 40)], weights=frame.w[(frame.race == "b") & (frame.age < 40)]
    )
    error = {}
    for pairs in (None, [("race", "age")]):
        parts = ask(world, request, totals=totals, interactions=pairs)
        part = parts.partitions[0]
        rates, mine = draw(parts, 60, q=len(rate)).mean(axis=0), part.level == 1
        error[pairs is None] = abs(np.average(rates[mine], weights=part.weight[mine]) - truth)
    assert error[False] < error[True]


def test_interactions_are_checked(world):
    totals = Totals(("yes",), world.successes[None], world.trials[None], False)
    with pytest.raises(InputError):
        fit_persons(world.cells, world.bins, world.terms, totals, interactions=[("race",)])
    with pytest.raises(InputError, match="interactions="):
        fit_persons(world.cells, world.bins, world.terms, totals, interactions=[("rase", "age")])


def test_everybody_has_no_sampling_error(world):
    (everybody,) = ask(world, Request((), {}, "age >= 0"), sampling=True).sampled[0]
    assert everybody.max() == 0.0
    parts = ask(world, Request(("race",), {}, None), sampling=True)
    part, (size,) = parts.partitions[0], parts.sampled[0]
    # of two parts of a place and alike but for their shares, (1 - share) / people is all the difference
    rough = np.sqrt((1 - part.share) / part.effective)
    assert np.corrcoef(np.log(size), np.log(rough))[0, 1] > 0.9


def test_few_people_make_a_part_less_sure(world):
    request = Request(("race",), {}, None)
    sure = draw(ask(world, request), 400)
    parts = ask(world, request, sampling=True)
    unsure = draw(parts, 400)
    part = parts.partitions[0]
    extra = special.logit(unsure).var(axis=0) - special.logit(sure).var(axis=0)
    assert extra.mean() > 0
    few = part.effective < np.quantile(part.effective, 0.2)
    assert extra[few].mean() > 2 * extra[~few].mean()
