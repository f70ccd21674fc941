from __future__ import annotations

import gzip
import zipfile

import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.data.readers import archives, read_acs_pums
from crosslevel.errors import FileError, InputError

ADULT = {
    "RT": "P", "SERIALNO": "2019HU0000001", "DIVISION": "6", "PUMA": "02100", "ST": "01", "PWGTP": "25", "AGEP": "44",
    "CIT": "1", "WKHP": "40", "INDP": "0170", "OCCP": "0010", "NAICSP": "111", "SOCP": "1191XX", "POWSP": "001",
    "POWPUMA": "02190", "PWGTP1": "0", "PWGTP80": "79",
}  # fmt: skip
CHILD = ADULT | {"AGEP": "09"} | dict.fromkeys(("WKHP", "INDP", "OCCP", "NAICSP", "SOCP", "POWSP", "POWPUMA"), "")


def text(*records):
    return "\n".join([",".join(records[0]), *(",".join(r.values()) for r in records)]) + "\n"


ALABAMA = text(ADULT, CHILD)
WYOMING = text(ADULT | {"ST": "56", "PUMA": "00500", "AGEP": "70"})


@pytest.fixture
def alabama(tmp_path):
    path = tmp_path / "psam_p01.csv"
    path.write_text(ALABAMA)
    return path


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.csv", content)
    return path


def test_codes_are_text_blanks_are_null_and_weights_are_numbers(alabama):
    table = read_acs_pums(alabama)
    adult, child = table.to_pylist()
    numbers = {"DIVISION": 6, "PWGTP": 25, "AGEP": 44, "CIT": 1, "WKHP": 40, "PWGTP1": 0, "PWGTP80": 79}
    assert adult == ADULT | numbers | {"puma_id": "0102100"}
    assert child["AGEP"] == 9
    assert [child[c] for c in ("WKHP", "INDP", "NAICSP", "SOCP", "POWSP", "POWPUMA")] == [None] * 6
    assert all(table.schema.field(name).type == pa.int64() for name in numbers)
    blank = read_acs_pums(alabama, where="AGEP < 18")
    assert blank.schema == table.schema
    assert cl.People(table, by="puma_id", weight="PWGTP", cluster="SERIALNO").schema.names == table.column_names


def test_codes_without_zeros_are_padded_and_old_names_are_read(tmp_path):
    path = tmp_path / "ss13pal.csv"
    short = ADULT | {"ST": "1", "PUMA": "100", "INDP": "170", "OCCP": "10", "SERIALNO": "84"}
    rows = text(short, ADULT | {"ST": "1.0", "PUMA": "1400.0"})
    path.write_text(rows.replace(",ST,", ",STATE,").replace("PWGTP1,", "pwgtp1,"))
    people = read_acs_pums(path, ["puma_id", "STATE", "INDP", "OCCP", "SERIALNO", "PWGTP1"], "STATE = '01'").to_pylist()
    assert [tuple(p.values())[:2] for p in people] == [("0100100", "01"), ("0101400", "01")]
    assert tuple(people[0].values())[2:] == ("0170", "0010", "84", 0)


def test_two_vintages_of_pumas_have_an_id_each(tmp_path):
    path = tmp_path / "psam_p01.csv"
    rows = [ADULT | {"PUMA": old, "PUMA20": new} for old, new in (("02100", "-0009"), ("-9", "00301"))]
    path.write_text(text(*rows).replace("PUMA,", "PUMA10,", 1))
    people = read_acs_pums(path, columns=["PUMA10", "puma10_id", "puma20_id"]).to_pylist()
    assert people == [
        {"PUMA10": "02100", "puma10_id": "0102100", "puma20_id": None},
        {"PUMA10": "-0009", "puma10_id": None, "puma20_id": "0100301"},
    ]


def test_archives_and_folders_are_read_in_order_without_households(tmp_path):
    path = zipped(tmp_path / "csv_pus.zip", psam_pusb=WYOMING, psam_pusa=ALABAMA, psam_husa="RT,WGTP\nH,1\n")
    assert read_acs_pums(path, ["ST", "AGEP"])["AGEP"].to_pylist() == [44, 9, 70]
    (tmp_path / "ss16pak.csv.gz").write_bytes(gzip.compress(text(ADULT | {"ST": "02"}).encode()))
    assert read_acs_pums(tmp_path, columns=["ST"])["ST"].to_pylist() == ["01", "01", "56", "02"]
    both = read_acs_pums([tmp_path / "ss16pak.csv.gz", path], columns=["ST"], where="AGEP > 40 and CIT <> 5")
    assert both["ST"].to_pylist() == ["02", "01", "56"]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("psam_h01.csv", "RT,SERIALNO,WGTP\nH,1,2\n", {}),
        ("other.csv", "RT,SERIALNO,WGTP\nH,1,2\n", {}),
        ("other.csv", "", {}),
        ("no.zip", "PK\x03\x04 not a zip", {}),
        ("ragged.csv", ALABAMA + "P,1,2\n", {}),
        ("alike.csv", ALABAMA.replace(",AGEP,", ",pwgtp,", 1), {}),
        ("a.csv", ALABAMA, {"columns": ["agep"]}),
        ("a.csv", ALABAMA, {"where": "AGPE > 3"}),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, content, options):
    (tmp_path / name).write_text(content)
    with pytest.raises((FileError, InputError)):
        read_acs_pums(tmp_path / name, **options)


def test_people_are_not_counted_twice(alabama, tmp_path):
    zipped(tmp_path / "csv_pal.zip", psam_p01=ALABAMA)
    (tmp_path / "psam_p01.csv.gz").write_bytes(gzip.compress(ALABAMA.encode()))
    for path in (tmp_path, [alabama, alabama], [tmp_path / "psam_p01.csv.gz", alabama]):
        with pytest.raises(FileError):
            read_acs_pums(path)


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "UNPACKED", 1 << 20)
    path = zipped(tmp_path / "csv_pal.zip", psam_p01=ALABAMA + "0" * (4 << 20))
    with pytest.raises(FileError):
        read_acs_pums(path)


@pytest.mark.data
def test_a_real_sample(real_data):
    people = read_acs_pums(real_data / "pums_samples" / "us_acs2011_1yr_sample_persons.csv.gz")
    assert people.num_rows > 1_000
    assert set(map(len, people["puma_id"].to_pylist())) == {7}
    assert people["puma_id"][0].as_py() == "0101400"
    assert people["COW"].null_count > 0
