"""Files whose bytes were changed: a sentence that names the file, never an error of Arrow."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.harden import readers

import crosslevel as cl
from crosslevel.data.batches import open_batches
from crosslevel.errors import CrosslevelError, FileError


def arrow_file(path, array):
    table = pa.table({"word": array})
    with pa.OSFile(str(path), "wb") as handle, pa.ipc.new_file(handle, table.schema) as file:
        file.write_table(table)


def test_offsets_of_an_arrow_file_are_not_trusted(tmp_path):
    words = pa.array(["one", "two", "three"])
    offsets = pa.array([0, 3, 2, 11], pa.int32()).buffers()[1]  # the second word ends before it begins
    arrow_file(tmp_path / "people.arrow", pa.StringArray.from_buffers(3, offsets, words.buffers()[2]))
    with pytest.raises(FileError):
        open_batches(tmp_path / "people.arrow").to_table()


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_text_that_is_no_text_is_refused(kind, tmp_path):
    path = tmp_path / f"people.{kind}"
    words = pa.array([b"one", b"\xff\xfe"]).view(pa.string())
    if kind == "arrow":
        arrow_file(path, words)
    else:
        pq.write_table(pa.table({"word": words}), path)
    with pytest.raises(FileError):
        open_batches(path).to_table()


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv"])
def test_any_damage_gives_a_table_or_a_sentence(kind, tmp_path):
    good, bad = tmp_path / f"good.{kind}", tmp_path / f"bad.{kind}"
    readers.READERS[kind].write(good)
    whole = good.read_bytes()
    for number in range(160):  # 109 and 157 of these gave errors of Arrow
        bad.write_bytes(readers.damage(whole, random.Random(f"s1-{number}")))
        try:
            open_batches(bad).to_table().to_pylist()
        except FileError as error:
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


def test_a_map_that_is_nested_too_deep_or_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "deep.geojson").write_text("[" * 100_000)
    (tmp_path / "folder.geojson").mkdir()
    for name in ("deep.geojson", "folder.geojson"):
        with pytest.raises(FileError):
            cl.Polygons(str(tmp_path / name))
