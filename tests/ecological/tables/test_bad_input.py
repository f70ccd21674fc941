"""Every method on input that is wrong, thin or strange: a sane answer, or a sentence that names what to mend."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crosslevel import ecological
from crosslevel.errors import InputError

METHODS = {
    "bounds": ecological.bounds,
    "neighborhood": ecological.neighborhood,
    "homogeneous": ecological.homogeneous,
    "goodman": ecological.goodman,
    "bounded goodman": lambda x, t=None, **o: ecological.goodman(counted(x, t), bounded=True, **o),
    "rxc_em": ecological.rxc_em,
    "rxc": ecological.rxc,
    "compare": lambda x, t=None, **o: ecological.compare(counted(x, t), methods=["bounds", "goodman", "rxc_em", "rxc"], **o),
}
REGRESSIONS = {"goodman", "bounded goodman", "compare"}
IN_UNITS = {"bounds", "neighborhood", "rxc_em", "rxc"}
"""Methods whose answer lies inside the bounds of every unit; the others answer with constant rates."""

every_method = pytest.mark.parametrize("name", list(METHODS))


def world(seed=0, n=30, R=3, C=3, size=400):
    rng = np.random.default_rng(seed)
    X = np.array([rng.multinomial(size, p) for p in rng.dirichlet(np.ones(R), n)])
    rates = rng.dirichlet(np.ones(C), R)
    T = np.array([sum(rng.multinomial(k, p) for k, p in zip(row, rates, strict=True)) for row in X])
    return X.astype(float), T.astype(float)


def with_value(value):
    X, T = world()
    X[4, 1] = value
    return X, T


X0, T0 = world()
HALF = np.full((4, 2), 50.0)
REFUSED = {
    "NaN": (*with_value(np.nan), {}),
    "infinity": (*with_value(np.inf), {}),
    "negative": (*with_value(-3), {}),
    "margins": (*with_value(1e5), {}),
    "no people": (np.zeros((3, 2)), np.zeros((3, 2)), {}),
    "one group": (X0.sum(axis=1, keepdims=True), T0, {}),
    "one outcome": (X0, T0.sum(axis=1, keepdims=True), {}),
    "shares": (X0 / 400, T0 / 400, {}),
    "outcome shares": (X0, T0 / 400, {}),
    "percentages": (X0 / 4, T0 / 4, {}),
    "repeated names": (HALF, HALF, {"units": ["a", "b", "a", "c"]}),
    "missing names": (HALF, HALF, {"units": ["a", None, "b", "c"]}),
    "mixed names": (HALF, HALF, {"units": ["1", 1, 2, 3]}),
    "few names": (HALF, HALF, {"units": ["a"]}),
    "one name": (HALF, HALF, {"units": "uv"}),
    "different lengths": (X0, T0[:-1], {}),
    "one dimension": (X0[:, 0], T0, {}),
    "three dimensions": (X0[None], T0, {}),
    "texts": ({"a": ["x"], "b": ["y"]}, {"y": [1], "n": [2]}, {}),
    "empty array": (np.zeros((0, 2)), np.zeros((0, 2)), {}),
    "empty frame": (pd.DataFrame(), pd.DataFrame(), {}),
    "frame without columns": (pd.DataFrame(index=range(3)), pd.DataFrame(index=range(3)), {}),
    "no outcomes": (X0, None, {}),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_no_table_is_refused(case):
    X, T, options = REFUSED[case]
    with pytest.raises(InputError):
        counted(X, T, **options).tables


@every_method
def test_every_method_checks_its_table(name):
    X, T, _ = REFUSED["NaN"]
    with pytest.raises(InputError):
        METHODS[name](X, T)


def edge(case):
    """Tables that are thin or strange, but mean something."""
    X, T = world()
    if case == "empty units":
        X[[3, 7]], T[[3, 7]] = 0, 0
    elif case == "a unit of one group":
        X[0], X[1] = [400, 0, 0], [0, 0, 400]
    elif case == "only units of one group":
        X = 400 * np.eye(3)[np.arange(30) % 3]
    elif case == "an outcome nobody has":
        T = np.column_stack([T, np.zeros(30)])
    elif case == "everybody has one outcome":
        T = np.column_stack([X.sum(axis=1), np.zeros(30)])
    elif case == "huge":
        X, T = X * 2.5e6, T * 2.5e6
    elif case == "one huge unit":
        X[0], T[0] = X[0] * 2.5e6, T[0] * 2.5e6
    elif case == "tiny":
        X, T = world(size=3)
    elif case == "one person each":
        X, T = np.eye(2)[np.arange(12) % 2], np.eye(2)[np.arange(12) // 3 % 2]
    elif case == "many options":
        X, T = world(n=60, R=8, C=8)
    elif case == "rounded":
        T *= 1 + 4e-7
    return X, T


def check_sane(found, X, T, name):
    """Finite where there are people, adding up, inside the bounds where the method promises it."""
    keep = X.sum(axis=1) > 0
    X, T = X[keep], T[keep]
    R, C, people = X.shape[1], T.shape[1], X.sum(axis=0)
    if name == "compare":
        assert set(found["method"]) == {"bounds", "goodman", "rxc_em", "rxc"}
        assert np.isfinite(found["estimate"].reshape(R, C, -1)[people > 0]).all()
        return
    shares, counts = found["estimate"].reshape(R, C), found["count"].reshape(R, C)
    there = people > 0
    if name == "homogeneous":
        there = there & (found["units_used"].reshape(R, C)[:, 0] > 0)
    assert np.isnan(shares[~there]).all()
    assert np.isfinite(shares[there]).all()
    if name != "bounds":
        np.testing.assert_allclose(shares[there].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(counts[there].sum(axis=1), people[there], rtol=1e-6)
    if name in ("neighborhood", "rxc_em", "rxc"):
        np.testing.assert_allclose(counts.sum(axis=0), T.sum(axis=0), rtol=1e-6, atol=1e-7 * T.sum())
    if name not in ("goodman", "homogeneous"):
        assert shares[there].min() >= 0
        assert shares[there].max() <= 1 + 1e-9
    if name in IN_UNITS:
        for answer in (found, found.units):
            said = np.isfinite(answer["estimate"])
            assert (answer["estimate"] >= answer["lower"] - 1e-6)[said].all()
            assert (answer["estimate"] <= answer["upper"] + 1e-6)[said].all()
    if found.level is not None:
        assert (found["conf_low"] <= found["estimate"] + 1e-12)[np.repeat(there, C)].all()
        assert (found["conf_high"] >= found["estimate"] - 1e-12)[np.repeat(there, C)].all()


EDGES = (
    "plain",
    "empty units",
    "a unit of one group",
    "only units of one group",
    "an outcome nobody has",
    "everybody has one outcome",
    "huge",
    "one huge unit",
    "tiny",
    "one person each",
    "many options",
    "rounded",
)


@every_method
@pytest.mark.parametrize("case", EDGES)
def test_thin_and_strange_tables_are_answered(name, case):
    X, T = edge(case)
    found = METHODS[name](X, T)
    check_sane(found, X, T, name)
    assert any("2 unit(s) without people" in w for w in found.warnings) == (case == "empty units")


NOT_TOLD_APART = {
    "one unit": (X0[:1], T0[:1]),
    "no more units than groups": (X0[:3], T0[:3]),
    "one composition": (np.tile(X0[:1], (30, 1)), T0),
    "a group without people": (np.column_stack([X0, np.zeros(30)]), T0),
}


@every_method
@pytest.mark.parametrize("case", list(NOT_TOLD_APART))
def test_groups_that_cannot_be_told_apart_are_answered_or_refused(name, case):
    X, T = NOT_TOLD_APART[case]
    if name in REGRESSIONS:
        with pytest.raises(InputError) as caught:
            METHODS[name](X, T)
        assert str(caught.value).startswith("methods='goodman'") == (name == "compare")
        return
    check_sane(METHODS[name](X, T), X, T, name)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "compare"])
def test_ten_thousand_units_are_answered(name):
    X, T = world(n=10_000, R=2, C=2, size=100)
    check_sane(METHODS[name](X, T), X, T, name)


@every_method
def test_checked_tables_are_taken_as_they_are(name):
    X, T = world()
    X[5], T[5] = 0, 0
    tables = counted(X, T, units=[f"u{i}" for i in range(30)]).tables
    found, plain = METHODS[name](tables), METHODS[name](X, T)
    np.testing.assert_array_equal(found["estimate"], plain["estimate"])
    assert found.warnings == tuple(w.replace("(5)", "('u5')") for w in plain.warnings)
    with pytest.raises(InputError, match="outcomes="):
        METHODS[name](tables, T)
    with pytest.raises(InputError, match="units="):
        METHODS[name](tables, units=list("abc"))


def test_every_note_stands_once_among_the_warnings_of_a_comparison():
    X, T = world()
    T[2] = 0
    T[2, 0] = 390
    tables = counted(X, T, balance="scale", merge_below=0.01).tables
    found = ecological.compare(tables, methods=["bounds", "goodman", "rxc"])
    for note in tables.notes:
        assert list(found.warnings).count(note) == 1
        assert not any(note in w and w != note for w in found.warnings)


def test_rows_that_go_with_units_follow_the_checked_tables():
    X, T = world()
    X[5], T[5] = 0, 0
    tables, weights = counted(X, T).tables, np.arange(1.0, 31)
    kept = np.delete(weights, 5)
    found = ecological.goodman(tables, weights=kept)
    np.testing.assert_allclose(
        found["estimate"], ecological.goodman(counted(np.delete(X, 5, 0), np.delete(T, 5, 0)), weights=kept)["estimate"]
    )
    np.testing.assert_array_equal(ecological.goodman(counted(X, T), weights=weights)["estimate"], found["estimate"])
    with pytest.raises(InputError):
        ecological.goodman(tables, weights=weights)
    pool = np.repeat(["north", "south"], 15)
    from_tables, raw = ecological.rxc(tables, pool=np.delete(pool, 5)), ecological.rxc(counted(X, T), pool=pool)
    np.testing.assert_array_equal(from_tables["estimate"], raw["estimate"])
    with pytest.raises(InputError):
        ecological.rxc(tables, pool=pool)
