"""Voting districts: one file or population and votes apart; codes stay text, counts are whole."""

from __future__ import annotations

import zipfile

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from crosslevel.data.readers import read_vtd
from crosslevel.data.simulate import vtd
from crosslevel.errors import FileError, InputError


@pytest.fixture
def parts(tmp_path):
    """The two zips of a state, the districts of the second in another order."""
    table = vtd(60, random_state=2)
    people = [c for c in table.column_names if not c.startswith("E_")]
    votes = ["GEOID20", "Name", *(c for c in table.column_names if c.startswith("E_"))]
    files = []
    for kind, columns, rows in (("Demographic", people, range(60)), ("Election", votes, reversed(range(60)))):
        pacsv.write_csv(table.select(columns).take(pa.array(rows)), tmp_path / "data.csv")
        files.append(tmp_path / f"{kind}_Data_GA.v06.zip")
        with zipfile.ZipFile(files[-1], "w") as archive:
            archive.write(tmp_path / "data.csv", f"{kind}_Data_GA.v06.csv")
        (tmp_path / "data.csv").unlink()
    return table, files


def test_population_and_votes_are_joined_by_district(parts):
    table, files = parts
    assert read_vtd(files).equals(table)
    assert read_vtd(files[1]).column_names == ["GEOID20", "Name", *table.column_names[13:]]


def test_csv_and_parquet_hold_the_same(tmp_path):
    table = vtd(30, path=tmp_path / "vtd.csv")
    pq.write_table(table, tmp_path / "vtd.parquet")
    for name in ("vtd.csv", "vtd.parquet"):
        assert read_vtd(tmp_path / name).equals(table)
        assert read_vtd(tmp_path / name, ["E_20_PRES_Dem"]).equals(table.select(["E_20_PRES_Dem"]))


def test_codes_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("GEOID20,Name,E_20_PRES_Dem\n01001000010,007,3\n01001000020,1A,4.0\n")
    assert read_vtd(tmp_path / "a.csv").to_pylist() == [
        {"GEOID20": "01001000010", "Name": "007", "E_20_PRES_Dem": 3},
        {"GEOID20": "01001000020", "Name": "1A", "E_20_PRES_Dem": 4},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "GEOID20,Tot_2020_pres\n1,2\n",
        "precinct,E_20_PRES_Dem\n1,2\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n2,-1\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n2,1.5\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n2,\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n2,many\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n1,2\n",
        "GEOID20,E_20_PRES_Dem\n1,2\n,2\n",
        "GEOID20,E_20_PRES_Dem\n",
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text):
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(FileError):
        read_vtd(file)


def test_files_that_do_not_belong_together_are_refused(parts, tmp_path):
    _, files = parts
    with pytest.raises(FileError):
        read_vtd([files[0], files[0]])
    (tmp_path / "other.csv").write_text("GEOID20,E_24_PRES_Dem\n55001000001,2\n")
    with pytest.raises(FileError):
        read_vtd([files[0], tmp_path / "other.csv"])
    pq.write_table(pa.table({"GEOID20": [1001000010], "E_24_PRES_Dem": [3]}), tmp_path / "number.parquet")
    with pytest.raises(FileError):
        read_vtd(tmp_path / "number.parquet")
    with pytest.raises(FileError, match="path="):
        read_vtd([])
    with pytest.raises(InputError, match="columns="):
        read_vtd(files, ["E_20_PRES_Den"])


@pytest.mark.data
def test_the_real_table_of_georgia(real_data, tmp_path):
    """Totals are those of the publisher's log of the state."""
    file = real_data / "precincts" / "vtd_GA.parquet"
    table = read_vtd(file)
    assert table.num_rows == 2698
    totals = {
        name: sum(table[name].to_pylist()) for name in ("V_20_VAP_NH_Total", "V_20_VAP_NH_BlackAlone", "E_20_PRES_Dem")
    }
    assert totals == {"V_20_VAP_NH_Total": 8_220_274, "V_20_VAP_NH_BlackAlone": 2_462_933, "E_20_PRES_Dem": 2_474_507}
    pacsv.write_csv(pq.read_table(file), tmp_path / "vtd_GA.csv")
    assert read_vtd(tmp_path / "vtd_GA.csv").equals(table)


@pytest.mark.parametrize("code", ["Total", "13", "13001", "1.30010E+10"])
def test_rows_that_are_no_district_are_refused(tmp_path, code):
    file = tmp_path / "a.csv"
    file.write_text(f"GEOID20,E_20_PRES_Dem\n13001000001,2\n13001000002,3\n{code},5\n")
    with pytest.raises(FileError):
        read_vtd(file)


def test_counts_beyond_whole_floats_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("GEOID20,E_20_PRES_Dem\n13001000001,99999999999999999999\n")
    with pytest.raises(FileError):
        read_vtd(tmp_path / "a.csv")
