import numpy as np
import pandas as pd
import pytest
from scipy import special

from crosslevel.data.batches import open_batches
from crosslevel.data.queries import parse
from crosslevel.ecological.accounting import summing
from crosslevel.ecological.individual.collapse import Labels, collapse
from crosslevel.ecological.individual.link import fit_link, parts_of
from crosslevel.ecological.partitions import Request
from crosslevel.ecological.places import Totals
from crosslevel.errors import InputError

SUBGROUPS = {"b": "race == 'b'", "young b": "race == 'b' and age < 40"}


def ask(world, request, account=True, n_jobs=1):
    totals = Totals(("yes",), world.successes[None], world.trials[None], False)
    model = fit_link(world.collapsed, world.coarsening, world.terms, totals)
    labels = Labels(
        request.by,
        tuple((n, parse(q)) for n, q in request.subgroups.items()),
        None if request.where is None else parse(request.where),
    )
    collapsed = collapse(
        open_batches(world.people), world.coarsening, place="town", keys=world.keys, weight="w", labels=labels
    )
    types = {n: world.people.schema.field(n).type for n in request.by}
    return parts_of(model, collapsed, request, totals, account=account, types=types, n_jobs=n_jobs)


def test_every_draw_adds_up_and_threads_change_nothing(world):
    parts = ask(world, Request(("race",), {}, None))
    rates = special.expit(parts.all_logits(0, 60, 0)[0])
    part = parts.partitions[0]
    whole = (summing(part.place, 40) @ (rates * part.share).T).T
    np.testing.assert_allclose(whole, np.broadcast_to(world.successes / world.trials, whole.shape), atol=1e-9)
    assert part.levels["race"].to_pylist() == ["a", "b", "c"]
    again = ask(world, Request(("race",), {}, None), n_jobs=2)
    np.testing.assert_array_equal(special.expit(again.all_logits(0, 60, 0)[0]), rates)


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
    rates = special.expit(parts.all_logits(0, 200, 0)[0]).mean(axis=0)
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
    parts = ask(world, Request(("race",), {}, None), account=False)
    part = parts.partitions[0]
    rates = special.expit(parts.all_logits(0, 300, 0)[0])
    whole = (summing(part.place, 40) @ (rates * part.share).T).T
    observed = world.successes / world.trials
    error = np.sqrt(observed * (1 - observed) / world.trials)
    assert np.abs(whole.mean(axis=0) - observed).max() < 6 * error.max()
    np.testing.assert_allclose(whole.std(axis=0), error, rtol=0.5)


def test_a_chain_of_questions_is_refused(world):
    both = np.vstack([world.successes, world.successes])
    totals = Totals(("yes",), both, both + 1, True)
    with pytest.raises(InputError, match="totals ask 2 questions"):
        fit_link(world.collapsed, world.coarsening, world.terms, totals)
