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


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("damage", [lambda b: b"\0" * 400, lambda b: b[:500], lambda b: b[:-7]])
def test_what_is_not_whole_is_refused(xpt, damage):
    xpt.write_bytes(damage(xpt.read_bytes()))
    with pytest.raises(FileError):
        read_brfss(xpt)


def test_without_a_reader_the_extra_is_named(xpt, monkeypatch):
    monkeypatch.setattr(brfss, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        read_brfss(xpt)
