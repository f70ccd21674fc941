"""Does the study of BRFSS hide what it says, score what it imputed, and name what loses?"""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.errors import CrosslevelWarning


@pytest.fixture
def brfss(experiment):
    return experiment("brfss")


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
    cover = found["state"].cover[brfss.LINK]
    assert 0.9 <= cover[0].one_way <= 1
    assert f"{100 * np.mean([c.one_way for c in cover]):.1f}" in brfss.coverage(found, ("diabetes", "smoker"))


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_intervals_of_clusters_alone_are_narrower_and_hold_less(brfss, survey, experiment, monkeypatch):
    cudia = experiment("brfss_cudia")
    monkeypatch.setattr(cudia, "COLUMNS", ("age_group",))
    whole = brfss.hidden(survey, "diabetes", "state")
    data = brfss.Hidden(whole.X.select(["age_group", "bmi_cat"]), whole.partition, whole.y)
    model = cudia.cudia_methods()[cudia.TWO_STAGES]().set_params(n_clusters=2, n_restarts=2)
    model.fit(data.people, data.places)
    wide, narrow = (cudia.share_covered(model.set_params(place_sd=sd), data, 20) for sd in ("auto", 0.0))
    assert wide[1] > 2 * narrow[1]
    assert wide[2] >= narrow[2]


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_halves_are_imputed_from_means_of_other_people(experiment, brfss, survey, monkeypatch):
    disjoint = experiment("brfss_disjoint")
    monkeypatch.setattr(disjoint, "OUTCOMES", ("diabetes",))
    monkeypatch.setattr(disjoint, "LARGE", 20)
    rows, held = disjoint.measure(survey, "state", "disjoint")
    assert [row[0].split(", by")[0] for row in rows] == list(disjoint.SHOWN)
    lift = {row[0].split(", by")[0]: int(row[3]) for row in rows}
    assert lift["naive group mean"] == 0
    assert lift[brfss.LINK] > 40
    assert held[1] == "other people"


@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_a_coefficient_is_drawn_to_zero_unless_the_outcome_is_imputed_with(experiment, survey, monkeypatch):
    regression = experiment("brfss_regression")
    monkeypatch.setattr(regression, "DRAWS", 4)
    columns = survey.column_names
    # kidney disease is diabetes, with a tenth of the answers drawn anew
    y = survey["diabetes"].to_numpy().copy()
    new = np.random.default_rng(1).random(len(y)) < 0.1
    y[new] = np.random.default_rng(2).integers(0, 2, int(new.sum()))
    table = survey.set_column(columns.index("kidney_disease"), "kidney_disease", pa.array(y))
    found = regression.ask(table, "diabetes", "kidney_disease", "state", 0)
    for source in regression.MEANS:
        wrong, right = (found[source, way] for way in regression.WAYS)
        assert wrong.truth == right.truth > 0.8
        assert not wrong.covered
        assert right.estimate > wrong.estimate + 0.1
    sample = regression.chosen(np.repeat([0, 1], [8, 100]), np.random.default_rng(0))
    assert (sample[:8].sum(), sample[8:].sum()) == (2, 25)
