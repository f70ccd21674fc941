"""People of Spark, embedded by its workers: the numbers of this process, whatever is killed on the way."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from crosslevel import MeanEmbedding, People
from crosslevel.errors import InputError

sql = pytest.importorskip("pyspark.sql")
pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # of jax, where Spark starts its Java: fork, then exec
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),  # of pandas, in the test's own mapInArrow
]
ROOT = Path(__file__).resolve().parents[2]
SUBGROUPS = {"women": "sex = 2", "old": "age >= 65", "nobody": "age > 1000"}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    before, folder = dict(os.environ), tmp_path_factory.mktemp("spark")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), before.get("PYTHONPATH", "")])
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    builder = sql.SparkSession.builder.master("local[2,4]").appName("crosslevel tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def frame(session, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    for i in range(4):
        pq.write_table(table.slice(750 * i, 750), folder / f"part-{i}.parquet")
    return session.read.parquet(str(folder))


def deadly(marker):
    """Give a function that passes rows on, and kills its worker when it first meets any."""

    def work(batches):
        import os
        import signal
        from pathlib import Path

        for batch in batches:
            if not Path(marker).exists():
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return work


def close(one, two):
    assert one.key_table.equals(two.key_table)
    np.testing.assert_array_equal(one.n_rows, two.n_rows)
    np.testing.assert_allclose(one.weight, two.weight, rtol=1e-12)
    np.testing.assert_allclose(one.effective_size, two.effective_size, rtol=1e-12)
    np.testing.assert_allclose(one.values, two.values, rtol=0, atol=1e-9 * np.abs(two.values).max())


@pytest.mark.parametrize("name", ["sorf", "nystrom"])
def test_fit_and_transform_give_what_this_process_gives(frame, table, oracle, name):
    here, there = (People(data, where="age >= 30", **oracle.roles) for data in (table, frame))
    fits = [MeanEmbedding(32, name).fit(people) for people in (here, there)]
    assert fits[0].bandwidth_ == pytest.approx(fits[1].bandwidth_, rel=1e-12)
    facts = [[column.facts() for column in fit.encoder_.columns] for fit in fits]
    assert facts[0] == facts[1]
    close(fits[1].transform(there, subgroups=SUBGROUPS), fits[0].transform(here, subgroups=SUBGROUPS))


def test_a_worker_that_is_killed_changes_nothing(fitted, people, frame, tmp_path, oracle):
    marker = tmp_path / "marker"
    broken = frame.mapInArrow(deadly(str(marker)), frame.schema)
    done = []
    found = fitted.transform(People(broken, **oracle.roles), progress=lambda *at: done.append(at))
    assert marker.exists(), "nobody was killed"
    assert done == [(3000, 3000)]
    close(found, fitted.transform(people))


def test_what_is_wrong_with_people_is_said_by_the_workers(table, frame, oracle):
    some = table.filter(pc.not_equal(table["race"], "asian"))
    fitted = MeanEmbedding(8).fit(People(some, **oracle.roles))
    with pytest.raises(InputError, match="race"):
        fitted.transform(People(frame, **oracle.roles))
    with pytest.raises(InputError, match="engine="):
        fitted.set_params(engine="jax").transform(People(frame, **oracle.roles))
