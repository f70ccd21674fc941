import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crosslevel.data.batches import open_batches
from crosslevel.data.queries import parse
from crosslevel.ecological.individual import collapse as module
from crosslevel.ecological.individual.collapse import Labels, collapse
from crosslevel.errors import InputError


def test_pairs_are_weighted_counts_of_equal_people(world):
    frame = world.people.to_pandas()
    levels = world.coarsening.levels(world.people.combine_chunks().to_batches()[0], 0)
    for j, name in enumerate(world.coarsening.names):
        frame[f"level_{name}"] = levels[:, j]
    keys = ["town", *(f"level_{n}" for n in world.coarsening.names)]
    wanted = frame.groupby(keys)["w"].sum()
    pairs, total = world.collapsed.pairs, world.collapsed.total
    assert len(pairs.cell) == len(wanted)
    place = np.repeat(np.arange(len(world.keys)), np.diff(pairs.start))
    for i in range(0, len(place), 97):
        key = (world.keys[place[i]], *world.collapsed.codes[pairs.cell[i]].tolist())
        assert pairs.weight[i] * total[place[i]] == pytest.approx(wanted[key], rel=1e-12)
    np.testing.assert_allclose(np.bincount(place, weights=pairs.weight), 1.0, rtol=1e-12)


def test_bins_of_numbers_hold_about_equal_people_and_are_described(world):
    shares = np.bincount(world.coarsening.levels(world.people.combine_chunks().to_batches()[0], 0)[:, 1]) / 10_000
    assert len(shares) == 8
    assert shares.min() > 0.08
    assert shares.max() < 0.17
    words = world.coarsening.describe()
    assert words["race"] == ["a", "b", "c"]
    assert words["age"][0].startswith("< ")
    assert words["age"][-1].startswith(">= ")


def test_batches_order_and_merging_change_nothing(world, monkeypatch):
    options = {"place": "town", "keys": world.keys, "weight": "w"}
    monkeypatch.setattr(module, "BATCH_ROWS", 700)
    monkeypatch.setattr(module, "MERGE_AT", 500)
    shuffled = world.people.take(pa.array(np.random.default_rng(0).permutation(world.people.num_rows)))
    found = collapse(open_batches(shuffled), world.coarsening, **options)
    np.testing.assert_array_equal(found.codes, world.collapsed.codes)
    np.testing.assert_array_equal(found.pairs.cell, world.collapsed.pairs.cell)
    np.testing.assert_allclose(found.pairs.weight, world.collapsed.pairs.weight, rtol=1e-12)


def test_labels_tell_subgroups_and_people_outside_where(world):
    labels = Labels(("sex",), (("b", parse("race == 'b'")), ("old", parse("age >= 60"))), parse("age >= 30"))
    found = collapse(
        open_batches(world.people), world.coarsening, place="town", keys=world.keys, weight="w", labels=labels
    )
    frame = world.people.to_pandas()
    place = np.repeat(np.arange(len(world.keys)), np.diff(found.pairs.start))
    weight = found.pairs.weight * found.total[place]
    young = [k for k, (values, _) in enumerate(found.labels) if values is None]
    assert weight[np.isin(found.label, young)].sum() == pytest.approx(frame.loc[frame.age < 30, "w"].sum())
    asked = [k for k, (values, matched) in enumerate(found.labels) if values == (1,) and 0 in matched and 1 in matched]
    rows = (frame.sex == 1) & (frame.race == "b") & (frame.age >= 60)
    assert weight[np.isin(found.label, asked)].sum() == pytest.approx(frame.loc[rows, "w"].sum())
    assert found.squares[:, asked].sum() == pytest.approx((frame.loc[rows, "w"] ** 2).sum())
    assert found.count[:, asked].sum() == rows.sum()


def test_nobody_left_is_a_sentence(world):
    with pytest.raises(InputError, match="no rows of positive weight"):
        collapse(open_batches(world.people), world.coarsening, place="town", keys=["elsewhere"], weight="w")


def test_too_many_combinations_are_a_sentence(world):
    sizes = world.coarsening.sizes
    assert np.prod(sizes) < 1e4
    people = pd.DataFrame({"town": ["a", "b"] * 3, "w": 1.0} | {f"x{j}": np.arange(6.0) for j in range(30)})
    from crosslevel.data.learning import learn
    from crosslevel.ecological.individual.collapse import coarsen

    stream = open_batches(people)
    learnt = learn(stream, [f"x{j}" for j in range(30)], by=["town"], weight="w", n_sample=6)
    sample = learnt.encoder.encode(learnt.sample).dense(learnt.encoder.n_inputs)
    with pytest.raises(InputError, match="more than can be numbered"):
        collapse(
            open_batches(people),
            coarsen(learnt.encoder, sample, 8),
            place="town",
            keys=["a", "b"],
            weight="w",
        )


def test_kinds_of_people_are_bounded_and_numbers_coarsened_until_they_fit(world, monkeypatch):
    from crosslevel.ecological import EcologicalInference
    from crosslevel.errors import CrosslevelWarning

    n = len(world.collapsed.label)
    monkeypatch.setattr(module, "MOST_PAIRS", n // 2)
    with pytest.raises(InputError, match=f"people are of more than {n // 2:,} kinds .* ask for fewer subgroups"):
        collapse(open_batches(world.people), world.coarsening, place="town", keys=world.keys, weight="w")
    places = pd.DataFrame({"town": world.keys, "yes": world.successes, "all": world.trials})
    fixed = {"embedding": 0.3, "nugget": 0.05}
    model = EcologicalInference(categorical=["sex"], spatial=None, hyperparameters=fixed, n_bins=8, n_jobs=1)
    asked = {"by": "town", "weight": "w", "successes": "yes", "trials": "all"}
    with pytest.warns(CrosslevelWarning, match="Numbers are in at most [24] bins, not 8"):
        model.fit(world.people, places, **asked)
    assert model.certificate()["bins_of_numbers"] in ("age 2", "age 4")
    assert model.certificate()["place_cell_pairs"] <= n // 2
    monkeypatch.setattr(module, "MOST_PAIRS", 50)
    with pytest.raises(InputError, match="people are of more than 50 kinds"):
        model.fit(world.people, places, **asked)
