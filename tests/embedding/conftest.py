"""A plain NumPy answer to what a pass over people should give."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.data.conftest import make_people

from crosslevel import MeanEmbedding, People

ROLES = {"by": "region", "weight": "w", "categorical": ["sex"]}


def dense(table, categorical=("sex", "race", "veteran"), numeric=("age", "income", "hours"), fit=None):
    """Write the encoded vectors out, columns in the order of their names and levels by how common they are, by the plainest means."""
    fit = table if fit is None else fit
    w = np.asarray(fit["w"], dtype=float)
    columns = []
    for name in sorted(table.column_names):
        if name in categorical:
            values, seen = table[name].to_pylist(), fit[name].to_pylist()
            weight = {v: w[[s == v for s in seen]].sum() for v in seen}
            levels = sorted(weight, key=lambda v, weight=weight: np.inf if v is None else -weight[v])
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
def table():
    return make_people()


@pytest.fixture(scope="session")
def people(table):
    return People(table, **ROLES)


@pytest.fixture(scope="session")
def fitted(people):
    return MeanEmbedding(n_features=64).fit(people)


@pytest.fixture(scope="session")
def oracle():
    return SimpleNamespace(dense=dense, group_means=group_means, relative=relative, make=make_people, roles=ROLES)
