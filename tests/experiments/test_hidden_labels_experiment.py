"""Does the study of hidden labels leave out what it says, and do its figures hold?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons.groups import Allowance


@pytest.fixture
def study(experiment):
    return experiment("hidden_labels")


@pytest.fixture
def labels(experiment):
    return experiment("hidden_labels_data")


def test_the_label_kept_for_a_later_test_is_used_nowhere(labels):
    used = set(labels.FEATURES) | set(labels.DIMENSIONS) | set(labels.LABELS) | set(labels.READ)
    used |= {name for label in labels.LABELS.values() for name in label.hidden}
    assert "military" not in used
    assert {"life cycle", "language"} <= set(labels.FAMILIES)
    assert len(labels.DEVELOPMENT) == 16
    assert set(labels.FIVE) | set(labels.DEVELOPMENT) <= set(labels.LABELS)


class Learner:
    """Labels whose constants tell which labels taught them."""

    def __init__(self):
        self.labels = {"own": (), "free": (), "ba": ()}
        self.families = {"own": "home", "free": "home", "ba": "education"}
        self.shrinkage = {"eth5": 0.45}

    def others(self, label):
        return [name for name in self.labels if self.families[name] != self.families[label]]

    def learn(self, names):
        return Allowance(replace(SHIPPED, n_labels=len(names), learned_on=" ".join(names)), {})

    def scores(self, label, allowance, level):
        return {"by": allowance.confounding.learned_on, "level": level}


def test_a_label_is_scored_by_what_other_families_taught(study):
    learned = study.scores_of(Learner(), "learned")
    assert {name: s["by"] for name, s in learned.items()} == {"own": "ba", "free": "ba", "ba": "own free"}
    assert learned["own"]["shrunk"] == []
    assert study.scores_of(Learner(), "shipped")["own"]["shrunk"] == ["eth5"]
    alone = study.scores_of(Learner(), "alone")["own"]
    assert (alone["tau"], alone["shrunk"]) == (0.0, [])


def test_people_next_to_one_another_are_a_household(labels, tmp_path):
    n = 6
    raw = {name: np.ones(n) for name in labels.READ if name not in ("region", "lang_not_english", "marital")}
    raw |= {"hh_income": np.array([5.0, 5, 5, 7, 7, 7]), "marital": np.full(n, 5.0), "lang_not_english": np.zeros(n)}
    raw |= {"adult_citizen": np.array([1, 0, 1, 1, 1, 1.0]), "group_quarters": np.array([0, 0, 0, 0, 0, 1.0])}
    raw["tenure"] = np.array([1, 1, 1, 1, 2, 2.0])
    table = pa.table({"region": pa.array(["13001"] * n).dictionary_encode(), **raw})
    pq.write_table(table.select(list(labels.READ)), tmp_path / "p_13.parquet")
    assert labels.write_people(tmp_path, tmp_path / "out.parquet", ["13"]) == 5
    made = pq.read_table(tmp_path / "out.parquet")
    house = made["household"].to_pylist()
    assert house[0] == house[1]
    assert len(set(house)) == 4
    assert made["never"].to_pylist() == [1] * 5
    assert made["otherlang"].to_pylist() == [0] * 5


@pytest.mark.slow
@pytest.mark.data
def test_labels_of_other_families_are_covered(study, labels, real_data, tmp_path):
    people = tmp_path / "people.parquet"
    labels.write_people(real_data / "us2024" / "persons", people, labels.FIFTEEN)
    model = study.fitted(people, study.read_regions(real_data), 2)
    learner = study.hide_labels(model, people, list(labels.DEVELOPMENT))
    learned = study.scores_of(learner, "learned")
    assert study.mean(learned, "error") <= 0.0365
    assert 0.93 <= study.mean(learned, "coverage") <= 0.97
    assert 0.93 <= study.mean(learned, "place_coverage") <= 0.97
    assert 0.93 <= study.mean(learned, "crossing_coverage") <= 0.98
