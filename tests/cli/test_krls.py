from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    n = 150
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "treatment": rng.choice(["control", "letter", "visit"], n),
            "sex": rng.integers(1, 3, n),
            "household": rng.integers(0, 60, n),
            "w": rng.integers(1, 4, n),
        }
    )
    frame["voted"] = 0.01 * frame["age"] + 0.3 * (frame["treatment"] == "visit") + 0.3 * rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    where = tmp_path_factory.mktemp("krls")
    people.to_csv(where / "data.csv", index=False)
    return where


ASKED = ("krls", "data.csv", "--y", "voted", "--x", "treatment", "--x", "age")


def test_the_table_is_that_of_the_library(crosslevel, people, folder):
    expected = cl.KRLS().fit(people[["treatment", "age"]], people["voted"]).effects()
    assert expected.summary(max_rows=None).splitlines()[-1] in crosslevel(*ASKED, cwd=folder).out


def test_subgroups(crosslevel, people, folder):
    out = crosslevel(*ASKED, "--by", "sex", cwd=folder).out
    assert len([line for line in out.splitlines() if line.startswith("age")]) == 2
    told = json.loads(crosslevel(*ASKED, "--by", "sex", "--differences", "--json", cwd=folder).out)
    model = cl.KRLS().fit(people[["treatment", "age"]], people["voted"])
    expected = model.effects(by=people[["sex"]], differences=True)
    np.testing.assert_allclose(
        [r["std_error"] for r in told["answers"]["effects"]["rows"]], expected["std_error"], rtol=1e-9
    )
    told = json.loads(crosslevel(*ASKED, "--subgroup", "old=age >= 60", "--json", cwd=folder).out)
    assert {r["subgroup"] for r in told["answers"]["effects"]["rows"]} == {"old"}
    told = json.loads(crosslevel(*ASKED, "--along", "age", "--json", cwd=folder).out)
    np.testing.assert_allclose(
        [r["estimate"] for r in told["answers"]["effects"]["rows"]], model.effects(along=["age"])["estimate"], rtol=1e-9
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--x", "voted"), "--x voted is the outcome"),
        (("--cluster", "househld"), "--cluster househld is not a column"),
        (("--where", "age > 900"), "data.csv has no rows where age > 900"),
        (("--by", "sex", "--subgroup", "a=age > 1"), "--by and --subgroup exclude one another"),
        (("--reference", "treatment"), "is not name=value"),
        (("--out", "data.csv"), "is a file; name a folder"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*ASKED, *asked, cwd=folder, code=2)
    assert words in said.err
    assert said.out == ""
