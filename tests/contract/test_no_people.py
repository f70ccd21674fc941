"""A saved model holds no person's row, or says how many: every file is opened and its arrays are compared with the input."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.contract.case import Case
from tests.contract.test_parameters import CASES
from tests.contract.test_saved import fitted

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression, EcologicalInference
from crosslevel.errors import CrosslevelWarning, InputError

DIGITS = 9
COLUMN = 20
"""Different values of one column of people that no array may hold side by side."""
KEEP_ROWS = {"KRLS", "CrossLevelImputer"}
"""Estimators that cannot answer without distinct rows; of those over bags, landmarks may be people."""


def opened(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Give the manifest and every table of numbers of a file, (rows, columns) each, those within the manifest too."""
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        arrays = [np.load(io.BytesIO(archive.read(n))) for n in archive.namelist() if n.endswith(".npy")]
    tables = [t for a in arrays for t in as_tables(a)]
    return manifest, tables + [np.array([numbers]) for numbers in lists_of_numbers(manifest["object"])]


def as_tables(array: np.ndarray) -> Iterator[np.ndarray]:
    """Lay an array out as tables; bytes that are an Arrow stream become the table's numbers."""
    if array.dtype == np.uint8:
        with pa.ipc.open_stream(pa.py_buffer(array.tobytes())) as reader:
            found = reader.read_all()
        numbers = [c for c in found.columns if pa.types.is_floating(c.type) or pa.types.is_integer(c.type)]
        if numbers:
            yield np.column_stack([c.cast(pa.float64()).to_numpy() for c in numbers])
    elif array.ndim and array.size:
        yield from (
            array.astype(float).reshape(-1, *array.shape[-2:]) if array.ndim > 1 else [array[:, None].astype(float)]
        )


def lists_of_numbers(form: Any) -> Iterator[list[float]]:
    """Find every list of numbers in the form of an object."""
    if isinstance(form, dict):
        for value in form.values():
            yield from lists_of_numbers(value)
    elif isinstance(form, list):
        numbers = [v for v in form if isinstance(v, int | float) and not isinstance(v, bool)]
        if numbers:
            yield [float(v) for v in numbers]
        for value in form:
            yield from lists_of_numbers(value)


def forms_of_people(case: Case, model: Any) -> list[np.ndarray]:
    """Give the people as numbers, (n, k), in the units they came in and in those the model turns them into."""
    named = case.people
    if hasattr(model, "map_"):  # a model over bags: columns are divided by their scale, weights are no column
        raw = np.column_stack([named["a"], named["b"]])
        return [raw, raw / model.map_.scale]
    forms = [np.column_stack([v for v in map(np.asarray, named.values()) if v.dtype.kind in "if"]).astype(float)]
    embedder = getattr(model, "embedder_", model)
    if hasattr(embedder, "encoder_"):
        table = pa.table({n: pa.array(named[n]) for n in embedder.columns_})
        forms.append(embedder.encoder_.encode(table).dense(embedder.n_inputs_))
    return [form[np.isfinite(form).all(axis=1)] for form in forms]


def rows_found(tables: list[np.ndarray], people: np.ndarray) -> int:
    """Count the rows of tables, read either way, that hold all values of one person."""
    people = np.unique(np.round(people, DIGITS) + 0.0, axis=0)
    telling = int(np.argmax([len(np.unique(c)) for c in people.T]))
    known: dict[float, list[set[float]]] = {}
    for row in people.tolist():
        known.setdefault(row[telling], []).append(set(row))
    found = 0
    for table in tables:
        if (table == np.round(table)).all():  # positions and counts; every case has a column with fractions
            continue
        for turned in (table, table.T):
            if turned.shape[1] < people.shape[1]:
                continue
            for row in np.round(turned, DIGITS) + 0.0:
                values = set(row.tolist())
                found += any(person <= values for v in values & known.keys() for person in known[v])
    return found


def columns_found(tables: list[np.ndarray], people: np.ndarray) -> int:
    """Count the columns of tables that are made of the values of one column of people."""
    known = [set((np.round(c, DIGITS) + 0.0).tolist()) for c in people.T if len(np.unique(c)) > COLUMN]
    found = 0
    for table in tables:
        for column in (*table.T, *table):
            values = set((np.round(column, DIGITS) + 0.0).tolist())
            found += len(values) >= COLUMN and any(values <= k for k in known)
    return found


SAVED = [i for i, case in enumerate(CASES) if case.saves]


@pytest.mark.parametrize("number", SAVED, ids=[CASES[i].name for i in SAVED])
def test_a_saved_model_holds_no_person_it_does_not_count(number, tmp_path):
    case, model = CASES[number], fitted(number)
    cl.save(model, tmp_path / "m", allow_rows=True)
    manifest, tables = opened(tmp_path / "m")
    counted = manifest["rows_of_people"]
    if case.people is None:
        assert counted == 0
        return
    forms = forms_of_people(case, model)
    assert max(rows_found(tables, form) for form in forms) <= counted
    if type(model).__name__ in KEEP_ROWS:
        assert 0 < counted <= len(next(iter(case.people.values())))
        return
    n = len(next(iter(case.people.values())))
    assert not [t.shape for t in tables if n in t.shape], "an array with a row for every person"
    assert not any(columns_found(tables, form) for form in forms)
    assert counted == 0 or hasattr(model, "map_")


@pytest.mark.parametrize("number", SAVED, ids=[CASES[i].name for i in SAVED])
def test_rows_of_people_are_refused_where_they_are_not_allowed(number, tmp_path):
    model = fitted(number)
    cl.save(model, tmp_path / "allowed", allow_rows=True)
    counted = opened(tmp_path / "allowed")[0]["rows_of_people"]
    if not counted:
        cl.save(model, tmp_path / "m", allow_rows=False)
        assert (tmp_path / "m").read_bytes() == (tmp_path / "allowed").read_bytes()
        return
    with pytest.raises(InputError):
        cl.save(model, tmp_path / "m", allow_rows=False)
    assert not (tmp_path / "m").exists()
    with pytest.warns(CrosslevelWarning):
        cl.save(model, tmp_path / "m")


@pytest.mark.parametrize("landmarks", ["random", "paper"])
def test_landmarks_that_are_people_are_counted(landmarks, tmp_path):
    case = next(c for c in CASES if c.name == "MeanShrinkage")
    model = case.fit(case.make(landmarks=landmarks))
    cl.save(model, tmp_path / "m", allow_rows=True)
    manifest, tables = opened(tmp_path / "m")
    assert manifest["rows_of_people"] == model.n_landmarks_
    assert max(rows_found(tables, form) for form in forms_of_people(case, model)) == model.n_landmarks_


@pytest.mark.parametrize("feature_map", ["nystrom", "landmarks"])
def test_people_of_a_feature_map_are_counted(feature_map, tmp_path):
    case = next(c for c in CASES if c.name == "MeanEmbedding")
    model = case.fit(case.make(feature_map=feature_map))
    cl.save(model, tmp_path / "m", allow_rows=True)
    manifest, tables = opened(tmp_path / "m")
    assert manifest["rows_of_people"] == 16
    assert rows_found(tables, forms_of_people(case, model)[1]) == 16


def test_allow_rows_is_true_or_false(tmp_path):
    with pytest.raises(InputError, match="allow_rows="):
        cl.save(fitted(SAVED[0]), tmp_path / "m", allow_rows="no")


WORLD = nation(20, 60, n_states=4)
PLANTED = WORLD.people.select(["region", "weight"])
for _name, _seed in (("age", 1), ("income", 2)):
    PLANTED = PLANTED.append_column(_name, pa.array(np.random.default_rng(_seed).normal(50.0, 15.0, len(PLANTED))))
SCALES = {"effect_variance": 0.3, "nugget": 0.02}


def planted(cls: type) -> Any:
    people = cl.People(PLANTED, by="region", weight="weight")
    if cls is cl.MeanEmbedding:
        return cls(n_features=64).fit(people)
    settings = {"n_features": 64} if cls is DistributionRegression else {}
    model = cls(spatial=None, hyperparameters=SCALES, **settings)
    return model.fit(people, cl.Places(WORLD.places, "region", "dem", "votes"))


def persons_in(blob: bytes, model: Any) -> int:
    """Count the people both of whose planted values are among the bytes, as they were given or as they are encoded."""
    raw = np.column_stack([PLANTED["age"].to_numpy(), PLANTED["income"].to_numpy()])
    forms = [raw]
    embedder = getattr(model, "embedder_", model)
    if hasattr(embedder, "encoder_"):
        forms.append(embedder.encoder_.encode(PLANTED).dense(embedder.n_inputs_))
    return sum(
        all(v.tobytes() in blob for v in row if v not in (0.0, 1.0))
        for form in forms
        for row in form.astype(np.float64)
    )


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize("cls", [EcologicalInference, DistributionRegression, cl.MeanEmbedding])
class TestPlanted:
    def test_a_pickle_holds_nobody(self, cls):
        model = planted(cls)
        assert persons_in(pickle.dumps(model), model) == 0

    def test_a_file_holds_nobody(self, cls, tmp_path):
        model = planted(cls)
        cl.save(model, tmp_path / "m", allow_rows=False)
        with zipfile.ZipFile(tmp_path / "m") as archive:
            blob = b"".join(archive.read(n) for n in archive.namelist())
        assert persons_in(blob, model) == 0


def test_the_search_finds_people_where_they_are():
    model = planted(cl.MeanEmbedding)
    encoded = model.encoder_.encode(PLANTED).dense(model.n_inputs_)
    assert persons_in(encoded[:7].tobytes(), model) == 7
    assert persons_in(PLANTED["age"].to_numpy()[:7].tobytes(), model) == 0
    assert rows_found([encoded[:7]], encoded) == 7
    assert columns_found([encoded[:30, :1]], encoded) == 1
