from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel.data.simulate import nation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("embed")
    pq.write_table(nation(20, 60).people, where / "people.parquet", row_group_size=500)
    return where


ASKED = (
    *("embed", "people.parquet", "--by", "region", "--weight", "weight", "--n-features", "32", "--categorical", "sex"),
    *("--where", "age >= 18", "--subgroup", "women=sex = 2", "--subgroup", "old=age >= 65", "--seed", "3"),
)


def test_the_answer_is_that_of_the_library(crosslevel, folder):
    done = crosslevel(*ASKED, "--out", "answer", cwd=folder)
    path = folder / "people.parquet"
    people = cl.People(path, by="region", weight="weight", categorical=["sex"], where="age >= 18")
    fitted = cl.MeanEmbedding(32, random_state=3).fit(people)
    expected = fitted.transform(people, subgroups={"women": "sex = 2", "old": "age >= 65"})
    found = cl.load(folder / "answer" / "embeddings.crosslevel")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)
    assert found.key_table.equals(expected.key_table)
    bags = pacsv.read_csv(folder / "answer" / "bags.csv")
    assert bags.column_names == ["region", "subgroup", "weight", "n_rows", "effective_size"]
    np.testing.assert_array_equal(bags["effective_size"], expected.effective_size)
    model = cl.load(folder / "answer" / "embedding.crosslevel")
    again = model.transform(people.with_data(pq.read_table(path)))
    np.testing.assert_allclose(again.values, expected.select("subgroup = 'all'").values, atol=1e-12)
    assert sorted(p.name for p in (folder / "answer").iterdir()) == [
        "bags.csv",
        "embedding.crosslevel",
        "embeddings.crosslevel",
    ]
    assert "60 bags by region, subgroup" in done.out
    assert "32 features (sorf, bandwidth" in done.out
    assert "rows/s" not in done.out


def test_json_tells_the_same(crosslevel, folder):
    told = json.loads(
        crosslevel(*ASKED, "--out", "asked", "--json", "--feature-map", "rff", "--bandwidth", "2.5", cwd=folder).out
    )
    assert tuple(told["fit"][n] for n in ("bags", "features", "feature_map", "bandwidth")) == (60, 32, "rff", 2.5)
    assert told["keys"] == ["region", "subgroup"]
    found = cl.load(folder / told["files"]["embeddings"])
    assert found.shape == (60, 32)
    asked = ["4096" if word == "32" else word for word in ASKED]
    linear = json.loads(crosslevel(*asked, "--out", "asked", "--json", "--feature-map", "linear", cwd=folder).out)
    assert linear["fit"]["bandwidth"] is None
    assert linear["fit"]["features"] == linear["fit"]["encoded_columns"]


def test_notes_are_said_and_carried(crosslevel, folder, tmp_path):
    people = pq.read_table(folder / "people.parquet")
    pacsv.write_csv(people.append_column("one", pa.array([1] * people.num_rows)), tmp_path / "people.csv")
    done = crosslevel(
        "embed", "people.csv", "--by", "region", "--weight", "weight", "--n-features", "8", "--json", cwd=tmp_path
    )
    assert "UserWarning" not in done.err
    assert any("'one'" in note for note in json.loads(done.out)["warnings"])
    assert (tmp_path / "embeddings" / "bags.csv").exists()


def test_messages_and_exit_codes(crosslevel, folder, tmp_path):
    for arguments, said in (
        (["people.parquet", "--by", "regio"], "Did you mean 'region'"),
        (["peple.parquet", "--by", "region"], "Did you mean 'people.parquet'"),
        (["people.parquet", "--by", "region", "--weight", "wieght"], "Did you mean 'weight'"),
        (["people.parquet", "--by", "region", "--subgroup", "women"], "is not name=condition"),
        (["people.parquet", "--by", "region", "--where", "age >"], "cannot be read"),
        (["people.parquet", "--by", "region", "--n-features", "7"], "--n-features 7 is odd"),
        (["people.parquet", "--by", "region", "--bandwidth", "wide"], "--bandwidth wide"),
        (["people.parquet", "--by", "region", "--engine", "gpu"], "gpu"),
        (["people.parquet"], "by"),
    ):
        message = crosslevel("embed", *arguments, "--out", str(tmp_path / "o"), cwd=folder, code=2).err
        assert said in message
        assert "Traceback" not in message
    (tmp_path / "taken").write_text("")
    message = crosslevel(
        "embed", "people.parquet", "--by", "region", "--out", str(tmp_path / "taken"), cwd=folder, code=2
    )
    assert "is a file; name a folder" in message.err


STOPPED = """
import os, signal
from crosslevel.cli import main
from crosslevel.embedding import run

def keep(self, state, files, rows, **now):
    kept(self, state, files, rows, **now)
    if files == 2:
        os.kill(os.getpid(), signal.SIGINT)

kept, run.Checkpoint.keep = run.Checkpoint.keep, keep
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts tests in the background has them ignore it
main()
"""


def test_a_stopped_command_resumes_when_run_again(crosslevel, tmp_path):
    """Ctrl-C after the second file of three."""
    rng = np.random.default_rng(0)
    people = pa.table({"c": rng.integers(0, 9, 12_000).astype(np.int8), "k": rng.integers(0, 9, 12_000)})
    for i in range(3):
        pq.write_table(people.slice(4_000 * i, 4_000), tmp_path / f"people{i}.parquet")
    asked = ["embed", "people*.parquet", "--by", "k", "--n-features", "64", "--categorical", "c"]
    whole = crosslevel(*asked, "--out", "whole", "--json", cwd=tmp_path)
    assert json.loads(whole.out)["fit"]["bags"] == 9
    command = [sys.executable, "-c", STOPPED, *asked, "--out", "parts"]
    stopped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert stopped.returncode == 130, stopped.stderr
    assert "Run the same command again to resume" in stopped.stderr
    assert (tmp_path / "parts" / "checkpoint.state").exists()
    done = crosslevel(*asked, "--out", "parts", cwd=tmp_path)
    assert "Resuming from" in done.err
    one, two = (cl.load(tmp_path / name / "embeddings.crosslevel") for name in ("whole", "parts"))
    assert one.values.tobytes() == two.values.tobytes()
    assert not (tmp_path / "parts" / "checkpoint.state").exists()
