from __future__ import annotations

import pyarrow.compute as pc
import pytest

from crosslevel.data.readers import read_county_votes
from crosslevel.errors import CrosslevelWarning, FileError, InputError

MIT = "year,state,state_po,county_name,county_fips,office,candidate,party,candidatevotes,totalvotes,version,mode\n"


def mit(*rows):
    lines = []
    for year, state, po, county, fips, candidate, party, votes, total, mode in rows:
        lines.append(
            f"{year},{state},{po},{county},{fips},US PRESIDENT,{candidate},{party},{votes},{total},20220315,{mode}"
        )
    return MIT + "\n".join(lines) + "\n"


def al(candidate, party, votes, mode="TOTAL", year=2020, fips="1001", total=1000):
    return (year, "ALABAMA", "AL", "AUTAUGA", fips, candidate, party, votes, total, mode)


def ga(candidate, party, votes, mode):
    return (2020, "GEORGIA", "GA", "APPLING", 13001, candidate, party, votes, 900, mode)


@pytest.fixture
def write(tmp_path):
    def write(text, name="votes.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_mit_modes_are_added_up_and_totals_not_counted_twice(write):
    path = write(
        mit(
            al("JOSEPH R BIDEN JR", "DEMOCRAT", 300),
            al("DONALD J TRUMP", "REPUBLICAN", 600),
            al("OTHER", "OTHER", 100),
            ga("JOSEPH R BIDEN JR", "DEMOCRAT", 100, "ADVANCED VOTING"),
            ga("JOSEPH R BIDEN JR", "DEMOCRAT", 50, "ELECTION DAY"),
            ga("JOSEPH R BIDEN JR", "DEMOCRAT", 7, "PROVISIONAL"),
            ga("DONALD J TRUMP", "REPUBLICAN", 400, "ADVANCED VOTING"),
            ga("DONALD J TRUMP", "REPUBLICAN", 200, "ELECTION DAY"),
            ga("DONALD J TRUMP", "REPUBLICAN", 605, "TOTAL"),
        )
    )
    assert read_county_votes(path).to_pylist() == [
        {"fips": "01001", "state": "AL", "county": "AUTAUGA", "year": 2020, "votes_dem": 300, "votes_rep": 600, "votes_total": 1000},
        {"fips": "13001", "state": "GA", "county": "APPLING", "year": 2020, "votes_dem": 157, "votes_rep": 605, "votes_total": 900},
    ]  # fmt: skip


def test_mit_years_offices_and_missing_votes(write):
    path = write(
        mit(
            al("AL GORE", "DEMOCRAT", 10, year=2000, total=30),
            al("GEORGE W. BUSH", "REPUBLICAN", "NA", year=2000, total=30),
            al("JOE", "DEMOCRAT", 20, total=50),
        )
        + "2020,ALABAMA,AL,AUTAUGA,1001,US SENATE,X,DEMOCRAT,999,999,1,TOTAL\n"
    )
    with pytest.warns(CrosslevelWarning):
        table = read_county_votes(path)
    assert table["year"].to_pylist() == [2000, 2020]
    assert table["votes_rep"].to_pylist() == [0, 0]
    assert read_county_votes(path, year=2020)["votes_dem"].to_pylist() == [20]
    with pytest.raises(InputError, match="year="):
        read_county_votes(path, year=2016)


def test_mit_places_without_a_county_code_are_reported(write):
    rows = [
        al("JOE", "DEMOCRAT", 20),
        (2020, "MAINE", "ME", "MAINE UOCAVA", "NA", "JOE", "DEMOCRAT", 5, 9, "TOTAL"),
        (2020, "MISSOURI", "MO", "KANSAS CITY", 2938000, "JOE", "DEMOCRAT", 70, 90, "TOTAL"),
        (2020, "MISSOURI", "MO", "JACKSON", 29095, "JOE", "DEMOCRAT", 30, 40, "TOTAL"),
    ]
    path = write(mit(*rows))
    with pytest.warns(
        CrosslevelWarning,
    ):
        table = read_county_votes(path)
    assert table["fips"].to_pylist() == ["01001", "29095"]
    with pytest.warns(CrosslevelWarning):
        table = read_county_votes(path, recode={"2938000": "29095"})
    assert table.to_pylist()[1]["votes_dem"] == 100
    assert table.to_pylist()[1]["votes_total"] == 130


def test_mit_rows_that_are_repeated_are_refused(write):
    rows = [al("JOE", "DEMOCRAT", 20), al("DON", "REPUBLICAN", 30), al("JOE", "DEMOCRAT", 20)]
    path = write(mit(*rows, al("OLD", "DEMOCRAT", 1, year=2016)))
    with pytest.raises(FileError):
        read_county_votes(path)
    assert read_county_votes(path, year=2016)["votes_dem"].to_pylist() == [1]
    assert read_county_votes(path, year=2020, duplicates="sum")["votes_dem"].to_pylist() == [40]


def test_the_encoding_is_said(write):
    head = "state,fips,county,votes_total,obama12,romney12"
    path = write("")
    path.write_bytes(f"{head}\nNM,35013,Doña Ana,3,1,1\n".encode("latin-1"))
    with pytest.raises(FileError):
        read_county_votes(path)
    assert read_county_votes(path, encoding="latin-1")["county"].to_pylist() == ["Doña Ana"]
    path.write_bytes(f"{head},año\nNM,35013,A,3,1,1,2012\n".encode("latin-1"))
    with pytest.raises(FileError):
        read_county_votes(path)
    with pytest.raises(InputError, match="encoding="):
        read_county_votes(path, encoding="klingon")


def test_the_wide_layout(write):
    head = "state_name,county_fips,county_name,votes_gop,votes_dem,total_votes,diff,per_gop,per_dem,per_point_diff\n"
    row = "Alabama,01001,Autauga County,19838,7503,27770,12335,0.71,0.27,0.44\n"
    path = write(head + row, "2020_US_County_Level_Presidential_Results.csv")
    assert read_county_votes(path).to_pylist() == [
        {
            "fips": "01001", "state": "Alabama", "county": "Autauga County", "year": 2020,
            "votes_dem": 7503, "votes_rep": 19838, "votes_total": 27770,
        }
    ]  # fmt: skip
    older = (
        ",votes_dem,votes_gop,total_votes,per_dem,per_gop,diff,per_point_diff,state_abbr,county_name,combined_fips\n"
    )
    path = write(older + '0,93003.0,130413.0,246588.0,0.37,0.52,"37,410",15.17%,AK,Alaska,2013\n', "results.csv")
    [row] = read_county_votes(path, year=2016).to_pylist()
    assert (row["fips"], row["state"], row["year"], row["votes_rep"]) == ("02013", "AK", 2016, 130413)
    assert read_county_votes(path)["year"].to_pylist() == [None]


def test_its_own_answer_can_be_read_back(write):
    text = "fips,state,county,year,votes_dem,votes_rep,votes_total\n01001,AL,Autauga,2012,1,2,3\n01001,AL,Autauga,2016,2,2,4\n"
    table = read_county_votes(write(text))
    assert table["year"].to_pylist() == [2012, 2016]
    assert table["votes_dem"].to_pylist() == [1, 2]


@pytest.mark.data
def test_the_real_huffpost_file(real_data):
    table = read_county_votes(real_data / "county_votes" / "huffpost_president_2012_county.csv")
    assert table.num_rows == 3_113
    assert table.to_pylist()[0] == {
        "fips": "01001", "state": "AL", "county": "Autauga", "year": 2012,
        "votes_dem": 6363, "votes_rep": 17379, "votes_total": 23973,
    }  # fmt: skip
    # official national totals less Alaska: 65,915,795 - 122,640 and 60,933,504 - 164,676
    assert pc.sum(table["votes_dem"]).as_py() == pytest.approx(65_793_155, abs=5_000)
    assert pc.sum(table["votes_rep"]).as_py() == pytest.approx(60_768_828, abs=5_000)


@pytest.mark.data
def test_a_real_file_of_several_years(real_data):
    path = real_data / "county_votes" / "presidential_county_2008_2024.csv"
    assert read_county_votes(path, year=2024).num_rows == 3_160


WIDE = "fips,state,county,votes_dem,votes_rep,votes_total\n"


@pytest.mark.parametrize("code", ["1", "01000", "0", "1000.0"])
def test_rows_of_a_state_are_no_county(write, code):
    path = write(WIDE + f"{code},AL,Alabama,10,20,30\n1001,AL,Autauga,4,10,14\n1003,AL,Baldwin,6,10,16\n")
    with pytest.warns(CrosslevelWarning):
        assert read_county_votes(path)["fips"].to_pylist() == ["01001", "01003"]


HEAD = "state,fips,county,votes_total,obama12,romney12\n"


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("", {}, FileError),
        (HEAD, {}, FileError),
        ("place,votes\na,1\n", {}, FileError),
        ("County_FIPS,county_fips,votes_dem,votes_gop,total_votes\n01001,48001,1,1,2\n", {}, FileError),
        (HEAD + "AL,01001,A,3,1,1\nAL,01003,B,3,many,1\n", {}, FileError),
        (HEAD + "AL,01001,A,3,1,\n", {}, FileError),
        (HEAD + "AL,01001,A,3,2,2\n", {}, FileError),
        (HEAD + "CT,09001,A,3,1,1\nCT,09001,B,4,2,1\n", {}, FileError),
        (HEAD + "CT,09001,A,3,1,1\n", {"duplicates": "mean"}, InputError),
        (WIDE + "29095,MO,J,1,2,3\n29095,MO,J,1,2,3\n", {"recode": {"2938000": "29095"}}, FileError),
        (mit(al("JOE", "DEMOCRAT", 20)), {"recode": {"2938000": 29095}}, InputError),
        (mit(al("JOE", "DEMOCRAT", 20), al("DON", "REPUBLICAN", 30, year="")), {"year": 2020}, FileError),
        (mit(al("JOE", "D", 20), al("DON", "R", 30)), {}, FileError),
        *(
            (WIDE + f'1001,AL,Autauga,"{votes}",10,3000\n', {}, FileError)
            for votes in ("1,5", "1_5", "12,34", "1e999", "-3")
        ),
    ],
)
def test_what_cannot_be_read_is_refused(write, text, options, error):
    with pytest.raises(error):
        read_county_votes(write(text), **options)


def test_one_county_written_with_and_without_its_zero_is_one(write):
    path = write(mit(al("JOE", "DEMOCRAT", 20), al("DON", "REPUBLICAN", 30, fips="01001")))
    for duplicates in ("error", "sum"):
        assert read_county_votes(path, duplicates=duplicates)["votes_total"].to_pylist() == [1000]


def test_a_states_votes_in_every_county_are_told(write):
    rows = "".join(f"0201{i},AK,borough {i},116454,163387,318608\n" for i in range(3))
    with pytest.warns(CrosslevelWarning):
        read_county_votes(write(WIDE + rows), year=2016)
    read_county_votes(
        write(WIDE + rows.replace("318608", "0").replace("116454", "0").replace("163387", "0")), year=2016
    )
    read_county_votes(write(WIDE + "".join(rows.splitlines(keepends=True)[:2])), year=2016)
