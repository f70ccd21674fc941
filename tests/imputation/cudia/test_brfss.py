"""The health survey of 2016, diabetes hidden: clusters, ridge and target are chosen without it."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from crosslevel.imputation.cudia.estimator import CUDIA

COLUMNS = ["age_group", "bmi_cat", "education", "income"]


@pytest.fixture
def people(real_data):
    table = pq.read_table(real_data / "brfss2016" / "brfss2016_division.parquet").to_pandas()
    return table.dropna(subset=[*COLUMNS, "diabetes"])


def score(y, p):
    p = np.clip(p, 0.001, 0.999)
    return float(np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*groups only:crosslevel.errors.CrosslevelWarning")
@pytest.mark.parametrize(("level", "naive", "least"), [("division", -0.38758, -0.3750), ("state", -0.38637, -0.3666)])
def test_diabetes_hidden(people, level, naive, least):
    y = people["diabetes"].to_numpy(dtype=float)
    X = {c: people[c].to_numpy(dtype=int) for c in COLUMNS}
    place = people[level].astype(str).to_numpy()
    _, group = np.unique(place, return_inverse=True)
    means = np.bincount(group, y) / np.bincount(group)
    assert len(y) == 275_334
    assert score(y, means[group]) == pytest.approx(naive, abs=1e-4)
    model = CUDIA("auto", method="two_stage").fit(X, place, means)
    assert score(y, model.transform(X, place)[:, 0]) >= least
