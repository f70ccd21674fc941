"""What a fit takes is said before it is begun."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import crosslevel.krls.paths as costs
from crosslevel.errors import InputError
from crosslevel.krls import KRLS, Cost, cost


def test_more_rows_cost_more():
    for method in ("exact", "partial", "nystrom"):
        small, large = cost(7_000, 5, method), cost(14_000, 5, method)
        assert small.bytes < large.bytes
        assert small.seconds < large.seconds
        assert small.method == method


def test_the_ways_of_auto():
    assert [cost(n, 5).method for n in (1_000, 10**6)] == ["exact", "nystrom"]
    assert cost(10**6, 5, distinct=900).method == "exact"
    assert cost(30_000, 5, low_rank=400).method == "partial"
    with pytest.raises(InputError, match="distinct="):
        cost(10**6, 5, "exact", distinct=900)  # this way gathers nothing


def test_memory_of_the_exact_way_is_three_matrices():
    assert cost(10_000, 5, "exact").bytes == pytest.approx(3 * 8 * 10_000**2, rel=0.2)


def test_it_reads_as_a_sentence_and_does_not_change():
    found = cost(1_000_000, 5, "nystrom", rank=500)
    assert isinstance(found, Cost)
    assert str(found).startswith("1,000,000 rows, 5 columns: Nystrom approximation with 500 landmarks, about ")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rows = 3


def test_the_estimator_counts_distinct_rows_and_probes(mixed, rng, monkeypatch):
    X, _ = mixed(60)
    model = KRLS()
    found = model.cost(X)
    assert found.rows == 60
    assert found.distinct == len(np.unique(X, axis=0)) < 60
    assert not hasattr(model, "n_features_in_")  # nothing was fitted
    assert KRLS(method="exact").cost(X).distinct == 60
    monkeypatch.setattr(costs, "EXACT_ROWS", 50)
    assert KRLS().cost(rng.normal(size=(400, 1))).method == "partial"


def test_any_table_will_do(rng):
    X = {"a": rng.normal(size=50), "b": rng.normal(size=50)}
    for table in (X, pl.DataFrame(X), pl.LazyFrame(X), pa.table(X)):
        assert KRLS().cost(table).rows == 50


def test_bad_input():
    with pytest.raises(InputError, match="method="):
        cost(100, 2, "exakt")
    with pytest.raises(InputError):
        cost(0, 2)
