"""The jax engine against the local one: the same bags, the same sums to 1e-5 of a bag's largest entry."""

import sys

import jax
import numpy as np
import pyarrow as pa
import pytest

from crosslevel import MeanEmbedding
from crosslevel.data.columns import Category, Encoder, Number
from crosslevel.embedding.engines import find_engine
from crosslevel.embedding.engines.jax import JaxEngine, code_owners
from crosslevel.embedding.state import BagSums
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.features import MAPS

SUBGROUPS = {"women": "sex == 2", "old": "age >= 60", "nobody": "age > 1000"}
N = 5000


def people(n: int = N, seed: int = 0) -> pa.Table:
    """Sorted by no region; nulls in both kinds of column; a survey's uneven weights."""
    rng = np.random.default_rng(seed)
    job = [None if r < 0.1 else f"job{int(20 * r)}" for r in rng.random(n)]
    income = np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(10, 1, n))
    return pa.table(
        {
            "region": rng.choice([f"r{i}" for i in range(7)], n),
            "w": rng.lognormal(0, 1, n),
            "sex": rng.integers(1, 3, n),
            "job": job,
            "age": rng.integers(18, 95, n).astype(float),
            "income": pa.array(income, from_pandas=True),
        }
    )


def fitted(name: str, n_features: int = 74, unknown: str = "error") -> MeanEmbedding:
    length = {} if name == "linear" else {"n_features": n_features}
    made = MeanEmbedding(**length, feature_map=name, categorical=["sex"], unknown=unknown, n_jobs=2)
    return made.fit(people(), by="region", weight="w")


def summed(embedding: MeanEmbedding, engine: object, table: pa.Table | None = None) -> BagSums:
    embedding.set_params(engine=engine)
    return embedding.accumulate(people() if table is None else table, subgroups=SUBGROUPS)


def assert_close(found: BagSums, expected: BagSums, tolerance: float = 1e-5) -> None:
    assert sorted(found.keys) == sorted(expected.keys)
    order = [found.keys.index(key) for key in expected.keys]
    np.testing.assert_array_equal(found.count[order], expected.count)
    np.testing.assert_allclose(found.weight[order], expected.weight, rtol=1e-12)
    np.testing.assert_allclose(found.weight_squared[order], expected.weight_squared, rtol=1e-12)
    reference = expected.sums()
    error = np.abs(found.sums()[order] - reference).max(axis=1) / np.abs(reference).max(axis=1)
    assert error.max() < tolerance


@pytest.mark.parametrize("name", MAPS)
def test_every_map_agrees_with_the_local_engine(name: str) -> None:
    embedding = fitted(name)
    assert embedding.n_inputs_ & (embedding.n_inputs_ - 1), "a power of two would test no padding"
    expected = summed(embedding, "local")
    assert len(expected) == 7 * 3
    # landmarks are float64 throughout: whitening multiplies errors
    assert_close(summed(embedding, "jax"), expected, 1e-10 if name in ("nystrom", "landmarks") else 1e-5)


def test_levels_that_fit_has_not_seen_get_no_feature_when_ignored() -> None:
    embedding = fitted("sorf", unknown="ignore")
    table = people()
    job = ["astronaut" if i % 3 == 0 else v for i, v in enumerate(table["job"].to_pylist())]
    table = table.set_column(3, "job", pa.array(job))
    expected = summed(embedding, "local", table)
    assert_close(summed(embedding, JaxEngine(2), table), expected)


@pytest.mark.parametrize("rows", [1, 2049])
def test_padding_changes_nothing(rows: int) -> None:
    embedding = fitted("fastfood")
    table = people().slice(0, rows)
    assert_close(summed(embedding, JaxEngine(1), table), summed(embedding, "local", table))


def test_the_number_of_threads_changes_nothing() -> None:
    embedding = fitted("sorf")
    states = []
    for n_jobs in (1, 4):
        engine = JaxEngine(n_jobs)
        engine.chunk_rows = 700
        states.append(summed(embedding, engine))
    assert_close(states[1], states[0], 1e-12)
    assert_close(states[0], summed(embedding, "local"))


def test_a_stopped_pass_leaves_no_thread_behind() -> None:
    import threading

    embedding = fitted("sorf")
    engine = JaxEngine(2)
    engine.chunk_rows = 700
    embedding.set_params(engine=engine)

    def stop(*_: object) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        embedding.transform(people(), progress=stop)
    assert not [t for t in threading.enumerate() if t.name.startswith("crosslevel-encode")]


@pytest.mark.parametrize("name", ["sorf", "nystrom"])
def test_the_precision_of_jax_is_left_alone(name: str) -> None:
    before = jax.config.jax_enable_x64
    summed(fitted(name), "jax")
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.ones(1).dtype == (np.float64 if before else np.float32)


def test_without_jax_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError):
        find_engine("jax", 1)


def test_owners_are_those_of_the_codes() -> None:
    encoder = Encoder(
        (
            Number("income", 0.0, 1.0, has_null=True),
            Category("job", pa.array(["a", "b", "c"]), has_null=True),
            Number("age", 0.0, 1.0, has_null=False),
            Category("sex", pa.array([1, 2]), has_null=False),
        )
    )
    owners, real_columns = code_owners(encoder)
    batch = pa.RecordBatch.from_pydict(
        {"income": [1.0, None, 3.0], "job": ["c", None, "a"], "age": [1.0, 2.0, 3.0], "sex": [2, 1, 1]}
    )
    encoded = encoder.encode(batch)
    np.testing.assert_array_equal(real_columns, encoded.real_columns)
    rows, columns = np.nonzero(encoded.codes >= 0)
    np.testing.assert_array_equal(owners[encoded.codes[rows, columns]], columns)
    assert sorted(np.flatnonzero(owners < 0)) == sorted(real_columns)
