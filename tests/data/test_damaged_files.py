"""Files whose bytes were changed: a sentence that names the file, never an error of Arrow."""

from __future__ import annotations

import random

import pytest
from tests.harden import readers

from crosslevel import People
from crosslevel.errors import CrosslevelError


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv"])
def test_any_damage_gives_a_table_or_a_sentence(kind, tmp_path):
    good, bad = tmp_path / f"good.{kind}", tmp_path / f"bad.{kind}"
    readers.READERS[kind].write(good)
    whole = good.read_bytes()
    for number in range(160):  # 109 and 157 of these gave errors of Arrow
        bad.write_bytes(readers.damage(whole, random.Random(f"s1-{number}")))
        try:
            People(bad).answer("select * from people").to_pylist()
        except CrosslevelError as error:
            assert "bad" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("polygons", "0.25928894360699095-21"),
        ("survey", "0.6556798258561152-38"),
        ("checkpoint", "0.4054741410353704-25"),
        ("census", "0.8934076788345602-20"),
        ("census", "0.22668260483560432-28"),
        ("arrow", "0.5763815205405817-14"),
    ],
)
def test_damage_that_once_ended_in_a_traceback(kind, seed, tmp_path):
    reader = readers.READERS[kind]
    good, bad = tmp_path / f"good-{reader.name}", tmp_path / reader.name
    reader.write(good)
    bad.write_bytes(readers.damage(good.read_bytes(), random.Random(seed)))
    with pytest.raises(CrosslevelError):
        reader.attempt(bad, good)
