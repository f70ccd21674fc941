from __future__ import annotations

import zipfile

import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from crosslevel.data.readers import brfss, read_brfss
from crosslevel.errors import FileError, InputError, MissingExtraError

PEOPLE = pd.DataFrame(
    {
        "_STATE": [1.0, 2.0, 72.0],
        "IDATE": ["01292016", "", "12312016"],
        "PHYSHLTH": [88.0, 77.0, 99.0],
        "GENHLTH": [3.0, None, 9.0],
        "DROCDY3_": [0.0, 5.397605346934028e-79, 14.0],
        "_LLCPWT": [767.844566, -0.5, 329.659884],
    }
)
EXPECTED = {
    "_STATE": [1.0, 2.0, 72.0],
    "IDATE": ["01292016", None, "12312016"],
    "PHYSHLTH": [88.0, 77.0, 99.0],
    "GENHLTH": [3.0, None, 9.0],
    "DROCDY3_": [0.0, 0.0, 14.0],
    "_LLCPWT": [767.844566, -0.5, 329.659884],
}


@pytest.fixture
def xpt(tmp_path):
    path = tmp_path / "LLCP2016.XPT"
    pyreadstat.write_xport(PEOPLE, str(path), file_format_version=5)
    return path


@pytest.fixture(params=["pyreadstat", "pandas"])
def backend(request, monkeypatch):
    monkeypatch.setattr(brfss, "find_spec", lambda name: name == request.param or None)
    return request.param


def same(table, names=tuple(EXPECTED)):
    assert table.column_names == list(names)
    for name in names:
        values = EXPECTED[name]
        # SAS keeps numbers in IBM's floating point, with up to three bits fewer than IEEE's
        assert table[name].to_pylist() == (pytest.approx(values, rel=1e-14) if name == "_LLCPWT" else values), name


@pytest.mark.usefixtures("backend")
def test_names_and_codes_are_kept_and_blanks_are_null(xpt):
    table = read_brfss(xpt)
    same(table)
    assert table.schema.field("_STATE").type == pa.float64()
    assert table.schema.field("IDATE").type == pa.string()


@pytest.mark.usefixtures("backend")
def test_columns_come_in_the_order_asked(xpt):
    same(read_brfss(xpt, columns=["_LLCPWT", "IDATE", "_STATE"]), ("_LLCPWT", "IDATE", "_STATE"))
    with pytest.raises(InputError, match="columns="):
        read_brfss(xpt, columns=["GENHLT"])


@pytest.mark.usefixtures("backend")
def test_the_zip_with_a_blank_after_the_name(xpt, tmp_path):
    path = tmp_path / "LLCP2016XPT.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(xpt, "LLCP2016.XPT ")
    same(read_brfss(path))
    blank = xpt.rename(tmp_path / "LLCP2016.XPT ")
    same(read_brfss(blank))
    same(read_brfss(xpt))


def test_what_is_not_transport_format_is_said(tmp_path, xpt):
    path = tmp_path / "other.xpt"
    path.write_bytes(b"\x00" * 400)
    with pytest.raises(FileError):
        read_brfss(path)
    with pytest.raises(FileError):
        read_brfss(tmp_path / "LCP2016.XPT")
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"no zip")
    with pytest.raises(FileError):
        read_brfss(archive)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("readme.txt", "x")
    with pytest.raises(FileError):
        read_brfss(archive)


@pytest.mark.usefixtures("backend")
def test_a_truncated_file_is_named(xpt):
    xpt.write_bytes(xpt.read_bytes()[:500])
    with pytest.raises(FileError):
        read_brfss(xpt)


def test_without_a_reader_the_extra_is_named(xpt, monkeypatch):
    monkeypatch.setattr(brfss, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        read_brfss(xpt)


def test_one_file_at_a_time(xpt, tmp_path):
    same(read_brfss(tmp_path))
    (tmp_path / "LLCP2017.XPT").write_bytes(xpt.read_bytes())
    for path in (tmp_path, tmp_path / "LLCP*.XPT"):
        with pytest.raises(InputError):
            read_brfss(path)


def test_a_damaged_member_is_named(xpt, tmp_path):
    path = tmp_path / "damaged.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(xpt, "LLCP2016.XPT ")
    broken = bytearray(path.read_bytes())
    broken[60:70] = b"\xff" * 10
    path.write_bytes(broken)
    with pytest.raises(FileError):
        read_brfss(path)


def test_arguments_of_the_wrong_kind(xpt):
    with pytest.raises(InputError, match="columns="):
        read_brfss(xpt, columns="GENHLTH")
    with pytest.raises(InputError, match="path="):
        read_brfss(None)


def test_a_file_that_was_cut_short_is_refused(xpt):
    xpt.write_bytes(xpt.read_bytes()[:-7])
    with pytest.raises(FileError):
        read_brfss(xpt)
