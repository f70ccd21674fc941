"""The baselines beside LabelProportions, and the scores, on people of whom everything is known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

FILE = Path(__file__).parents[2] / "experiments" / "label_proportions.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("label_proportions", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["label_proportions"] = module
    spec.loader.exec_module(module)
    return module


def test_baselines_learn_the_sign_and_em_is_nearer_to_the_truth(study):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = rng.random(2000) < special.expit(1.5 * x)
    A, bags = np.column_stack([np.ones(2000), x]), np.arange(2000) // 4
    s = np.bincount(bags, y) / 4
    mean, em, full = study.mean_label(A, bags, s)[1], study.em(A, bags, s)[1], study.logistic(A, y.astype(float))[1]
    assert 0 < mean < em < 1.3 * full
    assert mean < 0.6 * full


def test_scores_are_right_on_answers_known_by_hand(study):
    y = np.repeat([0, 1], 50)
    sure = study.scores(y, np.column_stack([1 - y, y]).astype(float))
    assert sure["auc"] == 1.0
    assert sure["loss"] < 1e-5
    half = study.scores(y, np.full((100, 2), 0.5))
    assert half["auc"] == 0.5
    assert half["loss"] == pytest.approx(np.log(2))
    three = study.scores(np.arange(99) % 3, np.full((99, 3), 1 / 3))
    assert three["loss"] == pytest.approx(np.log(3))


def test_tables_count_best_and_tied(study):
    score = {"auc": 0.8, "loss": 0.5, "off": 0.01, "seconds": 1.0}
    one = {
        "task": "t",
        "kind": "8",
        "assignment": "random",
        "bags": 9,
        "LabelProportions": score,
        "EM": score | {"auc": 0.801, "loss": 0.6},
    }
    worse = one | {"mean label": score, "LabelProportions": score | {"loss": 0.51}}
    wins = study.tables([one | {"mean label": score}, worse])["wins"].splitlines()
    assert wins[-1] == "| 8 | 2 | 1 | 2 | random |"
