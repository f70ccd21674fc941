"""Every method on input that is wrong, thin or strange: a sane answer, or a sentence that names what to mend."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.errors import InputError

METHODS = {
    **{
        name: getattr(ecological, name)
        for name in ("bounds", "neighborhood", "homogeneous", "goodman", "rxc_em", "rxc")
    },
    "bounded goodman": lambda counts: ecological.goodman(counts, bounded=True),
    "compare": lambda counts: ecological.compare(counts, methods=["bounds", "goodman", "rxc_em", "rxc"]),
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


X0, T0 = world()


@every_method
def test_every_method_checks_its_table(name):
    gap = X0.copy()
    gap[4, 1] = np.nan
    with pytest.raises(InputError):
        METHODS[name](counted(gap, T0))
    with pytest.raises(InputError):
        METHODS[name]({"g": [1, 2], "h": [2, 1]})


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
    found = METHODS[name](counted(X, T))
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
            METHODS[name](counted(X, T))
        assert str(caught.value).startswith("methods='goodman'") == (name == "compare")
        return
    check_sane(METHODS[name](counted(X, T)), X, T, name)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "compare"])
def test_ten_thousand_units_are_answered(name):
    X, T = world(n=10_000, R=2, C=2, size=100)
    check_sane(METHODS[name](counted(X, T)), X, T, name)


def test_every_note_stands_once_among_the_warnings_of_a_comparison():
    X, T = world()
    T[2] = 0
    T[2, 0] = 390
    counts = counted(X, T, balance="scale")
    found = ecological.compare(counts, methods=["bounds", "goodman", "rxc"])
    for note in counts.tables.notes:
        assert list(found.warnings).count(note) == 1
        assert not any(note in w and w != note for w in found.warnings)


def test_columns_that_go_with_units_follow_them():
    X, T = world()
    X[5], T[5] = 0, 0
    weights, pool = np.arange(1.0, 31), np.repeat(["north", "south"], 15)
    whole, there = counted(X, T, w=weights, place=pool), np.arange(30) != 5
    kept = counted(X[there], T[there], w=weights[there], place=pool[there])
    for ask in (lambda c: ecological.goodman(c, weights="w"), lambda c: ecological.rxc(c, pool="place")):
        np.testing.assert_array_equal(ask(whole)["estimate"], ask(kept)["estimate"])


A = np.arange(30.0)
BESIDE = {"one": np.ones(30), "a": A, "b": 2 * A + 1, "gap": np.where(A == 7, np.nan, A), "minus": A - 1, "none": 0 * A}
BESIDE |= {"text": ["x"] * 30, "place": ["p", "q"] * 15, "nobody": [None] * 30}
LABELS = {"group_0": "a", "outcome_1": "a"}
BAD = {
    "homogeneous": {"threshold": [0.5, True]},
    "rxc_em": {"tol": [0], "max_iterations": [0, 1.5]},
    "goodman": {"weights": ["pop", "minus", "gap", "none", "text", [1, 2]], "level": [95]},
    "car_test": {"weights": ["equl", [1.0]], "n_draws": [10], "random_state": [-1]},
    "compare": {
        "methods": [3, "rxc", [], ["goodmann"], {"rxc": {"pool": "place"}}, {"goodman": {"level": 0.5}, "rxc": {}}]
        + [{"goodman": options} for options in ("equal", {"weigths": "equal"}, {"weights": "pop"})],
    },
    "rxc": {
        "kind": ["vote"],
        "contextual_slope": ["high", 5, (0.3, -0.1), (0.3,)],
        "labels": ["match", {"group_9": "a"}, {"group_0": "a"}],
        "pool": ["distrct", [1, 2], "nobody"],
        "level": [95],
        "random_state": [-1],
    },
    "multinomial_dirichlet": {
        "prior": [(0, 2), (4, "2"), (4,)],
        "contextual_slope": ["some", np.nan, True, (0.3, -0.1)],
        "n_draws": [10.5],
        "level": [95],
    },
    "king": {
        "means": [{"group_0": ["one"]}, {"group_1": ["a", "b"]}, {"group_1": "gap"}, {"group_7": ["a"]}, ["a"]],
        "point": ["median"],
        "prior": [(-1, 0.5, 0.5)],
        "n_draws": [10],
        "level": [95],
        "random_state": [-1],
    },
}


@pytest.mark.parametrize(
    ("method", "argument", "value"), [(m, a, v) for m, own in BAD.items() for a, values in own.items() for v in values]
)
def test_what_no_method_takes_is_refused(method, argument, value):
    counts = counted(*world(R=2, C=2), **BESIDE)
    with pytest.raises(InputError):
        getattr(ecological, method)(counts, **{argument: value})


def test_labels_are_of_two_choices_of_the_same_people():
    with pytest.raises(InputError):
        ecological.rxc(counted(*world(R=2, C=2)), kind="demographic", labels=LABELS)
    for covariates in (np.ones(30), np.random.default_rng(0).normal(size=(30, 12))):
        with pytest.raises(InputError):
            ecological.car_test(counted(*world(R=2, C=2), covariates=covariates))
