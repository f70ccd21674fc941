"""Does the study of hidden labels leave out what it says, and do its figures hold?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("hidden_labels")


@pytest.fixture
def labels(study):
    return importlib.import_module("hidden_labels_data")


def test_labels_kept_for_a_later_test_are_used_nowhere(labels):
    reserved = {"marital", "lang_not_english", "military"}
    used = set(labels.FEATURES) | set(labels.DIMENSIONS) | set(labels.LABELS)
    used |= {name for label in labels.LABELS.values() for name in label.hidden}
    assert not reserved & used
    assert len(labels.LABELS) >= 18
    assert set(labels.FIVE) <= set(labels.LABELS)


def test_a_label_is_scored_by_what_the_others_taught(study, monkeypatch):
    class Named:
        def __init__(self, label):
            self.label, self.dimensions = label, ()

    seen = []
    monkeypatch.setattr(study, "learn_shrinkage", lambda tasks, errors: seen.append([t.label for t in tasks]) or {})
    monkeypatch.setattr(study, "confounding_of", lambda found, n: n)
    left = study.Left([Named("a"), Named("b"), Named("c")], lambda label: {label, "c"})
    assert left.learnt("a") == (1, {})
    assert left.learnt("c") == (2, {})
    assert seen == [["b"], ["a", "b"]]


def test_averages_count_labels_alike(study):
    scores = {"a": {"all": {"error": 0.01}}, "b": {"all": {"error": 0.03}}, "c": {"all": {"error": np.nan}}}
    assert study.mean(scores, "error") == pytest.approx(0.02)
    assert study.mean(scores, "error", labels=["b"]) == pytest.approx(0.03)


@pytest.mark.slow
@pytest.mark.data
def test_twenty_labels_left_out_are_covered(study, labels, real_data, tmp_path):
    people = tmp_path / "people.parquet"
    labels.write_people(real_data / "us2024" / "persons", people)
    model = study.fitted(people, study.read_regions(real_data), 2)
    tasks = study.hide_labels(model, people, list(labels.LABELS))
    honest = study.Left(tasks, lambda label: {label}).scores(honest=True)
    assert 0.93 <= study.mean(honest, "coverage") <= 0.97
    assert 0.93 <= study.mean(honest, "place_coverage") <= 0.97
    assert study.mean(honest, "width") <= 0.18
    assert study.mean(honest, "score") <= 0.21
    five = list(labels.FIVE)
    assert study.mean(honest, "error", labels=five) <= 0.035
    assert study.mean(honest, "place_rmse", labels=five) <= 0.047
