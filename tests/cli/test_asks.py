from __future__ import annotations

import pyarrow as pa
import pytest

from crosslevel.cli.ecological import Ask, read_asks
from crosslevel.errors import InputError

PEOPLE = pa.schema(
    {
        "sex": pa.int64(),
        "race": pa.string(),
        "age": pa.int64(),
        "a,b": pa.string(),
        "in": pa.string(),
        "old": pa.bool_(),
    }
)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("sex", ("sex",)),
        (" sex , race ", ("sex", "race")),
        ("sex*race*age", ("sex", "race", "age")),
        ("a,b", ("a,b",)),
        ("in", ("in",)),
        ("in, sex", ("in", "sex")),
        ("old", ("old",)),
    ],
)
def test_columns_and_crossings(text, by):
    assert read_asks([text], PEOPLE) == [Ask(by)]


@pytest.mark.parametrize(
    ("text", "name", "query"),
    [
        ("age >= 65", "age >= 65", "age >= 65"),
        ("sex == 2", "sex == 2", "sex == 2"),
        ("sex != 2", "sex != 2", "sex != 2"),
        ("women=sex == 2", "women", "sex == 2"),
        ("old women = sex == 2 and age >= 65", "old women", "sex == 2 and age >= 65"),
        ("race in ('a=b', 'c')", "race in ('a=b', 'c')", "race in ('a=b', 'c')"),
        ("race == 'a=b'", "race == 'a=b'", "race == 'a=b'"),
        ("not old", "not old", "not old"),
        ("age is null", "age is null", "age is null"),
        ("(age < 3)", "(age < 3)", "(age < 3)"),
        ("veterans=old", "veterans", "old"),
    ],
)
def test_subgroups_by_their_text_or_by_name(text, name, query):
    assert read_asks([text], PEOPLE) == [Ask(subgroups={name: query})]


def test_all_subgroups_make_one_ask_after_the_columns():
    asks = read_asks(["age >= 65", "sex", "women=sex == 2", "race"], PEOPLE)
    assert asks == [Ask(("sex",)), Ask(("race",)), Ask(subgroups={"age >= 65": "age >= 65", "women": "sex == 2"})]


@pytest.mark.parametrize(
    "texts",
    [
        ["sx"],
        ["sex*rce"],
        ["sex", "sex"],
        ["sex*sex"],
        ["a=sex == 1", "a=sex == 2"],
        ["age >"],
        ["aeg >= 65"],
        ["age >= 'x'"],
        ["sex = 2"],
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(texts):
    with pytest.raises(InputError):
        read_asks(texts, PEOPLE)
