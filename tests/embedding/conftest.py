"""People of every kind of column, and a plain NumPy answer to what a pass should give."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.embedding import MeanEmbedding


def make_people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["asian", "black", "white"], n, p=[0.1, 0.3, 0.6]).astype(object)
    race[rng.random(n) < 0.1] = None
    age = rng.integers(18, 95, n).astype(float)
    return pa.table(
        {
            "region": rng.choice(["r1", "r2", "r3", "r4", "r5"], n, p=[0.4, 0.3, 0.2, 0.07, 0.03]),
            "sex": pa.array(rng.integers(1, 3, n), pa.int8()),
            "race": pa.array(race, pa.string()),
            "veteran": pa.array(rng.random(n) < 0.2),
            "age": pa.array(age, mask=rng.random(n) < 0.05),
            "income": pa.array(np.round(np.exp(rng.normal(10, 1, n))), pa.float64()),
            "hours": pa.array(rng.integers(0, 60, n), pa.int16()),
            "w": np.round(rng.gamma(2.0, 50.0, n), 3),
        }
    )


@pytest.fixture(scope="session")
def people():
    return make_people()


@pytest.fixture(scope="session")
def fitted(people):
    return MeanEmbedding(n_features=64, categorical=["sex"]).fit(people, by="region", weight="w")


def dense(table, categorical=("sex", "race", "veteran"), numeric=("age", "income", "hours"), fit=None):
    """Write the encoded vectors out, column after column in the table's order, by the plainest means."""
    fit = table if fit is None else fit
    w = np.asarray(fit["w"], dtype=float)
    columns = []
    for name in table.column_names:
        if name in categorical:
            values, seen = table[name].to_pylist(), fit[name].to_pylist()
            levels = sorted({v for v in seen if v is not None}) + ([None] if None in seen else [])
            columns += [np.array([float(v == level) for v in values]) for level in levels]
        elif name in numeric:
            x = np.array([np.nan if v is None else v for v in table[name].to_pylist()], dtype=float)
            z = np.array([np.nan if v is None else v for v in fit[name].to_pylist()], dtype=float)
            there = ~np.isnan(z)
            mean = np.average(z[there], weights=w[there])
            scale = np.sqrt(np.average((z[there] - mean) ** 2, weights=w[there]))
            scaled = (x - np.float32(mean)) / np.float32(scale)
            columns.append(np.where(np.isnan(x), 0.0, scaled))
            if np.isnan(z).any():
                columns.append(np.isnan(x).astype(float))
    return np.column_stack(columns)


def group_means(table, phi, by, keep=None):
    """Weighted means of features by key, in sorted order: keys, means, weights, counts, effective sizes."""
    keys = list(zip(*(table[name].to_pylist() for name in by), strict=True))
    w = np.asarray(table["w"], dtype=float)
    keep = np.ones(len(w), dtype=bool) if keep is None else keep
    out = []
    for key in sorted({k for k, kept in zip(keys, keep, strict=True) if kept}):
        rows = np.array([k == key for k in keys]) & keep
        v = w[rows]
        out.append((key, v @ phi[rows] / v.sum(), v.sum(), rows.sum(), v.sum() ** 2 / (v**2).sum()))
    return [list(part) if i == 0 else np.array(part) for i, part in enumerate(zip(*out, strict=True))]


def relative(found, expected):
    """Largest difference, relative to the largest entry of the bag."""
    return float(np.max(np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)))


@pytest.fixture(scope="session")
def make():
    return make_people


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(dense=dense, group_means=group_means, relative=relative)
