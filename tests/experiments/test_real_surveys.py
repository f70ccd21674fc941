"""Real respondents beside totals: parts that share nobody, the page, and a contextual effect on real people."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning


@pytest.fixture
def study(experiment):
    return experiment("real_surveys")


@pytest.fixture
def records():
    """Four thousand records of twelve states, and an answer that follows from sex and age."""
    rng = np.random.default_rng(0)
    n = 4000
    table = pd.DataFrame({"state": [f"S{i % 12:02d}" for i in range(n)], "weight": rng.uniform(0.5, 2.0, n)})
    table["sex"], table["age"] = rng.integers(1, 3, n), rng.choice(["old", "young"], n)
    table["yes"] = (rng.random(n) < 0.2 + 0.3 * (table.sex == 2) + 0.2 * (table.age == "old")).astype(int)
    return table


def test_totals_people_and_respondents_share_nobody(study, records, monkeypatch):
    records["id"] = np.arange(len(records))
    seen, plain = {}, study.fitted

    def note(people, places, features, **given):
        seen.update(people=set(people.id), survey=set(given["survey"].id), asked=places.asked.sum())
        return plain(people, places, features, **given)

    monkeypatch.setattr(study, "fitted", note)
    rows = pd.DataFrame(list(study.held_apart(records, "yes", ["sex", "age"], [300]))).set_index("method")
    assert not seen["people"] & seen["survey"]
    assert len(seen["survey"]) == 300
    assert len(seen["people"]) == pytest.approx(0.45 * 4000, abs=100)
    assert seen["asked"] < 0.48 * 4000  # Kish's number of the weighted rest
    assert set(rows.index) == set(study.METHODS)
    assert rows.loc["survey and totals", "error"] < rows.loc["totals", "error"]
    assert (rows.groups == 4).all()


@pytest.mark.data
def test_a_contextual_variance_converges_on_real_people(study, real_data):
    """Owners in 45 regions of North Carolina: the variances that sensitivity takes by itself, at the scales of the fit without."""
    from hidden_labels_data import NESTED, write_people

    with tempfile.TemporaryDirectory() as folder:
        write_people(real_data / "us2024" / "persons", Path(folder) / "people.parquet", ["37"])
        people = pq.read_table(Path(folder) / "people.parquet", columns=["region", "weight", "own", *NESTED])
    frame = people.select(["region", "weight", "own"]).to_pandas().astype({"region": str})
    sums = frame.assign(own=frame.weight * frame.own).groupby("region")[["own", "weight"]].sum()
    places = pa.table({"region": sums.index.to_list(), "own": sums.own.to_numpy(), "all": sums.weight.to_numpy()})
    columns = ["age8", "female", "eth5", "educ6"]
    known = cl.People(people, by="region", weight="weight", columns=columns, categorical=columns[1:])
    model = cl.EcologicalInference(spatial=None, n_bins=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.fit(known, cl.Places(places, by="region", successes="own", trials="all"))
        found = model.sensitivity("female", rollup="all", n_draws=60).to_frame("pandas")
    assert sorted(set(found.contextual_variance)) == [0.0, 0.03, 0.1, 0.3]
    assert model.hyperparameters_[0].effect_variance == 0.2
    without = found[found.contextual_variance == 0.0].estimate.to_numpy()
    for value in (0.03, 0.1, 0.3):
        moved = found[found.contextual_variance == value].estimate.to_numpy() - without
        assert (np.abs(moved) > 0).all()
        assert (np.abs(moved) < 0.05).all()
