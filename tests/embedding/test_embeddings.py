from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel import Embeddings, MeanEmbedding, People
from crosslevel.errors import InputError


@pytest.fixture(scope="module")
def found(fitted, table):
    return fitted.transform(People(table, by=["region", "sex"], weight="w"))


def test_keys_shapes_and_arrays(found):
    assert found.shape == (10, 64) == np.asarray(found).shape
    assert len(found) == 10 == len(list(found))
    assert found.keys[:3].tolist() == [("r1", 1), ("r1", 2), ("r2", 1)]
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    assert repr(found) == "<Embeddings: 10 bags by region, sex, 64 features; see .values, .keys>"


def test_selecting_bags(found):
    women = found.select("sex == 2")
    assert women.key_table["sex"].to_pylist() == [2] * 5
    np.testing.assert_array_equal(women.values, found.values[1::2])
    np.testing.assert_array_equal(women.n_rows, found.n_rows[1::2])
    np.testing.assert_array_equal(women.weight, found.weight[1::2])
    np.testing.assert_array_equal(women.effective_size, found.effective_size[1::2])
    with pytest.raises(InputError):
        found.select("sex == 3")
    with pytest.raises(InputError):
        found.select("sexx == 3")


def test_frames_of_the_callers_kind(fitted, table, found):
    assert found.to_frame().column_names[:6] == ["region", "sex", "weight", "n_rows", "effective_size", "phi0"]
    for frame, kind in ((table.to_pandas(), pd.DataFrame), (pl.from_arrow(table), pl.DataFrame)):
        people = People(frame, by="region", weight="w")
        back = fitted.transform(people).to_frame()
        assert isinstance(back, kind)
        np.testing.assert_allclose(back["phi63"], fitted.transform(people).values[:, 63], rtol=1e-12)


@pytest.mark.parametrize("by", ["region", "sex", "veteran", ["region", "sex"], "income"])
def test_saving_is_exact(fitted, table, tmp_path, by):
    some = People(table.slice(0, 500), by=by, weight="w")
    found = fitted.transform(some, subgroups={"old": "age >= 65"} if by == "sex" else None)
    cl.save(found, tmp_path / "a.crosslevel")
    back = cl.load(tmp_path / "a.crosslevel")
    assert isinstance(back, Embeddings)
    assert back.key_table.equals(found.key_table)
    for name in ("values", "weight", "n_rows", "effective_size"):
        assert getattr(back, name).tobytes() == getattr(found, name).tobytes()
        assert getattr(back, name).dtype == getattr(found, name).dtype
    assert (back.warnings, back.frame) == (found.warnings, found.frame)


def test_warnings_travel_with_the_answer(tmp_path):
    table = pa.table({"k": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 5.0], "w": [1.0, 1.0, 0.0, 0.0]})
    people = People(table, by="k", weight="w")
    fitted = MeanEmbedding(4).fit(people)
    with pytest.warns(cl.errors.CrosslevelWarning):
        found = fitted.transform(people)
    assert found.keys.tolist() == ["a"]
    cl.save(found, tmp_path / "a.crosslevel")
    assert cl.load(tmp_path / "a.crosslevel").warnings == found.warnings != ()
