"""A pass over files that stops resumes where it was, and ends with the same bits."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from crosslevel import MeanEmbedding, People, save
from crosslevel.embedding import run
from crosslevel.embedding.run import Checkpoint
from crosslevel.embedding.state import BagSums, ChunkSums
from crosslevel.errors import CrosslevelWarning, FileError, InputError

SUBGROUPS = {"women": "sex = 2", "old": "age > 70"}


@pytest.fixture(params=["parquet", "csv"])
def files(table, tmp_path, request):
    """Six files of five hundred people."""
    folder = tmp_path / "people"
    folder.mkdir()
    for i in range(6):
        part = table.slice(500 * i, 500)
        if request.param == "csv":
            pacsv.write_csv(part, folder / f"part-{i}.csv")
        else:
            pq.write_table(part, folder / f"part-{i}.parquet")
    return folder


@pytest.fixture
def people(files, oracle):
    return People(files, **oracle.roles)


@pytest.fixture
def small(people):
    return MeanEmbedding(n_features=16).fit(people)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(run, "EVERY", 0.0)


def stop_after(n, error=KeyboardInterrupt):
    calls = []

    def progress(rows, total):
        calls.append((rows, total))
        if len(calls) == n:
            raise error

    return progress


def same(one, two):
    return (
        one.values.tobytes() == two.values.tobytes()
        and one.key_table.equals(two.key_table)
        and (one.weight == two.weight).all()
        and (one.n_rows == two.n_rows).all()
        and (one.effective_size == two.effective_size).all()
    )


@pytest.mark.parametrize("stops", [[2], [6], [3, 2, 1]])
@pytest.mark.parametrize("every", [0.0, 1e9])
def test_a_stopped_pass_resumes_and_ends_with_the_same_bits(small, people, tmp_path, stops, every, monkeypatch):
    monkeypatch.setattr(run, "EVERY", every)
    there = replace(people, where="hours >= 10 and age > 0")
    file, done = tmp_path / "state", []
    whole = small.transform(there, subgroups=SUBGROUPS, checkpoint=tmp_path / "other")
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            small.transform(there, subgroups=SUBGROUPS, checkpoint=file, progress=stop_after(stop))
        assert file.exists()
    found = small.transform(there, subgroups=SUBGROUPS, checkpoint=file, progress=lambda *at: done.append(at))
    assert same(whole, found)
    assert not file.exists()
    assert done[-1][0] == done[-1][1] == whole.select("subgroup = 'all'").n_rows.sum()
    assert len(done) == 6 - sum(stops) + len(stops)  # files that were done are not done again
    unkept = small.transform(there, subgroups=SUBGROUPS)
    np.testing.assert_allclose(unkept.values, whole.values, atol=1e-12)


def test_a_stop_in_the_middle_of_an_addition_spoils_nothing(small, people, tmp_path, monkeypatch):
    whole = small.transform(people, checkpoint=tmp_path / "other")
    merge, calls = BagSums.merge, []

    def half(self, other):
        calls.append(1)
        merge(self, other)
        if len(calls) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(BagSums, "merge", half)
    with pytest.raises(KeyboardInterrupt):
        small.transform(people, checkpoint=tmp_path / "state")
    monkeypatch.undo()
    assert same(whole, small.transform(people, checkpoint=tmp_path / "state"))


KILLED = """
import os, sys
from crosslevel import People, load
from crosslevel.embedding import run

def killed(rows, total):
    if rows >= 1500:
        os.kill(os.getpid(), int(sys.argv[4]))

run.EVERY = 0.0
people = People(sys.argv[2], by="region", weight="w", categorical=["sex"])
load(sys.argv[1]).transform(people, checkpoint=sys.argv[3], progress=killed)
"""


def test_a_killed_process_is_resumed_by_another(small, people, files, tmp_path):
    save(small, tmp_path / "model")
    whole, file = small.transform(people, checkpoint=tmp_path / "other"), tmp_path / "state"
    script = [sys.executable, "-c", KILLED, *map(str, (tmp_path / "model", files, file, int(signal.SIGKILL)))]
    killed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert file.exists()
    done = []
    resumed = small.transform(people, checkpoint=file, progress=lambda rows, _: done.append(rows))
    assert done[0] > 500, "it began anew"
    assert same(whole, resumed)


def test_people_in_memory_need_no_file(small, people, table, tmp_path):
    there = replace(people, data=table)
    found = small.transform(there, checkpoint=tmp_path / "state")
    np.testing.assert_allclose(found.values, small.transform(people).values, atol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        small.transform(there, checkpoint=tmp_path / "state", progress=stop_after(1))
    assert not (tmp_path / "state").exists()


def test_a_checkpoint_of_another_job_is_refused(small, people, files, tmp_path):
    file = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        small.transform(people, checkpoint=file, progress=stop_after(3))
    other = MeanEmbedding(n_features=16, random_state=1).fit(people)
    jobs = [
        lambda: small.transform(replace(people, where="age > 30"), checkpoint=file),
        lambda: small.transform(replace(people, weight=None), checkpoint=file),
        lambda: small.transform(replace(people, by="sex"), checkpoint=file),
        lambda: small.transform(people, checkpoint=file, subgroups={"men": "sex = 1"}),
        lambda: other.transform(people, checkpoint=file),
    ]
    for job in jobs:
        with pytest.raises(InputError):
            job()
    os.utime(next(files.iterdir()), ns=(0, 0))  # a file was written again
    with pytest.raises(InputError):
        small.transform(people, checkpoint=file)


def test_damaged_checkpoints_are_refused(small, people, tmp_path):
    whole, file = small.transform(people, checkpoint=tmp_path / "other"), tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        small.transform(people, checkpoint=file, progress=stop_after(3))
    data, refused = file.read_bytes(), 0
    for broken in (data[:-30], data[: len(data) // 2], b"", b"nonsense"):
        file.write_bytes(broken)
        with pytest.raises(FileError):
            small.transform(people, checkpoint=file)
    for at in range(0, len(data), len(data) // 20):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            assert same(whole, small.transform(people, checkpoint=file))  # a date in the file's own tables
        except FileError:
            refused += 1
    assert refused > 10


DATES = [datetime.date(2020, 2, 29), datetime.date(1, 1, 1)]
DECIMALS = [Decimal("1.10"), Decimal("2.00")]


@pytest.mark.parametrize("keys", [["a", "ü"], [1, -(2**60)], [0.1, 1 / 3], [True, False], DATES, DECIMALS])
def test_keys_of_every_kind_come_back(tmp_path, keys):
    state, again, rng = BagSums(("k",)), BagSums(("k",)), np.random.default_rng(0)
    state.add(ChunkSums(3, [(k,) for k in keys], np.array([1, 2]), rng.random(2), rng.random(2), rng.random((2, 2))))
    Checkpoint(tmp_path / "state", "job").keep(state, 3, 99)
    assert Checkpoint(tmp_path / "state", "job").begin(again) == (3, 99)
    assert list(again.bags) == list(state.bags)
    for key, bag in state.bags.items():
        assert again.bags[key].tobytes() == bag.tobytes()


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("broken", ["crosslevel.embedding.run.np.savez", "pathlib.Path.unlink"])
def test_a_disk_that_fails_does_not_cost_the_answer(small, people, tmp_path, monkeypatch, broken):
    whole = small.transform(people, checkpoint=tmp_path / "other")
    monkeypatch.setattr(broken, full_disk)
    with pytest.warns(CrosslevelWarning) as said:
        found = small.transform(people, checkpoint=tmp_path / "state")
    assert same(whole, found)
    assert len(said) == 1


def test_states_add_up_by_key():
    def sums(keys, seed):
        rng, n = np.random.default_rng(seed), len(keys)
        return ChunkSums(n, [(k,) for k in keys], rng.integers(1, 9, n), *rng.random((2, n)), rng.random((n, 3)))

    whole, one, two = (BagSums(("region",)) for _ in range(3))
    for state, chunks in ((whole, (0, 1)), (one, (0,)), (two, (1,))):
        for seed in chunks:
            state.add(sums(["abc", "cbx"][seed], seed))
    one.merge(two)
    assert list(one.bags) == [("a",), ("b",), ("c",), ("x",)]
    for key, bag in whole.bags.items():
        np.testing.assert_allclose(one.bags[key], bag, rtol=1e-14)
    with pytest.raises(InputError):
        one.restore(pa.table({"region": ["a", "a"]}), np.ones((2, 6)))
