"""A fit to people counted where they are is the fit to the same people in memory, weights, missing values and factors included."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel import CrossLevelImputer, People, load, save
from crosslevel.data import kinds
from crosslevel.data.kinds import count_kinds
from crosslevel.errors import InputError, TooManyKindsError

N_GROUPS = 26


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(N_GROUPS), 90)
    age = rng.binomial(5, 0.2 + 0.5 * group / N_GROUPS)
    frame = pd.DataFrame({"age": age.astype(float), "sex": rng.choice(["f", "m"], len(group)), "state": group})
    frame.loc[7, "age"] = np.nan
    frame["w"] = rng.random(len(group)) + 0.5
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def means():
    return {"state": np.arange(N_GROUPS), "ill": np.linspace(0.1, 0.7, N_GROUPS)}


@pytest.fixture
def folder(people, tmp_path):
    for i in range(3):
        part = people[i * 780 : (i + 1) * 780]
        pq.write_table(
            pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"part-{i}.parquet", row_group_size=300
        )
    return tmp_path


@pytest.mark.parametrize("weight", [None, "w"])
def test_counted_people_give_the_fit_of_the_same_people_in_memory(people, means, folder, weight):
    X, rates = people[["age", "sex"]], {"sex": ["f", "m"], "ill": [0.3, 0.5], "ill_se": [0.01, 0.01]}
    se = {"state": means["state"], "ill": np.linspace(0.01, 0.05, N_GROUPS)}
    model, other = CrossLevelImputer(missing="mean"), CrossLevelImputer(missing="mean")
    given = None if weight is None else people["w"]
    model.fit(X, people["state"], means, given, se, rates)
    described = People(folder, by="state", weight=weight, columns=["age", "sex"])
    other.fit_people(described, means, aggregate_se=se, known_rates=rates)
    for one, two in zip(model.hidden_, other.hidden_, strict=True):
        np.testing.assert_allclose(two.fit.beta, one.fit.beta, rtol=0, atol=1e-9)
        np.testing.assert_allclose(two.shift, one.shift, rtol=0, atol=1e-9)
    for ask in (lambda m: m.estimate(["age", "sex"]), lambda m: m.slopes(), lambda m: m.check_totals()):
        one, two = ask(model), ask(other)
        for name in ("estimate", "std_error", "conf_low", "conf_high"):
            np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-9)
    one, two = model.estimate("sex").table, other.estimate("sex").table
    assert one["people"].to_pylist() == pytest.approx(two["people"].to_pylist())
    np.testing.assert_allclose(
        other.transform(X, people["state"]), model.transform(X, people["state"]), rtol=0, atol=1e-9
    )


def test_what_counted_people_cannot_do_is_said(people, means, folder, monkeypatch, tmp_path_factory):
    model = CrossLevelImputer(missing="mean").fit_people(People(folder, by="state", weight="w"), means)
    save(model, path := tmp_path_factory.mktemp("saved") / "model", allow_rows=True)
    assert load(path).estimate("sex")["estimate"].tolist() == model.estimate("sex")["estimate"].tolist()
    with pytest.raises(InputError):
        CrossLevelImputer().fit_people(People(folder, by="state", columns=["age", "sex"]), means)
    monkeypatch.setattr(kinds, "MOST_KINDS", 100)
    with pytest.raises(TooManyKindsError):
        CrossLevelImputer().fit_people(People(folder, by="state", columns=["sex", "w"]), means)


def test_a_column_that_follows_from_the_group_is_refused_by_the_people_behind_its_rows(people, means):
    told = people[["sex", "state"]].assign(region=people["state"] // 9)
    with pytest.raises(InputError):
        CrossLevelImputer().fit(told, "state", means)
    with pytest.raises(InputError):
        CrossLevelImputer().fit_people(People(told[["region", "state", "sex"]], by="state"), means)
    # rows of kinds are 26 in all here, one for every state: nobody beside the first
    alone = told.assign(sex=np.where(told["state"] % 2, "f", "m")).drop(columns="region")
    with pytest.raises(InputError):
        CrossLevelImputer().fit_people(People(alone, by="state"), means)


def test_kinds_add_up(people):
    found = count_kinds(People(people, weight="w"), ["sex", "state"])
    frame = found.table.to_pandas().assign(n=found.count, w=found.weight, w2=found.weight_squared)
    frame = frame.set_index(["sex", "state"]).sort_index()
    by = people.assign(n=1.0, w2=people["w"] ** 2).groupby(["sex", "state"])[["n", "w", "w2"]].sum()
    np.testing.assert_allclose(frame.to_numpy(), by.to_numpy(), rtol=1e-12)
    with pytest.raises(InputError):
        count_kinds(People(people[:0]), ["sex"])
