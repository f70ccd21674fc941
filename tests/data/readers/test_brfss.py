from __future__ import annotations

import sys
import zipfile

import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from crosslevel.data.readers import read_brfss
from crosslevel.errors import FileError, InputError, MissingExtraError

PEOPLE = {
    "_STATE": [1.0, 2.0, 72.0],
    "IDATE": ["01292016", "", "12312016"],
    "GENHLTH": [3.0, None, 9.0],
    "DROCDY3_": [0.0, 5.397605346934028e-79, 14.0],
    "_LLCPWT": [768.25, -0.5, 329.5],
}
EXPECTED = PEOPLE | {"IDATE": ["01292016", None, "12312016"], "DROCDY3_": [0.0, 0.0, 14.0]}


@pytest.fixture
def xpt(tmp_path):
    path = tmp_path / "LLCP2016.XPT"
    pyreadstat.write_xport(pd.DataFrame(PEOPLE), str(path), file_format_version=5)
    return path


def test_names_and_codes_are_kept_and_blanks_are_null(xpt):
    table = read_brfss(xpt)
    assert table.to_pydict() == EXPECTED
    assert table.schema.types == [pa.string() if name == "IDATE" else pa.float64() for name in PEOPLE]
    chosen = ["_LLCPWT", "IDATE", "_STATE"]
    assert list(read_brfss(xpt, columns=chosen).to_pydict().items()) == [(name, EXPECTED[name]) for name in chosen]
    with pytest.raises(InputError):
        read_brfss(xpt, columns=["GENHLT"])


def test_the_zip_with_a_blank_after_the_name(xpt, tmp_path):
    path = tmp_path / "LLCP2016XPT.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(xpt, "LLCP2016.XPT ")
    assert read_brfss(path).to_pydict() == EXPECTED
    xpt.rename(tmp_path / "LLCP2016.XPT ")
    assert read_brfss(xpt).to_pydict() == EXPECTED


@pytest.mark.parametrize("damage", [lambda b: b"\0" * 400, lambda b: b[:500], lambda b: b[:-7]])
def test_what_is_not_whole_is_refused(xpt, damage):
    xpt.write_bytes(damage(xpt.read_bytes()))
    with pytest.raises(FileError):
        read_brfss(xpt)


def test_without_a_reader_the_extra_is_named(xpt, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(MissingExtraError):
        read_brfss(xpt)
