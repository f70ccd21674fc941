"""The jax engine against the local one: the same bags, the same sums to 1e-5 of a bag's largest entry."""

import sys

import jax
import numpy as np
import pyarrow as pa
import pytest

from crosslevel import Embeddings, MeanEmbedding, People
from crosslevel.data.columns import Category, Encoder, Number
from crosslevel.embedding.engines import find_engine
from crosslevel.embedding.engines.jax import code_owners
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.features import MAPS

SUBGROUPS = {"women": "sex = 2", "old": "age >= 60", "nobody": "age > 1000"}
N = 5000


def table(n: int = N) -> pa.Table:
    """Sorted by no region; nulls in both kinds of column; a survey's uneven weights."""
    rng = np.random.default_rng(0)
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


def people(of: pa.Table | None = None) -> People:
    return People(table() if of is None else of, by="region", weight="w", categorical=["sex"])


def fitted(name: str, n_features: int = 74, unknown: str = "error") -> MeanEmbedding:
    length = {} if name == "linear" else {"n_features": n_features}
    return MeanEmbedding(**length, feature_map=name, unknown=unknown).fit(people())


def embedded(embedding: MeanEmbedding, engine: str, of: pa.Table | None = None) -> Embeddings:
    return embedding.set_params(engine=engine).transform(people(of), subgroups=SUBGROUPS)


def assert_close(found: Embeddings, expected: Embeddings, tolerance: float = 1e-5) -> None:
    assert found.key_table.equals(expected.key_table)
    np.testing.assert_array_equal(found.n_rows, expected.n_rows)
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-12)
    np.testing.assert_allclose(found.effective_size, expected.effective_size, rtol=1e-12)
    error = np.abs(found.values - expected.values).max(axis=1) / np.abs(expected.values).max(axis=1)
    assert error.max() < tolerance


@pytest.mark.parametrize("name", MAPS)
def test_every_map_agrees_with_the_local_engine(name: str) -> None:
    embedding = fitted(name)
    assert embedding.n_inputs_ & (embedding.n_inputs_ - 1), "a power of two would test no padding"
    expected = embedded(embedding, "local")
    assert len(expected) == 7 * 3
    # landmarks are float64 throughout: whitening multiplies errors
    tolerance = {"nystrom": 1e-7, "landmarks": 1e-10}.get(name, 1e-5)
    assert_close(embedded(embedding, "jax"), expected, tolerance)


def test_levels_that_fit_has_not_seen_get_no_feature_when_ignored() -> None:
    embedding, of = fitted("sorf", unknown="ignore"), table()
    job = ["astronaut" if i % 3 == 0 else v for i, v in enumerate(of["job"].to_pylist())]
    of = of.set_column(3, "job", pa.array(job))
    assert_close(embedded(embedding, "jax", of), embedded(embedding, "local", of))


@pytest.mark.parametrize("name", ["sorf", "nystrom"])
def test_the_precision_of_jax_is_left_alone(name: str) -> None:
    before = jax.config.jax_enable_x64
    embedded(fitted(name), "jax")
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.ones(1).dtype == (np.float64 if before else np.float32)


def test_without_jax_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError):
        find_engine("jax")


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
