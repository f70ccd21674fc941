"""What a fit takes is said before it is begun."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import crosslevel.krls.paths as costs
from crosslevel.krls import KRLS, Cost
from crosslevel.krls.paths import _cost as cost


def test_more_rows_cost_more():
    for method in ("exact", "partial", "nystrom"):
        small, large = cost(7_000, 5, method, 7_000), cost(14_000, 5, method, 14_000)
        assert small.bytes < large.bytes
        assert small.seconds < large.seconds
        assert small.method == method
    assert cost(10_000, 5, "exact", 10_000).bytes == pytest.approx(3 * 8 * 10_000**2, rel=0.2)  # three matrices


def test_the_ways_of_auto():
    assert [cost(n, 5, "auto", n).method for n in (1_000, 10**6)] == ["exact", "nystrom"]
    assert cost(30_000, 5, "auto", 30_000, low_rank=400).method == "partial"


def test_it_reads_as_a_sentence():
    found = cost(1_000_000, 5, "nystrom", 1_000_000, rank=500)
    assert isinstance(found, Cost)
    assert str(found).startswith("1,000,000 rows, 5 columns: Nystrom approximation with 500 landmarks, about ")


def test_the_estimator_counts_distinct_rows_and_probes(mixed, rng, monkeypatch):
    X, _ = mixed(60)
    model = KRLS()
    found = model.cost(X)
    assert found.rows == 60
    assert found.distinct == len(np.unique(X, axis=0)) < 60
    assert not hasattr(model, "n_features_in_")  # nothing was fitted
    monkeypatch.setattr(costs, "EXACT_ROWS", 50)
    assert KRLS().cost(rng.normal(size=(400, 1))).method == "partial"


def test_any_table_will_do(rng):
    X = {"a": rng.normal(size=50), "b": rng.normal(size=50)}
    for table in (X, pl.DataFrame(X), pl.LazyFrame(X), pa.table(X)):
        assert KRLS().cost(table).rows == 50
