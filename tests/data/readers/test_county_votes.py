from __future__ import annotations

import pyarrow.compute as pc
import pytest

from crosslevel.data.readers import read_county_votes
from crosslevel.errors import CrosslevelWarning, FileError, InputError

MIT = "year,state,state_po,county_name,county_fips,candidate,party,candidatevotes,totalvotes,mode,office\n"
WIDE = "fips,state,county,votes_dem,votes_rep,votes_total\n"
HUFFPOST = "state,fips,county,votes_total,obama12,romney12\n"


def mit(*rows):
    return MIT + "".join(f"{','.join(map(str, row))},US PRESIDENT\n" for row in rows)


def al(candidate, party, votes, mode="TOTAL", year=2020, fips="1001", total=1000):
    return (year, "ALABAMA", "AL", "AUTAUGA", fips, candidate, party, votes, total, mode)


def ga(candidate, party, votes, mode):
    return (2020, "GEORGIA", "GA", "APPLING", 13001, candidate, party, votes, 900, mode)


def mo(place, fips, votes, total):
    return (2020, "MISSOURI", "MO", place, fips, "JOE", "DEMOCRAT", votes, total, "TOTAL")


@pytest.fixture
def write(tmp_path):
    def write(text, name="votes.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_modes_are_added_up_and_totals_not_counted_twice(write):
    path = write(
        mit(
            *(al("JOE", "DEMOCRAT", 300), al("DON", "REPUBLICAN", 600, fips="01001"), al("OTHER", "OTHER", 100)),
            *(
                ga("JOE", "DEMOCRAT", n, mode)
                for n, mode in ((100, "ADVANCED"), (50, "ELECTION DAY"), (7, "PROVISIONAL"))
            ),
            *(
                ga("DON", "REPUBLICAN", n, mode)
                for n, mode in ((400, "ADVANCED"), (200, "ELECTION DAY"), (605, "TOTAL"))
            ),
        )
    )
    assert read_county_votes(path).to_pylist() == [
        {"fips": "01001", "state": "AL", "county": "AUTAUGA", "year": 2020, "votes_dem": 300, "votes_rep": 600, "votes_total": 1000},
        {"fips": "13001", "state": "GA", "county": "APPLING", "year": 2020, "votes_dem": 157, "votes_rep": 605, "votes_total": 900},
    ]  # fmt: skip


def test_years_offices_and_votes_that_are_not_said(write):
    gore = [al("GORE", "DEMOCRAT", 10, year=2000, total=30), al("BUSH", "REPUBLICAN", "NA", year=2000, total=30)]
    senate = "2020,ALABAMA,AL,AUTAUGA,1001,X,DEMOCRAT,999,999,TOTAL,US SENATE\n"
    path = write(mit(*gore, al("JOE", "DEMOCRAT", 20, total=50)) + senate)
    table = read_county_votes(path)
    assert table["year"].to_pylist() == [2000, 2020]
    assert table["votes_rep"].to_pylist() == [None, None]
    assert read_county_votes(path, year=2020)["votes_dem"].to_pylist() == [20]
    with pytest.raises(InputError):
        read_county_votes(path, year=2016)


def test_places_without_a_county_code_are_told(write):
    maine = (2020, "MAINE", "ME", "MAINE UOCAVA", "NA", "JOE", "DEMOCRAT", 5, 9, "TOTAL")
    with pytest.warns(CrosslevelWarning):
        table = read_county_votes(write(mit(maine, mo("KANSAS CITY", 2938000, 70, 90), mo("JACKSON", 29095, 30, 40))))
    assert table["county"].to_pylist() == ["JACKSON"]
    assert table["votes_dem"].to_pylist() == [30]
    for code in ("1", "01000", "0", "1000.0"):
        path = write(WIDE + f"{code},AL,Alabama,10,20,30\n1001,AL,Autauga,4,10,14\n1003,AL,Baldwin,6,10,16\n")
        with pytest.warns(CrosslevelWarning):
            assert read_county_votes(path)["fips"].to_pylist() == ["01001", "01003"]


def test_the_wide_layouts(write):
    head = "state_name,county_fips,county_name,votes_gop,votes_dem,total_votes,diff,per_gop,per_dem,per_point_diff\n"
    path = write(head + "Alabama,01001,Autauga County,19838,7503,27770,12335,0.71,0.27,0.44\n")
    assert list(read_county_votes(path, year=2020).to_pylist()[0].values()) == [
        *("01001", "Alabama", "Autauga County", 2020),
        *(7503, 19838, 27770),
    ]
    older = (
        ",votes_dem,votes_gop,total_votes,per_dem,per_gop,diff,per_point_diff,state_abbr,county_name,combined_fips\n"
    )
    path = write(older + '0,93003.0,130413.0,246588.0,0.37,0.52,"37,410",15.17%,AK,Alaska,2013\n')
    [row] = read_county_votes(path).to_pylist()
    assert (row["fips"], row["state"], row["year"], row["votes_rep"]) == ("02013", "AK", None, 130413)
    own = "fips,state,county,year,votes_dem,votes_rep,votes_total\n01001,AL,A,2012,1,2,3\n01001,AL,A,2016,2,2,4\n"
    table = read_county_votes(write(own))
    assert table["year"].to_pylist() == [2012, 2016]
    assert table["votes_dem"].to_pylist() == [1, 2]


@pytest.mark.data
def test_the_real_huffpost_file(real_data):
    table = read_county_votes(real_data / "county_votes" / "huffpost_president_2012_county.csv", year=2012)
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


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("", None),
        ("place,votes\na,1\n", None),
        ("County_FIPS,county_fips,votes_dem,votes_gop,total_votes\n01001,48001,1,1,2\n", None),
        (HUFFPOST + "AL,01001,A,3,1,1\nAL,01003,B,3,many,1\n", None),
        (mit(al("JOE", "DEMOCRAT", 20), al("JOE", "DEMOCRAT", 20)), None),
        (mit(al("JOE", "DEMOCRAT", 20), al("DON", "REPUBLICAN", 30, year="")), 2020),
        *((WIDE + f'1001,AL,Autauga,"{votes}",10,3000\n', None) for votes in ("1,5", "1_5", "12,34", "1e999", "1.5")),
    ],
)
def test_what_cannot_be_read_is_refused(write, text, year):
    with pytest.raises((FileError, InputError)):
        read_county_votes(write(text), year)
