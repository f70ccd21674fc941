from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl


def make(n, seed, first=0):
    rng = np.random.default_rng(seed)
    y, sizes = rng.uniform(1.0, 3.0, n), np.resize([3, 40], n)
    codes = np.repeat(np.arange(n), sizes)
    people = pd.DataFrame(
        {
            "group": [str(1000 + first + c) for c in codes],
            "a": rng.normal(size=len(codes)) * y[codes],
            "b": rng.normal(size=len(codes)),
            "w": rng.uniform(0.5, 1.5, len(codes)),
        }
    )
    labels = pd.DataFrame({"group": np.arange(n) + 1000 + first, "y": y})
    labels["kind"] = np.where(y > 2, "wide", "narrow")
    return people.sample(frac=1.0, random_state=seed), labels.sample(frac=1.0, random_state=seed)


@pytest.fixture(scope="module")
def world():
    return make(40, 0)


@pytest.fixture(scope="module")
def folder(world, tmp_path_factory):
    where = tmp_path_factory.mktemp("distribution")
    people, labels = world
    people.to_parquet(where / "members.parquet", index=False)
    labels.to_csv(where / "labels.csv", index=False)
    make(6, 1, first=500)[0].to_parquet(where / "new.parquet", index=False)
    people.assign(name="x").to_parquet(where / "words.parquet", index=False)
    people.assign(y=1.0).to_parquet(where / "leak.parquet", index=False)
    labels.iloc[2:].to_csv(where / "fewer.csv", index=False)
    pd.concat([labels, pd.DataFrame({"group": [7], "y": [2.0], "kind": ["wide"]})]).to_csv(
        where / "more.csv", index=False
    )
    pd.concat([labels, labels.head(1)]).to_csv(where / "twice.csv", index=False)
    labels.assign(y=labels["y"].where(labels["group"] != 1003)).to_csv(where / "holes.csv", index=False)
    return where


ASKED = ("distribution", "members.parquet", "labels.csv", "--by", "group", "--label", "y", "--n-landmarks", "6")


def bags_of(world, label="y"):
    people, labels = world
    bags = cl.Bags.from_frame(people, by="group", columns=["a", "b"], weight="w")
    known = labels.assign(group=labels["group"].astype(str)).set_index("group")[label]
    return bags, known.loc[bags.keys.tolist()].to_numpy()


def test_labels_of_new_groups(crosslevel, world, folder):
    said = crosslevel(*ASKED, *shlex.split("--weight w --predict new.parquet --level 0.9 --out new"), cwd=folder)
    bags, y = bags_of(world)
    new = cl.Bags.from_frame(pd.read_parquet(folder / "new.parquet"), by="group", columns=["a", "b"], weight="w")
    model = cl.distribution.MeanShrinkage(n_landmarks=6).fit(bags, y)
    found = cl.load(folder / "new" / "predictions.crosslevel")
    np.testing.assert_allclose(found["estimate"], model.predict(new))
    assert found.level == 0.9
    assert "6 rows by bag" in said.out
    assert "MeanShrinkage: 40 groups, 860 members, 2 columns" in said.err


def test_groups_of_one_file_only(crosslevel, folder):
    asked = [a if a != "labels.csv" else "fewer.csv" for a in ASKED]
    said = crosslevel(*asked, "--weight", "w", cwd=folder, code=2)
    assert "2 group(s) of members.parquet have no label ('1" in said.err
    told = json.loads(
        crosslevel(*asked, "--columns", "a", "--unmatched", "drop", "--model", "rbf_network", "--json", cwd=folder).out
    )
    assert len(told["answers"]["fitted"]["rows"]) == 38
    assert "left out: 2 group(s)" in told["warnings"][0]
    more = [a if a != "labels.csv" else "more.csv" for a in ASKED]
    assert "1 group(s) of more.csv have no member ('7')" in crosslevel(*more, "--weight", "w", cwd=folder, code=2).err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--model", "mean_shrinkge"), "--model mean_shrinkge is not a choice.*Did you mean 'mean_shrinkage'"),
        (("--model", "rbf_network", "--classify"), "rbf_network has no classifier"),
        (("--columns", "w", "--weight", "w"), "--columns w is the group, the weight or the label"),
        (("--label", "group"), "--label group is also --by"),
        (("--label", "kind"), "--label kind is a column of string, not of numbers; for classes add --classify"),
        (("--classify", "--label", "kind", "--level", "0.9"), "level"),
        (
            ("--prior", "rkhs"),
            "--prior is not an option of --model mean_shrinkage; it goes with --model bayesian_linear",
        ),
        (("--predict", "labels.csv"), "--columns a is not a column"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*ASKED, *asked, cwd=folder, code=2)
    assert re.search(words, said.err)
    assert said.out == ""


@pytest.mark.parametrize(
    ("members", "labels", "words"),
    [
        (
            "words.parquet",
            "labels.csv",
            "that are no numbers ('name'); name the columns to use, text among them, with --columns",
        ),
        ("leak.parquet", "labels.csv", "has a column 'y' like the label"),
        ("members.parquet", "twice.csv", "is not unique: 1 key(s) stand in several rows"),
        ("members.parquet", "holes.csv", "--label y is missing for 1 group(s) ('1003')"),
    ],
)
def test_bad_files_get_a_sentence(crosslevel, folder, members, labels, words):
    said = crosslevel("distribution", members, labels, "--by", "group", "--label", "y", cwd=folder, code=2)
    assert words in said.err


def test_text_codes_and_missing_values_of_members(crosslevel, world, folder):
    people, labels = world
    rng = np.random.default_rng(3)
    texts = people.assign(
        job=np.where(people["a"].abs() > 1, "far", "near"), b=people["b"].where(rng.uniform(size=len(people)) > 0.1)
    )
    texts.to_parquet(folder / "texts.parquet", index=False)
    texts[texts["group"] < "1005"].to_parquet(folder / "some.parquet", index=False)
    asked = (
        "distribution",
        "texts.parquet",
        *ASKED[2:],
        *shlex.split("--columns job --columns b --predict some.parquet"),
    )
    told = json.loads(crosslevel(*asked, "--missing", "indicate", "--json", cwd=folder).out)
    bags = cl.Bags.from_frame(texts, by="group", columns=["job", "b"], missing="indicate")
    assert bags.columns == ("job: far", "job: near", "b", "b: missing")
    y = labels.set_index(labels["group"].astype(str))["y"]
    model = cl.MeanShrinkage(n_landmarks=6).fit(bags, y.loc[bags.keys].to_numpy())
    wanted = model.predict(cl.Bags.from_frame(texts[texts["group"] < "1005"], by="group", like=bags))
    np.testing.assert_allclose([r["estimate"] for r in told["answers"]["predictions"]["rows"]], wanted, rtol=1e-6)
    assert "column 'b' has" in crosslevel(*asked, cwd=folder, code=2).err
