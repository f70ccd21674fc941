"""Numbers that stand in a column as text, written as 1,234 or 45 %.

A column of text is never taken for numbers unasked, since codes look like them; ``--text-numbers votes`` asks for it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from crosslevel.errors import InputError

WRITTEN = r"^[+-]?(([0-9]{1,3}(,[0-9]{3})+|[0-9]+)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A number, with commas before every three digits or with none."""


def read_text_numbers(values: pa.Array, name: str) -> pa.Array:
    """Read text as numbers: commas between thousands are dropped, a percent sign divides by a hundred, blanks are missing.

    Parameters
    ----------
    values : pyarrow.Array of text
    name : str
        Name of the column, for messages.

    Examples
    --------
    >>> read_text_numbers(pa.array(["1,234", "45 %", "", "-0.5"]), "votes").to_pylist()
    [1234.0, 0.45, None, -0.5]
    >>> read_text_numbers(pa.array(["7", "1,5"]), "votes")
    Traceback (most recent call last):
    ...
    crosslevel.errors.InputError: text_numbers: column 'votes' holds '1,5' in row 1, which is no number ...
    """
    text = pc.utf8_trim_whitespace(values.cast(pa.string()))
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    hundredths = pc.ends_with(text, "%")
    digits = pc.utf8_rtrim(text, "% \u00a0")
    wrong = pc.fill_null(pc.invert(pc.match_substring_regex(digits, WRITTEN)), False)
    if pc.any(wrong).as_py():
        first = pc.index(wrong, True).as_py()
        raise InputError(
            f"text_numbers: column {name!r} holds {values[first].as_py()!r} in row {first:,}, which is no number (1,234.5 or 45 % "
            "would be); clean the cell, or leave the column out of text_numbers."
        )
    numbers = pc.replace_substring(digits, ",", "").cast(pa.float64())
    return pc.if_else(hundredths, pc.divide(numbers, 100.0), numbers)
