"""Are the people of a stream counted by place, kind and label as a plain group-by counts them?"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from crosslevel.data import place_cells as module
from crosslevel.data.batches import open_batches
from crosslevel.data.learning import learn_people
from crosslevel.data.place_cells import Bins, Labels, PlaceCells, count_people, learn_bins
from crosslevel.data.queries import parse
from crosslevel.errors import InputError


@dataclass(frozen=True)
class World:
    people: pa.Table
    keys: list[str]
    bins: Bins
    counted: PlaceCells


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    q, n = 40, 10_000
    place = np.repeat(np.arange(q), n // q)
    table = pa.table(
        {
            "town": [f"t{i:02d}" for i in place],
            "race": rng.choice(["a", "b", "c"], n),
            "age": np.clip(rng.normal(45 + 6 * rng.normal(size=q)[place], 15), 18, 90).round(),
            "sex": rng.integers(0, 2, n),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )
    keys = [f"t{i:02d}" for i in range(q)]
    names = ["race", "age", "sex"]
    learned = learn_people(
        open_batches(table), columns=names, by=["town"], weight="w", categorical=["sex"], n_sample=2000
    )
    bins = learn_bins(learned.encoder, learned.encoded_sample(), 8)
    return World(table, keys, bins, count_people(open_batches(table), bins, place="town", keys=keys, weight="w"))


def test_pairs_are_weighted_counts_of_equal_people(world):
    frame = world.people.to_pandas()
    levels = world.bins.levels(world.people.combine_chunks().to_batches()[0], 0)
    for j, name in enumerate(world.bins.names):
        frame[f"level_{name}"] = levels[:, j]
    keys = ["town", *(f"level_{n}" for n in world.bins.names)]
    wanted = frame.groupby(keys)["w"].sum()
    pairs, total = world.counted.pairs, world.counted.total
    assert len(pairs.cell) == len(wanted)
    place = np.repeat(np.arange(len(world.keys)), np.diff(pairs.start))
    for i in range(0, len(place), 97):
        key = (world.keys[place[i]], *world.counted.codes[pairs.cell[i]].tolist())
        assert pairs.weight[i] * total[place[i]] == pytest.approx(wanted[key], rel=1e-12)
    np.testing.assert_allclose(np.bincount(place, weights=pairs.weight), 1.0, rtol=1e-12)


def test_batches_order_and_merging_change_nothing(world, monkeypatch):
    options = {"place": "town", "keys": world.keys, "weight": "w"}
    monkeypatch.setattr(module, "BATCH_ROWS", 700)
    monkeypatch.setattr(module, "MERGE_AT", 500)
    shuffled = world.people.take(pa.array(np.random.default_rng(0).permutation(world.people.num_rows)))
    found = count_people(open_batches(shuffled), world.bins, **options)
    np.testing.assert_array_equal(found.codes, world.counted.codes)
    np.testing.assert_array_equal(found.pairs.cell, world.counted.pairs.cell)
    np.testing.assert_allclose(found.pairs.weight, world.counted.pairs.weight, rtol=1e-12)


def test_labels_tell_subgroups_and_people_outside_where(world):
    labels = Labels(("sex",), (("b", parse("race == 'b'")), ("old", parse("age >= 60"))), parse("age >= 30"))
    found = count_people(
        open_batches(world.people), world.bins, place="town", keys=world.keys, weight="w", labels=labels
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


def test_hundred_subgroups_are_told_apart(world):
    """An int64 has 63 bits for them: those beyond were all taken for the 64th."""
    people = world.people.to_pandas()
    queries = tuple((f"{i}", parse(f"age > {i}")) for i in range(100))
    labels = Labels(subgroups=queries)
    found = count_people(
        open_batches(world.people), world.bins, place="town", keys=world.keys, weight="w", labels=labels
    )
    whole = found.total[found.pairs.place] * found.pairs.weight
    for i in (0, 61, 62, 63, 64, 80, 99):
        has = np.array([i in matched for _, matched in found.labels])
        assert whole[has[found.label]].sum() == pytest.approx(people.w[people.age > i].sum())


def test_too_many_combinations_name_the_costly_columns_and_a_choice_that_works():
    rng = np.random.default_rng(0)
    codes = {f"x{j}": rng.integers(0, 9, 4000) for j in range(22)}
    people = pd.DataFrame({"town": rng.choice(["a", "b"], 4000), "job": rng.integers(0, 300, 4000)} | codes)

    def counted(columns):
        learned = learn_people(open_batches(people), columns=columns, by=["town"], categorical=columns, n_sample=100)
        bins = learn_bins(learned.encoder, learned.encoded_sample(), 8)
        return count_people(open_batches(people), bins, place="town", keys=["a", "b"], weight=None)

    every = ["job", *codes]
    with pytest.raises(InputError) as refused:
        counted(every)
    offered = ast.literal_eval(str(refused.value).split("columns=")[1].rstrip("."))
    assert "job" not in offered
    assert offered == [name for name in every if name in offered]
    found = counted(offered)
    assert found.n_rows == 4000
    assert len(found.codes) <= 4000


def test_places_without_people_are_left_out_and_people_of_other_places_are_counted(world):
    keys = [*world.keys[5:], "empty"]
    found = count_people(open_batches(world.people), world.bins, place="town", keys=keys, weight="w")
    assert found.total[-1] == 0
    assert sorted(found.elsewhere) == world.keys[:5]
    assert found.elsewhere["t00"][1] == 250
    lived = found.inhabited()
    assert lived.pairs.n_places == len(found.total) - 1 == len(lived.total)
    np.testing.assert_array_equal(lived.pairs.weight, found.pairs.weight)
