"""People in a table of Spark are counted there, and the answer is that of the same people in a file."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from crosslevel import CrossLevelImputer, EcologicalInference, MeanEmbedding, Means, People, Places
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import count_people
from crosslevel.data.simulate import nation
from crosslevel.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # of jax, where Spark starts its Java
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
WORLD = nation(24, 250, n_states=4)
PEOPLE = {"by": "region", "weight": "weight", "cluster": "education", "columns": ["age", "sex", "race"]}
PLACES = Places(WORLD.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
SCALES = {"effect_variance": 0.3, "spatial": 0.1, "length": 400.0, "nugget": 0.02}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    before, folder = dict(os.environ), str(tmp_path_factory.mktemp("spark"))
    os.environ |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    builder = sql.SparkSession.builder.master("local[2,4]").appName("crosslevel tests")
    settings = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    for name, value in {**settings, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(WORLD.people, path)
    return path


def answered(data):
    people = People(data, **PEOPLE, categorical=["sex"])
    model = EcologicalInference(hyperparameters=SCALES).fit(people, PLACES)
    old = {"women over 40": "sex = 2 and age > 40", "half": "age / 2 >= 20.5 and not race like 'w%'"}
    named = model.estimate(subgroups=old, where="race in ('white', 'it''s') or age is null", n_draws=50)
    return model.estimate(by=["sex", "race"], rollup="all", n_draws=50), named


def test_spark_counts_what_duckdb_counts(path, session):
    expected, found = answered(path), answered(session.read.parquet(str(path)))
    for one, other in zip(found, expected, strict=True):
        for name in ("estimate", "std_error", "conf_low", "conf_high"):
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-9)
    assert session.catalog.listTables() == []  # nothing is left behind
    with pytest.raises(InputError):
        People(session.read.parquet(str(path)), where="sex in (select 1)")


def test_spark_counts_households_as_duckdb_does(path, session):
    here, there = (People(data, **PEOPLE, categorical=["sex"]) for data in (path, session.read.parquet(str(path))))
    bins, keys = learn_columns(here).bins, PLACES.table["region"].to_pylist()
    found, expected = (count_people(one, bins, keys, clusters=True).clusters for one in (there, here))
    np.testing.assert_array_equal(found.cluster, expected.cluster)
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-12)


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


def test_a_worker_that_is_killed_counts_nobody_twice(path, session, tmp_path):
    frame = session.read.parquet(str(path))
    broken = frame.mapInArrow(deadly(str(tmp_path / "marker")), frame.schema)
    here, there = (People(data, **PEOPLE, categorical=["sex"]) for data in (path, broken))
    bins = learn_columns(here).bins
    found, expected = (count_people(one, bins, PLACES.table["region"].to_pylist()) for one in (there, here))
    assert (tmp_path / "marker").exists(), "nobody was killed"
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)


def test_spark_embeds_what_duckdb_embeds(path, session):
    here, there = (People(data, **PEOPLE, categorical=["sex"]) for data in (path, session.read.parquet(str(path))))
    model = MeanEmbedding(n_features=32).fit(here)
    one, other = (model.transform(people, subgroups={"old": "age > 60"}) for people in (here, there))
    assert one.key_table.equals(other.key_table)
    np.testing.assert_allclose(other.values, one.values, atol=1e-9)


def test_spark_imputes_what_duckdb_imputes(path, session):
    share = {"region": WORLD.places["region"], "dem": np.divide(WORLD.places["dem"], WORLD.places["votes"])}
    told = Means("dem", known_rates={"sex": [1, 2], "dem": [0.4, 0.6]})
    places, found = Places(share, by="region", means=told), []
    for data in (path, session.read.parquet(str(path))):
        people = People(data, **PEOPLE, categorical=["sex"])
        model = CrossLevelImputer(n_restarts=0, missing="mean").fit(people, places)
        tables = [model.estimate(["sex", "race"]), model.estimate("region", people), model.slopes()]
        found.append([t[n] for t in tables for n in ("estimate", "std_error", "conf_low")])
        found[-1].append(np.sort(model.transform(people)["dem"].to_numpy()))
        found[-1].append(np.sort(model.predict_proba(people)[:, 1]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
