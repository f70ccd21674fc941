"""However people and places are written down, the answer is the same; what cannot be is refused."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning, InputError, TooManyKindsError
from crosslevel.imputation import cells as kinds
from crosslevel.imputation.cells import count_kinds
from crosslevel.imputation.inputs import read_fit

N = 24
RNG = np.random.default_rng(3)
STATE = np.repeat([f"s{i:02d}" for i in range(N)], 20)
GROUP = np.repeat(np.arange(N), 20)
FRAME = pd.DataFrame(
    {
        "age": RNG.binomial(5, 0.2 + 0.5 * GROUP / N).astype(float),
        "pay": RNG.integers(0, 20, len(GROUP)) / 10 + GROUP // 12,
        "sex": RNG.choice(["f", "m"], len(GROUP)),
        "state": STATE,
        "w": RNG.integers(1, 4, len(GROUP)).astype(float),
    }
)
MEANS = pd.DataFrame({"state": np.unique(STATE), "ill": np.linspace(0.1, 0.7, N), "ill_se": 0.02})
ROLES = {"by": "state", "weight": "w", "columns": ["age", "pay", "sex"]}
TOLD = cl.Means(
    "ill",
    se={"ill": "ill_se"},
    of="population",
    known_rates={"sex": ["f", "m"], "ill": [0.3, 0.5], "ill_se": [0.01] * 2},
)
PLACES = cl.Places(MEANS, by="state", means=TOLD)
PLACES_OF_MEANS = replace(PLACES, means=["ill"])
MODELS = {
    "persons": lambda: cl.CrossLevelImputer(missing="mean", n_restarts=0),
    "clusters": lambda: cl.CUDIA(2, method="two_stage", n_restarts=1),
}


def places_for(model):
    return PLACES if model == "persons" else PLACES_OF_MEANS


def answers(model, people, places=None, *, rows=True):
    """Everything a user reads, people in the order of their number."""
    fitted = MODELS[model]().fit(people, places or places_for(model))
    if model == "persons":
        tables = [fitted.estimate("state", people), fitted.estimate(["age", "pay"])]
        names = ("estimate", "std_error", "conf_low", "naive", "people")
    else:
        tables, names = [fitted.estimate("state", n_draws=2), fitted.clusters()], ("estimate",)
    out = [np.asarray(table[n], dtype=float) for table in tables for n in names]
    if rows:
        out.append(np.asarray(fitted.transform(people)["ill"], dtype=float))
    return out


def gaps(frame, hole):
    out = frame.astype({"pay": object}) if hole is None else frame.copy()
    out.loc[out.index % 7 == 0, "pay"] = hole
    return out if hole is not None else pl.DataFrame({n: out[n].tolist() for n in out})


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return request.param


@pytest.fixture(scope="module")
def expected(model):
    return answers(model, cl.People(FRAME, **ROLES))


def same(found, expected, order=None):
    *tables, rows = expected
    for one, other in zip(found, [*tables, rows if order is None else rows[order]], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


WRITTEN = {
    "polars": lambda f, _: pl.from_pandas(f),
    "arrow": lambda f, _: pa.Table.from_pandas(f, preserve_index=False),
    "mapping": lambda f, _: {n: f[n].to_numpy() for n in f},
    "float32": lambda f, _: f.astype({"age": "float32", "w": "float32"}),
    "unused categories": lambda f, _: f.assign(sex=pd.Categorical(f["sex"], categories=["x", "m", "f"])),
    "columns in another order": lambda f, _: f[f.columns[::-1]],
    "an index": lambda f, _: f.set_index(np.arange(len(f))[::-1]),
    "csv": lambda f, folder: f.to_csv(folder / "p.csv", index=False) or folder / "p.csv",
    "parquet": lambda f, folder: f.to_parquet(folder / "p.parquet", row_group_size=300) or folder / "p.parquet",
    "a list of frames": lambda f, _: [f[:500], f[500:]],
}


@pytest.mark.parametrize("way", WRITTEN)
def test_the_kind_of_table_does_not_matter(model, expected, way, tmp_path):
    same(answers(model, cl.People(WRITTEN[way](FRAME, tmp_path), **ROLES)), expected)


def test_neither_the_order_of_rows_nor_names_of_levels_matter(model, expected):
    order = np.random.default_rng(0).permutation(len(FRAME))
    same(answers(model, cl.People(FRAME.iloc[order], **ROLES)), expected, order)
    renamed = FRAME.assign(state="z" + FRAME["state"])
    told = replace(TOLD) if model == "persons" else ["ill"]
    places = cl.Places(MEANS.assign(state="z" + MEANS["state"])[::-1], by="state", means=told)
    same(answers(model, cl.People(renamed, **ROLES), places), expected)


def test_columns_that_say_nothing_are_left_out_unless_they_are_named(model, expected):
    more = FRAME.assign(one=1.0, region=FRAME["state"].str[:2], ill=0.5, a_sex=FRAME["sex"] * 2)
    with pytest.warns(CrosslevelWarning) as said:
        same(answers(model, cl.People(more, by="state", weight="w")), expected)
    assert {w for s in said for w in ("'one'", "'region'", "'a_sex'") if w in str(s.message)} == {
        "'one'",
        "'region'",
        "'a_sex'",
    }
    for name in ("one", "region", "ill", "a_sex"):
        with pytest.raises(InputError):
            answers(model, cl.People(more, **ROLES | {"columns": ["age", "sex", name]}))


def test_missing_numbers_are_nan_or_null(model):
    one, other = (answers(model, cl.People(gaps(FRAME, hole), **ROLES)) for hole in (np.nan, None))
    same(other, one)
    with pytest.raises(InputError):
        cl.CrossLevelImputer().fit(cl.People(gaps(FRAME, None), **ROLES), PLACES)


def test_people_of_weight_zero_and_those_left_out_count_for_nothing(model, expected):
    more = pd.concat([FRAME, FRAME[:100].assign(age=5.0, w=0.0), FRAME[:100].assign(sex="x")])
    same(answers(model, cl.People(more, **ROLES, where="sex <> 'x'"), rows=False), expected[:-1])


@pytest.fixture(scope="module")
def fitted(model):
    return MODELS[model]().fit(cl.People(FRAME, **ROLES), places_for(model))


def test_values_come_back_as_the_kind_of_table_they_were_given_in(fitted):
    for make, kind in (
        (pd.DataFrame, pd.DataFrame),
        (pl.DataFrame, pl.DataFrame),
        (pa.table, pa.Table),
        (dict, pa.Table),
    ):
        found = fitted.transform(cl.People(make({n: FRAME[n].to_numpy() for n in FRAME}), **ROLES))
        assert type(found) is kind
        assert list(found.columns if kind is not pa.Table else found.column_names) == ["ill"]
    assert type(fitted.estimate("age").to_frame()) is pd.DataFrame


@pytest.mark.parametrize("of", ["get_params", "clone", "pickle"])
def test_estimators_are_those_of_scikit_learn(model, fitted, of):
    made = MODELS[model]()
    again = clone(fitted) if of == "clone" else made.set_params(**fitted.get_params())
    assert repr(again) == repr(fitted)
    if of != "pickle":
        assert not hasattr(again, "schema_")
        return
    loaded = pickle.loads(pickle.dumps(fitted))
    people = cl.People(FRAME, **ROLES)
    assert loaded.transform(people).equals(fitted.transform(people))
    np.testing.assert_array_equal(loaded.sample(people, 2), fitted.sample(people, 2))
    assert loaded.estimate("sex", people).equals(fitted.estimate("sex", people))


OTHER = MEANS.rename(columns={"state": "place"})
REFUSED = [
    ("people", FRAME),
    ("people", None),
    ("people", {"by": None}),
    ("people", {"by": ["state", "pay"], "columns": ["age", "sex"]}),
    ("people", {"by": "sex", "columns": ["age"]}),
    ("people", {"weight": "sex"}),
    ("people", {"columns": []}),
    ("people", {"data": FRAME.assign(w=-FRAME["w"])}),
    ("people", {"data": FRAME.assign(w=1e-300)}),
    ("people", {"data": FRAME.assign(w=np.nan)}),
    ("people", {"data": FRAME.assign(state="a")}),
    ("people", {"data": FRAME.assign(state=FRAME["state"].where(FRAME.index > 0, None))}),
    ("people", {"data": FRAME.assign(state=GROUP)}),
    ("people", {"data": FRAME.assign(age=np.inf)}),
    ("people", {"data": FRAME[:0]}),
    ("people", {"where": "age > 100"}),
    ("places", MEANS),
    ("places", None),
    ("places", []),
    ("places", [PLACES, PLACES]),
    ("places", [PLACES, MEANS]),
    ("places", {"means": None}),
    ("places", {"data": OTHER, "by": "place"}),
    ("places", {"data": MEANS[1:]}),
    ("places", {"data": pd.concat([MEANS, MEANS[:1]])}),
    ("places", {"data": MEANS.assign(ill=np.nan)}),
    ("places", {"data": MEANS.assign(ill=np.inf)}),
    ("places", {"data": MEANS.assign(ill=100 * MEANS["ill"])}),
    ("places", {"data": MEANS.assign(ill=MEANS["ill"].where(MEANS.index != 3, -9.0))}),
    ("places", {"data": MEANS.assign(ill=MEANS["ill"].astype(str) + "%")}),
    ("places", {"data": MEANS.assign(ill_se=-0.1)}),
    ("places", {"data": MEANS.assign(age=0.3), "means": "age"}),
    *(
        ("places", {"means": cl.Means("ill", known_rates=pd.DataFrame(rates))})
        for rates in (
            {"sx": ["f"], "ill": [0.2]},
            {"sex": ["f"], "ill": [2.0]},
            {"sex": ["f", "f"], "ill": [0.2, 0.3]},
            {"sex": ["x"], "ill": [0.2]},
            {"sex": ["f"], "ill": [0.2], "note": [1.0]},
            {"sex": ["f"], "ill": [None]},
            {"sex": ["f"], "ill": [0.2], "ill_se": [0.0]},
            {"sex": ["f"]},
            {"sex": [], "ill": []},
        )
    ),
]


@pytest.mark.parametrize(("argument", "value"), REFUSED)
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_what_cannot_be_is_refused(argument, value):
    with pytest.raises(InputError):
        given = {"people": cl.People(FRAME, **ROLES), "places": PLACES}
        given[argument] = replace(given[argument], **value) if isinstance(value, dict) else value
        cl.CrossLevelImputer().fit(**given)


@pytest.mark.parametrize(
    "change",
    [
        {"data": FRAME.assign(sex="x")},
        {"data": FRAME.drop(columns="age")},
        {"by": None},
        {"data": FRAME.assign(state="z")},
    ],
)
@pytest.mark.parametrize("call", ["transform", "sample", "estimate"])
def test_people_unlike_those_of_the_fit(fitted, change, call):
    with pytest.raises(InputError):
        other = cl.People(**{"data": FRAME, "by": "state"} | change)
        getattr(fitted, call)(*(["sex"] if call == "estimate" else []), other)
    for wrong in (FRAME, None if call != "estimate" else 3):
        with pytest.raises(InputError):
            getattr(fitted, call)(*(["sex"] if call == "estimate" else []), wrong)


def test_people_far_outside_the_fit_are_named(model, fitted):
    far, near = (cl.People(FRAME[:5].assign(pay=[v, 0.0, 0.0, 1.0, 1.0]), **ROLES) for v in (100.0, 3.0))
    calls = [lambda p: fitted.transform(p, match_means=False), lambda p: fitted.estimate("sex", p)]
    calls += [lambda p: fitted.sample(p, n_draws=2, match_means=False)]
    calls += [fitted.predict_proba] if model == "persons" else []
    for call in calls:
        with pytest.warns(CrosslevelWarning) as said:
            call(far)
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(near)


def test_codes_of_missing_values_and_places_without_people_are_named_at_the_fit(model):
    coded = FRAME.assign(pay=FRAME["pay"].where(FRAME.index % 100 > 0, 999.0))
    more = replace(PLACES_OF_MEANS, data=pd.concat([MEANS, MEANS[:1].assign(state="nowhere")]))
    with pytest.warns(CrosslevelWarning) as said:
        fitted = MODELS[model]().fit(cl.People(coded, **ROLES), more)
    assert said[0].filename == __file__
    assert any("999" in sentence for sentence in fitted.warnings_)
    assert any("'nowhere'" in sentence for sentence in fitted.warnings_)


def test_what_differs_once_or_says_how_places_differ_is_no_function():
    once = pd.Series(np.array(["north", "south", "west"])[GROUP % 3])
    once[7] = "west" if once[7] != "west" else "south"
    given = FRAME.assign(division=once, gdp=np.random.default_rng(0).random(N)[GROUP], band=FRAME["age"] > 1)
    people = cl.People(given, by="state", weight="w", columns=["age", "division", "gdp", "band"])
    assert cl.CrossLevelImputer(n_restarts=0).fit(people, PLACES_OF_MEANS).schema_.names == (
        "age",
        "band",
        "division",
        "gdp",
    )
    few = cl.People(
        {"sex": ["f", "m", "f", "m"], "age": [1, 2, 1, 2], "t": ["a", "a", "b", "b"]}, by="t", columns=["sex", "age"]
    )
    with pytest.warns(CrosslevelWarning):
        cl.CrossLevelImputer().fit(few, cl.Places({"t": ["a", "b"], "ill": [0.1, 0.2]}, by="t", means=["ill"]))


def test_people_who_are_alike_count_as_many():
    cells = read_fit(cl.People(FRAME, **ROLES | {"columns": ["sex"]}), PLACES_OF_MEANS).cells
    people, effective = cells.sizes()
    w = FRAME["w"].to_numpy()
    np.testing.assert_allclose(people, np.bincount(GROUP))
    np.testing.assert_allclose(effective, np.bincount(GROUP, w) ** 2 / np.bincount(GROUP, w**2))
    assert len(cells.count) == 2 * N


def test_kinds_add_up(monkeypatch):
    found = count_kinds(cl.People(FRAME, weight="w"), ["sex", "state"])
    frame = found.table.to_pandas().assign(n=found.count, w=found.weight, w2=found.weight_squared)
    frame = frame.set_index(["sex", "state"]).sort_index()
    by = FRAME.assign(n=1.0, w2=FRAME["w"] ** 2).groupby(["sex", "state"])[["n", "w", "w2"]].sum()
    np.testing.assert_allclose(frame.to_numpy(), by.to_numpy(), rtol=1e-12)
    monkeypatch.setattr(kinds, "MOST_KINDS", 100)
    with pytest.raises(TooManyKindsError):
        cl.CrossLevelImputer().fit(cl.People(FRAME, **ROLES), PLACES)
