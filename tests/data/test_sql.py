"""Delimited text is read as it is written."""

from __future__ import annotations

import pytest

from crosslevel.data.sql import open_table
from crosslevel.errors import InputError


@pytest.mark.parametrize("values", [["1_2", "1_12"], ["01001", "2"], ["1,5", "2"], ["12", "1234567890123456789"]])
def test_codes_stay_text(tmp_path, values):
    path = tmp_path / "a.csv"
    path.write_text("code;n\n" + "".join(f"{value};{i}\n" for i, value in enumerate(values)))
    assert open_table(path).answer("select * from people").to_pydict() == {"code": values, "n": [0, 1]}


def test_names_that_are_one_to_sql_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("fips,FIPS\n1,2\n")
    with pytest.raises(InputError):
        open_table(path)
