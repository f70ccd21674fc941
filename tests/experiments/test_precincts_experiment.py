"""The study of voting districts, on a made file of two states."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def precincts(experiment):
    return experiment("precincts")


@pytest.fixture
def data(tmp_path, precincts):
    rng = np.random.default_rng(0)
    county = np.repeat([1001, 1003, 1005, 2063, 2013, 2016], 20)
    n = len(county)
    table = pd.DataFrame(
        {"st": np.where(county < 2000, "AL", "AK"), "GEOID20": [f"{c:05d}{i:03d}" for i, c in enumerate(county)]}
    )
    parts = [part for names in precincts.GROUPS.values() for part in names]
    counts = (rng.dirichlet(np.linspace(3, 0.5, len(parts)), n) * 900).astype(int)
    for part, values in zip(parts, counts.T, strict=True):
        table[f"V_20_VAP_NH_{part}"] = values
    rate = 0.3 + 0.5 * counts[:, 2] / counts.sum(axis=1)
    table["E_20_PRES_Dem"] = rng.binomial(500, rate)
    table["E_20_PRES_Rep"] = 500 - table["E_20_PRES_Dem"]
    table.loc[0, ["E_20_PRES_Dem", "E_20_PRES_Rep"]] = 0
    for name in ("precincts", "geometry"):
        (tmp_path / name).mkdir()
    table.to_parquet(tmp_path / precincts.FILE)
    fips = [1001, 1003, 1005, 2261, 2013, 2016]
    where = {"fips": fips, "lon": -80.0 - np.arange(6), "lat": 30.0 + np.arange(6)}
    pd.DataFrame(where).to_csv(tmp_path / "geometry" / "county_centroids.csv", index=False)
    return tmp_path


def test_districts_with_votes_are_fitted(data, precincts):
    found = precincts.whole(data)
    assert found["places"] == 119
    assert found["cells_of_places"] == 6
    assert [row["race"] for row in found["nation"]] == sorted(precincts.GROUPS)
    assert found["effects"]["black"] > found["effects"]["white"]


def test_a_fifth_of_the_districts_is_predicted(data, precincts):
    found = precincts.held_out(data)
    assert found["held_out"] == 24
    assert sum(row["n"] for row in found["by_state"]) == 24
    assert 0.0 < found["rmse"] < found["rmse_of_county_means"]
    assert found["coverage"] > 0.8


def test_collapsed_districts_are_those_of_the_matrix(data, precincts):
    found = precincts.against_exact(data, "AL", [2])
    assert found["collapsed"]["mean_largest_points"] < 1e-6
    assert found["collapsed"]["std_error_largest"] < 1e-8
    assert found["{'inducing_points': 2}"]["mean_rms_points"] < 1.0
