from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import crosslevel as cl


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    P, size = 22, 60
    place = np.repeat(np.arange(P), size)
    tilt = rng.normal(size=P)
    age = rng.binomial(3, 1 / (1 + np.exp(-tilt[place])))
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


ASKED = ("impute", "people.parquet", "means.csv", "--by", "place", "--means", "ill")
COLUMNS = ("--columns", "age", "--columns", "school")


def nouns(people, means, **told):
    known = cl.People(people, by="place", columns=["age", "school"])
    return known, cl.Places(means, by="place", means=cl.Means("ill", **told))


def fitted(people, means):
    return cl.CrossLevelImputer().fit(*nouns(people, means))


def test_the_answer_is_that_of_the_library(crosslevel, people, means, folder):
    done = crosslevel(*ASKED, *COLUMNS, "--imputations", "3", "--level", "0.9", "--out", "answer", cwd=folder)
    out = folder / "answer"
    model = fitted(people, means)
    known = nouns(people, means)[0]
    found = pd.read_parquet(out / "imputed.parquet")
    # everybody and every column of the file, in order, and the truth beside the imputed column is left as it was
    pd.testing.assert_frame_equal(found[people.columns.tolist()], people)
    expected = model.transform(known)["ill"].to_numpy()
    np.testing.assert_allclose(found["ill_imputed"], expected, atol=1e-12)
    by_place = found.groupby("place")["ill_imputed"].mean()
    np.testing.assert_allclose(by_place, means.set_index("place")["ill"].sort_index(), atol=1e-10)
    draws = pq.read_table(out / "draws.parquet")
    assert draws.column_names == ["ill_1", "ill_2", "ill_3"]
    assert str(draws.schema.field(0).type) == "int8"
    np.testing.assert_array_equal(
        np.column_stack([draws[n] for n in draws.column_names]).T, model.sample(known, 3)[:, :, 0]
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
    np.testing.assert_array_equal(again.transform(known)["ill"].to_numpy(), expected)
    for words in ("90 % interval", "naive", "individual link", "answer/imputed.parquet"):
        assert words in done.out
    assert "1,320 people" in done.err


def test_groups_that_are_codes_in_a_csv_file(crosslevel, people, means, folder):
    people.drop(columns=["ill", "pay", "w"]).to_parquet(folder / "codes.parquet")
    asked = ("impute", "codes.parquet", "means.csv", "--by", "place", "--means", "ill", "--json")
    told = json.loads(crosslevel(*asked, cwd=folder).out)
    # all columns of the file but the group are used when none is named
    expected = fitted(people, means).estimate(by="age")["estimate"]
    np.testing.assert_allclose([r["estimate"] for r in told["answers"]["levels"]["rows"]][:4], expected, atol=1e-12)


def test_numbers(crosslevel, people, means, folder):
    asked = ("impute", "people.parquet", "means.csv", "--by", "place", "--means", "pay", "--columns", "age")
    said = crosslevel(*asked, "--number", "pay", "--out", "numbers", cwd=folder)
    assert "No completed data sets" in said.err
    assert not (folder / "numbers" / "draws.parquet").exists()
    assert "no interval" in said.out
    told = json.loads(
        crosslevel(*asked, "--number", "pay=1.0", "--out", "sd", "--imputations", "2", "--json", cwd=folder).out
    )
    assert told["hidden_features"] == ["pay"]
    draws = pd.read_parquet(folder / "sd" / "draws.parquet")
    np.testing.assert_allclose(
        draws["pay_1"].groupby(people["place"]).mean(), means.set_index("place")["pay"].sort_index(), atol=1e-10
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--by", "plce"), "--by plce is not a column"),
        (("--by", "school"), "means.csv"),
        (("--columns", "agee"), "Did you mean 'age'"),
        (("--columns", "place"), "--by place is also named in columns"),
        (("--estimate", "age**school"), "does not name columns"),
        (("--where", "age > 90"), "people.parquet has no rows where age > 90"),
        (("--estimate", "agee"), "Did you mean 'age'"),
        (("--model", "persons", "--n-clusters", "3"), "--n-clusters is not an option of --model persons"),
        (("--model", "cudia", "--n-clusters", "1"), "--n-clusters 1 gives everybody the mean of the group"),
        (("--imputations", "-1"), "--imputations -1 is not a number of data sets"),
        (("--number", "pay"), "--number pay is not a hidden feature"),
        (("--number", "ill=wide"), "'wide' is not a standard deviation"),
        (("--se", "ill"), "is not feature=column"),
        (("--out", "means.csv"), "is a file; name a folder"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*ASKED, *COLUMNS, *asked, cwd=folder, code=2)
    assert words in said.err
    assert said.out == ""


def test_bad_files_get_a_sentence(crosslevel, people, means, folder):
    def refused(words, *more, people="people.parquet", means="means.csv"):
        asked = ("impute", people, means, "--by", "place", "--means", "ill", *more)
        assert words in crosslevel(*asked, cwd=folder, code=2).err

    refused("does not exist", *COLUMNS, people="nobody.parquet")
    means.iloc[3:].to_csv(folder / "few.csv", index=False)
    refused("places has no row for 3 group(s)", *COLUMNS, means="few.csv")
    means.assign(ill=100 * means["ill"]).to_csv(folder / "percent.csv", index=False)
    refused("These look like percent", *COLUMNS, means="percent.csv")
    people.assign(name=[f"n{i}" for i in range(len(people))]).to_parquet(folder / "named.parquet")
    refused("'name' has 1,320 different values", people="named.parquet")
    people.assign(number=range(len(people))).to_parquet(folder / "numbered.parquet")
    refused("'number' has 1,320 different values", people="numbered.parquet")
    people.assign(ill_imputed=0.5).to_parquet(folder / "twice.parquet")
    refused("'ill_imputed' already", *COLUMNS, "--out", "x", people="twice.parquet")
    people[["place"]].to_parquet(folder / "bare.parquet")
    refused("no column beside", people="bare.parquet")


def test_a_column_that_is_a_function_of_another_is_left_out_or_refused(crosslevel, people, means, tmp_path):
    half = (people["place"].astype(int) % 2).map({0: "even", 1: "odd"})
    people[["place", "age", "school"]].assign(half=half).to_parquet(tmp_path / "people.parquet")
    means.to_csv(tmp_path / "means.csv", index=False)
    told = json.loads(crosslevel(*ASKED, "--json", cwd=tmp_path).out)
    assert any("'half' is a function of 'place'" in said for said in told["warnings"])
    assert "half" not in {row["column"] for row in told["answers"]["levels"]["rows"]}
    refused = crosslevel(*ASKED, "--columns", "age", "--columns", "half", cwd=tmp_path, code=2)
    assert "'half' is a function of 'place'" in refused.err


def test_known_rates_of_the_nation(crosslevel, people, means, folder):
    nation = people.groupby("age")["ill"].mean().reset_index()
    nation.to_csv(folder / "nation.csv", index=False)
    asked = (*ASKED, *COLUMNS, "--known-rates", "nation.csv", "--estimate", "age", "--json")
    printed = json.loads(crosslevel(*asked, cwd=folder).out)
    found = [row["estimate"] for row in printed["answers"]["age"]["rows"]]
    model = cl.CrossLevelImputer().fit(*nouns(people, means, known_rates=nation))
    np.testing.assert_allclose(found, model.estimate(by="age")["estimate"], atol=1e-12)
    assert (
        np.abs(np.array(found) - nation["ill"]).max()
        < np.abs(fitted(people, means).estimate(by="age")["estimate"] - nation["ill"]).max()
    )
    crosslevel(*asked, "--model", "cudia", cwd=folder, code=2)
    nation.assign(years=1).to_csv(folder / "nation.csv", index=False)
    said = crosslevel(*asked, cwd=folder, code=2)
    assert "years" in said.out + said.err


def test_a_column_called_as_our_table_keeps_its_own_answers(crosslevel, people, folder, tmp_path):
    people.rename(columns={"age": "groups"}).to_parquet(tmp_path / "p.parquet")
    asked = ("impute", "p.parquet", str(folder / "means.csv"), "--by", "place", "--means", "ill")
    names = ("--columns", "groups", "--columns", "school", "--estimate", "groups")
    done = crosslevel(*asked, *names, "--imputations", "0", "--out", "run", "--json", cwd=tmp_path)
    files = json.loads(done.out)["files"]
    kept = {name: pd.read_csv(tmp_path / path) for name, path in files.items() if name.endswith("(csv)")}
    assert list(kept["by-groups (csv)"]["groups"]) == [0, 1, 2, 3]
    assert "published" in kept["groups (csv)"]
