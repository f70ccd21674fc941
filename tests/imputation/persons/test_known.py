"""Known rates of subgroups: met by the answers, worth what their errors say, and refused where they cannot be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.imputation.nouns import people_of, places_of, values

from crosslevel.errors import InputError
from crosslevel.imputation import CrossLevelImputer

RNG = np.random.default_rng(4)
PLACE = np.repeat(np.arange(30), 200)
AGE = RNG.binomial(3, 0.35 + 0.3 * (PLACE / 30))
SEX = RNG.choice(["f", "m"], len(PLACE))
# places with old people have less of it for other reasons, so that means of places teach the wrong sign
LOGIT = -2.0 + 1.0 * AGE - 4.0 * (PLACE / 30)
ILL = (RNG.random(len(PLACE)) < 1 / (1 + np.exp(-LOGIT))).astype(float)
PEOPLE = people_of({"age": AGE, "sex": SEX}, PLACE)
MEANS = np.bincount(PLACE, ILL) / 200
TRUE = np.bincount(AGE, ILL) / np.bincount(AGE)
RATES = pd.DataFrame({"age": [0, 1, 2, 3], "hidden": TRUE})


def rates(model, by="age"):
    return np.asarray(model.estimate(by)["estimate"], dtype=float)


def fitted(known=None, **given):
    return CrossLevelImputer(**given).fit(PEOPLE, places_of(MEANS, name="hidden", known_rates=known))


def test_known_rates_repair_what_places_confound():
    without, known = fitted(), fitted(RATES)
    assert np.abs(rates(without) - TRUE).max() > 0.15
    np.testing.assert_allclose(
        rates(known), TRUE, atol=0.02
    )  # the rates of a few hundred people are not sure themselves
    p = values(known, PEOPLE)
    np.testing.assert_allclose(np.bincount(PLACE, p) / 200, MEANS, atol=1e-9)  # the means of places stay as published
    sd = [np.asarray(m.estimate("age", sampling=False)["std_error"], dtype=float) for m in (without, known)]
    assert sd[1][0] < 0.25 * sd[0][0]  # those whose rate the means of places leave open


def test_how_far_answers_follow_is_what_the_errors_say():
    sure, unsure = (fitted(RATES.assign(hidden_se=se)) for se in (1e-4, 10.0))
    np.testing.assert_allclose(rates(sure), TRUE, atol=2e-3)
    np.testing.assert_allclose(rates(unsure), rates(fitted()), atol=1e-3)


def test_the_mode_is_where_the_objective_says():
    """With shifts fixed at those of the fit, moving any slope makes the sum of squares larger: written out here person by person."""
    model = fitted(RATES.assign(hidden_se=0.02))
    h = model.hidden_[0]
    Z = np.column_stack([np.ones(len(AGE)), model.design_.matrix(np.column_stack([AGE, SEX == "m"]).astype(float))])
    reach, t_b = model.design_.reach, 0.45 * np.sqrt(30 / 32)
    v = 1 / (200 * MEANS * (1 - MEANS))

    def logit(p):
        return np.log(p / (1 - p))

    def objective(theta):
        p = 1 / (1 + np.exp(-Z @ theta))
        m = np.bincount(PLACE, p) / 200
        shifted = 1 / (1 + np.exp(-(Z @ theta + h.shift[PLACE])))
        r = np.bincount(AGE, shifted) / np.bincount(AGE)
        places = ((logit(MEANS) - logit(m)) ** 2 / (t_b**2 + v)).sum()
        known = ((logit(TRUE) - logit(r)) ** 2 / (0.02 / (TRUE * (1 - TRUE))) ** 2).sum()
        return places + known + (theta[1:] ** 2 / (0.45 * reach) ** 2).sum() + theta[0] ** 2 / 9

    at = np.r_[h.fit.intercept, h.fit.beta]
    best = objective(at)
    for j in range(len(at)):
        for step in (-1e-3, 1e-3):
            assert objective(at + step * np.eye(len(at))[j]) > best - 1e-9


def test_a_known_number_needs_its_error():
    def fit(known):
        return model.fit(PEOPLE, places_of(np.linspace(1, 2, 30), name="income", known_rates=known))

    known = pd.DataFrame({"sex": ["f", "m"], "income": [1.2, 1.8]})
    model = CrossLevelImputer(family="gaussian", scale=1.0)
    with pytest.raises(InputError):
        fit(known)
    for wrong in (known.assign(income_se=[0.1, np.nan]), known.assign(income=[1.2, np.inf], income_se=0.1)):
        with pytest.raises(InputError):
            fit(wrong)
    found = rates(fit(known.assign(income_se=0.01)), "sex")
    np.testing.assert_allclose(found, [1.2, 1.8], atol=0.02)
