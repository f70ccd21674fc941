from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel.embedding import MeanEmbedding
from crosslevel.embedding.engines.local import LocalEngine
from crosslevel.embedding.run import Checkpoint
from crosslevel.embedding.state import BagSums, ChunkSums
from crosslevel.errors import CrosslevelWarning, InputError


class SmallChunks(LocalEngine):
    chunk_rows = 200


@pytest.fixture
def path(people, tmp_path):
    pq.write_table(people, tmp_path / "people.parquet", row_group_size=700)
    return tmp_path / "people.parquet"


@pytest.fixture
def small(path):
    return MeanEmbedding(n_features=16, categorical=["sex"], engine=SmallChunks(2)).fit(path, by="region", weight="w")


@pytest.fixture
def interruptible():
    """Python's own handler: a shell that starts tests in the background has them ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stop_after(n, error=KeyboardInterrupt):
    calls = []

    def progress(rows, total):
        calls.append((rows, total))
        if len(calls) == n:
            raise error

    return progress


def equal(one, two):
    return (
        one.values.tobytes() == two.values.tobytes()
        and one.key_table.equals(two.key_table)
        and (one.weight == two.weight).all()
        and (one.n_rows == two.n_rows).all()
        and (one.effective_size == two.effective_size).all()
    )


@pytest.mark.parametrize("stops", [[1], [3], [4], [12], [2, 1, 5, 1]])
@pytest.mark.parametrize("where", [None, "hours >= 10 and age > 0"])
def test_an_interrupted_pass_resumes_and_ends_with_the_same_bits(small, path, tmp_path, stops, where):
    options = {"where": where, "subgroups": {"women": "sex == 2", "old": "age > 70"}}
    whole = small.transform(path, **options)
    file = tmp_path / "state"
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            small.transform(path, **options, checkpoint=file, progress=stop_after(stop))
        assert file.exists()
    done = []
    assert equal(whole, small.transform(path, **options, checkpoint=file, progress=lambda *at: done.append(at)))
    assert not file.exists()
    assert done[-1][0] == whole.select("subgroup == 'all'").n_rows.sum()
    assert len(done) <= 17 - sum(stops) + len(stops)  # what was done is not done again


def test_an_interrupt_in_the_middle_of_an_addition_does_not_spoil_the_checkpoint(small, path, tmp_path, monkeypatch):
    whole = small.transform(path)
    add, calls = BagSums.add, []

    def half(self, chunk):
        calls.append(1)
        if len(calls) == 6:
            some = ChunkSums(chunk.keys[:2], chunk.count, chunk.weight, chunk.weight_squared, chunk.sums)
            add(self, some)
            raise KeyboardInterrupt
        add(self, chunk)

    monkeypatch.setattr(BagSums, "add", half)
    with pytest.raises(KeyboardInterrupt):
        small.transform(path, checkpoint=tmp_path / "state", checkpoint_every=0)
    monkeypatch.undo()
    assert equal(whole, small.transform(path, checkpoint=tmp_path / "state"))


def test_control_c_is_held_until_the_state_is_whole(small, path, tmp_path, interruptible):
    whole = small.transform(path)
    seen = []

    def progress(rows, total):
        seen.append(rows)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small.transform(path, checkpoint=tmp_path / "state", checkpoint_every=1e9, progress=progress)
    assert len(seen) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert equal(whole, small.transform(path, checkpoint=tmp_path / "state"))


def test_without_a_checkpoint_nothing_is_written(small, path, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        small.transform(path, progress=stop_after(2))
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from crosslevel import load
from crosslevel.embedding.engines.local import LocalEngine

class SmallChunks(LocalEngine):
    chunk_rows = 200

def killed(rows, total):
    if rows >= 800:
        os.kill(os.getpid(), int(sys.argv[4]))

signal.signal(signal.SIGINT, signal.default_int_handler)
emb = load(sys.argv[1])
emb.engine = SmallChunks(2)
emb.transform(sys.argv[2], checkpoint=sys.argv[3], checkpoint_every=0, progress=killed)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_process_is_resumed_by_another(small, path, tmp_path, sign):
    from crosslevel import save

    save(small, tmp_path / "model")
    file = tmp_path / "state"
    script = [sys.executable, "-c", KILLED, *map(str, (tmp_path / "model", path, file, int(sign)))]
    killed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert killed.returncode in (-sign, 130, 1), killed.stderr
    assert file.exists()
    done = []
    resumed = small.transform(path, checkpoint=file, progress=lambda rows, _: done.append(rows))
    assert done[0] > 200, "it began anew"
    assert equal(small.transform(path), resumed)


def test_a_checkpoint_of_another_job_is_refused(small, path, people, tmp_path):
    file = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        small.transform(path, checkpoint=file, progress=stop_after(3))
    other = MeanEmbedding(n_features=16, categorical=["sex"], random_state=1, engine=SmallChunks(2))
    other.fit(path, by="region", weight="w")
    jobs = [
        lambda: small.transform(path, checkpoint=file, where="age > 30"),
        lambda: small.transform(path, checkpoint=file, weight=None),
        lambda: small.transform(path, checkpoint=file, by="sex"),
        lambda: small.transform(path, checkpoint=file, subgroups={"men": "sex == 1"}),
        lambda: small.transform(people, checkpoint=file),
        lambda: other.transform(path, checkpoint=file),
    ]
    for job in jobs:
        with pytest.raises(InputError):
            job()
    os.utime(path, ns=(0, 0))  # the file was written again
    with pytest.raises(InputError):
        small.transform(path, checkpoint=file)


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "ü"],
        [1, -(2**60)],
        [0.1, 1 / 3],
        [True, False],
        [datetime.date(2020, 2, 29), datetime.date(1, 1, 1)],
        [Decimal("1.10"), Decimal("2.00")],
        [datetime.datetime(2020, 1, 1, 12, 30), datetime.datetime(1999, 1, 1)],
    ],
)
def test_keys_of_every_kind_come_back(tmp_path, keys):
    state = BagSums(2, ["k"])
    rng = np.random.default_rng(0)
    state.add(ChunkSums([(k,) for k in keys], np.array([1, 2]), rng.random(2), rng.random(2), rng.random((2, 2))))
    file = Checkpoint(tmp_path / "state", "job", 0.0)
    file.keep(state, (3, 7), 99)
    again, position, rows = Checkpoint(tmp_path / "state", "job").begin(2, ("k",))
    assert (again.keys, position, rows) == (state.keys, (3, 7), 99)
    assert again.sums().tobytes() == state.sums().tobytes()
    assert (again.weight == state.weight).all()


def test_a_checkpoint_is_written_when_it_is_time(tmp_path, monkeypatch):
    now = time.monotonic()
    file = Checkpoint(tmp_path / "state", "job", every=600.0)
    file.keep(BagSums(2, ["k"]), (0, 1), 1)
    assert not file.path.exists()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000.0)
    file.keep(BagSums(2, ["k"]), (0, 1), 1)
    assert file.path.exists()
    file.done()
    assert not file.path.exists()
    file.done()


def test_a_factory_can_be_resumed(small, people, tmp_path):
    def people_again():
        return people.to_batches(333)

    whole = small.transform(people_again)
    with pytest.raises(KeyboardInterrupt):
        small.transform(people_again, checkpoint=tmp_path / "state", progress=stop_after(4))
    assert equal(whole, small.transform(people_again, checkpoint=tmp_path / "state"))
    assert equal(whole, small.transform(pa.table(people)))


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_full_disk_does_not_end_the_pass(small, path, tmp_path, monkeypatch):
    whole = small.transform(path)
    monkeypatch.setattr("crosslevel.embedding.run.np.lib.format.write_array", full_disk)
    with pytest.warns(CrosslevelWarning) as said:
        found = small.transform(path, checkpoint=tmp_path / "state", checkpoint_every=0)
    assert equal(whole, found)
    assert len(said) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["people.parquet"]
