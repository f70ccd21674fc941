"""Stand-ins for official files: read back by the reader, they give the same numbers; seeds and sizes act."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.data import simulate
from crosslevel.data.readers import read_acs_pums, read_brfss, read_county_votes
from crosslevel.errors import CrosslevelError

MADE = {
    "pums": "n_people",
    "county_votes": "n_counties",
    "brfss": "n_people",
    "ons_ages": "n_areas",
    "vtd": "n_districts",
}


def test_pums_is_read_back(tmp_path):
    made = simulate.pums(500, path=tmp_path / "psam_p01.csv")
    found = read_acs_pums(tmp_path / "psam_p01.csv").to_table()
    assert found.select(made.column_names).to_pylist() == made.to_pylist()
    assert set(found["puma_id"].to_pylist()) == {"0100100", "0100200", "0100301"}
    people = made.to_pandas()
    assert people["WKHP"].isna()[people["AGEP"] < 16].all()
    assert people["SCHL"].isna().equals(people["AGEP"] < 3)
    assert not people.duplicated(["SERIALNO", "SPORDER"]).any()
    assert (people.groupby("SERIALNO")["PUMA"].nunique() == 1).all()


def test_county_votes_are_read_back(tmp_path):
    made = simulate.county_votes(path=tmp_path / "countypres_2000-2020.csv").to_pandas()
    found = read_county_votes(tmp_path / "countypres_2000-2020.csv", year=2020).to_pandas()
    assert list(found["fips"]) == [f"{1001 + 2 * k:05d}" for k in range(67)]
    assert found["votes_dem"].sum() == made.loc[made["party"] == "DEMOCRAT", "candidatevotes"].sum()
    assert found["votes_rep"].sum() == made.loc[made["party"] == "REPUBLICAN", "candidatevotes"].sum()
    assert found["votes_total"].sum() == made["candidatevotes"].sum()


def test_brfss_is_read_back(tmp_path):
    made = simulate.brfss(2000, path=tmp_path / "LLCP2023.XPT")
    found = read_brfss(tmp_path / "LLCP2023.XPT")
    assert found.column_names == made.column_names
    for name in made.column_names:
        np.testing.assert_allclose(found[name].to_numpy(), made[name].to_numpy(), rtol=1e-14)
    people = made.to_pandas()
    ill = people["DIABETE4"] == 1
    assert ill[people["_AGEG5YR"] > 9].mean() > ill[people["_AGEG5YR"] < 5].mean() + 0.03


def test_votes_of_districts_stay_within_their_totals():
    table = simulate.vtd(300).to_pandas()
    groups = [c for c in table if c.startswith("V_20_VAP_NH_") and not c.endswith("Total")]
    assert (table[groups].sum(axis=1) == table["V_20_VAP_NH_Total"]).all()
    assert (table["E_20_PRES_Dem"] + table["E_20_PRES_Rep"] <= table["E_20_PRES_Total"]).all()
    assert (table["E_20_PRES_Total"] <= table["V_20_CVAP_Total"]).all()
    assert table["GEOID20"].is_unique
    assert table["GEOID20"].str.fullmatch(r"13\d{9}").all()


@pytest.mark.parametrize(("name", "size"), MADE.items())
def test_seeds_and_sizes_act(name, size):
    make = getattr(simulate, name)
    assert make(20).equals(make(20))
    assert not make(20).equals(make(20, random_state=1))
    assert make(1).num_rows * 20 == make(20).num_rows
    for wrong in (0, 2.5, "20"):
        with pytest.raises(CrosslevelError):
            make(wrong)
    with pytest.raises(CrosslevelError):
        make(20, path="nowhere/at/all.csv")
