"""Does the study of BRFSS hide what it says, score what it imputed, and name what loses?"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.errors import CrosslevelWarning

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def brfss(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("brfss")


@pytest.fixture(scope="module")
def survey():
    """A small survey with the same columns: diabetes goes with age, smoking with nothing."""
    rng = np.random.default_rng(0)
    n = 6000
    state = rng.integers(0, 30, n)
    columns = {
        "state": [f"S{i:02d}" for i in state],
        "division": state // 4 + 1,
        "age_group": 1 + rng.binomial(5, 0.3 + 0.4 * state / 30),
        "bmi_cat": rng.integers(1, 5, n),
        "education": rng.integers(1, 5, n),
        "income": rng.integers(1, 6, n),
        "sex": rng.integers(1, 3, n),
    }
    p = 1 / (1 + np.exp(4 - 0.8 * columns["age_group"]))
    for name in ("diabetes", "heart_disease", "stroke", "arthritis", "kidney_disease", "diff_walk", "poor_health"):
        columns[name] = (rng.random(n) < p).astype(int)
    columns["smoker"] = rng.integers(0, 2, n)
    table = pa.table(columns)
    gaps = np.zeros(n, dtype=bool)
    gaps[:10] = True
    return table.set_column(table.column_names.index("income"), "income", pa.array(columns["income"], mask=gaps))


def test_a_hidden_outcome_keeps_its_complete_cases_and_their_means(brfss, survey):
    data = brfss.hidden(survey, "diabetes", "state")
    assert data.X.column_names == list(brfss.COLUMNS)
    assert len(data.y) == 5990
    means = dict(zip(*(data.means[c].to_pylist() for c in ("state", "hidden")), strict=True))
    own = np.array(data.partition["state"].to_pylist()) == "S07"
    assert means["S07"] == pytest.approx(data.y[own].mean())


def test_scores_cover_and_name_the_losers(brfss, survey, monkeypatch):
    monkeypatch.setattr(brfss, "LARGE", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        found = {"state": brfss.setting_a(survey, "state", ("diabetes", "smoker"), brfss.methods(["link"]))}
    text = brfss.lifts(found, ("diabetes", "smoker"))
    link = found["state"].scores[brfss.LINK]
    assert link.lift[0] > 0.6
    row = next(line for line in text.splitlines() if line.startswith(f"| **{brfss.LINK}**"))
    assert ("smoker" in row.split("|")[7]) == (link.gain[1] < 0)
    assert "| full information |" in text
    cover = found["state"].cover[0]
    assert 0.9 <= cover.one_way <= 1
    assert f"{100 * np.mean([c.one_way for c in found['state'].cover]):.1f}" in brfss.coverage(
        found, ("diabetes", "smoker")
    )


def test_labels_of_another_kind_leave_their_column_out(brfss, survey):
    data = brfss.further_label(survey, "obese", "state")
    assert "bmi_cat" not in data.X.column_names
    assert data.y.mean() == pytest.approx(0.25, abs=0.03)
    assert brfss.further_label(survey, "male", "state").X.column_names == list(brfss.COLUMNS)


def test_setting_b_shows_the_bound(brfss, survey):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        text = brfss.setting_b(survey, ["link"])
    for row in ("saturated x + group", "x + naive group means", "x + imputed: IndividualLink", "x + true values"):
        assert f"| {row} |" in text
