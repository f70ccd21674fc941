"""The health survey of 2016, diabetes hidden: clusters, ridge and target are chosen without it, as the study does."""

import importlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crosslevel.imputation.cudia.estimator import CUDIA

STUDY = Path(__file__).parents[3] / "studies" / "cudia_variants"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDY))
    return importlib.import_module("variants")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*groups only:crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize(("level", "naive", "least"), [("division", -0.38758, -0.3750), ("state", -0.38637, -0.3666)])
def test_diabetes_hidden(study, real_data, level, naive, least):
    people = pq.read_table(real_data / "brfss2016" / "brfss2016_division.parquet").to_pandas()
    tried, y, means = study.hidden(people, "diabetes", level)
    assert len(y) == 275_334
    assert study.log_likelihood(y, means) == pytest.approx(naive, abs=1e-4)
    chosen = tried.simplest
    found = tried.two_stage(chosen.n_clusters, chosen.ridge, chosen.target)
    assert tried.score(y, found) >= least
    if chosen.target == "mean":  # what the library fits with these settings
        whole = people.dropna(subset=[*study.COLUMNS, "diabetes"])
        X = {c: whole[c].to_numpy(int) for c in study.COLUMNS}
        model = CUDIA(chosen.n_clusters, method="two_stage", ridge=chosen.ridge)
        known, places = study.nouns(X, whole[level].astype(str).to_numpy(), tried.problem.blocks[0].S[:, 0])
        p = model.fit(known, places).transform(known)["u"].to_numpy()
        assert study.log_likelihood(y, p) == pytest.approx(tried.score(y, found), abs=1e-9)
