"""Groups that hold nobody alike are named; clusters and labels after the fit; axes of pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.krls.effects import share_alone


def world(n=300, seed=0, apart=0.0):
    """Age and income; treated are older by ``apart`` standard deviations; the effect is that of age."""
    rng = np.random.default_rng(seed)
    treated = (rng.uniform(size=n) < 0.5).astype(float)
    age = rng.normal(size=n) + apart * treated
    X = pd.DataFrame({"age": age, "income": rng.normal(size=n), "treated": treated})
    return X, np.asarray(0.5 * X["income"] + treated * age + 0.5 * rng.normal(size=n))


def quiet_fit(model, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(*given, **named)


def test_only_groups_that_do_not_overlap_are_said_aloud():
    with pytest.warns(CrosslevelWarning):
        model = cl.KRLS().fit(*world(apart=5.0))
    assert any("overlap little" in w for w in model.effects().warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrosslevelWarning)
        cl.KRLS().fit(*world())


def test_neighbors_are_counted_by_hand():
    """One covariate: a neighbor is within one standard deviation of the arms, here 1.01 of x."""
    x = np.array([0.0, 0.1, 0.2, 0.3, 4.0, 4.1, 0.35, 0.15])
    t = np.array([0, 0, 0, 0, 1, 1, 1, 0.0])
    model = quiet_fit(cl.KRLS(0.1), np.column_stack([x, t]), x)
    effect = next(e for e in model._effects if e.switch is not None)
    assert share_alone(effect, model._model.kernel.Z, model._model.cells.m) == pytest.approx(2 / 8)


def test_factors_are_compared_level_by_level_with_their_reference():
    rng = np.random.default_rng(3)
    arm = np.repeat(["control", "letter", "visit"], 60)
    age = rng.normal(size=180) + np.where(arm == "visit", 6.0, 0.0)
    X = pd.DataFrame({"age": age, "arm": arm})
    model = quiet_fit(cl.KRLS(reference={"arm": "control"}), X, age + rng.normal(size=180))
    letter, visit = (
        share_alone(e, model._model.kernel.Z, model._model.cells.m) for e in model._effects if e.switch is not None
    )
    assert letter < 0.05
    assert visit > 0.9


def test_labels_after_the_fit_are_matched_by_the_index_of_x():
    X, y = world(80)
    X.index = pd.Index([f"p{i}" for i in range(80)])
    half = pd.Series(np.arange(80) % 2, X.index, name="half").to_frame()
    model = quiet_fit(cl.KRLS(), X, y)
    wanted, found = (model.effects(by=labels) for labels in (half, half.sample(frac=1.0, random_state=0)))
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-12)
    with pytest.raises(InputError):
        model.effects(by=half.set_axis([f"q{i}" for i in range(80)]))


def test_pictures_do_not_open_on_two_heaps_of_dots():
    X, y = world(80)
    model = quiet_fit(cl.KRLS(), X[["treated", "age", "income"]], y)
    assert model.plot_effect("treated").get_xlabel() == "age"
    assert model.plot_effect("income").get_xlabel() == "income"
    assert model.plot_effect("treated", along="treated").get_xlabel() == "treated"
