from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel.cli.impute import parse_asks, parse_numbers, parse_pairs
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.imputation import CrossLevelImputer


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    P, size = 22, 60
    place = np.repeat(np.arange(P), size)
    lean = rng.normal(size=P)
    age = rng.binomial(3, 1 / (1 + np.exp(-lean[place])))
    ill = rng.random(P * size) < 1 / (1 + np.exp(1.5 - 0.8 * age))
    return pd.DataFrame(
        {
            "place": [f"{i:02d}" for i in place],
            "age": age,
            "school": rng.choice(["low", "high"], P * size),
            "pay": rng.normal(size=P * size).round(3),
            "ill": ill.astype(int),
            "w": rng.integers(1, 4, P * size),
        }
    )


@pytest.fixture(scope="module")
def means(people):
    found = people.groupby("place").agg(ill=("ill", "mean"), pay=("pay", "mean")).reset_index()
    return found.assign(ill_se=0.05).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def folder(people, means, tmp_path_factory):
    where = tmp_path_factory.mktemp("impute")
    people.to_parquet(where / "people.parquet", row_group_size=500)
    people.drop(columns="ill").to_csv(where / "people.csv", index=False)
    means.to_csv(where / "means.csv", index=False)
    return where


ASKED = ("impute", "people.parquet", "means.csv", "--partition", "place", "--impute", "ill")
COLUMNS = ("--columns", "age", "--columns", "school")


def fitted(people, means, **options):
    return CrossLevelImputer(**options).fit(
        people[["age", "school"]], people[["place"]], means[["place", "ill"]], options.pop("sample_weight", None)
    )


def test_the_answer_is_that_of_the_library(crosslevel, people, means, folder):
    done = crosslevel(*ASKED, *COLUMNS, "--m", "3", "--level", "0.9", "--out", "answer", cwd=folder)
    out = folder / "answer"
    model = fitted(people, means)
    X, place = people[["age", "school"]], people[["place"]]
    found = pd.read_parquet(out / "imputed.parquet")
    # everybody and every column of the file, in order, and the truth beside the imputed column is left as it was
    pd.testing.assert_frame_equal(found[people.columns.tolist()], people)
    expected = model.transform(X, place)[:, 0]
    np.testing.assert_allclose(found["ill_imputed"], expected, atol=1e-12)
    by_place = found.groupby("place")["ill_imputed"].mean()
    np.testing.assert_allclose(by_place, means.set_index("place")["ill"].sort_index(), atol=1e-10)
    draws = pq.read_table(out / "draws.parquet")
    assert draws.column_names == ["ill_1", "ill_2", "ill_3"]
    assert str(draws.schema.field(0).type) == "int8"
    np.testing.assert_array_equal(
        np.column_stack([draws[n] for n in draws.column_names]).T, model.sample(X, place, 3)[:, :, 0]
    )
    levels = cl.load(out / "levels.crosslevel")
    by_age = model.estimate(by="age", level=0.9)
    assert levels["value"].tolist() == ["0", "1", "2", "3", "high", "low"]
    for name in ("estimate", "conf_low", "naive"):
        np.testing.assert_allclose(levels[name][:4], by_age[name], atol=1e-12)
    cells = cl.load(out / "cells.crosslevel")
    assert list(cells.keys) == ["feature", "age", "school"]
    slopes, learned = cl.load(out / "slopes.crosslevel"), model.slopes(0.9)
    for name in ("term", "estimate", "conf_low", "kept"):
        assert slopes[name].tolist() == learned[name].tolist()
    assert cl.load(out / "groups.crosslevel")["published"].tolist() == means.sort_values("place")["ill"].tolist()
    again = cl.load(out / "model.crosslevel")
    np.testing.assert_array_equal(again.transform(X, place)[:, 0], expected)
    for words in ("90 % interval", "naive", "individual link", "answer/imputed.parquet"):
        assert words in done.out
    assert "1,320 people" in done.err


def test_json_weights_errors_and_subgroups(crosslevel, people, means, folder):
    asked = ("--weight", "w", "--se", "ill=ill_se", "--by", "age*school", "--by", "place", "--where", "age >= 1")
    told = json.loads(crosslevel(*ASKED, *COLUMNS, *asked, "--json", cwd=folder).out)
    kept = people[people["age"] >= 1]
    model = CrossLevelImputer().fit(
        kept[["age", "school"]],
        kept[["place"]],
        means[["place", "ill"]],
        kept["w"],
        means[["place", "ill_se"]].rename(columns={"ill_se": "ill"}),
    )
    expected = model.estimate(by=["age", "school"])
    rows = told["answers"]["age-school"]["rows"]
    np.testing.assert_allclose([r["estimate"] for r in rows], expected["estimate"], atol=1e-12)
    np.testing.assert_allclose([r["conf_low"] for r in rows], expected["conf_low"], atol=1e-12)
    assert told["answers"]["place"]["keys"] == ["feature", "place"]
    assert told["groups"] == 22
    assert told["hidden"] == ["ill"]
    assert told["files"] == {} == told["draws"]


def test_groups_that_are_codes_in_a_csv_file(crosslevel, people, means, folder):
    people.drop(columns=["ill", "pay", "w"]).to_parquet(folder / "codes.parquet")
    asked = ("impute", "codes.parquet", "means.csv", "--partition", "place", "--impute", "ill", "--json")
    told = json.loads(crosslevel(*asked, cwd=folder).out)
    # all columns of the file but the group are used when none is named
    expected = fitted(people, means).estimate(by="age")["estimate"]
    np.testing.assert_allclose([r["estimate"] for r in told["answers"]["levels"]["rows"]][:4], expected, atol=1e-12)


def test_numbers(crosslevel, people, means, folder):
    asked = ("impute", "people.parquet", "means.csv", "--partition", "place", "--impute", "pay", "--columns", "age")
    said = crosslevel(*asked, "--number", "pay", "--out", "numbers", cwd=folder)
    assert "No completed data sets" in said.err
    assert not (folder / "numbers" / "draws.parquet").exists()
    assert "no interval" in said.out
    told = json.loads(crosslevel(*asked, "--number", "pay=1.0", "--out", "sd", "--m", "2", "--json", cwd=folder).out)
    assert told["draws"] == {"pay": ["pay_1", "pay_2"]}
    draws = pd.read_parquet(folder / "sd" / "draws.parquet")
    np.testing.assert_allclose(
        draws["pay_1"].groupby(people["place"]).mean(), means.set_index("place")["pay"].sort_index(), atol=1e-10
    )


def test_clusters(crosslevel, people, means, folder):
    asked = ("--k", "2", "--algorithm", "map", "--seed", "4", "--m", "2", "--by", "age", "--out", "clusters", "--json")
    told = json.loads(crosslevel(*ASKED, *COLUMNS, *asked, cwd=folder).out)
    assert told["method"] == "CUDIA, map, likelihood cudia, 2 clusters"
    assert not any("far too narrow" in w for w in told["warnings"])
    X, place = people[["age", "school"]], people[["place"]]
    model = cl.CUDIA(2, "map", random_state=4).fit(X, place, means[["place", "ill"]])
    found = pd.read_parquet(folder / "clusters" / "imputed.parquet")
    np.testing.assert_allclose(found["ill_imputed"], model.transform(X, place)[:, 0], atol=1e-10)
    table = cl.load(folder / "clusters" / "clusters.crosslevel")
    np.testing.assert_allclose(table["estimate"], model.clusters()["estimate"], atol=1e-10)
    again = cl.load(folder / "clusters" / "model.crosslevel")
    np.testing.assert_allclose(again.transform(X, place), model.transform(X, place), atol=1e-10)
    assert np.isin(pd.read_parquet(folder / "clusters" / "draws.parquet"), (0, 1)).all()


def test_a_fit_that_did_not_converge_leaves_with_1(crosslevel, folder, monkeypatch):
    def fail(*_, **__):
        raise ConvergenceError("the fit did not converge")

    monkeypatch.setattr("crosslevel.cli.impute.CUDIA.fit", fail)
    said = crosslevel(*ASKED, *COLUMNS, "--method", "cudia", "--out", "never", cwd=folder, code=1)
    assert "did not converge" in said.err
    assert said.out == ""
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--partition", "plce"), "--partition='plce' is not a column"),
        (("--partition", "school"), "means.csv"),
        (("--impute", "il"), "Did you mean 'ill'"),
        (("--impute", "ill"), "--impute names 'ill' twice"),
        (("--columns", "agee"), "Did you mean 'age'"),
        (("--columns", "place"), "--columns names 'place', which is the partition"),
        (("--weight", "ww"), "--weight='ww' is not a column"),
        (("--categorical", "pay"), "--categorical='pay' is not a column"),
        (("--by", "agge"), "Did you mean 'age'"),
        (("--by", "age**school"), "does not name columns"),
        (("--by", "age", "--by", "age"), "asks the same question twice"),
        (("--where", "age > 90"), "people.parquet has no rows where age > 90"),
        (("--method", "cuda"), "Did you mean 'cudia'"),
        (("--method", "individual", "--k", "3"), "--k is about clusters"),
        (("--algorithm", "map"), "--algorithm is about clusters"),
        (("--k", "three"), "neither 'auto' nor a whole number"),
        (("--k", "1"), "n_clusters=1 gives everybody the mean of the group"),
        (("--k", "3", "--missing", "mean"), "--missing is for --method individual"),
        (("--missing", "drop"), "missing='drop' is not a choice"),
        (("--m", "-1"), "--m -1 is not a number of completed data sets"),
        (("--number", "pay"), "--number='pay' is not a hidden feature"),
        (("--number", "ill=wide"), "'wide' is not a standard deviation"),
        (("--se", "ill"), "is not feature=column"),
        (("--se", "ill=sse"), "--se='sse' is not a column"),
        (("--level", "95"), "level"),
        (("--out", "means.csv"), "is a file; name a folder"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*ASKED, *COLUMNS, *asked, cwd=folder, code=2)
    assert words in said.err
    assert said.out == ""


def test_bad_files_get_a_sentence(crosslevel, people, means, folder):
    def refused(words, *more, people="people.parquet", means="means.csv"):
        asked = ("impute", people, means, "--partition", "place", "--impute", "ill", *more)
        assert words in crosslevel(*asked, cwd=folder, code=2).err

    refused("does not exist", *COLUMNS, people="nobody.parquet")
    means.iloc[3:].to_csv(folder / "few.csv", index=False)
    refused("aggregates has no row for 3 group(s)", *COLUMNS, means="few.csv")
    means.assign(ill=100 * means["ill"]).to_csv(folder / "percent.csv", index=False)
    refused("These look like per cent", *COLUMNS, means="percent.csv")
    people.assign(name=[f"n{i}" for i in range(len(people))]).to_parquet(folder / "named.parquet")
    refused("'name' has 1,320 different values", people="named.parquet")
    people.assign(number=range(len(people))).to_parquet(folder / "numbered.parquet")
    refused("'number' has 1,320 different values", people="numbered.parquet")
    people.assign(ill_imputed=0.5).to_parquet(folder / "twice.parquet")
    refused("'ill_imputed' already", *COLUMNS, "--out", "x", people="twice.parquet")
    people[["place"]].to_parquet(folder / "bare.parquet")
    refused("no column beside", people="bare.parquet")


def test_words():
    assert parse_asks(["a, b"]) == [("a", "b")]
    assert parse_numbers(["a=b=2"]) == {"a=b": 2.0}
    assert parse_pairs(["a = b"]) == {"a": "b"}
    with pytest.raises(InputError, match="--se '=b' is not feature=column"):
        parse_pairs(["=b"])
