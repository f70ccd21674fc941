"""Columns that are a function of the partition or of another category are refused, and whole groups have no error."""

import numpy as np
import pandas as pd
import pytest

from crosslevel.errors import InputError
from crosslevel.imputation import CUDIA, CrossLevelImputer
from crosslevel.imputation.inputs import dependent_columns

RNG = np.random.default_rng(0)
STATE = np.repeat(np.arange(24), 50)
AGE = RNG.binomial(3, 0.2 + 0.6 * RNG.random(24)[STATE])
DIVISION = np.array(["north", "south", "west"])[STATE % 3]
MEANS = {"state": np.arange(24), "ill": np.bincount(STATE, RNG.random(1200) < 0.1 + 0.2 * AGE) / 50}
X = pd.DataFrame({"age": AGE, "sex": RNG.choice(["f", "m"], 1200)})
PARTITION = pd.Series(STATE, name="state")


@pytest.mark.parametrize("imputer", [CrossLevelImputer(), CUDIA(2, method="two_stage", n_restarts=1)])
@pytest.mark.parametrize("division", [DIVISION, STATE % 3, (STATE % 3).astype(float)])
def test_a_function_of_the_partition_is_refused_with_both_names(imputer, division):
    with pytest.raises(InputError):
        imputer.fit(X.assign(division=division), PARTITION, MEANS)


def test_a_category_of_another_category_is_refused_with_both_names():
    job = RNG.choice(["nurse", "doctor", "smith", "carpenter"], 1200)
    trade = np.where(np.isin(job, ["nurse", "doctor"]), "health", "craft")
    with pytest.raises(InputError):
        CrossLevelImputer().fit(X.assign(trade=trade, job=job), PARTITION, MEANS)
    same = np.char.add("a ", job)
    with pytest.raises(InputError):
        CrossLevelImputer().fit(X.assign(job=job, same=same), PARTITION, MEANS)


def test_what_differs_once_or_says_how_places_differ_is_no_function():
    once = DIVISION.copy()
    once[7] = "west" if once[7] != "west" else "south"
    given = X.assign(division=once, gdp=RNG.random(24)[STATE], band=X["age"] > 1)
    assert dependent_columns(given, PARTITION) == {}
    few = {"sex": ["f", "m", "f", "m"], "age": [1, 2, 1, 2]}
    assert dependent_columns(few, ["a", "b", "a", "b"]) == {}


def test_the_mean_of_whole_groups_is_sure():
    both = pd.DataFrame({"state": STATE, "division": DIVISION})
    model = CrossLevelImputer().fit(X, both, {"state": MEANS})
    for by in ("state", "division"):
        table = model.estimate(by)
        assert (table["std_error"] == 0.0).all()
        np.testing.assert_allclose(table["conf_low"], table["conf_high"], atol=1e-12)
        np.testing.assert_allclose(table["estimate"], table["naive"], atol=1e-12)
    assert (model.estimate("sex")["std_error"] > 1e-3).all()
