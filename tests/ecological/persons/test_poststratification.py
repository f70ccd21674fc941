"""What a survey says by itself, and shifted to the totals, against other ways to the same numbers."""

import itertools

import numpy as np
import pytest
from scipy import optimize, special
from tests.ecological.persons.test_survey import Q, ask, make_tiny

from crosslevel.ecological.persons import poststratification
from crosslevel.ecological.persons.model import cell_logits, parts_at, rates_over
from crosslevel.ecological.persons.poststratification import (
    INTERCEPT_SD,
    USUAL_DF,
    USUAL_SD,
    calibrated_rates,
    direct_rates,
    mrp_rates,
    regress,
)
from crosslevel.ecological.persons.sweeps import place_effects

STATES = np.arange(Q) % 3
PEOPLE = np.linspace(1.0, 2.0, Q)


@pytest.fixture(scope="module")
def tiny():
    return make_tiny()


@pytest.fixture(scope="module")
def rows(tiny):
    return ask(tiny, 60, seed=4)


@pytest.fixture(scope="module")
def found(tiny, rows):
    return regress(tiny.kinds, rows, (STATES,))


def design(tiny, rows):
    """Marks of intercept, levels, pairs and states, written out."""
    X = np.zeros((len(rows), 1 + 5 + 6 + 3))
    for r, (kind, place) in enumerate(zip(rows.kind, rows.place, strict=True)):
        a, b = tiny.levels[kind]
        X[r, [0, 1 + a, 4 + b, 6 + 2 * a + b, 12 + STATES[place]]] = 1.0
    return X


def variances(sds):
    return np.concatenate([[INTERCEPT_SD**2], *(np.full(n, s**2) for n, s in zip((3, 2, 6, 3), sds, strict=True))])


def test_the_mode_is_where_another_search_finds_it(tiny, rows, found):
    X, prior = design(tiny, rows), variances(found.sds)

    def loss(phi):
        zeta = X @ phi
        value = rows.trials @ np.logaddexp(0, zeta) - rows.successes @ zeta + 0.5 * (phi**2 / prior).sum()
        return value, X.T @ (rows.trials * special.expit(zeta) - rows.successes) + phi / prior

    best = optimize.minimize(loss, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.phi, best.x, atol=2e-5)
    p = special.expit(X @ found.phi)
    H = (X * (rows.trials * p * (1 - p))[:, None]).T @ X + np.diag(1 / prior)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(H), atol=1e-8)


def test_scales_are_those_of_the_largest_evidence(tiny, rows, found):
    X = design(tiny, rows)

    def evidence(sds):
        prior = variances(sds)
        phi = found.phi.copy()
        for _ in range(30):
            p = special.expit(X @ phi)
            H = (X * (rows.trials * p * (1 - p))[:, None]).T @ X + np.diag(1 / prior)
            phi += np.linalg.solve(H, X.T @ (rows.successes - rows.trials * p) - phi / prior)
        zeta = X @ phi
        fit = rows.successes @ zeta - rows.trials @ np.logaddexp(0, zeta) - 0.5 * (phi**2 / prior).sum()
        weak = -USUAL_DF * (np.log(sds) + 0.5 * (USUAL_SD / np.asarray(sds)) ** 2).sum()
        return fit - 0.5 * np.linalg.slogdet(H)[1] - 0.5 * np.log(prior).sum() + weak

    best = evidence(found.sds)
    for j, factor in itertools.product(range(4), (0.7, 1.4)):
        moved = found.sds.copy()
        moved[j] *= factor
        assert evidence(moved) < best
    assert found.turns < poststratification.TURNS


@pytest.mark.parametrize("calibrated", [False, True])
def test_groups_are_sums_over_people_and_their_sd_that_of_differences(tiny, found, calibrated):
    codes, cell, place = tiny.kinds.codes, tiny.pairs.cell, tiny.pairs.place
    group = tiny.levels[cell, 0].astype(np.intp)
    weight = PEOPLE[place] * tiny.pairs.weight

    def logits(phi):
        eta = cell_logits(phi[1:12], codes)
        if calibrated:
            eta = eta[cell] + place_effects(tiny.pairs, eta, tiny.rate, special.logit(tiny.rate))[place]
        else:
            eta = phi[0] + eta[cell] + phi[12:][STATES[place]]
        return special.logit(np.bincount(group, weight * special.expit(eta)) / np.bincount(group, weight))

    if calibrated:
        rate, sd = calibrated_rates(found, tiny.kinds, tiny.rate, PEOPLE, group, 3)
    else:
        rate, sd = mrp_rates(found, tiny.kinds, PEOPLE, (STATES,), group, 3)
    np.testing.assert_allclose(special.logit(rate), logits(found.phi), atol=1e-8)
    h = 1e-5
    slopes = np.array([(logits(found.phi + h * e) - logits(found.phi - h * e)) / (2 * h) for e in np.eye(15)]).T
    np.testing.assert_allclose(sd, np.sqrt(np.einsum("ij,jk,ik->i", slopes, found.covariance, slopes)), rtol=1e-5)


def test_groups_that_are_shifted_add_up_to_the_totals(tiny, found):
    group = tiny.levels[tiny.pairs.cell, 1].astype(np.intp)
    rate, _ = calibrated_rates(found, tiny.kinds, tiny.rate, PEOPLE, group, 2)
    people = np.bincount(group, PEOPLE[tiny.pairs.place] * tiny.pairs.weight)
    assert people @ rate == pytest.approx(PEOPLE @ tiny.rate, abs=1e-9)


def test_many_who_answer_alike_give_the_truth(tiny):
    rows = ask(tiny, 200_000, exact=True)
    found = regress(tiny.kinds, rows, (np.arange(Q),))
    group = tiny.levels[tiny.pairs.cell, 0].astype(np.intp)
    truth = parts_at(tiny.kinds, cell_logits(tiny.truth, tiny.kinds.codes), tiny.f, group, 3)
    real = rates_over(truth, PEOPLE, 3).rate
    for one, _ in (
        mrp_rates(found, tiny.kinds, PEOPLE, (np.arange(Q),), group, 3),
        calibrated_rates(found, tiny.kinds, tiny.rate, PEOPLE, group, 3),
    ):
        np.testing.assert_allclose(one, real, atol=1e-3)


@pytest.mark.parametrize(
    ("yes", "asked", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_shares_as_they_answered_have_wilsons_interval(yes, asked, low, high):
    """The examples of Newcombe (1998), Two-sided confidence intervals for the single proportion, table I."""
    successes, trials = np.array([yes / 2, yes / 2, 0.0]), np.array([asked / 4, 3 * asked / 4, 0.0])
    found = direct_rates(successes, trials, np.array([0, 0, 1]), 2, 1.959964)
    assert [v[0] for v in found] == pytest.approx([yes / asked, low, high], abs=5e-5)
    assert np.isnan([v[1] for v in found]).all()


def test_parts_and_groups_move_as_differences_say(tiny):
    group = tiny.levels[tiny.pairs.cell, 0].astype(np.intp)

    def at(theta):
        parts = parts_at(tiny.kinds, *tiny.kinds.at(theta, tiny.rate), group, 3)
        return parts, rates_over(parts, PEOPLE, 3)

    parts, over = at(tiny.truth)
    assert PEOPLE.sum() == pytest.approx(over.people.sum())
    h = 1e-5
    for j in range(11):
        up, down = (at(tiny.truth + s * h * np.eye(11)[j]) for s in (1, -1))
        for one, two, slope in ((up[0], down[0], parts.G), (up[1], down[1], over.G)):
            moved = (special.logit(one.rate) - special.logit(two.rate)) / (2 * h)
            np.testing.assert_allclose(moved, slope[:, j], atol=1e-6)
