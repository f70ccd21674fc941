"""What is certain of leads, turnout and shares among voters: against every table that has the margins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel import ecological
from crosslevel.ecological.court.polarization import margin, polarization
from crosslevel.ecological.court.voters import among_voters, turnout

OUTCOMES = ("a", "b", "c", "did not vote")


def rows_with(total, columns):
    """Every row of whole numbers with this sum, no entry above its column."""
    for first in itertools.product(*(range(min(total, c) + 1) for c in columns[:-1])):
        last = total - sum(first)
        if 0 <= last <= columns[-1]:
            yield np.array((*first, last))


def tables_of(X, T):
    """Every table of two groups with these margins, (n, 2, C)."""
    return [np.array([first, T - first]) for first in rows_with(int(X[0]), T.astype(int))]


def all_sums(X, T):
    """The distinct sums over units of every choice of tables."""
    sums = {np.zeros((2, T.shape[1])).tobytes(): np.zeros((2, T.shape[1]))}
    for x, t in zip(X, T, strict=True):
        sums = {(s + m).tobytes(): s + m for s in sums.values() for m in tables_of(x, t)}
    return np.array(list(sums.values()))


def units(seed):
    rng = np.random.default_rng(seed)
    inner = rng.integers(0, 3, size=(2, 2, 4))
    inner[0, :, 0] += 1
    if seed % 3 == 0:
        inner[:, :, 2] = 0  # nobody chose c
    if seed % 4 == 0:
        inner[:, 0, :3] = 0  # nobody of the first group voted
    if seed % 5 == 0:
        inner[1, 1] = 0  # a unit of one group
    return inner


def both(X, T, method=ecological.neighborhood):
    return method(counted(dict(zip("xy", X.T, strict=True)), dict(zip(OUTCOMES, T.T, strict=True))))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_attained_by_some_table_and_broken_by_none(seed):
    inner = units(seed)
    X, T = inner.sum(axis=2).astype(float), inner.sum(axis=1).astype(float)
    possible = all_sums(X, T)  # (n, 2, 4)
    result = both(X, T)
    people = X.sum(axis=0)

    lead = margin(result, ("a", "b"))
    leads = (possible[:, :, 0] - possible[:, :, 1]) / people
    assert lead.diagnostics["bounds"] == "sharp"
    np.testing.assert_allclose(lead["lower"], leads.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(lead["upper"], leads.max(axis=0), atol=1e-12)

    voters = possible[:, :, :3].sum(axis=2)
    went = turnout(result)
    np.testing.assert_allclose(went["lower"], (voters / people).min(axis=0), atol=1e-12)
    np.testing.assert_allclose(went["upper"], (voters / people).max(axis=0), atol=1e-12)

    with np.errstate(invalid="ignore"):
        shares = possible[:, :, :3] / voters[:, :, None]
    shares = np.where(voters[:, :, None] > 0, shares, np.nan)
    found = among_voters(result)
    for name, pick in (("lower", np.nanmin), ("upper", np.nanmax)):
        ends = found[name].reshape(2, 3)
        for g in range(2):
            if (voters[:, g] > 0).any():
                np.testing.assert_allclose(ends[g], pick(shares[:, g], axis=0), atol=1e-12)
            else:
                assert np.isnan(ends[g]).all()

    apart = polarization(result, ("x", "y"), abstention=None)
    differences = possible[:, 0] / people[0] - possible[:, 1] / people[1]
    np.testing.assert_allclose(apart["lower"], differences.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(apart["upper"], differences.max(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_several_ways_to_stay_at_home(seed):
    inner = units(seed)
    X, T = inner.sum(axis=2).astype(float), inner.sum(axis=1).astype(float)
    possible = all_sums(X, T)
    voters = possible[:, :, :2].sum(axis=2)
    home = ("c", "did not vote")
    went = turnout(both(X, T), home)
    np.testing.assert_allclose(went["lower"], (voters / X.sum(axis=0)).min(axis=0), atol=1e-12)
    np.testing.assert_allclose(went["upper"], (voters / X.sum(axis=0)).max(axis=0), atol=1e-12)
    found = among_voters(both(X, T), home)
    for g in range(2):
        there = voters[:, g] > 0
        if there.any():
            shares = possible[there, g, :2] / voters[there, g, None]
            np.testing.assert_allclose(found["lower"].reshape(2, 2)[g], shares.min(axis=0), atol=1e-12)
            np.testing.assert_allclose(found["upper"].reshape(2, 2)[g], shares.max(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_units_are_those_of_the_unit_alone(seed):
    inner = units(seed)
    X, T = inner.sum(axis=2).astype(float), inner.sum(axis=1).astype(float)
    keep = X.sum(axis=1) > 0
    whole = among_voters(both(X, T)).units
    for i, unit in enumerate(np.flatnonzero(keep)):
        alone = among_voters(both(X[[unit]], T[[unit]]))
        part = whole.select(unit=int(unit))
        np.testing.assert_allclose(part["lower"], alone["lower"], atol=1e-12, err_msg=str(i))
        np.testing.assert_allclose(part["upper"], alone["upper"], atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_sharp_is_still_valid(seed):
    """Bounds of leads among voters, of midpoints and of selected outcomes hold for every table."""
    inner = units(seed)
    X, T = inner.sum(axis=2).astype(float), inner.sum(axis=1).astype(float)
    possible = all_sums(X, T)
    voters = possible[:, :, :3].sum(axis=2)
    lead = margin(among_voters(both(X, T)), ("a", "b"))
    assert lead.diagnostics["bounds"] == "valid"
    for g in range(2):
        there = voters[:, g] > 0
        if there.any():
            shares = (possible[there, g, 0] - possible[there, g, 1]) / voters[there, g]
            assert lead["lower"][g] <= shares.min() + 1e-12
            assert lead["upper"][g] >= shares.max() - 1e-12
    leads = (possible[:, :, 0] - possible[:, :, 1]) / X.sum(axis=0)
    for result in (both(X, T, ecological.bounds), both(X, T).select(outcome=["a", "b"])):
        some = margin(result, ("a", "b"))
        assert (some["lower"] <= leads.min(axis=0) + 1e-12).all()
        assert (some["upper"] >= leads.max(axis=0) - 1e-12).all()
