from __future__ import annotations

import gzip
import zipfile

import pyarrow as pa
import pytest

from crosslevel.data.batches import sources
from crosslevel.data.readers import read_acs_pums
from crosslevel.errors import FileError, InputError

REPLICATES = [f"PWGTP{i}" for i in range(1, 81)]


def record(**values):
    """One person as the Census Bureau writes it: blanks where a question does not apply."""
    base = {
        "RT": "P", "SERIALNO": "2019HU0000001", "DIVISION": "6", "SPORDER": "1", "PUMA": "02100", "REGION": "3",
        "ST": "01", "ADJINC": "1010145", "PWGTP": "25", "AGEP": "44", "CIT": "1", "SCHL": "21", "WKHP": "40",
        "PINCP": "30000", "INDP": "0170", "OCCP": "0010", "NAICSP": "111", "SOCP": "1191XX", "POWSP": "001",
        "POWPUMA": "02190",
    }  # fmt: skip
    weights = {name: str(i) for i, name in enumerate(REPLICATES)}
    return {**base, **values, **{k: values.get(k, v) for k, v in weights.items()}}


def text(*records):
    lines = [",".join(records[0]), *(",".join(r.values()) for r in records)]
    return "\n".join(lines) + "\n"


CHILD = record(
    SERIALNO="2019GQ0000002",
    AGEP="09",
    WKHP="",
    SCHL="",
    PINCP="",
    INDP="",
    OCCP="",
    NAICSP="",
    SOCP="",
    POWSP="",
    POWPUMA="",
)
ALABAMA = text(record(), CHILD)
WYOMING = text(record(ST="56", PUMA="00500", AGEP="70"))


@pytest.fixture
def alabama(tmp_path):
    path = tmp_path / "psam_p01.csv"
    path.write_text(ALABAMA)
    return path


def test_codes_are_text_blanks_are_null_and_weights_are_numbers(alabama):
    batches = read_acs_pums(alabama)
    adult, child = batches.to_table().to_pylist()
    assert (adult["ST"], adult["PUMA"], adult["puma_id"]) == ("01", "02100", "0102100")
    assert (adult["INDP"], adult["OCCP"], adult["SOCP"], adult["NAICSP"]) == ("0170", "0010", "1191XX", "111")
    assert (adult["POWSP"], adult["POWPUMA"], adult["DIVISION"]) == ("001", "02190", 6)
    assert adult["SERIALNO"] == "2019HU0000001"
    assert [child[c] for c in ("WKHP", "SCHL", "PINCP", "INDP", "NAICSP", "SOCP")] == [None] * 6
    assert child["AGEP"] == 9
    assert [adult[name] for name in ("PWGTP", "PWGTP1", "PWGTP80")] == [25, 0, 79]
    assert all(batches.schema.field(n).type == pa.int64() for n in ["PWGTP", *REPLICATES, "AGEP"])


def test_codes_without_zeros_are_padded(tmp_path):
    path = tmp_path / "psam_p01.csv"
    path.write_text(
        text(record(ST="1", PUMA="100", INDP="170", OCCP="10", SERIALNO="84"), record(ST="1.0", PUMA="1400.0"))
    )
    people = read_acs_pums(path).to_table().to_pylist()
    assert [p["puma_id"] for p in people] == ["0100100", "0101400"]
    assert (people[0]["INDP"], people[0]["OCCP"], people[0]["SERIALNO"]) == ("0170", "0010", "84")


def test_state_may_be_called_state_and_old_replicate_weights_are_lower_case(tmp_path):
    path = tmp_path / "psam_p01.csv"
    path.write_text(ALABAMA.replace(",ST,", ",STATE,").replace("PWGTP1,", "pwgtp1,"))
    table = read_acs_pums(path, columns=["STATE", "puma_id", "PWGTP1"], states=["AL"]).to_table()
    assert table.to_pylist()[0] == {"STATE": "01", "puma_id": "0102100", "PWGTP1": 0}


def test_two_vintages_of_pumas_have_an_id_each(tmp_path):
    path = tmp_path / "psam_p01.csv"

    def both(old, new):
        return {("PUMA10" if k == "PUMA" else k): v for k, v in record(PUMA=old).items()} | {"PUMA20": new}

    path.write_text(text(both("02100", "-0009"), both("-9", "00301")))
    people = read_acs_pums(path, columns=["PUMA10", "puma10_id", "puma20_id"]).to_table().to_pylist()
    assert people == [
        {"PUMA10": "02100", "puma10_id": "0102100", "puma20_id": None},
        {"PUMA10": "-0009", "puma10_id": None, "puma20_id": "0100301"},
    ]


def test_a_zip_of_parts_is_read_in_order_without_unpacking(tmp_path):
    path = tmp_path / "csv_pus.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("psam_pusb.csv", WYOMING)
        archive.writestr("psam_pusa.csv", ALABAMA)
        archive.writestr("psam_husa.csv", "RT,WGTP\nH,1\n")
        archive.writestr("ACS2019_PUMS_README.pdf", b"%PDF")
    batches = read_acs_pums(path, columns=["puma_id", "AGEP"])
    assert batches.to_table()["puma_id"].to_pylist() == ["0102100", "0102100", "5600500"]
    assert [p.source.split(":")[-1] for p, _ in batches.pieces()] == ["psam_pusa.csv", "psam_pusb.csv"]
    assert [b["AGEP"].to_pylist() for _, bs in batches.pieces(start=1) for b in bs] == [[70]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["csv_pus.zip"]
    assert batches.fingerprint() == read_acs_pums(path, columns=["puma_id", "AGEP"], batch_size=1).fingerprint()


def test_a_folder_of_zips_and_files(tmp_path, alabama):
    with zipfile.ZipFile(tmp_path / "csv_pwy.zip", "w") as archive:
        archive.writestr("psam_p56.csv", WYOMING)
    with gzip.open(tmp_path / "ss16pak.csv.gz", "wt") as handle:
        handle.write(text(record(ST="02")))
    table = read_acs_pums(tmp_path, columns=["ST"]).to_table()
    assert table["ST"].to_pylist() == ["56", "01", "01", "02"]
    listed = read_acs_pums([alabama, tmp_path / "csv_pwy.zip"], columns=["ST"], where="AGEP > 40")
    assert listed.to_table()["ST"].to_pylist() == ["01", "56"]


def test_states_choose_files_by_name_and_rows_by_code(tmp_path, alabama):
    (tmp_path / "psam_p56.csv").write_text("damaged")
    (tmp_path / "psam_pusa.csv").write_text(text(record(ST="02"), record(ST="06"), record(ST="01", AGEP="3")))
    for states in (["AL", 6], ["01", "ca"]):
        people = read_acs_pums(tmp_path, columns=["ST"], where="AGEP > 5 or AGEP < 0", states=states).to_table()
        assert people["ST"].to_pylist() == ["01", "01", "06"]
    assert read_acs_pums(alabama, columns=["PUMA"], states="AL").to_table().num_rows == 2
    with pytest.raises(InputError, match="states="):
        read_acs_pums(alabama, states=["ZZ"])
    with pytest.raises(InputError):
        read_acs_pums(alabama, states=["CA"])


def test_what_is_no_person_file_is_said(tmp_path):
    households = tmp_path / "psam_h01.csv"
    households.write_text("RT,SERIALNO,WGTP\nH,1,2\n")
    with pytest.raises(FileError):
        read_acs_pums(households)
    other = tmp_path / "other.csv"
    other.write_text("RT,SERIALNO,WGTP\nH,1,2\n")
    with pytest.raises(FileError):
        read_acs_pums(other)
    other.write_text("")
    with pytest.raises(FileError):
        read_acs_pums(other)
    other.write_text("PWGTP,AGEP\n1,2\n")
    with pytest.raises(FileError):
        read_acs_pums(other, states=["AL"])
    assert "puma_id" not in read_acs_pums(other).schema.names


def test_the_encoding_is_said(tmp_path):
    path = tmp_path / "csv_pal.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("psam_p01.csv", text(record(SOCP="Ñ")).replace("CIT", "CITÉ").encode("latin-1"))
    with pytest.raises(FileError):
        read_acs_pums(path)
    people = read_acs_pums(path, columns=["SOCP", "CITÉ"], encoding="latin-1").to_table()
    assert people.to_pylist() == [{"SOCP": "Ñ", "CITÉ": 1}]


@pytest.mark.data
def test_a_real_sample(real_data):
    people = read_acs_pums(real_data / "pums_samples" / "us_acs2011_1yr_sample_persons.csv.gz").to_table()
    assert people.num_rows > 1_000
    assert set(map(len, people["puma_id"].to_pylist())) == {7}
    assert people["puma_id"][0].as_py() == "0101400"
    assert people["COW"].null_count > 0


@pytest.mark.parametrize(
    ("path", "options", "error"),
    [
        (None, {}, InputError),
        ("no.zip", {}, FileError),
        ("psam_p01.csv", {"columns": ["agep"]}, InputError),
        ("psam_p01.csv", {"column_types": {"AGPE": "string"}}, InputError),
        ("psam_p01.csv", {"encoding": "rot13"}, InputError),
        ("ragged.csv", {}, FileError),
        ("alike.csv", {}, FileError),
    ],
)
def test_what_cannot_be_read_is_refused(alabama, tmp_path, path, options, error):
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "ragged.csv").write_text(ALABAMA + "P,1,2\n")
    (tmp_path / "alike.csv").write_text(ALABAMA.replace(",AGEP,", ",pwgtp,", 1))
    with pytest.raises(error):
        read_acs_pums(path and tmp_path / path, **options).to_table()


@pytest.mark.parametrize("beside", ["csv_pal.zip", "psam_p01.csv.gz"])
def test_people_are_not_counted_twice(tmp_path, beside):
    plain = tmp_path / "psam_p01.csv"
    plain.write_text(text(record(), CHILD))
    if beside.endswith(".gz"):
        (tmp_path / beside).write_bytes(gzip.compress(plain.read_bytes()))
    else:
        with zipfile.ZipFile(tmp_path / beside, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(plain, plain.name)
    for path in (tmp_path, [plain, plain]):
        with pytest.raises(FileError):
            read_acs_pums(path)
    assert read_acs_pums(tmp_path / beside).to_table().num_rows == 2


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "UNPACKED", 1 << 20)
    with zipfile.ZipFile(tmp_path / "csv_pal.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("psam_p01.csv", text(record()) + "0" * (4 << 20))
    with pytest.raises(FileError):
        read_acs_pums(tmp_path / "csv_pal.zip")
