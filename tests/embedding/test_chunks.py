from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.batches import open_batches
from crosslevel.data.checks import count_jobs
from crosslevel.data.columns import Encoder, Number
from crosslevel.data.queries import parse
from crosslevel.embedding.chunks import Chunk, Recipe, prepare
from crosslevel.embedding.engines import find_engine
from crosslevel.embedding.run import chunks
from crosslevel.errors import InputError

X = Encoder((Number("x", 0.0, 1.0, False),))


def ready(table, by=("region",), weight=None, subgroups=(), row=0):
    recipe = Recipe(X, by, weight, tuple((n, parse(q)) for n, q in subgroups))
    return prepare(recipe, Chunk(table.combine_chunks().to_batches()[0], row, (0, 0)))


TABLE = pa.table({"region": ["b", "a", "b"], "sex": [1, 2, None], "x": [1.0, 2.0, 3.0], "w": [1.0, 0.0, 2.0]})


def test_memberships_number_place_and_subgroup():
    made = ready(TABLE, weight="w", subgroups=[("men", "sex == 1"), ("women", "sex == 2")])
    assert made.keys["region"].to_pylist() == ["a", "b"]
    assert made.bags.tolist() == [[3, 4, -1], [0, -1, 2], [3, -1, -1]]
    assert made.weights.tolist() == [1.0, 0.0, 2.0]
    assert made.encoded.reals.ravel().tolist() == [1.0, 2.0, 3.0]


def test_chunks_are_cut_by_row_number_and_begin_anywhere():
    tables = [pa.table({"x": np.arange(a, b)}) for a, b in ((0, 25), (25, 30), (30, 52))]
    stream = open_batches(tables, batch_size=10)
    whole = list(chunks(stream))
    assert [c.position for c in whole] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert [c.row for c in whole] == [0, 10, 20, 25, 30, 40, 50]
    assert all(c.batch["x"][0].as_py() == c.row for c in whole)
    for i, first in enumerate(whole):
        rest = list(chunks(stream, first.position, first.row))
        assert [(c.position, c.row, c.batch) for c in rest] == [(c.position, c.row, c.batch) for c in whole[i:]]


def test_engines_are_found_by_name():
    assert find_engine("local", 3).n_jobs == 3
    assert count_jobs(None) == count_jobs(-1) >= 1
    with pytest.raises(InputError, match="engine="):
        find_engine("locl")
    for bad in (0, -2, 1.5, True):
        with pytest.raises(InputError):
            count_jobs(bad)
