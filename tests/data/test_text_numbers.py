"""Are numbers written as 1,234 or 45 % read where that is asked for, and every other text refused with its row?"""

from __future__ import annotations

import pyarrow as pa
import pytest

from crosslevel.data.text_numbers import read_text_numbers
from crosslevel.errors import InputError


@pytest.mark.parametrize("value", ["1,5", "12,34", "oops", ".", "1.234,5", "5 % of 6", "1 234", "$5", "--3"])
def test_other_text_is_refused_with_its_row(value):
    with pytest.raises(InputError) as refused:
        read_text_numbers(pa.array(["7"] * 70_000 + [value]), "votes")
    assert repr(value) in str(refused.value)
    assert "70,000" in str(refused.value)


def test_signs_exponents_and_blanks():
    values = pa.array([" -1,000 ", "+.5", "2e3", "1.", "0%", None, "  ", "5,678,901.5", "45 %"])
    assert read_text_numbers(values, "x").to_pylist() == [-1000.0, 0.5, 2000.0, 1.0, 0.0, None, None, 5678901.5, 0.45]
