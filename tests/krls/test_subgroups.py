"""Averages within subgroups: brute force, jackknife-style oracles, joint covariance, every way to name them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.errors import InputError
from crosslevel.krls import KRLS

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def people(rng):
    n = 120
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "arm": rng.choice(["control", "letter", "visit"], n),
            "owner": rng.integers(0, 2, n),
        }
    )
    y = 0.02 * frame["age"] * frame["owner"] + 0.5 * (frame["arm"] == "visit") + 0.3 * rng.normal(size=n)
    return frame, y


def dense(model, X, y, effect, rho, mu, lam):
    """Evaluate estimate and HC3 error of one average with dense matrices and finite differences, on rows."""
    Z = (X - X.mean(0)) / X.std(0, ddof=1)
    u = (y - y.mean()) / y.std(ddof=1)
    s, N = Z.shape[1], len(y)

    def k(A):
        return np.exp(-np.square(A[:, None] - Z).sum(2) / s)

    K, H = k(Z), np.column_stack([np.ones(N), Z])
    if effect.switch is None:
        up, down = Z.copy(), Z.copy()
        up[:, effect.column] += 1e-5
        down[:, effect.column] -= 1e-5
        V = rho @ (k(up) - k(down)) / 2e-5
        ell = rho @ (np.column_stack([np.ones(N), up]) - np.column_stack([np.ones(N), down])) / 2e-5
        scale = y.std(ddof=1) / X[:, effect.column].std(ddof=1)
    else:
        up, down = Z.copy(), Z.copy()
        up[:, effect.column], down[:, effect.column] = Z[:, effect.column].max(), Z[:, effect.column].min()
        V = rho @ (k(up) - k(down))
        ell = rho @ (np.column_stack([np.ones(N), up]) - np.column_stack([np.ones(N), down]))
        scale = y.std(ddof=1)

    def proj(lam):
        Gi = np.linalg.inv(K + lam * np.eye(N))
        M = np.linalg.inv(H.T @ Gi @ H)
        return Gi, M, Gi - Gi @ H @ M @ H.T @ Gi

    Gi, M, P = proj(mu)
    W = P @ V + Gi @ H @ M @ ell
    P = proj(lam)[2]
    loo = P @ u / np.diag(P)
    return (
        scale * (W @ u),
        scale * np.sqrt(np.sum((W * loo) ** 2)),
        scale * (V @ np.linalg.solve(K + lam * np.eye(N), u)),
    )


def test_equals_dense_evaluation_with_the_weights_of_the_group(smooth, rng):
    X, y = smooth(40)
    model = KRLS().fit(X, y)
    labels = rng.integers(0, 3, 40)
    found = model.effects(by=labels)
    assert found.keys == ("term", "group")
    for e, effect in enumerate(model._effects):
        for g in range(3):
            rho = (labels == g) / np.sum(labels == g)
            estimate, error, plain = dense(model, X, y, effect, rho, model.penalty_ / 10, model.penalty_)
            row = 3 * e + g
            assert found["estimate"][row] == pytest.approx(estimate, rel=1e-6)
            assert found["std_error"][row] == pytest.approx(error, rel=1e-6)
            assert found["plug_in"][row] == pytest.approx(plain, rel=1e-6)
            own = model.pointwise_effects_[labels == g, e].mean()
            assert found["plug_in"][row] == pytest.approx(own, rel=1e-8)
    np.testing.assert_array_equal(found["rows"][:3], np.bincount(labels))


def test_groups_average_to_the_whole(people, rng):
    X, y = people
    model = KRLS().fit(X, y, cluster=rng.integers(0, 20, len(y)))
    by = model.effects(by="arm")
    n, E = by["rows"].reshape(-1, 3), len(model.effect_names_)
    np.testing.assert_allclose((n * by["estimate"].reshape(-1, 3)).sum(1) / 120, model.effects()["estimate"], rtol=1e-9)
    A = np.kron(np.eye(E), n[:1] / 120)
    joint = A @ model.effects_covariance(by="arm") @ A.T
    np.testing.assert_allclose(joint, model.effects_covariance(), rtol=1e-8, atol=1e-14)
    assert "CR3" in by.interval


@pytest.mark.parametrize("target", ["sample", "population"])
@pytest.mark.parametrize("kind", ["plain", "weights", "cluster"])
def test_one_group_is_the_whole(people, rng, kind, target):
    X, y = people
    w = rng.uniform(0.5, 2, 120) if kind == "weights" else None
    cluster = rng.integers(0, 20, 120) if kind == "cluster" else None
    model = KRLS().fit(X, y, sample_weight=w, cluster=cluster)
    one, all_ = model.effects(by=np.zeros(120), target=target), model.effects(target=target)
    for name in ("estimate", "plug_in", "p_value", "std_error"):
        np.testing.assert_allclose(one[name], all_[name], rtol=1e-9)


def test_population_adds_the_spread_within_the_group(smooth, rng):
    X, y = smooth(50)
    labels = rng.integers(0, 2, 50)
    model = KRLS().fit(X, y)
    more = model.effects_covariance("population", by=labels) - model.effects_covariance(by=labels)
    for e in range(3):
        for g in range(2):
            delta = model.pointwise_effects_[labels == g, e]
            assert more[2 * e + g, 2 * e + g] == pytest.approx(np.var(delta, ddof=1) / len(delta))
        assert more[2 * e, 2 * e + 1] == pytest.approx(0, abs=1e-12)  # different people


def test_population_of_overlapping_groups_is_joint(smooth):
    X, y = smooth(50)
    model = KRLS().fit(X, y)
    by = {"all": "x0 > -99", "low": "x0 < 0"}
    more = model.effects_covariance("population", by=by) - model.effects_covariance(by=by)
    delta, low = model.pointwise_effects_[:, 1], X[:, 0] < 0
    n = low.sum()
    expected = np.sum((delta - delta.mean())[low] * (delta[low] - delta[low].mean())) / 50 / n
    assert more[2, 3] == pytest.approx(expected * np.sqrt(50 / 49 * n / (n - 1)))


def test_differences_come_from_the_joint_covariance(people):
    X, y = people
    model = KRLS().fit(X, y)
    by, diff = model.effects(by="arm"), model.effects(by="arm", differences=True)
    assert diff.keys == ("term", "arm", "versus")
    assert diff.table.slice(0, 3).select(["arm", "versus"]).to_pylist() == [
        {"arm": "letter", "versus": "control"},
        {"arm": "visit", "versus": "control"},
        {"arm": "visit", "versus": "letter"},
    ]
    C = model.effects_covariance(by="arm")
    age = by["estimate"][:3]
    np.testing.assert_allclose(diff["estimate"][:3], [age[1] - age[0], age[2] - age[0], age[2] - age[1]])
    assert diff["std_error"][2] == pytest.approx(np.sqrt(C[2, 2] + C[1, 1] - 2 * C[1, 2]))
    two = model.effects(by="owner", differences=True)
    np.testing.assert_allclose(two["p_equal"], two["p_value"], rtol=1e-8)  # one difference: the same test


def test_ways_to_name_groups_agree(people):
    X, y = people
    model = KRLS().fit(X, y)
    base = model.effects(by="arm")
    same = [
        model.effects(by=X["arm"]),
        model.effects(by=X[["arm"]]),
        model.effects(by=pl.DataFrame({"arm": X["arm"].to_list()})),
        model.effects(by=pa.chunked_array([X["arm"].to_list()])),
        model.effects(by=X["arm"].to_list()),
        model.effects(by={a: f"arm == '{a}'" for a in ("control", "letter", "visit")}),
    ]
    for other in same:
        np.testing.assert_allclose(other["estimate"], base["estimate"], rtol=1e-9)
        np.testing.assert_allclose(other["std_error"], base["std_error"], rtol=1e-9)
    crossed = model.effects(by=["arm", "owner"])
    assert crossed.keys == ("term", "arm", "owner")
    assert len(crossed) == 4 * 6
    assert crossed["owner"].dtype.kind == "i"


def test_missing_rows_keep_labels_in_place(people):
    X, y = people
    y = y.astype(float)
    y.iloc[:10] = np.nan
    labels = np.where(np.arange(120) % 2, "odd", "even")
    one = KRLS(missing="drop").fit(X, y).effects(by=labels)
    two = KRLS().fit(X.iloc[10:], y.iloc[10:]).effects(by=labels[10:])
    np.testing.assert_allclose(one["estimate"], two["estimate"], rtol=1e-8)


def test_slices_of_the_covariate_are_noted(people):
    X, y = people
    model = KRLS().fit(X, y)
    young = {"young": "age < 40", "old": "age >= 40"}
    for by in (young, np.where(X["age"] < 40, "a", "b")):
        assert any("slices of 'age'" in w for w in model.effects(by=by).warnings)
    for by in ("arm", "owner", None):
        assert not any("slices" in w for w in model.effects(by=by).warnings)


def test_bad_groups_are_refused(people, rng):
    X, y = people
    model = KRLS().fit(X, y)
    for by in ("amr", [1, 2, 3], {"none": "age > 200"}, pd.DataFrame({"rows": X["arm"]}), 3, [None, *X["arm"][1:]]):
        with pytest.raises(InputError):
            model.effects(by=by)
    for by in (None, np.zeros(120)):
        with pytest.raises(InputError):
            model.effects(by=by, differences=True)
    x = rng.normal(size=(210, 1))  # a group each
    with pytest.raises(InputError):
        KRLS(penalty=1.0).fit(x, x[:, 0] + rng.normal(size=210)).effects(by="x0")
