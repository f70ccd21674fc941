"""Are people counted by place, kind, label and household as a plain dictionary counts them?"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslevel.data import place_cells
from crosslevel.data.columns import Category, Encoder, Number
from crosslevel.data.expressions import read_expression
from crosslevel.data.people import People
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import Bins, Labels, count_people
from crosslevel.data.sql import quoted
from crosslevel.errors import InputError, TooManyKindsError

RACES, KEYS = ["a", "b", "it's"], ["x", "y", "z"]
BINS = Bins(
    Encoder((Number("age", 40.0, 15.0, True, 0.0, 90.0), Category("race", pa.array(RACES), True))),
    {"age": np.array([18.0, 40.0, 65.5])},
)
ROW = st.fixed_dictionaries(
    {
        "town": st.sampled_from([*KEYS, "elsewhere"]),
        "age": st.sampled_from([None, 0.0, 17.9, 18.0, 40.0, 65.5, 80.0]),
        "race": st.sampled_from([None, *RACES]),
        "sex": st.integers(1, 2),
        "w": st.sampled_from([0.0, 0.25, 1.0, 3.0]),
        "home": st.sampled_from([None, "h1", "h2", "h3"]),
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=30).filter(lambda rows: any(r["w"] and r["town"] in KEYS for r in rows))
SCHEMA = pa.schema(
    {
        "town": pa.string(),
        "age": pa.float64(),
        "race": pa.string(),
        "sex": pa.int64(),
        "w": pa.float64(),
        "home": pa.string(),
    }
)


def people_of(rows, cluster=None):
    return People(pa.Table.from_pylist(rows, SCHEMA), by="town", weight="w", cluster=cluster)


def kind(row):
    age = 4 if row["age"] is None else int(np.searchsorted([18.0, 40.0, 65.5], row["age"], side="right"))
    return age, 3 if row["race"] is None else RACES.index(row["race"])


def label(row):
    """People of known age of 18 and more by sex; those of b, and the old."""
    if row["age"] is None or row["age"] < 18:
        return None, ()
    return (row["sex"],), tuple(i for i, held in enumerate((row["race"] == "b", row["age"] >= 65)) if held)


def brute(rows, told):
    """Add up weight, people and squared weight."""
    found = defaultdict(lambda: np.zeros(3))
    for row in rows:
        if row["w"]:
            found[told(row)] += [row["w"], 1, row["w"] ** 2]
    return dict(found)


def laid(found):
    """Give what was counted as the dictionary has it."""
    out = {}
    for i, place in enumerate(found.pairs.place):
        weight = found.pairs.weight[i] * found.total[place]
        cell = tuple(found.codes[found.pairs.cell[i]].tolist())
        out[(KEYS[place], cell, found.labels[found.label[i]])] = (weight, found.behind[i], found.square[i])
    return out


def close(found, wanted):
    assert found.keys() == wanted.keys()
    for key, values in found.items():
        np.testing.assert_allclose(values, wanted[key], rtol=1e-12)


@settings(max_examples=40)
@given(ROWS)
def test_everybody_is_counted_once(rows):
    found = count_people(people_of(rows), BINS, KEYS)
    wanted = brute(rows, lambda r: (r["town"], kind(r), ((), ())))
    close(laid(found), {key: v for key, v in wanted.items() if key[0] in KEYS})
    elsewhere = brute(rows, lambda r: r["town"]).get("elsewhere")
    assert list(found.elsewhere.values()) == ([] if elsewhere is None else [(elsewhere[0], int(elsewhere[1]))])
    lived = found.inhabited()
    assert lived.pairs.n_places == len(lived.total) == len({key[0] for key in laid(found)})


@settings(max_examples=40)
@given(ROWS)
def test_labels_tell_subgroups_and_people_outside_where(rows):
    people = people_of(rows)
    old, b, adult = (people.expression(text, "test") for text in ("age >= 65", "race = 'b'", "age >= 18"))
    found = count_people(people, BINS, KEYS, Labels(("sex",), (("b", b), ("old", old)), adult))
    close(laid(found), {k: v for k, v in brute(rows, lambda r: (r["town"], kind(r), label(r))).items() if k[0] in KEYS})
    by_label = brute(rows, lambda r: (r["town"], label(r)))
    for place, key in enumerate(KEYS):
        for number, own in enumerate(found.labels):
            _, people_, square = by_label.get((key, own), (0.0, 0, 0.0))
            assert (found.count[place, number], found.squares[place, number]) == (people_, pytest.approx(square))
    kept = [r for r in rows if label(r)[0] is not None]
    if any(r["w"] and r["town"] in KEYS for r in kept):
        only = laid(count_people(people, BINS, KEYS, only=adult))
        close(only, {k: v for k, v in brute(kept, lambda r: (r["town"], kind(r), ((), ()))).items() if k[0] in KEYS})


@settings(max_examples=40)
@given(ROWS)
def test_households_are_added_up_and_people_without_one_live_alone(rows):
    rows = [row | {"home": row["home"] and row["town"] + row["home"], "number": i} for i, row in enumerate(rows)]
    if not any(row["home"] for row in rows):
        return
    found = count_people(people_of(rows, "home"), BINS, KEYS, clusters=True).clusters
    wanted = brute([r for r in rows if r["town"] in KEYS], lambda r: (r["town"], r["home"] or r["number"]))
    sums = np.bincount(found.cluster, found.weight)
    assert sorted(sums.tolist()) == pytest.approx(sorted(v[0] for v in wanted.values()))
    assert (np.diff(found.place) >= 0).all()
    assert len({(c, p) for c, p in zip(found.cluster, found.place, strict=True)}) == len(wanted)


@settings(max_examples=40)
@given(ROWS, st.integers(0, 5))
def test_halves_add_up_to_the_whole_and_no_household_is_in_both(rows, seed):
    people = people_of(rows, "home")
    found, whole = laid(count_people(people, BINS, KEYS, Labels(half=seed))), laid(count_people(people, BINS, KEYS))
    both = defaultdict(lambda: np.zeros(3))
    for (place, cell, (by, _)), values in found.items():
        both[(place, cell, (by, ()))] += values
    close(dict(both), whole)
    first = sum(v[1] for (_, _, (_, matched)), v in found.items() if matched)
    named = [r for r in rows if r["w"] and r["home"] and r["town"] in KEYS]
    mine = sum(hashlib.md5(f"{seed}:{r['home']}".encode()).hexdigest() < "8" for r in named)
    alone = sum(r["w"] > 0 and r["town"] in KEYS for r in rows) - len(named)
    assert mine <= first <= mine + alone


def test_a_weight_may_be_the_number_of_people():
    rows = [{"town": "x", "age": 20.0, "race": "a", "sex": 1, "w": w, "home": None} for w in (3.0, 4.0)]
    found = count_people(people_of(rows), BINS, KEYS, counted=True)
    assert (found.total[0], found.count[0, 0], found.squares[0, 0], found.behind[0]) == (7.0, 7, 7.0, 7.0)


def test_hundred_subgroups_are_told_apart():
    """An int64 has 63 bits for them: those beyond were all taken for the 64th."""
    rng = np.random.default_rng(0)
    ages, w = rng.integers(0, 120, 400).astype(float), rng.uniform(0.5, 2.0, 400)
    people = People({"town": ["x"] * 400, "race": ["a"] * 400, "age": ages, "w": w}, by="town", weight="w")
    queries = tuple((f"{i}", people.expression(f"age > {i}", "test")) for i in range(100))
    found = count_people(people, BINS, KEYS, Labels(subgroups=queries))
    whole = found.total[found.pairs.place] * found.pairs.weight
    for i in (0, 61, 62, 63, 64, 80, 99):
        has = np.array([i in matched for _, matched in found.labels])
        assert whole[has[found.label]].sum() == pytest.approx(w[ages > i].sum())


def test_too_many_combinations_name_the_costly_columns_and_a_choice_that_works():
    rng = np.random.default_rng(0)
    codes = {f"x{j}": rng.integers(0, 9, 4000) for j in range(22)}
    frame = pd.DataFrame({"town": rng.choice(["a", "b"], 4000), "job": rng.integers(0, 300, 4000)} | codes)

    def counted(columns):
        people = People(frame, by="town", columns=columns, categorical=columns)
        return count_people(people, learn_columns(people, 8).bins, ["a", "b"])

    every = ["job", *codes]
    with pytest.raises(InputError) as refused:
        counted(every)
    offered = ast.literal_eval(str(refused.value).split("columns=")[1].rstrip("."))
    assert "job" not in offered
    assert set(offered) < set(every)
    found = counted(offered)
    assert found.count.sum() == 4000
    assert len(found.codes) <= 4000


def test_more_kinds_than_are_held_are_refused(monkeypatch):
    rows = [{"town": k, "age": a, "race": "a", "sex": 1, "w": 1.0, "home": None} for k in KEYS for a in (1.0, 20.0)]
    monkeypatch.setattr(place_cells, "MOST_PAIRS", 5)
    with pytest.raises(TooManyKindsError):
        count_people(people_of(rows), BINS, KEYS)


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({"race": "c"}, None),
        ({"sex": None}, Labels(("sex",))),
        ({"w": 0.0}, None),
        ({"town": "w"}, None),
    ],
)
def test_people_who_cannot_be_counted_are_refused(change, labels):
    row = {"town": "x", "age": 20.0, "race": "a", "sex": 1, "w": 1.0, "home": None} | change
    with pytest.raises(InputError):
        count_people(people_of([row]), BINS, KEYS, labels)
    with pytest.raises(InputError):
        count_people(people_of([row]), BINS, KEYS, labels, only=read_expression("age > 90", "test", SCHEMA))


@pytest.mark.parametrize(
    "names",
    [
        "place weight people squares",
        "x w n below",
        "cell0 by0 subgroup0 asked",
        "stored plain v0 half",
        'null from q"u a.b',
    ],
)
def test_columns_may_be_called_as_queries_call_theirs(names):
    rows = {
        "town": ["x", "x", "y"] * 40,
        "age": [20.0, 50.0, 70.0, None] * 30,
        "sex": [1, 2] * 60,
        "w": [1.0, 2.0, 0.5] * 40,
    }

    def counted(called):
        people = People({called[n]: v for n, v in rows.items()}, by=called["town"], weight=called["w"])
        old = people.expression(f"{quoted(called['age'])} >= 60", "test")
        found = count_people(people, learn_columns(people).bins, ["x"], Labels((called["sex"],), (("old", old),)))
        return [sorted(v.tolist()) for v in (found.pairs.weight, found.square, found.behind)], found.elsewhere

    assert counted(dict(zip(rows, names.split(), strict=True))) == counted({name: name for name in rows})
